import Type, { type Static } from "typebox";
import { IdText, Line, Lines } from "@statusmesh/shared/text";
import { Id, nullable, PageOf, paging, Timestamp } from "../http/wire.ts";
import { WriteSourceSchema } from "../targets/schema.ts";

/** Longest window, days. */
export const maxDays = 30;
const maxComponents = 1000;

const time = (description: string, example: string) =>
  Type.Unsafe<string>({ ...Timestamp, description, examples: [example] });

const fields = {
  title: Line({
    maxLength: 200,
    emptyCode: "EMPTY_TITLE",
    longCode: "TITLE_TOO_LONG",
    description: "Title on status pages, at most 200 characters",
    examples: ["Database upgrade"],
  }),
  description: nullable(
    Lines({
      maxLength: 5000,
      longCode: "DESCRIPTION_TOO_LONG",
      description: "Details on status pages, at most 5000 characters",
      examples: ["The shop is read-only."],
    }),
  ),
  starts_at: time("Start", "2026-11-28T22:00:00.000Z"),
  ends_at: time(`End: after the start, at most ${maxDays} days later`, "2026-11-29T02:00:00.000Z"),
  component_ids: Type.Array(
    IdText({ format: "uuid", description: "Id of a target", examples: ["01939f6d-4f2a-7b3c-9a52-8f0e6d1c2b3a"] }),
    {
      maxItems: maxComponents,
      description: "Targets under maintenance. A window without a public one is not published",
    },
  ),
};

const ignored = {
  write_source: Type.Optional(Type.Unknown({ description: "Decided by the server; ignored when sent" })),
};

export const MaintenanceCreate = Type.Object(
  { ...fields, description: Type.Optional(fields.description), ...ignored },
  { additionalProperties: false, title: "MaintenanceCreate", description: "A new maintenance window" },
);
export type MaintenanceCreate = Static<typeof MaintenanceCreate>;

export const MaintenancePatch = Type.Object(
  {
    title: Type.Optional(fields.title),
    description: Type.Optional(fields.description),
    starts_at: Type.Optional(fields.starts_at),
    ends_at: Type.Optional(fields.ends_at),
    component_ids: Type.Optional(fields.component_ids),
    ...ignored,
  },
  {
    additionalProperties: false,
    title: "MaintenancePatch",
    description: "Fields to change; omitted fields stay unchanged",
    examples: [{ ends_at: "2026-11-29T01:00:00.000Z" }],
  },
);
export type MaintenancePatch = Static<typeof MaintenancePatch>;

export const windowStates = ["upcoming", "active", "past"] as const;
export type WindowState = (typeof windowStates)[number];

export const Maintenance = Type.Object(
  {
    id: Id,
    ...fields,
    state: Type.Enum([...windowStates], { description: "State at the time of the reply", examples: ["upcoming"] }),
    write_source: WriteSourceSchema,
    created_at: Timestamp,
    updated_at: Timestamp,
  },
  {
    additionalProperties: false,
    title: "Maintenance",
    description: "A maintenance window: notifications of its targets are held, and status pages show it",
  },
);
export type Maintenance = Static<typeof Maintenance>;

export const MaintenancePage = PageOf(Maintenance);

export const MaintenanceListQuery = Type.Object({
  status: Type.Enum([...windowStates, "all"], { default: "all", description: "Only windows in this state" }),
  ...paging(50, 500),
});
export type MaintenanceListQuery = Static<typeof MaintenanceListQuery>;

import Type, { type Static } from "typebox";
import { IdText, Line, Lines } from "@statusmesh/shared/text";
import {
  described,
  Id,
  ManagedBy,
  managedByIgnored,
  nullable,
  PageOf,
  paging,
  Timestamp,
  WriteSourceSchema,
} from "../../platform/http/wire.ts";
import { TitleLine } from "../incidents/schema.ts";

/** Longest window, days. */
export const maxDays = 30;
const maxComponents = 1000;

const fields = {
  title: TitleLine("Title on status pages, at most 200 characters", "Database upgrade"),
  description: nullable(
    Lines({
      maxLength: 5000,
      longCode: "DESCRIPTION_TOO_LONG",
      emptyIsNull: true,
      description: "Details on status pages, at most 5000 characters",
      examples: ["The shop is read-only."],
    }),
  ),
  starts_at: described(Timestamp, "Start", "2026-11-28T22:00:00.000Z"),
  ends_at: described(Timestamp, `End: after the start, at most ${maxDays} days later`, "2026-11-29T02:00:00.000Z"),
  component_ids: Type.Array(
    IdText({
      format: "uuid",
      errorCode: "INVALID_COMPONENT_ID",
      description: "Id of a target",
      examples: ["01939f6d-4f2a-7b3c-9a52-8f0e6d1c2b3a"],
    }),
    {
      maxItems: maxComponents,
      description: "Targets under maintenance. A window without a public one is not published",
    },
  ),
};

const Recurrence = Type.Object(
  {
    rule: Line({
      maxLength: 200,
      errorCode: "INVALID_RECURRENCE",
      description:
        "RFC 5545 recurrence rule with FREQ (DAILY, WEEKLY, MONTHLY), INTERVAL, BYDAY, and COUNT or UNTIL. It must " +
        "include the first start. A monthly rule without BYDAY skips months without that day of the month",
      examples: ["FREQ=WEEKLY;BYDAY=SA"],
    }),
    time_zone: Line({
      maxLength: 64,
      errorCode: "INVALID_RECURRENCE",
      description:
        "IANA time zone in which every occurrence starts at the same local time, also when clocks change. A skipped " +
        "local time moves forward with the clock; of a repeated one the first counts",
      examples: ["Europe/Berlin"],
    }),
  },
  { additionalProperties: false, title: "Recurrence", description: "How a maintenance window repeats" },
);

const ignored = {
  write_source: Type.Optional(Type.Unknown({ description: "Decided by the server; ignored when sent" })),
  managed_by: managedByIgnored,
};

export const MaintenanceCreate = Type.Object(
  {
    ...fields,
    description: Type.Optional(fields.description),
    recurrence: Type.Optional(nullable(Recurrence)),
    ...ignored,
  },
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
    recurrence: Type.Optional(nullable(Recurrence)),
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

const occurrenceFields = {
  id: Id,
  starts_at: described(Timestamp, "Start", "2026-11-28T22:00:00.000Z"),
  ends_at: described(Timestamp, "End", "2026-11-29T02:00:00.000Z"),
};

const Nearest = Type.Object(occurrenceFields, {
  additionalProperties: false,
  title: "NearestOccurrence",
  description: "The occurrence in progress, else the next one, else the last one",
});

export const Maintenance = Type.Object(
  {
    id: Id,
    ...fields,
    starts_at: described(Timestamp, "Start of the first occurrence", "2026-11-28T22:00:00.000Z"),
    ends_at: described(Timestamp, "End of the first occurrence", "2026-11-29T02:00:00.000Z"),
    recurrence: nullable(Recurrence),
    occurrence: nullable(Nearest),
    state: Type.Enum([...windowStates], { description: "State at the time of the reply", examples: ["upcoming"] }),
    managed_by: ManagedBy,
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

export const Occurrence = Type.Object(
  {
    ...occurrenceFields,
    state: Type.Enum([...windowStates], { description: "State at the time of the reply", examples: ["upcoming"] }),
    cancelled: Type.Boolean({ description: "True for an occurrence that does not take place", examples: [false] }),
  },
  { additionalProperties: false, title: "Occurrence", description: "One time at which a maintenance window applies" },
);
export type Occurrence = Static<typeof Occurrence>;

export const OccurrencePage = PageOf(Occurrence);

export const OccurrenceListQuery = Type.Object({ ...paging(50, 500) });
export type OccurrenceListQuery = Static<typeof OccurrenceListQuery>;

export const OccurrencePatch = Type.Object(
  {
    ends_at: Type.Optional(described(Timestamp, "New end of this occurrence; now ends it", "2026-11-29T03:00:00.000Z")),
    cancelled: Type.Optional(
      Type.Boolean({ description: "True skips an upcoming occurrence, false restores it", examples: [true] }),
    ),
  },
  {
    additionalProperties: false,
    title: "OccurrencePatch",
    description: "Fields to change; omitted fields stay unchanged",
    examples: [{ cancelled: true }],
  },
);
export type OccurrencePatch = Static<typeof OccurrencePatch>;

export const OccurrenceParams = Type.Object({ id: Id, occurrence_id: Id });

const inState = { description: "Only windows in this state; all without it" };

export const MaintenanceListQuery = Type.Object({
  state: Type.Optional(Type.Enum([...windowStates, "all"], inState)),
  status: Type.Optional(Type.Enum([...windowStates, "all"], { description: "The same as `state`" })),
  ...paging(50, 500),
});
export type MaintenanceListQuery = Static<typeof MaintenanceListQuery>;

import Type, { type Static } from "typebox";
import { IdText, Line, Lines } from "@statusmesh/shared/text";
import {
  described,
  Flag,
  Id,
  ignored,
  ManagedBy,
  nullable,
  OneOf,
  PageOf,
  paging,
  Patch,
  Shape,
  Timestamp,
  WriteSourceSchema,
} from "../../platform/http/wire.ts";
import { TitleLine } from "../update-templates/schema.ts";

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

const Recurrence = Shape("Recurrence", "How a maintenance window repeats", {
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
});

export const MaintenanceCreate = Shape("MaintenanceCreate", "A new maintenance window", {
  ...fields,
  description: Type.Optional(fields.description),
  recurrence: Type.Optional(nullable(Recurrence)),
  ...ignored,
});
export type MaintenanceCreate = Static<typeof MaintenanceCreate>;

export const MaintenancePatch = Patch(
  "MaintenancePatch",
  { ends_at: "2026-11-29T01:00:00.000Z" },
  { ...fields, recurrence: nullable(Recurrence), ...ignored },
);
export type MaintenancePatch = Static<typeof MaintenancePatch>;

export const windowStates = ["upcoming", "active", "past"] as const;
export type WindowState = (typeof windowStates)[number];

const occurrenceFields = {
  id: Id,
  starts_at: described(Timestamp, "Start", "2026-11-28T22:00:00.000Z"),
  ends_at: described(Timestamp, "End", "2026-11-29T02:00:00.000Z"),
};

const Nearest = Shape(
  "NearestOccurrence",
  "The occurrence in progress, else the next one, else the last one",
  occurrenceFields,
);

export const Maintenance = Shape(
  "Maintenance",
  "A maintenance window: notifications of its targets are held, and status pages show it",
  {
    id: Id,
    ...fields,
    starts_at: described(Timestamp, "Start of the first occurrence", "2026-11-28T22:00:00.000Z"),
    ends_at: described(Timestamp, "End of the first occurrence", "2026-11-29T02:00:00.000Z"),
    recurrence: nullable(Recurrence),
    occurrence: nullable(Nearest),
    state: OneOf(windowStates, "State at the time of the reply", "upcoming"),
    managed_by: ManagedBy,
    write_source: WriteSourceSchema,
    created_at: Timestamp,
    updated_at: Timestamp,
  },
);
export type Maintenance = Static<typeof Maintenance>;

export const MaintenancePage = PageOf(Maintenance);

export const Occurrence = Shape("Occurrence", "One time at which a maintenance window applies", {
  ...occurrenceFields,
  state: OneOf(windowStates, "State at the time of the reply", "upcoming"),
  cancelled: Flag("True for an occurrence that does not take place", false),
});
export type Occurrence = Static<typeof Occurrence>;

export const OccurrencePage = PageOf(Occurrence);

export const OccurrenceListQuery = Type.Object({ ...paging(50, 500) });
export type OccurrenceListQuery = Static<typeof OccurrenceListQuery>;

export const OccurrencePatch = Patch(
  "OccurrencePatch",
  { cancelled: true },
  {
    ends_at: described(Timestamp, "New end of this occurrence; now ends it", "2026-11-29T03:00:00.000Z"),
    cancelled: Flag("True skips an upcoming occurrence, false restores it", true),
  },
);
export type OccurrencePatch = Static<typeof OccurrencePatch>;

export const OccurrenceParams = Type.Object({ id: Id, occurrence_id: Id });

const inState = { description: "Only windows in this state; all without it" };

export const MaintenanceListQuery = Type.Object({
  state: Type.Optional(Type.Enum([...windowStates, "all"], inState)),
  status: Type.Optional(OneOf([...windowStates, "all"], "The same as `state`")),
  ...paging(50, 500),
});
export type MaintenanceListQuery = Static<typeof MaintenanceListQuery>;

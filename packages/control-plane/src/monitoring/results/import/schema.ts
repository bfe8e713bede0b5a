import Type, { type Static } from "typebox";
import { Line } from "@statusmesh/shared/text";
import { described, Id, Integer, nullable, Shape, Timestamp } from "../../../platform/http/wire.ts";

/** Days and incidents of a target that are kept, and targets of a request. */
export const mostDays = 400;
export const mostIncidents = 1000;
const mostTargets = 1000;
/** Days and incidents of a request: each takes up to 60 µs of CPU time of the database. */
export const mostEntries = 10_000;

/** Sums over all days stay below 2^31. */
const count = (description: string, example: number) =>
  Type.Integer({ minimum: 0, maximum: 1_000_000, default: 0, description, examples: [example] });
const time = (description: string, example: string) => described(Timestamp, description, example);

const HistoryDay = Shape("HistoryDay", "Runs of a target in one UTC day", {
  date: Type.String({
    format: "date",
    pattern: "^\\d{4}-\\d{2}-\\d{2}$",
    expects: "Use a date, like 2026-11-20",
    description: `UTC day, at most ${mostDays} days ago`,
    examples: ["2026-11-20"],
  }),
  up: count("Runs that found it up", 1436),
  degraded: count("Runs that found it degraded", 0),
  down: count("Runs that found it down", 4),
  error: count("Runs that could not check it", 0),
  avg_ms: Type.Optional(
    nullable(
      Type.Number({ minimum: 0, maximum: 10_000_000, description: "Mean latency of the day, ms", examples: [101.7] }),
    ),
  ),
});

const HistoryIncident = Shape("HistoryIncident", "An incident that has ended", {
  started_at: time("Start", "2026-11-20T09:30:00.000Z"),
  ended_at: time("End", "2026-11-20T09:41:30.000Z"),
  title: Type.Optional(
    nullable(
      Line({
        maxLength: 200,
        emptyCode: "EMPTY_TITLE",
        longCode: "TITLE_TOO_LONG",
        description: "Title on status pages, at most 200 characters; null: derived from the component",
        examples: ["Payments are declined"],
      }),
    ),
  ),
});

export const HistoryImport = Shape("HistoryImport", "History from another product", {
  items: Type.Array(
    Shape("TargetHistory", "What another product recorded of a target", {
      target_id: { ...Id, description: "Target, once in a request" },
      days: Type.Array(HistoryDay, {
        maxItems: mostDays,
        default: [],
        description: `UTC days before the first own result, at most ${mostDays}`,
      }),
      incidents: Type.Array(HistoryIncident, {
        maxItems: mostIncidents,
        default: [],
        description: `Incidents before the first own result, at most ${mostIncidents}`,
      }),
    }),
    { minItems: 1, maxItems: mostTargets, sizeCodes: ["BULK_EMPTY", "BULK_TOO_LARGE"], description: "By target" },
  ),
});
export type HistoryImport = Static<typeof HistoryImport>;

export const HistoryImported = Shape("HistoryImported", "What was imported", {
  targets: Integer("Targets of the request", 1),
  days: Integer("Days that are stored now", 90),
  incidents: Integer("Incidents that are stored now", 2),
});

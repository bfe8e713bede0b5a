import Type, { type Static } from "typebox";
import { Line } from "@statusmesh/shared/text";
import { Id, nullable, Timestamp } from "../../platform/http/wire.ts";

/** Days and incidents of a target that are kept, and targets of a request. */
export const mostDays = 400;
export const mostIncidents = 1000;
const mostTargets = 1000;

const exact = { additionalProperties: false } as const;
/** Sums over all days stay below 2^31. */
const count = (description: string, example: number) =>
  Type.Integer({ minimum: 0, maximum: 1_000_000, default: 0, description, examples: [example] });
const time = (description: string, example: string) =>
  Type.Unsafe<string>({ ...Timestamp, description, examples: [example] });

const HistoryDay = Type.Object(
  {
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
  },
  { ...exact, title: "HistoryDay", description: "Runs of a target in one UTC day" },
);

const HistoryIncident = Type.Object(
  {
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
  },
  { ...exact, title: "HistoryIncident", description: "An incident that has ended" },
);

export const HistoryImport = Type.Object(
  {
    items: Type.Array(
      Type.Object(
        {
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
        },
        { ...exact, title: "TargetHistory", description: "What another product recorded of a target" },
      ),
      { minItems: 1, maxItems: mostTargets, sizeCodes: ["BULK_EMPTY", "BULK_TOO_LARGE"], description: "By target" },
    ),
  },
  { ...exact, title: "HistoryImport", description: "History from another product" },
);
export type HistoryImport = Static<typeof HistoryImport>;

export const HistoryImported = Type.Object(
  {
    targets: Type.Integer({ description: "Targets of the request", examples: [1] }),
    days: Type.Integer({ description: "Days that are stored now", examples: [90] }),
    incidents: Type.Integer({ description: "Incidents that are stored now", examples: [2] }),
  },
  { ...exact, title: "HistoryImported", description: "What was imported" },
);

import Type, { type Static } from "typebox";
import { AppError } from "../errors.ts";
import { dayMs, inUnits } from "../time.ts";
import type { CheckKind } from "./kind.ts";
import { Closed, Shape } from "../schema/shapes.ts";

const errorCode = "INVALID_HEARTBEAT";
const refuse = (message: string, field: string) => new AppError(errorCode, message, { field });

const HeartbeatSchedule = Closed(
  {
    cron: Type.String({
      minLength: 1,
      maxLength: 100,
      errorCode,
      description: "Five fields (minute, hour, day of month, month, day of week), or a nickname such as @daily",
      examples: ["0 3 * * *"],
    }),
    timezone: Type.String({
      minLength: 1,
      maxLength: 64,
      errorCode,
      description: "IANA time zone of the fields",
      examples: ["Europe/Berlin"],
    }),
  },
  { description: "When the job reports, in place of a period" },
);

/** Null and absent are the same. */
const nullable = (minimum: number, maximum: number, description: string, example: number, form: object) =>
  Type.Union([Type.Integer({ minimum, maximum }), Type.Null()], {
    default: null,
    errorCode,
    description,
    examples: [example],
    form,
  });

/** Longest time that a report may be late. */
export const maxGraceMs = 30 * dayMs;

export const HeartbeatCheck = Shape("HeartbeatCheck", "A job reports to the control plane", {
  type: Type.Literal("heartbeat"),
  period: nullable(10_000, 90 * dayMs, "Time between two reports, milliseconds; or else give a schedule", 86_400_000, {
    label: "When a report is expected",
    view: { name: "targets/fields/heartbeat-due", with: ["schedule"] },
  }),
  schedule: Type.Union([HeartbeatSchedule, Type.Null()], {
    default: null,
    errorCode,
    description: "When the job reports, in place of a period",
  }),
  grace: nullable(
    1000,
    maxGraceMs,
    "How late a report may be, milliseconds; default: a tenth of the period, one minute to 30 days",
    3_600_000,
    {
      control: "duration",
      label: "Grace",
      placeholder: "automatic",
      hint: "How late a report may be. Empty: a tenth of the time between reports, at least 1 min.",
    },
  ),
  max_runtime: nullable(
    1000,
    7 * dayMs,
    "Maximum run time after a reported start, milliseconds; null: no limit",
    7_200_000,
    {
      control: "duration",
      label: "Longest run",
      placeholder: "any",
      hint: "From a reported start to its end. Empty: no limit.",
      beside: true,
    },
  ),
  methods: Type.Enum(["any", "post"], {
    default: "any",
    errorCode,
    description: "Methods that count as a report: any of HEAD, GET and POST, or POST only",
    form: {
      section: "Advanced heartbeat options",
      label: "Accepted requests",
      options: { any: "HEAD, GET and POST", post: "POST only" },
      hint: "POST only keeps link previews and crawlers from reporting.",
    },
  }),
});
export type HeartbeatCheck = Static<typeof HeartbeatCheck>;

/** Reserved region: results of heartbeats carry it, and no agent can have it. */
export const heartbeatRegion = "heartbeat";

export const heartbeat: CheckKind<typeof HeartbeatCheck> = {
  type: "heartbeat",
  label: "Heartbeat",
  purpose: "A cron job, a backup: it reports here",
  icon: "heart",
  schema: HeartbeatCheck,
  minIntervalSecs: 10,
  defaultIntervalSecs: 86_400,
  rules(spec) {
    if ((spec.period === null) === (spec.schedule === null))
      throw refuse("Give either a period or a schedule: when is the next report expected?", "/period");
  },
  reported: true,
  destination: () => null,
  mapSecrets: (spec) => spec,
  secretsGoTo: () => null,
  summary: ({ period, schedule }) =>
    schedule === null ? `every ${inUnits(period!)}` : `${schedule.cron} (${schedule.timezone})`,
  searchText: ({ schedule }) => schedule?.cron ?? "",
};

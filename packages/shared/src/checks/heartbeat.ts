import { Cron } from "croner";
import Type, { type Static } from "typebox";
import { AppError } from "../errors.ts";
import { messageOf } from "../thrown.ts";
import { dayMs, inUnits, minuteMs } from "../time.ts";
import type { CheckKind } from "./kind.ts";

const errorCode = "INVALID_HEARTBEAT";
const refuse = (message: string, field: string) => new AppError(errorCode, message, { field });

const HeartbeatSchedule = Type.Object(
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
  { additionalProperties: false, description: "When the job reports, in place of a period" },
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

export const HeartbeatCheck = Type.Object(
  {
    type: Type.Literal("heartbeat"),
    period: nullable(
      10_000,
      90 * dayMs,
      "Time between two reports, milliseconds; or else give a schedule",
      86_400_000,
      {
        label: "When a report is expected",
        view: { name: "targets/fields/heartbeat-due", with: ["schedule"] },
      },
    ),
    schedule: Type.Union([HeartbeatSchedule, Type.Null()], {
      default: null,
      errorCode,
      description: "When the job reports, in place of a period",
    }),
    grace: nullable(
      1000,
      30 * dayMs,
      "How late a report may be, milliseconds; default: a tenth of the period, at least one minute",
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
      "How long a run may take after its start was reported, milliseconds; null: any time",
      7_200_000,
      {
        control: "duration",
        label: "Longest run",
        placeholder: "any",
        hint: "From a reported start to its end. Empty: any time.",
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
  },
  { additionalProperties: false, title: "HeartbeatCheck", description: "A job reports to the control plane" },
);
export type HeartbeatCheck = Static<typeof HeartbeatCheck>;

/** Reserved region: results of heartbeats carry it, and no agent can have it. */
export const heartbeatRegion = "heartbeat";

/** Minimum of the default grace. */
const leastGraceMs = minuteMs;

/** The schedule, compiled. Throws AppError. */
function compiled({ cron, timezone }: Static<typeof HeartbeatSchedule>): Cron {
  // The library also reads points in time and patterns with seconds or years.
  if (!/^(?:@\w+|\S+(?: +\S+){4})$/.test(cron.trim()))
    throw refuse(
      `"${cron}" is not a cron schedule. Write five fields (minute, hour, day of month, month, day of week), for ` +
        "example 0 3 * * *, or @hourly, @daily, @weekly, @monthly.",
      "/schedule/cron",
    );
  try {
    Intl.DateTimeFormat("en-US", { timeZone: timezone });
  } catch {
    throw refuse(`"${timezone}" is not an IANA time zone, for example Europe/Berlin.`, "/schedule/timezone");
  }
  try {
    return new Cron(cron.trim(), { mode: "5-part", timezone, paused: true });
  } catch (error) {
    throw refuse(
      `The cron schedule "${cron}" cannot be read: ${messageOf(error).replace(/^CronPattern: /, "")}`,
      "/schedule/cron",
    );
  }
}

/** The first time after `after` (both Unix ms) that the schedule names, in its zone; null when it never comes. */
export function nextOf(schedule: NonNullable<HeartbeatCheck["schedule"]>, after: number): number | null {
  return compiled(schedule).nextRun(new Date(after))?.getTime() ?? null;
}

/** Occurrences that are read for the longest time between two; from a fixed time, so that it is the same always. */
const occurrences = 20;
const reference = new Date("2026-01-01T00:00:00Z");

/** Longest time between two reports, ms; for a schedule that of its next occurrences. */
function periodOf({ period, schedule }: HeartbeatCheck): number {
  if (schedule === null) return period!;
  const cron = compiled(schedule);
  const times = cron.nextRuns(occurrences, reference).map((at) => at.getTime());
  return Math.max(...times.slice(1).map((at, n) => at - times[n]!), minuteMs);
}

export const heartbeat: CheckKind<typeof HeartbeatCheck> = {
  type: "heartbeat",
  label: "Heartbeat",
  purpose: "A cron job, a backup: it reports here",
  icon: "pulse",
  schema: HeartbeatCheck,
  minIntervalSecs: 10,
  defaultIntervalSecs: 86_400,
  rules(spec) {
    if ((spec.period === null) === (spec.schedule === null))
      throw refuse("Give either a period or a schedule: when is the next report expected?", "/period");
    if (spec.schedule !== null && nextOf(spec.schedule, reference.getTime()) === null)
      throw refuse(`The cron schedule "${spec.schedule.cron}" names a time that never comes.`, "/schedule/cron");
  },
  reported: {
    intervalSecs: (spec) => Math.ceil(periodOf(spec) / 1000),
    complete: (spec) => ({ ...spec, grace: spec.grace ?? Math.max(leastGraceMs, Math.floor(periodOf(spec) / 10)) }),
  },
  destination: () => null,
  mapSecrets: (spec) => spec,
  secretsGoTo: () => null,
  summary: ({ period, schedule }) =>
    schedule === null ? `every ${inUnits(period!)}` : `${schedule.cron} (${schedule.timezone})`,
  searchText: ({ schedule }) => schedule?.cron ?? "",
};

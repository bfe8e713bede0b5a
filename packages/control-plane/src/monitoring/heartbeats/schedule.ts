import { Cron } from "croner";
import { type HeartbeatCheck, maxGraceMs } from "@statusmesh/shared/checks/heartbeat";
import { AppError } from "@statusmesh/shared/errors";
import { messageOf } from "@statusmesh/shared/thrown";
import { minuteMs } from "@statusmesh/shared/time";

/* When the reports of a job are due by its schedule. Agents do not need it, so it is not among the check kinds. */

type Schedule = NonNullable<HeartbeatCheck["schedule"]>;

const refuse = (message: string, field: string) => new AppError("INVALID_HEARTBEAT", message, { field });

/** Fields of a schedule, with their values. */
const fields = ["minute (0-59)", "hour (0-23)", "day of month (1-31)", "month (1-12)", "day of week (0-7)"] as const;
const parse = (cron: string, timezone: string): Cron => new Cron(cron, { mode: "5-part", timezone, paused: true });

/** The first field that cannot be read; null where each can, and for a nickname. */
function faultIn(cron: string): { text: string; name: string; position: number } | null {
  const found = [...cron.matchAll(/\S+/g)];
  if (found.length !== fields.length) return null;
  for (const [n, { 0: text, index }] of found.entries()) {
    try {
      parse(fields.map((_, at) => (at === n ? text : "*")).join(" "), "UTC");
    } catch {
      return { text, name: fields[n]!, position: index + 1 };
    }
  }
  return null;
}

/** The schedule, compiled. Throws AppError. */
function compiled({ cron, timezone }: Schedule): Cron {
  // The library also reads points in time, patterns with seconds or years, and nicknames of events.
  if (!/^(?:@(?:hourly|daily|midnight|weekly|monthly|yearly|annually)|[^\s@]+(?: +[^\s@]+){4})$/i.test(cron.trim()))
    throw refuse(
      `"${cron}" is not a cron schedule. Write five fields (minute, hour, day of month, month, day of week), for ` +
        "example 0 3 * * *, or @hourly, @daily, @weekly, @monthly, @yearly.",
      "/schedule/cron",
    );
  try {
    Intl.DateTimeFormat("en-US", { timeZone: timezone });
  } catch {
    throw refuse(`"${timezone}" is not an IANA time zone, for example Europe/Berlin.`, "/schedule/timezone");
  }
  try {
    return parse(cron.trim(), timezone);
  } catch (error) {
    const fault = faultIn(cron);
    const words =
      fault === null
        ? messageOf(error).replace(/^CronPattern: /, "")
        : `at character ${fault.position}, "${fault.text}" is no ${fault.name}`;
    throw refuse(`The cron schedule "${cron}" cannot be read: ${words}.`, "/schedule/cron");
  }
}

/** The first time after `after` (both Unix ms) that the schedule names, in its zone; null when it never comes. */
export function nextOf(schedule: Schedule, after: number): number | null {
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

/** Minimum of the default grace. */
const leastGraceMs = minuteMs;

/** Refuses a schedule that cannot be read, or that names a time that never comes. After the rules of the kind. */
export function scheduleRule({ schedule }: HeartbeatCheck): void {
  if (schedule !== null && nextOf(schedule, reference.getTime()) === null)
    throw refuse(`The cron schedule "${schedule.cron}" names a time that never comes.`, "/schedule/cron");
}

/** The interval that follows from the check, seconds. */
export const intervalSecsOf = (spec: HeartbeatCheck): number => Math.ceil(periodOf(spec) / 1000);

/** The check with its default grace. */
export const withGrace = (spec: HeartbeatCheck): HeartbeatCheck => ({
  ...spec,
  grace: spec.grace ?? Math.min(maxGraceMs, Math.max(leastGraceMs, Math.floor(periodOf(spec) / 10))),
});

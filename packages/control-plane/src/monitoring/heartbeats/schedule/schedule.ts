import { Cron } from "croner";
import { LRUCache } from "lru-cache";
import { type HeartbeatCheck, maxGraceMs } from "@statusmesh/shared/checks/heartbeat";
import { AppError } from "@statusmesh/shared/errors";
import { messageOf } from "@statusmesh/shared/thrown";
import { minuteMs } from "@statusmesh/shared/time";
import { atMost, getOrMake } from "../../../platform/caches.ts";

/* When the reports of a job are due by its schedule. Agents do not need it, so it is not among the check kinds. */

type Schedule = NonNullable<HeartbeatCheck["schedule"]>;

const refuse = (message: string, field: string) => new AppError("INVALID_HEARTBEAT", message, { field });

/** Fields of a schedule, with their values. */
const fields = [
  { name: "minute (0-59)", least: 0, most: 59 },
  { name: "hour (0-23)", least: 0, most: 23 },
  { name: "day of month (1-31)", least: 1, most: 31 },
  { name: "month (1-12)", least: 1, most: 12 },
  { name: "day of week (0-7)", least: 0, most: 7 },
] as const;
type Field = (typeof fields)[number];

/** Nicknames of crontab(5). @reboot names no time. */
const nicknames = new Map([
  ["@hourly", "0 * * * *"],
  ["@daily", "0 0 * * *"],
  ["@midnight", "0 0 * * *"],
  ["@weekly", "0 0 * * 0"],
  ["@monthly", "0 0 1 * *"],
  ["@yearly", "0 0 1 1 *"],
  ["@annually", "0 0 1 1 *"],
]);

const isStar = (field: string): boolean => /^[*?]/.test(field);

/** A field with its steps written as the library reads them; `listed`: as a list of values. */
function spelled(text: string, { least, most }: Field, listed: boolean): string {
  const terms = text.split(",").map((term) => {
    const match = /^(?:[*?]|(\d{1,2})(?:-(\d{1,2}))?)(?:\/(\d{1,4}))?$/.exec(term);
    // cronsim ignores the step of a last day.
    if (match === null) return term.replace(/^(LW?)\/0*[1-9]\d*$/i, "$1");
    const [, from, to, step] = match;
    // cronsim reads 5/15 as 5-59/15; Debian's cron refuses it.
    const range =
      from === undefined ? "*" : to !== undefined || step === undefined ? term.split("/")[0]! : `${from}-${most}`;
    const [first = least, last = first] = range === "*" ? [least, most] : range.split("-").map(Number);
    const stepBy = Number(step ?? 1);
    if (listed && stepBy > 0 && first >= least && last <= most && first <= last)
      return Array.from({ length: Math.floor((last - first) / stepBy) + 1 }, (_, n) => first + n * stepBy).join(",");
    // The library refuses steps beyond the field; cron reads them as the first value.
    return step === undefined ? range : `${range}/${Math.min(stepBy, most - least + 1)}`;
  });
  return terms.join(",");
}

/**
 * A schedule as Vixie cron reads it. Day of month and day of week are joined by OR where neither field begins with a
 * star, else by AND. Where neither minute nor hour begins with one, a local time that occurs twice is due the first
 * time, and a skipped one at the end of the gap; other jobs run by the clock on the wall. Without a time zone a search
 * costs a seventh.
 */
function parse(cron: string, timezone: string | null): Cron {
  const parts = cron.split(/[ \t]+/);
  const isFixed = !isStar(parts[0]!) && !isStar(parts[1]!);
  const pattern = parts.map((text, n) => spelled(text, fields[n]!, isFixed && n < 2)).join(" ");
  return new Cron(pattern, {
    mode: "5-part",
    ...(timezone === null ? { utcOffset: 0 } : { timezone }),
    paused: true,
    domAndDow: isStar(parts[2]!) || isStar(parts[4]!),
    fixedTimeRule: "no-wildcard",
  });
}

/** The first field that cannot be read; null where each can. */
function faultIn(cron: string): { text: string; name: string; position: number } | null {
  for (const [n, { 0: text, index }] of [...cron.matchAll(/\S+/g)].entries()) {
    try {
      parse(fields.map((_, at) => (at === n ? text : "*")).join(" "), null);
    } catch {
      return { text, name: fields[n]!.name, position: index + 1 };
    }
  }
  return null;
}

/** The schedule, compiled for `zone`: its own, or null for the clock on the wall. Throws AppError. */
function compiled({ cron, timezone }: Schedule, zone: string | null): Cron {
  const text = nicknames.get(cron.trim().toLowerCase()) ?? cron.trim();
  // The library also reads points in time, and patterns with seconds or years.
  if (!/^[^\s@]+(?:[ \t]+[^\s@]+){4}$/.test(text))
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
    return parse(text, zone);
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
  return compiled(schedule, schedule.timezone).nextRun(new Date(after))?.getTime() ?? null;
}

/** Occurrences that are read for the longest time between two; from a fixed time, so that it is the same always. */
const occurrences = 20;
const reference = new Date("2026-01-01T00:00:00Z");

/** The longest time between two reports by a schedule, ms; null where it names a time that never comes. */
const periods = new LRUCache<string, { ms: number | null }>(atMost(10_000));

/** The period of a schedule, which every validation and every export needs. Throws AppError. */
function scheduledPeriod(schedule: Schedule): number | null {
  const read = (): { ms: number | null } => {
    const found = compiled(schedule, null).nextRuns(occurrences, reference);
    const times = found.map((at) => at.getTime());
    return { ms: times.length === 0 ? null : Math.max(...times.slice(1).map((at, n) => at - times[n]!), minuteMs) };
  };
  return getOrMake<string, { ms: number | null }>(periods, `${schedule.timezone} ${schedule.cron}`, read).ms;
}

/** Longest time between two reports, ms; for a schedule that of its next occurrences. */
const periodOf = ({ period, schedule }: HeartbeatCheck): number =>
  schedule === null ? period! : (scheduledPeriod(schedule) ?? minuteMs);

/** Minimum of the default grace. */
const leastGraceMs = minuteMs;

/** Refuses a schedule that cannot be read, or that names a time that never comes. After the rules of the kind. */
export function scheduleRule({ schedule }: HeartbeatCheck): void {
  if (schedule !== null && scheduledPeriod(schedule) === null)
    throw refuse(`The cron schedule "${schedule.cron}" names a time that never comes.`, "/schedule/cron");
}

/** The interval that follows from the check, seconds. */
export const intervalSecsOf = (spec: HeartbeatCheck): number => Math.ceil(periodOf(spec) / 1000);

/** The check with its default grace. */
export const withGrace = (spec: HeartbeatCheck): HeartbeatCheck => ({
  ...spec,
  grace: spec.grace ?? Math.min(maxGraceMs, Math.max(leastGraceMs, Math.floor(periodOf(spec) / 10))),
});

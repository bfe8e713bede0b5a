import { AppError } from "@statusmesh/shared/errors";
import { dayMs, minuteMs } from "@statusmesh/shared/time";
import { instantOf, localOf, zoneName } from "@statusmesh/shared/zoned";
import { type ActiveHours, weekdays } from "./schema.ts";

/*
 * Active hours follow the clock on the wall of their zone: a day that is an hour longer has an hour more of them where
 * the hour that repeats is among them.
 */

const invalid = (message: string, field: string) => new AppError("INVALID_ACTIVE_HOURS", message, { field });

/** Minutes since midnight of `HH:MM`. */
const minutesOf = (text: string): number => Number(text.slice(0, 2)) * 60 + Number(text.slice(3));

/** The hours with the canonical name of their zone and the days in order. Throws INVALID_ACTIVE_HOURS. */
export function checkedHours(hours: ActiveHours | null): ActiveHours | null {
  if (hours === null) return null;
  const timezone = zoneName(hours.timezone);
  if (timezone === null)
    throw invalid(
      `${hours.timezone} is no IANA time zone. Use a name like Europe/Berlin or UTC.`,
      "/active_hours/timezone",
    );
  if (hours.from === hours.to)
    throw invalid(
      "from and to are the same time. Leave active_hours out for a channel without limits.",
      "/active_hours/to",
    );
  return { ...hours, timezone, days: weekdays.filter((day) => hours.days.includes(day)) };
}

/** True when the channel is within its hours at `at`, Unix ms; always without hours. */
export function isWithin(hours: ActiveHours | null, at: number): boolean {
  if (hours === null) return true;
  const local = localOf(at, hours.timezone);
  const minute = Math.floor((((local % dayMs) + dayMs) % dayMs) / minuteMs);
  const [from, to] = [minutesOf(hours.from), minutesOf(hours.to)];
  const isDay = (time: number) => hours.days.includes(weekdayOf(time));
  if (from < to) return isDay(local) && minute >= from && minute < to;
  // Past midnight the hours belong to the day on which they began.
  return (isDay(local) && minute >= from) || (isDay(local - dayMs) && minute < to);
}

/** `local` is Unix ms of the same digits in UTC. 1970-01-01 was a Thursday. */
const weekdayOf = (local: number) => weekdays[(((Math.floor(local / dayMs) + 3) % 7) + 7) % 7]!;

/** When the hours begin next, Unix ms: `at` itself within them. */
export function nextBegin(hours: ActiveHours | null, at: number): number {
  if (hours === null || isWithin(hours, at)) return at;
  const today = Math.floor(localOf(at, hours.timezone) / dayMs) * dayMs;
  for (let day = 0; day <= 8; day++) {
    const begin = beginOn(hours, today + day * dayMs, at);
    if (begin !== null) return begin;
  }
  return at + 7 * dayMs;
}

/** The first instant after `at` of the hours that begin on a local day; null where there is none. */
function beginOn(hours: ActiveHours, day: number, at: number): number | null {
  const local = day + minutesOf(hours.from) * minuteMs;
  const exact = instantOf(local, hours.timezone);
  const skipped = localOf(exact, hours.timezone) - local;
  // A time that the clock skips: the hours begin with the first minute after it.
  const begin = skipped > 0 ? firstAfterGap(exact, skipped, hours) : exact;
  if (begin > at && isWithin(hours, begin)) return begin;
  // The second of two equal times, where the first is over.
  for (let later = begin + 15 * minuteMs; later <= begin + 180 * minuteMs; later += 15 * minuteMs)
    if (later > at && localOf(later, hours.timezone) === local && isWithin(hours, later)) return later;
  return null;
}

/** `exact` is `skipped` ms later than asked on the clock: the gap ended in between. */
function firstAfterGap(exact: number, skipped: number, { timezone }: ActiveHours): number {
  let [before, after] = [exact - skipped, exact];
  const offset = (instant: number) => localOf(instant, timezone) - instant;
  while (after - before > minuteMs) {
    const middle = before + Math.floor((after - before) / 2 / minuteMs) * minuteMs;
    if (offset(middle) === offset(exact)) after = middle;
    else before = middle;
  }
  return offset(before) === offset(exact) ? before : after;
}

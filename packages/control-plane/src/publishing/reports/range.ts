import { AppError } from "@statusmesh/shared/errors";
import { dayMs, hourMs, utcDay } from "@statusmesh/shared/time";
import { parseTime } from "../../platform/http/query.ts";
import type { Interval } from "../../platform/intervals.ts";
import { instantOf, localOf } from "@statusmesh/shared/zoned";

/** Longest range of a report, days. */
const mostDays = 400;

const isDate = (text: string): boolean => /^\d{4}-\d{2}-\d{2}$/.test(text);

/** Start of a day of a zone, `days` later. Throws INVALID_QUERY for a day that no calendar has. */
function startOfDay(date: string, zone: string, days: number, field: string): number {
  const at = Date.parse(`${date}T00:00:00Z`);
  if (Number.isNaN(at) || utcDay(at) !== date)
    throw new AppError("INVALID_QUERY", `There is no day ${date}. Use one like 2026-11-01.`, { field });
  parseTime(`${date}T00:00:00Z`, field);
  return instantOf(at + days * dayMs, zone);
}

/** The days of a zone that a range touches. */
export function daysOf({ start, end }: Interval, zone: string): Interval[] {
  const days: Interval[] = [];
  for (let local = Date.parse(utcDay(localOf(start, zone))); ; local += dayMs) {
    const day = { start: instantOf(local, zone), end: instantOf(local + dayMs, zone) };
    if (day.start >= end) return days;
    days.push(day);
  }
}

/** Start of the month of a zone, `months` later. */
export function startOfMonth(at: number, zone: string, months = 0): number {
  const local = new Date(localOf(at, zone));
  return instantOf(Date.UTC(local.getUTCFullYear(), local.getUTCMonth() + months, 1), zone);
}

/**
 * The range of a report, Unix ms: days of a zone, the last one included, or times, the end not included. By default the
 * month of the end so far, and until now; nothing later than now is in it. Throws INVALID_QUERY and BAD_TIME_RANGE.
 */
export function reportRange(
  asked: { from?: string | undefined; to?: string | undefined },
  zone: string,
  now: number,
): Interval {
  const time = (text: string, days: number, field: string) =>
    isDate(text) ? startOfDay(text, zone, days, field) : parseTime(text, field).getTime();
  const to = asked.to === undefined ? now : time(asked.to, 1, "/query/to");
  const start = asked.from === undefined ? startOfMonth(to - 1, zone) : time(asked.from, 0, "/query/from");
  const wrong = (words: string) =>
    new AppError("BAD_TIME_RANGE", words, { field: asked.from === undefined ? "/query/to" : "/query/from" });
  const iso = (at: number) => new Date(at).toISOString();
  if (to <= start) throw wrong(`The range ends at ${iso(to)}, which is not after its start at ${iso(start)}.`);
  // An hour more: clocks that are set back make a day longer.
  if (to - start > mostDays * dayMs + hourMs) throw wrong(`The range is longer than ${mostDays} days.`);
  if (start >= now) throw wrong(`The range begins at ${iso(start)}, which is in the future.`);
  return { start, end: Math.min(to, now) };
}

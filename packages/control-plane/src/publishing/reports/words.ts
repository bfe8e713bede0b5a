import * as format from "../../platform/html/format.ts";
import { utcDay } from "@statusmesh/shared/time";
import { localOf } from "@statusmesh/shared/zoned";
import { getOrMake } from "../../platform/caches.ts";
import type { UptimeRow } from "./schema.ts";

/** A day of the calendar of a report; `state` is that of a cell of history. */
export interface CalendarDay {
  date: string;
  downtimeSecs: number;
  state: "up" | "degraded" | "partial" | "down" | "none";
}

/** Downtime of a day, all monitors together, from which on it has the state. */
const downFrom = [
  ["down", 3600],
  ["partial", 600],
  ["degraded", 1],
] as const;

/** The months of a report: the name of each, the empty cells before its first day (weeks begin on Monday), its days. */
export function calendarOf(
  days: readonly { at: number; downtime_secs: number }[],
  gaps: UptimeRow["gaps"],
  zone: string,
): { name: string; before: number; days: CalendarDay[] }[] {
  const without = gaps.map(({ from, to }) => ({ start: Date.parse(from), end: Date.parse(to) }));
  const months = new Map<string, CalendarDay[]>();
  for (const [at, { at: start, downtime_secs: downtimeSecs }] of days.entries()) {
    const end = days[at + 1]?.at ?? start + 1;
    const isMeasured = !without.some((gap) => gap.start <= start && gap.end >= end);
    const state = downFrom.find(([, secs]) => downtimeSecs >= secs)?.[0] ?? (isMeasured ? "up" : "none");
    const date = utcDay(localOf(start, zone));
    getOrMake(months, date.slice(0, 7), () => []).push({ date, downtimeSecs, state });
  }
  return [...months].map(([month, own]) => ({
    name: format.month(new Date(`${month}-01`)),
    before: (new Date(own[0]!.date).getUTCDay() + 6) % 7,
    days: own,
  }));
}

/** Gaps of a row that are listed; the others are counted. */
const shownGaps = 3;

/** The gaps of a row in words, in the zone, and how many more there are. */
export function gapsOf({ gaps }: Pick<UptimeRow, "gaps">, zone: string): { shown: string[]; more: number } {
  const time = (at: string) => {
    const local = new Date(localOf(Date.parse(at), zone));
    return `${format.day(local)} ${local.toISOString().slice(11, 16)}`;
  };
  return {
    shown: gaps.slice(0, shownGaps).map(({ from, to }) => `${time(from)} to ${time(to)}`),
    more: Math.max(0, gaps.length - shownGaps),
  };
}

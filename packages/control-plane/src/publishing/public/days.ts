import { dayMs } from "@statusmesh/shared/time";
import { instantOf, localOf } from "../../platform/zoned.ts";
import type { Interval } from "../../platform/intervals.ts";

/** A calendar day of a time zone. */
export interface Day extends Interval {
  /** `2026-11-20` */
  date: string;
}

/** The last `count` days of a time zone up to that of `now`, oldest first. The last one ends at `now`. */
export function daysUntil(now: number, count: number, timeZone: string): Day[] {
  const today = Math.floor(localOf(now, timeZone) / dayMs) * dayMs;
  const starts = Array.from({ length: count }, (_, at) => instantOf(today - (count - 1 - at) * dayMs, timeZone));
  return starts.map((start, at) => ({
    date: new Date(today - (count - 1 - at) * dayMs).toISOString().slice(0, 10),
    start,
    end: starts[at + 1] ?? now,
  }));
}

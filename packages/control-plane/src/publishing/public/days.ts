import { LRUCache } from "lru-cache";
import type { Interval } from "./intervals.ts";

/** A calendar day of a time zone. */
export interface Day extends Interval {
  /** `2026-11-20` */
  date: string;
}

const dayMs = 86_400_000;
/** By time zone. A format holds about 40 kB. */
const formats = new LRUCache<string, Intl.DateTimeFormat>({ max: 100 });

/** Offset of a time zone from UTC at a time, ms. */
function offsetAt(at: number, timeZone: string): number {
  let format = formats.get(timeZone);
  if (format === undefined) {
    format = new Intl.DateTimeFormat("en-US", {
      timeZone,
      hourCycle: "h23",
      year: "numeric",
      month: "numeric",
      day: "numeric",
      hour: "numeric",
      minute: "numeric",
      second: "numeric",
    });
    formats.set(timeZone, format);
  }
  const part = Object.fromEntries(format.formatToParts(at).map(({ type, value }) => [type, Number(value)]));
  const { year, month, day, hour, minute, second } = part as Record<string, number>;
  return Date.UTC(year!, month! - 1, day!, hour!, minute!, second!) - Math.floor(at / 1000) * 1000;
}

/** First moment of a calendar day, which is `midnight` read as UTC. */
function startOf(midnight: number, timeZone: string): number {
  const before = midnight - offsetAt(midnight - dayMs / 2, timeZone);
  const after = midnight - offsetAt(before, timeZone);
  // Where the clock skips midnight, the later offset leads into the day before.
  return after + offsetAt(after, timeZone) < midnight ? before : after;
}

/** The last `count` days of a time zone up to that of `now`, oldest first. The last one ends at `now`. */
export function daysUntil(now: number, count: number, timeZone: string): Day[] {
  const today = Math.floor((now + offsetAt(now, timeZone)) / dayMs) * dayMs;
  const starts = Array.from({ length: count }, (_, at) => startOf(today - (count - 1 - at) * dayMs, timeZone));
  return starts.map((start, at) => ({
    date: new Date(today - (count - 1 - at) * dayMs).toISOString().slice(0, 10),
    start,
    end: starts[at + 1] ?? now,
  }));
}

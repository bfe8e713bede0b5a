import { dayMs, hourMs } from "@statusmesh/shared/time";
import type { Range } from "./range.ts";

/** Retention of raw results, days. */
export const resultDays = 90;

/** A day is packed this long after its end. Most results of agents that were offline have arrived by then. */
export const packAfterMs = 3 * hourMs;
/** Results of days that ended longer ago than this may meet a sealed day; less than {@link packAfterMs} by an hour. */
export const oldAfterMs = 2 * hourMs;

/** From this length on ranges are answered by the hour: one of 60 slices is an hour. */
const longMs = 60 * hourMs;

/** Whether a range is answered from whole hours: it is long, or starts before the raw results. `now` is Unix ms. */
export const isByHour = ({ from, to }: Range, now: number): boolean =>
  to.getTime() - from.getTime() >= longMs || from.getTime() < now - resultDays * dayMs;

/** The parts of a range by source, by slot. They cover the range without overlap. */
export interface Sources {
  /** Whole hours with sums; null for none. */
  hours: Range | null;
  /** The rest, from raw results. */
  runs: Range[];
}

/**
 * Splits a range into whole hours with sums and the rest: partial hours at both ends and hours that are not rolled up
 * yet. Hours before `countedTo` have sums; null: none has.
 */
export function sourcesOf(range: Range, countedTo: Date | null): Sources {
  if (countedTo === null) return { hours: null, runs: [range] };
  const first = Math.ceil(range.from.getTime() / hourMs) * hourMs;
  const end = Math.min(Math.floor(range.to.getTime() / hourMs) * hourMs, countedTo.getTime());
  if (end <= first) return { hours: null, runs: [range] };
  const hours = { from: new Date(first), to: new Date(end) };
  return {
    hours,
    runs: [
      { from: range.from, to: hours.from },
      { from: hours.to, to: range.to },
    ].filter(({ from, to }) => from < to),
  };
}

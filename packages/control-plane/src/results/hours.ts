import type { Range } from "./range.ts";

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

/** How many days single results are kept. */
export const resultDays = 90;

/** Ranges from here on are answered by the hour: the point where one of 60 slices is an hour. */
const longMs = 60 * hourMs;

/** Whether a range is answered from whole hours: it is long, or begins where single results are gone. `now` is Unix ms. */
export const isByHour = ({ from, to }: Range, now: number): boolean =>
  to.getTime() - from.getTime() >= longMs || from.getTime() < now - resultDays * dayMs;

/** Where the parts of a range are read, by slot. Together they are the range, and no two of them meet. */
export interface Sources {
  /** Whole hours that are summed up; null when there is none in the range. */
  hours: Range | null;
  /** The rest, from the results themselves. */
  runs: Range[];
}

/**
 * Splits a range into the whole hours that are summed up and what lies around them: begun hours at both ends, and hours
 * that the rollup has not come to yet. `summed` are the hours that have been; null when none has.
 */
export function sourcesOf(range: Range, summed: Range | null): Sources {
  if (summed === null) return { hours: null, runs: [range] };
  const first = Math.max(Math.ceil(range.from.getTime() / hourMs) * hourMs, summed.from.getTime());
  const end = Math.min(Math.floor(range.to.getTime() / hourMs) * hourMs, summed.to.getTime());
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

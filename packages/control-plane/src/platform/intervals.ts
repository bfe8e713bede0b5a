/** A time range, Unix ms; the end does not belong to it. */
export interface Interval {
  start: number;
  end: number;
}

/** The union of the ranges: sorted, without overlap and without empty ones. */
export function union(ranges: readonly Interval[]): Interval[] {
  const merged: Interval[] = [];
  for (const { start, end } of ranges.filter((one) => one.end > one.start).sort((a, b) => a.start - b.start)) {
    const last = merged.at(-1);
    if (last !== undefined && start <= last.end) last.end = Math.max(last.end, end);
    else merged.push({ start, end });
  }
  return merged;
}

/** The time that is in both unions. */
export function intersection(a: readonly Interval[], b: readonly Interval[]): Interval[] {
  const common: Interval[] = [];
  for (let i = 0, j = 0; i < a.length && j < b.length;) {
    const start = Math.max(a[i]!.start, b[j]!.start);
    const end = Math.min(a[i]!.end, b[j]!.end);
    if (end > start) common.push({ start, end });
    if (a[i]!.end < b[j]!.end) i++;
    else j++;
  }
  return common;
}

/** The time of the union `a` that is not in the union `b`. */
export function difference(a: readonly Interval[], b: readonly Interval[]): Interval[] {
  const rest: Interval[] = [];
  let first = 0;
  for (const { start, end } of a) {
    while (first < b.length && b[first]!.end <= start) first++;
    let from = start;
    for (let at = first; at < b.length && b[at]!.start < end; at++) {
      if (b[at]!.start > from) rest.push({ start: from, end: b[at]!.start });
      from = b[at]!.end;
    }
    if (from < end) rest.push({ start: from, end });
  }
  return rest;
}

/** Milliseconds of a union. */
export const length = (ranges: readonly Interval[]): number =>
  ranges.reduce((total, { start, end }) => total + end - start, 0);

/** A time range, Unix ms; the end does not belong to it. */
export interface Interval {
  start: number;
  end: number;
}

/** The union of the ranges: sorted, without overlap and without empty ones. */
export function union(ranges: readonly Interval[]): Interval[] {
  const merged: Interval[] = [];
  let last: Interval | undefined;
  for (const { start, end } of ranges.toSorted((a, b) => a.start - b.start)) {
    if (end <= start) continue;
    if (last === undefined || start > last.end) merged.push((last = { start, end }));
    else if (end > last.end) last.end = end;
  }
  return merged;
}

/** The time that is in both unions. */
export function intersection(a: readonly Interval[], b: readonly Interval[]): Interval[] {
  // A monitor has few outages, and may have thousands of maintenance windows.
  const [few, many] = a.length < b.length ? [a, b] : [b, a];
  const common: Interval[] = [];
  for (const one of few)
    for (let at = firstAfter(many, one.start); at < many.length && many[at]!.start < one.end; at++) {
      const [start, end] = [Math.max(one.start, many[at]!.start), Math.min(one.end, many[at]!.end)];
      if (end > start) common.push({ start, end });
    }
  return common;
}

/** Index of the first of a union's spans that ends after a time. */
export function firstAfter(spans: readonly Interval[], time: number): number {
  let [low, high] = [0, spans.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (spans[middle]!.end > time) high = middle;
    else low = middle + 1;
  }
  return low;
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

/** A union that says how much of a range is in it, in O(log n). */
export class Coverage {
  readonly #spans: readonly Interval[];
  /** Milliseconds of the spans before each one. */
  readonly #before: Float64Array;
  readonly #total: number;

  constructor(spans: readonly Interval[]) {
    this.#spans = spans;
    let total = 0;
    this.#before = Float64Array.from(spans, ({ start, end }) => {
      total += end - start;
      return total - end + start;
    });
    this.#total = total;
  }

  /** Number of spans. */
  get size(): number {
    return this.#spans.length;
  }

  /** Milliseconds of disjoint ranges that are in the union. */
  within(ranges: readonly Interval[]): number {
    return ranges.reduce((total, { start, end }) => total + this.#until(end) - this.#until(start), 0);
  }

  /** Milliseconds of the union before a time. */
  #until(time: number): number {
    const at = firstAfter(this.#spans, time);
    const before = this.#before[at] ?? this.#total;
    return before + Math.max(0, time - (this.#spans[at]?.start ?? time));
  }
}

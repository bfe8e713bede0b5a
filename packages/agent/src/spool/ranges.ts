/** A set of integers in long runs: each run is [first, one past the last]. */
export class Ranges {
  // Sorted, without overlaps or adjacent runs.
  #runs: [number, number][] = [];

  constructor(runs: readonly (readonly [number, number])[] = []) {
    for (const [from, to] of runs) this.add(from, to);
  }

  /** The runs, in order. */
  runs(): [number, number][] {
    return this.#runs.map(([from, to]) => [from, to]);
  }

  /** One past the highest number; 0 when empty. */
  get end(): number {
    return this.#runs.at(-1)?.[1] ?? 0;
  }

  /** Adds the numbers from `from` up to but not including `to`. */
  add(from: number, to = from + 1): void {
    if (from >= to) return;
    const first = this.#firstEndingAtOrAfter(from);
    let last = first;
    let [low, high] = [from, to];
    for (let run = this.#runs[last]; run !== undefined && run[0] <= to; run = this.#runs[++last]) {
      low = Math.min(low, run[0]);
      high = Math.max(high, run[1]);
    }
    this.#runs.splice(first, last - first, [low, high]);
  }

  has(n: number): boolean {
    const run = this.#runs[this.#firstEndingAtOrAfter(n + 1)];
    return run !== undefined && run[0] <= n;
  }

  /** Counts the members from `from` up to but not including `to`. */
  countIn(from: number, to: number): number {
    let count = 0;
    for (let at = this.#firstEndingAtOrAfter(from); ; at++) {
      const run = this.#runs[at];
      if (run === undefined || run[0] >= to) return count;
      count += Math.max(0, Math.min(to, run[1]) - Math.max(from, run[0]));
    }
  }

  /** Removes the numbers below `n`. */
  cut(n: number): void {
    this.#runs.splice(0, this.#firstEndingAtOrAfter(n + 1));
    const first = this.#runs[0];
    if (first !== undefined && first[0] < n) first[0] = n;
  }

  #firstEndingAtOrAfter(n: number): number {
    let low = 0;
    let high = this.#runs.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#runs[middle]![1] < n) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

import { jitterOfSeed } from "@statusmesh/shared/schedule";
import { numbersIn } from "../../../platform/db/client/number-arrays.ts";
import type { Phase } from "./phases.ts";
import type { RunArrays } from "../runs-queries.ts";

/** A run of {@link visitRuns}. Times are in ms, as in the database in single precision; NaN for null. */
export interface VisitedRun extends Record<Phase | "total", number> {
  /** Unix ms. */
  slot: number;
  /** Unix ms; that of the slot when it was not asked for. */
  time: number;
  status: number;
  /** False for skipped runs and rechecks. */
  counts: boolean;
}

/** Status in the flags of a run. */
export const runStatus = { up: 0, down: 1, degraded: 2, error: 3 } as const;

/** Calls `visit` for each run, with one object that changes. The caller leaves out slots that are not in the range. */
export function visitRuns([day = null, ...arrays]: RunArrays, visit: (run: VisitedRun) => void): void {
  const isPacked = day !== null;
  const [first, interval, seed, pct, start, length] = numbersIn(day) as Iterable<number> as DayNumbers;
  const [slots, times, flags, dns, connect, tls, rest, total] = arrays.map((bytes) => bytes && numbersIn(bytes));
  const ms = (value: number) => (isPacked ? Math.fround(value / 1000) : value);
  const run = { slot: 0, time: 0, status: 0, counts: true, dns: 0, connect: 0, tls: 0, ttfb: 0, total: 0 };
  const runs = isPacked ? length : slots!.length;
  for (let n = 0; n < runs; n++) {
    const flag = flags ? flags[n]! : 0;
    run.status = flag & 3;
    run.counts = flag < 4;
    const d = dns ? dns[n]! : NaN;
    const c = connect ? connect[n]! : NaN;
    const t = tls ? tls[n]! : NaN;
    const r = rest ? rest[n]! : NaN;
    const all = total ? total[n]! : NaN;
    run.dns = ms(d);
    run.connect = ms(c);
    run.tls = ms(t);
    run.total = ms(all);
    if (isPacked) {
      // Positions are stored in 32 bits.
      run.slot = first + (((start + n) * interval + (slots ? slots[n]! : 0)) >>> 0);
      run.time = run.slot + (times ? times[n]! : 0);
      if (times && flag < 8) run.time += jitterOfSeed(seed, run.slot, interval, pct);
      run.ttfb = ms(Number.isNaN(all) ? r : all - (d || 0) - (c || 0) - (t || 0) - r);
    } else {
      run.slot = slots![n]!;
      run.time = times ? times[n]! : run.slot;
      run.ttfb = r;
    }
    visit(run);
  }
}

/** Numbers of a packed day: see {@link RunArrays}. */
type DayNumbers = [first: number, interval: number, seed: number, pct: number, start: number, length: number];

/**
 * Percentile as percentile_cont of SQL: between two values by the share of their distance. It reorders the values. A
 * sort of 30 numbers took ten times as long.
 */
export function percentileOf(values: number[], share: number): number {
  const rank = share * (values.length - 1);
  const below = Math.floor(rank);
  const low = selectNth(values, below);
  if (rank === below) return low;
  let high = Infinity;
  for (let n = below + 1; n < values.length; n++) high = Math.min(high, values[n]!);
  return low + (rank - below) * (high - low);
}

/** The nth smallest value, from 0; moves it there, with none that is less after it (Hoare's quickselect). */
function selectNth(values: number[], nth: number): number {
  let [left, right] = [0, values.length - 1];
  while (left < right) {
    const pivot = values[(left + right) >> 1]!;
    let [i, j] = [left, right];
    while (i <= j) {
      while (values[i]! < pivot) i++;
      while (values[j]! > pivot) j--;
      if (i > j) break;
      const moved = values[i]!;
      values[i++] = values[j]!;
      values[j--] = moved;
    }
    if (nth <= j) right = j;
    else if (nth >= i) left = i;
    else break;
  }
  return values[nth]!;
}

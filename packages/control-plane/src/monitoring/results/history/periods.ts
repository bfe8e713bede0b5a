import { hourMs } from "@statusmesh/shared/time";
import type { Interval } from "../../../platform/intervals.ts";
import { takeTurns, type Turns } from "../../../platform/process/turns.ts";
import type { RegionChanges } from "./change-queries.ts";

/** Stretches between two looks at the clock. */
const atOnce = 4096;

/** Results of a failing run, or of the runs of a period. Slots are Unix ms. */
interface Failures {
  region: string;
  firstSlot: number;
  lastRegion: string;
  lastSlot: number;
  count: number;
  down: boolean;
}

/** A period; times are Unix ms, `end` is Infinity while ongoing. */
export interface Period extends Interval, Failures {}

/** Disjoint periods, or the failing runs of one region, by position, oldest first. A flapping target has 400,000. */
export interface Periods {
  /** Unix ms. */
  starts: Float64Array;
  /** Unix ms, Infinity while ongoing. */
  ends: Float64Array;
  /** Empty without `failing`. */
  failures: Failures[];
}

/**
 * The periods in the state changes: failing runs of all regions, those that overlap as one. Within a region a run
 * without an `up` after it is ongoing, unless the region no longer probes the target: then its latest failing result
 * ends it. Leaves out runs that start before `sinceMs`.
 */
export async function periodsOf(regions: readonly RegionChanges[], sinceMs = -Infinity): Promise<Periods> {
  const turns = await takeTurns();
  const lists: Periods[] = [];
  for (const region of regions) lists.push(await runsOf(region, turns));
  const next = lists.map(({ starts }) => firstFrom(starts, sinceMs));
  const heads = Float64Array.from(lists, (list, at) => startOf(list, next[at]!));
  const most = lists.reduce((sum, { starts }) => sum + starts.length, 0);
  const [starts, ends] = [new Float64Array(most), new Float64Array(most)];
  const failures: Failures[] = [];
  let last = -1;
  for (let seen = 1; ; seen++) {
    if (seen % atOnce === 0 && turns.over()) await turns.next();
    const from = earliest(heads);
    const start = heads[from] ?? Infinity;
    if (start === Infinity) return { starts: starts.subarray(0, last + 1), ends: ends.subarray(0, last + 1), failures };
    const list = lists[from]!;
    const run = next[from]!++;
    heads[from] = startOf(list, run + 1);
    const end = list.ends[run]!;
    if (last >= 0 && start < ends[last]!) {
      if (end > ends[last]!) ends[last] = end;
      if (failures.length > 0) failures[last] = together(failures[last]!, list.failures[run]!);
      continue;
    }
    last++;
    starts[last] = start;
    ends[last] = end;
    if (list.failures.length > 0) failures.push(list.failures[run]!);
  }
}

/** Position of the first start that is not before `since`. */
function firstFrom(starts: Float64Array, since: number): number {
  const at = starts.findIndex((start) => start >= since);
  return at === -1 ? starts.length : at;
}

/** Start of a run; Infinity after the last. */
const startOf = ({ starts }: Periods, run: number): number => (run < starts.length ? starts[run]! : Infinity);

/** Position of the least value; the first one of equals. */
function earliest(heads: Float64Array): number {
  let found = 0;
  for (let at = 1; at < heads.length; at++) if (heads[at]! < heads[found]!) found = at;
  return found;
}

function together(a: Failures, b: Failures): Failures {
  const bLast = b.lastSlot > a.lastSlot || (b.lastSlot === a.lastSlot && b.lastRegion < a.lastRegion);
  const { lastRegion, lastSlot } = bLast ? b : a;
  return { ...a, lastRegion, lastSlot, count: a.count + b.count, down: a.down || b.down };
}

/** The failing runs of a region, each up to the next `up`, from the layout of `changesOfRuns`. */
async function runsOf({ region, probed, changes, failing }: RegionChanges, turns: Turns): Promise<Periods> {
  // Typed arrays: a first read runs before the compiler has seen it, and took three times as long with others.
  const numbers = new Int32Array(new Uint8Array(changes).buffer);
  Buffer.from(numbers.buffer).swap32();
  const most = (numbers.length >> 1) + 1;
  const [starts, ends] = [new Float64Array(most), new Float64Array(most)];
  const failures: Failures[] = [];
  let last = -1;
  let open = false;
  let latest = 0;
  let read = 0;
  let readFailing = 0;
  for (let at = 0; at < numbers.length;) {
    const hour = numbers[at]! * hourMs;
    const count = numbers[at + 1]!;
    const latestOfLast = hour + numbers[at + 2]!;
    at += 3;
    for (const end = at + count; at < end; at++) {
      const change = numbers[at]!;
      const time = hour + (change >> 1);
      if ((change & 1) === 0) {
        if (open) close(starts, ends, failures, last, time);
        open = false;
        continue;
      }
      if (failing.length > 0) {
        const own = failuresAt(region, failing, readFailing, hour);
        readFailing += 16;
        if (open) failures.push(together(failures.pop()!, own));
        else failures.push(own);
      }
      if (!open) {
        last++;
        starts[last] = time;
        latest = 0;
      } else if (time < starts[last]!) starts[last] = time;
      open = true;
    }
    if (open) latest = Math.max(latest, latestOfLast);
    read += count;
    if (read < atOnce) continue;
    read = 0;
    if (turns.over()) await turns.next();
  }
  if (open) close(starts, ends, failures, last, probed ? Infinity : latest);
  return { starts: starts.subarray(0, last + 1), ends: ends.subarray(0, last + 1), failures };
}

/**
 * Ends the last run. Runs are in the order of their slots; a clock that was set back may start one before the run
 * before it, and then they change places.
 */
function close(starts: Float64Array, ends: Float64Array, failures: Failures[], last: number, end: number): void {
  ends[last] = Math.max(end, starts[last]!);
  for (let at = last; at > 0 && starts[at]! < starts[at - 1]!; at--)
    for (const column of [starts, ends, failures])
      if (column.length > 0) [column[at - 1], column[at]] = [column[at]!, column[at - 1]!];
}

function failuresAt(region: string, failing: Buffer, at: number, hour: number): Failures {
  const runs = failing.readInt32BE(at);
  return {
    region,
    firstSlot: hour + failing.readInt32BE(at + 4),
    lastRegion: region,
    lastSlot: hour + failing.readInt32BE(at + 8),
    count: runs >> 1,
    down: (runs & 1) === 1,
  };
}

/**
 * The time from which on periods that are read from an hour on are those of the whole history: failing runs from before
 * it have ended. `failing` are the regions that failed at the hour, `lastRun` is when the last run of an earlier slot
 * is over. Infinity when it is not known.
 */
export function settledAt(regions: readonly RegionChanges[], failing: readonly string[], lastRun: number): number {
  return failing.reduce((settled, name) => {
    const own = regions.find(({ region }) => region === name);
    return Math.max(settled, own === undefined ? Infinity : firstUp(own.changes));
  }, lastRun);
}

/** When the first passing stretch starts; Infinity for none. */
function firstUp(changes: Buffer): number {
  for (let at = 0; at < changes.length;) {
    const hour = changes.readInt32BE(at) * hourMs;
    const end = at + 12 + 4 * changes.readInt32BE(at + 4);
    for (at += 12; at < end; at += 4) {
      const change = changes.readInt32BE(at);
      if ((change & 1) === 0) return hour + (change >> 1);
    }
  }
  return Infinity;
}

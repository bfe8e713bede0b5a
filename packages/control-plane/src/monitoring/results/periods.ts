import { takeTurns, type Turns } from "../../platform/http/turns.ts";
import type { RegionChanges } from "./change-queries.ts";

const hourMs = 3_600_000;
/** Stretches between two looks at the clock. */
const atOnce = 4096;

/** Failing runs of a region, each up to the next `up`; by position, oldest first. A flapping target has 400,000. */
interface FailingRuns {
  region: string;
  /** Unix ms. */
  starts: number[];
  /** Unix ms, Infinity while ongoing. */
  ends: number[];
  /** Empty without `failing`. */
  failures: Failures[];
}

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
export interface Span {
  start: number;
  end: number;
}

export interface Period extends Span, Failures {}

/** Disjoint periods by position, oldest first. */
export interface Periods {
  starts: number[];
  ends: number[];
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
  const lists: FailingRuns[] = [];
  for (const region of regions) lists.push(await runsOf(region, turns));
  const next = lists.map(({ starts }) => starts.findIndex((start) => start >= sinceMs));
  const periods: Periods = { starts: [], ends: [], failures: [] };
  const { starts, ends, failures } = periods;
  for (let seen = 1; ; seen++) {
    if (seen % atOnce === 0 && turns.over()) await turns.next();
    const from = earliest(lists, next);
    if (from === -1) return periods;
    const list = lists[from]!;
    const run = next[from]!++;
    const last = starts.length - 1;
    const [start, end] = [list.starts[run]!, list.ends[run]!];
    if (last >= 0 && start < ends[last]!) {
      if (end > ends[last]!) ends[last] = end;
      if (failures.length > 0) failures[last] = together(failures[last]!, list.failures[run]!);
      continue;
    }
    starts.push(start);
    ends.push(end);
    if (list.failures.length > 0) failures.push(list.failures[run]!);
  }
}

/** Position of the list whose next run starts first; the first one of equals, -1 for none. */
function earliest(lists: readonly FailingRuns[], next: readonly number[]): number {
  let found = -1;
  let least = Infinity;
  for (let at = 0; at < lists.length; at++) {
    const start = next[at]! < 0 ? undefined : lists[at]!.starts[next[at]!];
    if (start === undefined || start >= least) continue;
    least = start;
    found = at;
  }
  return found;
}

function together(a: Failures, b: Failures): Failures {
  const bLast = b.lastSlot > a.lastSlot || (b.lastSlot === a.lastSlot && b.lastRegion < a.lastRegion);
  const { lastRegion, lastSlot } = bLast ? b : a;
  return { ...a, lastRegion, lastSlot, count: a.count + b.count, down: a.down || b.down };
}

/** The failing runs of a region, from the layout of `changesOfRuns`. */
async function runsOf({ region, probed, changes, failing }: RegionChanges, turns: Turns): Promise<FailingRuns> {
  const runs: FailingRuns = { region, starts: [], ends: [], failures: [] };
  let open = false;
  let latest = 0;
  let read = 0;
  let readFailing = 0;
  for (let at = 0; at < changes.length;) {
    const hour = changes.readInt32BE(at) * hourMs;
    const count = changes.readInt32BE(at + 4);
    const latestOfLast = hour + changes.readInt32BE(at + 8);
    at += 12;
    for (const end = at + 4 * count; at < end; at += 4) {
      const change = changes.readInt32BE(at);
      const time = hour + (change >> 1);
      if ((change & 1) === 0) {
        if (open) close(runs, time);
        open = false;
        continue;
      }
      if (failing.length > 0) {
        const failures = failuresAt(region, failing, readFailing, hour);
        readFailing += 16;
        if (open) runs.failures.push(together(runs.failures.pop()!, failures));
        else runs.failures.push(failures);
      }
      if (!open) {
        runs.starts.push(time);
        runs.ends.push(Infinity);
        latest = 0;
      } else if (time < runs.starts.at(-1)!) runs.starts[runs.starts.length - 1] = time;
      open = true;
    }
    if (open) latest = Math.max(latest, latestOfLast);
    read += count;
    if (read < atOnce) continue;
    read = 0;
    if (turns.over()) await turns.next();
  }
  if (open) close(runs, probed ? Infinity : latest);
  return runs;
}

/**
 * Ends the last run. Runs are in the order of their slots; a clock that was set back may start one before the run
 * before it, and then they change places.
 */
function close({ starts, ends, failures }: FailingRuns, end: number): void {
  let at = starts.length - 1;
  ends[at] = Math.max(end, starts[at]!);
  for (; at > 0 && starts[at]! < starts[at - 1]!; at--)
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

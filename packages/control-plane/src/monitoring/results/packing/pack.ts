import { exponentialMs } from "@statusmesh/shared/backoff";
import { hash32, phaseMs } from "@statusmesh/shared/schedule";
import { messageOf } from "@statusmesh/shared/thrown";
import { dayMs, minuteMs } from "@statusmesh/shared/time";
import { inTransaction, type System } from "../../../platform/context.ts";
import { awaitCommits } from "../../../platform/db/distributed/citus.ts";
import { allowTime } from "../../../platform/db/client/connect.ts";
import { failureOf } from "../../../platform/db/client/failures.ts";
import { packAfterMs, resultDays } from "../hours.ts";
import { areHoursLeft, packHours, selectPackedDays, unpackHours } from "./pack-hours-queries.ts";
import * as queries from "./pack-queries.ts";
import { lockProgress, selectNextHour } from "../rollups/rollup-queries.ts";

/** Targets whose late results are merged in one transaction. */
const lateAtOnce = 50;
const statementMs = 600_000;
/** Pause after a day did not match, doubled each time. */
const mismatchMs = 10 * minuteMs;

export const packSizes = {
  /** Expected results per statement: below 2 s, 20 MB for the sort and 35 for the arrays. */
  runsAtOnce: 150_000,
  /** Memory of the sort, and half of that for the arrays. */
  workMem: "64MB",
  /** Targets whose hours are packed in one transaction, for which the rollup waits: about a second. */
  hoursAtOnce: 500,
};
type PackSizes = typeof packSizes;

/**
 * Packs the results of ended days, oldest first, merges results that arrived later, and packs the hours of packed days.
 * Each step is a transaction that can be repeated, so the next call completes the work of a killed process. `signal`
 * ends it between two steps.
 */
export async function pack(system: System, signal?: AbortSignal, sizes = packSizes): Promise<void> {
  try {
    while (!signal?.aborted && (await packNextDay(system, sizes, signal)));
    await packAllLate(system, sizes, signal);
    await packAllHours(system, sizes, signal);
    await queries.writeFailure(system.sql, null);
  } catch (error) {
    // A sort that finds no room for its files leaves room again when it fails, so nothing else reports it.
    if (failureOf(error) === "full" || failureOf(error) === "busy") {
      system.log.error({ reason: messageOf(error) }, "results were not packed; the next run continues");
      await queries.writeFailure(system.sql, messageOf(error)).catch(() => {});
    }
    throw error;
  }
}

/** A transaction of a packer. */
const inPacking = <T>(system: System, sizes: PackSizes, work: (sql: System["sql"]) => Promise<T>): Promise<T> =>
  inTransaction(system, async ({ sql }) => {
    await allowTime(sql, statementMs);
    await queries.allowPacking(sql, sizes.workMem);
    await queries.lockPacking(sql);
    return await work(sql);
  });

/** True when a day was packed. */
async function packNextDay(system: System, sizes: PackSizes, signal?: AbortSignal): Promise<boolean> {
  const { sql, clock, log, config } = system;
  const progress = await queries.selectProgress(sql);
  if (progress === null) return false;
  const { packed_to: day, mismatches } = progress;
  const end = Date.parse(day) + dayMs;
  const now = clock.now();
  if (now < end + packAfterMs || now < retryAt(progress)) return false;
  // The sums of the day are made from rows.
  const summedTo = await selectNextHour(sql);
  if (summedTo === null || summedTo.getTime() < end) return false;
  await inTransaction(system, (tx) => queries.sealDay(tx.sql, day));
  await awaitCommits(sql);
  const targets = end > now - resultDays * dayMs ? byPhase(await queries.selectPackTargets(sql)).map(seeded) : [];
  const packed = await queries.selectPacked(sql, day, targets);
  const left = targets.filter(({ id }) => !packed.has(id));
  for (const slice of slicesOf(left, sizes.runsAtOnce)) {
    if (signal?.aborted) return false;
    await inPacking(system, sizes, (tx) => queries.packRows(tx, day, slice, config.scheduler.jitter_pct));
  }
  const wrong = await inPacking(system, sizes, async (tx) => {
    const found = await queries.selectMismatches(tx, day, targets);
    const mismatches = found.filter(({ rows, packed: runs, unfit }) => rows !== runs + unfit);
    const ids = (of: readonly queries.Mismatch[]) => of.map(({ id }) => id);
    if (mismatches.length === 0) {
      await queries.keepUnfit(tx, day, ids(found));
      await queries.finishDay(tx, day, new Date(clock.now()));
    } else {
      await queries.unpackRows(tx, day, ids(mismatches));
      await queries.countMismatch(tx, new Date(clock.now()));
    }
    return mismatches;
  });
  if (wrong.length === 0) {
    log.info({ day }, "results of a day packed");
    return true;
  }
  log.error(
    { day, times: mismatches + 1, targets: wrong.length, ...wrong[0] },
    "results of a day are packed again later: their number does not match",
  );
  return false;
}

/** When a day that did not match is packed again, Unix ms: after 10 minutes, 20, 40, at most a day. */
const retryAt = ({ mismatches, packed_at: at }: queries.PackProgress): number =>
  mismatches === 0 ? -Infinity : at.getTime() + exponentialMs(mismatches - 1, mismatchMs, dayMs);

/**
 * Targets in the order in which they run: results of neighbours arrive together and share pages of the table, so that a
 * slice of 1/77 of a day reads 5,800 pages of 22,000, and 12,500 by id.
 */
const byPhase = (targets: readonly queries.PlacedTarget[]): queries.PackTarget[] =>
  targets
    .map(({ id, interval_ms, region }) => ({ id, interval_ms, phase: phaseMs(id, region ?? "", interval_ms) }))
    .sort((a, b) => a.interval_ms - b.interval_ms || a.phase - b.phase);

const seeded = (target: queries.PackTarget): queries.SeededTarget => ({
  ...target,
  jitter_seed: hash32(target.id),
});

function slicesOf(targets: readonly queries.SeededTarget[], most: number): queries.SeededTarget[][] {
  const slices: queries.SeededTarget[][] = [];
  let expected = Infinity;
  for (const target of targets) {
    const runs = dayMs / target.interval_ms;
    if (expected + runs > most) {
      slices.push([]);
      expected = 0;
    }
    slices.at(-1)!.push(target);
    expected += runs;
  }
  return slices;
}

/** Merges the late results that are there, by target. */
async function packAllLate(system: System, sizes: PackSizes, signal?: AbortSignal): Promise<void> {
  const pct = system.config.scheduler.jitter_pct;
  for (let after: string | null = null; !signal?.aborted;) {
    const days: queries.LateDay[] = await queries.selectLateDays(system.sql, after, lateAtOnce);
    if (days.length === 0) return;
    await inPacking(system, sizes, async (tx) => {
      for (const { day, ...target } of days) await queries.packLate(tx, day, seeded(target), pct);
    });
    after = days.at(-1)!.id;
  }
}

/** Packs the hours of the days whose results are packed, also those that the rollup has unpacked. */
async function packAllHours(system: System, { hoursAtOnce: most }: PackSizes, signal?: AbortSignal): Promise<void> {
  const to = (await queries.selectProgress(system.sql))?.packed_to;
  if (to === undefined) return;
  const targets = (await queries.selectPackTargets(system.sql)).map(({ id }) => id);
  if (!(await areHoursLeft(system.sql, targets, to))) return;
  for (let from = 0; from < targets.length && !signal?.aborted; from += most) {
    const ids = targets.slice(from, from + most);
    await inTransaction(system, async ({ sql }) => {
      await allowTime(sql, statementMs);
      await lockProgress(sql);
      await awaitCommits(sql);
      // None, unless sums were made anew.
      const again = await selectPackedDays(sql, ids, to);
      if (again.length > 0) await unpackHours(sql, again);
      await packHours(sql, ids, to);
    });
  }
}

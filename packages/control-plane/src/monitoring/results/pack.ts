import { hash32 } from "@statusmesh/shared/schedule";
import { dayMs } from "@statusmesh/shared/time";
import { inTransaction, type System } from "../../platform/context.ts";
import { allowTime } from "../../platform/db/connect.ts";
import { packAfterMs, resultDays } from "./hours.ts";
import * as queries from "./pack-queries.ts";
import { selectNextHour } from "./rollup-queries.ts";

/** Expected results per statement: about 2 s, and a sort of 100 MB. */
const runsAtOnce = 400_000;
const lateAtOnce = 50;
const statementMs = 600_000;

/**
 * Packs the results of ended days, oldest first, and merges results that arrived later. Each step is a transaction
 * that can be repeated, so the next call completes the work of a killed process. `signal` ends it between two steps.
 */
export async function pack(system: System, signal?: AbortSignal): Promise<void> {
  while (!signal?.aborted && (await packNextDay(system, signal)));
  while (!signal?.aborted && (await packSomeLate(system)));
}

/** True when a day was packed. */
async function packNextDay(system: System, signal?: AbortSignal): Promise<boolean> {
  const { sql, clock, log, config } = system;
  const progress = await queries.selectProgress(sql);
  if (progress === null) return false;
  const day = progress.packed_to;
  const end = Date.parse(day) + dayMs;
  const now = clock.now();
  if (now < end + packAfterMs) return false;
  // The sums of the day are made from rows.
  const summedTo = await selectNextHour(sql);
  if (summedTo === null || summedTo.getTime() < end) return false;
  await inTransaction(system, (tx) => queries.sealDay(tx.sql, day));
  if (end > now - resultDays * dayMs) {
    const targets = (await queries.selectPackTargets(sql)).map(seeded);
    const last = await queries.lastPacked(sql, day);
    for (const slice of slicesOf(targets.filter(({ id }) => last === null || id > last))) {
      if (signal?.aborted) return false;
      await inTransaction(system, async (tx) => {
        await allowTime(tx.sql, statementMs);
        await queries.packRows(tx.sql, day, slice, config.scheduler.jitter_pct);
      });
    }
    const complete = await inTransaction(system, async (tx) => {
      await allowTime(tx.sql, statementMs);
      const { rows, packed } = await queries.countPacked(tx.sql, day, targets);
      if (rows === packed) return true;
      await queries.unpackDay(tx.sql, day);
      log.error({ day, rows, packed }, "a day of results is packed again: its number of results does not match");
      return false;
    });
    if (!complete) return false;
  }
  await queries.finishDay(sql, day, new Date(clock.now()));
  log.info({ day }, "results of a day packed");
  return true;
}

const seeded = (target: queries.PackTarget): queries.SeededTarget => ({
  ...target,
  jitter_seed: hash32(target.id),
});

function slicesOf(targets: readonly queries.SeededTarget[]): queries.SeededTarget[][] {
  const slices: queries.SeededTarget[][] = [];
  let expected = Infinity;
  for (const target of targets) {
    const runs = dayMs / target.interval_ms;
    if (expected + runs > runsAtOnce) {
      slices.push([]);
      expected = 0;
    }
    slices.at(-1)!.push(target);
    expected += runs;
  }
  return slices;
}

/** True when there may be more. */
async function packSomeLate(system: System): Promise<boolean> {
  const late = await queries.selectLateDays(system.sql, lateAtOnce);
  for (const { day, ...target } of late)
    await inTransaction(system, (tx) =>
      queries.packLate(tx.sql, day, seeded(target), system.config.scheduler.jitter_pct),
    );
  return late.length === lateAtOnce;
}

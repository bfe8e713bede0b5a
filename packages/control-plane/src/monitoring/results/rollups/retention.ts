import { dayMs, utcDay } from "@statusmesh/shared/time";
import { inTransaction, type System } from "../../../platform/context.ts";
import { awaitCommits } from "../../../platform/db/distributed/citus.ts";
import { allowTime } from "../../../platform/db/client/connect.ts";
import { dropOldOrgCounts } from "./engine.ts";
import { dropOldSlots } from "../slots/engine.ts";
import { resultDays } from "../engine.ts";
import { dropLateBefore, lockPacking, selectPackTargets } from "../packing/pack-queries.ts";
import * as queries from "./rollup-queries.ts";

/** Retention of hourly counts and latency; daily counts stay, a row per target and day. */
const keepMonths = 13;

/** Targets whose old rows are deleted in one statement: few rows, unless the job was away for months. */
const thinnedAtOnce = 200;

/** Deleted targets whose data are deleted in one transaction: of 20 with a check per minute, 60,000 rows. */
const emptiedAtOnce = 20;
const statementMs = 600_000;

/**
 * Drops hours older than 13 months, state changes older than the results, issued slots older than 90 days, and what is
 * stored of deleted targets. Run it about hourly. `signal` ends it between two steps.
 */
export async function dropOldRollups(system: System, signal?: AbortSignal): Promise<void> {
  const { sql, clock } = system;
  const cutoff = new Date(clock.now());
  cutoff.setUTCMonth(cutoff.getUTCMonth() - keepMonths);
  // Partitions of results are dropped by whole days.
  const changes = clock.now() - (resultDays + 2) * dayMs;
  const results = clock.now() - (resultDays + 1) * dayMs;
  const targets = (await selectPackTargets(sql)).map(({ id }) => id);
  for (let from = 0; from < targets.length && !signal?.aborted; from += thinnedAtOnce) {
    const ids = targets.slice(from, from + thinnedAtOnce);
    for (const [table, before] of [
      ["results_hourly", cutoff.getTime()],
      ["latency_hourly", cutoff.getTime()],
      ["changes_hourly", changes],
      ["hours_packed", cutoff.getTime()],
      ["changes_packed", changes],
      ["results_packed", results],
    ] as const)
      await queries.deleteBefore(sql, table, ids, new Date(before));
  }
  await dropLateBefore(sql, utcDay(results));
  await emptyDeleted(system, signal);
  await dropOldOrgCounts(sql, clock.now());
  await dropOldSlots(sql, new Date(clock.now() - resultDays * dayMs));
}

async function emptyDeleted(system: System, signal?: AbortSignal): Promise<void> {
  for (let after: string | null = null; !signal?.aborted;) {
    const ids: string[] = await queries.selectToEmpty(system.sql, after, emptiedAtOnce);
    if (ids.length === 0) return;
    await inTransaction(system, async ({ sql }) => {
      await allowTime(sql, statementMs);
      await lockPacking(sql);
      await queries.lockProgress(sql);
      await awaitCommits(sql);
      await queries.emptyDeleted(sql, ids);
    });
    after = ids.at(-1)!;
  }
}

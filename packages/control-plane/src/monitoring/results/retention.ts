import type { Sql } from "postgres";
import { dayMs } from "@statusmesh/shared/time";
import type { System } from "../../platform/context.ts";
import { dropOldPartitions, ensurePartitions } from "../../platform/db/partitions.ts";
import { resultDays, dropOldOrgCounts, dropOldSlots } from "./engine.ts";
import { oldestAcceptable } from "./service.ts";
import * as queries from "./rollup-queries.ts";

const daysAhead = 7;

/**
 * Makes the partitions of results up to a week ahead and drops those whose day ended more than 90 days ago. There is
 * never a hole between them: agents that went on measuring while the control plane was away for weeks find a place for
 * what they bring. Run it at every start before results are taken, and every few hours. Needs the pool.
 */
export async function keepPartitions(system: System): Promise<void> {
  const sql = system.sql as Sql;
  const now = system.clock.now();
  const oldest = (await oldestAcceptable(sql))?.getTime() ?? Infinity;
  const from = Math.max(Math.min(oldest, now - dayMs), now - resultDays * dayMs);
  const made = await ensurePartitions(sql, new Date(from), new Date(now + daysAhead * dayMs));
  const dropped = await dropOldPartitions(sql, new Date(now), resultDays);
  if (made.length + dropped.length > 0)
    system.log.info({ made: made.length, dropped: dropped.length }, "result partitions kept");
}

/** Retention of hourly counts and latency; daily counts stay, a row per target and day. */
const keepMonths = 13;

/**
 * Drops hours older than 13 months, state changes older than the results, issued slots older than 90 days, and the sums
 * of targets deleted within the last day. Run it about hourly.
 */
export async function dropOldRollups(system: System): Promise<void> {
  const cutoff = new Date(system.clock.now());
  cutoff.setUTCMonth(cutoff.getUTCMonth() - keepMonths);
  await queries.deleteHoursBefore(system.sql, "results_hourly", cutoff);
  await queries.deleteHoursBefore(system.sql, "latency_hourly", cutoff);
  // Partitions of results are dropped by whole days.
  await queries.deleteHoursBefore(
    system.sql,
    "changes_hourly",
    new Date(system.clock.now() - (resultDays + 2) * dayMs),
  );
  await queries.deleteCountsOfDeleted(system.sql);
  await dropOldOrgCounts(system.sql, system.clock.now());
  await dropOldSlots(system.sql, new Date(system.clock.now() - resultDays * dayMs));
}

import { dayMs } from "@statusmesh/shared/time";
import type { System } from "../../platform/context.ts";
import { dropOldOrgCounts, dropOldSlots, resultDays } from "./engine.ts";
import { dropPackedBefore } from "./pack-queries.ts";
import * as queries from "./rollup-queries.ts";

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
  await dropPackedBefore(
    system.sql,
    new Date(system.clock.now() - (resultDays + 1) * dayMs).toISOString().slice(0, 10),
  );
  await queries.deleteCountsOfDeleted(system.sql);
  await dropOldOrgCounts(system.sql, system.clock.now());
  await dropOldSlots(system.sql, new Date(system.clock.now() - resultDays * dayMs));
}

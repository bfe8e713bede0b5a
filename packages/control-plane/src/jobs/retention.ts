import type { System } from "../context.ts";
import { dropOldOrgCounts, dropOldSlots, resultDays } from "../results/engine.ts";
import * as queries from "./rollup-queries.ts";

/** How long hours are kept, counts and latency; daily counts stay, a row per target and day. */
const keepMonths = 13;
const dayMs = 86_400_000;

/**
 * Drops hours of more than 13 months ago, issued slots of more than 90 days ago, and everything that was summed up of
 * targets deleted within the last day. Run it about hourly.
 */
export async function forgetOldRollups(system: System): Promise<void> {
  const cutoff = new Date(system.clock.now());
  cutoff.setUTCMonth(cutoff.getUTCMonth() - keepMonths);
  await queries.deleteHoursBefore(system.sql, "results_hourly", cutoff);
  await queries.deleteHoursBefore(system.sql, "latency_hourly", cutoff);
  await queries.deleteCountsOfDeleted(system.sql);
  await dropOldOrgCounts(system.sql, system.clock.now());
  await dropOldSlots(system.sql, new Date(system.clock.now() - resultDays * dayMs));
}

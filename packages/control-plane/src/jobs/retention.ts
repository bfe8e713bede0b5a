import type { System } from "../context.ts";
import * as queries from "./rollup-queries.ts";

/** How long hourly counts are kept; daily ones stay, a row per target and day. */
const keepMonths = 13;

/** Drops hourly counts of more than 13 months ago, and all counts of targets deleted within the last day. Run it about hourly. */
export async function forgetOldRollups(system: System): Promise<void> {
  const cutoff = new Date(system.clock.now());
  cutoff.setUTCMonth(cutoff.getUTCMonth() - keepMonths);
  await queries.deleteHoursBefore(system.sql, cutoff);
  await queries.deleteCountsOfDeleted(system.sql);
}

import { dayMs } from "@statusmesh/shared/time";
import type { System } from "../../platform/context.ts";
import { dropOldOrgCounts, dropOldSlots, resultDays } from "./engine.ts";
import { dropLateBefore } from "./pack-queries.ts";
import * as queries from "./rollup-queries.ts";

/** Retention of hourly counts and latency; daily counts stay, a row per target and day. */
const keepMonths = 13;

/**
 * Drops hours older than 13 months, state changes older than the results, issued slots older than 90 days, and what is
 * stored of targets deleted within the last day. Run it about hourly.
 */
export async function dropOldRollups(system: System): Promise<void> {
  const { sql, clock } = system;
  const cutoff = new Date(clock.now());
  cutoff.setUTCMonth(cutoff.getUTCMonth() - keepMonths);
  await queries.deleteHoursBefore(sql, "results_hourly", cutoff);
  await queries.deleteHoursBefore(sql, "latency_hourly", cutoff);
  await queries.deleteDaysBefore(sql, "hours_packed", dayOf(cutoff.getTime()));
  // Partitions of results are dropped by whole days.
  const changes = clock.now() - (resultDays + 2) * dayMs;
  await queries.deleteHoursBefore(sql, "changes_hourly", new Date(changes));
  await queries.deleteDaysBefore(sql, "changes_packed", dayOf(changes));
  const results = dayOf(clock.now() - (resultDays + 1) * dayMs);
  await queries.deleteDaysBefore(sql, "results_packed", results);
  await dropLateBefore(sql, results);
  await queries.deleteCountsOfDeleted(sql);
  await dropOldOrgCounts(sql, clock.now());
  await dropOldSlots(sql, new Date(clock.now() - resultDays * dayMs));
}

/** The UTC day of a time, Unix ms; `2026-11-20`. */
const dayOf = (at: number): string => new Date(at).toISOString().slice(0, 10);

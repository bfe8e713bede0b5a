import { inTransaction, type System } from "../context.ts";
import { hourOf, oldestAcceptable } from "../results/service.ts";
import * as queries from "./rollup-queries.ts";

const hourMs = 3_600_000;
/** An ingest transaction lasts at most 30 s, and the clocks of two replicas may be a minute apart. */
const settleMs = 120_000;
const marksAtOnce = 500;

/**
 * Brings the hourly and daily counts up to date: every hour that ended more than two minutes ago, and the hours that
 * late results have marked. Each step is one transaction that can be repeated without harm; what a killed process left
 * undone is done by the next. `signal` ends the work between two steps.
 */
export async function rollUp(system: System, signal?: AbortSignal): Promise<void> {
  while (!signal?.aborted && (await rollNextHour(system)));
  // Only as many as there are now: while an agent sends a long backlog, marks come back as fast as they are worked off.
  for (let left = await queries.countDirty(system.sql); left > 0 && !signal?.aborted; left -= marksAtOnce) {
    if ((await repairMarked(system)) === 0) return;
  }
}

/** True when an hour was due. */
async function rollNextHour(system: System): Promise<boolean> {
  return await inTransaction(system, async ({ sql, clock }) => {
    const now = clock.now();
    const hour = (await queries.lockProgress(sql)) ?? (await begin({ ...system, sql }));
    if (hour === null || hour.getTime() + hourMs + settleMs > now) return false;
    await sql`set local statement_timeout = '10min'`;
    await queries.rollHour(sql, hour);
    await queries.rollDay(sql, hour.toISOString().slice(0, 10));
    await queries.writeProgress(sql, new Date(hour.getTime() + hourMs));
    return true;
  });
}

/** The first rollup begins with the oldest day that can hold a result. */
async function begin(system: System): Promise<Date | null> {
  const oldest = await oldestAcceptable(system.sql);
  await queries.startProgress(system.sql, new Date(hourOf((oldest ?? new Date(system.clock.now())).getTime())));
  return await queries.lockProgress(system.sql);
}

/** How many marks were worked off. Hours that are still to come for everybody keep theirs. */
async function repairMarked(system: System): Promise<number> {
  return await inTransaction(system, async ({ sql }) => {
    const nextHour = await queries.lockProgress(sql);
    if (nextHour === null) return 0;
    // Consuming a mark waits for nobody, and comes before the counting: what its batch inserted is visible by then.
    const marks = await queries.takeDirty(sql, nextHour, marksAtOnce);
    if (marks.length === 0) return 0;
    await queries.rollMarked(sql, marks);
    await queries.rollMarkedDays(sql, marks);
    return marks.length;
  });
}

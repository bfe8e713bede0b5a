import { hourMs, utcDay } from "@statusmesh/shared/time";
import { inTransaction, type System } from "../../../platform/context.ts";
import { awaitCommits } from "../../../platform/db/distributed/citus.ts";
import { allowTime } from "../../../platform/db/client/connect.ts";
import { gatherOrgCounts, uncountDeleted } from "./engine.ts";
import { hourOf, oldestAcceptable } from "./service.ts";
import { type TargetDay, unpackHours } from "../packing/pack-hours-queries.ts";
import * as queries from "./rollup-queries.ts";

/** An ingest transaction lasts at most 30 s, and the clocks of two replicas may be a minute apart. */
const settleMs = 120_000;
const marksAtOnce = 500;
/** An hour of 10,000 targets takes seconds, on a slow disk minutes; so do 500 hours of one with ten regions. */
const statementMs = 600_000;

/**
 * Brings the hourly and daily sums up to date: every hour that ended more than two minutes ago, and the hours that
 * late results have marked. Each step is one idempotent transaction, so the next run completes the work of a killed
 * process. `signal` ends the work between two steps.
 */
export async function rollUp(system: System, signal?: AbortSignal): Promise<void> {
  while (!signal?.aborted && (await uncountDeleted(system.sql, system.clock.now())));
  await gatherOrgCounts(system.sql);
  while (!signal?.aborted && (await rollNextHour(system)));
  // Only the present marks: while an agent sends a long backlog, new ones appear as fast as they are worked off.
  for (let left = await queries.countDirty(system.sql); left > 0 && !signal?.aborted; left -= marksAtOnce) {
    if ((await repairMarked(system)) === 0) break;
  }
}

/** True when an hour was due. */
async function rollNextHour(system: System): Promise<boolean> {
  return await inTransaction(system, async ({ sql, clock }) => {
    const hour = (await queries.lockProgress(sql)) ?? (await begin({ ...system, sql }));
    if (hour === null || hour.getTime() + hourMs + settleMs > clock.now()) return false;
    await allowTime(sql, statementMs);
    await awaitCommits(sql);
    const all = queries.hourOfAll(sql, hour);
    await queries.rollHours(sql, all);
    await queries.rollChanges(sql, all);
    await queries.rollLatency(sql, all);
    await queries.rollDays(sql, queries.dayOfAll(sql, utcDay(hour.getTime())));
    await queries.writeProgress(sql, new Date(hour.getTime() + hourMs));
    return true;
  });
}

/**
 * The first rollup begins with the oldest day that can hold a result; without a result, with the hour that is not due
 * yet. Results of earlier hours that come later mark them.
 */
async function begin(system: System): Promise<Date | null> {
  const now = system.clock.now();
  const oldest = (await oldestAcceptable(system.sql))?.getTime() ?? now;
  const open = hourOf(now - settleMs);
  const first = (await queries.hasResults(system.sql)) ? oldest : Math.max(oldest, open);
  await queries.startProgress(system.sql, new Date(hourOf(first)));
  return await queries.lockProgress(system.sql);
}

/** The UTC days of the marks, which the sums of days and the packing take as a whole. */
const daysOf = (marks: readonly queries.DirtyHour[]): TargetDay[] =>
  [...new Set(marks.map((mark) => `${utcDay(mark.hour.getTime())} ${mark.target_id}`))].map((key) => ({
    target_id: key.slice(11),
    day: key.slice(0, 10),
  }));

/** Works off marks and returns their number. Hours that are not rolled up yet keep theirs. */
async function repairMarked(system: System): Promise<number> {
  return await inTransaction(system, async ({ sql }) => {
    const nextHour = await queries.lockProgress(sql);
    if (nextHour === null) return 0;
    // Marks are consumed without waiting for locks, and before the counting, which therefore sees their rows.
    await allowTime(sql, statementMs);
    const marks = await queries.takeDirty(sql, nextHour, marksAtOnce);
    if (marks.length === 0) return 0;
    await awaitCommits(sql);
    await unpackHours(sql, daysOf(marks));
    const hours = queries.hoursOf(sql, marks);
    await queries.rollHours(sql, hours);
    await queries.rollLatency(sql, hours);
    await queries.rollChanges(sql, hours);
    await queries.rollDays(sql, queries.daysOf(sql, marks));
    return marks.length;
  });
}

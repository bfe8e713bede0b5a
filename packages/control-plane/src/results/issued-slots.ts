import { type CheckType, checkKinds } from "@statusmesh/shared/checks";
import { isOnGrid, isOnRecheckGrid } from "@statusmesh/shared/schedule";
import { arrayOf } from "../db/array.ts";
import type { Db } from "../db/sql.ts";

/** First half of the two-part advisory lock under which on-demand slots of a target are chosen; jobs use 7341. */
const lockSpace = 7_342;

/** A slot of a target in a region, Unix ms. */
export interface Slot {
  targetId: string;
  slotMs: number;
}

/** Minimum time between rechecks of the kind, ms. */
export const leastRecheckMs = (kind: CheckType): number => (checkKinds[kind].minRecheckSecs ?? 0) * 1000;

/** Records off-grid slots that the control plane issues, so that ingest accepts their results. */
export async function issueSlots(sql: Db, region: string, slots: readonly Slot[]): Promise<void> {
  if (slots.length === 0) return;
  await sql`
    insert into issued_slots (target_id, region, scheduled_at)
    select target_id, ${region}, scheduled_at
    from unnest(${arrayOf(slots.map((slot) => slot.targetId))}::uuid[],
      ${arrayOf(slots.map((slot) => new Date(slot.slotMs).toISOString()))}::timestamptz[]) as s
        (target_id, scheduled_at)
    on conflict do nothing`;
}

/**
 * Issues a slot at or after `fromMs` that no other run of the target has in the region. Call it in the transaction
 * that stores the run. Null when the target is gone.
 */
export async function issueFreeSlot(
  sql: Db,
  { targetId, region, fromMs }: { targetId: string; region: string; fromMs: number },
): Promise<Date | null> {
  await sql`select pg_advisory_xact_lock(${lockSpace}, hashtext(${targetId}))`;
  // A separate statement, so that it sees the slots of the transactions that the lock waited for.
  const [row] = await sql<{ kind: CheckType; created_at: Date; intervals: number[]; last: Date | null }[]>`
    select t.kind, t.created_at, ${intervalsOf(sql)} as intervals,
      (select max(i.scheduled_at) from issued_slots i
        where i.target_id = t.id and i.region = ${region} and i.scheduled_at >= ${new Date(fromMs)}) as last
    from targets t where t.id = ${targetId}`;
  if (row === undefined) return null;
  let slotMs = Math.max(fromMs, row.created_at.getTime(), (row.last?.getTime() ?? 0) + 1);
  const intervalsMs = row.intervals.map((secs) => secs * 1000);
  const grid = { targetId, region, intervalsMs, leastRecheckMs: leastRecheckMs(row.kind) };
  while (isOnGrid(grid, slotMs) || isOnRecheckGrid(grid, slotMs)) slotMs++;
  await issueSlots(sql, region, [{ targetId, slotMs }]);
  return new Date(slotMs);
}

/** SQL: all intervals that the target `t` has had, in seconds, the current one first. */
export const intervalsOf = (sql: Db) => sql`
  case when t.past_intervals = '{}' then array[t.interval_secs]
    else t.interval_secs || array(select jsonb_object_keys(t.past_intervals)::int) end`;

/** The issued ones among the slots of the region, as `target/slot`. */
export async function selectIssued(sql: Db, region: string, slots: readonly Slot[]): Promise<Set<string>> {
  if (slots.length === 0) return new Set();
  const rows = await sql<{ target_id: string; scheduled_at: Date }[]>`
    select i.target_id, i.scheduled_at
    from unnest(${arrayOf(slots.map((slot) => slot.targetId))}::uuid[],
      ${arrayOf(slots.map((slot) => new Date(slot.slotMs).toISOString()))}::timestamptz[]) as s
        (target_id, scheduled_at)
    join issued_slots i on i.target_id = s.target_id and i.region = ${region} and i.scheduled_at = s.scheduled_at`;
  return new Set(rows.map((row) => issuedKey({ targetId: row.target_id, slotMs: row.scheduled_at.getTime() })));
}

export const issuedKey = ({ targetId, slotMs }: Slot): string => `${targetId}/${slotMs}`;

/** Deletes slots older than the retention of results, and those of deleted targets. */
export async function dropOldSlots(sql: Db, before: Date): Promise<void> {
  await sql`delete from issued_slots where scheduled_at < ${before}`;
  await sql`delete from issued_slots i using deleted_targets d where i.target_id = d.target_id`;
}

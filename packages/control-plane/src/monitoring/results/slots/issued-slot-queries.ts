import type { CheckType } from "@statusmesh/shared/checks";
import { lockSpaces } from "../../../platform/db/locks.ts";
import { arrayOf, columnOf, type Db, firstOf } from "../../../platform/db/client/sql.ts";

/** A slot of a target in a region, Unix ms. */
export interface Slot {
  targetId: string;
  slotMs: number;
}

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

/** The part of a target that decides where a slot is free. */
export interface SlotHistoryRow {
  kind: CheckType;
  created_at: Date;
  /** In seconds, the current one first. */
  intervals: number[];
  /** The last slot issued in the region since the given time. */
  last: Date | null;
}

/** Locks the issuing of slots of a target until the transaction ends. Null when the target is gone. */
export async function lockIssuing(
  sql: Db,
  targetId: string,
  region: string,
  from: Date,
): Promise<SlotHistoryRow | null> {
  await sql`select pg_advisory_xact_lock(${lockSpaces.issuing}, hashtext(${targetId}))`;
  // A separate statement, so that it sees the slots of the transactions that the lock waited for.
  return await firstOf(sql<SlotHistoryRow[]>`
    select t.kind, t.created_at, ${intervalsOf(sql)} as intervals, i.last
    from targets t cross join (
      select max(scheduled_at) as last from issued_slots
      where target_id = ${targetId} and region = ${region} and scheduled_at >= ${from}
    ) i
    where t.id = ${targetId}`);
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

/** The targets that were issued a slot in the region at or after the given one, of those given. */
export async function selectIssuedSince(sql: Db, region: string, slots: readonly Slot[]): Promise<Set<string>> {
  if (slots.length === 0) return new Set();
  const ids = await columnOf<string>(sql`
    select distinct i.target_id
    from unnest(${arrayOf(slots.map((slot) => slot.targetId))}::uuid[],
      ${arrayOf(slots.map((slot) => new Date(slot.slotMs).toISOString()))}::timestamptz[]) as s
        (target_id, scheduled_at)
    join issued_slots i on i.target_id = s.target_id and i.region = ${region} and i.scheduled_at >= s.scheduled_at`);
  return new Set(ids);
}

export const issuedKey = ({ targetId, slotMs }: Slot): string => `${targetId}/${slotMs}`;

/** Deletes slots older than the retention of results. */
export async function dropOldSlots(sql: Db, before: Date): Promise<void> {
  await sql`delete from issued_slots where scheduled_at < ${before}`;
}

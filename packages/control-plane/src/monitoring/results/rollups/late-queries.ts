import { type Db, valueOf } from "../../../platform/db/client/sql.ts";

/**
 * Marks hours (start as Unix ms) for the rollup. The rows are sorted, so that two batches do not deadlock. An update
 * rather than "do nothing": it takes the lock that keeps the rollup from consuming the mark before these results are
 * visible.
 */
export async function insertLateHours(sql: Db, marks: readonly { targetId: string; hour: number }[]): Promise<void> {
  await sql`
    insert into rollup_dirty (target_id, hour)
    select m.target_id, m.hour
    from unnest(${marks.map((mark) => mark.targetId)}::uuid[],
      ${marks.map((mark) => new Date(mark.hour).toISOString())}::timestamptz[]) as m (target_id, hour)
    on conflict (target_id, hour) do update set hour = excluded.hour`;
}

/**
 * Start of the oldest day that takes results; null for none. Ingest drops and counts results of earlier slots, because
 * the insert would fail for the whole batch.
 */
export async function oldestAcceptable(sql: Db): Promise<Date | null> {
  return await valueOf<Date | null>(sql`
    select coalesce((select p.first_day from pack_progress p), substring(min(c.relname) from '[0-9]{8}$')::date)
      ::timestamp at time zone 'UTC' as day
    from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'results'::regclass and not i.inhdetachpending`);
}

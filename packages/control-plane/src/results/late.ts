import type { Db } from "../db/sql.ts";

const hourMs = 3_600_000;

/** Start of the hour of a slot, Unix ms. */
export const hourOf = (atMs: number): number => Math.floor(atMs / hourMs) * hourMs;

/**
 * Marks the hours of results that arrived after their hour ended, so that the rollup sums them again. Call it in
 * the transaction that inserts the results, with the new rows and the clock of the batch. That transaction must end
 * within 30 s; with clocks of replicas up to a minute apart nothing is missed.
 */
export async function markLate(
  sql: Db,
  rows: readonly { targetId: string; scheduledAt: Date }[],
  nowMs: number,
): Promise<void> {
  const current = hourOf(nowMs);
  const late = new Map<string, { targetId: string; hour: number }>();
  for (const { targetId, scheduledAt } of rows) {
    const hour = hourOf(scheduledAt.getTime());
    if (hour < current) late.set(`${targetId} ${hour}`, { targetId, hour });
  }
  if (late.size === 0) return;
  const marks = [...late.values()].sort((a, b) =>
    a.targetId === b.targetId ? a.hour - b.hour : a.targetId < b.targetId ? -1 : 1,
  );
  // Sorted, so that two batches wait for each other instead of deadlocking. An update rather than "do nothing": it
  // takes the lock that keeps the rollup from consuming the mark before these results are visible.
  await sql`
    insert into rollup_dirty (target_id, hour)
    select m.target_id, m.hour
    from unnest(${marks.map((mark) => mark.targetId)}::uuid[],
      ${marks.map((mark) => new Date(mark.hour).toISOString())}::timestamptz[]) as m (target_id, hour)
    on conflict (target_id, hour) do update set hour = excluded.hour`;
}

/**
 * Start of the oldest day with a partition; null for none. Ingest drops and counts results of earlier slots, because
 * the insert would fail for the whole batch.
 */
export async function oldestAcceptable(sql: Db): Promise<Date | null> {
  const [row] = await sql<{ day: Date | null }[]>`
    select substring(min(c.relname) from '[0-9]{8}$')::date::timestamp at time zone 'UTC' as day
    from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'results'::regclass and not i.inhdetachpending`;
  return row?.day ?? null;
}

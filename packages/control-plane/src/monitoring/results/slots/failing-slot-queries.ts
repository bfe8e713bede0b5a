import { arrayOf, type Db } from "../../../platform/db/client/sql.ts";
import { runs } from "../runs-queries.ts";

/**
 * The failing slots of targets since a time each: the number in the region with the most, rechecks and skipped runs
 * not counted, and the newest one.
 */
export async function countFailingSlots(
  sql: Db,
  spans: readonly { targetId: string; since: Date }[],
): Promise<Map<string, { count: number; last: Date }>> {
  const range = { target: sql`u.target_id`, from: sql`u.since`, to: sql`'infinity'::timestamptz` };
  const rows = await sql<{ target_id: string; count: number; last: Date }[]>`
    select distinct on (u.target_id) u.target_id, count(*)::integer as count, max(r.scheduled_at) as last
    from unnest(${arrayOf(spans.map(({ targetId }) => targetId))}::uuid[],
      ${arrayOf(spans.map(({ since }) => since.toISOString()))}::timestamptz[]) as u (target_id, since)
    cross join lateral ${runs(sql, range, ["status", "skip", "recheck"])} r
    where r.status <> 'up' and not r.skip and not r.recheck
    group by u.target_id, r.region
    order by u.target_id, count desc`;
  return new Map(rows.map(({ target_id, count, last }) => [target_id, { count, last }]));
}

import { arrayOf, type Db } from "../../../platform/db/client/sql.ts";
import type { WindowRow } from "../queries.ts";

export interface SeriesRow extends Pick<
  WindowRow,
  "id" | "title" | "description" | "starts_at" | "ends_at" | "updated_at" | "recurrence_rule" | "recurrence_time_zone"
> {
  sequence: number;
  target_ids: string[];
  /** Starts of occurrences that do not take place, and occurrences of another length: ISO 8601. */
  skipped: string[];
  changed: { starts_at: string; ends_at: string }[];
}

/** Windows of any of the targets that take place between `from` and `to`, with those of the targets that they touch. */
export async function selectSeries(
  sql: Db,
  orgId: string,
  targetIds: readonly string[],
  { from, to }: { from: Date; to: Date },
): Promise<SeriesRow[]> {
  const ids = arrayOf(targetIds);
  return await sql<SeriesRow[]>`
    select w.id, w.title, w.description, w.starts_at, w.ends_at, w.updated_at, w.recurrence_rule,
      w.recurrence_time_zone, w.sequence, own.ids as target_ids,
      array(select to_jsonb(o.starts_at) #>> '{}' from maintenance_occurrences o
        where o.window_id = w.id and o.cancelled and o.ends_at > ${from} order by o.starts_at) as skipped,
      coalesce((
        select jsonb_agg(jsonb_build_object('starts_at', o.starts_at, 'ends_at', o.ends_at) order by o.starts_at)
        from maintenance_occurrences o
        where o.window_id = w.id and not o.cancelled and o.ends_at > ${from} and w.recurrence_rule is not null
          and o.ends_at - o.starts_at <> w.ends_at - w.starts_at), '[]') as changed
    from maintenance_windows w
    cross join lateral (
      select array_agg(wt.target_id order by wt.position) as ids from maintenance_window_targets wt
      where wt.window_id = w.id and wt.target_id = any(${ids}::uuid[])
    ) own
    where w.org_id = ${orgId} and own.ids is not null and (w.over_at is null or w.over_at > ${from})
      and w.starts_at < ${to}
    order by w.starts_at, w.id`;
}

/** Windows of any of the targets that were deleted before their end since `since`. */
export async function selectCancellations(
  sql: Db,
  orgId: string,
  targetIds: readonly string[],
  since: Date,
): Promise<SeriesRow[]> {
  return await sql<SeriesRow[]>`
    select window_id as id, title, null as description, starts_at, ends_at, cancelled_at as updated_at,
      recurrence_rule, recurrence_time_zone, sequence, target_ids, '{}'::text[] as skipped, '[]'::jsonb as changed
    from maintenance_cancellations
    where org_id = ${orgId} and cancelled_at >= ${since} and target_ids && ${arrayOf(targetIds)}::uuid[]
    order by starts_at, window_id`;
}

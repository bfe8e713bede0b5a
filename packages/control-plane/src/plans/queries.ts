import { deleteInBatches } from "../db/purge.ts";
import type { Db } from "../db/sql.ts";

/** Limits of a plan; null is unlimited. */
export interface PlanRow {
  id: string;
  min_check_interval_secs: number;
  max_targets: number | null;
  max_members: number | null;
  max_status_pages: number | null;
  max_public_components: number | null;
  max_components_per_page: number | null;
  max_updates_per_incident: number | null;
  max_notification_channels: number | null;
  max_maintenance_windows: number | null;
  max_share_links_per_monitor: number | null;
  max_shared_monitors: number | null;
  api_writes_per_min: number | null;
  api_reads_per_min: number | null;
  bulk_ops_per_min: number | null;
  test_now_per_min: number | null;
  check_now_per_min: number | null;
}

const columns = (sql: Db) => sql`
  p.id, p.min_check_interval_secs, p.max_targets, p.max_members, p.max_status_pages, p.max_public_components,
  p.max_components_per_page, p.max_updates_per_incident,
  p.max_notification_channels, p.max_maintenance_windows, p.max_share_links_per_monitor, p.max_shared_monitors,
  p.api_writes_per_min, p.api_reads_per_min, p.bulk_ops_per_min, p.test_now_per_min, p.check_now_per_min`;

export async function selectPlanIds(sql: Db): Promise<string[]> {
  const rows = await sql<{ id: string }[]>`select id from plans order by id`;
  return rows.map(({ id }) => id);
}

/** The plan of an organisation. */
export async function selectPlan(sql: Db, orgId: string): Promise<PlanRow> {
  const [row] = await sql<PlanRow[]>`
    select ${columns(sql)} from orgs o join plans p on p.id = o.plan_id where o.id = ${orgId}`;
  return row!;
}

/**
 * {@link selectPlan} with a lock: concurrent callers wait until the transaction ends. Rows that refer to the
 * organisation may still be written.
 */
export async function lockPlan(sql: Db, orgId: string): Promise<PlanRow> {
  const [row] = await sql<PlanRow[]>`
    select ${columns(sql)} from orgs o join plans p on p.id = o.plan_id where o.id = ${orgId}
    for no key update of o`;
  return row!;
}

export interface RefusalRow {
  id: string;
  orgId: string;
  userId: string | null;
  quota: string;
  current: number;
  limit: number;
  plan: string;
  minute: Date;
  at: Date;
}

/** One row per minute, user and quota. Writes nothing for a deleted organisation. */
export async function upsertRefusal(sql: Db, row: RefusalRow): Promise<void> {
  await sql`
    insert into quota_events (id, org_id, user_id, quota, minute, at, refusals, "current", "limit", plan)
    select ${row.id}, o.id, ${row.userId}::uuid, ${row.quota}, ${row.minute}::timestamptz, ${row.at}::timestamptz, 1,
      ${row.current}::integer, ${row.limit}::integer, ${row.plan}
    from orgs o where o.id = ${row.orgId}
    on conflict (org_id, minute, quota, user_id) do update
    set refusals = quota_events.refusals + 1, at = excluded.at, "current" = excluded."current",
      "limit" = excluded."limit", plan = excluded.plan`;
}

export async function countRefusals(
  sql: Db,
  orgId: string,
  since: Date,
): Promise<{ quota: string; refusals: number }[]> {
  return await sql<{ quota: string; refusals: number }[]>`
    select quota, sum(refusals)::int as refusals from quota_events
    where org_id = ${orgId} and minute >= ${since} group by quota order by quota`;
}

/** Returns the number of deleted rows. */
export async function deleteRefusalsBefore(sql: Db, before: Date): Promise<number> {
  return await deleteInBatches(
    async (limit) =>
      (
        await sql`
          delete from quota_events where id in (select id from quota_events where at < ${before} limit ${limit})`
      ).count,
  );
}

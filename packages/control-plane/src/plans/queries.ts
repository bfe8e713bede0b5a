import type { Sql, TransactionSql } from "postgres";

type Db = Sql | TransactionSql;

/** What a plan allows; null is unlimited. */
export interface PlanRow {
  id: string;
  min_check_interval_secs: number;
  max_targets: number | null;
  max_members: number | null;
  max_status_pages: number | null;
  max_public_components: number | null;
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
  p.id, p.min_check_interval_secs, p.max_targets, p.max_members, p.max_status_pages, p.max_public_components, p.max_notification_channels,
  p.max_maintenance_windows, p.max_share_links_per_monitor, p.max_shared_monitors, p.api_writes_per_min, p.api_reads_per_min, p.bulk_ops_per_min,
  p.test_now_per_min, p.check_now_per_min`;

/** The plan of an organisation. */
export async function selectPlan(sql: Db, orgId: string): Promise<PlanRow> {
  const [row] = await sql<PlanRow[]>`select ${columns(sql)} from orgs o join plans p on p.id = o.plan_id where o.id = ${orgId}`;
  return row!;
}

/** {@link selectPlan}; whoever else asks so waits until the transaction ends. Rows that refer to the organisation may still be written. */
export async function lockPlan(sql: Db, orgId: string): Promise<PlanRow> {
  const [row] = await sql<PlanRow[]>`select ${columns(sql)} from orgs o join plans p on p.id = o.plan_id where o.id = ${orgId} for no key update of o`;
  return row!;
}

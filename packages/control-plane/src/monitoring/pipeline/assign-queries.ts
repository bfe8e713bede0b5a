import type { PendingQuery, Row } from "postgres";
import type { CheckSpec } from "@statusmesh/shared/checks";
import { columnOf, type Db, inPortions, rowOf } from "../../platform/db/client/sql.ts";

/** A target of a region, or one that has left it. */
export interface AssignableRow {
  id: string;
  org_id: string;
  version: number;
  interval_secs: number;
  spec: CheckSpec;
  /** False when the region does not run it any more. */
  assigned: boolean;
  /** True when it is to run soon: it has no result, or none since an edit that asks for one. */
  isDue: boolean;
  /** Its creation, or the last edit that asks for a run. */
  due_since: Date;
  created_at: Date;
}

const assignable = (sql: Db, region: string) => sql`
  t.id, t.org_id, t.version, t.interval_secs, t.spec, t.created_at,
  coalesce(s.last_result_at < t.run_due_since, s.last_result_at is null) as "isDue",
  coalesce(t.run_due_since, t.created_at) as due_since,
  t.enabled and o.deleted_at is null
    and exists (select 1 from target_regions r where r.target_id = t.id and r.region_id = ${region}) as assigned`;

/** The enabled targets of a region, without those of deleted organisations. */
export async function selectRegionTargets(sql: Db, region: string): Promise<AssignableRow[]> {
  return await inPortions(sql<AssignableRow[]>`
    select ${assignable(sql, region)} from target_regions r
    join targets t on t.id = r.target_id join orgs o on o.id = t.org_id join target_states s on s.target_id = t.id
    where r.region_id = ${region} and t.enabled and o.deleted_at is null`);
}

/**
 * The targets of the region that were changed or deleted between two snapshots. Rows from a dump of another cluster may
 * have transaction ids that this cluster has not reached; they are no changes.
 */
export async function selectChangedTargets(
  sql: Db,
  region: string,
  { since, now }: { since: string; now: string },
): Promise<{ rows: AssignableRow[]; deleted: string[] }> {
  if (now === since) return { rows: [], deleted: [] };
  const isNew = (id: PendingQuery<Row[]>) => sql`
    ${id} >= pg_snapshot_xmin(${since}::pg_snapshot) and ${id} < pg_snapshot_xmax(${now}::pg_snapshot)
    and not pg_visible_in_snapshot(${id}, ${since}::pg_snapshot)`;
  const rows = await sql<AssignableRow[]>`
    select ${assignable(sql, region)} from targets t join orgs o on o.id = t.org_id
    join target_states s on s.target_id = t.id
    where ${isNew(sql`t.changed_xid`)}
      and (${region} = any(t.former_regions)
        or exists (select 1 from target_regions r where r.target_id = t.id and r.region_id = ${region}))`;
  const deleted = await columnOf<string>(sql`
    select target_id from deleted_targets
    where ${isNew(sql`changed_xid`)} and ${region} = any(regions)`);
  return { rows, deleted };
}

/** A snapshot, and the history that it belongs to. */
export interface SnapshotPlace {
  /** xmin:xmax:ids in progress (PostgreSQL manual, "Transaction ID and Snapshot Information Functions"). */
  snapshot: string;
  /** Cluster, database, and the timeline, which a restore to a point in time and a promotion change. */
  history: string;
}

export async function selectSnapshotPlace(sql: Db): Promise<SnapshotPlace> {
  return await rowOf(sql<SnapshotPlace[]>`
    select pg_current_snapshot()::text as snapshot, concat_ws('/', (select system_identifier from pg_control_system()),
      (select oid from pg_database
        where datname = current_database()), left(pg_walfile_name(pg_current_wal_lsn()), 8)) as history`);
}

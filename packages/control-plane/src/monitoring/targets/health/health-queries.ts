import { arrayOf, countOf, type Db, inPortions, valueOf } from "../../../platform/db/client/sql.ts";
import { type Cause, causeKey } from "../../../alerting/causes/service.ts";
import { matching, monitorCauses, monitorTables, stateAt, type TargetFilter } from "../list/filter-queries.ts";
import type { MonitorState } from "../schema.ts";

interface FailureRow {
  id: string;
  name: string;
  /** The host that the check connects to. */
  host: string | null;
  since: Date | null;
  /** Newest error of a failing region. */
  error: string | null;
}

const failureColumns = (sql: Db, now: Date) => sql`
  t.id, t.name, ${stateAt(sql, now)} as state, t.host, coalesce(i.outage_since, s.status_since) as since,
  coalesce(s.last_error, i.error_sample) as error`;

const isFailing = (sql: Db, now: Date) => sql`${stateAt(sql, now)} in ('down', 'error', 'degraded')`;

export interface FailingRow extends FailureRow {
  state: "down" | "error" | "degraded";
  /** The open incident; null for a monitor that is on no status page. */
  incident_id: string | null;
}

/** Failing monitors: critical incidents first, then the worst state, then the longest failure. */
export async function selectFailing(sql: Db, orgId: string, now: Date, limit: number): Promise<FailingRow[]> {
  return await sql<FailingRow[]>`
    select ${failureColumns(sql, now)},
      case when exists (select from status_page_components c where c.target_id = t.id) then i.id end as incident_id
    from ${monitorTables(sql)}
    where t.org_id = ${orgId} and ${isFailing(sql, now)}
    order by i.severity is distinct from 'critical', i.acknowledged_at is not null,
      array_position(array['down', 'error', 'degraded'], ${stateAt(sql, now)}),
      coalesce(i.outage_since, s.status_since), t.id
    limit ${limit}`;
}

export interface ListedMonitorRow extends FailureRow {
  state: MonitorState;
  kind: string;
  tags: string[];
  last_result_at: Date | null;
  created_at: Date;
}

/** A filter, and whether the monitor fails and shares its cause with others; null: either. */
export interface MonitorListFilter extends TargetFilter {
  failing: boolean | null;
  caused: boolean | null;
}

const listed = (sql: Db, orgId: string, now: Date, filter: MonitorListFilter) => sql`
  ${matching(sql, orgId, now, filter)}
  ${filter.failing === null ? sql`` : sql`and (${isFailing(sql, now)}) = ${filter.failing}`}
  ${
    filter.caused === null
      ? sql``
      : sql`and (t.id in (with ${monitorCauses(sql, orgId, now)} select id from caused)) = ${filter.caused}`
  }`;

/** Monitors, newest first: those behind `after`, whichever of them have left the list meanwhile. */
export async function selectListedMonitors(
  sql: Db,
  orgId: string,
  now: Date,
  filter: MonitorListFilter,
  { after, limit }: { after: { createdAt: Date; id: string } | null; limit: number },
): Promise<ListedMonitorRow[]> {
  return await sql<ListedMonitorRow[]>`
    select ${failureColumns(sql, now)}, t.kind, t.tags, s.last_result_at, t.created_at from ${monitorTables(sql)}
    where ${listed(sql, orgId, now, filter)}
      ${after === null ? sql`` : sql`and (t.created_at, t.id) < (${after.createdAt}, ${after.id}::uuid)`}
    order by t.created_at desc, t.id desc limit ${limit}`;
}

export async function countListedMonitors(
  sql: Db,
  orgId: string,
  now: Date,
  filter: MonitorListFilter,
): Promise<number> {
  return await countOf(
    sql,
    sql`from targets t join target_states s on s.target_id = t.id where ${listed(sql, orgId, now, filter)}`,
  );
}

/** The cause that each of these monitors shares with others, and the number of its monitors. */
export async function selectCausesOf(
  sql: Db,
  orgId: string,
  now: Date,
  ids: readonly string[],
): Promise<Map<string, { key: string; count: number }>> {
  const rows = await sql<(Cause & { id: string; count: number })[]>`
    with ${monitorCauses(sql, orgId, now)}, counted as (
      select id, kind, value, (count(*) over (partition by kind, value))::int as count from caused
    )
    select id, kind, value, count from counted where id = any(${arrayOf(ids)}::uuid[])`;
  return new Map(rows.map((row) => [row.id, { key: causeKey(row), count: row.count }]));
}

/** States of the given monitors of the organisation. */
export async function selectStates(sql: Db, orgId: string, now: Date, ids: readonly string[]) {
  return await sql<{ id: string; state: MonitorState }[]>`
    select t.id, ${stateAt(sql, now)} as state from targets t join target_states s on s.target_id = t.id
    where t.org_id = ${orgId} and t.id = any(${arrayOf(ids)}::uuid[])`;
}

/** A monitor as its metrics show it. */
export interface MeasuredRow {
  id: string;
  name: string;
  kind: string;
  tags: string[];
  state: MonitorState;
  has_incident: boolean;
  flaps: boolean;
  /** Of the certificate or registration that was seen last. */
  expires_at: Date | null;
  /** Small and stable. */
  number: number;
  /** The address of the check as it is entered, its host and its port; null where the kind has none. */
  url: string | null;
  host: string | null;
  port: string | null;
}

/** All monitors of the organisation, oldest first. */
export async function selectMeasured(sql: Db, orgId: string, now: Date): Promise<MeasuredRow[]> {
  return await inPortions(sql<MeasuredRow[]>`
    select t.id, t.name, t.kind, t.tags, ${stateAt(sql, now)} as state, i.id is not null as has_incident,
      s.flapping is not null as flaps, s.expires_at,
      t.number, t.spec ->> 'url' as url, t.host, t.spec ->> 'port' as port
    from ${monitorTables(sql)}
    where t.org_id = ${orgId} order by t.id`);
}

export async function selectIdOfNumber(sql: Db, orgId: string, number: number): Promise<string | null> {
  return await valueOf<string | null>(sql`select id from targets where org_id = ${orgId} and number = ${number}`);
}

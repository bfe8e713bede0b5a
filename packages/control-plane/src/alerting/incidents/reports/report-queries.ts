import { type Db, manyIds, rowOf } from "../../../platform/db/client/sql.ts";
import { severityOrder } from "../../channels/service.ts";
import type { NewUpdate } from "../timeline/narration-schema.ts";
import type { IncidentRow } from "../queries.ts";

type Phase = NewUpdate["phase"];

/** The newest phase that an operator has posted; null without an update. */
const latestPhase = (sql: Db) => sql`
  (select u.phase from incident_updates u where u.incident_id = i.id order by u.created_at desc, u.id desc limit 1)`;

export interface PageIncidentRow extends Pick<
  IncidentRow,
  "id" | "target_id" | "monitor_name" | "severity" | "started_at"
> {
  latest_phase: Phase | null;
}

/** Open incidents of monitors that are on a status page: by severity, then the newest; those behind `after`. */
export async function selectOnPages(
  sql: Db,
  orgId: string,
  after: Pick<IncidentRow, "severity" | "id"> | null,
  limit: number,
): Promise<PageIncidentRow[]> {
  const order = severityOrder(sql, sql`i.severity`);
  const behind =
    after === null
      ? sql``
      : sql`and (-${order}, i.id) < (-${severityOrder(sql, sql`${after.severity}`)}, ${after.id}::uuid)`;
  return await sql<PageIncidentRow[]>`
    select i.id, i.target_id, t.name as monitor_name, i.severity, i.started_at, ${latestPhase(sql)} as latest_phase
    from incidents i join targets t on t.id = i.target_id
    where i.org_id = ${orgId} and i.ended_at is null and not i.retracted
      and exists (select from status_page_components c where c.target_id = i.target_id)
      ${behind}
    order by ${order}, i.id desc limit ${limit}`;
}

export type IncidentSpan = Pick<IncidentRow, "id" | "started_at" | "ended_at">;

/** Incidents of a monitor that overlap the range, newest first; at most 200. */
export async function selectSpans(
  sql: Db,
  orgId: string,
  targetId: string,
  { from, to }: { from: Date; to: Date },
): Promise<IncidentSpan[]> {
  return await sql<IncidentSpan[]>`
    select id, started_at, ended_at from incidents
    where org_id = ${orgId} and target_id = ${targetId} and not retracted and started_at <= ${to}
      and (ended_at is null or ended_at >= ${from})
    order by started_at desc limit 200`;
}

export interface MetricsRow {
  total: number;
  minor: number;
  major: number;
  critical: number;
  open: number;
  closed: number;
  auto_resolved: number;
  human_resolved: number;
  mtta_secs: number | null;
  mttr_secs: number | null;
}

/** Incidents that began at `since` or later, in numbers. */
export async function selectMetrics(sql: Db, orgId: string, since: Date): Promise<MetricsRow> {
  return await rowOf(sql<MetricsRow[]>`
    select count(*)::int as total, count(*) filter (where severity = 'minor')::int as minor,
      count(*) filter (where severity = 'major')::int as major,
      count(*) filter (where severity = 'critical')::int as critical,
      count(*) filter (where ended_at is null)::int as open,
      count(*) filter (where ended_at is not null)::int as closed,
      count(*) filter (where closed_by = 'engine')::int as auto_resolved,
      count(*) filter (where closed_by = 'person')::int as human_resolved,
      avg(extract(epoch from acknowledged_at - opened_at))::float8 as mtta_secs,
      (avg(past_outage_ms) filter (where closed_by <> 'pause') / 1000)::float8 as mttr_secs
    from incidents where org_id = ${orgId} and started_at >= ${since} and not retracted`);
}

/** Incidents of a monitor: how many, and those of them with a time to resolve. */
export interface IncidentTotals {
  target_id: string;
  incidents: number;
  /** Closed ones, without those that a pause closed. */
  resolved: number;
  /** Their time of outage, ms. */
  outage_ms: number;
}

/** Incidents of the monitors that began in the range. */
export async function selectIncidentTotals(
  sql: Db,
  orgId: string,
  targetIds: readonly string[],
  { from, to }: { from: Date; to: Date },
): Promise<IncidentTotals[]> {
  const isResolved = sql`closed_by <> 'pause'`;
  return await sql<IncidentTotals[]>`
    select target_id, count(*)::int as incidents, (count(*) filter (where ${isResolved}))::int as resolved,
      coalesce(sum(past_outage_ms) filter (where ${isResolved}), 0)::float8 as outage_ms
    from incidents
    where org_id = ${orgId} and target_id = any(${manyIds(sql, targetIds)}) and not retracted
      and started_at >= ${from} and started_at < ${to}
    group by target_id`;
}

/** Monitors with the most incidents since then, most first. */
export async function selectNoisiest(sql: Db, orgId: string, since: Date, limit: number) {
  return await sql<{ target_id: string; name: string; count: number }[]>`
    select t.id as target_id, t.name, n.count from (
      select target_id, count(*)::int as count from incidents
      where org_id = ${orgId} and started_at >= ${since} and not retracted
      group by target_id order by count(*) desc, target_id limit ${limit}) n
    join targets t on t.id = n.target_id order by n.count desc, t.id`;
}

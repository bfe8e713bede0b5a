import type { SharedCauseRow } from "../../../alerting/causes/service.ts";
import { severityOrder } from "../../../alerting/channels/service.ts";
import type { Db } from "../../../platform/db/client/sql.ts";
import { matching, monitorCauses, monitorTables, statusAt, type TargetFilter } from "./filter-queries.ts";

/** Where a line stands in the grouped list; a cause stands before the monitors of its rank. */
export const ranks = { critical: 0, failing: 1, degraded: 2, acknowledged: 3, rest: 4 } as const;

export interface MonitorCauseRow extends SharedCauseRow {
  /** Members with an open incident that is acknowledged. */
  acknowledged: number;
  down: number;
  error: number;
  degraded: number;
  critical: boolean;
  rank: number;
  /** Causes that match, by rank. */
  ranks: number[];
  /** Begin of the oldest failure in the worst state of the members. */
  since: Date | null;
  /** Causes that match, and their monitors, regardless of limit and offset. */
  causes: number;
  monitors: number;
}

/** The members that match, with the number of those that share their cause. */
const members = (sql: Db, orgId: string, now: Date, filter: TargetFilter) => sql`
  with ${monitorCauses(sql, orgId, now)}, matched as (
    select c.id, c.kind, c.value, c.total, count(*) over (partition by c.kind, c.value) as n
    from caused c join targets t on t.id = c.id join target_states s on s.target_id = t.id
    where ${matching(sql, orgId, now, filter)}
  )`;

/** Ids of the monitors that are one line with others: a member that matches alone has a row of its own. */
export const groupedMonitors = (sql: Db, orgId: string, now: Date, filter: TargetFilter) =>
  sql`${members(sql, orgId, now, filter)} select id from matched where n > 1`;

/** The causes that several matching monitors share, by rank, then by size, then the newest. */
export async function selectMonitorCauses(
  sql: Db,
  orgId: string,
  now: Date,
  filter: TargetFilter,
  page: { limit: number; offset: number },
): Promise<MonitorCauseRow[]> {
  return await sql<MonitorCauseRow[]>`
    ${members(sql, orgId, now, filter)}, described as (
      select m.kind, m.value, m.total, t.id, t.name, t.sort_name, i.id is not null as open, i.acknowledged_at,
        i.severity = 'critical' as critical, coalesce(${severityOrder(sql, sql`i.severity`)}, 3) as severity,
        ${statusAt(sql, now)} as status,
        coalesce(i.outage_since, s.status_since) as since, coalesce(s.last_error, i.error_sample) as error
      from matched m join (${monitorTables(sql)}) on t.id = m.id
      where m.n > 1
    ), causes as (
    select kind, value, count(*)::int as count, max(total) as total,
      coalesce(bool_or(critical), false) as critical, min(since) as begun,
      case when bool_or(critical and acknowledged_at is null) then ${ranks.critical}::int
        when count(*) filter (where open and acknowledged_at is null) = 0 and bool_or(acknowledged_at is not null)
          then ${ranks.acknowledged}::int
        when bool_and(status = 'degraded') then ${ranks.degraded}::int else ${ranks.failing}::int end as rank,
      count(*) filter (where open and acknowledged_at is null)::int as waiting,
      count(*) filter (where acknowledged_at is not null)::int as acknowledged,
      count(*) filter (where status = 'down')::int as down,
      count(*) filter (where status = 'error')::int as error,
      count(*) filter (where status = 'degraded')::int as degraded,
      case when bool_or(status = 'down') then min(since) filter (where status = 'down')
        when bool_or(status = 'error') then min(since) filter (where status = 'error') else min(since) end as since,
      mode() within group (order by error) as error_sample,
      coalesce(min(error) = max(error), true) as same_error,
      (array_agg(name order by severity, sort_name, name))[1:3] as names,
      (array_agg(id order by severity, sort_name, name))[1] as example_id, count(*) over ()::int as causes,
      sum(count(*)) over ()::int as monitors
    from described group by kind, value
    )
    select *, array[${Object.values(ranks).map(
      (rank) => sql`${rank === 0 ? sql`` : sql`,`} (count(*) filter (where rank = ${rank}) over ())::int`,
    )}] as ranks
    from causes order by rank, count desc, begun desc, kind, value
    limit ${page.limit} offset ${page.offset}`;
}

import type { SharedCauseRow } from "../../platform/db/causes.ts";
import type { Db } from "../../platform/db/sql.ts";
import { matching, monitorCauses, monitorTables, statusAt, type TargetFilter } from "./filter-queries.ts";

export interface MonitorCauseRow extends SharedCauseRow {
  /** Members with an open incident that is acknowledged. */
  acknowledged: number;
  down: number;
  error: number;
  degraded: number;
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

/** The causes that several matching monitors share, unacknowledged ones first, then by state and size. */
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
        ${statusAt(sql, now)} as status,
        coalesce(i.outage_since, s.status_since) as since, coalesce(s.last_error, i.error_sample) as error
      from matched m join (${monitorTables(sql)}) on t.id = m.id
      where m.n > 1
    )
    select kind, value, count(*)::int as count, max(total) as total,
      count(*) filter (where open and acknowledged_at is null)::int as waiting,
      count(*) filter (where acknowledged_at is not null)::int as acknowledged,
      count(*) filter (where status = 'down')::int as down,
      count(*) filter (where status = 'error')::int as error,
      count(*) filter (where status = 'degraded')::int as degraded,
      case when bool_or(status = 'down') then min(since) filter (where status = 'down')
        when bool_or(status = 'error') then min(since) filter (where status = 'error') else min(since) end as since,
      mode() within group (order by error) as error_sample,
      coalesce(min(error) = max(error), true) as same_error,
      (array_agg(name order by sort_name, name))[1:3] as names,
      (array_agg(id order by sort_name, name))[1] as example_id, count(*) over ()::int as causes,
      sum(count(*)) over ()::int as monitors
    from described group by kind, value
    order by bool_and(acknowledged_at is not null), bool_and(status = 'degraded'), count(*) desc, min(since) desc, kind,
      value
    limit ${page.limit} offset ${page.offset}`;
}

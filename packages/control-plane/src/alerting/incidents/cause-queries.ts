import type { SharedCauseRow } from "../causes/service.ts";
import type { Db, Paging } from "../../platform/db/client/sql.ts";
import { severityOrder } from "../channels/service.ts";
import { causeMembers, type IncidentFilter, rankOf, ranks } from "./queries.ts";

/** Open incidents of monitors that share a cause. */
export interface IncidentCauseRow extends SharedCauseRow {
  /** Incidents that are no more than minor. */
  minor: number;
  critical: number;
  rank: number;
  /** Causes that match, by rank. */
  ranks: number[];
  /** Begin of the oldest that is more than minor, or of the oldest where all are minor. */
  since: Date;
  /** Causes that match, and their incidents, regardless of limit and offset. */
  causes: number;
  incidents: number;
}

/** Rows of each rank, in every row. */
const tallyOf = (sql: Db) =>
  sql`array[${Array.from(
    { length: ranks },
    (_, rank) => sql`${rank === 0 ? sql`` : sql`,`} (count(*) filter (where rank = ${rank}) over ())::int`,
  )}]`;

/**
 * The causes that several matching open incidents share, by rank, those with the most incidents first, then the newest.
 * The severity of a cause is the highest of its incidents without an acknowledgement, or of all without one.
 */
export async function selectIncidentCauses(
  sql: Db,
  orgId: string,
  filter: IncidentFilter,
  page: Paging,
): Promise<IncidentCauseRow[]> {
  return await sql<IncidentCauseRow[]>`
    ${causeMembers(sql, orgId, filter)}, causes as (
    select m.kind, m.value, count(*)::int as count, max(m.total) as total, min(${rankOf(sql)}) as rank,
      count(*) filter (where i.acknowledged_at is null)::int as waiting,
      count(*) filter (where i.severity = 'minor')::int as minor,
      count(*) filter (where i.severity = 'critical')::int as critical,
      coalesce(min(i.outage_since) filter (where i.severity <> 'minor'), min(i.outage_since)) as since,
      mode() within group (order by i.error_sample) as error_sample,
      coalesce(min(i.error_sample) = max(i.error_sample), true) as same_error,
      (array_agg(t.name order by s.place, t.sort_name, t.name))[1:3] as names,
      (array_agg(t.id order by s.place, t.sort_name, t.name))[1] as example_id, count(*) over ()::int as causes,
      sum(count(*)) over ()::int as incidents, min(i.started_at) as started_at
    from matched m join incidents i on i.id = m.id join targets t on t.id = i.target_id
    cross join lateral (select ${severityOrder(sql, sql`i.severity`)} as place) s
    where m.n > 1
    group by m.kind, m.value
    )
    select *, ${tallyOf(sql)} as ranks from causes
    order by rank, count desc, started_at desc, kind, value
    limit ${page.limit} offset ${page.offset}`;
}

import type { SharedCauseRow } from "../../platform/db/causes.ts";
import type { Db, Paging } from "../../platform/db/sql.ts";
import { causeMembers, type IncidentFilter } from "./queries.ts";

/** Open incidents of monitors that share a cause. */
export interface IncidentCauseRow extends SharedCauseRow {
  /** Incidents that are no more than minor. */
  minor: number;
  critical: number;
  /** Begin of the oldest that is more than minor, or of the oldest where all are minor. */
  since: Date;
  /** Causes that match, and their incidents, regardless of limit and offset. */
  causes: number;
  incidents: number;
}

/**
 * The causes that several matching open incidents share: acknowledged ones last, then those with the most incidents
 * first.
 */
export async function selectIncidentCauses(
  sql: Db,
  orgId: string,
  filter: IncidentFilter,
  page: Paging,
): Promise<IncidentCauseRow[]> {
  return await sql<IncidentCauseRow[]>`
    ${causeMembers(sql, orgId, filter)}
    select m.kind, m.value, count(*)::int as count, max(m.total) as total,
      count(*) filter (where i.acknowledged_at is null)::int as waiting,
      count(*) filter (where i.severity = 'minor')::int as minor,
      count(*) filter (where i.severity = 'critical')::int as critical,
      coalesce(min(i.outage_since) filter (where i.severity <> 'minor'), min(i.outage_since)) as since,
      mode() within group (order by i.error_sample) as error_sample,
      coalesce(min(i.error_sample) = max(i.error_sample), true) as same_error,
      (array_agg(t.name order by t.sort_name, t.name))[1:3] as names,
      (array_agg(t.id order by t.sort_name, t.name))[1] as example_id, count(*) over ()::int as causes,
      sum(count(*)) over ()::int as incidents
    from matched m join incidents i on i.id = m.id join targets t on t.id = i.target_id
    where m.n > 1
    group by m.kind, m.value
    order by count(*) filter (where i.acknowledged_at is null) = 0, count(*) desc, min(i.started_at) desc, m.kind,
      m.value
    limit ${page.limit} offset ${page.offset}`;
}

import { causeTables } from "../causes/service.ts";
import { arrayOf, type Db } from "../../platform/db/client/sql.ts";
import { severityOrder } from "../channels/service.ts";
import { isAcknowledgeable } from "../deliveries/service.ts";

/** Incidents of a message that are of one cause, or a single one. */
export interface CoveredCause {
  /** `host:db-1.example.org`, or the id of the incident. */
  key: string;
  kind: "host" | "tag" | "error" | "region" | "incident";
  value: string;
  /** Open ones, and those of them that nobody has acknowledged. */
  ids: string[];
  open: number;
  waiting: number;
  severity: "minor" | "major" | "critical";
  since: Date | null;
  error: string | null;
  /** At most five. */
  names: string[];
}

/** The causes of incidents, the most severe first, then the largest. */
export async function selectCauses(sql: Db, orgId: string, incidentIds: readonly string[]): Promise<CoveredCause[]> {
  return await sql<CoveredCause[]>`
    with ${causeTables(
      sql,
      orgId,
      sql`
        select i.id, t.host, t.tags, i.error_sample as error, i.diagnosis,
          i.regions_down as regions,
          i.severity = 'critical' as critical
        from incidents i join targets t on t.id = i.target_id
        where i.org_id = ${orgId} and i.id = any(${arrayOf(incidentIds)}::uuid[])`,
    )}, listed as (
      select i.*, t.name, t.sort_name, coalesce(c.kind, 'incident') as kind, coalesce(c.value, i.id::text) as value,
        ${isAcknowledgeable(sql)} as is_open
      from incidents i join targets t on t.id = i.target_id left join caused c on c.id = i.id
      where i.org_id = ${orgId} and i.id = any(${arrayOf(incidentIds)}::uuid[])
    )
    select case when kind = 'incident' then l.value else kind || ':' || l.value end as key, kind,
      coalesce(min(r.name), l.value) as value,
      coalesce(array_agg(l.id) filter (where is_open and acknowledged_at is null), '{}') as ids,
      count(*) filter (where is_open)::int as open,
      count(*) filter (where is_open and acknowledged_at is null)::int as waiting,
      (array_agg(severity order by ${severityOrder(sql, sql`severity`)}))[1] as severity,
      min(outage_since) as since, mode() within group (order by error_sample) as error,
      (array_agg(l.name order by ${severityOrder(sql, sql`severity`)}, sort_name, l.name))[1:5] as names
    from listed l left join regions r on l.kind = 'region' and r.id = l.value
    group by kind, l.value
    order by min(${severityOrder(sql, sql`severity`)}), count(*) desc, max(started_at) desc, l.value`;
}

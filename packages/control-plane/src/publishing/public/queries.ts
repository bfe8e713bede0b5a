import { inPortions, type Db } from "../../platform/db/sql.ts";
import type { Impact, Severity } from "../../alerting/incidents/schema.ts";

/** A stretch of an outage of a component. */
export interface IncidentSpanRow {
  target_id: string;
  started_at: Date;
  ended_at: Date | null;
  /** Set by a person, for the whole incident; null: the impact decides. */
  pinned_severity: Severity | null;
  impact: Impact;
}

/**
 * The outages of the components of a page that overlap the time since `since`, without those of retracted incidents,
 * and of imported ones: imported days have their time.
 * Where a monitor has flapped more than 2,000 times, outages of one kind that begin in the same quarter of an hour are
 * one row of their summed length, so that a page has at most 35,000 rows of one component.
 */
export async function selectIncidentSpans(
  sql: Db,
  orgId: string,
  pageId: string,
  since: Date,
): Promise<IncidentSpanRow[]> {
  return await inPortions(sql<IncidentSpanRow[]>`
    with outages as (
      select i.target_id, o.started_at, o.ended_at, o.impact, case when i.severity_pinned then i.severity end as pinned,
        count(*) over (partition by i.target_id) > 2000 as many
      from incidents i join status_page_components c on c.target_id = i.target_id
      join incident_outages o on o.incident_id = i.id and (o.ended_at is null or o.ended_at >= ${since})
      where i.org_id = ${orgId} and c.page_id = ${pageId} and not i.retracted
        and not i.imported and (i.ended_at is null or i.ended_at >= ${since})
    )
    select target_id, started_at, ended_at, pinned as pinned_severity, impact from outages
    where not many or ended_at is null
    union all
    select target_id, min(started_at), min(started_at) + sum(ended_at - started_at), pinned, impact from outages
    where many and ended_at is not null
    group by target_id, pinned, impact, date_bin('15 minutes', started_at, 'epoch')`);
}

export interface PublicIncidentRow {
  id: string;
  target_id: string;
  component_name: string;
  severity: Severity;
  impact: Impact;
  severity_pinned: boolean;
  peak_impact: Impact;
  past_outage_ms: number;
  outage_since: Date | null;
  imported: boolean;
  public_title: string | null;
  public_description: string | null;
  started_at: Date;
  ended_at: Date | null;
  /** How many there are; `updates` has the newest. */
  updates_total: number;
  updates: {
    phase: "investigating" | "identified" | "monitoring" | "resolved" | "postmortem";
    message: string;
    created_at: string;
  }[];
}

/** `updates`: at most so many, newest first. */
const columns = (sql: Db, updates: number) => sql`
  i.id, i.target_id, coalesce(c.public_name, t.name) as component_name, i.severity, i.severity_pinned,
  i.impact, i.peak_impact, i.public_title, i.public_description, i.started_at, i.ended_at, i.outage_since, i.imported,
  i.past_outage_ms::float8,
  (select count(*)::int from incident_updates u where u.incident_id = i.id) as updates_total,
  coalesce((select jsonb_agg(jsonb_build_object('phase', u.phase, 'message', u.message, 'created_at', u.created_at)
    order by u.created_at desc, u.id desc)
    from (select * from incident_updates own where own.incident_id = i.id order by own.created_at desc, own.id desc
      limit ${updates}) u), '[]') as updates`;

/** Updates of an incident in a list. */
export const listedUpdates = 20;
/** Updates of an incident that is read by itself. */
const mostUpdates = 1000;

/** Open incidents of a page's components and up to `limit` that ended since `since`: open first, newest first. */
export async function selectPublicIncidents(
  sql: Db,
  orgId: string,
  pageId: string,
  since: Date,
  limit: number,
): Promise<PublicIncidentRow[]> {
  return await sql<PublicIncidentRow[]>`
    select ${columns(sql, listedUpdates)}
    from incidents i join status_page_components c on c.target_id = i.target_id join targets t on t.id = i.target_id
    where i.org_id = ${orgId} and c.page_id = ${pageId} and not i.retracted
      and (i.ended_at is null or i.ended_at >= ${since})
    order by i.ended_at is not null, i.started_at desc, i.id desc limit ${limit}`;
}

/** One incident of a component of the page, of any age. */
export async function selectPublicIncident(
  sql: Db,
  orgId: string,
  pageId: string,
  id: string,
): Promise<PublicIncidentRow | null> {
  const [row] = await sql<PublicIncidentRow[]>`
    select ${columns(sql, mostUpdates)}
    from incidents i join status_page_components c on c.target_id = i.target_id join targets t on t.id = i.target_id
    where i.org_id = ${orgId} and c.page_id = ${pageId} and i.id = ${id} and not i.retracted`;
  return row ?? null;
}

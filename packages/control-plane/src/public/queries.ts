import type { Db } from "../db/sql.ts";
import type { Impact, Severity } from "../incidents/schema.ts";

/** Incident fields for the day cells. */
export interface IncidentSpanRow {
  target_id: string;
  started_at: Date;
  ended_at: Date | null;
  severity: Severity;
  peak_impact: Impact;
}

/** Incidents of the components of a page that overlap the time since `since`, without retracted ones. */
export async function selectIncidentSpans(
  sql: Db,
  orgId: string,
  pageId: string,
  since: Date,
): Promise<IncidentSpanRow[]> {
  return await sql<IncidentSpanRow[]>`
    select i.target_id, i.started_at, i.ended_at, i.severity, i.peak_impact
    from incidents i join status_page_components c on c.target_id = i.target_id
    where i.org_id = ${orgId} and c.page_id = ${pageId} and not i.retracted
      and (i.ended_at is null or i.ended_at >= ${since})`;
}

export interface PublicIncidentRow {
  id: string;
  target_id: string;
  component_name: string;
  severity: Severity;
  impact: Impact;
  peak_impact: Impact;
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
  i.id, i.target_id, coalesce(c.public_name, t.name) as component_name, i.severity, i.impact, i.peak_impact,
    i.public_title, i.public_description, i.started_at, i.ended_at,
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

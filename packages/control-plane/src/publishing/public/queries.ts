import { type Db, firstOf, inPortions } from "../../platform/db/client/sql.ts";
import type { Impact, Severity } from "../../alerting/incidents/schema.ts";
import { isPublished } from "../../alerting/incidents/timeline/service.ts";

/** A stretch of an outage of a component, or of the maintenance of one without a monitor. */
export interface SpanRow {
  component_id: string;
  started_at: Date;
  ended_at: Date | null;
  /** Set by a person, for the whole incident; null: the impact decides. */
  pinned_severity: Severity | null;
  impact: Impact | "maintenance";
}

/**
 * The outages of the components of a page that overlap the time since `since`, without those of retracted and
 * unpublished incidents, and of imported ones: imported days have their time. Of components without a
 * monitor, the states other than operational.
 * Where a monitor has flapped more than 2,000 times, outages of one kind that begin in the same quarter of an hour are
 * one row of their summed length, so that a page has at most 35,000 rows of one component.
 */
export async function selectSpans(sql: Db, orgId: string, pageId: string, since: Date): Promise<SpanRow[]> {
  return await inPortions(sql<SpanRow[]>`
    with outages as (
      select c.id as component_id, o.started_at, o.ended_at, o.impact,
        case when i.severity_pinned then i.severity end as pinned,
        count(*) over (partition by i.target_id) > 2000 as many
      from incidents i join status_page_components c on c.target_id = i.target_id
      join status_pages p on p.id = c.page_id
      join incident_outages o on o.incident_id = i.id and (o.ended_at is null or o.ended_at >= ${since})
      where i.org_id = ${orgId} and c.page_id = ${pageId} and not i.retracted and ${isPublished(sql)}
        and not i.imported and (i.ended_at is null or i.ended_at >= ${since})
      union all
      select c.id, s.started_at, s.ended_at, s.state, null, false
      from component_states s join status_page_components c on c.manual_id = s.component_id
      where s.org_id = ${orgId} and c.page_id = ${pageId} and s.state <> 'operational'
        and (s.ended_at is null or s.ended_at >= ${since})
    )
    select component_id, started_at, ended_at, pinned as pinned_severity, impact from outages
    where not many or ended_at is null
    union all
    select component_id, min(started_at), min(started_at) + sum(ended_at - started_at), pinned, impact from outages
    where many and ended_at is not null
    group by component_id, pinned, impact, date_bin('15 minutes', started_at, 'epoch')`);
}

export interface PublicIncidentRow {
  id: string;
  /** Set where it was published later than it began. */
  published_at: Date | null;
  /** Since when the page shows it. */
  shown_at: Date;
  /** Host that its monitor connects to; never shown. */
  host: string | null;
  component_id: string;
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

/** Incidents of monitors, with at most so many updates, newest first. */
const ofMonitors = (sql: Db, orgId: string, pageId: string, updates: number) => sql`
  select i.id, r.published_at, coalesce(r.published_at, i.created_at) as shown_at, t.host, c.id as component_id,
    coalesce(c.public_name, t.name) as component_name, i.severity, i.severity_pinned,
    i.impact, i.peak_impact, i.public_title, i.public_description, i.started_at, i.ended_at, i.outage_since, i.imported,
    i.past_outage_ms::float8,
    (select count(*)::int from incident_updates u where u.incident_id = i.id) as updates_total,
    coalesce((select jsonb_agg(jsonb_build_object('phase', u.phase, 'message', u.message, 'created_at', u.created_at)
      order by u.created_at desc, u.id desc)
      from (select * from incident_updates own where own.incident_id = i.id order by own.created_at desc, own.id desc
        limit ${updates}) u), '[]') as updates
  from incidents i join status_page_components c on c.target_id = i.target_id join targets t on t.id = i.target_id
  join status_pages p on p.id = c.page_id
  left join incident_publications r on r.incident_id = i.id and r.page_id = p.id
  where i.org_id = ${orgId} and c.page_id = ${pageId} and not i.retracted and ${isPublished(sql)}`;

/** Outages of components without a monitor, as incidents. `also` limits their states. */
const ofManual = (sql: Db, orgId: string, pageId: string, also: ReturnType<typeof sql>) => sql`
  select o.id, null::timestamptz as published_at, o.started_at as shown_at, null as host, o.component_id,
    o.component_name,
    case when o.peak = 1 then 'minor' else 'major' end as severity,
    false as severity_pinned, ${wordOf(sql, "o.latest")} as impact, ${wordOf(sql, "o.peak")} as peak_impact,
    null as public_title, null as public_description, o.started_at, o.ended_at,
    case when o.ended_at is null then o.started_at end as outage_since, false as imported,
    coalesce(extract(epoch from o.ended_at - o.started_at) * 1000, 0)::float8 as past_outage_ms, 0 as updates_total,
    '[]'::jsonb as updates
  from (
    select s.outage_id as id, c.id as component_id, c.public_name as component_name, min(s.started_at) as started_at,
      case when bool_and(s.ended_at is not null) then max(s.ended_at) end as ended_at,
      max(${rankOf(sql)}) as peak, (array_agg(${rankOf(sql)} order by s.started_at desc, s.id desc))[1] as latest
    from component_states s join status_page_components c on c.manual_id = s.component_id
    where s.org_id = ${orgId} and c.page_id = ${pageId} and s.outage_id is not null ${also}
    group by s.outage_id, c.id, c.public_name
  ) o`;

const impacts = ["degraded", "partial_outage", "major_outage"] as const satisfies readonly Impact[];
/** The place of a state among the impacts, from 1. */
const rankOf = (sql: Db) => sql`array_position(${impacts}::text[], s.state)`;
const wordOf = (sql: Db, rank: string) => sql`(${impacts}::text[])[${sql.unsafe(rank)}]`;

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
    select * from (
      (${ofMonitors(sql, orgId, pageId, listedUpdates)} and (i.ended_at is null or i.ended_at >= ${since})
       order by i.ended_at is not null, i.started_at desc, i.id desc limit ${limit})
      union all
      ${ofManual(sql, orgId, pageId, sql`and (s.ended_at is null or s.ended_at >= ${since})`)}
    ) found
    order by ended_at is not null, started_at desc, id desc limit ${limit}`;
}

/** One incident of a component of the page, of any age. */
export async function selectPublicIncident(
  sql: Db,
  orgId: string,
  pageId: string,
  id: string,
): Promise<PublicIncidentRow | null> {
  return await firstOf(sql<PublicIncidentRow[]>`
    ${ofMonitors(sql, orgId, pageId, mostUpdates)} and i.id = ${id}
    union all
    ${ofManual(sql, orgId, pageId, sql`and s.outage_id = ${id}`)}`);
}

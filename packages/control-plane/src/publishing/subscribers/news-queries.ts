import type { Db } from "../../platform/db/client/sql.ts";
import { isPublished } from "../../alerting/incidents/timeline/service.ts";
import type { Source } from "./content.ts";

/** Order of messages `m`, newest first. */
export const newest = (sql: Db) => sql`m.created_at desc, m.at desc, m.id desc`;

/** Everybody on a public page; on a private one, who subscribed while it was private, and all where they are kept. */
export const isInside = (sql: Db) => sql`
  (p.private_since is null or s.confirmed_at >= p.private_since or p.access ->> 'keep_subscribers' = 'true')`;

const published = (sql: Db) => sql`
  p.enabled and p.subscriptions_enabled
  and exists (select from subscribers s where s.page_id = p.id and s.state = 'active')`;

const pageColumns = (sql: Db) => sql`p.id as page_id, p.org_id, p.slug, p.name as page_name, p.branding`;

/** Condition on event `e`: a change of a target that flaps. */
const isFlap = (sql: Db) => sql`coalesce((e.detail ->> 'flapping')::boolean, false)`;

/** Condition on event `e`: an update of which subscribers are notified. */
const isNotifying = (sql: Db) => sql`
  (e.kind = 'updated' and exists (
    select from incident_updates u where u.id = (e.detail ->> 'update_id')::uuid and u.notify_subscribers))`;

/** Columns of an event that has no component, no incident or no timeline. */
const plain = (sql: Db) => sql`null::uuid as event_id, false as waits, false as is_update, null as "group"`;

/**
 * Public events of published incidents since `since` that are not queued, and ends that wait for that of their entry;
 * those from before the publication are not announced. An end is announced only after its opening, and nothing under
 * maintenance. What flaps is announced once: its end is that of the flapping.
 */
export async function selectIncidentNews(sql: Db, since: Date, ends: boolean, limit: number): Promise<Source[]> {
  return await sql<Source[]>`
    select ${pageColumns(sql)}, 'event:' || e.id as key, e.at, i.id as incident_id, array[i.target_id] as target_ids,
      array[coalesce(c.public_name, t.name)] as components, i.public_title as title, i.severity,
      case e.kind when 'updated' then e.detail ->> 'phase' when 'flapping_ended' then 'resolved' else e.kind end
        as kind,
      e.detail ->> 'message' as message, null::timestamptz as starts_at, null::timestamptz as ends_at,
      e.id as event_id, w.id is not null as waits, e.kind = 'updated' as is_update, c.public_group as "group"
    from (
      select id from incident_events where at > ${since}
      ${ends ? sql`union select waiting from subscriber_messages where waiting is not null` : sql``}
    ) found
    join incident_events e on e.id = found.id
    join incidents i on i.id = e.incident_id and not i.retracted and not i.in_maintenance
    join targets t on t.id = i.target_id
    join status_page_components c on c.target_id = i.target_id
    join status_pages p on p.id = c.page_id and ${published(sql)} and ${isPublished(sql)}
    left join incident_publications r on r.incident_id = i.id and r.page_id = p.id
    left join subscriber_messages w on w.page_id = p.id and w.waiting = e.id
    where (r.published_at is null or e.at >= r.published_at) and ${
      ends
        ? sql`(e.kind = 'resolved' and not ${isFlap(sql)} or ${isNotifying(sql)} and e.detail ->> 'phase' = 'resolved'
              or e.kind = 'flapping_ended' and e.detail ->> 'outcome' = 'up')
            and ${isAnnounced(sql)}`
        : sql`not ${isFlap(sql)} and (e.kind = 'reopened' or (e.kind = 'opened' and i.opened_by = 'engine')
            or (${isNotifying(sql)} and e.detail ->> 'phase' <> 'resolved'))`
    } and not exists (
      select from subscriber_messages m where m.page_id = p.id and m.key = 'event:' || e.id and m.waiting is null)
    order by e.at, e.id limit ${limit}`;
}

/** Condition: there is a message about incident `i` on page `p`. */
const isAnnounced = (sql: Db) => sql`
  exists (select from subscriber_messages m where m.page_id = p.id and m.incident_ids @> array[i.id])`;

const publicTitle = (sql: Db) => sql`i.public_title`;

/** Columns of the message about incident `i` on page `p`. */
const incidentColumns = (sql: Db, title: ReturnType<typeof publicTitle>) => sql`
  ${pageColumns(sql)}, i.id as incident_id, array[i.target_id] as target_ids,
  array[coalesce(c.public_name, t.name)] as components, ${title} as title, i.severity,
  null::timestamptz as starts_at, null::timestamptz as ends_at, null::uuid as event_id, false as waits,
  false as is_update, c.public_group as "group"`;

/**
 * Incidents that were published since `since` while they were open, with their newest update, and those that were
 * withdrawn, on pages whose subscribers have messages of them. A publication is one message, however often it is read.
 * A withdrawal has the title of the last message, as what is written after it is not published; where that was about
 * more than this incident, it names the component.
 */
export async function selectPublicationNews(sql: Db, since: Date, limit: number): Promise<Source[]> {
  const key = (kind: string, at: ReturnType<typeof sql>) =>
    sql`${`${kind}:`}::text || i.id || ':' || extract(epoch from ${at})`;
  const lastTitle = sql`
    (select case when cardinality(m.incident_ids) = 1 then m.content ->> 'title' end from subscriber_messages m
     where m.page_id = p.id and m.incident_ids @> array[i.id] and m.merged_into is null and m.waiting is null
     order by ${newest(sql)} limit 1)`;
  return await sql<Source[]>`
    with changed as (
      select r.incident_id as of_incident, r.page_id as of_page, r.published_at, r.withdrawn_at
      from incident_publications r where coalesce(r.withdrawn_at, r.published_at) > ${since}
    ), news as (
      select ${incidentColumns(sql, publicTitle(sql))}, 'opened' as kind, r.published_at as at,
        ${key("published", sql`r.published_at`)} as key,
        (select u.message from incident_updates u where u.incident_id = i.id order by u.created_at desc, u.id desc
         limit 1) as message
      from changed r join incidents i on i.id = r.of_incident and not i.retracted and not i.in_maintenance
        and (i.ended_at is null or i.ended_at > r.published_at)
        and (i.opened_by = 'engine' or exists (
          select from incident_updates u where u.incident_id = i.id and u.notify_subscribers))
      join targets t on t.id = i.target_id
      join status_pages p on p.id = r.of_page and ${published(sql)}
      join status_page_components c on c.page_id = p.id and c.target_id = i.target_id
      where r.published_at is not null
      union all
      select ${incidentColumns(sql, lastTitle)}, 'withdrawn', r.withdrawn_at,
        ${key("withdrawn", sql`r.withdrawn_at`)}, null
      from changed r join incidents i on i.id = r.of_incident
      join targets t on t.id = i.target_id
      join status_pages p on p.id = r.of_page and ${published(sql)}
      join status_page_components c on c.page_id = p.id and c.target_id = i.target_id
      where r.withdrawn_at is not null
        and ${isAnnounced(sql)}
    )
    select news.* from news
    where not exists (select from subscriber_messages m where m.page_id = news.page_id and m.key = news.key)
    order by news.at, news.key limit ${limit}`;
}

/**
 * Outages and maintenance of components without a monitor that began or ended since `since` and are not queued. An end
 * of an outage is announced only after its beginning; an outage that gets better or worse is not announced again.
 */
export async function selectStateNews(sql: Db, since: Date, ends: boolean, limit: number): Promise<Source[]> {
  return await sql<Source[]>`
    with changes as (
      select s.id, s.component_id, s.started_at, s.state, was.outage_id as was_outage,
        case when s.outage_id is not null then case when s.outage_id = s.id then 'opened' end
          when s.state = 'maintenance' then 'started'
          when was.state = 'maintenance' then 'completed'
          when was.outage_id is not null then 'resolved' end as kind
      from component_states s
      left join lateral (
        select p.state, p.outage_id from component_states p
        where p.component_id = s.component_id and (p.started_at, p.id) < (s.started_at, s.id)
        order by p.started_at desc, p.id desc limit 1) was on true
      where s.started_at > ${since}
    ), news as (
      select *, case kind when 'opened' then id when 'resolved' then was_outage end as incident_id from changes
      where kind is not null and (kind = 'resolved') = ${ends}
    )
    select ${pageColumns(sql)}, 'state:' || n.id as key, n.started_at as at, n.incident_id,
      array[c.id] as target_ids, array[c.public_name] as components,
      case when n.incident_id is null then c.public_name end as title, null as severity, n.kind, null as message,
      null::timestamptz as starts_at, null::timestamptz as ends_at, ${plain(sql)}
    from news n
    join status_page_components c on c.manual_id = n.component_id
    join status_pages p on p.id = c.page_id and ${published(sql)}
    where not exists (select from subscriber_messages m where m.page_id = p.id and m.key = 'state:' || n.id)
      ${
        ends
          ? sql`
              and exists (select from subscriber_messages m
                          where m.page_id = p.id and m.incident_ids @> array[n.incident_id])`
          : sql``
      }
    order by n.started_at, n.id limit ${limit}`;
}

/**
 * Maintenance that was announced, started or ended since `since` and is not queued. The few events are found first:
 * joined with the components before, 1,000 windows took 1.2 s.
 */
export async function selectMaintenanceNews(sql: Db, since: Date, now: Date, limit: number): Promise<Source[]> {
  return await sql<Source[]>`
    with happened as materialized (
      select 'scheduled' as kind, w.created_at as at, o.*
      from maintenance_windows w cross join lateral (
        select f.id, f.window_id, f.starts_at, f.ends_at from maintenance_occurrences f
        where f.window_id = w.id and not f.cancelled order by f.starts_at limit 1) o
      where w.created_at > ${since} and w.created_at <= ${now} and o.starts_at > ${now}
      union all
      select 'started', starts_at, id, window_id, starts_at, ends_at from maintenance_occurrences
      where not cancelled and starts_at > ${since} and starts_at <= ${now}
      union all
      select 'completed', ends_at, id, window_id, starts_at, ends_at from maintenance_occurrences
      where not cancelled and ends_at > ${since} and ends_at <= ${now}
    ), news as materialized (
      select ${pageColumns(sql)}, n.kind || ':' || n.id as key, n.at, n.window_id, w.title, n.kind,
        w.description as message, n.starts_at, n.ends_at
      from happened n
      join maintenance_windows w on w.id = n.window_id
      join status_pages p on p.org_id = w.org_id and ${published(sql)}
      where not exists (select from subscriber_messages m where m.page_id = p.id and m.key = n.kind || ':' || n.id)
    )
    select news.*, own.*, null::uuid as incident_id, null as severity, ${plain(sql)} from news
    cross join lateral (
      select array_agg(c.target_id) as target_ids,
        array_agg(coalesce(c.public_name, t.name) order by wt.position) as components
      from maintenance_window_targets wt
      join status_page_components c on c.page_id = news.page_id and c.target_id = wt.target_id
      join targets t on t.id = wt.target_id
      where wt.window_id = news.window_id
    ) own
    where own.target_ids is not null
    order by news.at limit ${limit}`;
}

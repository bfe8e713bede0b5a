import { dayMs } from "@statusmesh/shared/time";
import { type Db, freePlaces } from "../../platform/db/client/sql.ts";
import type { FreePlaces } from "../../platform/outbound/key-limits.ts";
import type { Content } from "./content.ts";
import type { News } from "./merge.ts";
import type { SubscriberRow } from "./queries.ts";
import type { Language } from "../languages/schema.ts";
import type { Kind } from "./schema.ts";
import { newest, isInside } from "./news-queries.ts";

/**
 * Stores messages and queues each for the active subscribers of its page and components, in one statement. A message
 * with a stored key is skipped, unless that is an end that waited. Returns the number of deliveries.
 */
export async function queueMessages(
  sql: Db,
  news: readonly (News & { content: Content })[],
  now: Date,
): Promise<number> {
  if (news.length === 0) return 0;
  const { count } = await sql`
    with input as materialized (
      select n.*, array(select jsonb_array_elements_text(n.incident_ids)::uuid) as incidents,
        array(select jsonb_array_elements_text(n.entry_ids)::uuid) as entry,
        array(select jsonb_array_elements_text(n.target_ids)::uuid) as targets
      from jsonb_to_recordset(${sql.json(news as never)}) as n (id uuid, org_id uuid, page_id uuid, key text,
        incident_ids jsonb, entry_ids jsonb, target_ids jsonb, content jsonb, at timestamptz, is_end boolean,
        merged_into uuid, waiting uuid, receivers text)
    ), told as materialized (
      select distinct on (n.id, d.subscriber_id) n.id, d.subscriber_id, m.is_end,
        m.content ->> 'kind' = 'withdrawn' as withdrawn
      from input n join subscriber_messages m on m.page_id = n.page_id and m.incident_ids && n.entry
      join subscriber_deliveries d on d.message_id = m.id and (d.attempts > 0 or d.due_at is not null)
      where n.receivers in ('untold', 'told', 'heard')
      order by n.id, d.subscriber_id, ${newest(sql)}
    ), stored as (
      insert into subscriber_messages as m (id, org_id, page_id, key, incident_ids, target_ids, content, at, created_at,
        is_end, merged_into, waiting)
      select n.id, n.org_id, n.page_id, n.key, n.incidents, n.targets, n.content, n.at, ${now}, n.is_end, n.merged_into,
        n.waiting
      from input n
      on conflict (page_id, key) do update set id = excluded.id, incident_ids = excluded.incident_ids,
        target_ids = excluded.target_ids, content = excluded.content, created_at = excluded.created_at,
        is_end = excluded.is_end, merged_into = excluded.merged_into, waiting = null
      where m.waiting is not null and excluded.waiting is null
      returning id
    )
    insert into subscriber_deliveries (message_id, subscriber_id, kind, page_id, host, due_at)
    select n.id, s.id, s.kind, s.page_id, s.host, ${now} from stored join input n on n.id = stored.id
    join subscribers s on s.page_id = n.page_id
    join status_pages p on p.id = n.page_id
    left join told on told.id = n.id and told.subscriber_id = s.id
    where s.state = 'active' and s.confirmed_at <= n.at and ${isInside(sql)}
      and (s.component_ids is null or s.component_ids && n.targets)
      and case n.receivers when 'all' then true when 'untold' then coalesce(told.is_end, true)
        when 'told' then not told.is_end when 'heard' then not told.withdrawn else false end`;
  return count;
}

/** How many subscribers an update of an incident of a monitor reaches, by page. */
export async function selectReach(sql: Db, orgId: string, targetId: string): Promise<ReadonlyMap<string, number>> {
  const rows = await sql<{ page_id: string; count: number }[]>`
    select c.page_id, count(s.id)::integer as count
    from status_page_components c
    join status_pages p on p.id = c.page_id and p.org_id = ${orgId}
    left join subscribers s on s.page_id = p.id and s.state = 'active' and p.enabled and p.subscriptions_enabled
      and ${isInside(sql)} and (s.component_ids is null or s.component_ids @> array[c.target_id])
    where c.target_id = ${targetId}
    group by c.page_id`;
  return new Map(rows.map(({ page_id: id, count }) => [id, count]));
}

/**
 * Drops messages of withdrawn incidents that nobody has got yet; those that were attempted are not tried again. One
 * that nobody got and that is about other incidents too is forgotten, so that these are announced without it.
 */
export async function dropWithdrawn(sql: Db, since: Date): Promise<void> {
  const withdrawn = sql`
    withdrawn as (
      select m.id, cardinality(m.incident_ids) > 1 or m.waiting is not null as of_others from incident_publications r
      join subscriber_messages m on m.page_id = r.page_id and m.incident_ids @> array[r.incident_id]
        and m.content ->> 'kind' <> 'withdrawn'
      where r.withdrawn_at > ${since} and r.published_at is null
    )`;
  await sql`
    with ${withdrawn}, ended as (
      update subscriber_deliveries d set due_at = null from withdrawn w
      where d.message_id = w.id and d.due_at is not null and d.attempts > 0
    )
    delete from subscriber_deliveries d using withdrawn w
    where d.message_id = w.id and d.due_at is not null and d.attempts = 0`;
  await sql`
    with ${withdrawn}
    delete from subscriber_messages m using withdrawn w
    where m.id = w.id and w.of_others and not exists (select from subscriber_deliveries d where d.message_id = m.id)`;
}

/**
 * True when there may be something to announce: an active subscriber, and since `since` an event of an incident or of
 * maintenance, or since a day an end that waits.
 */
export const mayHaveNews = (sql: Db, since: Date, now: Date) => sql`
  exists (select from subscribers where state = 'active') and (
    exists (select from incident_events where at > ${since})
    or exists (select from incident_publications where coalesce(withdrawn_at, published_at) > ${since})
    or exists (select from component_states where started_at > ${since})
    or exists (select from subscriber_messages
               where waiting is not null and created_at > ${new Date(now.getTime() - dayMs)})
    or exists (select from maintenance_windows where created_at > ${since})
    or exists (select from maintenance_occurrences where not cancelled and starts_at > ${since} and starts_at <= ${now})
    or exists (select from maintenance_occurrences where not cancelled and ends_at > ${since} and ends_at <= ${now}))`;

/** True when a confirmation or a message is due. */
export const isAnyDue = (sql: Db, now: Date) => sql`
  exists (select from subscribers where confirm_due_at <= ${now} and state = 'pending')
  or exists (select from subscriber_deliveries where due_at <= ${now})`;

/**
 * Organisations whose alerts could be sent now and have waited since `before`. Alerts that wait for an older one of
 * their incident, for a pause, for a delivery in flight or for a channel that fails or is disabled do not count.
 */
const alerting = (sql: Db, { now, alertsSince }: Pick<Claim, "now" | "alertsSince">) => sql`
  select distinct d.org_id
  from deliveries d
  join channels c on c.id = d.channel_id and c.enabled
  left join channel_health h on h.channel_id = c.id
  where d.state = 'pending' and d.attempt_count = 0 and d.next_attempt_at < ${alertsSince}
    and h.failing_since is null and coalesce(h.paused_until <= ${now}, true)
    and not exists (select from deliveries busy
                    where busy.channel_id = d.channel_id and busy.state = 'pending' and busy.leased_until > ${now})
    and not exists (select from deliveries older
                    where older.incident_id = d.incident_id and older.channel_id = d.channel_id
                      and older.state = 'pending' and (older.created_at, older.id) < (d.created_at, d.id))`;

export interface Claim {
  kind: Kind;
  now: Date;
  /** Organisations whose alerts wait since before this are left out; see {@link alerting}. */
  alertsSince: Date;
  /** Maximum number of rows. */
  room: number;
  pages: FreePlaces;
  hosts: FreePlaces;
  orgs: FreePlaces;
}

/**
 * Common table expressions up to `chosen`: of `groups` (page_id, host) and the due rows of each (`dueOf`: ids, due_at),
 * as many as page, host and organisation have places. Places go to pages in turn, and within a page to its hosts.
 */
const chosen = (sql: Db, claim: Claim, dueOf: ReturnType<typeof sql>) => sql`
  alerting as materialized (${alerting(sql, claim)}),
  pages_free as (${freePlaces(sql, claim.pages)}),
  hosts_free as (${freePlaces(sql, claim.hosts)}),
  orgs_free as (${freePlaces(sql, claim.orgs)}),
  open_groups as (
    select g.page_id, g.host, p.org_id,
           coalesce(pages_free.free, ${claim.pages.limit}) as page_free,
           coalesce(hosts_free.free, ${claim.hosts.limit}) as host_free,
           coalesce(orgs_free.free, ${claim.orgs.limit}) as org_free
    from groups g
    join status_pages p on p.id = g.page_id and p.org_id not in (select org_id from alerting)
    left join pages_free on pages_free.key = g.page_id::text
    left join hosts_free on hosts_free.key = g.host
    left join orgs_free on orgs_free.key = p.org_id::text
  ), candidates as (
    select g.*, next.ids, next.due_at,
           row_number() over (partition by g.page_id order by next.host_turn, next.due_at) as page_turn
    from open_groups g
    cross join lateral (
      select due.*, row_number() over (order by due.due_at) as host_turn from (${dueOf}) due
      order by due.due_at limit least(g.page_free, g.host_free, g.org_free)
    ) next
  ), by_host as (
    select *, row_number() over (partition by host order by page_turn, due_at) as host_place
    from candidates where page_turn <= page_free
  ), by_org as (
    select *, row_number() over (partition by org_id order by page_turn, due_at) as org_place
    from by_host where host_place <= host_free
  ), chosen as (
    select ids, page_turn, due_at from by_org where org_place <= org_free
    order by page_turn, due_at limit ${claim.room}
  )`;

export interface DueDelivery extends SubscriberRow {
  message_id: string;
  content: Content;
  /** Including this one. */
  attempts: number;
}

/** Takes deliveries that are due and dates each to its next attempt. */
export async function takeDue(sql: Db, claim: Claim): Promise<DueDelivery[]> {
  const { kind, now } = claim;
  return await sql<DueDelivery[]>`
    with recursive groups as (
      (select page_id, host from subscriber_deliveries where kind = ${kind} and due_at is not null
       order by page_id, host limit 1)
      union all
      select next.page_id, next.host
      from groups g
      cross join lateral (
        select d.page_id, d.host from subscriber_deliveries d
        where d.kind = ${kind} and d.due_at is not null and (d.page_id, d.host) > (g.page_id, g.host)
        order by d.page_id, d.host limit 1) next
    ), ${chosen(
      sql,
      claim,
      sql`
        select array[d.message_id, d.subscriber_id] as ids, d.due_at from subscriber_deliveries d
        where d.kind = ${kind} and d.page_id = g.page_id and d.host = g.host and d.due_at <= ${now}`,
    )}, due as (
      select d.message_id, d.subscriber_id
      from chosen join subscriber_deliveries d on d.message_id = ids[1] and d.subscriber_id = ids[2]
      where d.due_at <= ${now}
      for update of d skip locked
    ), taken as (
      update subscriber_deliveries d set attempts = d.attempts + 1,
        due_at = case when d.attempts >= 4 then null
          else ${now}::timestamptz + make_interval(secs => 30 * (4 ^ d.attempts)) end
      from due where d.message_id = due.message_id and d.subscriber_id = due.subscriber_id
      returning d.message_id, d.subscriber_id, d.attempts
    )
    select s.*, taken.message_id, taken.attempts, m.content
    from taken join subscribers s on s.id = taken.subscriber_id join subscriber_messages m on m.id = taken.message_id
    join status_pages p on p.id = s.page_id
    where ${isInside(sql)}`;
}

export async function markDelivered(sql: Db, messageId: string, subscriberId: string): Promise<void> {
  await sql`
    with sent as (
      update subscriber_deliveries set due_at = null
      where message_id = ${messageId} and subscriber_id = ${subscriberId}
    )
    update subscribers set source = null where id = ${subscriberId} and source is not null`;
}

/** Gives up deliveries that are due since before `before`: their receivers had no place, or nothing ran. */
export async function giveUp(sql: Db, before: Date): Promise<void> {
  await sql`update subscriber_deliveries set due_at = null where due_at < ${before}`;
}

export interface DueConfirmation extends Omit<SubscriberRow, "language"> {
  page_name: string;
  slug: string;
  /** That of the subscription, else that of the page. */
  language: Language;
}

/** Takes subscribers whose confirmation is due; three attempts each. */
export async function takeConfirmations(sql: Db, claim: Claim): Promise<DueConfirmation[]> {
  const { kind, now } = claim;
  const isDue = sql`s.state = 'pending' and s.confirm_due_at <= ${now}`;
  return await sql<DueConfirmation[]>`
    with waiting as materialized (
      select s.id, s.page_id, s.host, s.confirm_due_at as due_at from subscribers s
      where ${isDue} and s.kind = ${kind}
    ), groups as (
      select distinct page_id, host from waiting
    ), ${chosen(
      sql,
      claim,
      sql`
        select array[w.id] as ids, w.due_at from waiting w where w.page_id = g.page_id and w.host = g.host`,
    )}, due as (
      select s.id from chosen join subscribers s on s.id = ids[1] where ${isDue} for update of s skip locked
    )
    update subscribers s set attempts = s.attempts + 1,
      confirm_due_at = case when s.attempts >= 2 then null else ${now}::timestamptz + interval '1 minute' end
    from due, status_pages p where s.id = due.id and p.id = s.page_id
    returning s.*, p.name as page_name, p.slug, 
      coalesce(s.language, p.branding -> 'languages' ->> 0, p.branding ->> 'language', 'en') as language`;
}

export async function confirmationSent(sql: Db, id: string): Promise<void> {
  await sql`update subscribers set confirm_due_at = null where id = ${id}`;
}

import type { Notice } from "../channels/schema.ts";
import type { StoredChannel } from "../channels/service.ts";
import { anyOf, type Db, freePlaces, valueOf } from "../../platform/db/sql.ts";
import type { FreePlaces } from "../../platform/outbound/key-limits.ts";

export interface Acknowledgement {
  /** RFC 3339. */
  at: string;
  /** As in the timeline of the incident. */
  actor_type: string;
  /** Name of the user, token or channel. */
  name: string | null;
  /** Of a channel: its kind, and the person as the vendor names them. */
  channel_type: string | null;
  person: string | null;
}

/** A delivery leased to this process. */
export interface ClaimedDelivery {
  id: string;
  org_id: string;
  channel_id: string | null;
  channel_name: string;
  notice: Notice;
  /** The acknowledgement of the incident as it is now; null for none. */
  acknowledged: Acknowledgement | null;
  /** Attempts so far, without those before a person had it sent again. */
  attempts: number;
  /** Its own id when the message is a digest of every delivery with this id; else null. */
  digest_id: string | null;
  /** Also the lease token: two leases of one delivery never end at the same time. */
  leased_until: Date;
  /** Key of the receiver's host at the last attempt; null before the first. */
  host_key: string | null;
  /** The current channel; null when it was deleted. */
  channel: Pick<StoredChannel, "id" | "org_id" | "kind" | "config" | "enabled" | "disabled_reason"> | null;
}

/** Rules of digests for a claim; see {@link holdMs}. */
export interface StormRules {
  /** Kinds of channels that take digests; empty turns them off. */
  kinds: readonly string[];
  /** More incidents than this within a minute are a storm. */
  threshold: number;
  /** From this number of incidents on, notices wait {@link holdMs} to see whether it becomes one. */
  near: number;
  holdMs: number;
  /** Fewer incidents, but more than one: how long their notices wait. */
  severalMs: number;
}

export interface ClaimLimits {
  /** Maximum number of deliveries to claim. */
  room: number;
  channels: FreePlaces;
  hosts: FreePlaces;
  orgs: FreePlaces;
  storms: StormRules;
  /** Unix ms. */
  now: number;
  leasedUntil: number;
}

/** A receiver that has asked for a pause gets one message at a time for this long afterwards, seconds. */
const gentleSecs = 60;

/** Condition on `d`: pending, due and not leased; of a digest, only the first delivery. */
export const isDue = (sql: Db, at: Date) => sql`
  d.state = 'pending' and d.next_attempt_at <= ${at} and (d.leased_until is null or d.leased_until <= ${at})
  and (d.digest_id is null or d.digest_id = d.id)`;

/** Condition on `d`: no older delivery for the same incident and channel is pending. */
export const isNext = (sql: Db) => sql`
  not exists (select from deliveries older
              where older.incident_id = d.incident_id and older.channel_id = d.channel_id and older.state = 'pending'
                and (older.created_at, older.id) < (d.created_at, d.id))`;

/** Condition on `d`: a first attempt of a notice that a digest may replace. */
export const isFresh = (sql: Db) => sql`
  d.attempt_count = 0 and d.digest_id is null
  and d.reason in ('opened', 'reopened', 'resolved', 'unacknowledged')`;

/** The storm that the notice of `d` belongs to: openings, recoveries and levels of ladders have their own. */
export const stormOf = (sql: Db) => sql`
  case when d.reason in ('resolved', 'unacknowledged') then d.reason else 'opened' end`;

/**
 * Common table expressions `waiting` (ids of channels with pending deliveries, by one index probe each, however many
 * deliveries wait), `digesting` (those that take digests now) and `storms` (organisations with several
 * incidents that opened, or closed, within the last minute or whose first notices still wait).
 */
export const waitingAndStorms = (sql: Db, at: Date, { kinds }: StormRules) => sql`
  waiting as (
    (select channel_id from deliveries where state = 'pending' and channel_id is not null order by channel_id limit 1)
    union all
    select (select d.channel_id from deliveries d
            where d.state = 'pending' and d.channel_id > w.channel_id order by d.channel_id limit 1)
    from waiting w where w.channel_id is not null
  ), digesting as materialized (
    select c.id, c.org_id
    from waiting w
    join channels c on c.id = w.channel_id
    join orgs o on o.id = c.org_id and o.deleted_at is null
    left join channel_health h on h.channel_id = c.id
    where c.enabled and c.kind = any(${[...kinds]}::text[]) and coalesce(h.paused_until <= ${at}, true)
  ), storms as materialized (
    select org_id, storm, count(distinct incident_id) as incidents
    from (select d.org_id, d.incident_id, ${stormOf(sql)} as storm
          from (select distinct org_id from digesting) o
          cross join lateral (
            select d.org_id, d.incident_id, d.reason from deliveries d
            where d.org_id = o.org_id and d.reason in ('opened', 'reopened', 'resolved', 'unacknowledged')
              and d.created_at > ${at}::timestamptz - interval '1 minute') d
          union all
          select d.org_id, d.incident_id, ${stormOf(sql)}
          from digesting c
          cross join lateral (
            select d.org_id, d.incident_id, d.reason from deliveries d
            where d.channel_id = c.id and d.state = 'pending' and ${isFresh(sql)}) d) notices
    group by 1, 2
    having count(distinct incident_id) > 1
  )`;

/**
 * Common table expressions up to `open_channels`: channels with pending deliveries whose receiver has asked for no
 * pause, with the free places of the channel, its host and its organisation. `gentle`: a pause has just ended.
 */
const openChannels = (sql: Db, at: Date, { channels, hosts, orgs }: ClaimLimits) => sql`
  channels_free as (${freePlaces(sql, channels)}),
  hosts_free as (${freePlaces(sql, hosts)}),
  orgs_free as (${freePlaces(sql, orgs)}),
  open_channels as (
    select c.id, c.org_id, coalesce(h.host_key, c.id::text) as host,
           coalesce(channels_free.free, ${channels.limit}) as channel_free,
           coalesce(hosts_free.free, ${hosts.limit}) as host_free,
             coalesce(orgs_free.free, ${orgs.limit}) as org_free,
           coalesce(h.paused_until > ${at}::timestamptz - make_interval(secs => ${gentleSecs}), false) as gentle
    from waiting w
    join channels c on c.id = w.channel_id
    join orgs o on o.id = c.org_id and o.deleted_at is null
    left join channel_health h on h.channel_id = c.id
    left join hosts_free on hosts_free.key = coalesce(h.host_key, c.id::text)
    left join channels_free on channels_free.key = c.id::text
    left join orgs_free on orgs_free.key = c.org_id::text
    where coalesce(h.paused_until <= ${at}, true)
      and coalesce(hosts_free.free, 1) > 0 and coalesce(orgs_free.free, 1) > 0
  )`;

/**
 * Due deliveries of `open_channels`, as many as each has places, and those of deleted channels. Notices of a storm that
 * a digest may replace are left out.
 */
const candidates = (sql: Db, at: Date, { hosts, orgs, storms, now }: ClaimLimits) => sql`
  select c.org_id, c.host, c.host_free, c.org_free, next.id, next.next_attempt_at, next.turn
  from open_channels c
  cross join lateral (
    select d.id, d.next_attempt_at, row_number() over (order by d.next_attempt_at, d.id) as turn
    from deliveries d
    where d.channel_id = c.id and ${isDue(sql, at)} and ${isNext(sql)}
      and not (${isFresh(sql)} and c.id in (select id from digesting)
               and exists (select from storms s
                           where s.org_id = d.org_id and s.storm = ${stormOf(sql)}
                             and (s.incidents > ${storms.threshold}
                                  -- Levels are due to the second: they wait for no more to come.
                                  or d.reason <> 'unacknowledged'
                                    and d.created_at > case when s.incidents >= ${storms.near}
                                    then ${new Date(now - storms.holdMs)}::timestamptz
                                    else ${new Date(now - storms.severalMs)}::timestamptz end)))
    order by d.next_attempt_at, d.id
    limit case when c.gentle
      then greatest(0, 1 - (select count(*) from deliveries busy
                            where busy.channel_id = c.id and busy.state = 'pending' and busy.leased_until > ${at}))
      else least(c.channel_free, c.host_free) end
  ) next
  union all
  select d.org_id, '', ${hosts.limit}, ${orgs.limit}, d.id, d.next_attempt_at, 1
  from deliveries d
  join orgs o on o.id = d.org_id and o.deleted_at is null
  where d.channel_id is null and ${isDue(sql, at)}`;

/**
 * Claims deliveries that are due and not leased, for every organisation. A delivery waits while an older one for the
 * same incident and channel is pending, so a recovery never overtakes the opening. Deliveries of deleted organisations
 * are held, and those of a receiver that has asked for a pause. Free places of a host go to its organisations in turn,
 * and so do those of the process.
 *
 * Limits of 5 sends per channel and 50 in all were tried before: ten channels of a vendor that hung took all 50, and
 * all other notices waited. So hosts and organisations have places, too. Channels are found first, by one index probe
 * each, and each contributes at most as many rows as it has places: a backlog behind one channel is not read.
 *
 * The conditions are repeated: the ranking reads a snapshot, and a row that another process has finished since is
 * checked again when it is locked.
 */
export async function claimDeliveries(sql: Db, limits: ClaimLimits): Promise<ClaimedDelivery[]> {
  const { room, storms, now, leasedUntil } = limits;
  const at = new Date(now);
  return await sql<ClaimedDelivery[]>`
    with recursive ${waitingAndStorms(sql, at, storms)},
    ${openChannels(sql, at, limits)},
    candidates as (${candidates(sql, at, limits)}),
    by_org as (
      select *, row_number() over (partition by host, org_id order by turn, next_attempt_at, id) as org_turn
      from candidates
    ), by_host as (
      select *, row_number() over (partition by host order by org_turn, next_attempt_at, id) as host_place from by_org
    ), chosen as (
      select id, next_attempt_at, org_free,
             row_number() over (partition by org_id order by next_attempt_at, id) as org_place
      from by_host where host_place <= host_free
    ), due as (
      select d.id, h.host_key,
             case when c.id is not null then
               jsonb_build_object('id', c.id, 'org_id', c.org_id, 'kind', c.kind, 'config', c.config,
                                  'enabled', c.enabled, 'disabled_reason', c.disabled_reason) end as channel
      from chosen
      join deliveries d on d.id = chosen.id
      left join channels c on c.id = d.channel_id and c.org_id = d.org_id
      left join channel_health h on h.channel_id = c.id
      where chosen.org_place <= chosen.org_free and ${isDue(sql, at)}
      order by chosen.org_place, chosen.next_attempt_at, d.id
      limit ${room}
      for update of d skip locked
    ), leased as (
      update deliveries d set leased_until = ${new Date(leasedUntil)}
      where d.id = any(array(select due.id from due))
      returning d.id, d.org_id, d.incident_id, d.channel_id, d.channel_name, d.notice, d.digest_id,
                d.attempt_count - d.attempts_before as attempts, d.leased_until
    )
    select leased.*, due.host_key, due.channel, (
      select jsonb_build_object('at', i.acknowledged_at, 'actor_type', e.actor_type, 'name', e.actor_name,
        'channel_type', e.detail ->> 'channel_type', 'person', e.detail ->> 'person')
      from incidents i join incident_events e on e.incident_id = i.id and e.kind = 'acknowledged'
      where i.id = leased.incident_id and i.acknowledged_at is not null
      order by e.at desc, e.id desc limit 1) as acknowledged
    from leased join due on due.id = leased.id`;
}

/** True when a delivery is pending, due or not. */
export async function isAnyPending(sql: Db): Promise<boolean> {
  return await anyOf(sql, sql`from deliveries where state = 'pending'`);
}

/** Time at which the next delivery becomes due, or a pause of a receiver ends; null for none. */
export async function nextDueAt(sql: Db, now: number): Promise<Date | null> {
  const at = new Date(now);
  return await valueOf<Date | null>(sql`
    select least((select min(next_attempt_at) from deliveries where state = 'pending' and next_attempt_at > ${at}),
                 (select min(paused_until) from channel_health where paused_until > ${at})) as at`);
}

/** Releases the lease of an unsent delivery, if it is still held. */
export async function releaseDelivery(
  sql: Db,
  { id, leased_until }: Pick<ClaimedDelivery, "id" | "leased_until">,
): Promise<void> {
  await sql`
    update deliveries set leased_until = null
    where id = ${id} and state = 'pending' and leased_until = ${leased_until}`;
}

/** Stores the key of the host that a channel sends to, for the next claim. */
export async function storeHostKey(sql: Db, channelId: string, hostKey: string): Promise<void> {
  await sql`
    insert into channel_health (channel_id, host_key) select id, ${hostKey} from channels where id = ${channelId}
    on conflict (channel_id) do update set host_key = excluded.host_key`;
}

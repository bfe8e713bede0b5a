import type { Notice } from "../../channels/schema.ts";
import type { StoredChannel } from "../../channels/config/service.ts";
import { anyOf, commitsEarly, type Db, freePlaces, valueOf } from "../../../platform/db/client/sql.ts";
import type { FreePlaces } from "../../../platform/outbound/key-limits.ts";

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
  incident_id: string;
  channel_id: string | null;
  channel_name: string;
  notice: Notice;
  /** The acknowledgement of the incident as it is now; null for none. */
  acknowledged: Acknowledgement | null;
  /** Attempts so far, without those before a person had it sent again. */
  attempts: number;
  /** Its own id when the message is of every delivery with this id, in a round; else null. */
  message_id: string | null;
  /** True for the first attempt of such a message. */
  begins: boolean;
  /** Also the lease token: two leases of one delivery never end at the same time. */
  leased_until: Date;
  /** Key of the receiver's host at the last attempt; null before the first. */
  host_key: string | null;
  /** The current channel; null when it was deleted. */
  channel: Pick<StoredChannel, "id" | "org_id" | "kind" | "config" | "enabled" | "disabled_reason"> | null;
}

/** True while the channel has rounds. */
export const isInRounds = async (sql: Db, channelId: string, kinds: RoundKinds): Promise<boolean> =>
  await valueOf<boolean>(sql`
    select coalesce((select ${inRounds(sql, kinds)} from channels c where c.id = ${channelId}), false)`);

/** Kinds of channels that may have rounds, and those that have them unless the channel says otherwise. */
export interface RoundKinds {
  possible: readonly string[];
  usual: readonly string[];
  /** Kinds whose incidents share alerts: what is sent follows from the incidents, so their deliveries have no order. */
  alerts: readonly string[];
}

/** Condition on a channel `c`: its notices leave in rounds. */
export const inRounds = (sql: Db, { possible, usual }: Pick<RoundKinds, "possible" | "usual">) => sql`
  (c.kind = any(${[...possible]}::text[]) and coalesce(c.rounds, c.kind = any(${[...usual]}::text[])))`;

/** Rules of rounds for a claim. */
export interface RoundRules {
  kinds: RoundKinds;
  /** Shortest time between two messages of a channel, seconds; 0: each notice leaves alone. */
  secs: number;
}

export interface ClaimLimits {
  /** Maximum number of deliveries to claim. */
  room: number;
  channels: FreePlaces;
  hosts: FreePlaces;
  orgs: FreePlaces;
  rounds: RoundRules;
  /** By the database's clock, Unix ms. */
  now: number;
  leasedUntil: number;
}

/** A receiver that has asked for a pause gets one message at a time for this long afterwards, seconds. */
const gentleSecs = 60;

/** Condition on `d`: pending and not leased; of a message, only its first delivery. */
const isFree = (sql: Db, at: Date) => sql`
  d.state = 'pending' and (d.leased_until is null or d.leased_until <= ${at})
  and (d.message_id is null or d.message_id = d.id)`;

/** Condition on `d`: {@link isFree} and due. */
export const isDue = (sql: Db, at: Date) => sql`${isFree(sql, at)} and d.next_attempt_at <= ${at}`;

/** Condition on `d`: no older delivery for the same incident and channel is pending. */
export const isNext = (sql: Db) => sql`
  not exists (select from deliveries older
              where older.incident_id = d.incident_id and older.channel_id = d.channel_id and older.state = 'pending'
                and (older.created_at, older.id) < (d.created_at, d.id))`;

/** How long the series of a channel outlives its last round, seconds: deliverers look at it in time. */
export const graceSecs = 5;
/** Critical incidents within this time are one message, seconds. */
export const criticalSecs = 10;

/**
 * Common table expressions up to `open_channels`: channels with pending deliveries whose receiver has asked for no
 * pause, with the free places of the channel, its host and its organisation. `gentle`: a pause has just ended.
 * `from_urgency`: deliveries of this urgency may leave now. Channels are found by one index probe each, however many
 * deliveries wait.
 */
const openChannels = (sql: Db, at: Date, { channels, hosts, orgs, rounds }: ClaimLimits) => sql`
  waiting as (
    (select channel_id from deliveries where state = 'pending' and channel_id is not null order by channel_id limit 1)
    union all
    select (select d.channel_id from deliveries d
            where d.state = 'pending' and d.channel_id > w.channel_id order by d.channel_id limit 1)
    from waiting w where w.channel_id is not null
  ),
  channels_free as (${freePlaces(sql, channels)}),
  hosts_free as (${freePlaces(sql, hosts)}),
  orgs_free as (${freePlaces(sql, orgs)}),
  open_channels as (
    select c.id, c.org_id, coalesce(h.host_key, c.id::text) as host,
           coalesce(channels_free.free, ${channels.limit}) as channel_free,
           coalesce(hosts_free.free, ${hosts.limit}) as host_free,
             coalesce(orgs_free.free, ${orgs.limit}) as org_free,
           coalesce(h.paused_until > ${at}::timestamptz - make_interval(secs => ${gentleSecs}), false) as gentle,
           ${rounds.secs > 0} and ${inRounds(sql, rounds.kinds)} as in_rounds, r.last_left_at,
           c.kind = any(${[...rounds.kinds.alerts]}::text[]) as has_alerts,
           case when r.due_at is null or r.due_at <= ${at} then 0
                when r.last_left_at <= ${at}::timestamptz - make_interval(secs => ${rounds.secs}) then 1
                when r.critical_at <= ${at}::timestamptz - make_interval(secs => ${criticalSecs})
                  then least(3, r.severity + 1)
                else r.severity + 1 end as from_urgency
    from waiting w
    join channels c on c.id = w.channel_id
    left join channel_rounds r on r.channel_id = c.id
    join orgs o on o.id = c.org_id and o.deleted_at is null
    left join channel_health h on h.channel_id = c.id
    left join hosts_free on hosts_free.key = coalesce(h.host_key, c.id::text)
    left join channels_free on channels_free.key = c.id::text
    left join orgs_free on orgs_free.key = c.org_id::text
    where coalesce(h.paused_until <= ${at}, true)
      and coalesce(hosts_free.free, 1) > 0 and coalesce(orgs_free.free, 1) > 0
  )`;

/**
 * What may leave now of `open_channels`, as much as each has places, and of deleted channels. In rounds that is a
 * message whose next attempt is due, and the most urgent delivery that waits, which begins a message (`begins`).
 */
const candidates = (sql: Db, at: Date, { hosts, orgs }: ClaimLimits) => sql`
  select c.org_id, c.host, c.host_free, c.org_free, next.id, next.next_attempt_at, next.begins, c.last_left_at,
    row_number() over (partition by c.id order by next.begins, next.next_attempt_at, next.id) as turn
  from open_channels c
  cross join lateral (
    (select d.id, d.next_attempt_at, false as begins from deliveries d
     where not c.in_rounds and d.channel_id = c.id and ${isDue(sql, at)} and (c.has_alerts or ${isNext(sql)})
     order by d.next_attempt_at, d.id limit least(c.channel_free, c.host_free))
    union all
    (select d.id, d.next_attempt_at, false from deliveries d
     where c.in_rounds and d.channel_id = c.id and d.alone and ${isDue(sql, at)} and ${isNext(sql)}
     order by d.next_attempt_at, d.id limit least(c.channel_free, c.host_free))
    union all
    (select d.id, d.next_attempt_at, false from deliveries d
     where c.in_rounds and d.channel_id = c.id and d.message_id = d.id and ${isDue(sql, at)}
     order by d.next_attempt_at, d.id limit least(c.channel_free, c.host_free))
    union all
    (select d.id, d.next_attempt_at, true from deliveries d
     where c.in_rounds and d.channel_id = c.id and d.state = 'pending' and d.message_id is null and not d.alone
       and d.urgency >= c.from_urgency and d.leased_until is null and ${isNext(sql)}
     order by d.urgency desc, d.created_at, d.id limit 1)
    order by next_attempt_at, id
    limit case when c.gentle
      then greatest(0, 1 - (select count(*) from deliveries busy
                            where busy.channel_id = c.id and busy.state = 'pending' and busy.leased_until > ${at}))
      else least(c.channel_free, c.host_free) end
  ) next
  union all
  select d.org_id, '', ${hosts.limit}, ${orgs.limit}, d.id, d.next_attempt_at, false, null, 1
  from deliveries d
  join orgs o on o.id = d.org_id and o.deleted_at is null
  where d.channel_id is null and ${isDue(sql, at)}`;

/**
 * Common table expressions `first_rounds` and `next_rounds`: the channels whose round begins with a row of `due`. A row
 * that another process has changed since stays as it is, so that one of them begins the round. Rounds end after 1, 4
 * and then 10 times their shortest time; a series ends when nothing has left at the end of its round.
 */
const beginRounds = (sql: Db, at: Date, { secs }: RoundRules) => sql`
  first_rounds as (
    insert into channel_rounds (channel_id, round, last_left_at, due_at, critical_at, severity)
    select due.channel_id, 1, ${at}, ${at}::timestamptz + make_interval(secs => ${secs}),
      case when due.urgency = 3 then ${at}::timestamptz else '-infinity' end, due.urgency
    from due where due.begins and due.last_left_at is null
    on conflict (channel_id) do nothing
    returning channel_id
  ), next_rounds as (
    update channel_rounds r set
      round = case when s.is_over then 1 else r.round + 1 end, last_left_at = ${at},
      due_at = ${at}::timestamptz + make_interval(secs => ${secs} * case
        when s.is_over then 1 when r.round = 1 then 4 else 10 end),
      critical_at = case when due.urgency = 3 then ${at} else r.critical_at end,
      severity = case when s.is_over then due.urgency else greatest(r.severity, due.urgency) end,
      causes = case when s.is_over then '{}' else r.causes end
    from due cross join lateral (
      select ${at} > q.due_at + make_interval(secs => ${graceSecs}) as is_over from channel_rounds q
      where q.channel_id = due.channel_id) s
    where due.begins and r.channel_id = due.channel_id and r.last_left_at = due.last_left_at
    returning r.channel_id
  )`;

/**
 * Claims deliveries that may leave and are not leased, for every organisation. A delivery waits while an older one for
 * the same incident and channel is pending, so a recovery never overtakes the opening. Deliveries of deleted
 * organisations are held, and those of a receiver that has asked for a pause. Free places of a host go to its
 * organisations in turn, and so do those of the process.
 *
 * Limits of 5 sends per channel and 50 in all were tried before: ten channels of a vendor that hung took all 50, and
 * all other notices waited. So hosts and organisations have places, too. Channels are found first, by one index probe
 * each, and each contributes at most as many rows as it has places: a backlog behind one channel is not read.
 *
 * The conditions are repeated: the ranking reads a snapshot, and a row that another process has finished since is
 * checked again when it is locked.
 *
 * The claim commits early: without it, as with a lease that ends, a message leaves again whose attempt is not recorded.
 */
export async function claimDeliveries(sql: Db, limits: ClaimLimits): Promise<ClaimedDelivery[]> {
  const { room, rounds, now, leasedUntil } = limits;
  const at = new Date(now);
  return await sql<ClaimedDelivery[]>`
    with recursive ${openChannels(sql, at, limits)},
    candidates as (${candidates(sql, at, limits)}),
    by_org as (
      select *, row_number() over (partition by host, org_id order by turn, next_attempt_at, id) as org_turn
      from candidates
    ), by_host as (
      select *, row_number() over (partition by host order by org_turn, next_attempt_at, id) as host_place from by_org
    ), chosen as (
      select id, next_attempt_at, org_free, begins, last_left_at,
             row_number() over (partition by org_id order by next_attempt_at, id) as org_place
      from by_host where host_place <= host_free
    ), due as (
      select d.id, d.channel_id, d.urgency, chosen.begins, chosen.last_left_at, h.host_key,
             case when c.id is not null then
               jsonb_build_object('id', c.id, 'org_id', c.org_id, 'kind', c.kind, 'config', c.config,
                                  'enabled', c.enabled, 'disabled_reason', c.disabled_reason) end as channel
      from chosen
      join deliveries d on d.id = chosen.id
      left join channels c on c.id = d.channel_id and c.org_id = d.org_id
      left join channel_health h on h.channel_id = c.id
      where chosen.org_place <= chosen.org_free and ${isFree(sql, at)}
        and (chosen.begins and d.message_id is null or not chosen.begins and d.next_attempt_at <= ${at})
      order by chosen.org_place, chosen.next_attempt_at, d.id
      limit ${room}
      for update of d skip locked
    ), ${beginRounds(sql, at, rounds)}, leased as (
      update deliveries d set leased_until = ${new Date(leasedUntil)},
        message_id = case when due.begins then d.id else d.message_id end
      from due
      where d.id = due.id
        and (not due.begins or exists (select from first_rounds b where b.channel_id = d.channel_id
                                       union all select from next_rounds b where b.channel_id = d.channel_id))
      returning d.id, d.org_id, d.incident_id, d.channel_id, d.channel_name, d.notice, d.message_id,
                d.attempt_count - d.attempts_before as attempts, d.leased_until, ${commitsEarly(sql)}
    )
    select leased.id, leased.org_id, leased.incident_id, leased.channel_id, leased.channel_name, leased.notice,
      leased.message_id, leased.attempts, leased.leased_until, due.begins, due.host_key, due.channel, (
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

/**
 * Time at which the next delivery becomes due, a round may leave, or a pause of a receiver ends; null for none. A round
 * without a delivery that waits costs one look.
 */
export async function nextDueAt(sql: Db, now: number, { secs }: RoundRules): Promise<Date | null> {
  const at = new Date(now);
  return await valueOf<Date | null>(sql`
    select least((select min(next_attempt_at) from deliveries where state = 'pending' and next_attempt_at > ${at}),
                 (select min(times.at) from channel_rounds r cross join lateral (values
                    (r.due_at), (r.last_left_at + make_interval(secs => ${secs})),
                    (r.critical_at + make_interval(secs => ${criticalSecs}))) times (at)
                  where r.due_at > ${at} and times.at > ${at}),
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

/** Ends the leases of a process that was killed, where no other one runs on the database. */
export async function endLeases(sql: Db): Promise<void> {
  await sql`update deliveries set leased_until = null where state = 'pending' and leased_until is not null`;
}

/** Stores the key of the host that a channel sends to, for the next claim. */
export async function storeHostKey(sql: Db, channelId: string, hostKey: string): Promise<void> {
  await sql`
    insert into channel_health (channel_id, host_key) select id, ${hostKey} from channels where id = ${channelId}
    on conflict (channel_id) do update set host_key = excluded.host_key`;
}

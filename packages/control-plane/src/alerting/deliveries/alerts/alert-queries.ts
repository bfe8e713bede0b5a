import { deliveriesChannel } from "../outbox/outbox-queries.ts";
import { arrayOf, columnOf, commitsEarly, countOf, type Db, firstOf, rowOf } from "../../../platform/db/client/sql.ts";
import type { AlertEvent, Severity } from "../../channels/schema.ts";
import type { ClaimedDelivery } from "../sending/claim-queries.ts";

/*
 * Alerts at pagers and groups of webhooks. Every statement here runs in a transaction that has locked the channel, so
 * that two replicas never choose a key, or an event of one key, at the same time.
 */

/** Time without an opening after which an alert gets no more incidents. */
const joinMinutes = 15;
/** A tag that more than a quarter of all monitors have is the cause only where most of its monitors fail. */
const rareTag = 4;

export interface AlertRow {
  key: string;
  /** `host:db-1.example.org` or `tag:eu`; null while it has one incident. */
  cause: string | null;
  updated_at: Date | null;
  triggered_at: Date | null;
  acknowledged_at: Date | null;
  ended_at: Date | null;
  /** The delivery that carried its last event, and whether that is in flight. */
  delivery_id: string | null;
  in_flight: boolean;
}

/** Whether an alert has open incidents, and open ones that nobody has acknowledged. */
export interface AlertState {
  isOpen: boolean;
  waits: boolean;
}

type Pair = Pick<ClaimedDelivery, "incident_id"> & { channel_id: string };

/**
 * Locks a channel until the transaction ends, which commits early: the attempt, recorded later, keeps it. False where
 * the channel was deleted.
 */
export async function lockChannel(sql: Db, channelId: string): Promise<boolean> {
  return (
    (await firstOf(sql`
    select id, ${commitsEarly(sql)} from channels where id = ${channelId} for no key update`)) !== null
  );
}

/** The message that a leased delivery belongs to; undefined where its lease was lost. */
export async function selectLeased(sql: Db, { id, leased_until }: Pick<ClaimedDelivery, "id" | "leased_until">) {
  const row = await firstOf(sql<{ message_id: string | null }[]>`
    select message_id from deliveries where id = ${id} and state = 'pending' and leased_until = ${leased_until}`);
  return row?.message_id;
}

/** The alert of an incident; null before its first notice to the channel. */
export async function selectAlert(sql: Db, { channel_id, incident_id }: Pair, at: Date): Promise<AlertRow | null> {
  return await firstOf(sql<AlertRow[]>`
    select a.key, a.cause, a.updated_at, a.triggered_at, a.acknowledged_at, a.ended_at, a.delivery_id,
      exists (
        select from deliveries d where d.id = a.delivery_id and d.state = 'pending' and d.leased_until > ${at})
        as in_flight
    from channel_alert_incidents m join channel_alerts a on a.channel_id = m.channel_id and a.key = m.key
    where m.incident_id = ${incident_id} and m.channel_id = ${channel_id}`);
}

/** Condition on `i` and `s`: the incident is open, or its end is held because its monitor flaps. */
const isOpen = (sql: Db) => sql`
  not i.retracted and (i.ended_at is null or coalesce(s.flapping ->> 'incident_id' = i.id::text, false))`;

/** The incidents of an alert, as `i`, with the state of their targets. */
const incidentsOf = (sql: Db, channelId: string, key: string) => sql`
  from channel_alert_incidents m join incidents i on i.id = m.incident_id
  left join target_states s on s.target_id = i.target_id
  where m.channel_id = ${channelId} and m.key = ${key}`;

/** It reads a few incidents of an alert: each of 10,000 deliveries asks for it. */
export async function selectAlertState(sql: Db, channelId: string, key: string): Promise<AlertState> {
  const some = incidentsOf(sql, channelId, key);
  return await rowOf(sql<AlertState[]>`
    select exists (select ${some} and ${isOpen(sql)}) as "isOpen",
      exists (select ${some} and ${isOpen(sql)} and i.acknowledged_at is null) as waits`);
}

/** Open incidents of an alert, at most 10,000. */
export async function selectOpen(sql: Db, channelId: string, key: string): Promise<string[]> {
  return await columnOf<string>(sql`
    select i.id ${incidentsOf(sql, channelId, key)} and ${isOpen(sql)} order by i.id limit 10000`);
}

export const countOpen = async (sql: Db, channelId: string, key: string): Promise<number> =>
  await countOf(sql, sql`${incidentsOf(sql, channelId, key)} and ${isOpen(sql)}`);

/**
 * The alert that an incident joins, and the cause that they share; null for none. It is open and not acknowledged, has
 * had an opening within 15 minutes, is not less severe, and shares the host, or a tag that says enough: one that at
 * most a quarter of the monitors have, or of which most monitors fail. Two failures of a tag of 5 hosts are no majority
 * yet, so a majority alone would alert twice; a tag of every second monitor would join failures that have nothing in
 * common. A cause that an alert has needs only be the same.
 */
export async function selectJoinable(sql: Db, { channel_id, incident_id }: Pair, at: Date) {
  return await firstOf(sql<{ key: string; cause: string }[]>`
    with own as materialized (
      select i.org_id, array_position(${ranks(sql)}, i.severity) as rank,
        array_remove(array['host:' || t.host], null) || array(select 'tag:' || tag from unnest(t.tags) tag) as causes
      from incidents i join targets t on t.id = i.target_id where i.id = ${incident_id}
    ), near as materialized (
      select a.key, a.cause, a.last_opening_at, shared.cause as with, o.org_id
      from own o
      join channel_alerts a on a.channel_id = ${channel_id} and a.ended_at is null and a.acknowledged_at is null
        and a.last_opening_at > ${at}::timestamptz - make_interval(mins => ${joinMinutes})
      cross join lateral unnest(case when a.cause is null then a.candidates else array[a.cause] end) as shared (cause)
      where shared.cause = any(o.causes)
        and exists (select ${told(sql)} and array_position(${ranks(sql)}, i.severity) >= o.rank)
        and exists (select ${told(sql)} and i.acknowledged_at is null)
    ), tags as materialized (
      select n.with, (select count(*) from targets t where t.org_id = n.org_id and t.enabled
                        and t.tags @> array[substr(n.with, 5)]) as size, n.org_id
      from (select distinct near.with, near.org_id from near where near.with like 'tag:%' and near.cause is null) n
    )
    select n.key, n.with as cause from near n left join tags g on g.with = n.with
    where n.with like 'host:%' or n.cause is not null
      or g.size * ${rareTag} <= (select count(*) from targets t where t.org_id = g.org_id and t.enabled)
      or g.size < 2 * (select count(*) from incidents i join targets t on t.id = i.target_id
                       where i.org_id = g.org_id and i.ended_at is null and not i.retracted and t.enabled
                         and t.tags @> array[substr(g.with, 5)])
    order by (n.with like 'host:%') desc, g.size nulls first, n.last_opening_at desc, n.key
    limit 1`);
}

/** Open incidents of the alert `a`. */
export const told = (sql: Db) => sql`
  from channel_alert_incidents m join incidents i on i.id = m.incident_id
  where m.channel_id = a.channel_id and m.key = a.key and i.ended_at is null and not i.retracted`;

export const ranks = (sql: Db) => sql`array['minor', 'major', 'critical']`;

/** Adds an incident to an alert that exists. Its last opening is exact to a second: an outage is thousands of them. */
export async function joinAlert(sql: Db, pair: Pair, { key, cause }: { key: string; cause: string }, at: Date) {
  await sql`
    update channel_alerts set cause = ${cause}, last_opening_at = ${at}
    where channel_id = ${pair.channel_id} and key = ${key}
      and (cause is distinct from ${cause} or last_opening_at < ${at}::timestamptz - interval '1 second')`;
  await addIncident(sql, pair, key, at);
}

/** A new alert of one incident: the key is its id, or `otherKey` where an earlier alert has that. */
export async function createAlert(sql: Db, pair: Pair, otherKey: string, at: Date): Promise<AlertRow> {
  return await rowOf(sql<AlertRow[]>`
    with made as (
      insert into channel_alerts (channel_id, key, candidates, last_opening_at)
      select ${pair.channel_id}, case when exists (
          select from channel_alerts a where a.channel_id = ${pair.channel_id} and a.key = i.id)
          then ${otherKey}::uuid else i.id end,
        array_remove(array['host:' || t.host], null) || array(select 'tag:' || tag from unnest(t.tags) tag), ${at}
      from incidents i join targets t on t.id = i.target_id where i.id = ${pair.incident_id}
      returning *
    ), added as (
      insert into channel_alert_incidents (incident_id, channel_id, key, joined_at)
      select ${pair.incident_id}, channel_id, key, ${at} from made
      on conflict (incident_id, channel_id) do update set key = excluded.key, joined_at = excluded.joined_at
    )
    select key, cause, updated_at, triggered_at, acknowledged_at, ended_at, delivery_id, false as in_flight from made`);
}

async function addIncident(sql: Db, { channel_id, incident_id }: Pair, key: string, at: Date): Promise<void> {
  await sql`
    insert into channel_alert_incidents (incident_id, channel_id, key, joined_at)
    values (${incident_id}, ${channel_id}, ${key}, ${at})
    on conflict (incident_id, channel_id) do update set key = excluded.key, joined_at = excluded.joined_at`;
}

/** An incident of an alert fails anew. */
export async function noteOpening(sql: Db, channelId: string, key: string, at: Date): Promise<void> {
  await sql`update channel_alerts set last_opening_at = ${at} where channel_id = ${channelId} and key = ${key}`;
}

/** Whether a group is over, for webhooks: nothing ends it at a receiver. */
export async function noteEnd(sql: Db, channelId: string, key: string, endedAt: Date | null): Promise<void> {
  await sql`
    update channel_alerts set ended_at = ${endedAt}
    where channel_id = ${channelId} and key = ${key} and (ended_at is null) <> ${endedAt === null}`;
}

/** Rows of a statement, so that none locks those of a large outage for long. */
const portion = 300;

/**
 * Makes a delivery the message of an alert: takes along what waits for the alert, also what this or another process has
 * leased and not sent, and notes the events. Acknowledgements take only acknowledgements. A delivery that is sent is a
 * message itself and is not taken.
 */
export async function beginMessage(
  sql: Db,
  { id, channel_id, reason }: { id: string; channel_id: string; reason: string },
  { key, events, covers, at }: { key: string; events: readonly AlertEvent[]; covers: readonly string[]; at: Date },
): Promise<void> {
  await sql`update deliveries set message_id = ${id}, covers = ${arrayOf(covers)}::uuid[] where id = ${id}`;
  for (let taken = portion; taken === portion;) {
    const rows = await sql`
      update deliveries set message_id = ${id}
      where id = any(array(
        select d.id from deliveries d
        where d.channel_id = ${channel_id} and d.state = 'pending' and d.message_id is null
          ${reason === "acknowledged" && !events.includes("trigger") ? sql`and d.reason = 'acknowledged'` : sql``}
          and (select m.key from channel_alert_incidents m
               where m.incident_id = d.incident_id and m.channel_id = d.channel_id) = ${key}
        order by d.next_attempt_at, d.id limit ${portion} for update of d))
      returning 1`;
    taken = rows.length;
  }
  const texts = events.includes("trigger") || events.includes("update");
  await sql`
    update channel_alerts set delivery_id = ${id}, events = ${[...events]}::text[]
      ${texts ? sql`, updated_at = ${at}` : sql``}
    where channel_id = ${channel_id} and key = ${key}`;
}

/** Gives a leased delivery back; it is looked at again at `due`. */
export async function postpone(
  sql: Db,
  { id, leased_until }: Pick<ClaimedDelivery, "id" | "leased_until">,
  due: Date,
): Promise<void> {
  await sql`
    update deliveries set leased_until = null, next_attempt_at = ${due}
    where id = ${id} and state = 'pending' and leased_until = ${leased_until}`;
}

/** Deletes an acknowledgement that needs no event: others of its alert are not acknowledged, or the receiver knows. */
export async function deleteAcknowledgement(
  sql: Db,
  { id, leased_until }: Pick<ClaimedDelivery, "id" | "leased_until">,
): Promise<void> {
  await sql`
    delete from deliveries where id = ${id} and reason = 'acknowledged' and state = 'pending'
      and leased_until = ${leased_until}`;
}

/**
 * Writes acknowledgements for channels of these kinds that were notified of the incidents, and wakes the deliverers at
 * the commit. Whether the alert is acknowledged then is decided when they are sent: acknowledgements of two incidents
 * may be written at the same time. `channelId` limits them to one channel.
 */
export async function insertAcknowledgements(
  sql: Db,
  incidentIds: readonly string[],
  { kinds, at, channelId = null }: { kinds: readonly string[]; at: Date; channelId?: string | null },
): Promise<void> {
  await sql`
    with notified as (
      select distinct on (d.incident_id, d.channel_id) d.*, c.name, c.kind
      from deliveries d join channels c on c.id = d.channel_id and c.org_id = d.org_id and c.enabled
      where d.incident_id = any(${arrayOf(incidentIds)}::uuid[]) and c.kind = any(${[...kinds]}::text[])
        and (${channelId}::uuid is null or c.id = ${channelId}::uuid)
        and d.reason in ('opened', 'reopened', 'unacknowledged', 'escalated') and d.state in ('pending', 'delivered')
        and not exists (
          select from channel_alert_incidents m join channel_alerts a on a.channel_id = m.channel_id and a.key = m.key
          where m.incident_id = d.incident_id and m.channel_id = d.channel_id and a.acknowledged_at is not null
            and a.ended_at is null)
      order by d.incident_id, d.channel_id, d.created_at desc
    ), kept as (
      select id from channels where id in (select channel_id from notified) order by id for key share
    ), written as (
      insert into deliveries (id, org_id, incident_id, channel_id, channel_name, channel_kind, reason, seq, notice,
        state, next_attempt_at, created_at)
      select gen_random_uuid(), n.org_id, n.incident_id, n.channel_id, n.name, n.kind, 'acknowledged', coalesce((
          select max(p.seq) + 1 from deliveries p where p.incident_id = n.incident_id and p.channel_id = n.channel_id
            and p.reason = 'acknowledged'), 0),
        n.notice || '{"reason": "acknowledged"}', 'pending', ${at}, greatest(${at}, n.created_at + interval '1 ms')
      from notified n join kept on kept.id = n.channel_id
      on conflict (incident_id, channel_id, reason, seq) do nothing
      returning 1
    )
    select pg_notify(${deliveriesChannel}, '') from written limit 1`;
}

/** What the message of an alert says of its incidents. */
export interface AlertLine {
  severity: Severity;
  open: number;
  recovered: number;
  since: Date | null;
  began_at: Date;
  ended_at: Date | null;
  error: string | null;
  same_error: boolean;
  names: string[];
}

/** Monitors that a line names. */
const maxNames = 5;

export async function selectAlertLine(sql: Db, channelId: string, key: string): Promise<AlertLine> {
  return await rowOf(sql<AlertLine[]>`
    with members as materialized (
      select i.outage_since, i.started_at, i.ended_at, i.error_sample, t.name, t.sort_name, ${isOpen(sql)} as is_open,
        array_position(${ranks(sql)}, i.severity) as rank
      from channel_alert_incidents m join incidents i on i.id = m.incident_id
      join targets t on t.id = i.target_id left join target_states s on s.target_id = i.target_id
      where m.channel_id = ${channelId} and m.key = ${key}
    ), listed as materialized (
      select * from members m where m.is_open or not exists (select from members where is_open)
    )
    select (${ranks(sql)})[max(rank)] as severity, count(*) filter (where is_open)::int as open,
      count(*) filter (where not is_open)::int as recovered,
      min(coalesce(outage_since, started_at)) filter (where is_open) as since,
      min(started_at) as began_at, max(ended_at) as ended_at,
      mode() within group (order by error_sample) as error,
      coalesce(min(error_sample) = max(error_sample), true) as same_error,
      array(select name from listed order by rank desc, sort_name, name limit ${maxNames}) as names
    from listed`);
}

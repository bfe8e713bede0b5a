import { arrayOf, columnOf, type Db, firstOf } from "../../../platform/db/client/sql.ts";

/** The channel of a message, and the incidents that the message listed as open. */
export interface LinkedChannel {
  org_id: string;
  incident_ids: string[];
  /** `person`: of a device, how its person is called. */
  channel: { id: string; name: string; kind: string; person: string | null };
}

const channelJson = (sql: Db) => sql`
  jsonb_build_object('id', c.id, 'name', c.name, 'kind', c.kind, 'person',
    (select coalesce(u.name, u.email) from users u where u.id = c.owner_id)) as channel`;

/** A viewer, who changes nothing in the console, does not from a device either. */
const mayAcknowledge = (sql: Db) => sql`
  (c.owner_id is null or exists (select from memberships m
    where m.org_id = c.org_id and m.user_id = c.owner_id and m.role <> 'viewer'))`;

/** Condition on `i`: its monitor flaps, so that it goes on while the monitor is up. */
const isFlapping = (sql: Db) => sql`
  exists (select from target_states s where s.target_id = i.target_id and s.flapping ->> 'incident_id' = i.id::text)`;

/** Condition on `i`: somebody may acknowledge it. */
export const isAcknowledgeable = (sql: Db) => sql`((i.ended_at is null or ${isFlapping(sql)}) and not i.retracted)`;

/**
 * Incidents that a message `d` covers: those that it listed as open when it was sent. One that has ended since and
 * failed again is another outage, unless it flaps.
 */
const covered = (sql: Db) => sql`
  array(select i.id from incidents i
        where i.org_id = d.org_id and i.id = any(coalesce(d.covers, array[d.incident_id])) and not i.retracted
          and (d.covers is null or i.outage_since is null or d.delivered_at is null or i.outage_since <= d.delivered_at
            or ${isFlapping(sql)})
        order by i.id) as incident_ids`;

/**
 * Null where the channel was disabled or deleted or is the device of a viewer, and for a message about incidents that
 * were none.
 */
export async function selectLinkedChannel(sql: Db, deliveryId: string): Promise<LinkedChannel | null> {
  const found = await firstOf(sql<LinkedChannel[]>`
    select d.org_id, ${covered(sql)}, ${channelJson(sql)}
    from deliveries d
    join channels c on c.id = d.channel_id and c.org_id = d.org_id and c.enabled
    join orgs o on o.id = d.org_id and o.deleted_at is null
    where d.id = ${deliveryId} and ${mayAcknowledge(sql)}`);
  return found === null || found.incident_ids.length === 0 ? null : found;
}

/** What the last opening, level or reminder of each channel covers. */
export async function selectLastTold(sql: Db, channelIds: readonly string[]): Promise<LinkedChannel[]> {
  return await sql<LinkedChannel[]>`
    select d.org_id, ${covered(sql)}, ${channelJson(sql)}
    from channels c
    join orgs o on o.id = c.org_id and o.deleted_at is null
    cross join lateral (
      select coalesce(l.message_id, l.id) as id from deliveries l
      where l.channel_id = c.id and l.state = 'delivered'
        and l.reason in ('opened', 'reopened', 'escalated', 'unacknowledged', 'reminder')
      order by l.delivered_at desc, l.created_at desc, l.id desc limit 1) last
    join deliveries d on d.id = last.id
    where c.id = any(${arrayOf(channelIds)}::uuid[]) and c.enabled`;
}

/** Everything open that each channel was notified of; of a channel at most 10,000. */
export async function selectEverythingTold(sql: Db, channelIds: readonly string[]): Promise<LinkedChannel[]> {
  return await sql<LinkedChannel[]>`
    select c.org_id, ${channelJson(sql)}, array(
      select i.id from incidents i
      where i.org_id = c.org_id and ${isAcknowledgeable(sql)} and exists (
        select from deliveries d where d.incident_id = i.id and d.channel_id = c.id and d.state = 'delivered')
      order by i.id limit 10000) as incident_ids
    from channels c
    join orgs o on o.id = c.org_id and o.deleted_at is null
    where c.id = any(${arrayOf(channelIds)}::uuid[]) and c.enabled`;
}

/** Open incidents that nobody has acknowledged, that a channel was notified of, without the given ones. */
export async function selectLater(sql: Db, { channel, incident_ids }: LinkedChannel): Promise<string[]> {
  return await columnOf<string>(sql`
    select i.id from incidents i join channels c on c.id = ${channel.id} and c.org_id = i.org_id
    where ${isAcknowledgeable(sql)} and i.acknowledged_at is null
      and i.id <> all(${arrayOf(incident_ids)}::uuid[]) and exists (
        select from deliveries d where d.incident_id = i.id and d.channel_id = c.id and d.state = 'delivered')
    order by i.id limit 10000`);
}

/** Names of regions by id. Regions belong to the installation. */
export async function selectRegionNames(sql: Db, ids: readonly string[]): Promise<Record<string, string>> {
  if (ids.length === 0) return {};
  const rows = await sql<{ id: string; name: string }[]>`
    select id, name from regions where id = any(${arrayOf(ids)}::text[])`;
  return Object.fromEntries(rows.map(({ id, name }) => [id, name]));
}

/** Difference of clocks for which an acknowledgement at a pager still counts as later than its alert, minutes. */
const skewMinutes = 1;

/**
 * Channels with an alert of this key at a pager that was acknowledged there at `at`, and the incidents of it that were
 * open then and are. Notes the acknowledgement where there is one such channel, so that it is not sent back.
 */
export async function acknowledgeAlerts(
  sql: Db,
  { kind, key, at }: { kind: string; key: string; at: Date },
): Promise<LinkedChannel[]> {
  const cut = sql`case when a.triggered_at <= ${at}::timestamptz + make_interval(mins => ${skewMinutes})
    then greatest(a.triggered_at, ${at}) else ${at} end`;
  const linked = await sql<LinkedChannel[]>`
    select c.org_id, ${channelJson(sql)}, array(
      select i.id from channel_alert_incidents m join incidents i on i.id = m.incident_id
      where m.channel_id = c.id and m.key = a.key and m.joined_at <= ${cut} and i.outage_since <= ${cut}
        and i.ended_at is null and not i.retracted order by i.id) as incident_ids
    from channel_alerts a
    join channels c on c.id = a.channel_id and c.kind = ${kind} and c.enabled
    join orgs o on o.id = c.org_id and o.deleted_at is null
    where a.key = ${key}
    order by c.id
    for no key update of c`;
  if (linked.length === 1)
    await sql`
      update channel_alerts a set acknowledged_at = ${at}
      where channel_id = ${linked[0]!.channel.id} and key = ${key} and acknowledged_at is null and ended_at is null
        and triggered_at <= ${at}::timestamptz + make_interval(mins => ${skewMinutes})`;
  return linked;
}

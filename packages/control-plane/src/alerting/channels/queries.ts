import type { Managed } from "../../platform/db/managed-queries.ts";
import {
  columnOf,
  countOf,
  type Db,
  firstOf,
  listed,
  type Listed,
  type Paging,
  rowOf,
} from "../../platform/db/client/sql.ts";
import type { StoredRow } from "../../platform/http/wire.ts";
import type { ChannelConfig } from "./kinds/index.ts";
import { isRouted } from "./routes/queries.ts";
import type { Channel } from "./schema.ts";

/** Outcome of the deliveries of a channel; times as PostgreSQL writes them in JSON. */
interface ChannelHealth {
  at: string | null;
  state: "pending" | "delivered" | "dead" | null;
  error: string | null;
  failing_since: string | null;
}

type Shown = StoredRow<Omit<Channel, "last_delivery" | "failing_since" | "verified" | "managed_by" | "person">>;

/** A stored channel: the secrets of its config are sealed. */
export interface ChannelRow extends Shown {
  org_id: string;
  kind: string;
  health: ChannelHealth | null;
  /** When the receiver confirmed; null for unconfirmed ones and for kinds that need no confirmation. */
  verified_at: Date | null;
  managed: Managed | null;
  /** Of a device: its person, and the name that the person gave it. Null for channels of the organisation. */
  owner_id: string | null;
  device_name: string | null;
  person: { user_id: string; email: string } | null;
}

/** A row as it is inserted; a channel of the organisation. */
export type NewChannelRow = Pick<
  ChannelRow,
  | "id"
  | "org_id"
  | "name"
  | "kind"
  | "config"
  | "enabled"
  | "is_default"
  | "active_hours"
  | "route"
  | "min_severity"
  | "rounds"
  | "write_source"
  | "created_at"
  | "updated_at"
>;

/** The channels that a caller may name: those of the organisation and own devices; an owner, every device. */
export interface Reach {
  userId: string | null;
  /** True: devices of others too. */
  everyDevice: boolean;
  /** Further devices by id, which are bound already. */
  kept?: readonly string[];
}

export const isReachable = (sql: Db, { userId, everyDevice, kept = [] }: Reach) =>
  everyDevice ? sql`true` : sql`(owner_id is null or owner_id = ${userId} or id = any(${[...kept]}::uuid[]))`;

export const columns = (sql: Db) =>
  sql`id, org_id, name, kind, config, enabled, disabled_reason, verified_at, is_default, active_hours, route,
    min_severity, rounds, tested_at, write_source, created_at, updated_at, managed, owner_id, device_name,
    (select jsonb_build_object('user_id', u.id, 'email', u.email) from users u where u.id = channels.owner_id)
      as person,
    (select count(*)::int from target_alerts a where a.channel_id = channels.id) as targets_count,
    case when route is null then 0 else (
      select count(*)::int from targets t where ${isRouted(sql, { channel: "channels" })}) end as routed_count,
    (select jsonb_build_object('at', h.last_at, 'state', h.last_state, 'error', h.last_error,
                               'failing_since', h.failing_since)
     from channel_health h where h.channel_id = channels.id) as health`;

const hoursJson = (sql: Db, { active_hours: hours }: Pick<ChannelRow, "active_hours">) =>
  hours === null ? null : sql.json(hours);

const routeJson = (sql: Db, { route }: Pick<ChannelRow, "route">) => (route === null ? null : sql.json(route));

/** Fails with 23505 on `channels_by_name` when the name is taken. */
export async function insertChannel(sql: Db, row: NewChannelRow): Promise<ChannelRow> {
  return await rowOf(sql<ChannelRow[]>`
    insert into channels
      (id, org_id, name, kind, config, enabled, is_default, active_hours, route, min_severity, rounds, write_source,
        created_at, updated_at)
    values
      (${row.id}, ${row.org_id}, ${row.name}, ${row.kind}, ${sql.json(row.config)}, ${row.enabled},
        ${row.is_default}, ${hoursJson(sql, row)}, ${routeJson(sql, row)}, ${row.min_severity}, ${row.rounds},
        ${row.write_source}, ${row.created_at}, ${row.updated_at})
    returning ${columns(sql)}`);
}

export async function selectChannel(
  sql: Db,
  orgId: string,
  id: string,
  { lock = false } = {},
): Promise<ChannelRow | null> {
  return await firstOf(sql<ChannelRow[]>`
    select ${columns(sql)} from channels where org_id = ${orgId} and id = ${id} ${lock ? sql`for update` : sql``}`);
}

/** Channels of the organisation, oldest first, without devices. */
export async function selectShared(sql: Db, orgId: string): Promise<ChannelRow[]> {
  return await sql<ChannelRow[]>`
    select ${columns(sql)} from channels where org_id = ${orgId} and owner_id is null order by id`;
}

/** An enabled channel of any organisation, for the hook that has authenticated its account. */
export async function selectAnyChannel(sql: Db, id: string): Promise<ChannelRow | null> {
  return await firstOf(sql<ChannelRow[]>`select ${columns(sql)} from channels where id = ${id} and enabled`);
}

/** Oldest first. */
export async function selectChannels(
  sql: Db,
  orgId: string,
  reach: Reach,
  { limit, offset }: Paging,
): Promise<Listed<ChannelRow>> {
  const from = sql`from channels where org_id = ${orgId} and ${isReachable(sql, reach)}`;
  const part = sql<ChannelRow[]>`select ${columns(sql)} ${from} order by id limit ${limit} offset ${offset}`;
  return await listed(sql, from, part);
}

/**
 * Channels with every word in name or kind: names that begin with the first word first, then the oldest. `words` are in
 * lower case; `total` in every row counts all of them.
 */
export async function searchChannels(
  sql: Db,
  orgId: string,
  words: readonly string[],
  { userId, limit }: { userId: string; limit: number },
) {
  return await sql<(Pick<ChannelRow, "id" | "name" | "kind"> & { total: number })[]>`
    select c.id, c.name, c.kind, count(*) over ()::int as total
    from (select id, org_id, coalesce(device_name, name) as name, kind from channels
          where owner_id is null or owner_id = ${userId}) c
    where c.org_id = ${orgId}
      ${words.reduce((all, word) => sql`${all} and position(${word} in lower(c.name || ' ' || c.kind)) > 0`, sql``)}
    order by not starts_with(lower(c.name), ${words[0] ?? ""}), c.id limit ${limit}`;
}

/** Channels of the organisation, without devices. */
export const countChannels = async (sql: Db, orgId: string): Promise<number> =>
  await countOf(sql, sql`from channels where org_id = ${orgId} and owner_id is null`);

/** Fails with 23505 on `channels_by_name` when the name is taken. */
export async function updateChannel(
  sql: Db,
  row: Omit<ChannelRow, "created_at" | "health" | "targets_count" | "routed_count" | "person">,
): Promise<ChannelRow> {
  return await rowOf(sql<ChannelRow[]>`
    update channels
    set name = ${row.name}, device_name = ${row.device_name}, kind = ${row.kind}, config = ${sql.json(row.config)},
      enabled = ${row.enabled},
      is_default = ${row.is_default}, active_hours = ${hoursJson(sql, row)},
      route = ${routeJson(sql, row)}, min_severity = ${row.min_severity}, rounds = ${row.rounds},
      tested_at = ${row.tested_at}, disabled_reason = ${row.disabled_reason},
      verified_at = ${row.verified_at}, write_source = ${row.write_source}, updated_at = ${row.updated_at}
    where org_id = ${row.org_id} and id = ${row.id}
    returning ${columns(sql)}`);
}

/** The foreign key deletes bindings; deliveries stay and keep the channel's name. */
export async function deleteChannel(sql: Db, orgId: string, id: string): Promise<void> {
  await sql`delete from channels where org_id = ${orgId} and id = ${id}`;
}

/** Ids of the channels that new targets notify, locked against deletion until the transaction ends. Oldest first. */
export async function keepDefaults(sql: Db, orgId: string): Promise<string[]> {
  return await columnOf<string>(sql`
    select id from channels where org_id = ${orgId} and is_default order by id for key share`);
}

/** Stores when a test was accepted. */
export async function setTested(sql: Db, orgId: string, id: string, at: Date): Promise<void> {
  await sql`update channels set tested_at = ${at} where org_id = ${orgId} and id = ${id}`;
}

/** The channels among `ids` that a caller may name, locked against deletion until the transaction ends. */
export async function keepChannels(sql: Db, orgId: string, ids: readonly string[], reach: Reach): Promise<string[]> {
  return await columnOf<string>(sql`
    select id from channels where org_id = ${orgId} and id = any(${[...ids]}::uuid[]) and ${isReachable(sql, reach)}
    order by id for key share`);
}

/** Configs of channels of all organisations by id; `lock` holds the rows until the end of the transaction. */
export async function selectConfigs(sql: Db, after: string | null, limit: number, { lock = false } = {}) {
  return await sql<Pick<ChannelRow, "id" | "org_id" | "config">[]>`
    select id, org_id, config from channels where ${after}::uuid is null or id > ${after}::uuid order by id
    limit ${limit} ${lock ? sql`for no key update` : sql``}`;
}

/** Writes only the config. */
export async function storeConfig(sql: Db, id: string, config: ChannelConfig): Promise<void> {
  await sql`update channels set config = ${sql.json(config)} where id = ${id}`;
}

/** Clears the failing state of a channel whose config was replaced. */
export async function resetHealth(sql: Db, id: string): Promise<void> {
  await sql`
    update channel_health set failing_since = null, failing_mailed_at = null, paused_until = null, host_key = null
    where channel_id = ${id}`;
}

/** Ends the failing state of a channel that has accepted a message outside of the outbox. */
export async function endFailing(sql: Db, id: string): Promise<void> {
  await sql`
    update channel_health set failing_since = null, failing_mailed_at = null
    where channel_id = ${id} and failing_since is not null`;
}

/** Marks the address of a channel as confirmed. */
export async function setVerified(sql: Db, orgId: string, id: string, at: Date): Promise<void> {
  await sql`update channels set verified_at = ${at} where org_id = ${orgId} and id = ${id}`;
}

/** Fields of a managed config or of an email config that an event of a vendor names. */
export type Place = { kind: string; field: "chat_id" | "phone" | "to"; value: string };

/** Condition on a channel. A literal path, so that the index of the field is used. */
const isAt = (sql: Db, { kind, field, value }: Place) => {
  const path = { chat_id: sql`config ->> 'chat_id'`, phone: sql`config ->> 'phone'`, to: sql`config ->> 'to'` }[field];
  return sql`kind = ${kind} and ${path} = ${value}`;
};

/** Locks the channels of all organisations at a place, in the order of ids. */
export async function lockChannelsAt(sql: Db, place: Place): Promise<ChannelRow[]> {
  return await sql<ChannelRow[]>`
    select ${columns(sql)} from channels where ${isAt(sql, place)} order by id for update`;
}

/** The enabled channels of all organisations at a place, at most 100. */
export async function selectEnabledAt(sql: Db, place: Place): Promise<ChannelRow[]> {
  return await sql<ChannelRow[]>`
    select ${columns(sql)} from channels where ${isAt(sql, place)} and enabled order by id limit 100`;
}

/** Disables a channel with a reason; `verified` false also takes back the confirmation. */
export async function disableChannel(
  sql: Db,
  { id, org_id }: Pick<ChannelRow, "id" | "org_id">,
  { reason, at, verified }: { reason: string; at: Date; verified: boolean },
): Promise<ChannelRow> {
  return await rowOf(sql<ChannelRow[]>`
    update channels set enabled = false, disabled_reason = ${reason}, updated_at = ${at},
           verified_at = case when ${verified} then verified_at end
    where org_id = ${org_id} and id = ${id} returning ${columns(sql)}`);
}

/** Writes the chat id of a managed channel whose group moved. */
export async function moveChat(sql: Db, orgId: string, id: string, chatId: string, at: Date): Promise<void> {
  await sql`
    update channels set config = jsonb_set(config, '{chat_id}', to_jsonb(${chatId}::text)), updated_at = ${at}
    where org_id = ${orgId} and id = ${id}`;
}

/** Names of the organisation's channels that begin with a text. */
export async function selectNames(sql: Db, orgId: string, start: string): Promise<string[]> {
  return await columnOf<string>(sql`
    select name from channels where org_id = ${orgId} and starts_with(name, ${start})`);
}

/** Ladders that use a channel: how many targets have one, and whether the default of the organisation does. */
export interface LadderUse {
  id: string;
  targets: number;
  is_default: boolean;
}

/** The channels of ladders. */
export async function selectLadderUse(sql: Db, orgId: string): Promise<LadderUse[]> {
  return await sql<LadderUse[]>`
    with ladders as (
      select id as target_id, escalation from targets where org_id = ${orgId} and escalation is not null
      union all
      select null, escalation from orgs where id = ${orgId}
    )
    select c.id, count(distinct l.target_id)::int as targets, bool_or(l.target_id is null) as is_default
    from ladders l, jsonb_array_elements(l.escalation) level, jsonb_array_elements_text(level -> 'channel_ids') c (id)
    group by c.id`;
}

/** Takes a deleted channel out of the ladders of its organisation; levels that it leaves empty go. */
export async function leaveLadders(sql: Db, orgId: string, channelId: string): Promise<void> {
  const without = sql`
    (select coalesce(jsonb_agg(level || jsonb_build_object('channel_ids', (level -> 'channel_ids') - ${channelId}::text)
       order by place), '[]')
     from jsonb_array_elements(escalation) with ordinality as e (level, place)
     where (level -> 'channel_ids') <> jsonb_build_array(${channelId}::text))`;
  const names = sql`escalation @> ${sql.json([{ channel_ids: [channelId] }])}`;
  await sql`update targets set escalation = ${without} where org_id = ${orgId} and ${names}`;
  await sql`update orgs set escalation = ${without} where id = ${orgId} and ${names}`;
}

/** Has deliveries that wait for the hours of a channel looked at again, as its hours have changed. */
export async function lookAtHeld(sql: Db, channelId: string, at: Date): Promise<void> {
  await sql`
    update deliveries set next_attempt_at = ${at}
    where channel_id = ${channelId} and state = 'held' and held_by = 'hours'`;
}

/** Ends the rounds of a channel whose notices leave in another way now: what waits is due. */
export async function endRounds(sql: Db, channelId: string, at: Date): Promise<void> {
  await sql`delete from channel_rounds where channel_id = ${channelId}`;
  await sql`
    update deliveries set next_attempt_at = ${at}
    where channel_id = ${channelId} and state = 'pending' and attempt_count = 0 and next_attempt_at > ${at}`;
}

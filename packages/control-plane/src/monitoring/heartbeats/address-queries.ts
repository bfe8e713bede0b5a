import type { Fragment } from "postgres";
import type { AddressKind } from "@statusmesh/shared/pings/address";
import { anyOf, arrayOf, type Db } from "../../platform/db/client/sql.ts";

/* Tokens and addresses by which pings find their monitor, and what a ping key has created. */

/** Addresses by hash, without expired ones. */
export const addresses = (sql: Db, hashes: readonly string[], now: Date) => sql`
  from heartbeat_addresses a
  where a.hash in (select decode(h, 'hex') from unnest(${arrayOf(hashes)}::text[]) h)
    and (a.valid_until is null or a.valid_until > ${now})`;

/** The monitors of addresses, by hash; unknown and expired ones are left out. */
export async function selectAddressed(sql: Db, hashes: readonly string[], now: Date): Promise<Map<string, string>> {
  const rows = await sql<{ hash: string; target_id: string }[]>`
    select encode(a.hash, 'hex') as hash, a.target_id ${addresses(sql, hashes, now)}`;
  return new Map(rows.map(({ hash, target_id: id }) => [hash, id]));
}

/** The monitors that {@link selectAddressed} finds, for a statement that begins with them. */
export const addressedIds = (sql: Db, hashes: readonly string[], now: Date): Fragment =>
  sql`array(select a.target_id ${addresses(sql, hashes, now)})`;

/** Makes the rows of new heartbeat monitors, with the sealed tokens and their hashes. */
export async function insertHeartbeats(sql: Db, rows: readonly { targetId: string; token: string }[]): Promise<void> {
  await sql`
    insert into heartbeats (target_id, token)
    select * from unnest(${rows.map((row) => row.targetId)}::uuid[], ${rows.map((row) => row.token)}::text[])`;
}

export interface NewAddress {
  targetId: string;
  kind: AddressKind | "own";
  /** SHA-256 in hex. */
  hash: string;
  hint: string;
  position: number;
}

/** Counts a creation by a ping key (SHA-256, hex). False once there were `limit` on the day; waits for others of it. */
export async function countCreation(sql: Db, key: string, day: string, limit: number): Promise<boolean> {
  const { count } = await sql`
    insert into heartbeat_creations as c (key, day, count) values (decode(${key}, 'hex'), ${day}, 1)
    on conflict (key, day) do update set count = c.count + 1 where c.count < ${limit}`;
  return count === 1;
}

/** False for an organisation that is deleted, or never was. */
export async function isOrg(sql: Db, id: string): Promise<boolean> {
  return await anyOf(sql, sql`from orgs where id = ${id} and deleted_at is null`);
}

export async function deleteCreationsBefore(sql: Db, day: string): Promise<void> {
  await sql`delete from heartbeat_creations where day < ${day}`;
}

/** Throws a unique violation where an address is taken. */
export async function insertAddresses(sql: Db, addresses: readonly NewAddress[]): Promise<void> {
  await sql`
    insert into heartbeat_addresses (target_id, kind, hash, hint, position)
    select u.target_id, u.kind, decode(u.hash, 'hex'), u.hint, u.position
    from unnest(${addresses.map((a) => a.targetId)}::uuid[], ${addresses.map((a) => a.kind)}::text[],
      ${addresses.map((a) => a.hash)}::text[], ${addresses.map((a) => a.hint)}::text[],
      ${arrayOf(addresses.map((a) => a.position))}::integer[]) as u (target_id, kind, hash, hint, position)`;
}

export interface AddressRow {
  kind: AddressKind;
  hash: string;
  hint: string;
}

/** The addresses that jobs used with another product, in their order. */
export async function selectAddresses(sql: Db, targetId: string): Promise<AddressRow[]> {
  return await sql<AddressRow[]>`
    select kind, encode(hash, 'hex') as hash, hint from heartbeat_addresses
    where target_id = ${targetId} and kind <> 'own' order by position`;
}

/** {@link selectAddresses} of many monitors. */
export async function selectAddressesOf(sql: Db, targetIds: readonly string[]) {
  return await sql<(AddressRow & { target_id: string })[]>`
    select target_id, kind, encode(hash, 'hex') as hash, hint from heartbeat_addresses
    where target_id = any(${arrayOf(targetIds)}::uuid[]) and kind <> 'own' order by target_id, position`;
}

export async function deleteAddresses(sql: Db, targetId: string): Promise<void> {
  await sql`delete from heartbeat_addresses where target_id = ${targetId} and kind <> 'own'`;
}

/** Ends all tokens but the newest, which is valid until `until`, and stores the next one. */
export async function replaceToken(
  sql: Db,
  next: { targetId: string; token: string; hash: string; hint: string },
  until: Date,
): Promise<void> {
  const { targetId } = next;
  await sql`delete from heartbeat_addresses where target_id = ${targetId} and kind = 'own' and valid_until is not null`;
  await sql`update heartbeat_addresses set valid_until = ${until} where target_id = ${targetId} and kind = 'own'`;
  await sql`
    insert into heartbeat_addresses (target_id, kind, hash, hint, position)
    values (${targetId}, 'own', decode(${next.hash}, 'hex'), ${next.hint}, 0)`;
  await sql`update heartbeats set token = ${next.token} where target_id = ${targetId}`;
}

/** Sealed tokens after `after`, by id; `lock` locks them until the transaction ends. */
export async function selectTokens(sql: Db, after: string | null, limit: number, { lock = false } = {}) {
  return await sql<{ id: string; token: string }[]>`
    select target_id as id, token from heartbeats where ${after}::uuid is null or target_id > ${after}::uuid
    order by target_id limit ${limit} ${lock ? sql`for no key update` : sql``}`;
}

export async function storeToken(sql: Db, id: string, token: string): Promise<void> {
  await sql`update heartbeats set token = ${token} where target_id = ${id}`;
}

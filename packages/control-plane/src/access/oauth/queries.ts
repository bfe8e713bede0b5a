import type { Fragment } from "postgres";
import {
  affectsRow,
  anyOf,
  type Db,
  firstOf,
  columnOf,
  listed,
  type Listed,
  type Paging,
} from "../../platform/db/client/sql.ts";
import type { StoredRow } from "../../platform/http/wire.ts";
import type { ConnectedApp } from "./schema.ts";

export interface ClientRow {
  id: string;
  name: string | null;
  redirect_uris: string[];
}

/** Condition on `c`: a client that never had a grant. */
const isUnused = (sql: Db) => sql`c.expires_at - c.created_at <= interval '1 day'`;

/**
 * Adds a client and deletes the oldest unused clients beyond `max`, this one included. Adds none and returns false when
 * a client that would have to go is newer than `keepSince`.
 */
export async function insertClient(
  sql: Db,
  row: ClientRow & { now: Date; expiresAt: Date },
  { max, keepSince }: { max: number; keepSince: Date },
): Promise<boolean> {
  return await affectsRow(sql`
    with surplus as (
      select c.id, c.created_at from oauth_clients c where ${isUnused(sql)}
      order by c.created_at desc offset ${max - 1}
    ), gone as (
      -- The condition again: a client may get its first grant meanwhile.
      delete from oauth_clients c using surplus s
      where c.id = s.id and s.created_at < ${keepSince} and ${isUnused(sql)}
    )
    insert into oauth_clients (id, name, redirect_uris, created_at, expires_at)
    select ${row.id}, ${row.name}, ${row.redirect_uris}::text[], ${row.now}, ${row.expiresAt}
    where not exists (select from surplus where created_at >= ${keepSince})`);
}

export async function selectClient(sql: Db, id: string, now: Date): Promise<ClientRow | null> {
  return await firstOf(sql<ClientRow[]>`
    select id, name, redirect_uris from oauth_clients where id = ${id} and expires_at > ${now}`);
}

/** Keeps the client at least until `until`; false when there is none. */
export async function keepClient(sql: Db, id: string, until: Date): Promise<boolean> {
  return await affectsRow(sql`
    update oauth_clients set expires_at = greatest(expires_at, ${until}) where id = ${id}`);
}

/** Marks a consent form as answered. Of concurrent callers with one form exactly one gets true. */
export async function takeConsent(sql: Db, id: string, expiresAt: Date): Promise<boolean> {
  return await affectsRow(sql`
    insert into oauth_consents (id, expires_at) values (${id}, ${expiresAt}) on conflict (id) do nothing`);
}

/** What a user has granted to a client. */
interface GrantRow {
  client_id: string;
  user_id: string;
  org_id: string;
  scopes: string[];
  audience: string;
}

export interface CodeRow extends GrantRow {
  connection_id: string;
  redirect_uri: string;
  challenge: string;
  lifetime_days: number;
}

export async function insertCode(
  sql: Db,
  row: CodeRow & { code_hash: Buffer; created_at: Date; expires_at: Date },
): Promise<void> {
  await sql`insert into oauth_codes ${sql(row)}`;
}

/** A code, also a used or expired one. */
export async function selectCode(sql: Db, hash: Buffer): Promise<CodeRow | null> {
  return await firstOf(sql<CodeRow[]>`
    select client_id, user_id, org_id, connection_id, redirect_uri, challenge, scopes, audience, lifetime_days
    from oauth_codes where code_hash = ${hash}`);
}

/**
 * Uses up what works once. Of concurrent callers exactly one gets `used`; the others get `replayed` once that one has
 * committed.
 */
async function useUp(sql: Db, table: Fragment, isIt: Fragment, now: Date): Promise<"used" | "replayed" | "expired"> {
  const update = sql`update ${table} set used_at = ${now} where ${isIt} and used_at is null and expires_at > ${now}`;
  if (await affectsRow(update)) return "used";
  return (await anyOf(sql, sql`from ${table} where ${isIt} and used_at is not null`)) ? "replayed" : "expired";
}

/** Uses a code up; see {@link useUp}. */
export const useCode = async (sql: Db, hash: Buffer, now: Date) =>
  await useUp(sql, sql`oauth_codes`, sql`code_hash = ${hash}`, now);

/**
 * True while the user is a member of the organisation and it is not deleted. Locks the membership: its removal waits
 * for this transaction and then sees its rows.
 */
export async function lockMembership(sql: Db, userId: string, orgId: string): Promise<boolean> {
  return await affectsRow(sql`
    select 1 from memberships m join orgs o on o.id = m.org_id and o.deleted_at is null
    where m.user_id = ${userId} and m.org_id = ${orgId} for key share of m`);
}

export interface ConnectionRow extends GrantRow {
  id: string;
  redirect_host: string;
  expires_at: Date;
}

export async function insertConnection(
  sql: Db,
  row: ConnectionRow & { created_at: Date; last_used_at: Date },
): Promise<void> {
  await sql`insert into oauth_connections ${sql(row)}`;
}

/** Live connections of the user, client and organisation of `newest` beyond `keep`, that one included. */
export async function selectSurplus(sql: Db, newest: ConnectionRow, keep: number, now: Date): Promise<string[]> {
  return await columnOf<string>(sql`
    select id from oauth_connections
    where client_id = ${newest.client_id} and user_id = ${newest.user_id} and org_id = ${newest.org_id}
      and id <> ${newest.id} and revoked_at is null and expires_at > ${now}
    order by created_at desc, id desc offset ${keep - 1}`);
}

/** The live connection, locked and marked as used; null when it has ended. */
export async function useConnection(sql: Db, id: string, now: Date): Promise<ConnectionRow | null> {
  return await firstOf(sql<ConnectionRow[]>`
    update oauth_connections set last_used_at = ${now}
    where id = ${id} and revoked_at is null and expires_at > ${now}
    returning id, client_id, user_id, org_id, redirect_host, scopes, audience, expires_at`);
}

/** Ends a live connection. Of concurrent callers exactly one gets it. */
export async function revokeConnection(sql: Db, id: string, now: Date): Promise<EndedRow | null> {
  return await firstOf(sql<EndedRow[]>`
    update oauth_connections c set revoked_at = ${now} from oauth_clients k
    where c.id = ${id} and k.id = c.client_id and c.revoked_at is null
    returning c.id, c.user_id, c.org_id, c.scopes, c.redirect_host, k.name`);
}

export interface EndedRow extends Pick<ConnectionRow, "id" | "user_id" | "org_id" | "scopes" | "redirect_host"> {
  name: string | null;
}

/** True for the user's own live connection in the organisation. */
export async function selectOwnConnection(
  sql: Db,
  userId: string,
  orgId: string,
  id: string,
  now: Date,
): Promise<boolean> {
  return await affectsRow(sql`
    select 1 from oauth_connections
    where id = ${id} and user_id = ${userId} and org_id = ${orgId} and revoked_at is null and expires_at > ${now}`);
}

/** Ends the connections of a former member in the organisation; returns their ids. */
export async function revokeConnectionsIn(sql: Db, userId: string, orgId: string, now: Date): Promise<string[]> {
  return await columnOf<string>(sql`
    update oauth_connections set revoked_at = ${now}
    where user_id = ${userId} and org_id = ${orgId} and revoked_at is null returning id`);
}

export async function insertRefreshToken(
  sql: Db,
  row: { token_hash: Buffer; connection_id: string; created_at: Date; expires_at: Date },
): Promise<void> {
  await sql`insert into oauth_refresh_tokens ${sql(row)}`;
}

/** Connection and client of a refresh token, also of a used one. */
export async function selectRefreshToken(sql: Db, hash: Buffer) {
  return await firstOf(sql<{ connection_id: string; client_id: string }[]>`
    select r.connection_id, c.client_id
    from oauth_refresh_tokens r join oauth_connections c on c.id = r.connection_id where r.token_hash = ${hash}`);
}

/** Uses a refresh token up; see {@link useUp}. */
export const useRefreshToken = async (sql: Db, hash: Buffer, now: Date) =>
  await useUp(sql, sql`oauth_refresh_tokens`, sql`token_hash = ${hash}`, now);

/** The user's live connections in the organisation, newest first. */
export async function selectConnections(
  sql: Db,
  userId: string,
  orgId: string,
  now: Date,
  { limit, offset }: Paging,
): Promise<Listed<StoredRow<ConnectedApp>>> {
  const from = sql`
    from oauth_connections c join oauth_clients k on k.id = c.client_id
    where c.user_id = ${userId} and c.org_id = ${orgId} and c.revoked_at is null and c.expires_at > ${now}`;
  const part = sql<StoredRow<ConnectedApp>[]>`
    select c.id, k.name as client_name, c.redirect_host, c.scopes, c.created_at, c.expires_at,
      greatest(c.last_used_at, (select max(t.last_used_at) from api_tokens t where t.connection_id = c.id))
        as last_used_at
    ${from} order by c.id desc limit ${limit} offset ${offset}`;
  return await listed(sql, from, part);
}

/** Organisations that the user may connect, oldest membership first. */
export async function selectOrgs(sql: Db, userId: string) {
  return await sql<{ id: string; slug: string; name: string }[]>`
    select o.id, o.slug, o.name from memberships m join orgs o on o.id = m.org_id and o.deleted_at is null
    where m.user_id = ${userId} order by m.created_at, o.id limit 100`;
}

/** Deletes expired rows. Used codes stay until `dayAgo`, so that a replay is recognised. */
export async function deleteExpired(sql: Db, now: Date, dayAgo: Date): Promise<void> {
  await sql`delete from oauth_consents where expires_at < ${now}`;
  await sql`delete from oauth_codes where expires_at < ${dayAgo}`;
  await sql`delete from oauth_refresh_tokens where expires_at < ${now}`;
  await sql`delete from oauth_connections where expires_at < ${now} or revoked_at < ${dayAgo}`;
  await sql`delete from oauth_clients where expires_at < ${now}`;
}

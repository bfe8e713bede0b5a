import { countOf, type Db, firstOf, type Listed, listed, type Paging } from "../../../platform/db/client/sql.ts";
import type { StoredRow } from "../../../platform/http/wire.ts";
import type { ApiToken } from "../schema.ts";
import type { CredentialRow, LiveCredentialRow } from "../sessions/session-queries.ts";

export type TokenCredentialRow = CredentialRow & { scopes: string[] };

/**
 * The live token of the REST API with this hash, in the organisation that it is bound to. An unbound token acts in the
 * organisation with the slug or id of the request, or in its user's only one. Null: unknown, expired, revoked, or no
 * longer a member. A deleted organisation counts with `deletedToo` and for its owners only.
 */
export async function selectToken(
  sql: Db,
  hash: Buffer,
  now: Date,
  org: string | null,
  deletedToo: boolean,
): Promise<TokenCredentialRow | null> {
  const rows = await sql<TokenCredentialRow[]>`
    select t.id, t.user_id, m.org_id, m.role, t.scopes, t.last_used_at
    from api_tokens t
    join memberships m on m.user_id = t.user_id and m.org_id = coalesce(t.org_id, m.org_id)
    join orgs o on o.id = m.org_id
      and (o.deleted_at is null or (${deletedToo} and m.role = 'owner' and t.org_id is not null))
    where t.token_hash = ${hash} and t.audience is null and t.revoked_at is null
      and (t.expires_at is null or t.expires_at > ${now})
      and (${org}::text is null or ${org} in (o.slug, o.id::text))
    order by o.created_at limit 2`;
  // Two organisations and no name: a guess would write into the wrong one.
  return rows.length === 1 ? rows[0]! : null;
}

/** Number of live tokens of a user; expired ones and access tokens of connected apps do not count. */
export async function countLiveTokens(sql: Db, userId: string, now: Date): Promise<number> {
  const from = sql`
    from api_tokens where user_id = ${userId} and connection_id is null and revoked_at is null
      and (expires_at is null or expires_at > ${now})`;
  return await countOf(sql, from);
}

/** Organisation and expiry of a token: the limits of the tokens that it creates. */
export interface TokenReach {
  org_id: string | null;
  expires_at: Date | null;
}

export async function selectTokenReach(sql: Db, userId: string, id: string): Promise<TokenReach | null> {
  return await firstOf(sql<TokenReach[]>`
    select org_id, expires_at from api_tokens where user_id = ${userId} and id = ${id} and revoked_at is null`);
}

export interface ApiTokenRow extends StoredRow<Omit<ApiToken, "audience">> {
  /** The resource that it is for; null: the REST API. */
  audience: string | null;
}

const columns = (sql: Db) => sql`id, name, scopes, expires_at, org_id, audience, created_at, last_used_at`;

const ownTokens = (sql: Db, userId: string, orgId: string | null) =>
  sql`user_id = ${userId} and connection_id is null and revoked_at is null
    and (${orgId}::uuid is null or org_id = ${orgId})`;

/**
 * Tokens that were not revoked, newest first, expired ones included, without access tokens of connected apps. With
 * `orgId` only those bound to it.
 */
export async function selectTokens(
  sql: Db,
  userId: string,
  orgId: string | null,
  { limit, offset }: Paging,
): Promise<Listed<ApiTokenRow>> {
  const from = sql`from api_tokens where ${ownTokens(sql, userId, orgId)}`;
  const part = sql<ApiTokenRow[]>`
    select ${columns(sql)}
    ${from} order by id desc limit ${limit} offset ${offset}`;
  return await listed(sql, from, part);
}

/** Revokes a token with all tokens below it. Returns the token and the number of the others. */
export async function revokeToken(
  sql: Db,
  userId: string,
  orgId: string | null,
  id: string,
  now: Date,
): Promise<{ row: ApiTokenRow; offspring: number } | null> {
  const rows = await sql<ApiTokenRow[]>`
    with recursive family as (
      select id from api_tokens where ${ownTokens(sql, userId, orgId)} and id = ${id}
      union select t.id from api_tokens t join family f on t.made_by = f.id)
    update api_tokens set revoked_at = ${now} where id in (select id from family) and revoked_at is null
    returning ${columns(sql)}`;
  const row = rows.find((one) => one.id === id);
  return row === undefined ? null : { row, offspring: rows.length - 1 };
}

/** The live token of the REST API with this hash, whatever organisation the request names. */
export async function selectLiveToken(sql: Db, hash: Buffer, now: Date) {
  return await firstOf(sql<(LiveCredentialRow & { scopes: string[] })[]>`
    select id, user_id, org_id, scopes from api_tokens
    where token_hash = ${hash} and audience is null and revoked_at is null
      and (expires_at is null or expires_at > ${now})`);
}

/** Revokes the user's tokens that are bound to the organisation. */
export async function revokeTokensIn(sql: Db, userId: string, orgId: string, now: Date): Promise<void> {
  await sql`
    update api_tokens set revoked_at = ${now}
    where user_id = ${userId} and org_id = ${orgId} and revoked_at is null`;
}

export interface NewTokenRow
  extends
    Pick<ApiTokenRow, "id" | "name" | "org_id" | "created_at">,
    Partial<Pick<ApiTokenRow, "audience" | "expires_at" | "last_used_at">> {
  user_id: string;
  token_hash: Buffer;
  scopes: readonly string[];
  /** The token that creates it; null when a person does. */
  made_by?: string | null;
  /** The connection of an access token of OAuth. */
  connection_id?: string;
}

export async function insertToken(sql: Db, row: NewTokenRow): Promise<void> {
  await sql`insert into api_tokens ${sql({ ...row, scopes: [...row.scopes] })} on conflict (token_hash) do nothing`;
}

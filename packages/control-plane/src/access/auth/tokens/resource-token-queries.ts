import { affectsRow, type Db, firstOf } from "../../../platform/db/client/sql.ts";
import type { TokenCredentialRow } from "./token-queries.ts";

type ResourceTokenRow = TokenCredentialRow & {
  name: string;
  client_id: string | null;
  /** The MCP session that was asked for; null without a live one of this user, organisation and client. */
  session_id: string | null;
  can_confirm: boolean | null;
  session_expires_at: Date | null;
};

/** Condition on a token `t` and its connection `c`. */
const isLive = (sql: Db, now: Date, audience: string) => sql`
  t.revoked_at is null and (t.expires_at is null or t.expires_at > ${now})
  and (${audience} = '' or t.audience = ${audience})
  and (t.connection_id is null or (c.revoked_at is null and c.expires_at > ${now}))`;

/**
 * The live, bound token with this hash whose audience is `audience`; of any audience for an empty one. Null: unknown,
 * expired, revoked, not bound, for another audience, no longer a member, or the organisation is deleted. One statement
 * finds the MCP session `sessionId` too: each statement more costs a tenth of a read.
 */
export async function selectResourceToken(
  sql: Db,
  hash: Buffer,
  now: Date,
  audience: string,
  sessionId: string | null,
): Promise<ResourceTokenRow | null> {
  return await firstOf(sql<ResourceTokenRow[]>`
    select t.id, t.name, t.user_id, m.org_id, m.role, t.scopes, t.last_used_at, c.client_id,
      s.id as session_id, s.can_confirm, s.expires_at as session_expires_at
    from api_tokens t
    join memberships m on m.user_id = t.user_id and m.org_id = t.org_id
    join orgs o on o.id = m.org_id and o.deleted_at is null
    left join oauth_connections c on c.id = t.connection_id
    left join mcp_sessions s on s.id = ${sessionId} and s.user_id = t.user_id and s.org_id = t.org_id
      and s.client = coalesce(c.client_id, t.id)::text and s.expires_at > ${now}
    where t.token_hash = ${hash} and ${isLive(sql, now, audience)}`);
}

/** Those of the tokens that {@link selectResourceToken} finds. */
export async function selectLiveTokens(sql: Db, ids: readonly string[], now: Date, audience: string) {
  return await sql<{ id: string }[]>`
    select t.id from api_tokens t
    join memberships m on m.user_id = t.user_id and m.org_id = t.org_id
    join orgs o on o.id = m.org_id and o.deleted_at is null
    left join oauth_connections c on c.id = t.connection_id
    where t.id = any(${[...ids]}::uuid[]) and ${isLive(sql, now, audience)}`;
}

/** Revokes the oldest live access tokens of a connection beyond `keep`. */
export async function revokeOldestOf(sql: Db, connectionId: string, keep: number, now: Date): Promise<void> {
  await sql`
    update api_tokens set revoked_at = ${now} where id in (
      select id from api_tokens
      where connection_id = ${connectionId} and revoked_at is null and expires_at > ${now}
      order by created_at desc, id desc offset ${keep})`;
}

/** Revokes the live access tokens of a connection. */
export async function revokeTokensOf(sql: Db, connectionId: string, now: Date): Promise<void> {
  await sql`
    update api_tokens set revoked_at = ${now} where connection_id = ${connectionId} and revoked_at is null`;
}

export interface AccessTokenRow {
  id: string;
  client_id: string;
}

/** The access token with this hash, with its client. */
export async function selectAccessToken(sql: Db, hash: Buffer): Promise<AccessTokenRow | null> {
  return await firstOf(sql<AccessTokenRow[]>`
    select t.id, c.client_id
    from api_tokens t join oauth_connections c on c.id = t.connection_id where t.token_hash = ${hash}`);
}

/** Revokes one access token; false when it was revoked before. */
export async function revokeAccessToken(sql: Db, id: string, now: Date): Promise<boolean> {
  return await affectsRow(sql`update api_tokens set revoked_at = ${now} where id = ${id} and revoked_at is null`);
}

/** Deletes access tokens of connected apps that expired before `at`. */
export async function deleteAccessTokensBefore(sql: Db, at: Date): Promise<void> {
  await sql`delete from api_tokens where connection_id is not null and expires_at < ${at}`;
}

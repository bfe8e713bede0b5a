import { newId } from "@statusmesh/shared/ids";
import { grantedBy, type Role, scopesOf, type System } from "../../../platform/context.ts";
import { hashToken, newToken } from "../../../platform/crypto/token.ts";
import * as queries from "./resource-token-queries.ts";
import { touchCredential } from "../sessions/session-queries.ts";
import * as tokenQueries from "./token-queries.ts";

/** Live access tokens of one connection: a client that renews while requests are in flight has two. */
const maxLiveTokens = 3;

/** A live token of a resource other than the REST API, with its user, organisation and client. */
interface ResourceCredential {
  readonly tokenId: string;
  readonly userId: string;
  readonly orgId: string;
  readonly role: Role;
  readonly scopes: ReadonlySet<string>;
  /** Name of the connected app, or what the owner of the token called it. */
  readonly name: string;
  /** The OAuth client; null for a token that a person created. */
  readonly clientId: string | null;
  /** The MCP session that was asked for; null without a live one of this user, organisation and client. */
  readonly session: { readonly id: string; readonly canConfirm: boolean; readonly expiresAt: Date } | null;
}

/**
 * The live token that is bound to an organisation and made for `audience` (RFC 8707); an empty `audience` accepts bound
 * tokens of any audience. Null for every other token. Nothing is cached: a revoked token fails at once on every
 * replica.
 */
export async function findResourceToken(
  system: System,
  token: string,
  audience: string,
  sessionId: string | null = null,
): Promise<ResourceCredential | null> {
  if (!token.startsWith("sm_live_")) return null;
  const now = new Date(system.clock.now());
  const row = await queries.selectResourceToken(system.sql, hashToken(token), now, audience, sessionId);
  if (row === null) return null;
  await touchCredential(system.sql, "api_tokens", row, now);
  return {
    tokenId: row.id,
    name: row.name,
    userId: row.user_id,
    orgId: row.org_id,
    role: row.role,
    scopes: scopesOf(row.role, grantedBy(row.scopes)),
    clientId: row.client_id,
    session:
      row.session_id === null
        ? null
        : { id: row.session_id, canConfirm: row.can_confirm!, expiresAt: row.session_expires_at! },
  };
}

/** Those of the tokens that still open the resource, as {@link findResourceToken} decides. */
export async function liveResourceTokens(
  { sql, clock }: Pick<System, "sql" | "clock">,
  ids: readonly string[],
  audience: string,
): Promise<string[]> {
  const rows = await queries.selectLiveTokens(sql, ids, new Date(clock.now()), audience);
  return rows.map(({ id }) => id);
}

/** The grant that an access token stands for; its name is that of the client. */
type Grant = Required<Omit<tokenQueries.NewTokenRow, "id" | "token_hash" | "created_at" | "last_used_at" | "made_by">>;

/**
 * Creates an access token for a grant and returns its secret; ends the oldest beyond three. Part of the caller's
 * transaction, which holds the lock of the connection.
 */
export async function makeAccessToken(tx: System, grant: Grant): Promise<string> {
  const token = newToken("sm_live_");
  const now = new Date(tx.clock.now());
  await tokenQueries.insertToken(tx.sql, {
    ...grant,
    id: newId(),
    token_hash: hashToken(token),
    created_at: now,
  });
  await queries.revokeOldestOf(tx.sql, grant.connection_id, maxLiveTokens, now);
  return token;
}

/** Revokes the live access tokens of a connection. Part of the caller's transaction. */
export async function revokeAccessTokens(tx: System, connectionId: string): Promise<void> {
  await queries.revokeTokensOf(tx.sql, connectionId, new Date(tx.clock.now()));
}

/** An access token of a connection, live or not; null for every other token. */
export async function accessTokenOf(system: System, token: string): Promise<queries.AccessTokenRow | null> {
  return await queries.selectAccessToken(system.sql, hashToken(token));
}

/** Revokes one access token; false when it was revoked before. */
export async function revokeAccessToken(system: System, id: string): Promise<boolean> {
  return await queries.revokeAccessToken(system.sql, id, new Date(system.clock.now()));
}

import { newId } from "@statusmesh/shared/ids";
import { grantedBy, type System } from "../context.ts";
import { hashToken, newToken } from "../crypto/token.ts";
import * as queries from "./resource-token-queries.ts";
import * as tokenQueries from "./token-queries.ts";

/** A use is recorded at most this often. */
const recordIntervalMs = 60_000;

/** A live token of a resource other than the REST API, with its user, organisation and client. */
interface ResourceCredential {
  readonly tokenId: string;
  readonly userId: string;
  readonly orgId: string;
  readonly role: "owner" | "member";
  readonly scopes: ReadonlySet<string>;
  readonly audience: string | null;
  /** The OAuth client; null for a token that was created by hand. */
  readonly clientId: string | null;
  readonly connectionId: string | null;
  readonly expiresAt: Date | null;
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
): Promise<ResourceCredential | null> {
  if (!token.startsWith("sm_live_")) return null;
  const now = new Date(system.clock.now());
  const row = await queries.selectResourceToken(system.sql, hashToken(token), now, audience);
  if (row === null) return null;
  if (row.last_used_at === null || now.getTime() - row.last_used_at.getTime() > recordIntervalMs)
    await tokenQueries.touchToken(system.sql, row.id, now, recordIntervalMs);
  return {
    tokenId: row.id,
    userId: row.user_id,
    orgId: row.org_id,
    role: row.role,
    scopes: grantedBy(row.scopes),
    audience: row.audience,
    clientId: row.client_id,
    connectionId: row.connection_id,
    expiresAt: row.expires_at,
  };
}

/** The grant that an access token stands for. */
interface Grant {
  connectionId: string;
  userId: string;
  orgId: string;
  audience: string;
  scopes: readonly string[];
  /** Name of the client, for lists and the audit log. */
  name: string;
  expiresAt: Date;
}

/** Creates an access token for a grant and returns its secret. Part of the caller's transaction. */
export async function makeAccessToken(tx: System, grant: Grant): Promise<string> {
  const token = newToken("sm_live_");
  await tokenQueries.insertToken(tx.sql, {
    id: newId(),
    userId: grant.userId,
    orgId: grant.orgId,
    name: grant.name,
    hash: hashToken(token),
    scopes: grant.scopes,
    now: new Date(tx.clock.now()),
    expiresAt: grant.expiresAt,
    audience: grant.audience,
    connectionId: grant.connectionId,
  });
  return token;
}

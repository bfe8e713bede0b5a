import { createHash } from "node:crypto";
import { dayMs } from "@statusmesh/shared/time";
import { makeAccessToken } from "../auth/tokens/service.ts";
import { inTransaction, type System } from "../../platform/context.ts";
import type { Counter } from "../../platform/http/limits/counter.ts";
import { refuseOver } from "../../platform/http/limits/throttle.ts";
import { hashToken, newToken, sameSecret } from "../../platform/crypto/token.ts";
import { requireResource } from "./authorization.ts";
import { endConnection } from "./service.ts";
import type { Parameters } from "./parameters.ts";
import { OAuthProblem } from "./problem.ts";
import * as queries from "./queries.ts";
import { hostOf } from "./redirects.ts";
import { narrowedScopes } from "./scopes.ts";

/** A client is known for this time after its last connection: apps keep their client_id. */
const knownMs = 365 * dayMs;
/** Live connections of one user, client and organisation; the next one ends the oldest. */
const maxConnections = 2;
/** Attempts to refresh of one connection. */
const renewalsPerMinute = 30;

/** Reply of the token endpoint (RFC 6749, section 5.1). */
export interface TokenReply {
  access_token: string;
  token_type: "Bearer";
  expires_in: number;
  refresh_token: string;
  scope: string;
}

const badCode = "The code is unknown, expired, used, or belongs to another request.";
const badRefresh = "The refresh token is unknown, expired, used, or belongs to another client.";

/** A replay ends the connection. The transaction must commit, so a replay is an outcome and no error. */
type Outcome = TokenReply | { refused: string };

function replyOf(outcome: Outcome): TokenReply {
  if ("refused" in outcome) throw new OAuthProblem("invalid_grant", outcome.refused);
  return outcome;
}

/**
 * Exchanges a code for the first tokens of a connection. A code works once, within 60 s; a replay ends the connection
 * (OAuth 2.1 draft, section 4.1.3). Throws invalid_grant, invalid_request, invalid_target.
 */
export async function exchangeCode(system: System, client: queries.ClientRow, sent: Parameters): Promise<TokenReply> {
  const hash = hashToken(sent.need("code"));
  const redirectUri = sent.need("redirect_uri");
  const verifier = sent.need("code_verifier");
  const outcome = await inTransaction(system, async (tx): Promise<Outcome> => {
    const code = await queries.selectCode(tx.sql, hash);
    if (code === null || code.client_id !== client.id) return { refused: badCode };
    if (code.redirect_uri !== redirectUri) return { refused: "redirect_uri is not that of the authorization request." };
    if (!verifies(verifier, code.challenge))
      return { refused: "code_verifier does not match the code_challenge of the authorization request." };
    requireResource(tx.config, sent.get("resource"));
    if (code.audience !== tx.config.mcp.resource_uri) return { refused: badCode };
    const now = new Date(tx.clock.now());
    const use = await queries.useCode(tx.sql, hash, now);
    if (use === "replayed") await endConnection(tx, code.connection_id, "POST /oauth/token", "replay");
    if (use !== "used" || !(await queries.lockMembership(tx.sql, code.user_id, code.org_id)))
      return { refused: badCode };
    const connection: queries.ConnectionRow = {
      id: code.connection_id,
      client_id: client.id,
      user_id: code.user_id,
      org_id: code.org_id,
      redirect_host: hostOf(code.redirect_uri),
      scopes: code.scopes,
      audience: code.audience,
      expires_at: new Date(now.getTime() + code.lifetime_days * dayMs),
    };
    await queries.keepClient(tx.sql, client.id, new Date(connection.expires_at.getTime() + knownMs));
    await queries.insertConnection(tx.sql, { ...connection, created_at: now, last_used_at: now });
    // The row of the client is locked, so concurrent exchanges see each other's connections.
    for (const id of await queries.selectSurplus(tx.sql, connection, maxConnections, now))
      await endConnection(tx, id, "POST /oauth/token", "newer consent");
    return await issueTokens(tx, client, connection, connection.scopes);
  });
  return replyOf(outcome);
}

/**
 * Rotates a refresh token. It works once: a replay ends the connection with its access tokens. A narrower `scope`
 * narrows the new access token only. Throws invalid_grant, invalid_request, invalid_scope, invalid_target, and
 * RATE_LIMITED beyond 30 attempts a minute and connection.
 */
export async function refresh(
  system: System,
  client: queries.ClientRow,
  sent: Parameters,
  counter: Counter,
): Promise<TokenReply> {
  const hash = hashToken(sent.need("refresh_token"));
  requireResource(system.config, sent.get("resource"));
  const token = await queries.selectRefreshToken(system.sql, hash);
  if (token === null || token.client_id !== client.id) throw new OAuthProblem("invalid_grant", badRefresh);
  // Before the token is used: a refused client tries the same one again.
  const renewals = await counter.add(`oauth-renewals:connection:${token.connection_id}`);
  refuseOver(renewalsPerMinute, renewals, "per_connection_renewals");
  const outcome = await inTransaction(system, async (tx): Promise<Outcome> => {
    const now = new Date(tx.clock.now());
    const use = await queries.useRefreshToken(tx.sql, hash, now);
    if (use === "replayed") await endConnection(tx, token.connection_id, "POST /oauth/token", "replay");
    if (use !== "used") return { refused: badRefresh };
    // Locked: a connection that ends at the same time either refuses this, or also ends what it issues.
    const connection = await queries.useConnection(tx.sql, token.connection_id, now);
    if (
      connection === null ||
      connection.audience !== tx.config.mcp.resource_uri ||
      !(await queries.lockMembership(tx.sql, connection.user_id, connection.org_id))
    )
      return { refused: "The connection has ended. Connect again." };
    // Throws: a wrong scope does not use the token up.
    const scopes = narrowedScopes(sent.get("scope"), connection.scopes);
    return await issueTokens(tx, client, connection, scopes);
  });
  return replyOf(outcome);
}

async function issueTokens(
  tx: System,
  client: queries.ClientRow,
  connection: queries.ConnectionRow,
  scopes: readonly string[],
): Promise<TokenReply> {
  const now = tx.clock.now();
  const end = connection.expires_at.getTime();
  const expiresAt = Math.min(now + tx.config.mcp.access_token_ttl_secs * 1000, end);
  const access = await makeAccessToken(tx, {
    connection_id: connection.id,
    user_id: connection.user_id,
    org_id: connection.org_id,
    audience: connection.audience,
    scopes,
    name: client.name ?? connection.redirect_host,
    expires_at: new Date(expiresAt),
  });
  const next = newToken("");
  await queries.insertRefreshToken(tx.sql, {
    token_hash: hashToken(next),
    connection_id: connection.id,
    created_at: new Date(now),
    expires_at: connection.expires_at,
  });
  return {
    access_token: access,
    token_type: "Bearer",
    expires_in: Math.floor((expiresAt - now) / 1000),
    refresh_token: next,
    scope: scopes.join(" "),
  };
}

/** True when BASE64URL(SHA256(verifier)) is the challenge (RFC 7636, section 4.6). Constant time. */
const verifies = (verifier: string, challenge: string): boolean =>
  /^[\w.~-]{43,128}$/.test(verifier) &&
  sameSecret(createHash("sha256").update(verifier).digest("base64url"), challenge);

import { AppError } from "@statusmesh/shared/errors";
import { isId, newId } from "@statusmesh/shared/ids";
import { dayMs } from "@statusmesh/shared/time";
import { record } from "../../audit/service.ts";
import { type Ctx, inTransaction, isReadScope, requireScope } from "../../../platform/context.ts";
import { hashToken, newToken } from "../../../platform/crypto/token.ts";
import type { Paging } from "../../../platform/db/client/sql.ts";
import { iso, isoOrNull, isoTimes, type Page, pageOf } from "../../../platform/http/wire.ts";
import * as queries from "../queries.ts";
import * as tokenQueries from "./token-queries.ts";
import type { ApiToken, ApiTokenCreate, NewApiToken } from "../schema.ts";

const maxMcpLifetimeMs = 365 * dayMs;

/**
 * Creates an API token for the caller and returns its secret, once. The token has at most the caller's scopes; created
 * by a token, also at most its organisation and lifetime. A token for MCP reads only, in one organisation, for at most
 * a year. Throws API_TOKENS_LIMIT, INVALID_EXPIRY, FORBIDDEN, MCP_TOKEN_READ_ONLY, EMAIL_NOT_VERIFIED.
 */
export async function createToken(ctx: Ctx, input: ApiTokenCreate): Promise<NewApiToken> {
  requireScope(ctx, "org:write");
  const grantable = ctx.role === "viewer" ? { ...ctx, scopes: new Set([...ctx.scopes].filter(isReadScope)) } : ctx;
  for (const scope of input.scopes) requireScope(grantable, scope);
  const now = new Date(ctx.clock.now());
  const expiresAt = checkedExpiry(input.expires_at ?? null, now);
  const orgId = (input.bound ?? true) ? ctx.orgId : null;
  const forMcp = input.audience === "mcp";
  if (forMcp) await requireMcpToken(ctx, input, expiresAt);
  const token = newToken("sm_live_");
  const row: tokenQueries.ApiTokenRow = {
    id: newId(),
    name: input.name,
    scopes: input.scopes,
    expires_at: expiresAt,
    org_id: orgId,
    audience: forMcp ? ctx.config.mcp.resource_uri || "mcp" : null,
    created_at: now,
    last_used_at: null,
  };
  await inTransaction(ctx, async (tx) => {
    await queries.lockUser(tx.sql, ctx.userId);
    const reach = await reachOf(tx);
    if (reach !== null) requireWithin(reach, row);
    const limit = ctx.config.auth.api_tokens.max_per_user;
    const current = await tokenQueries.countLiveTokens(tx.sql, ctx.userId, now);
    if (current >= limit)
      throw new AppError(
        "API_TOKENS_LIMIT",
        `You have ${current} API tokens, and ${limit} are allowed. Revoke one that is no longer used.`,
        { details: { current, limit } },
      );
    await tokenQueries.insertToken(tx.sql, {
      ...row,
      user_id: ctx.userId,
      token_hash: hashToken(token),
      made_by: ctx.actor.type === "token" ? ctx.actor.id : null,
    });
    await record(tx, { resourceId: row.id, after: auditable(row) });
  });
  return { ...present(row), token };
}

/** The caller's tokens that were not revoked, newest first. A bound token sees those of its organisation only. */
export async function listTokens(ctx: Ctx, paging: Paging): Promise<Page<ApiToken>> {
  requireScope(ctx, "org:read");
  const orgId = (await reachOf(ctx))?.org_id ?? null;
  return pageOf(await tokenQueries.selectTokens(ctx.sql, ctx.userId, orgId, paging), paging, present);
}

/** Revokes a token of the caller with all tokens that it created; they fail from their next request on. */
export async function revokeToken(ctx: Ctx, id: string): Promise<void> {
  requireScope(ctx, "org:write");
  await inTransaction(ctx, async (tx) => {
    // A concurrent creation waits for this lock, and then finds its creator revoked.
    await queries.lockUser(tx.sql, ctx.userId);
    const orgId = (await reachOf(tx))?.org_id ?? null;
    const revoked = isId(id)
      ? await tokenQueries.revokeToken(tx.sql, ctx.userId, orgId, id, new Date(ctx.clock.now()))
      : null;
    if (revoked === null) throw new AppError("API_TOKEN_NOT_FOUND", "API token not found.");
    const { row, offspring } = revoked;
    await record(tx, {
      resourceId: id,
      before: auditable(row),
      ...(offspring === 0 ? {} : { after: { revoked_with_it: offspring } }),
    });
  });
}

/** Limits of the calling token; null for a session. Throws UNAUTHENTICATED when it was revoked meanwhile. */
export async function reachOf(ctx: Ctx): Promise<tokenQueries.TokenReach | null> {
  if (ctx.actor.type !== "token" || ctx.actor.id === null) return null;
  const reach = await tokenQueries.selectTokenReach(ctx.sql, ctx.userId, ctx.actor.id);
  if (reach === null) throw new AppError("UNAUTHENTICATED", "The token was revoked. Create a new one in the settings.");
  return reach;
}

function requireWithin(reach: tokenQueries.TokenReach, made: tokenQueries.ApiTokenRow): void {
  if (reach.org_id !== null && made.org_id !== reach.org_id)
    throw new AppError(
      "FORBIDDEN",
      "A token that is bound to an organisation can only create tokens that are bound to it.",
    );
  if (reach.expires_at !== null && (made.expires_at === null || made.expires_at > reach.expires_at))
    throw new AppError(
      "FORBIDDEN",
      `This token expires at ${iso(reach.expires_at)}: a token that it creates must not live longer.`,
    );
}

function checkedExpiry(text: string | null, now: Date): Date | null {
  if (text === null) return null;
  const at = new Date(text);
  if (at > now) return at;
  throw new AppError("INVALID_EXPIRY", "expires_at must be a time in the future.", { field: "/expires_at" });
}

/** A token for MCP without a person's consent: verified owner, one organisation, read scopes, an end within a year. */
async function requireMcpToken(ctx: Ctx, input: ApiTokenCreate, expiresAt: Date | null): Promise<void> {
  if (input.bound === false)
    throw new AppError("FORBIDDEN", "A token for MCP is bound to one organisation: bound must be true.");
  const at = input.scopes.findIndex((scope) => !scope.endsWith(":read"));
  if (at !== -1)
    throw new AppError(
      "MCP_TOKEN_READ_ONLY",
      `${input.scopes[at]} is no read scope. A token for MCP can only read; connect the app by OAuth to let it write.`,
      { field: `/scopes/${at}` },
    );
  if (expiresAt === null || expiresAt.getTime() > ctx.clock.now() + maxMcpLifetimeMs)
    throw new AppError("INVALID_EXPIRY", "A token for MCP needs an expires_at within 365 days.", {
      field: "/expires_at",
    });
  if (!(await queries.hasVerifiedEmail(ctx.sql, ctx.userId)))
    throw new AppError(
      "EMAIL_NOT_VERIFIED",
      "A token for MCP needs a verified email address. Sign in with a link by email, GitHub or Google to verify it.",
    );
}

const auditable = ({ name, org_id, scopes, audience, expires_at }: tokenQueries.ApiTokenRow) => ({
  name,
  org_id,
  scopes,
  ...(audience === null ? {} : { audience }),
  expires_at: isoOrNull(expires_at),
});

const present = (row: tokenQueries.ApiTokenRow): ApiToken => ({
  ...isoTimes(row),
  audience: row.audience === null ? null : "mcp",
});

import { AppError } from "@statusmesh/shared/errors";
import { isId } from "@statusmesh/shared/ids";
import { dayMs } from "@statusmesh/shared/time";
import { record } from "../audit/service.ts";
import {
  accessTokenOf,
  deleteAccessTokensBefore,
  revokeAccessToken,
  revokeAccessTokens,
} from "../auth/tokens/service.ts";
import { asSystem, type Ctx, inTransaction, requireScope, type System } from "../../platform/context.ts";
import { hashToken } from "../../platform/crypto/token.ts";
import type { Paging } from "../../platform/db/client/sql.ts";
import { isoTimes, type Page, pageOf } from "../../platform/http/wire.ts";
import * as queries from "./queries.ts";
import type { ConnectedApp } from "./schema.ts";

export { offeredScopes } from "./scopes.ts";

/** The caller's live connections in the organisation, newest first. */
export async function listConnectedApps(ctx: Ctx, paging: Paging): Promise<Page<ConnectedApp>> {
  requireScope(ctx, "org:read");
  const now = new Date(ctx.clock.now());
  return pageOf(await queries.selectConnections(ctx.sql, ctx.userId, ctx.orgId, now, paging), paging, isoTimes);
}

/** Disconnects an app of the caller: its tokens fail from their next request on. Throws CONNECTED_APP_NOT_FOUND. */
export async function disconnectApp(ctx: Ctx, id: string): Promise<void> {
  requireScope(ctx, "org:write");
  await inTransaction(ctx, async (tx) => {
    const now = new Date(tx.clock.now());
    const own = isId(id) && (await queries.selectOwnConnection(tx.sql, tx.userId, tx.orgId, id, now));
    const ended = own ? await queries.revokeConnection(tx.sql, id, now) : null;
    if (ended === null) throw new AppError("CONNECTED_APP_NOT_FOUND", "Connected app not found.");
    await revokeAccessTokens(tx, id);
    await record(tx, { resourceId: id, before: auditable(ended) });
  });
}

/** Ends a connection that its user has not ended; true for the call that ended it. */
export async function endConnection(
  tx: System,
  id: string,
  action: string,
  reason: "replay" | "revocation" | "newer consent",
): Promise<boolean> {
  const ended = await queries.revokeConnection(tx.sql, id, new Date(tx.clock.now()));
  // Also the tokens of a refresh that committed before this.
  await revokeAccessTokens(tx, id);
  if (ended === null) return false;
  if (reason === "replay")
    tx.log.warn(
      { org: ended.org_id, connection: id },
      "a code or refresh token was replayed; its connection has ended",
    );
  await record(asSystem(tx, ended.org_id, action, { userId: ended.user_id }), {
    resourceId: id,
    before: { ...auditable(ended), reason },
  });
  return true;
}

/**
 * Revokes a token of a client (RFC 7009): a refresh token ends its connection, an access token only itself. Tokens that
 * are unknown or of another client are left alone; the reply is the same.
 */
export async function revokeToken(system: System, clientId: string, token: string): Promise<void> {
  await inTransaction(system, async (tx) => {
    const grant = await queries.selectRefreshToken(tx.sql, hashToken(token));
    if (grant !== null) {
      if (grant.client_id === clientId)
        await endConnection(tx, grant.connection_id, "POST /oauth/revoke", "revocation");
      return;
    }
    const access = await accessTokenOf(tx, token);
    if (access !== null && access.client_id === clientId) await revokeAccessToken(tx, access.id);
  });
}

/** Ends the connections of a former member for good. Part of the caller's transaction, after the membership is gone. */
export async function endConnectionsOf(tx: System, userId: string, orgId: string): Promise<void> {
  const ids = await queries.revokeConnectionsIn(tx.sql, userId, orgId, new Date(tx.clock.now()));
  for (const id of ids) await revokeAccessTokens(tx, id);
}

/** Deletes expired clients, forms, codes, tokens and connections. For the sweep. */
export async function sweepOAuth(system: System): Promise<void> {
  const now = new Date(system.clock.now());
  const dayAgo = new Date(now.getTime() - dayMs);
  await deleteAccessTokensBefore(system.sql, dayAgo);
  await queries.deleteExpired(system.sql, now, dayAgo);
}

const auditable = ({ name, scopes, redirect_host }: queries.EndedRow) => ({ name, redirect_host, scopes });

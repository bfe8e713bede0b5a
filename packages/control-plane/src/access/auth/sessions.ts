import { AppError } from "@statusmesh/shared/errors";
import { isId, newId } from "@statusmesh/shared/ids";
import { record } from "../audit/service.ts";
import { type ActorCtx, type Ctx, inTransaction, requireScope, type System } from "../../platform/context.ts";
import { hashToken, newToken } from "../../platform/crypto/token.ts";
import type { Paging } from "../../platform/db/sql.ts";
import { isoTimes, type Page, pageOf } from "../../platform/http/wire.ts";
import { ownCommand } from "../../platform/program.ts";
import { type Attempt, type Caller, withAttemptRecorded } from "./attempts.ts";
import { orgsOf, resetFactors as clearFactors, selectRevision } from "./factor-queries.ts";
import * as queries from "./queries.ts";
import * as sessionQueries from "./session-queries.ts";
import * as tokenQueries from "./token-queries.ts";
import type { Session } from "./schema.ts";
import { absoluteMs, signInLinkMs } from "./session-queries.ts";
import { reachOf } from "./tokens.ts";

export interface OpenedSession {
  /** Value of the session cookie. */
  secret: string;
  session: Session;
  /** Absolute expiry. */
  expiresAt: Date;
  userId: string;
  /** Revision of the user's factors, for the device cookie. */
  revision: string;
}

/** Signs in with the code of a link and consumes the link. Throws SIGN_IN_LINK_INVALID. */
export async function signIn(system: System, input: { code: string } & Caller): Promise<OpenedSession> {
  const hash = hashToken(input.code);
  // The log names the user of a consumed or expired link, too.
  const link = await sessionQueries.selectSignInLink(system.sql, hash);
  const attempt: Attempt = {
    method: link?.method ?? "unknown",
    email: link?.email ?? null,
    userId: link?.user_id ?? null,
  };
  return await withAttemptRecorded(system, attempt, input, async () =>
    inTransaction(system, async (tx) => {
      const found = await sessionQueries.consumeSignInLink(tx.sql, hash, new Date(tx.clock.now()));
      if (found === null)
        throw new AppError(
          "SIGN_IN_LINK_INVALID",
          "This sign-in link is unknown, used or older than 15 minutes. " +
            `Request a new one, or run "${ownCommand("bootstrap-owner")}" on the server.`,
          { field: "/code" },
        );
      const resets = link?.method === "reset_link";
      if (resets) await resetFactors(tx, found.user_id);
      const opened = await openSessionOf(tx, { userId: found.user_id, orgId: found.org_id, ...input });
      for (const orgId of resets ? await orgsOf(tx.sql, found.user_id) : [found.org_id])
        await record(asSignedIn(tx, orgId, opened, input, "POST /api/v1/sessions"), {
          resourceId: opened.session.id,
          ...(resets ? { after: { sign_in_reset: true } } : {}),
        });
      return opened;
    }),
  );
}

/** Ends sessions, device cookies and the password of a user whose sign-in the operator has reset. */
async function resetFactors(tx: System, userId: string): Promise<void> {
  await queries.lockUser(tx.sql, userId);
  await clearFactors(tx.sql, userId, newId());
}

/** Opens a session for the user of a verified address; creates the user if needed. Part of the caller's transaction. */
export async function openSession(
  tx: System,
  input: { email: string; orgId: string } & Caller,
): Promise<OpenedSession> {
  const userId = await queries.upsertVerifiedUser(tx.sql, newId(), input.email, new Date(tx.clock.now()));
  return await openSessionOf(tx, { ...input, userId });
}

/**
 * Opens a session in an organisation of the user and ends the browser's previous one. Part of the caller's transaction.
 */
export async function openSessionOf(
  tx: System,
  { userId, orgId, ...caller }: { userId: string; orgId: string } & Caller,
): Promise<OpenedSession> {
  const now = new Date(tx.clock.now());
  const secret = newToken("");
  const ended = caller.previous ? await sessionQueries.deleteSessionBySecret(tx.sql, hashToken(caller.previous)) : null;
  const continued = caller.continues ? ended : null;
  const expiresAt = continued?.expires_at ?? new Date(now.getTime() + absoluteMs);
  const row = {
    id: newId(),
    user_agent: caller.userAgent?.slice(0, 300) ?? null,
    ip: caller.ip,
    created_at: now,
    last_used_at: now,
    expires_at: expiresAt,
  };
  await sessionQueries.insertSession(tx.sql, {
    ...row,
    user_id: userId,
    org_id: orgId,
    secret_hash: hashToken(secret),
    verified_at: continued === null ? now : continued.verified_at,
    second_factor: continued?.second_factor ?? false,
  });
  const revision = await selectRevision(tx.sql, userId);
  return { secret, session: present(row, true), expiresAt, userId, revision };
}

/** The newly signed-in user as an actor of the audit log. */
export function asSignedIn(tx: System, orgId: string, opened: OpenedSession, caller: Caller, action: string): ActorCtx {
  const trail = { action, ip: caller.ip, userAgent: caller.userAgent, recorded: false };
  return {
    ...tx,
    orgId,
    userId: opened.userId,
    actor: { type: "session", id: opened.session.id },
    writeSource: "ui",
    traceId: caller.traceId ?? null,
    trail,
  };
}

/** Live sessions of the caller's user, most recently used first. A bound token sees those of its organisation only. */
export async function listSessions(ctx: Ctx, paging: Paging = { limit: 50, offset: 0 }): Promise<Page<Session>> {
  requireScope(ctx, "org:read");
  const now = new Date(ctx.clock.now());
  const orgId = (await reachOf(ctx))?.org_id ?? null;
  const listed = await sessionQueries.selectSessions(ctx.sql, ctx.userId, orgId, now, paging);
  return pageOf(listed, paging, (row) => present(row, ctx.actor.type === "session" && ctx.actor.id === row.id));
}

const present = (row: sessionQueries.SessionRow, current: boolean): Session => ({ ...isoTimes(row), current });

/** Ends a session of the caller's user; `current` is the caller's. It fails from its next request on every replica. */
export async function endSession(ctx: Ctx, id: string): Promise<void> {
  requireScope(ctx, "org:write");
  const which = id === "current" ? (ctx.actor.type === "session" ? ctx.actor.id : null) : id;
  await inTransaction(ctx, async (tx) => {
    const orgId = (await reachOf(tx))?.org_id ?? null;
    const ended =
      which !== null && isId(which) ? await sessionQueries.deleteSession(tx.sql, ctx.userId, orgId, which) : null;
    if (ended === null) throw new AppError("NOT_FOUND", "Session not found.");
    const { user_agent, ip, created_at, last_used_at } = isoTimes(ended);
    await record(tx, { resourceId: which, before: { user_agent, ip, created_at, last_used_at } });
  });
}

/** Switches the caller's session to another organisation. The caller checks the membership first. */
export async function moveSession(ctx: Ctx, orgId: string): Promise<void> {
  if (ctx.actor.id !== null) await sessionQueries.updateSessionOrg(ctx.sql, ctx.userId, ctx.actor.id, orgId);
}

/** Ends the sessions and tokens of a former member in the organisation, for good: a later rejoin restores none. */
export async function endAccess(system: System, userId: string, orgId: string): Promise<void> {
  await sessionQueries.deleteSessionsIn(system.sql, userId, orgId);
  await tokenQueries.revokeTokensIn(system.sql, userId, orgId, new Date(system.clock.now()));
}

/** A new one-time sign-in link: the path under the public URL. */
export async function makeSignInLink(
  system: System,
  userId: string,
  method: sessionQueries.LinkMethod = "bootstrap_link",
): Promise<string> {
  const code = newToken("");
  const now = new Date(system.clock.now());
  await sessionQueries.insertSignInLink(system.sql, {
    id: newId(),
    user_id: userId,
    method,
    code_hash: hashToken(code),
    created_at: now,
    expires_at: new Date(now.getTime() + signInLinkMs),
  });
  return `/sign-in/${code}`;
}

import { AppError } from "@statusmesh/shared/errors";
import { isId, newId } from "@statusmesh/shared/ids";
import { record } from "../../audit/service.ts";
import { type Ctx, inTransaction, requireOwnAccount, requireScope, type System } from "../../../platform/context.ts";
import { hashToken, newToken } from "../../../platform/crypto/token.ts";
import type { Paging } from "../../../platform/db/client/sql.ts";
import { isoTimes, type Page, pageOf } from "../../../platform/http/wire.ts";
import { ownCommand } from "../../../platform/program.ts";
import { type Attempt, type Caller, withAttemptRecorded } from "../passwords/attempts.ts";
import { orgsOf, resetFactors } from "../second-factor/factor-queries.ts";
import { asSignedIn, type OpenedSession, openSessionOf, present } from "./opened-session.ts";
import { deletePasskeysOf } from "../passkeys/queries.ts";
import * as queries from "../queries.ts";
import * as sessionQueries from "./session-queries.ts";
import * as tokenQueries from "../tokens/token-queries.ts";
import type { Session } from "../schema.ts";
import { admit, complete, type FirstFactor, requireOpened } from "../second-factor/pending.ts";
import { deleteTotp } from "../second-factor/queries.ts";
import { signInLinkMs } from "./session-queries.ts";
import { reachOf } from "../tokens/tokens.ts";

/** Signs in with the code of a link and consumes the link. Throws SIGN_IN_LINK_INVALID, CODE_REQUIRED. */
export async function signIn(system: System, input: { code: string } & Caller): Promise<OpenedSession> {
  const hash = hashToken(input.code);
  // The log names the user of a consumed or expired link, too.
  const link = await sessionQueries.selectSignInLink(system.sql, hash);
  const attempt: Attempt = {
    method: link?.method ?? "unknown",
    email: link?.email ?? null,
    userId: link?.user_id ?? null,
  };
  return await withAttemptRecorded(system, attempt, input, async () => {
    const admitted = await inTransaction(system, async (tx) => {
      const found = await sessionQueries.consumeSignInLink(tx.sql, hash, new Date(tx.clock.now()));
      if (found === null)
        throw new AppError(
          "SIGN_IN_LINK_INVALID",
          "This sign-in link is unknown, used or older than 15 minutes. " +
            `Request a new one, or run "${ownCommand("bootstrap-owner")}" on the server.`,
          { field: "/code" },
        );
      const first = { userId: found.user_id, orgId: found.org_id, method: attempt.method, action: signInAction };
      if (link?.method === "magic_link") return await admit(tx, first, input);
      // A link that the shell has printed asks for no second factor.
      if (link?.method !== "reset_link") return await complete(tx, first, input, false);
      return await resetAndSignIn(tx, first, input);
    });
    return requireOpened(admitted);
  });
}

const signInAction = "POST /api/v1/sessions";

/** Ends sessions, device cookies and all factors of a user whose sign-in the operator has reset, and signs in. */
async function resetAndSignIn(tx: System, { userId, orgId }: FirstFactor, caller: Caller): Promise<OpenedSession> {
  await queries.lockUser(tx.sql, userId);
  await resetFactors(tx.sql, userId, newId());
  await deleteTotp(tx.sql, userId);
  await deletePasskeysOf(tx.sql, userId);
  const opened = await openSessionOf(tx, { userId, orgId, ...caller });
  for (const each of await orgsOf(tx.sql, userId))
    await record(asSignedIn(tx, each, opened, caller, signInAction), {
      resourceId: opened.session.id,
      after: { sign_in_reset: true },
    });
  return opened;
}

/** Live sessions of the caller's user, most recently used first. A bound token sees those of its organisation only. */
export async function listSessions(ctx: Ctx, paging: Paging = { limit: 50, offset: 0 }): Promise<Page<Session>> {
  requireScope(ctx, "org:read");
  const now = new Date(ctx.clock.now());
  const orgId = (await reachOf(ctx))?.org_id ?? null;
  const listed = await sessionQueries.selectSessions(ctx.sql, ctx.userId, orgId, now, paging);
  return pageOf(listed, paging, (row) => present(row, ctx.actor.type === "session" && ctx.actor.id === row.id));
}

/** Ends a session of the caller's user; `current` is the caller's. It fails from its next request on every replica. */
export async function endSession(ctx: Ctx, id: string): Promise<void> {
  requireOwnAccount(ctx);
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

import { newId } from "@statusmesh/shared/ids";
import type { ActorCtx, System } from "../../../platform/context.ts";
import { hashToken, newToken } from "../../../platform/crypto/token.ts";
import { isoTimes } from "../../../platform/http/wire.ts";
import type { Caller } from "../passwords/attempts.ts";
import { selectRevision } from "../second-factor/factor-queries.ts";
import * as sessionQueries from "./session-queries.ts";
import type { Session } from "../schema.ts";
import { absoluteMs } from "./session-queries.ts";

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

/**
 * Opens a session in an organisation of the user and ends the browser's previous one. `secondFactor`: the sign-in has
 * proven two factors. Part of the caller's transaction.
 */
export async function openSessionOf(
  tx: System,
  {
    userId,
    orgId,
    secondFactor = false,
    ...caller
  }: { userId: string; orgId: string; secondFactor?: boolean } & Caller,
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
    second_factor: continued?.second_factor ?? secondFactor,
  });
  const revision = await selectRevision(tx.sql, userId);
  return { secret, session: present(row, true), expiresAt, userId, revision };
}

/** The user of a sign-in as an actor of the audit log; without a session while a code is awaited. */
export function asSignedIn(
  tx: System,
  orgId: string,
  { userId, session }: { userId: string; session?: { id: string } },
  caller: Caller,
  action: string,
): ActorCtx {
  const trail = { action, ip: caller.ip, userAgent: caller.userAgent, recorded: false };
  return {
    ...tx,
    orgId,
    userId,
    actor: { type: "session", id: session?.id ?? null },
    writeSource: "ui",
    traceId: caller.traceId ?? null,
    trail,
  };
}

export const present = (row: sessionQueries.SessionRow, current: boolean): Session => ({ ...isoTimes(row), current });

import { AppError } from "@statusmesh/shared/errors";
import { newId } from "@statusmesh/shared/ids";
import { minuteMs } from "@statusmesh/shared/time";
import { inTransaction, type System } from "../../../platform/context.ts";
import { hashToken, newToken } from "../../../platform/crypto/token.ts";
import { addressKey } from "../../../platform/http/limits/per-ip.ts";
import { record } from "../../audit/service.ts";
import { type Attempt, type Caller, withAttemptRecorded } from "../passwords/attempts.ts";
import type { Device } from "../cookies/device-cookie.ts";
import { selectRevision } from "./factor-queries.ts";
import { linkIdentity } from "../identities/queries.ts";
import { asSignedIn, type OpenedSession, openSessionOf } from "../sessions/opened-session.ts";
import { lockUser } from "../queries.ts";
import { takeCodeTurn, useCode } from "./codes.ts";
import { succeeded } from "../passwords/sign-in-turns.ts";
import * as queries from "./queries.ts";

/** Time between the two steps of a sign-in. */
export const pendingMs = 10 * minuteMs;

/** A sign-in whose first factor was right and whose code is awaited. */
export interface PendingSignIn {
  /** Secret that only the browser keeps. */
  browser: string;
  userId: string;
}

export type Admitted = OpenedSession | PendingSignIn;

/** An identity that a sign-in links to its user. */
export type LinkedIdentity = Pick<Parameters<typeof linkIdentity>[1], "provider" | "issuer" | "subject" | "email">;

/** A first factor that was right. */
export interface FirstFactor {
  userId: string;
  orgId: string;
  method: Attempt["method"];
  /** Action of the audit log. */
  action: string;
  /** What the audit log says of the sign-in. `resourceId`: of something that has happened before the code, too. */
  after?: object;
  resourceId?: string;
  identity?: LinkedIdentity | null;
}

/**
 * Signs a user in whose first factor was right; leaves the sign-in pending where the account has a second factor,
 * whose code completes it. Part of the caller's transaction; {@link requireOpened} follows the commit.
 */
export async function admit(tx: System, first: FirstFactor, caller: Caller): Promise<Admitted> {
  // Against a second factor that is confirmed meanwhile, which ends the other sessions: not one that is not there yet.
  await lockUser(tx.sql, first.userId);
  if (caller.continues === true || !(await queries.hasSecondFactor(tx.sql, first.userId)))
    return await complete(tx, first, caller, false);
  const { userId, orgId, action, resourceId, after } = first;
  if (resourceId === undefined) return await leavePending(tx, first);
  await record(asSignedIn(tx, orgId, { userId }, caller, action), { resourceId, after: after ?? null });
  const { method, identity } = first;
  return await leavePending(tx, { userId, orgId, method, identity: identity ?? null, action: "POST /api/v1/sessions" });
}

/** Leaves a sign-in pending until the code of the second factor. Part of the caller's transaction. */
export async function leavePending(tx: System, first: FirstFactor): Promise<PendingSignIn> {
  const browser = newToken("");
  await queries.insertPendingSignIn(tx.sql, {
    browser_hash: hashToken(browser),
    user_id: first.userId,
    org_id: first.orgId,
    factor_revision: await selectRevision(tx.sql, first.userId),
    method: first.method,
    action: first.action,
    after: first.after ?? null,
    identity: first.identity ?? null,
    expires_at: new Date(tx.clock.now() + pendingMs),
  });
  return { browser, userId: first.userId };
}

/** Opens the session of a sign-in with all its factors. Part of the caller's transaction. */
export async function complete(
  tx: System,
  { userId, orgId, action, after, resourceId, identity }: Omit<FirstFactor, "method">,
  caller: Caller,
  secondFactor: boolean,
): Promise<OpenedSession> {
  const now = new Date(tx.clock.now());
  if (identity)
    await linkIdentity(tx.sql, { ...identity, id: newId(), user_id: userId, created_at: now, last_used_at: now });
  const opened = await openSessionOf(tx, { userId, orgId, secondFactor, ...caller });
  await record(asSignedIn(tx, orgId, opened, caller, action), {
    resourceId: resourceId ?? opened.session.id,
    ...(after === undefined ? {} : { after }),
  });
  return opened;
}

/** CODE_REQUIRED, with the secret that the browser gets as a cookie. */
export class CodeRequired extends AppError {
  readonly browser: string;

  constructor(browser: string) {
    super("CODE_REQUIRED", "Enter the code that your authenticator app shows, or one of your recovery codes.", {
      details: { pointer: "/code" },
    });
    this.browser = browser;
  }
}

/** The session of a sign-in that is complete. Throws {@link CodeRequired} for one that is pending. */
export function requireOpened(admitted: Admitted): OpenedSession {
  if ("browser" in admitted) throw new CodeRequired(admitted.browser);
  return admitted;
}

/** True for the secret of a sign-in that waits for its code. */
export async function isPending({ sql, clock }: System, browser: string | null): Promise<boolean> {
  if (browser === null) return false;
  return (await queries.selectPendingSignIn(sql, hashToken(browser), new Date(clock.now()))) !== null;
}

/**
 * Completes the pending sign-in of a browser with a code. Throws UNAUTHENTICATED when there is none any more,
 * CODE_INVALID, RATE_LIMITED.
 */
export async function finishPending(
  system: System,
  { browser, code, device, ...caller }: { browser: string; code: string; device: Device | null } & Caller,
): Promise<OpenedSession> {
  const hash = hashToken(browser);
  const row = await queries.selectPendingSignIn(system.sql, hash, new Date(system.clock.now()));
  if (row === null) throw over();
  const method = row.method as Attempt["method"];
  const attempt: Attempt = { method, email: row.email, userId: row.user_id };
  return await withAttemptRecorded(system, attempt, caller, async () => {
    const known = device !== null && device.userId === row.user_id && device.revision === row.factor_revision;
    const sender = known ? { device: device.id, visitor: null } : { device: null, visitor: addressKey(caller.ip) };
    const turn = await takeCodeTurn(system, row.user_id, sender);
    return await inTransaction(system, async (tx) => {
      await lockUser(tx.sql, row.user_id);
      // Factors that were changed meanwhile ask for a new sign-in.
      const unchanged = (await selectRevision(tx.sql, row.user_id)) === row.factor_revision;
      if (!unchanged || !(await queries.takePendingSignIn(tx.sql, hash))) throw over();
      await useCode(tx, row.user_id, code);
      await succeeded(tx, turn);
      const { user_id: userId, org_id: orgId, action, after } = row;
      const identity = row.identity as LinkedIdentity | null;
      return await complete(
        tx,
        { userId, orgId, action, identity, ...(after === null ? {} : { after }) },
        caller,
        true,
      );
    });
  });
}

const over = () =>
  new AppError("UNAUTHENTICATED", "This sign-in was not completed within 10 minutes, or was completed. Sign in again.");

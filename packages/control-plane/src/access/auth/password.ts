import { AppError } from "@statusmesh/shared/errors";
import { type Ctx, inTransaction, requireScope, type System } from "../../platform/context.ts";
import { addressKey } from "../../platform/http/per-ip.ts";
import { record } from "../audit/service.ts";
import { type Attempt, type Caller, withAttemptRecorded } from "./attempts.ts";
import type { Device } from "./device-cookie.ts";
import * as factorQueries from "./factor-queries.ts";
import { factorChanged, requireAnotherWay, requireFresh, requireMethod, requireSession } from "./factors.ts";
import { hashPassword, requireStrong, verifyPassword } from "./passwords.ts";
import { lockUser, selectHome } from "./queries.ts";
import { asSignedIn, type OpenedSession, openSessionOf } from "./sessions.ts";
import { crowded, takeTurn, type Turn } from "./sign-in-turns.ts";
import { openWaitingPlaces } from "./waiting-places.ts";

/** The thread pool is one per process. */
const places = openWaitingPlaces();

const wrong = (field: string | null = null) =>
  new AppError(
    "INVALID_CREDENTIALS",
    field === null ? "The email address or the password is wrong." : "This is not your password.",
    {
      details: field === null ? null : { pointer: field },
    },
  );

/** The browser that proves a password. */
export interface Prover {
  ip: string;
  device: Device | null;
}

interface Proven {
  account: factorQueries.AccountRow;
  turn: Turn;
}

/**
 * Proves the password of an address: same words and time for an address without an account. The caller ends the turn.
 * Throws INVALID_CREDENTIALS and RATE_LIMITED.
 */
async function provePassword(
  system: System,
  { email, password, field = null }: { email: string; password: string; field?: string | null },
  { ip, device }: Prover,
): Promise<Proven> {
  const account = await factorQueries.selectAccount(system.sql, email);
  const known = device !== null && device.userId === account?.id && device.revision === account.factor_revision;
  const visitor = addressKey(ip);
  const leave = await places.enter(known ? `device ${device.id}` : visitor, known);
  if (leave === null) throw crowded();
  try {
    const turn = await takeTurn(system, known ? { device: device.id } : { address: email, visitor });
    const { matches, outdated } = await verifyPassword(password, account?.password_hash ?? null);
    if (!matches || account === null) throw wrong(field);
    if (!outdated) return { account, turn };
    const hash = await hashPassword(password);
    await factorQueries.updatePassword(system.sql, account.id, account.password_hash, hash);
    return { account: { ...account, password_hash: hash }, turn };
  } finally {
    leave();
  }
}

/**
 * Signs in with address and password. Throws NOT_FOUND where the method is not enabled, INVALID_CREDENTIALS and
 * RATE_LIMITED.
 */
export async function signInWithPassword(
  system: System,
  { email, password, device, ...caller }: { email: string; password: string; device: Device | null } & Caller,
): Promise<OpenedSession> {
  requireMethod(system.config, "password");
  const typed = email.toLowerCase();
  const attempt: Attempt = { method: "password", email: typed, userId: null };
  return await withAttemptRecorded(system, attempt, caller, async () => {
    const { account, turn } = await provePassword(system, { email: typed, password }, { ip: caller.ip, device });
    attempt.userId = account.id;
    return await inTransaction(system, async (tx) => {
      // A password that was changed meanwhile opens no session.
      await lockUser(tx.sql, account.id);
      const home = await selectHome(tx.sql, account.id);
      if (home === null || (await factorQueries.selectRevision(tx.sql, account.id)) !== account.factor_revision)
        throw wrong();
      await turn.succeeded(tx);
      const opened = await openSessionOf(tx, { userId: account.id, orgId: home.org_id, ...caller });
      await record(asSignedIn(tx, home.org_id, opened, caller, "POST /api/v1/sessions"), {
        resourceId: opened.session.id,
      });
      return opened;
    });
  });
}

/** Makes the caller's session fresh with the password of its user. Throws INVALID_CREDENTIALS and RATE_LIMITED. */
export async function verifySession(ctx: Ctx, input: { password: string }, prover: Prover): Promise<void> {
  const sessionId = requireSession(ctx);
  requireMethod(ctx.config, "password");
  const email = await factorQueries.selectAddress(ctx.sql, ctx.userId);
  const { turn } = await provePassword(ctx, { email, password: input.password, field: "/password" }, prover);
  await turn.succeeded(ctx);
  await factorQueries.updateVerifiedAt(ctx.sql, sessionId, new Date(ctx.clock.now()));
}

/**
 * Sets or replaces the password of the caller's user; returns the new revision of their factors. With a password set,
 * `current` proves it; without one the session must be fresh. Throws WEAK_PASSWORD, INVALID_CREDENTIALS,
 * FRESH_SIGN_IN_REQUIRED, FORBIDDEN for a token.
 */
export async function setPassword(
  ctx: Ctx,
  { current, password }: { current?: string; password: string },
  prover: Prover,
): Promise<string> {
  requireScope(ctx, "org:write");
  requireSession(ctx);
  requireMethod(ctx.config, "password");
  const known = await factorQueries.selectKnownNames(ctx.sql, ctx.userId);
  await requireStrong(password, knownWords(ctx, known));
  const before = await currentPassword(ctx, current, prover);
  const hash = await hashInTurn(password, ctx.userId);
  return await inTransaction(ctx, async (tx) => {
    await lockUser(tx.sql, ctx.userId);
    if (!(await factorQueries.updatePassword(tx.sql, ctx.userId, before, hash))) throw wrong("/current");
    const words = before === null ? "A password was set for your account." : "Your password was changed.";
    return await factorChanged(tx, { before: { password: before !== null }, after: { password: "***" }, words });
  });
}

/** The stored hash that `current` proves; null without a password, which needs a fresh session. */
async function currentPassword(ctx: Ctx, current: string | undefined, prover: Prover): Promise<string | null> {
  if (!(await factorQueries.hasPassword(ctx.sql, ctx.userId))) {
    await requireFresh(ctx);
    return null;
  }
  if (current === undefined)
    throw new AppError("INVALID_BODY", "Send your present password as current.", { field: "/current" });
  const email = await factorQueries.selectAddress(ctx.sql, ctx.userId);
  const { account, turn } = await provePassword(ctx, { email, password: current, field: "/current" }, prover);
  await turn.succeeded(ctx);
  return account.password_hash;
}

/** The hash of a new password, made when the thread pool has a place. */
async function hashInTurn(password: string, userId: string): Promise<string> {
  const leave = await places.enter(`user ${userId}`, true);
  if (leave === null) throw crowded();
  try {
    return await hashPassword(password);
  } finally {
    leave();
  }
}

/**
 * The hash of the first password of an invited person. Throws WEAK_PASSWORD, RATE_LIMITED, and NOT_FOUND where
 * passwords are not enabled. `names`: the invited address, and the name of the organisation.
 */
export async function hashNewPassword(system: System, password: string, names: readonly string[]): Promise<string> {
  requireMethod(system.config, "password");
  await requireStrong(password, knownWords(system, names));
  return await hashInTurn(password, names.join());
}

/** Sets the first password of an account that the transaction has created. */
export async function givePassword(tx: System, userId: string, hash: string): Promise<void> {
  await factorQueries.insertPassword(tx.sql, userId, hash);
}

/** Words that are known of a person: `names` and the service. */
function knownWords({ config }: System, names: readonly string[]): string[] {
  const { hostname } = new URL(config.server.public_url);
  return [...names.flatMap((name) => [name, name.split("@")[0]!]), "StatusMesh", hostname];
}

/**
 * Removes the password of the caller's user. Throws FRESH_SIGN_IN_REQUIRED, LAST_SIGN_IN_METHOD, NOT_FOUND without a
 * password, FORBIDDEN for a token.
 */
export async function removePassword(ctx: Ctx): Promise<string> {
  requireScope(ctx, "org:write");
  requireSession(ctx);
  await requireFresh(ctx);
  return await inTransaction(ctx, async (tx) => {
    // Two concurrent removals would each count the other's way.
    await lockUser(tx.sql, ctx.userId);
    if (!(await factorQueries.hasPassword(tx.sql, ctx.userId)))
      throw new AppError("NOT_FOUND", "Your account has no password.");
    await factorQueries.deletePassword(tx.sql, ctx.userId);
    await requireAnotherWay(tx, ctx.userId);
    return await factorChanged(tx, { before: { password: "***" }, words: "The password of your account was removed." });
  });
}

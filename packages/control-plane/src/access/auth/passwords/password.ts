import { AppError } from "@statusmesh/shared/errors";
import { type Ctx, inTransaction, requireOwnAccount, type System } from "../../../platform/context.ts";
import { addressKey } from "../../../platform/http/limits/per-ip.ts";
import { type Attempt, type Caller, withAttemptRecorded } from "./attempts.ts";
import type { Device } from "../cookies/device-cookie.ts";
import * as factorQueries from "../second-factor/factor-queries.ts";
import {
  factorChanged,
  proofsOf,
  requireAnotherWay,
  requireFresh,
  requireMethod,
  requireSession,
} from "../second-factor/factors.ts";
import { hashPassword, requireStrong, verifyPassword } from "./passwords.ts";
import { lockUser, selectHome } from "../queries.ts";
import type { OpenedSession } from "../sessions/opened-session.ts";
import { takeCodeTurn, useCode } from "../second-factor/codes.ts";
import { complete, leavePending, requireOpened } from "../second-factor/pending.ts";
import { hasSecondFactor } from "../second-factor/queries.ts";
import { updateSecondFactor } from "../sessions/session-queries.ts";
import { crowded, refuseWaiting, succeeded, takeTurn, type Turn, withdrawn } from "./sign-in-turns.ts";
import { openWaitingPlaces } from "./waiting-places.ts";

/** Threads that derive keys belong to the process. */
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
  /** The device of the account that sent it. */
  device: string | null;
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
  const select = async () => await factorQueries.selectAccount(system.sql, email);
  const owner = device === null ? null : await select();
  const known = device !== null && device.userId === owner?.id && device.revision === owner.factor_revision;
  const visitor = addressKey(ip);
  const counted = known ? { device: device.id } : { address: email, visitor };
  refuseWaiting(system, counted);
  return await withPlace(known ? `device ${device.id}` : visitor, known, async () => {
    const turn = await takeTurn(system, counted);
    // Without a device cookie the database is asked for nothing before the try may be judged.
    const account = device === null ? await select() : owner;
    const { matches, outdated } = await verifyPassword(system, password, account?.password_hash ?? null).catch(
      async (error: unknown) => {
        await withdrawn(system, turn);
        throw error;
      },
    );
    if (!matches || account === null) throw wrong(field);
    const sender = known ? device.id : null;
    if (!outdated) return { account, turn, device: sender };
    const hash = await hashPassword(system, password);
    await factorQueries.updatePassword(system.sql, account.id, account.password_hash, hash);
    return { account: { ...account, password_hash: hash }, turn, device: sender };
  });
}

/**
 * The turn of a code that comes with a right password; null where the account has no second factor, or no code came.
 * Tries of a code that is not judged now are no failures of the password either. Throws RATE_LIMITED.
 */
async function codeTurnOf(system: System, { account, turn, device }: Proven, code: string | undefined) {
  if (code === undefined || !(await hasSecondFactor(system.sql, account.id))) return null;
  try {
    return await takeCodeTurn(system, account.id, { device, visitor: null });
  } catch (error) {
    await withdrawn(system, turn);
    throw error;
  }
}

/**
 * Signs in with address and password, and the code of a second factor where the account has one. Throws NOT_FOUND where
 * the method is not enabled, INVALID_CREDENTIALS, CODE_REQUIRED, CODE_INVALID and RATE_LIMITED.
 */
export async function signInWithPassword(
  system: System,
  {
    email,
    password,
    code,
    device,
    ...caller
  }: { email: string; password: string; code?: string | undefined; device: Device | null } & Caller,
): Promise<OpenedSession> {
  requireMethod(system.config, "password");
  const typed = email.toLowerCase();
  const attempt: Attempt = { method: "password", email: typed, userId: null };
  return await withAttemptRecorded(system, attempt, caller, async () => {
    const proven = await provePassword(system, { email: typed, password }, { ip: caller.ip, device });
    const { account, turn } = proven;
    attempt.userId = account.id;
    const codeTurn = await codeTurnOf(system, proven, code);
    const admitted = await inTransaction(system, async (tx) => {
      // A password that was changed meanwhile opens no session.
      await lockUser(tx.sql, account.id);
      const home = await selectHome(tx.sql, account.id);
      if (home === null || (await factorQueries.selectRevision(tx.sql, account.id)) !== account.factor_revision)
        throw wrong();
      const action = "POST /api/v1/sessions";
      const first = { userId: account.id, orgId: home.org_id, method: attempt.method, action };
      if (code === undefined && (await hasSecondFactor(tx.sql, account.id))) {
        // Forgetting the failures here would let a known password try any number of codes.
        await withdrawn(tx, turn);
        return await leavePending(tx, first);
      }
      if (codeTurn !== null) await useCode(tx, account.id, code!);
      await succeeded(tx, turn, ...(codeTurn === null ? [] : [codeTurn]));
      return await complete(tx, first, caller, codeTurn !== null);
    });
    return requireOpened(admitted);
  });
}

/**
 * Makes the caller's session fresh with what its user has: the password, the code of the second factor, or both. A
 * code makes it a session with a second factor. Throws INVALID_BODY for one that is missing, INVALID_CREDENTIALS,
 * also where the user has neither, CODE_REQUIRED, CODE_INVALID, RATE_LIMITED.
 */
export async function verifySession(
  ctx: Ctx,
  { password, code }: { password?: string; code?: string },
  prover: Prover,
): Promise<void> {
  const sessionId = requireSession(ctx);
  const proofs = await proofsOf(ctx);
  if (proofs.length === 0)
    throw new AppError(
      "INVALID_CREDENTIALS",
      "Your account has no password and no second factor. Sign in again instead.",
    );
  if (proofs.includes("password") && password === undefined)
    throw new AppError("INVALID_BODY", "Send your password.", { field: "/password" });
  const byCode = proofs.includes("code");
  const turns: Turn[] = [];
  let device: string | null = null;
  if (proofs.includes("password")) {
    const email = await factorQueries.selectAddress(ctx.sql, ctx.userId);
    const proven = await provePassword(ctx, { email, password: password!, field: "/password" }, prover);
    ({ device } = proven);
    if (byCode && code === undefined) await withdrawn(ctx, proven.turn);
    const codeTurn = await codeTurnOf(ctx, proven, code);
    turns.push(proven.turn, ...(codeTurn === null ? [] : [codeTurn]));
  } else if (code !== undefined)
    turns.push(await takeCodeTurn(ctx, ctx.userId, { device, visitor: addressKey(prover.ip) }));
  if (byCode && code === undefined)
    throw new AppError("CODE_REQUIRED", "Enter the code that your authenticator app shows, or a recovery code.", {
      details: { pointer: "/code" },
    });
  await inTransaction(ctx, async (tx) => {
    if (byCode) {
      await useCode(tx, ctx.userId, code!);
      await updateSecondFactor(tx.sql, sessionId, true);
    }
    await succeeded(tx, ...turns);
    await factorQueries.updateVerifiedAt(tx.sql, sessionId, new Date(tx.clock.now()));
  });
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
  requireOwnAccount(ctx);
  requireSession(ctx);
  requireMethod(ctx.config, "password");
  const known = await factorQueries.selectKnownNames(ctx.sql, ctx.userId);
  await requireStrong(password, knownWords(ctx, known));
  const before = await currentPassword(ctx, current, prover);
  const hash = await hashInTurn(ctx, password, ctx.userId);
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
  await succeeded(ctx, turn);
  return account.password_hash;
}

/** The hash of a new password, derived when a slot is free. */
const hashInTurn = async (system: System, password: string, userId: string): Promise<string> =>
  await withPlace(`user ${userId}`, true, () => hashPassword(system, password));

/**
 * Runs `work`, which derives keys, when a slot is free: at most two at a time, and one waits per visitor.
 * `known` ones go first. Throws RATE_LIMITED, before `work`, when the queue is full.
 */
export async function withPlace<T>(visitor: string, known: boolean, work: () => Promise<T>): Promise<T> {
  const leave = await places.enter(visitor, known);
  if (leave === null) throw crowded();
  try {
    return await work();
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
  return await hashInTurn(system, password, names.join());
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
  requireOwnAccount(ctx);
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

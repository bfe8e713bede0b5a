import encodeQR from "qr";
import { AppError } from "@statusmesh/shared/errors";
import { minuteMs } from "@statusmesh/shared/time";
import { type Ctx, inTransaction, type System } from "../../../platform/context.ts";
import { resealer } from "../../../platform/crypto/reseal.ts";
import { newToken } from "../../../platform/crypto/token.ts";
import { replaceSigningKey } from "../../../platform/db/signing-keys.ts";
import { selectAddress } from "./factor-queries.ts";
import { factorChanged, requireFresh } from "./factors.ts";
import { lockUser } from "../queries.ts";
import { deleteSignInLinks, updateSecondFactor } from "../sessions/session-queries.ts";
import { codeInvalid, drift, makeRecoveryCodes, placeOf } from "./codes.ts";
import * as queries from "./queries.ts";
import { newSecret, otpauthUrl, stepAt, stepOf } from "./totp.ts";
export { anyoneCanSignIn, hasProvenSecondFactor, needsPassword, requireFreshSession, signInState } from "./factors.ts";
export { CodeRequired, admit, isPending, requireOpened, type Admitted, type LinkedIdentity } from "./pending.ts";

/** A secret waits this long for its first code. */
const pendingMs = 30 * minuteMs;
/** Steps in which the first code of a clock that is off is recognised: 5 minutes. */
const far = 10;

export interface NewTotp {
  secret: string;
  otpauth_url: string;
  /** SVG of the address. */
  qr: string;
}

/** A new set, with the new revision of the user's factors. */
export interface NewCodes {
  recovery_codes: string[];
  revision: string;
}

/**
 * A new secret for the caller's app. It signs nobody in until {@link confirmTotp}; a factor in force stays until then.
 * Throws FRESH_SIGN_IN_REQUIRED, FORBIDDEN for a token.
 */
export async function beginTotp(ctx: Ctx): Promise<NewTotp> {
  await requireFresh(ctx);
  const secret = newSecret();
  const sealed = ctx.sealer.seal(secret, placeOf(ctx.userId));
  await queries.insertPending(ctx.sql, ctx.userId, sealed, new Date(ctx.clock.now()));
  const account = await selectAddress(ctx.sql, ctx.userId);
  const { hostname } = new URL(ctx.config.server.public_url);
  const otpauth_url = otpauthUrl(secret, { issuer: `StatusMesh ${hostname}`, account });
  // Digits and our own markup only.
  return { secret, otpauth_url, qr: encodeQR(otpauth_url, "svg", { ecc: "medium", border: 2 }) };
}

/**
 * Puts the new secret in force with its first code; returns the recovery codes, once. Ends the caller's other sessions.
 * Throws CODE_INVALID, with the offset of a clock that is off, NOT_FOUND, FRESH_SIGN_IN_REQUIRED, and FORBIDDEN for a
 * token.
 */
export async function confirmTotp(ctx: Ctx, { code }: { code: string }): Promise<NewCodes> {
  await requireFresh(ctx);
  return await inTransaction(ctx, async (tx) => {
    const now = tx.clock.now();
    await lockUser(tx.sql, ctx.userId);
    const pending = await queries.selectPending(tx.sql, ctx.userId, new Date(now - pendingMs));
    if (pending === null)
      throw new AppError("NOT_FOUND", "No new secret waits for a code, or it is older than 30 minutes. Start again.");
    const secret = tx.sealer.open(pending, placeOf(ctx.userId));
    const step = firstStep(secret, code.replaceAll(/\s/g, ""), stepAt(now));
    const replaces = await queries.hasSecondFactor(tx.sql, ctx.userId);
    await queries.confirmPending(tx.sql, ctx.userId, { pending, step, now: new Date(now) });
    const recovery_codes = await makeRecoveryCodes(tx, ctx.userId);
    await updateSecondFactor(tx.sql, ctx.actor.id!, true);
    const revision = await factorChanged(tx, {
      after: { second_factor: true },
      words: replaces ? "Your second factor was replaced." : "A second factor was set up for your account.",
    });
    return { recovery_codes, revision };
  });
}

function firstStep(secret: string, code: string, now: number): number {
  const step = stepOf(secret, code, now, drift);
  if (step !== null) return step;
  const other = stepOf(secret, code, now, far);
  if (other === null) throw codeInvalid("This is not the code that the app shows for the new secret.");
  const secs = Math.abs(other - now) * 30;
  throw codeInvalid(
    `The clock of your phone is about ${secs} s ${other > now ? "ahead of" : "behind"} the clock of this server. ` +
      "Set the one that is wrong, then enter a new code.",
  );
}

/**
 * Removes the second factor of the caller's user with its recovery codes; returns the new revision of their factors.
 * Throws NOT_FOUND, FRESH_SIGN_IN_REQUIRED, FORBIDDEN for a token.
 */
export async function removeTotp(ctx: Ctx): Promise<string> {
  await requireFresh(ctx);
  return await inTransaction(ctx, async (tx) => {
    await lockUser(tx.sql, ctx.userId);
    if (!(await queries.deleteTotp(tx.sql, ctx.userId))) throw noFactor();
    return await factorChanged(tx, {
      before: { second_factor: true },
      words: "The second factor of your account was removed.",
    });
  });
}

/** Replaces the caller's recovery codes. Throws NOT_FOUND, FRESH_SIGN_IN_REQUIRED, FORBIDDEN for a token. */
export async function renewRecoveryCodes(ctx: Ctx): Promise<NewCodes> {
  await requireFresh(ctx);
  return await inTransaction(ctx, async (tx) => {
    await lockUser(tx.sql, ctx.userId);
    if (!(await queries.hasSecondFactor(tx.sql, ctx.userId))) throw noFactor();
    const recovery_codes = await makeRecoveryCodes(tx, ctx.userId);
    const words = "New recovery codes were made for your account. The ones before do not work any more.";
    const revision = await factorChanged(tx, { after: { recovery_codes: "***" }, words });
    return { recovery_codes, revision };
  });
}

const noFactor = () => new AppError("NOT_FOUND", "Your account has no second factor.");

/** Seals the secrets of second factors again. For rotate-kek. */
export const resealTotp = resealer<queries.TotpRow, Omit<queries.TotpRow, "id">>({
  rows: queries.selectSealed,
  map: ({ id, secret, pending_secret }, change) => ({
    secret: secret === null ? null : change(secret, placeOf(id)),
    pending_secret: pending_secret === null ? null : change(pending_secret, placeOf(id)),
  }),
  store: queries.storeSealed,
});

/**
 * Voids what proves a sign-in once within minutes: codes of apps up to now, links, sign-ins that wait for a code,
 * challenges of passkeys. A restored backup does not know which of them were used after it was made.
 */
export async function voidProofs(system: System): Promise<void> {
  await inTransaction(system, async ({ sql, clock }) => {
    await queries.useStepsUntil(sql, stepAt(clock.now()) + drift);
    await queries.deletePendingSignIns(sql);
    await deleteSignInLinks(sql);
    await replaceSigningKey(sql, "passkey", newToken(""));
  });
}

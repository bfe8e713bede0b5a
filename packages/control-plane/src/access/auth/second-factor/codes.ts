import { createHmac, randomInt } from "node:crypto";
import { AppError } from "@statusmesh/shared/errors";
import { minuteMs } from "@statusmesh/shared/time";
import { afterCommit, type System } from "../../../platform/context.ts";
import { UnreadableSecret } from "../../../platform/crypto/seal.ts";
import { signingKey } from "../../../platform/db/signing-keys.ts";
import { mailOf } from "../../../platform/email/layout.ts";
import { sendMail } from "../../../platform/email/mail.ts";
import { selectAddress } from "./factor-queries.ts";
import { takeTurn, type Turn } from "../passwords/sign-in-turns.ts";
import * as queries from "./queries.ts";
import { stepAt, stepOf } from "./totp.ts";

/** Steps before and after the present one whose codes count (RFC 6238, section 5.2). */
export const drift = 1;
/** A last step that is later than this comes from a clock that was wrong then. */
const implausible = (10 * minuteMs) / 30_000;

/** Recovery codes: 12 characters of 32, 60 bits; without I, L, O and U. */
const letters = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const codeCount = 10;

export const codeInvalid = (
  message = "The code is wrong, or it was used already. Enter the one that the app shows now, or a recovery code.",
) => new AppError("CODE_INVALID", message, { details: { pointer: "/code" } });

/** Authenticated data of the sealed secret. */
export const placeOf = (userId: string): string => `users/${userId}/totp`;

/** The browser that sends a code. `device`: one that has signed in to this account, which has a counter of its own. */
export interface CodeSender {
  device: string | null;
  /** Null where the password of the same request has counted it. */
  visitor: string | null;
}

/** Decides whether a code of this user is judged now: 10 wrong ones within an hour, then each waits for its turn. */
export async function takeCodeTurn(system: System, userId: string, { device, visitor }: CodeSender): Promise<Turn> {
  if (device !== null) return await takeTurn(system, { code: `device ${device}` });
  return await takeTurn(system, { code: userId, ...(visitor === null ? {} : { visitor }) });
}

/**
 * Uses a code of the user's app, or a recovery code, of which the person is told. Part of the transaction of what it
 * proves, so that both happen or none. Throws CODE_INVALID.
 */
export async function useCode(tx: System, userId: string, typed: string): Promise<void> {
  const code = typed.replaceAll(/[\s-]/g, "").toUpperCase();
  if (!(await (/^\d{6}$/.test(code) ? useTotp(tx, userId, code) : useRecovery(tx, userId, code)))) throw codeInvalid();
}

async function useTotp(tx: System, userId: string, code: string): Promise<boolean> {
  const row = await queries.selectTotp(tx.sql, userId);
  if (row === null || row.secret === null) return false;
  const now = stepAt(tx.clock.now());
  const step = stepOf(opened(tx, row.secret, userId), code, now, drift);
  return step !== null && (await queries.useStep(tx.sql, userId, step, now + implausible));
}

function opened({ sealer, log }: System, sealed: string, userId: string): string {
  try {
    return sealer.open(sealed, placeOf(userId));
  } catch (error) {
    if (!(error instanceof UnreadableSecret)) throw error;
    log.error({ err: error.message }, "the secret of a second factor cannot be opened");
    throw codeInvalid(
      "The secret of your second factor cannot be read on this server. Use a recovery code, and tell its operator.",
    );
  }
}

async function useRecovery(tx: System, userId: string, code: string): Promise<boolean> {
  if (!(await queries.useRecoveryCode(tx.sql, userId, await hashOf(tx, userId, code)))) return false;
  const left = await queries.countRecoveryCodes(tx.sql, userId);
  if (tx.config.email.smtp_url === "") return true;
  const to = await selectAddress(tx.sql, userId);
  await afterCommit(tx, async (system) => {
    // Not awaited: a slow mail server must not hold the sign-in.
    void sendMail(system, {
      to,
      ...mailOf({
        tone: "plain",
        title: "A recovery code signed in to your account",
        paragraphs: [`It does not work again; ${left} of your recovery codes are left.`],
        link: { label: "Open your account", url: `${system.config.server.public_url}/settings/account` },
        footer: "If it was not you, change your password and make new recovery codes.",
      }),
    });
  });
  return true;
}

/** The stored form of a recovery code: a hash under a key of the installation. */
async function hashOf({ sql }: System, userId: string, code: string): Promise<Buffer> {
  return createHmac("sha256", await signingKey(sql, "recovery"))
    .update(`${userId}:${code}`)
    .digest();
}

/** Replaces the recovery codes of the user; only the caller sees the new ones. */
export async function makeRecoveryCodes(tx: System, userId: string): Promise<string[]> {
  const codes = Array.from({ length: codeCount }, () =>
    Array.from({ length: 12 }, () => letters[randomInt(letters.length)]).join(""),
  );
  await queries.replaceRecoveryCodes(tx.sql, userId, await Promise.all(codes.map((code) => hashOf(tx, userId, code))));
  return codes.map((code) => code.replaceAll(/.{4}(?=.)/g, "$&-"));
}

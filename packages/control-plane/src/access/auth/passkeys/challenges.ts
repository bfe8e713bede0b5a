import { createHmac, randomBytes } from "node:crypto";
import { isIP } from "node:net";
import type { Context } from "koa";
import { isLoopback } from "@statusmesh/shared/net/address";
import { minuteMs } from "@statusmesh/shared/time";
import type { Config } from "../../../config/config.ts";
import type { System } from "../../../platform/context.ts";
import { hashToken, newToken, sameSecret } from "../../../platform/crypto/token.ts";
import { signingKey } from "../../../platform/db/signing-keys.ts";
import { challengeCookie, challengeSecret } from "../cookies/cookies.ts";
import { insertUsedChallenge } from "./queries.ts";
import { PasskeyProblem, type RelyingParty } from "./webauthn.ts";

/**
 * Where passkeys work: the host of `server.public_url`, or localhost in place of a loopback address. Null where
 * browsers refuse passkeys: the host is an address, or the page is no secure context.
 */
export function relyingParty({ server }: Config): RelyingParty | null {
  const url = new URL(server.public_url);
  const host = url.hostname.replace(/^\[|\]$/g, "");
  if (isIP(host) !== 0 && isLoopback(host)) url.hostname = "localhost";
  else if (isIP(host) !== 0) return null;
  const secure = url.protocol === "https:" || url.hostname === "localhost" || url.hostname.endsWith(".localhost");
  return secure ? { rpId: url.hostname, origin: url.origin } : null;
}

/** Origin of the pages at which passkeys work; null where they are not enabled, or work nowhere. */
export const passkeyOrigin = (config: Config): string | null =>
  config.auth.required && config.auth.enabled_methods.includes("passkey")
    ? (relyingParty(config)?.origin ?? null)
    : null;

/** The address of a printed sign-in link: localhost in place of a loopback address, where passkeys can be added. */
export function signInUrl(config: Config, path: string): string {
  const { public_url: url } = config.server;
  const origin = passkeyOrigin(config);
  return (origin === null ? url : url.replace(new URL(url).origin, origin)) + path;
}

/** Milliseconds for which a challenge counts. */
export const challengeMs = 5 * minuteMs;

/** What a challenge is for: a sign-in, or a new passkey of a user. */
type Purpose = "sign-in" | `register ${string}`;

const nonceBytes = 16;
const expiryBytes = 6;

/**
 * A challenge for the browser with this secret. It carries its expiry and a signature of all replicas, so that visitors
 * who ask for one write nothing.
 */
export async function makeChallenge(
  system: Pick<System, "sql" | "clock">,
  browser: string,
  purpose: Purpose,
): Promise<string> {
  const expiry = Buffer.alloc(expiryBytes);
  expiry.writeUIntBE(system.clock.now() + challengeMs, 0, expiryBytes);
  const body = Buffer.concat([randomBytes(nonceBytes), expiry]);
  return Buffer.concat([body, await signatureOf(system, body, browser, purpose)]).toString("base64url");
}

/** Throws {@link PasskeyProblem} unless the challenge is live and was made for this browser and purpose. */
export async function requireChallenge(
  system: System,
  challenge: string,
  browser: string | null,
  purpose: Purpose,
): Promise<void> {
  const bytes = Buffer.from(challenge, "base64url");
  const body = bytes.subarray(0, nonceBytes + expiryBytes);
  const right = browser === null ? Buffer.alloc(0) : await signatureOf(system, body, browser, purpose);
  const signed = bytes.subarray(body.length);
  if (browser === null || !sameSecret(signed.toString("base64url"), right.toString("base64url")))
    throw new PasskeyProblem("The challenge was not made for this browser. Reload the page and try again.");
  if (expiryOf(bytes) <= system.clock.now())
    throw new PasskeyProblem("The challenge is older than 5 minutes. Try again.");
}

/** Uses up an accepted challenge, in the caller's transaction. Throws {@link PasskeyProblem} for a used one. */
export async function takeChallenge(tx: System, challenge: string): Promise<void> {
  const expiresAt = new Date(expiryOf(Buffer.from(challenge, "base64url")));
  if (!(await insertUsedChallenge(tx.sql, hashToken(challenge), expiresAt)))
    throw new PasskeyProblem("This response was used already. Try again.");
}

const expiryOf = (bytes: Buffer): number => bytes.readUIntBE(nonceBytes, expiryBytes);

async function signatureOf(
  { sql }: Pick<System, "sql">,
  body: Buffer,
  browser: string,
  purpose: Purpose,
): Promise<Buffer> {
  return createHmac("sha256", await signingKey(sql, "passkey"))
    .update(`${purpose}\n${browser}\n`)
    .update(body)
    .digest();
}

/** The secret of a browser that asks for a challenge, kept by a cookie, which is set again. */
export function browserSecret(system: System, http: Context): string {
  const secret = challengeSecret(system.config, http) ?? newToken("");
  http.append("Set-Cookie", challengeCookie(system.config, secret, challengeMs / 1000));
  return secret;
}

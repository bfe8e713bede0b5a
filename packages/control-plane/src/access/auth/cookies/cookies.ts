import { dayMs } from "@statusmesh/shared/time";
import type { Config } from "../../../config/config.ts";
import type { Context } from "koa";

const defaultName = "_sm_session";

/** True when browsers reach the service over TLS. */
const isSecure = ({ server }: Config): boolean => server.public_url.startsWith("https:");

/**
 * Name of the session cookie. Over TLS the default name has the prefix `__Host-`: browsers refuse such a cookie from
 * another host of the same domain (RFC 6265bis, section 4.1.3.2).
 */
export function sessionCookieName(config: Config): string {
  const { cookie_name: name } = config.auth.session;
  return name === defaultName && isSecure(config) ? `__Host-${name}` : name;
}

/** The Set-Cookie header of a session: HttpOnly, SameSite=Lax, until its expiry, Secure where the site has TLS. */
export function sessionCookie(config: Config, { secret, expiresAt }: { secret: string; expiresAt: Date }): string {
  return `${sessionCookieName(config)}=${secret}; ${attributesOf(config)}; Expires=${expiresAt.toUTCString()}`;
}

/** The Set-Cookie header of a further cookie with the attributes of the session. */
export const ownCookie = (config: Config, name: string, value: string, expires: Date): string =>
  `${name}=${value}; ${attributesOf(config)}; Expires=${expires.toUTCString()}`;

/** The Set-Cookie header that removes the session. A `__Host-` name needs the same attributes. */
export function endedSessionCookie(config: Config): string {
  return `${sessionCookieName(config)}=; ${attributesOf(config)}; Max-Age=0`;
}

const attributesOf = (config: Config): string => `Path=/; HttpOnly; SameSite=Lax${isSecure(config) ? "; Secure" : ""}`;

/** The Set-Cookie header of a cookie that only the pages of a sign-in get. SameSite=Lax: also from a provider. */
export const signInCookie = (config: Config, name: string, value: string, secs: number): string =>
  `${name}=${value}; Path=/sign-in; HttpOnly; SameSite=Lax; Max-Age=${secs}${isSecure(config) ? "; Secure" : ""}`;

const challengeName = ({ auth }: Config): string => `${auth.session.cookie_name}_passkey`;

/** The Set-Cookie header of a browser that asks for a challenge: only pages of this service send it. */
export const challengeCookie = (config: Config, secret: string, secs: number): string =>
  `${challengeName(config)}=${secret}; Path=/api/v1; HttpOnly; SameSite=Strict; Max-Age=${secs}` +
  (isSecure(config) ? "; Secure" : "");

/** The secret in {@link challengeCookie}; null without a valid one. */
export function challengeSecret(config: Config, http: Context): string | null {
  const value = http.cookies.get(challengeName(config)) ?? "";
  return /^[\w-]{43}$/.test(value) ? value : null;
}

const laterDays = 30;
const laterName = ({ auth }: Config): string => `${auth.session.cookie_name}_later`;

/** The Set-Cookie header of a person who sets no password for now: the console asks again after 30 days. */
export const laterCookie = ({ config, clock }: { config: Config; clock: { now(): number } }): string =>
  ownCookie(config, laterName(config), "1", new Date(clock.now() + laterDays * dayMs));

/** True for a browser with {@link laterCookie}. */
export const askedLater = (config: Config, http: Context): boolean => http.cookies.get(laterName(config)) === "1";

const lifetimeSecs = 900;
/** Browsers drop a cookie over 4,096 bytes (RFC 6265, section 6.1). */
const maxLength = 3500;

const nameOf = ({ auth }: Config): string => `${auth.session.cookie_name}_return`;

/**
 * The Set-Cookie header that remembers where a sign-in by mail returns to: its link opens without `next`. Null for a
 * path that no cookie can hold. The reader checks the path.
 */
export function returnCookie(config: Config, path: string): string | null {
  const value = encodeURIComponent(path);
  return value.length > maxLength ? null : signInCookie(config, nameOf(config), value, lifetimeSecs);
}

/** The remembered path of this browser, unchecked. */
export function returnPath(config: Config, http: Context): string | undefined {
  try {
    return decodeURIComponent(http.cookies.get(nameOf(config)) ?? "") || undefined;
  } catch {
    return undefined;
  }
}

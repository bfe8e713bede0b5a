import type { Config } from "../config.ts";

const defaultName = "_sm_session";

/** True where browsers reach the service over TLS. */
const isSecure = ({ server }: Config): boolean => server.public_url.startsWith("https:");

/**
 * Name of the session cookie. Over TLS the default name has the prefix `__Host-`, with which browsers refuse a cookie that
 * another host below the same domain set (RFC 6265bis, section 4.1.3.2).
 */
export function sessionCookieName(config: Config): string {
  const { cookie_name: name } = config.auth.session;
  return name === defaultName && isSecure(config) ? `__Host-${name}` : name;
}

/** The Set-Cookie header of a session: for HTTP only, for this site, until its end, and over TLS only where the site has it. */
export function sessionCookie(config: Config, { secret, expiresAt }: { secret: string; expiresAt: Date }): string {
  return `${sessionCookieName(config)}=${secret}; ${attributesOf(config)}; Expires=${expiresAt.toUTCString()}`;
}

/** The Set-Cookie header that removes the session. Browsers ignore it for a `__Host-` name without the same attributes. */
export function endedSessionCookie(config: Config): string {
  return `${sessionCookieName(config)}=; ${attributesOf(config)}; Max-Age=0`;
}

const attributesOf = (config: Config): string => `Path=/; HttpOnly; SameSite=Lax${isSecure(config) ? "; Secure" : ""}`;

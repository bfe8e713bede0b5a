import type { Config } from "../../config/config.ts";

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

/** The Set-Cookie header that removes the session. A `__Host-` name needs the same attributes. */
export function endedSessionCookie(config: Config): string {
  return `${sessionCookieName(config)}=; ${attributesOf(config)}; Max-Age=0`;
}

const attributesOf = (config: Config): string => `Path=/; HttpOnly; SameSite=Lax${isSecure(config) ? "; Secure" : ""}`;

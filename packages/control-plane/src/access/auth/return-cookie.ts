import type { Context } from "koa";
import type { Config } from "../../config/config.ts";

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
  if (value.length > maxLength) return null;
  const secure = config.server.public_url.startsWith("https:") ? "; Secure" : "";
  return `${nameOf(config)}=${value}; Path=/sign-in; HttpOnly; SameSite=Lax; Max-Age=${lifetimeSecs}${secure}`;
}

/** The remembered path of this browser, unchecked. */
export function returnPath(config: Config, http: Context): string | undefined {
  try {
    return decodeURIComponent(http.cookies.get(nameOf(config)) ?? "") || undefined;
  } catch {
    return undefined;
  }
}

import type { Config } from "../config.ts";

/** The Set-Cookie header of a session: for HTTP only, for this site, until its end, and over TLS only where the site has it. */
export function sessionCookie(
  { server, auth }: Config,
  { secret, expiresAt }: { secret: string; expiresAt: Date },
): string {
  const secure = server.public_url.startsWith("https:");
  return `${auth.session.cookie_name}=${secret}; Path=/; HttpOnly; SameSite=Lax; Expires=${expiresAt.toUTCString()}${secure ? "; Secure" : ""}`;
}

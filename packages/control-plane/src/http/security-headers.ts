import type { Context } from "koa";

/** What a page may load: our own files and nothing else. `styles` are further sources of styles. */
function contentSecurityPolicy(extra: { styles?: readonly string[] } = {}): string {
  return [
    "default-src 'self'",
    "img-src 'self' data:",
    ["style-src 'self'", ...(extra.styles ?? [])].join(" "),
    "object-src 'none'",
    "base-uri 'none'",
    "form-action 'self'",
    "frame-ancestors 'none'",
  ].join("; ");
}

/** For a page whose address is a secret, like that of a sign-in link: nothing outside may learn it, and nothing may keep it. */
export const secretAddress = { "Referrer-Policy": "no-referrer", "X-Robots-Tag": "noindex" };

/** The headers of every reply: a year of https alone where the service is reached by https (RFC 6797), and no guess at types. */
export function baseHeaders(publicUrl: string): Readonly<Record<string, string>> {
  return {
    "X-Content-Type-Options": "nosniff",
    ...(publicUrl.startsWith("https:") ? { "Strict-Transport-Security": "max-age=31536000" } : {}),
  };
}

const caller = "Cookie, Authorization, X-Sm-Org";

/** Says that a reply is for this caller alone: a cache that keeps it must not give it to another. */
export function varyByCaller(http: Context): void {
  // Most replies vary by nothing else, and reading what is there costs more than the rest.
  if (http.res.hasHeader("Vary")) http.vary(caller.split(", "));
  else http.res.setHeader("Vary", caller);
}

/** The headers of every HTML answer. A page that needs another policy sets its own afterwards. */
export function securePage(http: Context, extra: Parameters<typeof contentSecurityPolicy>[0] = {}): void {
  http.set("Content-Security-Policy", contentSecurityPolicy(extra));
  http.set("X-Frame-Options", "DENY");
  // Same origin only: the address of a sign-in or share page is a secret that no linked site may learn.
  http.set("Referrer-Policy", "same-origin");
  http.set("Cross-Origin-Opener-Policy", "same-origin");
}

import type { Context } from "koa";

/** What a page may load: our own files and nothing else. `styles` allows inline style elements by their hash or nonce. */
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

/** The headers of every HTML answer. A page that needs another policy sets its own afterwards. */
export function securePage(http: Context): void {
  http.set("Content-Security-Policy", contentSecurityPolicy());
  http.set("X-Content-Type-Options", "nosniff");
  http.set("X-Frame-Options", "DENY");
  // Same origin only: the address of a sign-in or share page is a secret that no linked site may learn.
  http.set("Referrer-Policy", "same-origin");
  http.set("Cross-Origin-Opener-Policy", "same-origin");
}

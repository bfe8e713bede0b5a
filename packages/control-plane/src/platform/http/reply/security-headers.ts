import type { Context, Middleware } from "koa";
import type { Config } from "../../../config/config.ts";

/** A page loads its own origin only. `styles` are additional sources. */
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

/** For a page with a secret in its URL, like a sign-in link: no referrer, no index. */
export const secretAddress = { "Referrer-Policy": "no-referrer", "X-Robots-Tag": "noindex" };

/**
 * For pages that apps open in a popup. The default `same-origin` severs the popup from its opener for good (HTML
 * standard, cross-origin opener policies), so no page on the way may have it.
 */
export const mayBePopup = { "Cross-Origin-Opener-Policy": "unsafe-none" };

/** Headers of every reply: HSTS for a year when the service uses https (RFC 6797), and no type sniffing. */
export function baseHeaders(publicUrl: string): Readonly<Record<string, string>> {
  return {
    "X-Content-Type-Options": "nosniff",
    ...(publicUrl.startsWith("https:") ? { "Strict-Transport-Security": "max-age=31536000" } : {}),
  };
}

const caller = "Cookie, Authorization, X-Sm-Org";

/** Sets Vary: a cache must not serve the reply to another caller. */
export function varyByCaller(http: Context): void {
  // Most replies vary by nothing else, and http.vary() costs more than this check.
  if (http.res.hasHeader("Vary")) http.vary(caller.split(", "));
  else http.res.setHeader("Vary", caller);
}

/** Headers of every HTML reply. A page with another policy sets it afterwards. */
export function securePage(http: Context, extra: Parameters<typeof contentSecurityPolicy>[0] = {}): void {
  http.set("Content-Security-Policy", contentSecurityPolicy(extra));
  http.set("X-Frame-Options", "DENY");
  // Same origin only: the URL of a sign-in or share page is a secret.
  http.set("Referrer-Policy", "same-origin");
  http.set("Cross-Origin-Opener-Policy", "same-origin");
}

/**
 * Allows pages of other origins to call /api as configured in `api.cors` (Fetch standard, section 3.2). Such requests
 * carry no cookie, because Access-Control-Allow-Credentials is not sent: they need a token or a public route.
 */
export function cors({
  enabled,
  allowed_origins,
  allow_any_origin,
  allowed_methods,
}: Config["api"]["cors"]): Middleware {
  if (!enabled) return (_http, next) => next();
  const origins = new Set(allowed_origins.map((origin) => origin.toLowerCase()));
  const methods = allowed_methods.join(", ");
  return (http, next) => {
    if (!http.path.startsWith("/api/")) return next();
    if (!allow_any_origin) http.vary("Origin");
    const origin = http.get("origin");
    const allowed = origin === "" ? null : allow_any_origin ? "*" : origins.has(origin.toLowerCase()) ? origin : null;
    if (allowed === null) return next();
    http.set("Access-Control-Allow-Origin", allowed);
    // A preflight is answered and charged like any OPTIONS.
    if (http.method === "OPTIONS" && http.get("access-control-request-method") !== "")
      http.set({ "Access-Control-Allow-Methods": methods, "Access-Control-Allow-Headers": "content-type" });
    return next();
  };
}

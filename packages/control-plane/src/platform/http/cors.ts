import type { Middleware } from "koa";
import type { Config } from "../../config/config.ts";

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

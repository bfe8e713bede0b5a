import type { Middleware } from "koa";
import type { Config } from "../config.ts";

/**
 * Lets pages of other origins call what is under /api, as far as `api.cors` says (Fetch standard, section 3.2). Requests
 * of other origins never carry the cookie: Access-Control-Allow-Credentials is not sent, so they need a token, or what is public.
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
    // A preflight is answered like any OPTIONS, after it has been charged.
    if (http.method === "OPTIONS" && http.get("access-control-request-method") !== "")
      http.set({ "Access-Control-Allow-Methods": methods, "Access-Control-Allow-Headers": "content-type" });
    return next();
  };
}

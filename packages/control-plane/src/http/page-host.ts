import type { Context, Middleware } from "koa";
import { AppError } from "@statusmesh/shared/errors";
import type { Config } from "../config.ts";

/** Paths of a status page's own host; all others belong to the console's host. */
const visitorPath =
  /^\/(?:status|status-assets|assets|m|c|api\/public\/v1)(?:\/|$)|^\/(?:healthz|readyz|favicon\.ico|robots\.txt)$/;

/** Slug of a request to `{slug}.{public_status.base_domain}`; null for any other host. */
export function pageSlugOf(http: Context, config: Pick<Config, "tenancy" | "public_status">): string | null {
  if (!config.tenancy.subdomain_public_routes) return null;
  const host = http.hostname.toLowerCase();
  const base = `.${config.public_status.base_domain}`;
  const slug = host.endsWith(base) ? host.slice(0, -base.length) : "";
  return slug === "" || slug.includes(".") ? null : slug;
}

/** URL of a page on its own host, with the scheme and port of `server.public_url`. */
export function pageUrl(slug: string, config: Pick<Config, "server" | "public_status">): string {
  const { protocol, port } = new URL(config.server.public_url);
  return `${protocol}//${slug}.${config.public_status.base_domain}${port === "" ? "" : `:${port}`}`;
}

/** Serves the status page at `/` of its own host and refuses console paths there. */
export function pageHosts(config: Config): Middleware {
  if (!config.tenancy.subdomain_public_routes) return (_http, next) => next();
  return (http, next) => {
    if (pageSlugOf(http, config) === null) return next();
    if (http.path === "/") http.path = "/status";
    if (!visitorPath.test(http.path)) throw new AppError("NOT_FOUND", `There is nothing at ${http.path}.`);
    return next();
  };
}

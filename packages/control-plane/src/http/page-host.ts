import type { Context, Middleware } from "koa";
import { AppError } from "@statusmesh/shared/errors";
import type { Config } from "../config.ts";

/** What a status page's own host answers; everything else is of the console's host alone. */
const visitorPath = /^\/(?:status|assets|m|c|api\/public\/v1)(?:\/|$)|^\/(?:healthz|readyz|favicon\.ico|robots\.txt)$/;

/** The slug that the host of a request names, as `{slug}.{public_status.base_domain}`; null for any other host. */
export function pageSlugOf(http: Context, config: Pick<Config, "tenancy" | "public_status">): string | null {
  if (!config.tenancy.subdomain_public_routes) return null;
  const host = http.hostname.toLowerCase();
  const base = `.${config.public_status.base_domain}`;
  const slug = host.endsWith(base) ? host.slice(0, -base.length) : "";
  return slug === "" || slug.includes(".") ? null : slug;
}

/** Where a page is at a host of its own: the scheme and port are those by which the service is reached. */
export function pageUrl(slug: string, config: Pick<Config, "server" | "public_status">): string {
  const { protocol, port } = new URL(config.server.public_url);
  return `${protocol}//${slug}.${config.public_status.base_domain}${port === "" ? "" : `:${port}`}`;
}

/** Gives a status page's own host its front page, and nothing of the console: whoever owns a slug owns no more than a page. */
export function pageHosts(config: Config): Middleware {
  if (!config.tenancy.subdomain_public_routes) return (_http, next) => next();
  return (http, next) => {
    if (pageSlugOf(http, config) === null) return next();
    if (http.path === "/") http.path = "/status";
    if (!visitorPath.test(http.path)) throw new AppError("NOT_FOUND", `There is nothing at ${http.path}.`);
    return next();
  };
}

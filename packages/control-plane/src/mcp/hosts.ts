import type { Context, Middleware } from "koa";
import { AppError } from "@statusmesh/shared/errors";
import type { Config } from "../config.ts";

/** Paths of the resource host. */
const resourcePaths: ReadonlySet<string> = new Set([
  "/mcp",
  "/.well-known/oauth-protected-resource",
  "/healthz",
  "/readyz",
]);

/** Host and port of an origin, without the default port of its scheme. */
const hostOf = (origin: string): string => new URL(origin).host;

/** The Host header of a request in the same form; the scheme is that of `origin`. */
function requestedHost(http: Context, origin: string): string {
  const url = `${new URL(origin).protocol}//${http.get("host")}`;
  return URL.canParse(url) ? new URL(url).host : "";
}

/** Origin of the resource: `mcp.resource_uri`, else `server.public_url`. */
const resourceOrigin = (config: Config): string => config.mcp.resource_uri || config.server.public_url;

/** True when the request names the resource host, port included. */
export const atResourceHost = (http: Context, config: Config): boolean =>
  requestedHost(http, resourceOrigin(config)) === hostOf(resourceOrigin(config));

/** Serves nothing but the MCP paths on the resource host, unless it is a host of the application too. */
export function resourceHost(config: Config): Middleware {
  const own = hostOf(resourceOrigin(config));
  const appHosts = [config.server.public_url, config.auth.public_base_url].map(hostOf);
  if (!config.mcp.enabled || appHosts.includes(own)) return (_http, next) => next();
  return (http, next) => {
    if (atResourceHost(http, config) && !resourcePaths.has(http.path))
      throw new AppError("NOT_FOUND", `There is nothing at ${http.path} on this host.`);
    return next();
  };
}

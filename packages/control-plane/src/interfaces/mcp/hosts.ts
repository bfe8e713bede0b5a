import type { Context, Middleware } from "koa";
import { AppError } from "@statusmesh/shared/errors";
import { mcpPath, resourceMetadataPaths } from "../../config/mcp-keys.ts";
import type { Config } from "../../config/config.ts";
import { isAtHost } from "../../platform/http/page-host.ts";

/** Paths of the resource host. */
const resourcePaths: ReadonlySet<string> = new Set([mcpPath, ...resourceMetadataPaths, "/healthz", "/readyz"]);

/** Origin of the resource: `mcp.resource_uri`, else `server.public_url`. */
const resourceOrigin = (config: Config): string => config.mcp.resource_uri || config.server.public_url;

/** True when the request names the resource host, port included. */
export const atResourceHost = (http: Context, config: Config): boolean => isAtHost(http, resourceOrigin(config));

/** Serves nothing but the MCP paths on the resource host, unless it is a host of the application too. */
export function resourceHost(config: Config): Middleware {
  const hostOf = (origin: string): string => new URL(origin).host;
  const appHosts = [config.server.public_url, config.auth.public_base_url].map(hostOf);
  if (!config.mcp.enabled || appHosts.includes(hostOf(resourceOrigin(config)))) return (_http, next) => next();
  return (http, next) => {
    if (atResourceHost(http, config) && !resourcePaths.has(http.path))
      throw new AppError("NOT_FOUND", `There is nothing at ${http.path} on this host.`);
    return next();
  };
}

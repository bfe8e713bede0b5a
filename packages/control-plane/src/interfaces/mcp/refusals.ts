import type { Context, Middleware } from "koa";
import { AppError } from "@statusmesh/shared/errors";
import { resourceMetadataAddress, mcpPath, resourceMetadataPaths } from "../../config/mcp-keys.ts";
import type { Config } from "../../config/config.ts";
import { isAtHost } from "../../platform/http/page-host.ts";

/** JSON-RPC error codes: JSON-RPC 2.0 section 5.1, and the two of the reference implementation for the transport. */
export const rpcCodes = {
  parse: -32_700,
  invalidRequest: -32_600,
  methodNotFound: -32_601,
  invalidParams: -32_602,
  server: -32_000,
  noSession: -32_001,
} as const;

export type RpcId = string | number;

/** A refused request: HTTP status with a JSON-RPC error. */
export class RpcRefusal extends Error {
  readonly status: number;
  readonly code: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly id: RpcId | null;

  constructor(
    status: number,
    code: number,
    message: string,
    { headers = {}, id = null, cause }: { headers?: Record<string, string>; id?: RpcId | null; cause?: unknown } = {},
  ) {
    super(message, { cause });
    this.status = status;
    this.code = code;
    this.headers = headers;
    this.id = id;
  }
}

/** Answers a refused request. */
export function answerRefusal(http: Context, { status, code, message, headers, id }: RpcRefusal): void {
  http.status = status;
  http.set({ "Cache-Control": "no-store", ...headers });
  http.type = "application/json; charset=utf-8";
  http.body = JSON.stringify({ jsonrpc: "2.0", id, error: { code, message } });
}

/** Maps an error of a service to a refusal. */
export function refusalOf(error: AppError, config: Config): RpcRefusal {
  const code =
    error.code === "INVALID_JSON"
      ? rpcCodes.parse
      : error.code === "INVALID_BODY"
        ? rpcCodes.invalidRequest
        : rpcCodes.server;
  const headers: Record<string, string> =
    error.retryAfterSecs === null ? {} : { "Retry-After": String(error.retryAfterSecs) };
  if (error.status === 401) headers["WWW-Authenticate"] = challenge(config);
  return new RpcRefusal(error.status, code, error.message, { headers, cause: error });
}

/** 401 (RFC 6750 section 3.1): `invalid_token` only when the request has a credential. */
export function unauthorised(config: Config, hasCredential: boolean): RpcRefusal {
  const message = hasCredential
    ? "The token is unknown, expired or revoked, or it is not for this MCP server."
    : "Send a token as Authorization: Bearer sm_live_….";
  return new RpcRefusal(401, rpcCodes.server, message, {
    headers: { "WWW-Authenticate": challenge(config, hasCredential ? { error: "invalid_token" } : {}) },
  });
}

/** 403 with the scopes to request: the granted ones and the missing one. */
export function insufficientScope(config: Config, granted: readonly string[], needed: string, id: RpcId): RpcRefusal {
  const scope = [...granted, needed].join(" ");
  return new RpcRefusal(403, rpcCodes.server, `This needs the scope ${needed}, which the token does not have.`, {
    id,
    headers: { "WWW-Authenticate": challenge(config, { error: "insufficient_scope", scope }) },
  });
}

/** WWW-Authenticate: RFC 6750 section 3; with OAuth it points at the resource metadata (RFC 9728 section 5.1). */
function challenge({ mcp }: Config, parameters: Record<string, string> = {}): string {
  const all = {
    ...parameters,
    ...(mcp.enabled && mcp.oauth_enabled ? { resource_metadata: resourceMetadataAddress({ mcp }) } : {}),
  };
  const list = Object.entries(all).map(([name, value]) => `${name}="${value}"`);
  return ["Bearer", list.join(", ")].filter((part) => part !== "").join(" ");
}

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

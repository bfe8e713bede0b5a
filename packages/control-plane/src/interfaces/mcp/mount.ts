import type { Context, Middleware } from "koa";
import { mcpPath } from "../../config/mcp-keys.ts";
import { atRoute } from "../../platform/http/exchange.ts";
import type { Tool } from "../../platform/http/tool.ts";
import { atResourceHost, answerRefusal, RpcRefusal, rpcCodes } from "./refusals.ts";
import type { EndpointOptions } from "./endpoint.ts";
import { registryOf } from "./registry.ts";

/** The middleware of `/mcp`; falls through while MCP is off. The Host is checked before anything else. */
export function mcpEndpoint(options: Omit<EndpointOptions, "registry">, tools: readonly Tool[]): Middleware {
  const { config } = options.system;
  if (!config.mcp.enabled) return (_http, next) => next();
  const registry = registryOf(tools);
  let opened: Promise<(http: Context) => Promise<void>> | null = null;
  // The protocol's library costs 15 MB, which a process that has no client does not pay.
  const open = async () => (await import("./endpoint.ts")).openEndpoint({ ...options, registry });
  const answer = async (http: Context): Promise<void> => {
    atRoute(http, mcpPath);
    if (!atResourceHost(http, config))
      return answerRefusal(
        http,
        new RpcRefusal(
          403,
          rpcCodes.server,
          "The MCP server is not at this Host: see mcp.resource_uri. A proxy must pass the Host header with its port.",
        ),
      );
    const serve = await (opened ??= open());
    await serve(http);
  };
  // Every request passes here: an async function would cost it a promise.
  return (http, next) => (http.path === mcpPath ? answer(http) : next());
}

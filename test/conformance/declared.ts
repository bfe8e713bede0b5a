import { allRoutes, allTools } from "@statusmesh/control-plane/app";
import type { Hub } from "@statusmesh/control-plane/platform/db/notify";
import type { Route } from "@statusmesh/control-plane/platform/http/route";
import { openAgentPings } from "@statusmesh/control-plane/monitoring/heartbeats/intake/agent-pings";
import { openIngest } from "@statusmesh/control-plane/monitoring/pipeline/ingest";

const silentHub: Hub = {
  on: () => () => undefined,
  wait: () => Promise.resolve(false),
  ready: () => Promise.resolve(),
};

/** Declarations of all routes. Their handlers have no services and are never called. */
export const routes: readonly Route[] = allRoutes({
  hub: silentHub,
  ingest: openIngest(() => Promise.resolve()),
  agentPings: openAgentPings(() => Promise.resolve()),
  draining: new AbortController().signal,
});

/** Every MCP tool; their handlers are never called. */
export const tools = allTools({ hub: silentHub });

/** `GET /api/v1/targets/{id}` */
export const nameOf = ({ method, path }: Pick<Route, "method" | "path">): string => `${method} ${path}`;

import { ok, route, type Route } from "../../platform/http/route.ts";
import { Heartbeat, PingPage, PingQuery } from "./schema.ts";
import { getHeartbeat, listPings, rotateToken } from "./service.ts";

const common = {
  auth: "tenant",
  tag: "Heartbeats",
  errors: ["TARGET_NOT_FOUND", "NOT_FOUND", "SECRET_UNREADABLE"],
} as const;

export const heartbeatRoutes: Route[] = [
  route("GET", "/api/v1/targets/{id}/heartbeat", {
    ...common,
    scope: "targets:read",
    summary: "Ping URL, state and next report of a heartbeat monitor",
    description: "For monitors of the kind heartbeat; 404 NOT_FOUND for others. The ping URL needs targets:write.",
    replies: { 200: Heartbeat },
    handle: async ({ ctx, params }) => ok(await getHeartbeat(ctx, params.id)),
  }),
  route("POST", "/api/v1/targets/{id}/heartbeat/rotate", {
    ...common,
    scope: "targets:write",
    summary: "Give a heartbeat monitor a new ping URL",
    description: "The previous URL works for another 24 hours, earlier ones stop at once.",
    replies: { 200: Heartbeat },
    handle: async ({ ctx, params }) => ok(await rotateToken(ctx, params.id)),
  }),
  route("GET", "/api/v1/targets/{id}/heartbeat/pings", {
    ...common,
    scope: "targets:read",
    summary: "List the pings of a heartbeat monitor",
    description: "Newest first: at most 1,000, of the last 30 days.",
    query: PingQuery,
    replies: { 200: PingPage },
    handle: async ({ ctx, params, query }) => ok(await listPings(ctx, params.id, query)),
  }),
];

import { ListQuery } from "../auth/schema.ts";
import { ok, route, type Route } from "../../platform/http/route.ts";
import { ConnectedAppPage } from "./schema.ts";
import { disconnectApp, listConnectedApps } from "./service.ts";

const tag = "Connected apps";

export const oauthRoutes: Route[] = [
  route("GET", "/api/v1/connected-apps", {
    auth: "tenant",
    scope: "org:read",
    tag,
    summary: "List the MCP clients that the caller connected in this organisation",
    query: ListQuery,
    replies: { 200: ConnectedAppPage },
    cache: "no-store",
    handle: async ({ ctx, query }) => ok(await listConnectedApps(ctx, query)),
  }),
  route("DELETE", "/api/v1/connected-apps/{id}", {
    auth: "tenant",
    scope: "org:write",
    tag,
    summary: "Disconnect an MCP client at once",
    replies: { 204: null },
    errors: ["CONNECTED_APP_NOT_FOUND"],
    handle: async ({ ctx, params }) => disconnectApp(ctx, params.id),
  }),
];

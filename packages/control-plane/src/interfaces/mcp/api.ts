import { ok, route, type Route } from "../../platform/http/route.ts";
import { asOwner } from "../../access/orgs/service.ts";
import { listMcpAudit } from "./audit/audit.ts";
import { McpCallPage, McpCallQuery } from "./schema.ts";

export const mcpRoutes: Route[] = [
  route("GET", "/api/v1/orgs/{id}/mcp-audit", {
    auth: "tenant",
    scope: "org:read",
    role: "owner",
    requireRole: ({ ctx, params }) => asOwner(ctx, params["id"]!),
    tag: "Organisations",
    summary: "Calls of MCP tools that write, newest first",
    description: "One entry for each call, also for a refused one, kept for retention.audit_days (730).",
    query: McpCallQuery,
    replies: { 200: McpCallPage },
    errors: ["ORG_NOT_FOUND"],
    cache: "no-store",
    handle: async ({ ctx, params, query }) => ok(await listMcpAudit(ctx, params.id, query)),
  }),
];

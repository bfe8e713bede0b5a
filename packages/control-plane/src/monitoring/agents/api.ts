import { WhoAmIReply } from "@statusmesh/shared/protocol/agent-protocol";
import { createdIn, ok, route, type Route } from "../../platform/http/route.ts";
import { Agent, AgentCreate, AgentPage, AgentPatch, AgentWithToken, DeleteQuery, ListQuery } from "./schema.ts";
import { whoAmI } from "./service.ts";
import { createAgent, deleteAgent, getAgent, listAgents, renameAgent } from "./registration/service.ts";

const one = {
  auth: "operator",
  tag: "Operator",
  errors: ["AGENT_NOT_FOUND"],
} as const;

export const agentRoutes: Route[] = [
  route("GET", "/api/agent/whoami", {
    auth: "agent",
    tag: "Agents",
    summary: "The agent of the token",
    description: "For `sm-agent test-config`. Changes nothing and is no heartbeat.",
    replies: { 200: WhoAmIReply },
    handle: async ({ ctx }) => ok(await whoAmI(ctx)),
  }),
  route("GET", "/operator/agents", {
    auth: "operator",
    tag: "Operator",
    summary: "List agents",
    query: ListQuery,
    replies: { 200: AgentPage },
    handle: async ({ ctx, query }) => ok(await listAgents(ctx, query)),
  }),
  route("POST", "/operator/agents", {
    auth: "operator",
    tag: "Operator",
    summary: "Create an agent; its token is shown only in this reply",
    body: AgentCreate,
    replies: { 201: AgentWithToken },
    errors: ["REGION_NOT_FOUND"],
    handle: async ({ ctx, body }) => createdIn("/operator/agents/", await createAgent(ctx, body)),
  }),
  route("GET", "/operator/agents/{id}", {
    ...one,
    summary: "Get one agent",
    replies: { 200: Agent },
    handle: async ({ ctx, params }) => ok(await getAgent(ctx, params.id)),
  }),
  route("PATCH", "/operator/agents/{id}", {
    ...one,
    summary: "Rename an agent",
    body: AgentPatch,
    replies: { 200: Agent },
    handle: async ({ ctx, params, body }) => ok(await renameAgent(ctx, params.id, body.name)),
  }),
  route("DELETE", "/operator/agents/{id}", {
    ...one,
    summary: "Delete an agent; its token fails on its next request",
    description: "RESOURCE_IN_USE while it is connected, unless `force` is true.",
    query: DeleteQuery,
    replies: { 204: null },
    errors: [...one.errors, "RESOURCE_IN_USE"],
    handle: async ({ ctx, params, query }) => deleteAgent(ctx, params.id, query),
  }),
];

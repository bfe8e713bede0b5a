import { ok, route, type Route } from "../../../platform/http/route.ts";
import { slicePage } from "../../../platform/http/wire.ts";
import { ListQuery } from "../../auth/schema.ts";
import { PlanPage } from "../../plans/schema.ts";
import { listPlans } from "../../plans/service.ts";
import { changePlan, getAnyOrg, listAllOrgs } from "./operator.ts";
import * as schema from "../schema.ts";

const operator = { auth: "operator", tag: "Operator" } as const;

export const operatorOrgRoutes: Route[] = [
  route("GET", "/operator/orgs", {
    ...operator,
    summary: "List all organisations with their plans",
    query: schema.OperatorOrgQuery,
    replies: { 200: schema.OperatorOrgPage },
    handle: async ({ ctx, query }) => ok(await listAllOrgs(ctx, query)),
  }),
  route("GET", "/operator/orgs/{id}", {
    ...operator,
    summary: "Get one organisation with its plan",
    description: "`{id}` may be the slug.",
    replies: { 200: schema.OperatorOrg },
    errors: ["ORG_NOT_FOUND"],
    handle: async ({ ctx, params }) => ok(await getAnyOrg(ctx, params.id)),
  }),
  route("PATCH", "/operator/orgs/{id}", {
    ...operator,
    summary: "Change the plan of an organisation, or its overrides",
    description:
      "Quotas apply at once, rate budgets within 5 s. Existing resources above a lower limit are kept; only " +
      "additions are refused. The change is in its audit log. `{id}` may be the slug.",
    body: schema.OperatorOrgPatch,
    replies: { 200: schema.OperatorOrg },
    errors: ["ORG_NOT_FOUND"],
    handle: async ({ ctx, params, body }) => ok(await changePlan(ctx, params.id, body)),
  }),
  route("GET", "/operator/plans", {
    ...operator,
    summary: "List the plans",
    query: ListQuery,
    replies: { 200: PlanPage },
    handle: async ({ ctx, query }) => ok(slicePage(await listPlans(ctx), query)),
  }),
];

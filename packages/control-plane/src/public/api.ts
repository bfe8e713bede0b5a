import Type from "typebox";
import { ok, route, type Route } from "../http/route.ts";
import { IdParam, paging } from "../http/wire.ts";
import { historyDays } from "./compute.ts";
import { ComponentHistory, PublicIncident, PublicIncidentPage, PublicStatus } from "./schema.ts";
import * as service from "./service.ts";

const shared = {
  auth: "public",
  tag: "Public",
  method: "GET",
  cache: "public, max-age=10, stale-while-revalidate=30",
} as const;
const unavailable = ["STATUS_PAGE_NOT_FOUND", "STATUS_DATA_UNAVAILABLE"] as const;

/** Public JSON routes of the published page. */
export const publicRoutes: Route[] = [
  route({
    ...shared,
    path: "/api/public/v1/status",
    summary: "The status page",
    replies: { 200: PublicStatus },
    errors: unavailable,
    handle: async ({ ctx }) => ok(await service.publicStatus(ctx)),
  }),
  route({
    ...shared,
    path: "/api/public/v1/components/{id}/history",
    summary: "History of a component",
    params: IdParam,
    query: Type.Object({
      days: Type.Integer({
        minimum: 1,
        maximum: historyDays,
        cap: historyDays,
        default: historyDays,
        description: "Days back, today included. Larger values are silently capped at 90",
      }),
    }),
    replies: { 200: ComponentHistory },
    errors: [...unavailable, "COMPONENT_NOT_FOUND"],
    handle: async ({ ctx, params, query }) => ok(await service.componentHistory(ctx, params.id, query.days)),
  }),
  route({
    ...shared,
    path: "/api/public/v1/incidents",
    summary: "Incidents of the last 30 days",
    description: "Open ones first, newest first.",
    query: Type.Object(paging(50, 500)),
    replies: { 200: PublicIncidentPage },
    errors: unavailable,
    handle: async ({ ctx, query }) => ok(await service.listPublicIncidents(ctx, query)),
  }),
  route({
    ...shared,
    path: "/api/public/v1/incidents/{id}",
    summary: "An incident with its updates",
    params: IdParam,
    replies: { 200: PublicIncident },
    errors: [...unavailable, "INCIDENT_NOT_FOUND"],
    handle: async ({ ctx, params }) => ok(await service.publicIncident(ctx, params.id)),
  }),
];

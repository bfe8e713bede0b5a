import Type from "typebox";
import { IdText } from "@statusmesh/shared/text";
import { IdParam, paging } from "../http/wire.ts";
import { ok, route, type Route } from "../http/route.ts";
import { DeliveryPage, Explanation, Incident, IncidentPage } from "./schema.ts";
import {
  acknowledgeIncident,
  explainIncident,
  getIncident,
  listDeliveries,
  listIncidents,
  resolveIncident,
} from "./service.ts";

const one = { auth: "tenant", tag: "Incidents", params: IdParam, errors: ["INCIDENT_NOT_FOUND"] } as const;

export const incidentRoutes: Route[] = [
  route({
    method: "GET",
    path: "/api/v1/incidents",
    auth: "tenant",
    scope: "incidents:read",
    tag: "Incidents",
    summary: "List incidents, open ones first",
    query: Type.Object(
      {
        state: Type.Enum(["open", "closed", "all"], {
          default: "all",
          description: "Open or closed incidents only",
        }),
        target_id: Type.Optional(
          IdText({ description: "Incidents of this target only", examples: ["01931f2e-7c1a-7d30-9b5e-2f6a4c8d1e90"] }),
        ),
        ...paging(100, 1000),
      },
      { additionalProperties: false },
    ),
    replies: { 200: IncidentPage },
    handle: async ({ ctx, query }) => ok(await listIncidents(ctx, query)),
  }),
  route({
    ...one,
    method: "GET",
    path: "/api/v1/incidents/{id}",
    scope: "incidents:read",
    summary: "Get one incident",
    replies: { 200: Incident },
    handle: async ({ ctx, params }) => ok(await getIncident(ctx, params.id)),
  }),
  route({
    ...one,
    method: "POST",
    path: "/api/v1/incidents/{id}/acknowledge",
    scope: "incidents:write",
    summary: "Acknowledge an incident: reminders stop",
    replies: { 200: Incident },
    handle: async ({ ctx, params }) => ok(await acknowledgeIncident(ctx, params.id)),
  }),
  route({
    ...one,
    method: "POST",
    path: "/api/v1/incidents/{id}/resolve",
    scope: "incidents:write",
    summary: "Close an incident by hand",
    description: "Notifies its channels. Failing runs may open it again.",
    replies: { 200: Incident },
    handle: async ({ ctx, params }) => ok(await resolveIncident(ctx, params.id)),
  }),
  route({
    ...one,
    method: "GET",
    path: "/api/v1/incidents/{id}/notifications",
    scope: "incidents:read",
    summary: "Notification log of the incident",
    query: Type.Object(paging(100, 1000), { additionalProperties: false }),
    replies: { 200: DeliveryPage },
    handle: async ({ ctx, params, query }) => ok(await listDeliveries(ctx, params.id, query)),
  }),
  route({
    ...one,
    method: "GET",
    path: "/api/v1/incidents/{id}/explain",
    scope: "incidents:read",
    summary: "Why the incident is open: votes, confirmations, policy and notices",
    replies: { 200: Explanation },
    handle: async ({ ctx, params }) => ok(await explainIncident(ctx, params.id)),
  }),
];

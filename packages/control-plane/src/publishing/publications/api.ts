import { Incident } from "../../alerting/incidents/schema.ts";
import { ok, route, type Route } from "../../platform/http/route.ts";
import { PublicationRequest } from "./schema.ts";
import { setPublished } from "./service.ts";

const shared = {
  auth: "tenant",
  scope: "incidents:write",
  tag: "Incidents",
  body: PublicationRequest,
  bodyOptional: true,
  replies: { 200: Incident },
  errors: ["INCIDENT_NOT_FOUND", "STATUS_PAGE_NOT_FOUND", "INVALID_ID"],
} as const;

/** Whether status pages show an incident. */
export const publicationRoutes: Route[] = [
  route("POST", "/api/v1/incidents/{id}/publish", {
    ...shared,
    summary: "Publish an incident on status pages",
    description:
      "Pages show it from its start, and their subscribers are notified while it is open. A page that shows it " +
      "already is not changed.",
    handle: async ({ ctx, params, body }) => ok(await setPublished(ctx, params.id, true, body ?? {})),
  }),
  route("POST", "/api/v1/incidents/{id}/unpublish", {
    ...shared,
    summary: "Take an incident off status pages",
    description: "Subscribers who were notified of it get one message that it was withdrawn.",
    handle: async ({ ctx, params, body }) => ok(await setPublished(ctx, params.id, false, body ?? {})),
  }),
];

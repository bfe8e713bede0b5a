import Type from "typebox";
import { AppError } from "@statusmesh/shared/errors";
import { Closed, paging, slicePage, Text } from "../../platform/http/wire.ts";
import { csvReply } from "../../platform/http/reply/csv.ts";
import { createdIn, ok, route, type Route } from "../../platform/http/route.ts";
import { IncidentEvent, IncidentEventPage } from "./timeline/event-schema.ts";
import {
  IncidentCreate,
  IncidentUpdatePage,
  Narration,
  NewNote,
  PostedUpdate,
  UpdateRequest,
} from "./timeline/narration-schema.ts";
import {
  BulkIncidentAction,
  BulkIncidentOutcome,
  Explanation,
  Incident,
  IncidentCsvQuery,
  IncidentList,
  IncidentPage,
  IncidentQuery,
  IncidentSnapshotPage,
} from "./schema.ts";
import { Delivery, DeliveryPage } from "../deliveries/schema.ts";
import * as lifecycle from "./lifecycle/service.ts";
import * as timeline from "./timeline/service.ts";
import * as explanation from "./explanation/service.ts";
import * as service from "./service.ts";

const read = { auth: "tenant", scope: "incidents:read", tag: "Incidents" } as const;
const write = { auth: "tenant", scope: "incidents:write", tag: "Incidents" } as const;
const one = { errors: ["INCIDENT_NOT_FOUND"] } as const;
const page = Closed(paging(100, 1000));

export const incidentRoutes: Route[] = [
  route("GET", "/api/v1/incidents", {
    ...read,
    summary: "List incidents, open ones first",
    description: "Open incidents first, then by start, newest first.",
    query: IncidentQuery,
    replies: { 200: IncidentPage },
    errors: ["BAD_TIME_RANGE"],
    handle: async ({ ctx, query }) => ok(await service.listIncidents(ctx, query)),
  }),
  route("GET", "/api/v1/incidents.csv", {
    ...read,
    summary: "Incidents as CSV",
    description: "The rows of the list in its order, at most 100,000. Sent while it is read.",
    query: IncidentCsvQuery,
    replies: { 200: Text("CSV (RFC 4180) with a header line") },
    errors: ["BAD_TIME_RANGE"],
    mediaType: "text/csv",
    handle: async ({ ctx, query }) => csvReply("incidents.csv", await service.incidentsCsv(ctx, query)),
  }),
  route("POST", "/api/v1/incidents", {
    ...write,
    summary: "Report an incident",
    description:
      "Opens an incident of a target with its first public update and notifies its channels. Check results do not " +
      "close it: a person does. While it is open, failing runs join it instead of opening another. With `ended_at` " +
      "an incident is stored that is over, with its times: no channel is notified. `target_ids` makes an incident of " +
      "each target, all or none, and the reply is a list of them.",
    body: IncidentCreate,
    replies: { 200: IncidentList, 201: Incident },
    errors: [
      "INVALID_TIME_RANGE",
      "BULK_EMPTY",
      "BULK_TOO_LARGE",
      "EMPTY_TITLE",
      "TITLE_TOO_LONG",
      "EMPTY_MESSAGE",
      "MESSAGE_TOO_LONG",
      "INVALID_ID",
      "TARGET_NOT_FOUND",
      "INCIDENT_ALREADY_OPEN",
    ],
    async handle({ ctx, body: { target_id: one, target_ids: several, ...body } }) {
      if ((one === undefined) === (several === undefined))
        throw new AppError("INVALID_BODY", "Send either target_id or target_ids.", { field: "/target_id" });
      if (several !== undefined) return ok({ items: await lifecycle.reportIncidents(ctx, several, body) });
      const made = await lifecycle.reportIncident(ctx, { ...body, target_id: one! });
      return createdIn("/api/v1/incidents/", made);
    },
  }),
  route("POST", "/api/v1/incidents/bulk-action", {
    ...write,
    category: "bulk_ops",
    idempotent: true,
    summary: "Acknowledge many incidents",
    description:
      "A failure of one incident does not affect the others: each id is in one of the two lists, in the " +
      "order sent. A duplicate id counts once.",
    body: BulkIncidentAction,
    replies: { 200: BulkIncidentOutcome },
    errors: ["BULK_EMPTY", "BULK_TOO_LARGE"],
    handle: async ({ ctx, body }) => ok(await lifecycle.bulkIncidentAction(ctx, body)),
  }),
  route("GET", "/api/v1/incidents/{id}", {
    ...read,
    ...one,
    summary: "Get one incident",
    replies: { 200: Incident },
    handle: async ({ ctx, params }) => ok(await service.getIncident(ctx, params.id)),
  }),
  route("PATCH", "/api/v1/incidents/{id}", {
    ...write,
    ...one,
    summary: "Change public title, public description or severity",
    description:
      "A field that is left out stays, null clears it. A severity pins it; null brings the severity by " +
      "check results back.",
    body: Narration,
    replies: { 200: Incident },
    handle: async ({ ctx, params, body }) => ok(await timeline.narrateIncident(ctx, params.id, body)),
  }),
  route("GET", "/api/v1/incidents/{id}/events", {
    ...read,
    ...one,
    summary: "Timeline of the incident, oldest first",
    query: page,
    replies: { 200: IncidentEventPage },
    handle: async ({ ctx, params, query }) => ok(await timeline.listEvents(ctx, params.id, query)),
  }),
  route("GET", "/api/v1/incidents/{id}/snapshots", {
    ...read,
    ...one,
    summary: "Responses of failed HTTP runs in each region",
    description:
      "Of the first failed run, of the first of each of the newest ten outages, and of the latest one. Status " +
      "line, headers and beginning of the body, with secrets masked. Kept 30 days, and only where " +
      "`capture_failures` of the check is true. Empty where no failing run received a response. By region, oldest " +
      "first.",
    query: page,
    replies: { 200: IncidentSnapshotPage },
    handle: async ({ ctx, params, query }) => ok(slicePage(await timeline.listSnapshots(ctx, params.id), query)),
  }),
  route("GET", "/api/v1/incidents/{id}/updates", {
    ...read,
    ...one,
    summary: "List public updates, newest first",
    query: page,
    replies: { 200: IncidentUpdatePage },
    handle: async ({ ctx, params, query }) => ok(await timeline.listUpdates(ctx, params.id, query)),
  }),
  route("POST", "/api/v1/incidents/{id}/updates", {
    ...write,
    ...one,
    summary: "Post a public update",
    description:
      "Appears on the status pages of the monitor, also after the end. Phase `resolved` is advisory: check " +
      "results close an incident. An incident has at most 100 updates.",
    body: UpdateRequest,
    replies: { 201: PostedUpdate },
    errors: ["INCIDENT_NOT_FOUND", "QUOTA_EXCEEDED"],
    handle: async ({ ctx, params, body: { scope = "incident", ...update } }) =>
      createdIn(
        `/api/v1/incidents/${params.id}/updates#`,
        await timeline.postUpdate(ctx, params.id, update, { scope }),
      ),
  }),
  route("POST", "/api/v1/incidents/{id}/notes", {
    ...write,
    ...one,
    summary: "Write an internal note",
    description:
      "Joins the timeline as an event of kind `noted`. No status page, mail or share link shows it. An incident has " +
      "at most 100 notes.",
    body: NewNote,
    replies: { 201: IncidentEvent },
    errors: ["INCIDENT_NOT_FOUND", "EMPTY_MESSAGE", "MESSAGE_TOO_LONG", "QUOTA_EXCEEDED"],
    handle: async ({ ctx, params, body }) =>
      createdIn(`/api/v1/incidents/${params.id}/events#`, await timeline.postNote(ctx, params.id, body)),
  }),
  route("POST", "/api/v1/incidents/{id}/acknowledge", {
    ...write,
    ...one,
    summary: "Acknowledge an incident: reminders stop",
    replies: { 200: Incident },
    handle: async ({ ctx, params }) => ok(await lifecycle.acknowledgeIncident(ctx, params.id)),
  }),
  route("DELETE", "/api/v1/incidents/{id}/acknowledgement", {
    ...write,
    ...one,
    summary: "Undo the acknowledgement: reminders resume",
    replies: { 204: null },
    async handle({ ctx, params }) {
      await lifecycle.unacknowledgeIncident(ctx, params.id);
    },
  }),
  route("POST", "/api/v1/incidents/{id}/resolve", {
    ...write,
    ...one,
    summary: "Close an incident",
    description: "Notifies its channels. Failing runs may open it again.",
    replies: { 200: Incident },
    handle: async ({ ctx, params }) => ok(await lifecycle.resolveIncident(ctx, params.id)),
  }),
  route("GET", "/api/v1/incidents/{id}/notifications", {
    ...read,
    ...one,
    summary: "Notification log of the incident",
    query: page,
    replies: { 200: DeliveryPage },
    handle: async ({ ctx, params, query }) => ok(await explanation.listDeliveries(ctx, params.id, query)),
  }),
  route("POST", "/api/v1/incidents/{id}/notifications/{delivery_id}/retry", {
    ...write,
    ...one,
    summary: "Send a failed notification again",
    description: "The delivery becomes pending and is attempted at once. Only one in state `dead` can be sent again.",
    params: Type.Object({ id: Type.String(), delivery_id: Type.String() }),
    replies: { 200: Delivery },
    errors: ["INCIDENT_NOT_FOUND", "DELIVERY_NOT_FOUND", "DELIVERY_NOT_DEAD", "DELIVERY_SUPERSEDED"],
    handle: async ({ ctx, params }) => ok(await explanation.retryDelivery(ctx, params.id, params.delivery_id)),
  }),
  route("GET", "/api/v1/incidents/{id}/explain", {
    ...read,
    ...one,
    summary: "Why the incident is open: votes, confirmations, policy and notices",
    replies: { 200: Explanation },
    handle: async ({ ctx, params }) => ok(await explanation.explainIncident(ctx, params.id)),
  }),
];

import { createdIn, ok, route, type Route } from "../../platform/http/route.ts";
import {
  Maintenance,
  MaintenanceCreate,
  MaintenanceListQuery,
  MaintenancePage,
  MaintenancePatch,
  Occurrence,
  OccurrenceListQuery,
  OccurrencePage,
  OccurrenceParams,
  OccurrencePatch,
} from "./schema.ts";
import {
  createWindow,
  deleteWindow,
  getWindow,
  listOccurrences,
  listWindows,
  updateOccurrence,
  updateWindow,
} from "./service.ts";

const path = "/api/v1/maintenance";
const read = { auth: "tenant", scope: "maintenance:read", tag: "Maintenance" } as const;
const write = { auth: "tenant", scope: "maintenance:write", tag: "Maintenance" } as const;
const narration = ["EMPTY_TITLE", "TITLE_TOO_LONG", "DESCRIPTION_TOO_LONG"] as const;
const times = ["INVALID_TIME_RANGE", "INVALID_DURATION", "INVALID_RECURRENCE"] as const;
const rules = [...narration, ...times, "INVALID_COMPONENT_ID"] as const;

export const maintenanceRoutes: Route[] = [
  route("POST", path, {
    ...write,
    summary: "Create a maintenance window",
    description:
      "A recurring window may have started at any time in the past: its occurrences begin with the one in progress, " +
      "or the next one.",
    body: MaintenanceCreate,
    replies: { 201: Maintenance },
    errors: [...rules, "MAINTENANCE_ENDED", "QUOTA_EXCEEDED"],
    handle: async ({ ctx, body }) => createdIn(`${path}/`, await createWindow(ctx, body)),
  }),
  route("GET", path, {
    ...read,
    summary: "List maintenance windows",
    description: "Newest start first.",
    query: MaintenanceListQuery,
    replies: { 200: MaintenancePage },
    handle: async ({ ctx, query }) => ok(await listWindows(ctx, query)),
  }),
  route("GET", `${path}/{id}`, {
    ...read,
    summary: "Read a maintenance window",
    replies: { 200: Maintenance },
    errors: ["MAINTENANCE_NOT_FOUND"],
    handle: async ({ ctx, params }) => ok(await getWindow(ctx, params.id)),
  }),
  route("PATCH", `${path}/{id}`, {
    ...write,
    summary: "Change a maintenance window",
    description:
      "While an occurrence is in progress, start and components stay as they are; `ends_at` of a window that happens " +
      "once may be now. Changes of times and recurrence apply to occurrences that have not started. A past window is " +
      "final.",
    body: MaintenancePatch,
    replies: { 200: Maintenance },
    errors: [...rules, "MAINTENANCE_NOT_FOUND", "MAINTENANCE_COMPLETED"],
    handle: async ({ ctx, params, body }) => ok(await updateWindow(ctx, params.id, body)),
  }),
  route("DELETE", `${path}/{id}`, {
    ...write,
    summary: "Cancel a maintenance window",
    replies: { 204: null },
    errors: ["MAINTENANCE_NOT_FOUND"],
    handle: async ({ ctx, params }) => deleteWindow(ctx, params.id),
  }),
  route("GET", `${path}/{id}/occurrences`, {
    ...read,
    summary: "List the occurrences of a maintenance window",
    description: "Current and future ones, by start. Occurrences of a recurring window are listed two months ahead.",
    query: OccurrenceListQuery,
    replies: { 200: OccurrencePage },
    errors: ["MAINTENANCE_NOT_FOUND"],
    handle: async ({ ctx, params, query }) => ok(await listOccurrences(ctx, params.id, query)),
  }),
  route("PATCH", `${path}/{id}/occurrences/{occurrence_id}`, {
    ...write,
    summary: "Change one occurrence of a maintenance window",
    description: "Extends it, ends it now, skips or restores it. The other occurrences are not changed.",
    params: OccurrenceParams,
    body: OccurrencePatch,
    replies: { 200: Occurrence },
    errors: [...times, "MAINTENANCE_NOT_FOUND", "OCCURRENCE_NOT_FOUND", "MAINTENANCE_COMPLETED"],
    handle: async ({ ctx, params, body }) => ok(await updateOccurrence(ctx, params.id, params.occurrence_id, body)),
  }),
];

import { createdIn, ok, route, type Route } from "../../platform/http/route.ts";
import { Snooze, SnoozeCreate, SnoozePage, SnoozeQuery } from "./schema.ts";
import * as service from "./service.ts";

const path = "/api/v1/snoozes";
const write = { auth: "tenant", scope: "incidents:write", tag: "Snoozes" } as const;

/** Periods for which a person holds notifications. */
export const snoozeRoutes: Route[] = [
  route("GET", path, {
    auth: "tenant",
    scope: "incidents:read",
    tag: "Snoozes",
    summary: "List snoozes",
    description: "Active snoozes, by end time.",
    query: SnoozeQuery,
    replies: { 200: SnoozePage },
    handle: async ({ ctx, query }) => ok(await service.listSnoozes(ctx, query)),
  }),
  route("POST", path, {
    ...write,
    summary: "Hold the notifications of monitors for a while",
    body: SnoozeCreate,
    replies: { 201: Snooze },
    errors: ["INVALID_SNOOZE"],
    handle: async ({ ctx, body }) => createdIn(`${path}#`, await service.createSnooze(ctx, body)),
  }),
  route("DELETE", `${path}/{id}`, {
    ...write,
    summary: "End a snooze",
    replies: { 204: null },
    errors: ["SNOOZE_NOT_FOUND"],
    handle: async ({ ctx, params }) => service.endSnooze(ctx, params.id),
  }),
];

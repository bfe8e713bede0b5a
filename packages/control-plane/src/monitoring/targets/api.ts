import { createdIn, ok, route, type Route } from "../../platform/http/route.ts";
import { Text } from "../../platform/http/wire.ts";
import { TagPage, TagQuery, TargetPage, TargetQuery } from "./list/list-schema.ts";
import { addRuleFaults } from "./write/rules.ts";
import { checkErrors, Target, TargetCreate, TargetPatch, TargetRegions } from "./schema.ts";
import { createTarget, setTargetRegions, targetRegions, updateTarget } from "./write/service.ts";
import { deleteTarget, showTarget, listTags, listTargets } from "./service.ts";
import { pinTarget, unpinTarget } from "./list/service.ts";
import { csvReply } from "../../platform/http/reply/csv.ts";
import { ExpirationCsvQuery, ExpirationPage, ExpirationQuery } from "./health/expiring-schema.ts";
import { expirationsCsv, listExpirations } from "./health/expiring.ts";

/** Error codes of every write of a target. */
export const targetErrors = [
  ...checkErrors,
  "EMPTY_NAME",
  "INVALID_TAG",
  "INVALID_INTERVAL",
  "MIN_CHECK_INTERVAL",
  "INVALID_ALERT_CONFIG",
  "INVALID_DEPENDENCY",
  "DEPENDENCY_CYCLE",
  "GROUP_CYCLE",
  "GROUP_TOO_DEEP",
  "INVALID_REGION_POLICY",
  "HEARTBEAT_ADDRESS_TAKEN",
  "NOT_PROBED",
] as const;

const read = { auth: "tenant", scope: "targets:read", tag: "Targets" } as const;
const write = { auth: "tenant", scope: "targets:write", tag: "Targets" } as const;
const regions = { replies: { 200: TargetRegions } } as const;
const pin = { ...read, replies: { 204: null }, errors: ["TARGET_NOT_FOUND"] } as const;

export const targetRoutes: Route[] = [
  route("POST", "/api/v1/targets", {
    ...write,
    summary: "Create a target",
    description: "The first check runs at once; its result is readable within seconds.",
    body: TargetCreate,
    onInvalidBody: addRuleFaults,
    replies: { 201: Target },
    errors: [...targetErrors, "QUOTA_EXCEEDED", "REGION_INVALID"],
    handle: async ({ ctx, body }) => createdIn("/api/v1/targets/", await createTarget(ctx, body)),
  }),
  route("GET", "/api/v1/targets", {
    ...read,
    summary: "List targets",
    query: TargetQuery,
    etag: true,
    replies: { 200: TargetPage },
    handle: async ({ ctx, query }) => ok(await listTargets(ctx, query)),
  }),
  route("GET", "/api/v1/targets/{id}", {
    ...read,
    summary: "Get one target",
    etag: true,
    replies: { 200: Target },
    errors: ["TARGET_NOT_FOUND"],
    handle: async ({ ctx, params }) => ok(await showTarget(ctx, params.id)),
  }),
  route("PATCH", "/api/v1/targets/{id}", {
    ...write,
    summary: "Change a target",
    description:
      "Fields left out stay as they are. An edited policy is held against the evidence at once; " +
      "enabled=false closes an open incident silently. " +
      "A change of `check`, a shorter interval and enabled=true run the check within 10 s; after a change of `check` " +
      "the status is `unknown` until then, and an open incident stays until the new check passes. " +
      "An edit of scheme, host or port, or of verify_tls to false, must bring every stored secret of the check again.",
    body: TargetPatch,
    etag: true,
    replies: { 200: Target },
    errors: [
      "TARGET_NOT_FOUND",
      "PRECONDITION_FAILED",
      "CHECK_KIND_IMMUTABLE",
      "CREDENTIALS_REQUIRED",
      "SECRET_UNREADABLE",
      ...targetErrors,
    ],
    handle: async ({ ctx, params, body, http }) => ok(await updateTarget(ctx, params.id, body, http.get("if-match"))),
  }),
  route("DELETE", "/api/v1/targets/{id}", {
    ...write,
    summary: "Delete a target with its results",
    replies: { 204: null },
    errors: ["TARGET_NOT_FOUND"],
    handle: async ({ ctx, params }) => deleteTarget(ctx, params.id),
  }),
  route("GET", "/api/v1/targets/{id}/regions", {
    ...read,
    ...regions,
    summary: "List the regions that probe a target",
    errors: ["TARGET_NOT_FOUND"],
    handle: async ({ ctx, params }) => ok(await targetRegions(ctx, params.id)),
  }),
  route("PUT", "/api/v1/targets/{id}/regions", {
    ...write,
    ...regions,
    summary: "Set the regions that probe a target",
    description:
      "A removed region stops at once and loses its vote: an incident that only this region kept open closes. " +
      "A disabled region that the target already has may stay.",
    body: TargetRegions,
    errors: ["TARGET_NOT_FOUND", "REGION_INVALID", "INVALID_REGION_POLICY", "NOT_PROBED"],
    handle: async ({ ctx, params, body }) => ok(await setTargetRegions(ctx, params.id, body)),
  }),
  route("PUT", "/api/v1/targets/{id}/pin", {
    ...pin,
    summary: "Pin a target to the top of your list",
    description: "For the console. A pin is of one user: others do not see it.",
    handle: async ({ ctx, params }) => pinTarget(ctx, params.id),
  }),
  route("DELETE", "/api/v1/targets/{id}/pin", {
    ...pin,
    summary: "Take a target off the top of your list",
    handle: async ({ ctx, params }) => unpinTarget(ctx, params.id),
  }),
  route("GET", "/api/v1/tags", {
    ...read,
    summary: "List the tags in use",
    description: "Most used first, then by name.",
    query: TagQuery,
    replies: { 200: TagPage },
    handle: async ({ ctx, query }) => ok(await listTags(ctx, query)),
  }),
];

export const expirationRoutes: Route[] = [
  route("GET", "/api/v1/expirations", {
    ...read,
    summary: "List certificates and domains by their expiry",
    description: "Earliest expiry first. Also certificates that checks over TLS have seen during their ordinary runs.",
    query: ExpirationQuery,
    replies: { 200: ExpirationPage },
    handle: async ({ ctx, query }) => {
      const { items, total, limit, offset } = await listExpirations(ctx, query);
      return ok({ items, total, limit, offset });
    },
  }),
  route("GET", "/api/v1/expirations.csv", {
    ...read,
    summary: "Certificates and domains by their expiry, as CSV",
    description: "All of them, in the order of the list.",
    query: ExpirationCsvQuery,
    replies: { 200: Text("CSV (RFC 4180) with a header line") },
    mediaType: "text/csv",
    handle: async ({ ctx, query }) => csvReply("expirations.csv", await expirationsCsv(ctx, query.level)),
  }),
];

import type { ErrorCode } from "@statusmesh/shared/errors";
import { ChannelCreate } from "../../alerting/channels/schema.ts";
import { MaintenanceCreate } from "../../alerting/maintenance/schema.ts";
import { checkErrors, TargetCreate } from "../../monitoring/targets/schema.ts";
import { codesOn, ok, route, type Route } from "../../platform/http/route.ts";
import { ComponentCreate, StatusPageCreate } from "../../publishing/status-pages/schema.ts";
import { replyJson } from "./changes.ts";
import {
  ApplyReply,
  ApplyRequest,
  ExportQuery,
  ExportReply,
  ManageRequest,
  maxBytes,
  PlanReply,
  PlanRequest,
  Projects,
  SourceReply,
  SourceReport,
} from "./schema.ts";
import {
  adoptObject,
  applyConfig,
  detachObject,
  exportConfig,
  listProjects,
  planConfig,
  reportSource,
} from "./service.ts";

const shared = { auth: "tenant", tag: "Configuration as code", category: "bulk_ops" } as const;

/** Codes of faults in a document: those of the requests that make its objects. */
const documentErrors: readonly ErrorCode[] = [
  ...new Set<ErrorCode>([
    ...codesOn([TargetCreate, ChannelCreate, StatusPageCreate, ComponentCreate, MaintenanceCreate]),
    ...checkErrors,
    "UNRESOLVED_VARIABLE",
    "UNKNOWN_REFERENCE",
    "ADOPTION_REQUIRED",
    "MANAGED_ELSEWHERE",
    "BULK_TOO_LARGE",
    "INVALID_ID",
    "CHECK_KIND_IMMUTABLE",
    "CREDENTIALS_REQUIRED",
    "SECRET_UNREADABLE",
    "HEARTBEAT_ADDRESS_TAKEN",
    "INVALID_DEPENDENCY",
    "DEPENDENCY_CYCLE",
    "GROUP_CYCLE",
    "GROUP_TOO_DEEP",
    "NOT_PROBED",
    "MIN_CHECK_INTERVAL",
    "QUOTA_EXCEEDED",
    "CHANNEL_NAME_TAKEN",
    "CHANNEL_QUOTA_EXCEEDED",
    "CHANNEL_VERIFICATION_LIMIT",
    "SLUG_TAKEN",
    "INVALID_CUSTOM_DOMAIN",
    "CUSTOM_DOMAIN_TAKEN",
    "COMPONENT_ALREADY_ON_PAGE",
    "INVALID_TIME_RANGE",
    "INVALID_DURATION",
    "INVALID_RECURRENCE",
    "INSUFFICIENT_SCOPE",
    "OWNER_REQUIRED",
  ]),
];

/** Configuration as code. */
export const declaredRoutes: Route[] = [
  route("GET", "/api/v1/config", {
    ...shared,
    scope: "targets:read",
    summary: "List projects",
    description: "The projects of configuration as code with the number of their objects and their last apply.",
    replies: { 200: Projects },
    handle: async ({ ctx }) => ok(await listProjects(ctx)),
  }),
  route("POST", "/api/v1/config/plan", {
    ...shared,
    writes: false,
    summary: "Plan a document",
    description:
      "What an apply of the document would do; nothing is written. Needs the read scope of every kind that the " +
      "document or its project has, and for status pages the role owner. All faults are listed at once, up to 100.",
    bodyLimit: maxBytes,
    body: PlanRequest,
    replies: { 200: PlanReply },
    errors: ["SOURCE_IN_USE", ...documentErrors],
    handle: async ({ ctx, body, http }) =>
      ok(replyJson(await planConfig({ ...ctx, isGone: () => http.socket.destroyed }, body))),
  }),
  route("POST", "/api/v1/config/apply", {
    ...shared,
    summary: "Apply a document",
    description:
      "Does what the plan says, in one transaction; a document of discovery needs no plan. " +
      "409 PLAN_STALE where something that it read has changed, or the " +
      "document is another one. Needs the write scope of every kind, and for status pages the role owner.",
    bodyLimit: maxBytes,
    body: ApplyRequest,
    replies: { 200: ApplyReply },
    errors: ["PLAN_STALE", "PRUNE_LIMIT", "SOURCE_IN_USE", ...documentErrors],
    handle: async ({ ctx, body }) => ok(replyJson(await applyConfig(ctx, body))),
  }),
  route("POST", "/api/v1/config/source", {
    ...shared,
    category: "api_writes",
    scope: "targets:write",
    writes: false,
    summary: "Report a run of discovery",
    description:
      "What a run of discovery has found, for people; renews or ends the lease of the project. Nothing is declared.",
    body: SourceReport,
    replies: { 200: SourceReply },
    errors: ["SOURCE_IN_USE"],
    handle: async ({ ctx, body }) => ok(await reportSource(ctx, body)),
  }),
  route("GET", "/api/v1/config/export", {
    ...shared,
    scope: "targets:read",
    summary: "Export a document",
    description:
      "Stored objects as a document: those of a project, the monitors with a tag and their channels, or all. Needs " +
      "the read scopes of all kinds. Secrets are variables: the plan of the document is empty once they have values.",
    query: ExportQuery,
    replies: { 200: ExportReply },
    handle: async ({ ctx, query }) => ok(await exportConfig(ctx, query)),
  }),
  ...(["adopt", "detach"] as const).map((verb) =>
    route("POST", `/api/v1/config/${verb}`, {
      ...shared,
      scope: "targets:write",
      summary: verb === "adopt" ? "Adopt an object" : "Detach an object",
      description:
        verb === "adopt"
          ? "Lets a project declare a stored object under a key. It stays as it is until the next apply. Needs the " +
            "write scope of its kind, and for status pages the role owner."
          : "A project declares the object no longer; it stays as it is. Needs the write scope of its kind, and for " +
            "status pages the role owner.",
      body: ManageRequest,
      replies: { 204: null },
      errors: ["MANAGED_ELSEWHERE", "NOT_FOUND", "OWNER_REQUIRED"],
      handle: async ({ ctx, body }) => (verb === "adopt" ? adoptObject : detachObject)(ctx, body),
    }),
  ),
];

import Type from "typebox";
import { created, noContent, ok, route, type Route } from "../http/route.ts";
import { IdParam, paging } from "../http/wire.ts";
import { Target, TargetCreate, TargetPage, TargetPatch } from "./schema.ts";
import { createTarget, deleteTarget, getTarget, listTargets, updateTarget } from "./service.ts";

const checkErrors = [
  "EMPTY_NAME",
  "INVALID_TAG",
  "INVALID_URL_SCHEME",
  "INVALID_URL_FORMAT",
  "INVALID_HTTP_METHOD",
  "INVALID_HTTP_HEADER",
  "INVALID_STATUS_RANGE",
  "INVALID_TLS_CRED_COMBO",
  "INVALID_INTERVAL",
  "MIN_CHECK_INTERVAL",
  "INVALID_TIMEOUT",
  "INVALID_TCP_PORT",
  "INVALID_TCP_HOST",
  "INVALID_ALERT_CONFIG",
  "INVALID_REGION_POLICY",
  "REDACTION_SENTINEL",
  "SSRF_BLOCKED",
] as const;

export const targetRoutes: Route[] = [
  route({
    method: "POST",
    path: "/api/v1/targets",
    door: "tenant",
    scope: "targets:write",
    tag: "Targets",
    summary: "Create a target",
    description: "The first check runs at once; its result is readable within seconds.",
    body: TargetCreate,
    replies: { 201: Target },
    errors: checkErrors,
    handle: async ({ ctx, body }) => {
      const target = await createTarget(ctx, body);
      return created(`/api/v1/targets/${target.id}`, target);
    },
  }),
  route({
    method: "GET",
    path: "/api/v1/targets",
    door: "tenant",
    scope: "targets:read",
    tag: "Targets",
    summary: "List targets",
    query: Type.Object(
      {
        ...paging(50, 1000),
        tag: Type.Optional(Type.String({ description: "Only targets with this tag" })),
        enabled: Type.Optional(Type.Boolean()),
        q: Type.Optional(Type.String({ maxLength: 200, description: "Part of the name, URL or host" })),
      },
      { additionalProperties: false },
    ),
    replies: { 200: TargetPage },
    handle: async ({ ctx, query }) => ok(await listTargets(ctx, query)),
  }),
  route({
    method: "GET",
    path: "/api/v1/targets/{id}",
    door: "tenant",
    scope: "targets:read",
    tag: "Targets",
    summary: "Get one target",
    params: IdParam,
    replies: { 200: Target },
    errors: ["TARGET_NOT_FOUND"],
    handle: async ({ ctx, params }) => ok(await getTarget(ctx, params.id)),
  }),
  route({
    method: "PATCH",
    path: "/api/v1/targets/{id}",
    door: "tenant",
    scope: "targets:write",
    tag: "Targets",
    summary: "Change a target",
    description: "Fields left out stay as they are. An edited policy is held against the evidence at once; enabled=false closes an open incident silently.",
    params: IdParam,
    body: TargetPatch,
    replies: { 200: Target },
    errors: ["TARGET_NOT_FOUND", "CHECK_KIND_IMMUTABLE", ...checkErrors],
    handle: async ({ ctx, params, body }) => ok(await updateTarget(ctx, params.id, body)),
  }),
  route({
    method: "DELETE",
    path: "/api/v1/targets/{id}",
    door: "tenant",
    scope: "targets:write",
    tag: "Targets",
    summary: "Delete a target with its results",
    params: IdParam,
    replies: { 204: null },
    errors: ["TARGET_NOT_FOUND"],
    handle: async ({ ctx, params }) => {
      await deleteTarget(ctx, params.id);
      return noContent();
    },
  }),
];

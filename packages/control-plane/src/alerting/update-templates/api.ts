import { createdIn, ok, route, type Route } from "../../platform/http/route.ts";
import {
  UpdateTemplate,
  UpdateTemplateCreate,
  UpdateTemplatePage,
  UpdateTemplatePatch,
  UpdateTemplateQuery,
} from "./schema.ts";
import * as service from "./service.ts";

const path = "/api/v1/update-templates";
const read = { auth: "tenant", scope: "incidents:read", tag: "Update templates" } as const;
const write = { auth: "tenant", scope: "incidents:write", tag: "Update templates" } as const;

/** Saved texts of an organisation for updates of incidents and for maintenance. */
export const updateTemplateRoutes: Route[] = [
  route("GET", path, {
    ...read,
    summary: "List update templates",
    description: "By kind and name.",
    query: UpdateTemplateQuery,
    replies: { 200: UpdateTemplatePage },
    handle: async ({ ctx, query }) => ok(await service.listTemplates(ctx, query)),
  }),
  route("POST", path, {
    ...write,
    summary: "Create an update template",
    body: UpdateTemplateCreate,
    replies: { 201: UpdateTemplate },
    errors: ["UPDATE_TEMPLATE_NAME_TAKEN", "QUOTA_EXCEEDED"],
    handle: async ({ ctx, body }) => createdIn(`${path}/`, await service.createTemplate(ctx, body)),
  }),
  route("GET", `${path}/{id}`, {
    ...read,
    summary: "Read an update template",
    replies: { 200: UpdateTemplate },
    errors: ["UPDATE_TEMPLATE_NOT_FOUND"],
    handle: async ({ ctx, params }) => ok(await service.getTemplate(ctx, params.id)),
  }),
  route("PATCH", `${path}/{id}`, {
    ...write,
    summary: "Change an update template",
    body: UpdateTemplatePatch,
    replies: { 200: UpdateTemplate },
    errors: ["UPDATE_TEMPLATE_NOT_FOUND", "UPDATE_TEMPLATE_NAME_TAKEN"],
    handle: async ({ ctx, params, body }) => ok(await service.changeTemplate(ctx, params.id, body)),
  }),
  route("DELETE", `${path}/{id}`, {
    ...write,
    summary: "Delete an update template",
    replies: { 204: null },
    errors: ["UPDATE_TEMPLATE_NOT_FOUND"],
    handle: async ({ ctx, params }) => service.removeTemplate(ctx, params.id),
  }),
];

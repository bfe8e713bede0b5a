import { created, ok, route, type Route } from "../../platform/http/route.ts";
import { ListQuery, ProbeRegionPage, Region, RegionCreate, RegionPage, RegionParam, RegionPatch } from "./schema.ts";
import { createRegion, deleteRegion, getRegion, listProbeRegions, listRegions, updateRegion } from "./service.ts";

const one = { auth: "operator", tag: "Operator", params: RegionParam } as const;

export const regionRoutes: Route[] = [
  route("GET", "/api/v1/regions", {
    auth: "tenant",
    scope: "targets:read",
    tag: "Targets",
    summary: "List the regions that probe",
    query: ListQuery,
    replies: { 200: ProbeRegionPage },
    handle: async ({ ctx, query }) => ok(await listProbeRegions(ctx, query)),
  }),
  route("GET", "/operator/regions", {
    auth: "operator",
    tag: "Operator",
    summary: "List all regions",
    query: ListQuery,
    replies: { 200: RegionPage },
    handle: async ({ ctx, query }) => ok(await listRegions(ctx, query)),
  }),
  route("POST", "/operator/regions", {
    auth: "operator",
    tag: "Operator",
    summary: "Create a region",
    body: RegionCreate,
    replies: { 201: Region },
    errors: ["REGION_ID_TAKEN"],
    handle: async ({ ctx, body }) => created(`/operator/regions/${body.id}`, await createRegion(ctx, body)),
  }),
  route("GET", "/operator/regions/{id}", {
    ...one,
    summary: "Get one region",
    replies: { 200: Region },
    errors: ["REGION_NOT_FOUND"],
    handle: async ({ ctx, params }) => ok(await getRegion(ctx, params.id)),
  }),
  route("PATCH", "/operator/regions/{id}", {
    ...one,
    summary: "Change a region",
    body: RegionPatch,
    replies: { 200: Region },
    errors: ["REGION_NOT_FOUND"],
    handle: async ({ ctx, params, body }) => ok(await updateRegion(ctx, params.id, body)),
  }),
  route("DELETE", "/operator/regions/{id}", {
    ...one,
    summary: "Delete a region that nothing uses",
    replies: { 204: null },
    errors: ["REGION_NOT_FOUND", "RESOURCE_IN_USE"],
    handle: async ({ ctx, params }) => deleteRegion(ctx, params.id),
  }),
];

import Type from "typebox";
import { ok, route, type Route } from "../http/route.ts";
import { targetErrors } from "./api.ts";
import { bulkAction } from "./bulk.ts";
import { createTargets } from "./create.ts";
import { BulkAction, BulkCreate, BulkOutcome, Target } from "./schema.ts";

const bulk = {
  door: "tenant",
  tag: "Targets",
  method: "POST",
  scope: "targets:write",
  category: "bulk_ops",
  bodyLimit: 32 * 1_048_576,
  idempotent: true,
} as const;

/** Many targets at once. */
export const targetBulkRoutes: Route[] = [
  route({
    ...bulk,
    path: "/api/v1/targets/bulk",
    summary: "Create many targets",
    description:
      "All or none, in one transaction; answered in the order sent. The fields of errors begin with the place in the list: `/3/check/port`.",
    body: BulkCreate,
    replies: { 201: Type.Array(Target) },
    errors: ["BULK_EMPTY", "BULK_TOO_LARGE", "QUOTA_EXCEEDED", ...targetErrors],
    handle: async ({ ctx, body }) => ({ status: 201, body: await createTargets(ctx, body) }),
  }),
  route({
    ...bulk,
    path: "/api/v1/targets/bulk-action",
    summary: "Enable, disable, delete or tag many targets",
    description:
      "What cannot be done to one target does not keep it from the others: each id is in one of the two lists, in the order sent. An id that is there twice counts once.",
    body: BulkAction,
    replies: { 200: BulkOutcome },
    errors: ["BULK_EMPTY", "BULK_TOO_LARGE", "INVALID_TAG"],
    handle: async ({ ctx, body }) => ok(await bulkAction(ctx, body)),
  }),
];

import Type from "typebox";
import { ChannelApplied } from "../../../alerting/channels/schema.ts";
import { ok, route, type Route } from "../../../platform/http/route.ts";
import { targetErrors } from "../api.ts";
import { applyChannel, bulkAction } from "./bulk.ts";
import { createTargets } from "../write/create.ts";
import { withCreatedFindings } from "../write/unable.ts";
import { BulkAction, BulkCreate, BulkOutcome } from "./schema.ts";
import { Target } from "../schema.ts";

const bulk = {
  auth: "tenant",
  tag: "Targets",
  scope: "targets:write",
  category: "bulk_ops",
  bodyLimit: 32 * 1_048_576,
  idempotent: true,
} as const;

export const targetBulkRoutes: Route[] = [
  route("POST", "/api/v1/targets/bulk", {
    ...bulk,
    summary: "Create many targets",
    description:
      "All or nothing, in one transaction; the reply keeps the order. Error fields start with the index: " +
      "`/3/check/port`.",
    body: BulkCreate,
    replies: { 201: Type.Array(Target) },
    errors: ["BULK_EMPTY", "BULK_TOO_LARGE", "QUOTA_EXCEEDED", "REGION_INVALID", ...targetErrors],
    handle: async ({ ctx, body }) => ({
      status: 201,
      body: await withCreatedFindings(ctx, await createTargets(ctx, body)),
    }),
  }),
  route("POST", "/api/v1/targets/bulk-action", {
    ...bulk,
    summary: "Change or delete many targets",
    description:
      "A failure of one target does not affect the others: each id is in one of the two lists, in the order " +
      "sent. A duplicate id counts once.",
    body: BulkAction,
    replies: { 200: BulkOutcome },
    errors: [
      "BULK_EMPTY",
      "BULK_TOO_LARGE",
      "INVALID_TAG",
      "INVALID_INTERVAL",
      "INVALID_ALERT_CONFIG",
      "REGION_INVALID",
      "DEPENDENCY_CYCLE",
      "GROUP_CYCLE",
      "GROUP_TOO_DEEP",
    ],
    handle: async ({ ctx, body }) => ok(await bulkAction(ctx, body)),
  }),
  route("POST", "/api/v1/notification-channels/{id}/apply", {
    auth: "tenant",
    scope: "targets:write",
    category: "bulk_ops",
    tag: "Notification channels",
    summary: "Let every target notify a channel",
    description:
      "Adds the channel to the `alerts` of each target that lacks it, after those that it has. Targets with the most " +
      "channels stay as they are. New targets follow `is_default`.",
    replies: { 200: ChannelApplied },
    errors: ["CHANNEL_NOT_FOUND"],
    handle: async ({ ctx, params }) => ok({ added: await applyChannel(ctx, params.id) }),
  }),
];

import { AppError } from "@statusmesh/shared/errors";
import { createdIn, ok, route, type Route } from "../../platform/http/route.ts";
import { isChannelType, kindOf } from "./kinds/index.ts";
import {
  Channel,
  ChannelCreate,
  ChannelListQuery,
  ChannelPage,
  ChannelPatch,
  ChannelTest,
  ChannelTestReply,
  ResendReply,
} from "./schema.ts";
import {
  createChannel,
  deleteChannel,
  getChannel,
  listChannels,
  resendVerification,
  testChannel,
  testConfig,
  updateChannel,
} from "./service.ts";

const path = "/api/v1/notification-channels";
const read = { auth: "tenant", scope: "channels:read", tag: "Notification channels" } as const;
const write = { auth: "tenant", scope: "channels:write", tag: "Notification channels" } as const;
const configErrors = [
  "CHANNEL_KIND_MANAGED",
  "INVALID_CHANNEL_CONFIG",
  "INVALID_ACTIVE_HOURS",
  "REDACTION_SENTINEL",
  "SSRF_BLOCKED",
  "DOMAIN_DENYLISTED",
] as const;

/** Throws CHANNEL_KIND_MANAGED for a config of a managed kind, before other faults of the body. */
function refuseManaged(body: unknown): void {
  const type = (body as { config?: { type?: unknown } } | null)?.config?.type;
  if (!isChannelType(type) || kindOf({ type }).managed !== true) return;
  throw new AppError(
    "CHANNEL_KIND_MANAGED",
    `Channels of kind ${type} are created by a link code. See POST ${path}/${type.replace("_app", "-link")}.`,
  );
}

export const channelRoutes: Route[] = [
  route("POST", path, {
    ...write,
    summary: "Create a channel",
    body: ChannelCreate,
    onInvalidBody: refuseManaged,
    replies: { 201: Channel },
    errors: ["CHANNEL_NAME_TAKEN", "CHANNEL_QUOTA_EXCEEDED", "CHANNEL_VERIFICATION_LIMIT", ...configErrors],
    handle: async ({ ctx, body }) => createdIn(`${path}/`, await createChannel(ctx, body)),
  }),
  route("GET", path, {
    ...read,
    summary: "List the channels",
    query: ChannelListQuery,
    replies: { 200: ChannelPage },
    handle: async ({ ctx, query }) => ok(await listChannels(ctx, query)),
  }),
  route("POST", `${path}/test`, {
    ...write,
    category: "test_now",
    summary: "Send a test message by a config that is not stored",
    description: "Nothing is stored. The message is marked as a test.",
    body: ChannelTest,
    onInvalidBody: refuseManaged,
    replies: { 200: ChannelTestReply },
    errors: ["CHANNEL_TEST_FAILED", "CHANNEL_UNVERIFIED", ...configErrors],
    async handle({ ctx, body }) {
      await testConfig(ctx, body);
      return ok({ ok: true });
    },
  }),
  route("GET", `${path}/{id}`, {
    ...read,
    summary: "Read a channel",
    replies: { 200: Channel },
    errors: ["CHANNEL_NOT_FOUND"],
    handle: async ({ ctx, params }) => ok(await getChannel(ctx, params.id)),
  }),
  route("PATCH", `${path}/{id}`, {
    ...write,
    summary: "Change a channel",
    description:
      "A config replaces the stored one whole; left out, it stays with its secrets. Enabling clears disabled_reason.",
    body: ChannelPatch,
    onInvalidBody: refuseManaged,
    replies: { 200: Channel },
    errors: [
      "CHANNEL_NOT_FOUND",
      "CHANNEL_NAME_TAKEN",
      "CREDENTIALS_REQUIRED",
      "CHANNEL_VERIFICATION_LIMIT",
      ...configErrors,
    ],
    handle: async ({ ctx, params, body }) => ok(await updateChannel(ctx, params.id, body)),
  }),
  route("DELETE", `${path}/{id}`, {
    ...write,
    summary: "Delete a channel and its bindings",
    replies: { 204: null },
    errors: ["CHANNEL_NOT_FOUND"],
    handle: async ({ ctx, params }) => deleteChannel(ctx, params.id),
  }),
  route("POST", `${path}/{id}/test`, {
    ...write,
    category: "test_now",
    summary: "Send a test message through a stored channel",
    description: "Works on a disabled channel too.",
    replies: { 200: ChannelTestReply },
    errors: ["CHANNEL_NOT_FOUND", "CHANNEL_TEST_FAILED", "CHANNEL_UNVERIFIED", "DOMAIN_DENYLISTED"],
    async handle({ ctx, params }) {
      await testChannel(ctx, params.id);
      return ok({ ok: true });
    },
  }),
  route("POST", `${path}/{id}/resend-verification`, {
    ...write,
    summary: "Send the verification mail of an email channel again",
    description: "At most 5 times a day for a channel, and 20 times a day for an organisation.",
    replies: { 200: ResendReply },
    errors: ["CHANNEL_NOT_FOUND", "CHANNEL_NOT_VERIFIABLE", "CHANNEL_VERIFICATION_LIMIT"],
    handle: async ({ ctx, params }) => ok(await resendVerification(ctx, params.id)),
  }),
];

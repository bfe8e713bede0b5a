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
  DeviceCreate,
  PushKey,
  ResendReply,
} from "./schema.ts";
import { createChannel, deleteChannel, getChannel, listChannels, updateChannel } from "./service.ts";
import { deleteDevice, listDevices, pushKey, registerDevice, testDevice } from "./devices/service.ts";
import { resendVerification } from "./verification/service.ts";
import { testChannel, testConfig } from "./sending/service.ts";

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
  if (type === "web_push")
    throw new AppError(
      "CHANNEL_KIND_MANAGED",
      `Devices are registered by the browser that they notify. See POST ${path}/devices.`,
    );
  throw new AppError(
    "CHANNEL_KIND_MANAGED",
    `Channels of kind ${type} are created by a link code. See POST ${path}/${type.replace("_app", "-link")}.`,
  );
}

/** Devices belong to the account of the caller, also of a viewer. */
const own = { auth: "tenant", scope: "org:write", tag: "Notification channels" } as const;

/** The literal paths must precede the paths with the id of a channel. */
const deviceRoutes: Route[] = [
  route("GET", `${path}/devices/key`, {
    ...read,
    summary: "Read the key that a browser subscribes to push messages with",
    description: "For `PushManager.subscribe({applicationServerKey})`. One key pair serves the whole installation.",
    replies: { 200: PushKey },
    handle: async ({ ctx }) => ok({ public_key: await pushKey(ctx) }),
  }),
  route("POST", `${path}/devices`, {
    ...own,
    summary: "Register a browser as a device of the caller",
    description:
      "The same endpoint again updates its device and answers 200; one that another person registered is the " +
      "caller's from then on. A device is personal: only its person and owners bind it, and it ends with the " +
      "membership.",
    body: DeviceCreate,
    replies: { 200: Channel, 201: Channel },
    errors: [
      "CHANNEL_NAME_INVALID",
      "CHANNEL_QUOTA_EXCEEDED",
      "INVALID_CHANNEL_CONFIG",
      "REDACTION_SENTINEL",
      "SSRF_BLOCKED",
      "DOMAIN_DENYLISTED",
    ],
    async handle({ ctx, body }) {
      const { device, isNew } = await registerDevice(ctx, body);
      return isNew ? createdIn(`${path}/`, device) : ok(device);
    },
  }),
  route("GET", `${path}/devices`, {
    ...read,
    summary: "List own devices; for owners, those of every member",
    query: ChannelListQuery,
    replies: { 200: ChannelPage },
    handle: async ({ ctx, query }) => ok(await listDevices(ctx, query)),
  }),
  route("DELETE", `${path}/devices/{id}`, {
    ...own,
    summary: "Delete a device and its bindings",
    replies: { 204: null },
    errors: ["CHANNEL_NOT_FOUND"],
    handle: async ({ ctx, params }) => deleteDevice(ctx, params.id),
  }),
  route("POST", `${path}/devices/{id}/test`, {
    ...own,
    category: "test_now",
    summary: "Send a test message to a device",
    replies: { 200: ChannelTestReply },
    errors: ["CHANNEL_NOT_FOUND", "CHANNEL_TEST_FAILED", "DOMAIN_DENYLISTED"],
    async handle({ ctx, params }) {
      await testDevice(ctx, params.id);
      return ok({ ok: true });
    },
  }),
];

export const channelRoutes: Route[] = [
  ...deviceRoutes,
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

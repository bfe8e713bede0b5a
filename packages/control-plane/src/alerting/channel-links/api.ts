import { visitorAddress } from "../../platform/http/per-ip.ts";
import Type from "typebox";
import {
  createdIn,
  isBrowser,
  noContent,
  ok,
  type Reply,
  route,
  type Route,
  seeOther,
} from "../../platform/http/route.ts";
import { Text } from "../../platform/http/wire.ts";
import {
  CodeCreate,
  CodeState,
  ConnectBody,
  DelegateCreate,
  DelegationPage,
  DelegationQuery,
  NewDelegationLink,
  TelegramCode,
  WhatsappCode,
} from "./schema.ts";
import {
  codeState,
  connectDelegated,
  createDelegation,
  createTelegramCode,
  createWhatsappCode,
  listDelegations,
  revokeDelegation,
} from "./service.ts";
import type { Context } from "koa";
import { AppError } from "@statusmesh/shared/errors";
import { confirmAddress, unsubscribe } from "../channels/service.ts";

const path = "/api/v1/notification-channels";
const tag = "Notification channels";
const read = { auth: "tenant", scope: "channels:read", tag } as const;
const write = { auth: "tenant", scope: "channels:write", tag } as const;

/** Codes that create channels. The literal paths must precede the paths with the id of a channel. */
export const channelLinkRoutes: Route[] = [
  route("POST", `${path}/telegram-link`, {
    ...write,
    summary: "Issue a code that connects a Telegram chat",
    description: "Absent (404) where the installation has no bot. At most 20 codes are pending, each for 15 minutes.",
    body: CodeCreate,
    bodyOptional: true,
    replies: { 201: TelegramCode },
    errors: ["TELEGRAM_LINK_NOT_FOUND", "TELEGRAM_LINK_LIMIT", "CHANNEL_NAME_INVALID"],
    handle: async ({ ctx, body }) => createdIn(`${path}/telegram-link/`, await createTelegramCode(ctx, body)),
  }),
  route("GET", `${path}/telegram-link/{id}`, {
    ...read,
    summary: "Read the state of a Telegram code",
    replies: { 200: CodeState },
    errors: ["TELEGRAM_LINK_NOT_FOUND"],
    handle: async ({ ctx, params }) => ok(await codeState(ctx, "telegram", params.id)),
  }),
  route("POST", `${path}/whatsapp-link`, {
    ...write,
    summary: "Issue a code that connects a phone with WhatsApp",
    description:
      "Absent (404) where the installation has no number. At most 20 codes are pending, each for 15 minutes.",
    body: CodeCreate,
    bodyOptional: true,
    replies: { 201: WhatsappCode },
    errors: ["WHATSAPP_LINK_NOT_FOUND", "WHATSAPP_LINK_LIMIT", "CHANNEL_NAME_INVALID"],
    handle: async ({ ctx, body }) => createdIn(`${path}/whatsapp-link/`, await createWhatsappCode(ctx, body)),
  }),
  route("GET", `${path}/whatsapp-link/{id}`, {
    ...read,
    summary: "Read the state of a WhatsApp code",
    replies: { 200: CodeState },
    errors: ["WHATSAPP_LINK_NOT_FOUND"],
    handle: async ({ ctx, params }) => ok(await codeState(ctx, "whatsapp", params.id)),
  }),
  route("POST", `${path}/delegate`, {
    ...write,
    summary: "Issue a link with which a person without an account creates one channel",
    description: "Valid for 7 days, for one channel. At most 50 links are pending.",
    body: DelegateCreate,
    bodyOptional: true,
    replies: { 201: NewDelegationLink },
    errors: ["DELEGATE_LINK_LIMIT", "DELEGATE_KIND_INVALID", "CHANNEL_NAME_INVALID"],
    handle: async ({ ctx, body }) => createdIn(`${path}/delegate#`, await createDelegation(ctx, body)),
  }),
  route("GET", `${path}/delegate`, {
    ...read,
    summary: "List the delegation links",
    query: DelegationQuery,
    replies: { 200: DelegationPage },
    handle: async ({ ctx, query }) => ok(await listDelegations(ctx, query)),
  }),
  route("DELETE", `${path}/delegate/{id}`, {
    ...write,
    summary: "Revoke a pending delegation link",
    replies: { 204: null },
    errors: ["DELEGATE_LINK_NOT_FOUND"],
    handle: async ({ ctx, params }) => revokeDelegation(ctx, params.id),
  }),
  route("POST", "/c/{code}", {
    auth: "public",
    tag,
    summary: "Create the channel of a delegation link",
    description: "Needs no credential: the code is one, and creates one channel in the organisation that issued it.",
    params: Type.Object({ code: Text("Code of the link", "J3v") }),
    body: ConnectBody,
    replies: { 204: null },
    errors: [
      "CHANNEL_LINK_INVALID",
      "CHANNEL_NAME_INVALID",
      "CHANNEL_NAME_TAKEN",
      "CHANNEL_QUOTA_EXCEEDED",
      "CHANNEL_VERIFICATION_LIMIT",
      "INVALID_CHANNEL_CONFIG",
      "REDACTION_SENTINEL",
      "SSRF_BLOCKED",
      "DOMAIN_DENYLISTED",
    ],
    async handle({ ctx, params, body, http }) {
      const by = { ip: visitorAddress(http, ctx.config), userAgent: http.get("user-agent") || null };
      await connectDelegated(ctx, params.code, body, by);
    },
  }),
];

const CodeParam = Type.Object({
  code: Text("Code of the link", "V2hhdCBhIGNvZGUgbG9va3MgbGlrZSwgNDMgY2hhcnM"),
});

/** Links in mails. A GET shows a page with a button and changes nothing, because scanners of mails open links. */
export const mailLinkRoutes: Route[] = [
  route("POST", "/confirm/{code}", {
    auth: "public",
    tag,
    summary: "Confirm the address of an email channel",
    description: "Needs no credential: the code of the verification mail is one, and works once.",
    params: CodeParam,
    replies: { 204: null, 303: null },
    errors: ["CHANNEL_LINK_INVALID"],
    handle: async ({ ctx, params, http }) =>
      forBrowsers(http, async () => confirmAddress(ctx, params.code, visitorAddress(http, ctx.config))),
  }),
  route("POST", "/unsubscribe/{id}/{code}", {
    auth: "public",
    tag,
    summary: "Stop the mails of an email channel",
    description: "The one-click unsubscription of RFC 8058. The channel is disabled; its owners see why.",
    params: Type.Object({
      id: Text("Id of the channel", "0190a000-0000-7000-8000-000000000001"),
      ...CodeParam.properties,
    }),
    replies: { 204: null, 303: null },
    errors: ["CHANNEL_LINK_INVALID"],
    handle: async ({ ctx, params, http }) =>
      forBrowsers(http, async () => unsubscribe(ctx, params.id, params.code, visitorAddress(http, ctx.config))),
  }),
];

/** Runs a change. A form gets the page again with the outcome; programs get 204. */
async function forBrowsers(http: Context, change: () => Promise<void>): Promise<Reply> {
  try {
    await change();
  } catch (error) {
    if (!isBrowser(http) || !(error instanceof AppError) || error.code !== "CHANNEL_LINK_INVALID") throw error;
    return seeOther(http.path);
  }
  return isBrowser(http) ? seeOther(`${http.path}?done=1`) : noContent();
}

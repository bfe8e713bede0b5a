import { visitorAddress } from "../../platform/http/limits/per-ip.ts";
import Type, { type TSchema } from "typebox";
import {
  createdIn,
  hasForm,
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
  createCode,
  createDelegation,
  listDelegations,
  type Messenger,
  purposes,
  revokeDelegation,
} from "./service.ts";
import type { Context } from "koa";
import { AppError } from "@statusmesh/shared/errors";
import { confirmAddress, unsubscribe } from "../channels/verification/service.ts";

const path = "/api/v1/notification-channels";
const tag = "Notification channels";
const read = { auth: "tenant", scope: "channels:read", tag } as const;
const write = { auth: "tenant", scope: "channels:write", tag } as const;

/** Codes of a messenger. `connects` is what a code connects, `account` what the installation needs for it. */
const codeRoutes = (
  purpose: Messenger,
  Code: TSchema,
  { name, connects, account }: { name: string; connects: string; account: string },
): Route[] => [
  route("POST", `${path}/${purpose}-link`, {
    ...write,
    summary: `Issue a code that connects ${connects}`,
    description:
      `Absent (404) where the installation has no ${account}. ` +
      `At most ${purposes[purpose].most} codes are pending, each for 15 minutes.`,
    body: CodeCreate,
    bodyOptional: true,
    replies: { 201: Code },
    errors: [purposes[purpose].absent, purposes[purpose].limit, "CHANNEL_NAME_INVALID"],
    handle: async ({ ctx, body }) => createdIn(`${path}/${purpose}-link/`, await createCode(ctx, purpose, body)),
  }),
  route("GET", `${path}/${purpose}-link/{id}`, {
    ...read,
    summary: `Read the state of a ${name} code`,
    replies: { 200: CodeState },
    errors: [purposes[purpose].absent],
    handle: async ({ ctx, params }) => ok(await codeState(ctx, purpose, params.id)),
  }),
];

/** Codes that create channels. The literal paths must precede the paths with the id of a channel. */
export const channelLinkRoutes: Route[] = [
  ...codeRoutes("telegram", TelegramCode, { name: "Telegram", connects: "a Telegram chat", account: "bot" }),
  ...codeRoutes("whatsapp", WhatsappCode, { name: "WhatsApp", connects: "a phone with WhatsApp", account: "number" }),
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
      forBrowsers(http, isBrowser(http) || hasForm(http), async () =>
        confirmAddress(ctx, params.code, visitorAddress(http, ctx.config)),
      ),
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
      // Mail programs send the form of RFC 8058, and follow no redirect.
      forBrowsers(http, isBrowser(http), async () =>
        unsubscribe(ctx, params.id, params.code, visitorAddress(http, ctx.config)),
      ),
  }),
];

/** Runs a change. A form gets the page again with the outcome; programs get 204. */
async function forBrowsers(http: Context, isForm: boolean, change: () => Promise<void>): Promise<Reply> {
  try {
    await change();
  } catch (error) {
    if (!isForm || !(error instanceof AppError) || error.code !== "CHANNEL_LINK_INVALID") throw error;
    return seeOther(http.path);
  }
  return isForm ? seeOther(`${http.path}?done=1`) : noContent();
}

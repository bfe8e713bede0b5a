import type { Context } from "koa";
import { AppError } from "@statusmesh/shared/errors";
import { validate } from "@statusmesh/shared/schema/validate";
import { readForm, readJson } from "../../platform/http/body/body.ts";
import type { Visit } from "../../platform/context.ts";
import { csvReply } from "../../platform/http/reply/csv.ts";
import { visitorAddress } from "../../platform/http/limits/per-ip.ts";
import { isBrowser, noContent, ok, route, type Route, seeOther } from "../../platform/http/route.ts";
import { Text } from "../../platform/http/wire.ts";
import { zoneName } from "@statusmesh/shared/zoned";
import {
  Accepted,
  SubscriberImport,
  SubscribersImported,
  SubscriberPage,
  SubscriberParams,
  SubscriberQuery,
  SubscriptionChange,
  SubscriptionRequest,
  TokenParam,
} from "./schema.ts";
import * as service from "./service.ts";

const tag = "Subscribers";
const read = { auth: "tenant", scope: "status_page:read", role: "owner", tag } as const;
const write = { auth: "tenant", scope: "status_page:write", role: "owner", tag } as const;
const maxBytes = 65_536;
const base = "/api/v1/status-pages/{id}/subscribers";
const badBodies = [
  "INVALID_JSON",
  "INVALID_BODY",
  "UNKNOWN_FIELD",
  "UNSUPPORTED_MEDIA_TYPE",
  "PAYLOAD_TOO_LARGE",
] as const;
const message = "If the address is not subscribed yet, a confirmation link is sent to it.";

/** The body of a request, JSON or a form. `scope=all` of a form means every component. */
async function bodyOf(http: Context): Promise<Record<string, unknown>> {
  if (http.is("application/x-www-form-urlencoded") !== "application/x-www-form-urlencoded") {
    const body = await readJson(http, maxBytes);
    if (typeof body === "object" && body !== null && !Array.isArray(body)) return body as Record<string, unknown>;
    throw new AppError("INVALID_BODY", "The body must be an object.");
  }
  const form = await readForm(http, maxBytes);
  const ids = form.getAll("component_ids");
  const texts = Object.fromEntries(
    ["email", "webhook_url", "language"].flatMap((name) => (form.get(name) ? [[name, form.get(name)!.trim()]] : [])),
  );
  // The browser says it, not the visitor: one that is not known here is no reason to refuse.
  const zone = zoneName(form.get("time_zone") ?? "");
  const all = form.get("scope") === "all" || ids.length === 0;
  return {
    ...texts,
    ...(zone === null ? {} : { time_zone: zone }),
    ...(all ? {} : { component_ids: ids }),
    ...(form.has("confirm") ? { confirm: true } : {}),
    ...(form.has("scope") && all && !texts["email"] && !texts["webhook_url"] ? { component_ids: null } : {}),
  };
}

const baseOf = ({ pagePath }: Visit): string => pagePath ?? "/status";

export const subscriberRoutes: Route[] = [
  route("POST", "/status/subscriptions", {
    auth: "page",
    tag,
    summary: "Subscribe to a status page",
    description:
      "JSON or a form with `email` or `webhook_url`, and optional `component_ids`, `time_zone` and `language`. An " +
      "address gets a confirmation link, a webhook a challenge that its reply must repeat.",
    replies: { 202: Accepted, 303: null },
    errors: [
      ...badBodies,
      "NOT_FOUND",
      "INVALID_COMPONENT_ID",
      "INVALID_TIME_ZONE",
      "INVALID_CHANNEL_CONFIG",
      "SSRF_BLOCKED",
      "DOMAIN_DENYLISTED",
      "RATE_LIMITED",
    ],
    handle: async ({ ctx, http }) => {
      const browser = isBrowser(http);
      let input: SubscriptionRequest | undefined;
      const formWith = (outcome: string) =>
        seeOther(
          `${baseOf(ctx)}/subscribe?${outcome}${input?.language === undefined ? "" : `&lang=${input.language}`}`,
        );
      try {
        input = validate(SubscriptionRequest, await bodyOf(http)) as SubscriptionRequest;
        await service.subscribe(ctx, input, visitorAddress(http, ctx.config));
      } catch (error) {
        if (!browser || !(error instanceof AppError) || error.status === 404 || error.status >= 500) throw error;
        return formWith(`error=${error.code === "RATE_LIMITED" ? "limit" : "input"}`);
      }
      return browser
        ? formWith(`done=${input.email === undefined ? "webhook" : "mail"}`)
        : { status: 202, body: { message } };
    },
  }),
  route("POST", "/status/subscriptions/{token}", {
    auth: "page",
    tag,
    summary: "Confirm a subscription or choose its components",
    description: "JSON or a form with `confirm` and `component_ids` (null: all).",
    params: TokenParam,
    replies: { 204: null, 303: null },
    errors: [...badBodies, "SUBSCRIPTION_NOT_FOUND", "INVALID_COMPONENT_ID"],
    handle: async ({ ctx, params, http }) => {
      const change = validate(SubscriptionChange, await bodyOf(http)) as SubscriptionChange;
      await service.changeSubscription(ctx, params.token, change);
      return isBrowser(http)
        ? seeOther(`${baseOf(ctx)}/subscriptions/${params.token}?${change.confirm === true ? "confirmed" : "saved"}=1`)
        : noContent();
    },
  }),
  route("POST", "/status/subscriptions/{token}/unsubscribe", {
    auth: "public",
    tag,
    summary: "End a subscription",
    description: "The one-click unsubscription of RFC 8058. The address is deleted; a repetition changes nothing.",
    params: TokenParam,
    replies: { 204: null, 303: null },
    handle: async ({ ctx, params, http }) => {
      await service.unsubscribe(ctx, params.token);
      return isBrowser(http) ? seeOther(`${baseOf(ctx)}/subscriptions/${params.token}?ended=1`) : noContent();
    },
  }),
  route("GET", base, {
    ...read,
    summary: "List the subscribers of a status page",
    description: "Newest first. Addresses are masked.",
    query: SubscriberQuery,
    replies: { 200: SubscriberPage },
    errors: ["STATUS_PAGE_NOT_FOUND"],
    cache: "no-store",
    handle: async ({ ctx, params, query }) => ok(await service.listSubscribers(ctx, params.id, query)),
  }),
  route("GET", `${base}/export`, {
    ...read,
    summary: "Export the confirmed subscribers of a status page",
    description: "CSV (RFC 4180) with full addresses, by kind and address. Sent while it is read.",
    replies: { 200: Text("CSV", "kind,address,created_at,confirmed_at") },
    errors: ["STATUS_PAGE_NOT_FOUND"],
    mediaType: "text/csv",
    cache: "no-store",
    handle: async ({ ctx, params }) => csvReply("subscribers.csv", await service.exportSubscribers(ctx, params.id)),
  }),
  route("POST", `${base}/import`, {
    ...write,
    category: "bulk_ops",
    summary: "Import subscribers",
    description:
      "Subscribers of another product who have confirmed there. No confirmation is sent; the first message to each " +
      "says where the address comes from. An address that has unsubscribed from this page is never subscribed again " +
      "by an import. An item that cannot be added is listed with its reason and does not affect the others.",
    bodyLimit: 8 * 1_048_576,
    body: SubscriberImport,
    replies: { 200: SubscribersImported },
    errors: ["STATUS_PAGE_NOT_FOUND", "BULK_EMPTY", "BULK_TOO_LARGE", "INVALID_COMPONENT_ID"],
    handle: async ({ ctx, params, body }) => ok(await service.importSubscribers(ctx, params.id, body)),
  }),
  route("DELETE", `${base}/{subscriber_id}`, {
    ...write,
    summary: "Remove a subscriber",
    params: SubscriberParams,
    replies: { 204: null },
    errors: ["STATUS_PAGE_NOT_FOUND", "SUBSCRIBER_NOT_FOUND"],
    handle: async ({ ctx, params }) => service.removeSubscriber(ctx, params.id, params.subscriber_id),
  }),
];

import type { Context, Middleware } from "koa";
import Type from "typebox";
import type { System } from "../../platform/context.ts";
import { noContent, ok, route, type Route } from "../../platform/http/route.ts";
import { objectIn, rawBody } from "./reading.ts";
import {
  authenticatePagerDuty,
  authenticateResend,
  authenticateSlack,
  authenticateTelegram,
  authenticateWhatsapp,
  handlePagerDuty,
  handleResend,
  handleSlack,
  handleSms,
  handleTelegram,
  handleWhatsapp,
  whatsappChallenge,
} from "./service.ts";
import { atRoute } from "../../platform/http/exchange.ts";

const Handled = Type.Object(
  {},
  { additionalProperties: true, title: "HookHandled", description: "Empty, or a method that Telegram calls" },
);
const errors = ["NOT_FOUND", "UNAUTHENTICATED", "PAYLOAD_TOO_LARGE", "RATE_LIMITED"] as const;

interface Hook {
  path: string;
  summary: string;
  /** Authenticates the request and handles its events. Returns the body of the reply, null for none. */
  handle(system: System, http: Context): Promise<object | null>;
}

/** Providers read a reply as instructions: there is none. */
async function smsHook(system: System, http: Context, provider: string): Promise<null> {
  const form = new URLSearchParams((await rawBody(http.req)).toString("utf8"));
  const url = `${system.config.server.public_url}${http.path}`;
  await handleSms(system, provider, { url, form, header: (name) => http.get(name) });
  return null;
}

/** Requests of vendors. A body is read byte for byte, because its signature covers the bytes. */
const hooks: Hook[] = [
  {
    path: "/hooks/telegram",
    summary: "Updates of the Telegram bot",
    async handle(system, http) {
      authenticateTelegram(system, http.get("x-telegram-bot-api-secret-token"));
      return await handleTelegram(system, objectIn(await rawBody(http.req)));
    },
  },
  {
    path: "/hooks/slack",
    summary: "Buttons of messages in Slack",
    async handle(system, http) {
      const body = await rawBody(http.req);
      const [timestamp, signature] = [http.get("x-slack-request-timestamp"), http.get("x-slack-signature")];
      authenticateSlack(system, { timestamp, signature }, body);
      await handleSlack(system, body);
      return {};
    },
  },
  {
    path: "/hooks/sms/twilio",
    summary: "Text messages to a number at Twilio",
    handle: async (system, http) => await smsHook(system, http, "twilio"),
  },
  {
    path: "/hooks/sms/plivo",
    summary: "Text messages to a number at Plivo",
    handle: async (system, http) => await smsHook(system, http, "plivo"),
  },
  {
    path: "/hooks/whatsapp",
    summary: "Messages to the WhatsApp number",
    async handle(system, http) {
      const body = await rawBody(http.req);
      authenticateWhatsapp(system, http.get("x-hub-signature-256"), body);
      await handleWhatsapp(system, objectIn(body));
      return {};
    },
  },
  {
    path: "/hooks/pagerduty",
    summary: "Acknowledgements at PagerDuty",
    async handle(system, http) {
      const body = await rawBody(http.req);
      authenticatePagerDuty(system, http.get("x-pagerduty-signature"), body);
      await handlePagerDuty(system, objectIn(body));
      return {};
    },
  },
  {
    path: "/hooks/resend",
    summary: "Bounces and complaints that Resend reports",
    async handle(system, http) {
      const body = await rawBody(http.req);
      const [id, timestamp, signature] = [http.get("svix-id"), http.get("svix-timestamp"), http.get("svix-signature")];
      authenticateResend(system, { id, timestamp, signature }, body);
      await handleResend(system, id, objectIn(body));
      return {};
    },
  },
];

export const hookRoutes: Route[] = hooks.map(({ path, summary, handle }) =>
  route("POST", path, {
    auth: "public",
    tag: "Hooks",
    summary,
    description: "Absent (404) until it is configured. Unknown and repeated events are ignored. At most 64 KiB.",
    replies: { 200: Handled, 204: null },
    errors,
    async handle({ ctx, http }) {
      const body = await handle(ctx, http);
      return body === null ? noContent() : ok(body);
    },
  }),
);

/**
 * Answers the verification request of Meta with its challenge as plain text
 * (https://developers.facebook.com/docs/graph-api/webhooks/getting-started). Routes answer JSON, so this is middleware.
 */
export function whatsappHandshake(system: System): Middleware {
  return (http, next) => {
    if (http.path !== "/hooks/whatsapp" || http.method !== "GET") return next();
    const asked = http.URL.searchParams;
    if (system.config.channels.whatsapp.verify_token === "" || !asked.has("hub.mode")) return next();
    atRoute(http, "/hooks/whatsapp");
    const challenge = whatsappChallenge(system, asked);
    http.set("Cache-Control", "no-store");
    http.type = "text/plain; charset=utf-8";
    http.body = challenge;
    return undefined;
  };
}

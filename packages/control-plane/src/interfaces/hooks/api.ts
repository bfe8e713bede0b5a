import type { Context } from "koa";
import Type from "typebox";
import type { System } from "../../platform/context.ts";
import { ok, route, type Route } from "../../platform/http/route.ts";
import { objectIn, rawBody } from "./reading.ts";
import {
  authenticateResend,
  authenticateTelegram,
  authenticateWhatsapp,
  handleResend,
  handleTelegram,
  handleWhatsapp,
} from "./service.ts";

const Handled = Type.Object(
  {},
  { additionalProperties: true, title: "HookHandled", description: "Empty, or a method that Telegram calls" },
);
const errors = ["NOT_FOUND", "UNAUTHENTICATED", "PAYLOAD_TOO_LARGE", "RATE_LIMITED"] as const;

interface Hook {
  path: string;
  summary: string;
  /** Authenticates the request and handles its events. Returns the body of the reply. */
  handle(system: System, http: Context): Promise<object>;
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
  route({
    method: "POST",
    path,
    auth: "public",
    tag: "Hooks",
    summary,
    description: "Absent (404) until it is configured. Unknown and repeated events are ignored. At most 64 KiB.",
    replies: { 200: Handled },
    errors,
    handle: async ({ ctx, http }) => ok(await handle(ctx, http)),
  }),
);

import Type from "typebox";
import { ok, route, type Route } from "../http/route.ts";
import { objectIn, rawBody } from "./reading.ts";
import {
  authenticateResend,
  authenticateTelegram,
  authenticateWhatsapp,
  handleResend,
  handleTelegram,
  handleWhatsapp,
} from "./service.ts";

const tag = "Hooks";
const Handled = Type.Object(
  {},
  { additionalProperties: true, title: "HookHandled", description: "Empty, or a method that Telegram calls" },
);
const absent = "Absent (404) until it is configured. Events that are unknown, and those handled before, are ignored.";

/** Requests of vendors. Their bodies are read after their shape is known to be signed, byte for byte. */
export const hookRoutes: Route[] = [
  route({
    method: "POST",
    path: "/hooks/telegram",
    auth: "public",
    tag,
    summary: "Updates of the Telegram bot",
    description: absent,
    replies: { 200: Handled },
    errors: ["NOT_FOUND", "UNAUTHENTICATED", "PAYLOAD_TOO_LARGE"],
    async handle({ ctx, http }) {
      authenticateTelegram(ctx, http.get("x-telegram-bot-api-secret-token"));
      return ok(await handleTelegram(ctx, objectIn(await rawBody(http.req))));
    },
  }),
  route({
    method: "POST",
    path: "/hooks/whatsapp",
    auth: "public",
    tag,
    summary: "Messages to the WhatsApp number",
    description: absent,
    replies: { 200: Handled },
    errors: ["NOT_FOUND", "UNAUTHENTICATED", "PAYLOAD_TOO_LARGE"],
    async handle({ ctx, http }) {
      const body = await rawBody(http.req);
      authenticateWhatsapp(ctx, http.get("x-hub-signature-256"), body);
      await handleWhatsapp(ctx, objectIn(body));
      return ok({});
    },
  }),
  route({
    method: "POST",
    path: "/hooks/resend",
    auth: "public",
    tag,
    summary: "Bounces and complaints that Resend reports",
    description: absent,
    replies: { 200: Handled },
    errors: ["NOT_FOUND", "UNAUTHENTICATED", "PAYLOAD_TOO_LARGE"],
    async handle({ ctx, http }) {
      const body = await rawBody(http.req);
      const headers = {
        id: http.get("svix-id"),
        timestamp: http.get("svix-timestamp"),
        signature: http.get("svix-signature"),
      };
      authenticateResend(ctx, headers, body);
      await handleResend(ctx, headers.id, objectIn(body));
      return ok({});
    },
  }),
];

import Type from "typebox";
import { chatText, fitted } from "../sending/message-text.ts";
import { messageText } from "../sending/message.ts";
import { deliver, jsonRequest } from "./deliver.ts";
import { channelKind, invalid, vendorUrl, WebhookUrl } from "./kind.ts";
import { Shape } from "../../../platform/http/wire.ts";

/**
 * UTF-16 units, which are never fewer than characters; a message has at most 32,000 bytes
 * (https://developers.google.com/workspace/chat/api/reference/rest/v1/spaces.messages/create).
 */
const maxTextLength = 4096;
const wanted =
  "This is not a webhook of Google Chat. Its URL begins with https://chat.googleapis.com/v1/spaces/ and " +
  "ends with key and token. Copy it under Apps & integrations of the space.";

const GoogleChatConfig = Shape("GoogleChatConfig", "Posts to a Google Chat space", {
  type: Type.Literal("google_chat"),
  webhook_url: WebhookUrl({
    description: "Webhook of a Google Chat space; reads as ***",
    examples: ["https://chat.googleapis.com/v1/spaces/AAAA/messages?key=XXXX&token=YYYY"],
    placeholder: "https://chat.googleapis.com/v1/spaces/…",
    hint: "In Google Chat: Apps & integrations, Webhooks. Stored encrypted.",
  }),
});

/**
 * Google Chat has no escape character (https://developers.google.com/workspace/chat/format-messages), so the
 * characters of its formatting become look-alikes. An underscore inside a word has no effect and stays.
 */
const unformatted = (text: string): string =>
  text
    .replaceAll("<", "‹")
    .replaceAll(">", "›")
    .replaceAll("*", "∗")
    .replaceAll("~", "∼")
    .replaceAll("`", "ˋ")
    .replaceAll(/(?<![\p{L}\p{N}])_|_(?![\p{L}\p{N}])/gu, "ˍ");

/** Google Chat webhook: https://developers.google.com/workspace/chat/quickstart/webhooks. */
export const googleChat = channelKind({
  type: "google_chat",
  label: "Google Chat",
  purpose: "A message in a space",
  icon: "googlechat",
  delegable: () => true,
  schema: GoogleChatConfig,
  address: ({ webhook_url }) => ({ url: webhook_url, pointer: "/webhook_url" }),
  rules({ webhook_url }) {
    const { pathname, searchParams } = vendorUrl(webhook_url, "/webhook_url", ["chat.googleapis.com"], wanted);
    const isWebhook = /^\/v1\/spaces\/[^/]+\/messages$/.test(pathname);
    if (!isWebhook || !searchParams.get("key") || !searchParams.get("token")) invalid(wanted, "/webhook_url");
  },
  async send({ webhook_url }, { content }, { http }) {
    const text = fitted(messageText(content), chatText(unformatted), maxTextLength);
    await deliver(http, jsonRequest(webhook_url, { text }, { "content-type": "application/json; charset=UTF-8" }));
  },
});

import Type from "typebox";
import { chatText, fitted } from "../sending/message-text.ts";
import { messageText } from "../sending/message.ts";
import { deliver, jsonRequest } from "./deliver.ts";
import { channelKind, invalid, ownServer, WebhookUrl } from "./kind.ts";
import { Shape } from "../../../platform/http/wire.ts";

/** https://developers.mattermost.com/integrate/webhooks/incoming/#tips-and-best-practices. */
const maxTextLength = 16_383;

const MattermostConfig = Shape("MattermostConfig", "Posts to a Mattermost channel", {
  type: Type.Literal("mattermost"),
  webhook_url: WebhookUrl({
    description: "Incoming webhook of a Mattermost server; reads as ***",
    examples: ["https://mattermost.example.org/hooks/xxx-generatedkey-xxx"],
    placeholder: "https://mattermost.example.org/hooks/…",
    hint: "In Mattermost: Integrations, Incoming Webhooks, Add. Stored encrypted.",
  }),
});

/**
 * Escapes Markdown (https://docs.mattermost.com/collaborate/format-messages.html). Mentions,
 * emoji names and links have no escape: a zero-width space keeps them from being made.
 */
const escaped = (text: string): string =>
  text
    .replaceAll(/[\\`*_{}[\]()#+\-!|<>~]/g, "\\$&")
    .replaceAll("@", "@\u200b")
    .replaceAll(/:(?=\/\/|[\w+\\-]+:)/g, ":\u200b")
    .replaceAll(/\bwww\./gi, "$&\u200b");

/** Mattermost incoming webhook: https://developers.mattermost.com/integrate/webhooks/incoming/. */
export const mattermost = channelKind({
  type: "mattermost",
  label: "Mattermost",
  purpose: "A message in a channel",
  icon: "mattermost",
  delegable: () => true,
  schema: MattermostConfig,
  address: ({ webhook_url }) => ({ url: webhook_url, pointer: "/webhook_url" }),
  rules({ webhook_url }, allowed) {
    const { pathname } = ownServer(webhook_url, "/webhook_url", allowed);
    if (!/\/hooks\/[A-Za-z0-9_-]+$/.test(pathname))
      invalid("This is not an incoming webhook of Mattermost. Its URL ends with /hooks/ and a key.", "/webhook_url");
  },
  async send({ webhook_url }, { content }, { http }) {
    const render = chatText(escaped, (link) => `<${link}>`);
    const text = fitted(messageText(content), render, maxTextLength);
    await deliver(http, jsonRequest(webhook_url, { text }));
  },
});

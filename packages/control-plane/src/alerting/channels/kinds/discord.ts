import Type from "typebox";
import { chatText, fitted } from "../sending/message-text.ts";
import { messageText } from "../sending/message.ts";
import { deliver, jsonRequest } from "./deliver.ts";
import { channelKind, invalid, vendorUrl, WebhookUrl } from "./kind.ts";
import { Shape } from "../../../platform/http/wire.ts";

/** https://docs.discord.com/developers/resources/webhook#execute-webhook. UTF-16 units, which are never fewer than characters. */
const maxContentLength = 2000;
/** No previews of links (https://docs.discord.com/developers/resources/message#message-object-message-flags). */
const suppressEmbeds = 4;
/** The stable client and its test builds, which copy URLs with their own host. */
const hosts = ["discord.com", "discordapp.com", "canary.discord.com", "ptb.discord.com"];
const wanted =
  "This is not a webhook of Discord. Its URL begins with https://discord.com/api/webhooks/, and is copied in the settings of the channel.";

const DiscordConfig = Shape("DiscordConfig", "Posts to a Discord channel", {
  type: Type.Literal("discord"),
  webhook_url: WebhookUrl({
    description: "Webhook of a Discord channel; reads as ***",
    examples: ["https://discord.com/api/webhooks/1234567890/XXXX"],
    placeholder: "https://discord.com/api/webhooks/…",
    hint: "In Discord: Edit channel, Integrations, Webhooks. Stored encrypted.",
  }),
});

/**
 * Escapes Markdown and mentions (https://docs.discord.com/developers/reference#message-formatting). A backslash
 * between the slashes of a URL keeps it from becoming a link.
 */
const escaped = (text: string): string => text.replaceAll(/[\\*_~`|<>@[\]]/g, "\\$&").replaceAll("://", ":\\//");

/** Discord webhook; `wait=true` returns the outcome of the message, and `allowed_mentions` disables mentions. */
export const discord = channelKind({
  type: "discord",
  label: "Discord",
  purpose: "A message in a server",
  icon: "discord",
  delegable: () => true,
  schema: DiscordConfig,
  address: ({ webhook_url }) => ({ url: webhook_url, pointer: "/webhook_url" }),
  rules({ webhook_url }) {
    const { pathname } = vendorUrl(webhook_url, "/webhook_url", hosts, wanted);
    const [, token, suffix] = /^\/api\/webhooks\/\d+\/([\w-]+)(\/.*)?$/.exec(pathname) ?? [];
    if (token === undefined) invalid(wanted, "/webhook_url");
    if (suffix !== undefined)
      invalid(`The URL ends with ${suffix}, which is for other senders. Leave it out.`, "/webhook_url");
  },
  async send({ webhook_url }, { content }, { http }) {
    const render = chatText(escaped, (link) => `<${link}>`);
    const text = fitted(messageText(content), render, maxContentLength);
    const url = new URL(webhook_url);
    url.searchParams.set("wait", "true");
    await deliver(
      http,
      jsonRequest(url.href, { content: text, flags: suppressEmbeds, allowed_mentions: { parse: [] } }),
    );
  },
});

import Type from "typebox";
import {
  acknowledgeTokenIn,
  fitted,
  headLines,
  linkLines,
  type MessageText,
  withIcon,
} from "../sending/message-text.ts";
import { messageText } from "../sending/message.ts";
import { channelKind, invalid, WebhookUrl, webUrl } from "./kind.ts";
import { deliver, jsonObject, jsonRequest, wordOf } from "./deliver.ts";
import { Shape } from "../../../platform/http/wire.ts";

/** Slack recommends at most 4,000 characters and cuts at 40,000 (https://docs.slack.dev/changelog/2018-truncating-really-long-messages). */
const maxTextLength = 4000;

const SlackConfig = Shape("SlackConfig", "Posts to a Slack channel", {
  type: Type.Literal("slack"),
  webhook_url: WebhookUrl({
    description: "Incoming webhook of Slack, or of a server that takes the same requests; reads as ***",
    examples: ["https://hooks.slack.com/services/T000/B000/XXXX"],
    placeholder: "https://hooks.slack.com/services/…",
    hint: "In Slack: Apps, Incoming Webhooks, Add to Slack. Stored encrypted.",
  }),
});

/** The characters that begin markup and mentions (https://docs.slack.dev/messaging/formatting-message-text). */
const escaped = (text: string): string => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

/** Action of the button that acknowledges, in requests to /hooks/slack. */
export const acknowledgeAction = "acknowledge";

/** Webhooks of apps have buttons; those of the workflow builder and of other servers do not. */
function isOfApp(webhookUrl: string): boolean {
  const { hostname, pathname } = new URL(webhookUrl);
  return hostname === "hooks.slack.com" && pathname.startsWith("/services/");
}

/**
 * A button below the text, which stays free of blocks: a block would read formatting in the texts of customers
 * (https://docs.slack.dev/reference/block-kit/block-elements/button-element).
 */
function buttonOf(message: MessageText): object | null {
  const value = acknowledgeTokenIn(message);
  if (value === null) return null;
  const text = { type: "plain_text", text: "Acknowledge" };
  const element = { type: "button", action_id: acknowledgeAction, style: "primary", text, value };
  return { attachments: [{ fallback: "Acknowledge", blocks: [{ type: "actions", elements: [element] }] }] };
}

/**
 * Slack incoming webhook: https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks. `mrkdwn: false`
 * and `parse: "none"` turn off formatting and links in the texts of customers; the link of the incident is explicit.
 */
export const slack = channelKind({
  type: "slack",
  label: "Slack",
  purpose: "A message in a channel",
  icon: "slack",
  delegable: () => true,
  schema: SlackConfig,
  address: ({ webhook_url }) => ({ url: webhook_url, pointer: "/webhook_url" }),
  rules({ webhook_url }) {
    const url = webUrl(webhook_url, "/webhook_url", { http: false });
    // Servers that take the same requests may have one.
    if (url.hostname.endsWith("slack.com") && url.search !== "")
      invalid("A webhook of Slack has no query. Copy the URL again.", "/webhook_url");
  },
  async send({ webhook_url }, { content }, { http, central }) {
    const message = messageText(content);
    const text = fitted(
      withIcon(message),
      (part) => `${escaped(headLines(part))}${linkLines(part, (link) => `<${escaped(link)}>`)}`,
      maxTextLength,
    );
    const layout = { mrkdwn: false, parse: "none", link_names: false, unfurl_links: false, unfurl_media: false };
    const button = central.slack.signing_secret === "" || !isOfApp(webhook_url) ? null : buttonOf(message);
    await deliver(http, jsonRequest(webhook_url, { text, ...layout, ...button }), (reply) => {
      const { ok, error } = jsonObject(reply);
      // Webhooks of Slack's workflow builder answer errors with 200 and {"ok": false}.
      return ok === false ? { reason: wordOf(error), permanent: true } : null;
    });
  },
});

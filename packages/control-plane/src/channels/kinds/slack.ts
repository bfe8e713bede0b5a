import Type from "typebox";
import { channelKind, deliverRequest, invalid, webUrl } from "./kind.ts";
import { messageText, textLines } from "../message.ts";

const SlackConfig = Type.Object(
  {
    type: Type.Literal("slack"),
    webhook_url: Type.String({
      minLength: 1,
      maxLength: 2048,
      description: "Incoming webhook of Slack; reads as ***",
      examples: ["https://hooks.slack.com/services/T000/B000/XXXX"],
      secret: true,
      form: {
        label: "Webhook URL",
        control: "url",
        placeholder: "https://hooks.slack.com/services/…",
        hint: "An incoming webhook of Slack. Encrypted; reads as ***.",
      },
    }),
  },
  { additionalProperties: false, title: "SlackConfig", description: "Posts to a Slack channel" },
);

/** Slack reads &, < and > as markup; @ alone mentions nobody (https://docs.slack.dev/messaging/formatting-message-text). */
const escaped = (text: string): string => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

/** Slack incoming webhook: https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks. */
export const slack = channelKind({
  type: "slack",
  label: "Slack",
  schema: SlackConfig,
  address: ({ webhook_url }) => ({ url: webhook_url, pointer: "/webhook_url" }),
  rules({ webhook_url }) {
    const url = webUrl(webhook_url, "/webhook_url", { http: false });
    if (url.search !== "") invalid("A webhook of Slack has no query.", "/webhook_url");
  },
  digests: true,
  async send({ webhook_url }, { content }, { http }) {
    await deliverRequest(http, {
      method: "POST",
      url: webhook_url,
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ text: escaped(textLines(messageText(content))), unfurl_links: false }),
    });
  },
});

import Type, { type Static } from "typebox";
import { type ChannelKind, deliverRequest, invalid, serverOf, webUrl } from "./kind.ts";
import { messageText, textLines } from "../message.ts";

export const SlackConfig = Type.Object(
  {
    type: Type.Literal("slack"),
    webhook_url: Type.String({
      minLength: 1,
      maxLength: 2048,
      description: "Incoming webhook of Slack; reads as ***",
      examples: ["https://hooks.slack.com/services/T000/B000/XXXX"],
    }),
  },
  { additionalProperties: false, title: "SlackConfig", description: "Posts to a Slack channel" },
);

/** Slack reads &, < and > as markup; @ alone mentions nobody (https://docs.slack.dev/messaging/formatting-message-text). */
const escaped = (text: string): string => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

/** Slack incoming webhook: https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks. */
export const slack: ChannelKind<typeof SlackConfig> = {
  type: "slack",
  label: "Slack",
  schema: SlackConfig,
  rules(config: Static<typeof SlackConfig>) {
    const url = webUrl(config.webhook_url, "/webhook_url", { http: false });
    if (url.search !== "") invalid("A webhook of Slack has no query.", "/webhook_url");
  },
  mapSecrets: (config, change) => ({ ...config, webhook_url: change(config.webhook_url, "/webhook_url") }),
  secretsGoTo: (config) => serverOf(config.webhook_url),
  urls: (config) => [{ url: config.webhook_url, pointer: "/webhook_url" }],
  digests: true,
  host: (config) => new URL(config.webhook_url).host,
  async send(config, { content }, { http }) {
    await deliverRequest(http, {
      method: "POST",
      url: config.webhook_url,
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ text: escaped(textLines(messageText(content))), unfurl_links: false }),
    });
  },
};

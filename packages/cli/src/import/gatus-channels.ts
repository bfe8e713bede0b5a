import { headersIn } from "@statusmesh/shared/foreign/check";
import type { Json } from "@statusmesh/shared/json";
import * as channels from "./channels.ts";
import type { Item } from "@statusmesh/shared/foreign/item";
import type { Row } from "@statusmesh/shared/foreign/values";

/** Providers of alerts by their names in Gatus. */
const providers: channels.Providers = {
  slack: (item, of) => channels.slack(item, of("webhook-url")),
  rocketchat: (item, of) => channels.slack(item, of("webhook-url")),
  mattermost: (item, of) => channels.mattermost(item, of("webhook-url")),
  gotify: (item, of) => channels.gotify(item, of("server-url"), of("token")),
  matrix: (item, of) => {
    const server = of("server-url") || "https://matrix-client.matrix.org";
    return channels.matrix(item, server, of("access-token"), of("internal-room-id"));
  },
  opsgenie: (item, of) => channels.opsgenie(item, of("api-key"), ""),
  signal: (item, of) => channels.signal(item, of("api-url"), of("number"), of("recipients")),
  discord: (item, of) => channels.discord(item, of("webhook-url")),
  teams: (item, of) => channels.teams(item, of("webhook-url")),
  "teams-workflows": (item, of) => channels.teams(item, of("webhook-url")),
  googlechat: (item, of) => channels.googleChat(item, of("webhook-url")),
  telegram: (item, of) => {
    if (of("topic-id") !== "") item.note("posts to the chat, not to the topic");
    return channels.telegram(item, of("token"), of("id"));
  },
  ntfy: (item, of) => channels.ntfy(item, of("url"), of("topic"), of("token")),
  pushover: (item, of) => channels.pushover(item, of("application-token"), of("user-key"), of("device")),
  pagerduty: (item, of) => channels.pagerduty(item, of("integration-key")),
  email: (item, of) => channels.emails(item, of("to")),
  twilio: (item, of) => channels.twilio(item, { sid: of("sid"), token: of("token"), from: of("from"), to: of("to") }),
  custom: (item, of, config) => channels.webhook(item, of("url"), headersIn(config["headers"])),
};

/** The channels that a provider of Gatus becomes; none with the reason in the item. */
export const channelsOf = (item: Item, type: string, config: Row): Json[] =>
  channels.channelsFrom(providers, type, item, config);

import { headersIn } from "@statusmesh/shared/foreign/check";
import type { Json } from "@statusmesh/shared/json";
import * as channels from "./channels.ts";
import type { Item } from "@statusmesh/shared/foreign/item";
import { flag, jsonIn, type Row, text } from "@statusmesh/shared/foreign/values";

/** Providers of notifications by their names in Uptime Kuma. */
const providers: channels.Providers = {
  slack: (item, of) => channels.slack(item, of("slackwebhookURL")),
  mattermost: (item, of) => channels.mattermost(item, of("mattermostWebhookUrl")),
  gotify: (item, of) => channels.gotify(item, of("gotifyserverurl"), of("gotifyapplicationToken")),
  matrix: (item, of) => channels.matrix(item, of("homeserverUrl"), of("accessToken"), of("internalRoomId")),
  signal: (item, of) => channels.signal(item, of("signalURL"), of("signalNumber"), of("signalRecipients")),
  Opsgenie: (item, of) => channels.opsgenie(item, of("opsgenieApiKey"), of("opsgenieRegion")),
  "rocket.chat": (item, of) => channels.slack(item, of("rocketwebhookURL")),
  discord: (item, of) => channels.discord(item, of("discordWebhookUrl")),
  teams: (item, of) => channels.teams(item, of("webhookUrl")),
  GoogleChat: (item, of) => channels.googleChat(item, of("googleChatWebhookURL")),
  telegram: (item, of) => {
    if (of("telegramMessageThreadID") !== "") item.note("posts to the chat, not to the topic");
    if (of("telegramServerUrl") !== "") item.note("uses api.telegram.org, not a server of your own");
    return channels.telegram(item, of("telegramBotToken"), of("telegramChatID"));
  },
  webhook: (item, of, config) =>
    channels.webhook(item, of("webhookURL"), headersIn(jsonIn(config["webhookAdditionalHeaders"]))),
  ntfy: (item, of) => {
    if (of("ntfyAuthenticationMethod") !== "usernamePassword")
      return channels.ntfy(item, of("ntfyserverurl"), of("ntfytopic"), of("ntfyaccesstoken"));
    return item.refuse("signs in with user and password: make an access token for the topic", "silent");
  },
  pushover: (item, of) => channels.pushover(item, of("pushoverapptoken"), of("pushoveruserkey"), of("pushoverdevice")),
  PagerDuty: (item, of) => channels.pagerduty(item, of("pagerdutyIntegrationKey")),
  smtp: (item, of) =>
    channels.emails(item, [of("smtpTo"), of("smtpCC"), of("smtpBCC")].filter((to) => to !== "").join(",")),
  twilio: (item, of) =>
    channels.twilio(item, {
      sid: of("twilioAccountSID"),
      token: of("twilioAuthToken"),
      from: of("twilioFromNumber"),
      to: of("twilioToNumber"),
    }),
};

/** The channels that a notification of Uptime Kuma becomes; none with the reason in the item. */
export function channelsOf(item: Item, config: Row): Json[] {
  const made = channels.channelsFrom(providers, text(config["type"]).trim(), item, config);
  const isTemplated = Object.keys(config).some(
    (name) => /template|custom(?:body|subject|message|title)/i.test(name) && config[name] !== "" && flag(config[name]),
  );
  if (isTemplated && !item.isRefused) item.note("its own message template is not used", "detail");
  return made;
}

import type { Static, TUnsafe } from "typebox";
import { discord } from "./discord.ts";
import { gotify } from "./gotify.ts";
import { googleChat } from "./google_chat.ts";
import type { CentralAccounts, ChannelKind } from "./kind.ts";
import { email } from "./email.ts";
import { matrix } from "./matrix.ts";
import { mattermost } from "./mattermost.ts";
import { msteams } from "./msteams.ts";
import { ntfy } from "./ntfy.ts";
import { opsgenie } from "./opsgenie.ts";
import { pagerduty } from "./pagerduty.ts";
import { pushover } from "./pushover.ts";
import { signal } from "./signal.ts";
import { slack } from "./slack.ts";
import { sms } from "./sms/index.ts";
import { telegram } from "./telegram.ts";
import { telegramApp } from "./telegram_app.ts";
import { webPush } from "./web_push.ts";
import { webhook } from "./webhook.ts";
import { whatsapp } from "./whatsapp.ts";
import { whatsappApp } from "./whatsapp_app.ts";

/** Registry of channel kinds. A new kind is one file here and one line in this registry. */
export const channelKinds = {
  slack,
  discord,
  msteams,
  google_chat: googleChat,
  mattermost,
  matrix,
  webhook,
  pagerduty,
  opsgenie,
  ntfy,
  gotify,
  pushover,
  telegram,
  telegram_app: telegramApp,
  whatsapp,
  whatsapp_app: whatsappApp,
  signal,
  sms,
  web_push: webPush,
  email,
} as const;

export type ChannelType = keyof typeof channelKinds;
export type ChannelConfig = { [T in ChannelType]: Static<(typeof channelKinds)[T]["schema"]> }[ChannelType];

/** The kind of a config. The cast states what the registry guarantees: the kind matches the config. */
export function kindOf(config: { type: ChannelType }): ChannelKind<TUnsafe<ChannelConfig>> {
  return channelKinds[config.type] as unknown as ChannelKind<TUnsafe<ChannelConfig>>;
}

/** The config as it is stored; see {@link ChannelKind.complete}. */
export const completed = (config: ChannelConfig): ChannelConfig => kindOf(config).complete(config);

/** True for a registered kind: a newer version may have written the row. */
export function isChannelType(type: unknown): type is ChannelType {
  return typeof type === "string" && Object.hasOwn(channelKinds, type);
}

/** Kinds that a delegation link can connect in this installation. */
export const delegableKinds = (central: CentralAccounts): readonly string[] =>
  Object.values(channelKinds)
    .filter(({ delegable }) => delegable(central))
    .map(({ type }) => type);

/** Keys of `channels.endpoints`. */
export const endpointNames: readonly string[] = Object.values(channelKinds).flatMap(({ endpoints }) => endpoints);

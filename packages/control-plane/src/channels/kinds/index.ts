import type { Static } from "typebox";
import type { ChannelKind } from "./kind.ts";
import { slack } from "./slack.ts";
import { webhook } from "./webhook.ts";

/** Registry of channel kinds. A new kind is one file here and one line in this registry. */
export const channelKinds = { slack, webhook } as const;

export type ChannelType = keyof typeof channelKinds;
/** Config of any kind. */
export type ChannelConfig = { [T in ChannelType]: Static<(typeof channelKinds)[T]["schema"]> }[ChannelType];

/** The kind of a config. The cast states what the registry guarantees: the kind matches the config. */
export function kindOf(config: { type: ChannelType }): ChannelKind {
  return channelKinds[config.type] as unknown as ChannelKind;
}

/** True for a registered kind: a newer version may have written the row. */
export function isChannelType(type: unknown): type is ChannelType {
  return typeof type === "string" && Object.hasOwn(channelKinds, type);
}

/** Keys of `channels.endpoints`. */
export const endpointNames: readonly string[] = Object.values(channelKinds).flatMap(({ endpoints }) => endpoints);

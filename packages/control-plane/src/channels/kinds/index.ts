import type { Static } from "typebox";
import type { ChannelKind } from "./kind.ts";
import { webhook } from "./webhook.ts";

/** Every channel kind there is. A new kind is one file beside this one and one line here. */
export const channelKinds = { webhook } as const;

export type ChannelType = keyof typeof channelKinds;
/** The config of any kind. */
export type ChannelConfig = { [T in ChannelType]: Static<(typeof channelKinds)[T]["schema"]> }[ChannelType];

/** The kind of a config. The cast says what the registry guarantees and TypeScript cannot follow: the kind matches the config. */
export function kindOf(config: { type: ChannelType }): ChannelKind {
  return channelKinds[config.type] as unknown as ChannelKind;
}

/** True for a name that the registry knows: a row may have been written by a newer version. */
export function isChannelType(type: unknown): type is ChannelType {
  return typeof type === "string" && Object.hasOwn(channelKinds, type);
}

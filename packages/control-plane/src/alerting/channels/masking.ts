import { mask } from "@statusmesh/shared/secrets";
import type { OutboundRequest } from "../../platform/outbound/client.ts";
import { type ChannelConfig, kindOf } from "./kinds/index.ts";

/** Shorter parts and plain words, such as `v1` and `services`, are no secrets and occur in replies. */
const minPartLength = 8;
const word = /^[a-z]*$/;

/**
 * A function that masks the secrets of a channel in a text of its receiver, which may echo the request: each secret,
 * the parts of a secret URL, and the credential of `request`, which may be an encoding of several.
 */
export function secretMask(config: ChannelConfig, request?: OutboundRequest): (text: string) => string {
  const parts = new Set<string>();
  kindOf(config).mapSecrets(config, (secret) => {
    if (secret.length > 3) parts.add(secret);
    for (const part of partsOfUrl(secret)) parts.add(part);
    return secret;
  });
  const [, credential] = /^\w+ (.+)$/.exec(request?.headers["authorization"] ?? "") ?? [];
  if (credential !== undefined) parts.add(credential);
  const written = [...parts].flatMap((part) => [part, JSON.stringify(part).slice(1, -1), encodeURIComponent(part)]);
  // Longest first, so that no part of a longer one stays.
  const longestFirst = [...new Set(written)].sort((a, b) => b.length - a.length);
  return (text) => longestFirst.reduce((masked, part) => masked.replaceAll(part, mask), text);
}

/** Path, its segments and the values of the query; none for a text that is no URL. */
function partsOfUrl(text: string): string[] {
  if (!URL.canParse(text)) return [];
  const { pathname, search, searchParams } = new URL(text);
  const parts = [pathname + search, pathname, ...pathname.split("/"), ...searchParams.values()];
  return parts.filter((part) => part.length >= minPartLength && !word.test(part));
}

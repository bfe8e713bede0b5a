import { fieldOf, mask } from "@statusmesh/shared/secrets";
import type { System } from "../../../platform/context.ts";
import { iso, isoOrNull, managedBy } from "../../../platform/http/wire.ts";
import { type ChannelConfig, kindOf } from "../kinds/index.ts";
import type { ChannelRow } from "../queries.ts";
import type { Channel } from "../schema.ts";
import { openConfigPartly } from "./sealing.ts";
import type { OutboundRequest } from "../../../platform/outbound/client.ts";

/** The channel with masked secrets, for replies. */
export function present(system: Pick<System, "sealer">, row: ChannelRow): Channel {
  const kind = kindOf(row.config);
  return {
    id: row.id,
    name: row.device_name ?? row.name,
    person: row.person,
    enabled: row.enabled,
    is_default: row.is_default,
    active_hours: row.active_hours,
    route: row.route,
    min_severity: row.min_severity,
    rounds: row.rounds,
    targets_count: row.targets_count + row.routed_count,
    routed_count: row.routed_count,
    tested_at: isoOrNull(row.tested_at),
    config: masked(system, row),
    disabled_reason: row.disabled_reason,
    verified: kind.confirms === undefined ? null : row.verified_at !== null,
    last_delivery:
      row.health?.at == null || row.health.state === null
        ? null
        : { at: new Date(row.health.at).toISOString(), state: row.health.state, error: row.health.error },
    failing_since: row.health?.failing_since == null ? null : new Date(row.health.failing_since).toISOString(),
    managed_by: managedBy(row.managed),
    write_source: row.write_source,
    created_at: iso(row.created_at),
    updated_at: iso(row.updated_at),
  };
}

function masked(system: Pick<System, "sealer">, row: ChannelRow): ChannelConfig {
  const { mapSecrets, shownEnds } = kindOf(row.config);
  // Only a secret whose end is shown is opened.
  const config = shownEnds.size === 0 ? row.config : openConfigPartly(system, row);
  return mapSecrets(config, (secret, pointer) => {
    const shown = shownEnds.get(fieldOf(pointer)) ?? 0;
    return shown === 0 ? mask : `${mask}${secret.slice(-shown)}`;
  });
}

/** Shorter parts and plain words, such as `v1` and `services`, are no secrets and occur in replies. */
const minPartLength = 8;
const word = /^[a-z]*$/;

/**
 * A function that masks the secrets of a channel in a text of its receiver, which may echo the request: each secret,
 * the parts of a secret URL, the credential of `request`, which may be an encoding of several, and `more` secrets.
 */
export function secretMask(
  config: ChannelConfig,
  { request, more = [] }: { request?: OutboundRequest; more?: readonly string[] } = {},
): (text: string) => string {
  const parts = new Set<string>(more);
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

import { mask } from "@statusmesh/shared/secrets";
import { iso } from "../../platform/http/wire.ts";
import { type ChannelConfig, kindOf } from "./kinds/index.ts";
import type { ChannelRow } from "./queries.ts";
import type { Channel } from "./schema.ts";

/** The channel with masked secrets, for replies. */
export function present(row: ChannelRow): Channel {
  const kind = kindOf(row.config);
  return {
    id: row.id,
    name: row.name,
    enabled: row.enabled,
    config: kind.mapSecrets(row.config, () => mask) as ChannelConfig,
    disabled_reason: row.disabled_reason,
    verified: kind.confirms === undefined ? null : row.verified_at !== null,
    last_delivery:
      row.health?.at == null || row.health.state === null
        ? null
        : { at: new Date(row.health.at).toISOString(), state: row.health.state, error: row.health.error },
    failing_since: row.health?.failing_since == null ? null : new Date(row.health.failing_since).toISOString(),
    write_source: row.write_source,
    created_at: iso(row.created_at),
    updated_at: iso(row.updated_at),
  };
}

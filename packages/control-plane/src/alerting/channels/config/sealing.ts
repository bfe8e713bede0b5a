import { resealer } from "../../../platform/crypto/reseal.ts";
import { countUnreadable, openPartly, type ReadBatch } from "../../../platform/crypto/opening.ts";
import type { System } from "../../../platform/context.ts";
import { type ChannelConfig, isChannelType, kindOf } from "../kinds/index.ts";
import * as queries from "../queries.ts";

type Sealed = Pick<queries.ChannelRow, "id" | "org_id" | "config">;

const placeOf = (orgId: string, id: string, pointer: string): string => `${orgId}/channels/${id}${pointer}`;

/** The config with sealed secrets, for the database. */
export function sealConfig(
  { sealer }: Pick<System, "sealer">,
  orgId: string,
  id: string,
  config: ChannelConfig,
): ChannelConfig {
  return kindOf(config).mapSecrets(config, (secret, pointer) => sealer.seal(secret, placeOf(orgId, id, pointer)));
}

/** The config with opened secrets. Throws where the key is not configured. */
export function openConfig({ sealer }: Pick<System, "sealer">, { id, org_id, config }: Sealed): ChannelConfig {
  return kindOf(config).mapSecrets(config, (sealed, pointer) => sealer.open(sealed, placeOf(org_id, id, pointer)));
}

/** {@link openConfig} as far as possible. */
export function openConfigPartly({ sealer }: Pick<System, "sealer">, { id, org_id, config }: Sealed): ChannelConfig {
  return openPartly(sealer, config, kindOf(config).mapSecrets, (pointer) => placeOf(org_id, id, pointer)).value;
}

/** Counts unreadable secrets in up to `limit` channels after `after`. For the doctor. */
export async function unreadableChannels(
  { sql, sealer }: System,
  after: string | null,
  limit: number,
): Promise<ReadBatch> {
  return countUnreadable(await queries.selectConfigs(sql, after, limit), limit, (row) => {
    if (isChannelType(row.config.type)) openConfig({ sealer }, row);
  });
}

/** Seals channels under the current key. */
export const resealChannels = resealer<Sealed, ChannelConfig>({
  rows: (sql, after, limit) => queries.selectConfigs(sql, after, limit, { lock: true }),
  map({ id, org_id, config }, change) {
    if (!isChannelType(config.type)) throw new Error("this version of StatusMesh does not support its kind");
    return kindOf(config).mapSecrets(config, (sealed, pointer) => change(sealed, placeOf(org_id, id, pointer)));
  },
  store: queries.storeConfig,
});

import type { System } from "../../platform/context.ts";
import { countUnreadable, type ReadBatch } from "../../platform/crypto/opening.ts";
import { resealer } from "../../platform/crypto/reseal.ts";
import * as queries from "./queries.ts";

type Owned = Pick<queries.SecretRow, "id" | "org_id">;
const placeOf = ({ id, org_id }: Owned): string => `${org_id}/subscribers/${id}/secret`;

/** The secret of a webhook subscriber as it is stored. */
export const sealSecret = ({ sealer }: Pick<System, "sealer">, row: Owned, secret: string): string =>
  sealer.seal(secret, placeOf(row));

/** The secret that signs messages to a webhook. Throws UnreadableSecret where its key is not configured. */
export const openSecret = ({ sealer }: Pick<System, "sealer">, row: queries.SecretRow): string =>
  sealer.open(row.secret, placeOf(row));

/** Counts unreadable secrets in up to `limit` webhook subscribers after `after`. For the doctor. */
export async function unreadableSubscribers(
  { sql, sealer }: System,
  after: string | null,
  limit: number,
): Promise<ReadBatch> {
  return countUnreadable(await queries.selectSecrets(sql, after, limit), limit, (row) => openSecret({ sealer }, row));
}

/** Seals webhook secrets under the current key. */
export const resealSubscribers = resealer({
  rows: (sql, after, limit) => queries.selectSecrets(sql, after, limit, { lock: true }),
  map: (row, change) => change(row.secret, placeOf(row)),
  store: queries.storeSecret,
});

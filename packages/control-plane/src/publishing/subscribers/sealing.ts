import { inTransaction, type System } from "../../platform/context.ts";
import { countUnreadable, type ReadBatch } from "../../platform/crypto/opening.ts";
import { type ResealedBatch, resealRows } from "../../platform/crypto/reseal.ts";
import { inPlain, isStoredForm } from "../../platform/crypto/seal.ts";
import { isUpdateOver } from "../../platform/db/migrate.ts";
import * as queries from "./sealing-queries.ts";

const batch = 500;

type Owned = Pick<queries.SecretRow, "id" | "org_id">;
const placeOf = ({ id, org_id }: Owned): string => `${org_id}/subscribers/${id}/secret`;

/** The secret in a form that a sealer opens; an earlier release stored secrets unsealed. */
const stored = (secret: string): string => (isStoredForm(secret) ? secret : inPlain(secret));

/** The secret of a new webhook subscriber as it is stored: unsealed while replicas of an earlier release may run. */
export async function sealSecret({ sql, sealer }: Pick<System, "sql" | "sealer">, row: Owned, secret: string) {
  return (await isUpdateOver(sql, queries.migration)) ? sealer.seal(secret, placeOf(row)) : secret;
}

/** The secret that signs messages to a webhook. Throws UnreadableSecret where its key is not configured. */
export const openSecret = ({ sealer }: Pick<System, "sealer">, row: queries.SecretRow): string =>
  sealer.open(stored(row.secret), placeOf(row));

/** Seals secrets that an earlier release stored, once the update to this release is over. Returns how many. */
export async function sealStoredSecrets(system: System): Promise<number> {
  if (!(await isUpdateOver(system.sql, queries.migration))) return 0;
  return await inTransaction(system, async ({ sql, sealer }) => {
    const rows = await queries.lockUnsealed(sql, batch);
    for (const row of rows) await queries.storeSecret(sql, row.id, sealer.seal(row.secret, placeOf(row)));
    return rows.length;
  });
}

/** Counts unreadable secrets in up to `limit` webhook subscribers after `after`. For the doctor. */
export async function unreadableSubscribers(
  { sql, sealer }: System,
  after: string | null,
  limit: number,
): Promise<ReadBatch> {
  return countUnreadable(await queries.selectSecrets(sql, after, limit), limit, (row) => openSecret({ sealer }, row));
}

/** Seals up to `limit` webhook secrets after `after`, by id, under the current key. For rotate-kek. */
export async function resealSubscribers(system: System, after: string | null, limit: number): Promise<ResealedBatch> {
  return await inTransaction(system, async ({ sql, sealer }) =>
    resealRows<queries.SecretRow, string>({
      sealer,
      limit,
      rows: await queries.lockSecrets(sql, after, limit),
      map: (row, change) => change(stored(row.secret), placeOf(row)),
      store: async (id, secret) => await queries.storeSecret(sql, id, secret),
    }),
  );
}

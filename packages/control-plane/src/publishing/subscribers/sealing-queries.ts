import type { Db } from "../../platform/db/sql.ts";

/** The first release with this migration seals the secrets of subscribers. */
export const migration = "0047_sealed_subscribers";

/** The stored secret of a webhook subscriber. */
export interface SecretRow {
  id: string;
  org_id: string;
  secret: string;
}

/** Secrets after `after`, by id; `lock` holds the rows until the end of the transaction. */
const secretsAfter = (sql: Db, after: string | null, limit: number, lock: boolean) => sql<SecretRow[]>`
  select id, org_id, secret from subscribers
  where secret is not null and (${after}::uuid is null or id > ${after}::uuid)
  order by id limit ${limit} ${lock ? sql`for no key update` : sql``}`;

export const selectSecrets = async (sql: Db, after: string | null, limit: number): Promise<SecretRow[]> =>
  await secretsAfter(sql, after, limit, false);

export const lockSecrets = async (sql: Db, after: string | null, limit: number): Promise<SecretRow[]> =>
  await secretsAfter(sql, after, limit, true);

/** Unsealed secrets of an earlier release, locked; rows that another transaction holds are skipped. */
export async function lockUnsealed(sql: Db, limit: number): Promise<SecretRow[]> {
  return await sql<SecretRow[]>`
    select id, org_id, secret from subscribers
    where secret not like 'sealed:%' and secret not like 'plain:%'
    order by id limit ${limit} for no key update skip locked`;
}

export async function storeSecret(sql: Db, id: string, secret: string): Promise<void> {
  await sql`update subscribers set secret = ${secret} where id = ${id}`;
}

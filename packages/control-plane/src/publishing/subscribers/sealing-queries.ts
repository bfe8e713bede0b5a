import type { Db } from "../../platform/db/sql.ts";

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

export async function storeSecret(sql: Db, id: string, secret: string): Promise<void> {
  await sql`update subscribers set secret = ${secret} where id = ${id}`;
}

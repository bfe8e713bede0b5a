import { type Db, firstOf } from "../../../platform/db/client/sql.ts";

/** A key pair that names the installation to push services; the private key is sealed. */
export interface PushKeyRow {
  id: string;
  public_key: string;
  private_key: string;
}

const columns = (sql: Db) => sql`id, public_key, private_key`;

/** Newest first. */
export async function selectPushKeys(sql: Db): Promise<PushKeyRow[]> {
  return await sql<PushKeyRow[]>`select ${columns(sql)} from push_keys order by created_at desc, id desc`;
}

export async function selectPushKey(sql: Db, publicKey: string): Promise<PushKeyRow | null> {
  return await firstOf(sql<PushKeyRow[]>`select ${columns(sql)} from push_keys where public_key = ${publicKey}`);
}

/** Lets one transaction at a time make a key; reads go on. */
export async function lockPushKeys(sql: Db): Promise<void> {
  await sql`lock table push_keys in share row exclusive mode`;
}

export async function insertPushKey(sql: Db, row: PushKeyRow & { created_at: Date }): Promise<void> {
  await sql`insert into push_keys ${sql(row)}`;
}

const usedBy = (sql: Db) => sql`
  exists (select from channels c where c.kind = 'web_push' and c.config ->> 'server_key' = k.public_key)`;

/** Deletes the keys that no device uses, but for the current one. */
export async function deleteUnusedKeys(sql: Db, current: string): Promise<void> {
  await sql`delete from push_keys k where k.public_key <> ${current} and not ${usedBy(sql)}`;
}

/** Keys by id, up to `limit` after `after`; `lock` holds the rows until the end of the transaction. */
export async function selectSealedKeys(sql: Db, after: string | null, limit: number, { lock = false } = {}) {
  return await sql<PushKeyRow[]>`
    select ${columns(sql)} from push_keys where ${after}::uuid is null or id > ${after}::uuid order by id
    limit ${limit} ${lock ? sql`for no key update` : sql``}`;
}

export async function storePrivateKey(sql: Db, id: string, sealed: string): Promise<void> {
  await sql`update push_keys set private_key = ${sealed} where id = ${id}`;
}

import { affectsRow, type Db, firstOf, listed, type Listed, type Paging, rowOf } from "../../platform/db/client/sql.ts";

export interface ShareRow {
  id: string;
  org_id: string;
  target_id: string;
  label: string | null;
  token_sealed: string;
  created_by: string | null;
  created_at: Date;
  expires_at: Date | null;
  last_viewed_at: Date | null;
}

const columns = (sql: Db) =>
  sql`s.id, s.org_id, s.target_id, s.label, s.token_sealed, s.created_by, s.created_at, s.expires_at, s.last_viewed_at`;

/** False when the organisation has no such target. The target is not deleted before the transaction ends. */
export async function insertShare(sql: Db, row: ShareRow, tokenHash: Buffer): Promise<boolean> {
  return await affectsRow(sql`
    with target as (
      select id from targets where org_id = ${row.org_id} and id = ${row.target_id} for key share
    )
    insert into shares (id, org_id, target_id, label, token_hash, token_sealed, created_by, created_at, expires_at)
    select ${row.id}, ${row.org_id}, id, ${row.label}, ${tokenHash}, ${row.token_sealed}, ${row.created_by},
           ${row.created_at}, ${row.expires_at}
    from target`);
}

/** The shares of a target, oldest first. */
export async function selectShares(
  sql: Db,
  orgId: string,
  targetId: string,
  { limit, offset }: Paging,
): Promise<Listed<ShareRow>> {
  const from = sql`from shares s where s.org_id = ${orgId} and s.target_id = ${targetId}`;
  const part = sql<ShareRow[]>`
    select ${columns(sql)} ${from} order by s.created_at, s.id limit ${limit} offset ${offset}`;
  return await listed(sql, from, part);
}

/** Live shares, except `id`: those of the target, and the number of other targets that have any. */
export async function countLive(sql: Db, { id, org_id, target_id, created_at }: ShareRow) {
  return await rowOf(sql<{ ofTarget: number; otherTargets: number }[]>`
    select count(*) filter (where target_id = ${target_id})::integer as "ofTarget",
           count(distinct target_id) filter (where target_id <> ${target_id})::integer as "otherTargets"
    from shares
    where org_id = ${org_id} and id <> ${id} and (expires_at is null or expires_at > ${created_at})`);
}

/** Removes a share and returns it; null for none. */
export async function deleteShare(sql: Db, orgId: string, targetId: string, id: string): Promise<ShareRow | null> {
  return await firstOf(sql<ShareRow[]>`
    delete from shares s where s.org_id = ${orgId} and s.target_id = ${targetId} and s.id = ${id}
    returning ${columns(sql)}`);
}

export type LiveShareRow = Pick<ShareRow, "id" | "org_id" | "target_id" | "last_viewed_at">;

/** The live share of a token, unless its organisation is deleted. */
export async function selectLiveShare(sql: Db, tokenHash: Buffer, now: Date): Promise<LiveShareRow | null> {
  return await firstOf(sql<LiveShareRow[]>`
    select s.id, s.org_id, s.target_id, s.last_viewed_at
    from shares s join orgs o on o.id = s.org_id and o.deleted_at is null
    where s.token_hash = ${tokenHash} and (s.expires_at is null or s.expires_at > ${now})`);
}

/** Records a view, unless another request recorded one after `since`. */
export async function touchShare(sql: Db, id: string, now: Date, since: Date): Promise<void> {
  await sql`
    update shares set last_viewed_at = ${now}
    where id = ${id} and (last_viewed_at is null or last_viewed_at < ${since})`;
}

/** Removes shares that expired before a time. Returns how many. */
export async function deleteExpired(sql: Db, before: Date): Promise<number> {
  return (await sql`delete from shares where expires_at < ${before}`).count;
}

/** Up to `limit` shares after `after`, by id, locked for {@link storeToken}. */
export async function lockTokens(sql: Db, after: string | null, limit: number): Promise<ShareRow[]> {
  return await sql<ShareRow[]>`
    select ${columns(sql)} from shares s where ${after}::uuid is null or s.id > ${after}::uuid
    order by s.id limit ${limit} for no key update`;
}

export async function storeToken(sql: Db, id: string, sealed: string): Promise<void> {
  await sql`update shares set token_sealed = ${sealed} where id = ${id}`;
}

import { affectsRow, type Db, firstOf, rowOf, valueOf } from "../../../platform/db/client/sql.ts";

export interface VerificationRow {
  id: string;
  org_id: string;
  channel_id: string;
  address: string;
  code_hash: Buffer;
}

export async function insertVerification(
  sql: Db,
  row: VerificationRow & { resent: boolean; created_at: Date; expires_at: Date },
): Promise<void> {
  await sql`
    insert into channel_verifications (id, org_id, channel_id, address, code_hash, resent, created_at, expires_at)
    values (${row.id}, ${row.org_id}, ${row.channel_id}, ${row.address}, ${row.code_hash}, ${row.resent},
            ${row.created_at}, ${row.expires_at})`;
}

/** Numbers of mails since a time: sent again for one channel, sent again and sent first for the organisation. */
export async function countVerifications(sql: Db, orgId: string, channelId: string, since: Date) {
  return await rowOf(sql<{ channel: number; again: number; first: number }[]>`
    select count(*) filter (where resent and channel_id = ${channelId})::int as channel,
           count(*) filter (where resent)::int as again,
           count(*) filter (where not resent)::int as first
    from channel_verifications where org_id = ${orgId} and created_at > ${since}`);
}

/** Ends the links of a channel that are not confirmed. */
export async function expireVerifications(sql: Db, channelId: string, now: Date): Promise<void> {
  await sql`
    update channel_verifications set expires_at = ${now}
    where channel_id = ${channelId} and confirmed_at is null and expires_at > ${now}`;
}

export interface PendingVerification extends Omit<VerificationRow, "code_hash"> {
  org_name: string;
}

/** A link that can be confirmed: known, unused, not expired, and its channel still has the address. */
export async function selectPending(sql: Db, codeHash: Buffer, now: Date): Promise<PendingVerification | null> {
  return await firstOf(sql<PendingVerification[]>`
    select v.id, v.channel_id, v.address, v.org_id, o.name as org_name
    from channel_verifications v
    join orgs o on o.id = v.org_id and o.deleted_at is null
    join channels c on c.id = v.channel_id and c.org_id = v.org_id and c.config ->> 'to' = v.address
    where v.code_hash = ${codeHash} and v.confirmed_at is null and v.expires_at > ${now}`);
}

/** Uses up a link. Exactly one of two callers gets true. */
export async function confirmVerification(sql: Db, id: string, now: Date): Promise<boolean> {
  return await affectsRow(sql`
    update channel_verifications set confirmed_at = ${now}
    where id = ${id} and confirmed_at is null and expires_at > ${now}`);
}

/** The last confirmed link of a verified channel: address and hash of the code. */
export async function selectConfirmed(sql: Db, channelId: string) {
  return await firstOf(sql<{ org_id: string; address: string; code_hash: Buffer }[]>`
    select v.org_id, v.address, v.code_hash
    from channel_verifications v
    join channels c on c.id = v.channel_id and c.org_id = v.org_id
    where v.channel_id = ${channelId} and v.confirmed_at is not null and c.verified_at is not null
      and c.config ->> 'to' = v.address
    order by v.confirmed_at desc limit 1`);
}

/**
 * Deletes the mails from before a time whose link is of no use: never confirmed, or of a channel that is gone or has
 * another address. Returns their number.
 */
export async function deleteUselessVerifications(sql: Db, now: Date, before: Date): Promise<number> {
  const { count } = await sql`
    delete from channel_verifications v
    where v.created_at < ${before} and (
      (v.confirmed_at is null and v.expires_at < ${now})
      or not exists (select from channels c where c.id = v.channel_id and c.config ->> 'to' = v.address))`;
  return count;
}

/** Locks the organisation, so that concurrent mails count each other, and returns its name. */
export async function lockOrg(sql: Db, orgId: string): Promise<string> {
  return await valueOf<string>(sql`select name from orgs where id = ${orgId} for no key update`);
}

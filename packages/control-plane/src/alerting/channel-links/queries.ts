import { affectsRow, anyOf, type Db, firstOf, listed, type Listed, type Paging } from "../../platform/db/client/sql.ts";
import type { StoredRow } from "../../platform/http/wire.ts";
import type { DelegationLink } from "./schema.ts";

export type Purpose = "telegram" | "whatsapp" | "delegation";

export interface LinkRow extends StoredRow<Omit<DelegationLink, "kind" | "state">> {
  org_id: string;
  purpose: Purpose;
  channel_kind: string | null;
  created_by: string | null;
  revoked_at: Date | null;
  consumed_at: Date | null;
}

const columns = (sql: Db) =>
  sql`l.id, l.org_id, l.purpose, l.name, l.channel_kind, l.created_by, l.created_at, l.expires_at, l.revoked_at,
      l.consumed_at, l.channel_id`;

const pending = (sql: Db, now: Date) => sql`l.consumed_at is null and l.revoked_at is null and l.expires_at > ${now}`;

/** Inserts a code unless `max` of its purpose are pending; concurrent calls count each other. False at the limit. */
export async function insertLink(sql: Db, row: LinkRow & { code_hash: Buffer }, max: number): Promise<boolean> {
  await sql`select id from orgs where id = ${row.org_id} for no key update`;
  return await affectsRow(sql`
    insert into channel_links (id, org_id, purpose, code_hash, name, channel_kind, created_by, created_at, expires_at)
    select ${row.id}, ${row.org_id}, ${row.purpose}, ${row.code_hash}, ${row.name}, ${row.channel_kind},
           ${row.created_by}, ${row.created_at}, ${row.expires_at}
    where ${max} > (select count(*) from channel_links l
      where l.org_id = ${row.org_id} and l.purpose = ${row.purpose} and ${pending(sql, row.created_at)})`);
}

/** Deletes codes that ended long ago; delegation links stay, because they are listed. */
export async function deleteOldCodes(sql: Db, orgId: string, before: Date): Promise<void> {
  await sql`
    delete from channel_links where org_id = ${orgId} and purpose <> 'delegation' and expires_at < ${before}`;
}

export async function selectLink(sql: Db, orgId: string, purpose: Purpose, id: string): Promise<LinkRow | null> {
  return await firstOf(sql<LinkRow[]>`
    select ${columns(sql)} from channel_links l where l.org_id = ${orgId} and l.purpose = ${purpose} and l.id = ${id}`);
}

/** True for the code of a link. */
export const hasCode = async (sql: Db, orgId: string, id: string, codeHash: Buffer): Promise<boolean> =>
  await anyOf(sql, sql`from channel_links where org_id = ${orgId} and id = ${id} and code_hash = ${codeHash}`);

/** Delegation links, newest first. */
export async function selectDelegations(sql: Db, orgId: string, { limit, offset }: Paging): Promise<Listed<LinkRow>> {
  const from = sql`from channel_links l where l.org_id = ${orgId} and l.purpose = 'delegation'`;
  const part = sql<LinkRow[]>`
    select ${columns(sql)} ${from} order by l.created_at desc, l.id desc limit ${limit} offset ${offset}`;
  return await listed(sql, from, part);
}

/** Revokes a pending delegation link; null for any other. */
export async function revokeDelegation(sql: Db, orgId: string, id: string, now: Date): Promise<LinkRow | null> {
  return await firstOf(sql<LinkRow[]>`
    update channel_links l set revoked_at = ${now}
    where l.org_id = ${orgId} and l.id = ${id} and l.purpose = 'delegation' and ${pending(sql, now)}
    returning ${columns(sql)}`);
}

/**
 * The pending link of a code whose organisation is not deleted. The code alone decides the organisation. With `lock`
 * the second of two concurrent requests with one code finds it used.
 */
export async function selectPending(
  sql: Db,
  codeHash: Buffer,
  now: Date,
  { lock = false } = {},
): Promise<LinkRow | null> {
  return await firstOf(sql<LinkRow[]>`
    select ${columns(sql)} from channel_links l join orgs o on o.id = l.org_id and o.deleted_at is null
    where l.code_hash = ${codeHash} and ${pending(sql, now)} ${lock ? sql`for update of l` : sql``}`);
}

export async function consumeLink(sql: Db, orgId: string, id: string, channelId: string, now: Date): Promise<void> {
  await sql`
    update channel_links set consumed_at = ${now}, channel_id = ${channelId} where org_id = ${orgId} and id = ${id}`;
}

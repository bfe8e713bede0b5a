import { affectsRow, anyOf, type Db, valueOf } from "../../platform/db/client/sql.ts";

interface ReaderRow {
  secret_hash: Buffer;
  browser_hash: Buffer;
  org_id: string;
  page_id: string;
  access_revision: number;
  host: string;
  session_id: string | null;
  reader_session_id: string | null;
  expires_at: Date;
}

export async function insertReaderCode(sql: Db, row: ReaderRow): Promise<void> {
  await sql`insert into page_readers ${sql(row)}`;
}

/** A page at one of its hosts, as it is now. */
export interface ReadPage {
  org_id: string;
  page_id: string;
  access_revision: number;
  host: string;
}

const isOf = (sql: Db, { page_id, access_revision, host }: ReadPage) =>
  sql`r.page_id = ${page_id} and r.access_revision = ${access_revision} and r.host = ${host}`;

/** Redeems a code for a secret, once and only for its browser; another browser consumes nothing. */
export async function redeemReaderCode(
  sql: Db,
  page: ReadPage,
  { code, browser, secret }: { code: Buffer; browser: Buffer; secret: Buffer },
  { now, until }: { now: Date; until: Date },
): Promise<boolean> {
  return await affectsRow(sql`
    update page_readers r set secret_hash = ${secret}, browser_hash = null, expires_at = ${until}
    where r.secret_hash = ${code} and r.browser_hash = ${browser} and r.expires_at > ${now} and ${isOf(sql, page)}`);
}

/**
 * True for the secret of a reader who may still read: a member with a live session, used since `idle`, or a person with
 * one of the groups.
 */
export async function isReader(
  sql: Db,
  page: ReadPage,
  secret: Buffer,
  groups: readonly string[] | null,
  { now, idle }: { now: Date; idle: Date },
): Promise<boolean> {
  const who =
    groups === null
      ? sql`
        join sessions s on s.id = r.session_id and s.expires_at > ${now} and s.last_used_at > ${idle}
        join memberships m on m.user_id = s.user_id and m.org_id = ${page.org_id}`
      : sql`
        join reader_sessions g on g.id = r.reader_session_id and g.expires_at > ${now}
          and g.groups && ${[...groups]}::text[]`;
  return await anyOf(
    sql,
    sql`from page_readers r ${who}
      where r.secret_hash = ${secret} and r.browser_hash is null and r.expires_at > ${now} and ${isOf(sql, page)}`,
  );
}

interface LinkRow {
  token_hash: Buffer;
  org_id: string;
  page_id: string;
  access_revision: number;
  mail_domain: string;
  expires_at: Date;
}

export async function insertLink(sql: Db, row: LinkRow): Promise<void> {
  await sql`insert into page_links ${sql(row)}`;
}

type LinkedPage = Pick<LinkRow, "page_id" | "access_revision">;

const isLink = (sql: Db, { page_id, access_revision }: LinkedPage, token: Buffer, now: Date) => sql`
  token_hash = ${token} and page_id = ${page_id} and access_revision = ${access_revision} and expires_at > ${now}`;

export const hasLink = async (sql: Db, page: LinkedPage, token: Buffer, now: Date): Promise<boolean> =>
  await anyOf(sql, sql`from page_links where ${isLink(sql, page, token, now)}`);

/** Consumes a link; returns the domain of its address, null for one that is not valid. */
export async function takeLink(sql: Db, page: LinkedPage, token: Buffer, now: Date): Promise<string | null> {
  return await valueOf<string | null>(sql`
    delete from page_links where ${isLink(sql, page, token, now)} returning mail_domain`);
}

/** Deletes codes, readers and links that are over. */
export async function deleteOver(sql: Db, now: Date): Promise<void> {
  await sql`delete from page_readers where expires_at <= ${now}`;
  await sql`delete from page_links where expires_at <= ${now}`;
}

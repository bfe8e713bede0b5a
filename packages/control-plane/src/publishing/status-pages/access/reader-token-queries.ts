import { countOf, type Db, firstOf, listed, type Listed, type Paging } from "../../../platform/db/client/sql.ts";
import type { ReaderScope } from "./reader-token-schema.ts";

export interface ReaderTokenRow {
  id: string;
  org_id: string;
  page_id: string;
  name: string;
  scope: ReaderScope;
  hint: string;
  created_at: Date;
  last_used_at: Date | null;
}

const columns = (sql: Db) => sql`r.id, r.org_id, r.page_id, r.name, r.scope, r.hint, r.created_at, r.last_used_at`;

export async function insertReaderToken(sql: Db, row: ReaderTokenRow, hash: Buffer): Promise<void> {
  await sql`
    insert into reader_tokens (id, org_id, page_id, name, scope, token_hash, hint, created_at)
    values (${row.id}, ${row.org_id}, ${row.page_id}, ${row.name}, ${row.scope}, ${hash}, ${row.hint},
      ${row.created_at})`;
}

export const countReaderTokens = async (sql: Db, orgId: string, pageId: string): Promise<number> =>
  await countOf(sql, sql`from reader_tokens where org_id = ${orgId} and page_id = ${pageId}`);

/** The tokens of a page, oldest first. */
export async function selectReaderTokens(
  sql: Db,
  orgId: string,
  pageId: string,
  { limit, offset }: Paging,
): Promise<Listed<ReaderTokenRow>> {
  const from = sql`from reader_tokens r where r.org_id = ${orgId} and r.page_id = ${pageId}`;
  return await listed(
    sql,
    from,
    sql<ReaderTokenRow[]>`
      select ${columns(sql)} ${from} order by r.created_at, r.id limit ${limit} offset ${offset}`,
  );
}

/** Removes a token and returns it; null for none. */
export async function deleteReaderToken(
  sql: Db,
  orgId: string,
  pageId: string,
  id: string,
): Promise<ReaderTokenRow | null> {
  return await firstOf(sql<ReaderTokenRow[]>`
    delete from reader_tokens r where r.org_id = ${orgId} and r.page_id = ${pageId} and r.id = ${id}
    returning ${columns(sql)}`);
}

export async function deleteReaderTokensOf(sql: Db, orgId: string, pageId: string): Promise<void> {
  await sql`delete from reader_tokens where org_id = ${orgId} and page_id = ${pageId}`;
}

/** Records a use, unless another request recorded one after `since`. */
export async function touchReaderToken(sql: Db, id: string, now: Date, since: Date): Promise<void> {
  await sql`
    update reader_tokens set last_used_at = ${now}
    where id = ${id} and (last_used_at is null or last_used_at < ${since})`;
}

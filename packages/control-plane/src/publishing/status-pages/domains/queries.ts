import { anyOf, type Db, firstOf } from "../../../platform/db/client/sql.ts";

export interface DomainRow {
  page_id: string;
  org_id: string;
  domain: string;
  token: string;
  verified_at: Date | null;
  checked_at: Date | null;
  error: string | null;
}

const columns = (sql: Db) => sql`
  d.page_id, d.org_id, d.domain, d.token, d.verified_at, d.checked_at, d.error`;

/** The domain of a page of the organisation; null for none. */
export async function selectDomain(sql: Db, orgId: string, pageId: string): Promise<DomainRow | null> {
  return await firstOf(sql<DomainRow[]>`
    select ${columns(sql)} from status_page_domains d where d.org_id = ${orgId} and d.page_id = ${pageId}`);
}

/** Gives a page another domain, which is not verified. */
export async function storeDomain(sql: Db, row: Omit<DomainRow, "verified_at" | "checked_at" | "error">, now: Date) {
  await sql`
    insert into status_page_domains (page_id, org_id, domain, token, created_at)
    values (${row.page_id}, ${row.org_id}, ${row.domain}, ${row.token}, ${now})
    on conflict (page_id) do update set domain = excluded.domain, token = excluded.token, verified_at = null,
      checked_at = null, error = null, created_at = excluded.created_at`;
}

export async function deleteDomain(sql: Db, orgId: string, pageId: string): Promise<void> {
  await sql`delete from status_page_domains where org_id = ${orgId} and page_id = ${pageId}`;
}

/** True when another page has proved the domain. */
export async function isTaken(sql: Db, domain: string, pageId: string): Promise<boolean> {
  const proved = sql`
    from status_page_domains d join orgs o on o.id = d.org_id and o.deleted_at is null
    where d.domain = ${domain} and d.verified_at is not null and d.page_id <> ${pageId}`;
  return await anyOf(sql, proved);
}

/** Stores a look at the record, unless the domain has changed since. A domain that another page proved stays there. */
export async function storeCheck(sql: Db, { page_id, domain, verified_at, checked_at, error }: DomainRow) {
  await sql`
    update status_page_domains d set verified_at = ${verified_at}, checked_at = ${checked_at}, error = ${error}
    where d.page_id = ${page_id} and d.domain = ${domain}`;
}

/** Up to `limit` domains whose record was not looked at since: proved ones, and the others, oldest look first. */
export async function selectDue(sql: Db, verified: Date, pending: Date, limit: number): Promise<DomainRow[]> {
  return await sql<DomainRow[]>`
    select ${columns(sql)} from status_page_domains d join orgs o on o.id = d.org_id and o.deleted_at is null
    where d.checked_at is null
      or d.checked_at < case when d.verified_at is null then ${pending}::timestamptz else ${verified}::timestamptz end
    order by d.checked_at nulls first, d.page_id limit ${limit}`;
}

/** True when the page has proved the domain. */
export const isProved = async (sql: Db, pageId: string, domain: string): Promise<boolean> =>
  await anyOf(
    sql,
    sql`from status_page_domains where page_id = ${pageId} and domain = ${domain} and verified_at is not null`,
  );

/** Slug and proved domain (null for none) of every published page. */
export async function selectPublishedNames(sql: Db) {
  return await sql<{ slug: string; domain: string | null }[]>`
    select p.slug, d.domain from status_pages p join orgs o on o.id = p.org_id and o.deleted_at is null
    left join status_page_domains d on d.page_id = p.id and d.verified_at is not null
    where p.enabled`;
}

/** Every proved domain with its page. */
export async function selectVerified(sql: Db) {
  return await sql<{ domain: string; page_id: string }[]>`
    select d.domain, d.page_id from status_page_domains d join orgs o on o.id = d.org_id and o.deleted_at is null
    where d.verified_at is not null`;
}

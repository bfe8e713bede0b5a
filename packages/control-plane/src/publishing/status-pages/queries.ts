import type { Fragment } from "postgres";
import type { Managed } from "../../platform/db/managed-queries.ts";
import {
  affectsRow,
  columnOf,
  countOf,
  type Db,
  firstOf,
  inPortions,
  type Paging,
} from "../../platform/db/client/sql.ts";
import type { LogoTheme } from "./logos/queries.ts";
import type { Access } from "./access/schema.ts";
import type { Publish } from "./publish-schema.ts";
import type { ReaderScope } from "./access/reader-token-schema.ts";
import type { Branding } from "./schema.ts";

/** A reader token as the gate compares it. */
export interface StoredReaderToken {
  readonly id: string;
  readonly scope: ReaderScope;
  /** SHA-256 of the token, hexadecimal. */
  readonly hash: string;
}

export interface StatusPageRow {
  id: string;
  org_id: string;
  slug: string;
  name: string;
  enabled: boolean;
  /** Whether visitors can subscribe. */
  subscriptions_enabled: boolean;
  embed_origins: string[];
  /** Null without one, and in pages for visitors, which have its hash. */
  custom_css: string | null;
  /** First 16 hexadecimal digits of the SHA-256 of the style sheet; null without one. */
  css_hash: string | null;
  branding: Branding;
  access: Access;
  /** Hash of the password of the page; null without one. */
  access_password: string | null;
  /** Differs after each change of the mode and of the password. */
  access_revision: number;
  /** Null for a public page. */
  private_since: Date | null;
  publish: Publish;
  /** Since when the mode is not always; null while it is. */
  publish_since: Date | null;
  readonly reader_tokens: readonly StoredReaderToken[];
  /** Null without a logo. */
  logo_hash: string | null;
  /** Logo for the dark theme; null shows the other one there too. */
  logo_dark_hash: string | null;
  /** Sizes of both, pixels, as `240x80`. */
  logo_size: string | null;
  logo_dark_size: string | null;
  custom_domain: string | null;
  /** Differs after each change of the page, its components, its logos or its domain. */
  revision: string;
  created_at: Date;
  updated_at: Date;
  managed: Managed | null;
}

/** Notifies with the id of a changed page, or of an organisation whose pages appear or disappear. */
export const pagesChannel = "sm_pages";

const logoSize = (sql: Db) => sql`l.width || 'x' || l.height`;
const logoColumn = (sql: Db, value: Fragment, theme: LogoTheme) => sql`
  (select ${value} from status_page_logos l where l.page_id = p.id and l.theme = ${theme})`;

const columns = (sql: Db) => sql`
  p.id, p.org_id, p.slug, p.name, p.enabled, p.subscriptions_enabled, p.embed_origins, p.custom_css, p.branding,
  p.created_at, p.updated_at,
  p.access, p.access_password, p.access_revision, p.private_since,
  p.managed, p.publish, p.publish_since,
  coalesce((select jsonb_agg(jsonb_build_object('id', r.id, 'scope', r.scope, 'hash', encode(r.token_hash, 'hex')))
    from reader_tokens r where r.page_id = p.id), '[]') as reader_tokens,
  p.revision::text as revision, left(encode(sha256(convert_to(p.custom_css, 'UTF8')), 'hex'), 16) as css_hash,
  ${logoColumn(sql, sql`l.hash`, "light")} as logo_hash, ${logoColumn(sql, sql`l.hash`, "dark")} as logo_dark_hash,
  ${logoColumn(sql, logoSize(sql), "light")} as logo_size, ${logoColumn(sql, logoSize(sql), "dark")} as logo_dark_size,
  (select d.domain from status_page_domains d where d.page_id = p.id) as custom_domain`;

/** False when the slug is taken, in any organisation. */
export async function insertPage(sql: Db, row: StatusPageRow): Promise<boolean> {
  return await affectsRow(sql`
    insert into status_pages
      (id, org_id, slug, name, enabled, subscriptions_enabled, embed_origins, custom_css, branding, access,
      access_password, private_since, publish, publish_since, created_at, updated_at)
    values (${row.id}, ${row.org_id}, ${row.slug}, ${row.name}, ${row.enabled}, ${row.subscriptions_enabled},
      ${row.embed_origins}, ${row.custom_css}, ${sql.json(row.branding)}, ${sql.json(row.access)},
      ${row.access_password}, ${row.private_since},
      ${sql.json(row.publish)}, ${row.publish_since}, ${row.created_at}, ${row.updated_at})
    on conflict (slug) do nothing`);
}

/** Writes every mutable field. A taken slug raises a unique violation. */
export async function updatePage(sql: Db, row: StatusPageRow): Promise<void> {
  await sql`
    update status_pages set slug = ${row.slug}, name = ${row.name}, enabled = ${row.enabled},
      subscriptions_enabled = ${row.subscriptions_enabled}, embed_origins = ${row.embed_origins},
      custom_css = ${row.custom_css}, branding = ${sql.json(row.branding)},
      access = ${sql.json(row.access)}, access_password = ${row.access_password},
      access_revision = ${row.access_revision}, private_since = ${row.private_since},
      publish = ${sql.json(row.publish)}, publish_since = ${row.publish_since}, updated_at = ${row.updated_at}
    where org_id = ${row.org_id} and id = ${row.id}`;
}

export async function deletePage(sql: Db, orgId: string, id: string): Promise<void> {
  await sql`delete from status_pages where org_id = ${orgId} and id = ${id}`;
}

export async function selectPage(sql: Db, orgId: string, id: string): Promise<StatusPageRow | null> {
  return await firstOf(
    sql<StatusPageRow[]>`select ${columns(sql)} from status_pages p where p.org_id = ${orgId} and p.id = ${id}`,
  );
}

/** The style sheet of a page; null without one. */
export async function selectCss(sql: Db, id: string): Promise<string | null> {
  const [row] = await sql<{ custom_css: string | null }[]>`select custom_css from status_pages where id = ${id}`;
  return row?.custom_css ?? null;
}

export async function selectPageOfAny(sql: Db, id: string): Promise<StatusPageRow | null> {
  return await firstOf(sql<StatusPageRow[]>`select ${columns(sql)} from status_pages p where p.id = ${id}`);
}

/**
 * Locks the page against concurrent edits of it and its components, and announces its change; `changedAt`: when its
 * components or logos change, which are part of it.
 */
export async function lockPage(
  sql: Db,
  orgId: string,
  id: string,
  changedAt: Date | null,
): Promise<StatusPageRow | null> {
  const [row] = await sql<StatusPageRow[]>`
    update status_pages p set revision = p.revision + 1, updated_at = coalesce(${changedAt}, p.updated_at)
    where p.org_id = ${orgId} and p.id = ${id}
    returning ${columns(sql)}`;
  if (row === undefined) return null;
  await notifyPages(sql, id);
  return row;
}

/** Drops what replicas have cached of the page, or of all pages of the organisation, when the transaction commits. */
export async function notifyPages(sql: Db, id: string): Promise<void> {
  await sql`select pg_notify(${pagesChannel}, ${id})`;
}

export async function selectPages(sql: Db, orgId: string, limit: number, offset: number): Promise<StatusPageRow[]> {
  return await sql<StatusPageRow[]>`
    select ${columns(sql)} from status_pages p where p.org_id = ${orgId} order by p.created_at, p.id
    limit ${limit} offset ${offset}`;
}

/** Pages by id, which is by age; those behind the page `after`. */
export async function selectPagesAfter(
  sql: Db,
  orgId: string,
  after: string | null,
  limit: number,
): Promise<StatusPageRow[]> {
  return await sql<StatusPageRow[]>`
    select ${columns(sql)} from status_pages p
    where p.org_id = ${orgId} and (${after}::uuid is null or p.id > ${after}::uuid) order by p.id limit ${limit}`;
}

/**
 * Pages with every word in name or slug: names that begin with the first word first, then the oldest. `words` are in
 * lower case; `total` in every row counts all of them.
 */
export async function searchPages(sql: Db, orgId: string, words: readonly string[], limit: number) {
  return await sql<(Pick<StatusPageRow, "id" | "name" | "slug"> & { total: number })[]>`
    select p.id, p.name, p.slug, count(*) over ()::int as total from status_pages p
    where p.org_id = ${orgId}
      ${words.reduce((all, word) => sql`${all} and position(${word} in lower(p.name || ' ' || p.slug)) > 0`, sql``)}
    order by not starts_with(lower(p.name), ${words[0] ?? ""}), p.created_at, p.id limit ${limit}`;
}

export const countPages = async (sql: Db, orgId: string): Promise<number> =>
  await countOf(sql, sql`from status_pages where org_id = ${orgId}`);

/** The page at /status: the oldest enabled public one of the oldest live organisation. */
export async function selectServedPage(sql: Db): Promise<StatusPageRow | null> {
  return await firstOf(sql<StatusPageRow[]>`
    select ${columns(sql)} from status_pages p
    where p.org_id = (select o.id from orgs o where o.deleted_at is null order by o.created_at, o.id limit 1)
      and p.enabled and p.access ->> 'mode' = 'public'
    order by p.created_at, p.id limit 1`);
}

/** The published page with the id or the slug. */
export async function selectPublishedPage(
  sql: Db,
  page: { id: string } | { slug: string },
): Promise<StatusPageRow | null> {
  return await firstOf(sql<StatusPageRow[]>`
    select ${columns(sql)} from status_pages p join orgs o on o.id = p.org_id and o.deleted_at is null
    where ${"id" in page ? sql`p.id = ${page.id}` : sql`p.slug = ${page.slug}`} and p.enabled`);
}

/** The slugs among these that pages of other organisations have. */
export async function selectSlugsElsewhere(sql: Db, orgId: string, slugs: readonly string[]): Promise<string[]> {
  return await columnOf<string>(sql`
    select slug from status_pages where org_id <> ${orgId} and slug = any(${[...slugs]}::text[])`);
}

export interface ReportedPageRow {
  id: string;
  name: string;
  target_ids: string[];
}

/** Pages that are read in one turn. */
const pagesAtOnce = 50;

/** Pages of the organisation by name, with the monitors of their components. */
export async function selectReportedPages(
  sql: Db,
  orgId: string,
  { limit, offset, only }: Paging & { only: string | null },
): Promise<ReportedPageRow[]> {
  // A page may have 1,000 components: the parser of arrays would look at every character of their ids.
  const rows = await inPortions(
    sql<{ id: string; name: string; target_ids: string | null }[]>`
      select p.id, p.name, (select string_agg(c.target_id::text, ' ') from status_page_components c
        where c.org_id = p.org_id and c.page_id = p.id) as target_ids
      from status_pages p where p.org_id = ${orgId} ${only === null ? sql`` : sql`and p.id = ${only}`}
      order by natural_key(p.name), p.id limit ${limit} offset ${offset}`,
    { size: pagesAtOnce },
  );
  return rows.map((row) => ({ ...row, target_ids: row.target_ids?.split(" ") ?? [] }));
}

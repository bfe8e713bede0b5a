import type { Managed } from "../../platform/db/managed-queries.ts";
import { arrayOf, type Db, inPortions } from "../../platform/db/sql.ts";
import type { MonitorStatus } from "../../monitoring/targets/schema.ts";
import type { Branding, ManualState } from "./schema.ts";

export interface StatusPageRow {
  id: string;
  org_id: string;
  slug: string;
  name: string;
  enabled: boolean;
  /** Whether visitors can subscribe. */
  subscriptions_enabled: boolean;
  branding: Branding;
  /** Null without a logo. */
  logo_hash: string | null;
  /** Logo for the dark theme; null shows the other one there too. */
  logo_dark_hash: string | null;
  custom_domain: string | null;
  /** Differs after each change of the page, its components, its logos or its domain. */
  revision: string;
  created_at: Date;
  updated_at: Date;
  managed: Managed | null;
}

/** Notifies with the id of a changed page, or of an organisation whose pages appear or disappear. */
export const pagesChannel = "sm_pages";

const columns = (sql: Db) => sql`
  p.id, p.org_id, p.slug, p.name, p.enabled, p.subscriptions_enabled, p.branding, p.created_at, p.updated_at,
  p.managed,
  p.revision::text as revision,
  (select l.hash from status_page_logos l where l.page_id = p.id and l.theme = 'light') as logo_hash,
  (select l.hash from status_page_logos l where l.page_id = p.id and l.theme = 'dark') as logo_dark_hash,
  (select d.domain from status_page_domains d where d.page_id = p.id) as custom_domain`;

/** False when the slug is taken, in any organisation. */
export async function insertPage(sql: Db, row: StatusPageRow): Promise<boolean> {
  const rows = await sql`
    insert into status_pages
      (id, org_id, slug, name, enabled, subscriptions_enabled, branding, created_at, updated_at)
    values (${row.id}, ${row.org_id}, ${row.slug}, ${row.name}, ${row.enabled}, ${row.subscriptions_enabled},
      ${sql.json(row.branding)}, ${row.created_at}, ${row.updated_at})
    on conflict (slug) do nothing returning id`;
  return rows.length === 1;
}

/** Writes every mutable field. A taken slug raises a unique violation. */
export async function updatePage(sql: Db, row: StatusPageRow): Promise<void> {
  await sql`
    update status_pages set slug = ${row.slug}, name = ${row.name}, enabled = ${row.enabled},
      subscriptions_enabled = ${row.subscriptions_enabled}, branding = ${sql.json(row.branding)},
      updated_at = ${row.updated_at}
    where org_id = ${row.org_id} and id = ${row.id}`;
}

export async function deletePage(sql: Db, orgId: string, id: string): Promise<void> {
  await sql`delete from status_pages where org_id = ${orgId} and id = ${id}`;
}

export async function selectPage(sql: Db, orgId: string, id: string): Promise<StatusPageRow | null> {
  const [row] = await sql<
    StatusPageRow[]
  >`select ${columns(sql)} from status_pages p where p.org_id = ${orgId} and p.id = ${id}`;
  return row ?? null;
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
export async function searchPages(
  sql: Db,
  orgId: string,
  words: readonly string[],
  limit: number,
): Promise<(Pick<StatusPageRow, "id" | "name" | "slug"> & { total: number })[]> {
  return await sql<(Pick<StatusPageRow, "id" | "name" | "slug"> & { total: number })[]>`
    select p.id, p.name, p.slug, count(*) over ()::int as total from status_pages p
    where p.org_id = ${orgId}
      ${words.reduce((all, word) => sql`${all} and position(${word} in lower(p.name || ' ' || p.slug)) > 0`, sql``)}
    order by not starts_with(lower(p.name), ${words[0] ?? ""}), p.created_at, p.id limit ${limit}`;
}

export async function countPages(sql: Db, orgId: string): Promise<number> {
  const [row] = await sql<{ count: number }[]>`select count(*)::int as count from status_pages where org_id = ${orgId}`;
  return row!.count;
}

/** The page at /status: the oldest enabled one of the oldest live organisation. */
export async function selectServedPage(sql: Db): Promise<StatusPageRow | null> {
  const [row] = await sql<StatusPageRow[]>`
    select ${columns(sql)} from status_pages p
    where p.org_id = (select o.id from orgs o where o.deleted_at is null order by o.created_at, o.id limit 1)
      and p.enabled
    order by p.created_at, p.id limit 1`;
  return row ?? null;
}

/** The published page with the slug. */
export async function selectPublishedPage(sql: Db, slug: string): Promise<StatusPageRow | null> {
  const [row] = await sql<StatusPageRow[]>`
    select ${columns(sql)} from status_pages p join orgs o on o.id = p.org_id and o.deleted_at is null
    where p.slug = ${slug} and p.enabled`;
  return row ?? null;
}

/** The published page with the id. */
export async function selectPublishedById(sql: Db, id: string): Promise<StatusPageRow | null> {
  const [row] = await sql<StatusPageRow[]>`
    select ${columns(sql)} from status_pages p join orgs o on o.id = p.org_id and o.deleted_at is null
    where p.id = ${id} and p.enabled`;
  return row ?? null;
}

export interface ComponentRow {
  /** That of the monitor; its own without one. */
  id: string;
  /** Null: without a monitor; `state` is set manually then, and `public_name` is there. */
  target_id: string | null;
  monitor_name: string | null;
  public_name: string | null;
  public_description: string | null;
  public_group: string | null;
  sort_order: number;
  state: ManualState | null;
}

const componentColumns = (sql: Db) => sql`
  c.id, c.target_id, t.name as monitor_name, c.public_name, c.public_description, c.public_group, c.sort_order,
  c.state`;

export async function selectComponents(
  sql: Db,
  orgId: string,
  pageId: string,
  limit: number,
  offset: number,
): Promise<ComponentRow[]> {
  return await sql<ComponentRow[]>`
    select ${componentColumns(sql)} from status_page_components c left join targets t on t.id = c.target_id
    where c.org_id = ${orgId} and c.page_id = ${pageId} order by c.sort_order, c.id
    limit ${limit} offset ${offset}`;
}

export async function countComponents(sql: Db, orgId: string, pageId: string): Promise<number> {
  const [row] = await sql<
    { count: number }[]
  >`select count(*)::int as count from status_page_components where org_id = ${orgId} and page_id = ${pageId}`;
  return row!.count;
}

export async function selectComponent(
  sql: Db,
  orgId: string,
  pageId: string,
  id: string,
): Promise<ComponentRow | null> {
  const [row] = await sql<ComponentRow[]>`
    select ${componentColumns(sql)} from status_page_components c left join targets t on t.id = c.target_id
    where c.org_id = ${orgId} and c.page_id = ${pageId} and c.id = ${id}`;
  return row ?? null;
}

/** The number of other public components of the organisation, and whether this one is on another page than `pageId`. */
export async function countOtherPublic(
  sql: Db,
  orgId: string,
  pageId: string,
  id: string,
): Promise<{ others: number; elsewhere: boolean }> {
  const [row] = await sql<{ others: number; elsewhere: boolean }[]>`
    select count(distinct id) filter (where id <> ${id})::int as others,
      coalesce(bool_or(id = ${id} and page_id <> ${pageId}), false) as elsewhere
    from status_page_components where org_id = ${orgId}`;
  return row!;
}

const nextPlace = (sql: Db, pageId: string) =>
  sql`(select coalesce(max(c.sort_order) + 1, 0) from status_page_components c where c.page_id = ${pageId})`;

/** Adds a monitor of the organisation at the end of the page. False when the monitor does not exist. */
export async function insertComponent(
  sql: Db,
  orgId: string,
  pageId: string,
  row: Pick<ComponentRow, "target_id" | "public_name" | "public_description" | "public_group">,
): Promise<boolean> {
  const rows = await sql`
    insert into status_page_components
      (page_id, target_id, org_id, public_name, public_description, public_group, sort_order)
    select ${pageId}, t.id, t.org_id, ${row.public_name}, ${row.public_description}, ${row.public_group},
      ${nextPlace(sql, pageId)}
    from targets t where t.org_id = ${orgId} and t.id = ${row.target_id}
    returning target_id`;
  return rows.length === 1;
}

/** Adds a component without a monitor at the end of the page. */
export async function insertManual(
  sql: Db,
  orgId: string,
  pageId: string,
  row: WrittenComponent,
  now: Date,
): Promise<void> {
  await sql`
    insert into status_page_components
      (page_id, manual_id, org_id, public_name, public_description, public_group, sort_order, state, number, created_at)
    values (${pageId}, ${row.id}, ${orgId}, ${row.public_name}, ${row.public_description}, ${row.public_group},
      ${nextPlace(sql, pageId)}, ${row.state}, nextval('targets_number_seq'), ${now})`;
}

/** Those of the monitors that the organisation has; they are not deleted before the transaction ends. */
export async function keepTargets(sql: Db, orgId: string, ids: readonly string[]): Promise<Set<string>> {
  const rows = await sql<{ id: string }[]>`
    select id from targets where org_id = ${orgId} and id = any(${arrayOf(ids)}::uuid[]) order by id for key share`;
  return new Set(rows.map(({ id }) => id));
}

/** Components of the page, and how many of the given ones are not on it yet. */
export async function countOnPage(
  sql: Db,
  orgId: string,
  pageId: string,
  ids: readonly string[],
): Promise<{ current: number; adding: number }> {
  const [row] = await sql<{ current: number; adding: number }[]>`
    select count(*)::int as current,
      (${ids.length} - count(*) filter (where id = any(${arrayOf(ids)}::uuid[])))::int as adding
    from status_page_components where org_id = ${orgId} and page_id = ${pageId}`;
  return row!;
}

/** Public components of the organisation, a monitor once, and how many of the given ones are not public yet. */
export async function countPublic(
  sql: Db,
  orgId: string,
  ids: readonly string[],
): Promise<{ current: number; adding: number }> {
  const [row] = await sql<{ current: number; adding: number }[]>`
    select count(distinct id)::int as current,
      (select count(*) from unnest(${arrayOf(ids)}::uuid[]) as u (id) where not exists (
        select from status_page_components c where c.org_id = ${orgId} and c.id = u.id))::int as adding
    from status_page_components where org_id = ${orgId}`;
  return row!;
}

/** Adds monitors at the end of the page in the given order; those on it already stay as they are. */
export async function insertComponents(
  sql: Db,
  orgId: string,
  pageId: string,
  ids: readonly string[],
  group: string | null,
): Promise<void> {
  await sql`
    insert into status_page_components (page_id, target_id, org_id, public_group, sort_order)
    select ${pageId}, t.id, t.org_id, ${group}, u.position - 1 + ${nextPlace(sql, pageId)}
    from unnest(${arrayOf(ids)}::uuid[]) with ordinality as u (id, position)
    join targets t on t.org_id = ${orgId} and t.id = u.id
    on conflict (page_id, id) do nothing`;
}

export async function updateComponent(sql: Db, orgId: string, pageId: string, row: ComponentRow): Promise<void> {
  await sql`
    update status_page_components
    set public_name = ${row.public_name}, public_description = ${row.public_description},
      public_group = ${row.public_group}
    where org_id = ${orgId} and page_id = ${pageId} and id = ${row.id}`;
}

export async function deleteComponent(sql: Db, orgId: string, pageId: string, id: string): Promise<void> {
  await sql`delete from status_page_components where org_id = ${orgId} and page_id = ${pageId} and id = ${id}`;
}

/** The components of all pages of the organisation, in page order. */
export async function selectAllComponents(sql: Db, orgId: string): Promise<(ComponentRow & { page_id: string })[]> {
  return await inPortions(sql<(ComponentRow & { page_id: string })[]>`
    select c.page_id, ${componentColumns(sql)} from status_page_components c left join targets t on t.id = c.target_id
    where c.org_id = ${orgId} order by c.page_id, c.sort_order, c.id`);
}

/** The slugs among these that pages of other organisations have. */
export async function selectSlugsElsewhere(sql: Db, orgId: string, slugs: readonly string[]): Promise<string[]> {
  const rows = await sql<{ slug: string }[]>`
    select slug from status_pages where org_id <> ${orgId} and slug = any(${[...slugs]}::text[])`;
  return rows.map(({ slug }) => slug);
}

export async function deleteComponentsBut(
  sql: Db,
  orgId: string,
  pageId: string,
  ids: readonly string[],
): Promise<void> {
  await sql`
    delete from status_page_components
    where org_id = ${orgId} and page_id = ${pageId} and id <> all(${arrayOf(ids)}::uuid[])`;
}

/** A component to write; `state` is that of a new one without a monitor. */
export type WrittenComponent = Omit<ComponentRow, "monitor_name" | "sort_order">;

/** Writes components of the page with their texts, in the given order. The state of a stored one stays. */
export async function upsertComponents(
  sql: Db,
  orgId: string,
  pageId: string,
  rows: readonly WrittenComponent[],
  now: Date,
): Promise<void> {
  const written = rows.map((row, at) => ({
    ...row,
    manual_id: row.target_id === null ? row.id : null,
    sort_order: at,
  }));
  await sql`
    insert into status_page_components
      (page_id, target_id, manual_id, org_id, public_name, public_description, public_group, sort_order, state, number,
       created_at)
    select ${pageId}, n.target_id, n.manual_id, ${orgId}, n.public_name, n.public_description, n.public_group,
      n.sort_order, n.state, case when n.manual_id is not null then nextval('targets_number_seq') end,
      case when n.manual_id is not null then ${now}::timestamptz end
    from jsonb_to_recordset(${JSON.stringify(written)}::text::jsonb) as n (target_id uuid, manual_id uuid,
      public_name text, public_description text, public_group text, sort_order integer, state text)
    on conflict (page_id, id) do update set public_name = excluded.public_name,
      public_description = excluded.public_description, public_group = excluded.public_group,
      sort_order = excluded.sort_order`;
}

/** Numbers the components of a page in the order of the ids. */
export async function orderComponents(sql: Db, orgId: string, pageId: string, ids: readonly string[]): Promise<void> {
  await sql`
    update status_page_components c set sort_order = o.position - 1
    from unnest(${ids as string[]}::uuid[]) with ordinality as o (id, position)
    where c.org_id = ${orgId} and c.page_id = ${pageId} and c.id = o.id`;
}

/** A public component with the state of its monitor, or its own. */
export interface PublicComponentRow {
  id: string;
  name: string;
  description: string | null;
  group: string | null;
  /** Creation of the monitor, or of the component without one. */
  created_at: Date;
  /** Unknown without a monitor. */
  status: MonitorStatus;
  /** Set manually; null for a monitor. */
  state: ManualState | null;
  last_result_at: Date | null;
  /** Null without a monitor. */
  kind: string | null;
  /** Small number of the monitor or component. */
  number: number;
  /** Of the certificate or registration that was seen last. */
  expires_at: Date | null;
}

/** Components of a page in order. A monitor with stale votes at `now`, or a paused one, is unknown. */
export async function selectPublicComponents(
  sql: Db,
  orgId: string,
  pageId: string,
  now: Date,
): Promise<PublicComponentRow[]> {
  return await sql<PublicComponentRow[]>`
    select c.id, coalesce(c.public_name, t.name) as name, c.public_description as description,
      c.public_group as "group", coalesce(t.created_at, c.created_at) as created_at, c.state,
      case when t.enabled and s.status_until >= ${now} then s.status else 'unknown' end as status, s.last_result_at,
      t.kind, coalesce(t.number, c.number) as number, s.expires_at
    from status_page_components c
    left join targets t on t.id = c.target_id left join target_states s on s.target_id = c.target_id
    where c.org_id = ${orgId} and c.page_id = ${pageId} order by c.sort_order, c.id`;
}

/** A page of a report. */
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
  { limit, offset, only }: { limit: number; offset: number; only: string | null },
): Promise<ReportedPageRow[]> {
  // A page may have 1,000 components: the parser of arrays would look at every character of their ids.
  const rows = await inPortions(
    sql<{ id: string; name: string; target_ids: string | null }[]>`
      select p.id, p.name, (select string_agg(c.target_id::text, ' ') from status_page_components c
        where c.org_id = p.org_id and c.page_id = p.id) as target_ids
      from status_pages p where p.org_id = ${orgId} ${only === null ? sql`` : sql`and p.id = ${only}`}
      order by natural_key(p.name), p.id limit ${limit} offset ${offset}`,
    pagesAtOnce,
  );
  return rows.map((row) => ({ ...row, target_ids: row.target_ids?.split(" ") ?? [] }));
}

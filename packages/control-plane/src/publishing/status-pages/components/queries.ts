import type { MonitorStatus } from "../../../monitoring/targets/schema.ts";
import {
  arrayOf,
  columnOf,
  type Db,
  firstOf,
  inPortions,
  type Listed,
  listed,
  type Paging,
  rowOf,
} from "../../../platform/db/client/sql.ts";
import type { ManualState, Show } from "../schema.ts";

/* Components of status pages. */

export interface ComponentRow {
  /** That of the monitor; its own without one. */
  id: string;
  /** Null: without a monitor; `state` is set manually then, and `public_name` is there. */
  target_id: string | null;
  monitor_name: string | null;
  public_name: string | null;
  public_description: string | null;
  public_group: string | null;
  show: Show;
  sort_order: number;
  state: ManualState | null;
}

const columns = (sql: Db) => sql`
  c.id, c.target_id, t.name as monitor_name, c.public_name, c.public_description, c.public_group, c.show,
  c.sort_order, c.state`;

const ofPage = (sql: Db, orgId: string, pageId: string) => sql`
  from status_page_components c left join targets t on t.id = c.target_id
  where c.org_id = ${orgId} and c.page_id = ${pageId}`;

export async function selectComponents(
  sql: Db,
  orgId: string,
  pageId: string,
  { limit, offset }: Paging,
): Promise<Listed<ComponentRow>> {
  const from = ofPage(sql, orgId, pageId);
  const part = sql<ComponentRow[]>`
    select ${columns(sql)} ${from} order by c.sort_order, c.id limit ${limit} offset ${offset}`;
  return await listed(sql, from, part);
}

export async function selectComponent(
  sql: Db,
  orgId: string,
  pageId: string,
  id: string,
): Promise<ComponentRow | null> {
  return await firstOf(sql<ComponentRow[]>`select ${columns(sql)} ${ofPage(sql, orgId, pageId)} and c.id = ${id}`);
}

const nextPlace = (sql: Db, pageId: string) =>
  sql`(select coalesce(max(c.sort_order) + 1, 0) from status_page_components c where c.page_id = ${pageId})`;

/** Those of the monitors that the organisation has; they are not deleted before the transaction ends. */
export async function keepTargets(sql: Db, orgId: string, ids: readonly string[]): Promise<Set<string>> {
  const known = await columnOf<string>(sql`
    select id from targets where org_id = ${orgId} and id = any(${arrayOf(ids)}::uuid[]) order by id for key share`);
  return new Set(known);
}

/** Components of the page, and how many of the given ones are not on it yet. */
export async function countOnPage(sql: Db, orgId: string, pageId: string, ids: readonly string[]) {
  return await rowOf(sql<{ current: number; adding: number }[]>`
    select count(*)::int as current,
      (${ids.length} - count(*) filter (where id = any(${arrayOf(ids)}::uuid[])))::int as adding
    from status_page_components where org_id = ${orgId} and page_id = ${pageId}`);
}

/** Public components of the organisation, a monitor once, and how many of the given ones are not public yet. */
export async function countPublic(sql: Db, orgId: string, ids: readonly string[]) {
  return await rowOf(sql<{ current: number; adding: number }[]>`
    select count(distinct id)::int as current,
      (select count(*) from unnest(${arrayOf(ids)}::uuid[]) as u (id) where not exists (
        select from status_page_components c where c.org_id = ${orgId} and c.id = u.id))::int as adding
    from status_page_components where org_id = ${orgId}`);
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
      public_group = ${row.public_group}, show = ${sql.json(row.show)}, sort_order = ${row.sort_order}
    where org_id = ${orgId} and page_id = ${pageId} and id = ${row.id}`;
}

export async function deleteComponent(sql: Db, orgId: string, pageId: string, id: string): Promise<void> {
  await sql`delete from status_page_components where org_id = ${orgId} and page_id = ${pageId} and id = ${id}`;
}

/** The components of all pages of the organisation, in page order. */
export async function selectAllComponents(sql: Db, orgId: string) {
  return await inPortions(sql<(ComponentRow & { page_id: string })[]>`
    select c.page_id, ${columns(sql)} from status_page_components c left join targets t on t.id = c.target_id
    where c.org_id = ${orgId} order by c.page_id, c.sort_order, c.id`);
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

/**
 * Writes components of the page with their texts in the given order, from the first place on or behind the last one.
 * The state of a stored one stays.
 */
export async function upsertComponents(
  sql: Db,
  orgId: string,
  pageId: string,
  rows: readonly WrittenComponent[],
  { place, now }: { place: "first" | "last"; now: Date },
): Promise<void> {
  const written = rows.map((row, at) => ({ ...row, manual_id: row.target_id === null ? row.id : null, at }));
  await sql`
    insert into status_page_components
      (page_id, target_id, manual_id, org_id, public_name, public_description, public_group, show, sort_order, state,
       number, created_at)
    select ${pageId}, n.target_id, n.manual_id, ${orgId}, n.public_name, n.public_description, n.public_group,
      n.show, n.at + ${place === "first" ? 0 : nextPlace(sql, pageId)}, n.state,
      case when n.manual_id is not null then nextval('targets_number_seq') end,
      case when n.manual_id is not null then ${now}::timestamptz end
    from jsonb_to_recordset(${JSON.stringify(written)}::text::jsonb) as n (target_id uuid, manual_id uuid,
      public_name text, public_description text, public_group text, show jsonb, at integer, state text)
    on conflict (page_id, id) do update set public_name = excluded.public_name,
      public_description = excluded.public_description, public_group = excluded.public_group, show = excluded.show,
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
  /** Figures that visitors see. */
  show: Show;
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
      c.public_group as "group", c.show, coalesce(t.created_at, c.created_at) as created_at, c.state,
      case when t.enabled and s.status_until >= ${now} then s.status else 'unknown' end as status, s.last_result_at,
      t.kind, coalesce(t.number, c.number) as number, s.expires_at
    from status_page_components c
    left join targets t on t.id = c.target_id left join target_states s on s.target_id = c.target_id
    where c.org_id = ${orgId} and c.page_id = ${pageId} order by c.sort_order, c.id`;
}

import type { WriteSource } from "../context.ts";
import type { Db } from "../db/sql.ts";
import type { WindowState } from "./schema.ts";

export interface WindowRow {
  id: string;
  org_id: string;
  title: string;
  description: string | null;
  starts_at: Date;
  ends_at: Date;
  write_source: WriteSource;
  created_at: Date;
  updated_at: Date;
  /** In the order of the request. */
  target_ids: string[];
}

const columns = (sql: Db) => sql`
  w.id, w.org_id, w.title, w.description, w.starts_at, w.ends_at, w.write_source, w.created_at, w.updated_at,
  array(select wt.target_id from maintenance_window_targets wt where wt.window_id = w.id order by wt.position)
    as target_ids`;

export async function insertWindow(sql: Db, row: WindowRow): Promise<void> {
  await sql`
    insert into maintenance_windows
      (id, org_id, title, description, starts_at, ends_at, write_source, created_at, updated_at)
    values (${row.id}, ${row.org_id}, ${row.title}, ${row.description}, ${row.starts_at}, ${row.ends_at},
      ${row.write_source}, ${row.created_at}, ${row.updated_at})`;
  await insertTargets(sql, row.id, row.target_ids);
}

/** Writes every mutable field. */
export async function updateWindow(sql: Db, row: WindowRow): Promise<void> {
  await sql`
    update maintenance_windows set title = ${row.title}, description = ${row.description},
      starts_at = ${row.starts_at}, ends_at = ${row.ends_at}, write_source = ${row.write_source},
      updated_at = ${row.updated_at}
    where org_id = ${row.org_id} and id = ${row.id}`;
  await sql`delete from maintenance_window_targets where window_id = ${row.id}`;
  await insertTargets(sql, row.id, row.target_ids);
}

async function insertTargets(sql: Db, windowId: string, ids: readonly string[]): Promise<void> {
  await sql`
    insert into maintenance_window_targets (window_id, target_id, position)
    select ${windowId}, u.id, u.position from unnest(${[...ids]}::uuid[]) with ordinality as u (id, position)`;
}

export async function deleteWindow(sql: Db, orgId: string, id: string): Promise<void> {
  await sql`delete from maintenance_windows where org_id = ${orgId} and id = ${id}`;
}

export async function selectWindow(sql: Db, orgId: string, id: string): Promise<WindowRow | null> {
  const [row] = await sql<WindowRow[]>`
    select ${columns(sql)} from maintenance_windows w where w.org_id = ${orgId} and w.id = ${id}`;
  return row ?? null;
}

export async function lockWindow(sql: Db, orgId: string, id: string): Promise<WindowRow | null> {
  const [row] = await sql<WindowRow[]>`
    select ${columns(sql)} from maintenance_windows w where w.org_id = ${orgId} and w.id = ${id} for no key update`;
  return row ?? null;
}

const inState = (sql: Db, state: WindowState | "all", now: Date) =>
  state === "all"
    ? sql`true`
    : state === "upcoming"
      ? sql`w.starts_at > ${now}`
      : state === "active"
        ? sql`w.starts_at <= ${now} and w.ends_at > ${now}`
        : sql`w.ends_at <= ${now}`;

/** Windows of the organisation, newest start first. */
export async function selectWindows(
  sql: Db,
  orgId: string,
  { status, now, limit, offset }: { status: WindowState | "all"; now: Date; limit: number; offset: number },
): Promise<WindowRow[]> {
  return await sql<WindowRow[]>`
    select ${columns(sql)} from maintenance_windows w where w.org_id = ${orgId} and ${inState(sql, status, now)}
    order by w.starts_at desc, w.id limit ${limit} offset ${offset}`;
}

export async function countWindows(sql: Db, orgId: string, status: WindowState | "all", now: Date): Promise<number> {
  const [row] = await sql<{ count: number }[]>`
    select count(*)::integer as count from maintenance_windows w
    where w.org_id = ${orgId} and ${inState(sql, status, now)}`;
  return row!.count;
}

/** Windows that have not ended. */
export async function countUnfinished(sql: Db, orgId: string, now: Date): Promise<number> {
  const [row] = await sql<{ count: number }[]>`
    select count(*)::integer as count from maintenance_windows where org_id = ${orgId} and ends_at > ${now}`;
  return row!.count;
}

/** Those of the ids that name targets of the organisation, which are not deleted before the transaction ends. */
export async function keepTargets(sql: Db, orgId: string, ids: readonly string[]): Promise<Set<string>> {
  const rows = await sql<{ id: string }[]>`
    select id from targets where org_id = ${orgId} and id = any(${[...ids]}::uuid[]) order by id for key share`;
  return new Set(rows.map(({ id }) => id));
}

/** A window and those of its targets that are on a status page. */
export interface PageWindowRow {
  id: string;
  title: string;
  description: string | null;
  starts_at: Date;
  ends_at: Date;
  target_ids: string[];
}

/** Windows that touch one of the targets and overlap the time from `from` to `to`, by start. */
export async function selectWindowsOf(
  sql: Db,
  orgId: string,
  targetIds: readonly string[],
  from: Date,
  to: Date,
): Promise<PageWindowRow[]> {
  return await sql<PageWindowRow[]>`
    select w.id, w.title, w.description, w.starts_at, w.ends_at,
      array_agg(wt.target_id order by wt.position) as target_ids
    from maintenance_windows w join maintenance_window_targets wt on wt.window_id = w.id
    where w.org_id = ${orgId} and wt.target_id = any(${[...targetIds]}::uuid[])
      and w.ends_at > ${from} and w.starts_at < ${to}
    group by w.id order by w.starts_at, w.id`;
}

import type { Managed } from "../../platform/db/managed-queries.ts";
import { columnOf, countOf, type Db, firstOf, inPortions, type Paging } from "../../platform/db/client/sql.ts";
import type { StoredRow } from "../../platform/http/wire.ts";
import { type Maintenance, maxDays, type WindowState } from "./schema.ts";

type Shown = StoredRow<Omit<Maintenance, "component_ids" | "recurrence" | "occurrence" | "state" | "managed_by">>;

export interface WindowRow extends Shown {
  org_id: string;
  recurrence_rule: string | null;
  recurrence_time_zone: string | null;
  /** End of the last occurrence; null for a rule without an end. */
  over_at: Date | null;
  /** Occurrences that start up to this time are stored; null without a rule. */
  generated_until: Date | null;
  managed: Managed | null;
  /** In the order of the request. */
  target_ids: string[];
}

/** A stored window with its current occurrence, else the next one, else the last one. */
export interface WindowView extends WindowRow {
  occurrence_id: string | null;
  occurrence_starts_at: Date | null;
  occurrence_ends_at: Date | null;
}

/** Days for which calendars show a window as cancelled. */
export const cancelledDays = 30;

const columns = (sql: Db) => sql`
  w.id, w.org_id, w.title, w.description, w.starts_at, w.ends_at, w.recurrence_rule, w.recurrence_time_zone, w.over_at,
  w.generated_until, w.write_source, w.created_at, w.updated_at, w.managed,
  array(select wt.target_id from maintenance_window_targets wt where wt.window_id = w.id order by wt.position)
    as target_ids`;

/**
 * Joins the current occurrence of `w`, else the next one, else the last one, as `o`: the first from either side of the
 * index, because a daily window has 150 of them.
 */
const nearest = (sql: Db, now: Date) => {
  const occurrences = sql`
    select o.id, o.starts_at, o.ends_at from maintenance_occurrences o where o.window_id = w.id and not o.cancelled`;
  return sql`
    left join lateral (
      (${occurrences} and o.starts_at > ${now}::timestamptz - make_interval(days => ${maxDays}) and o.ends_at > ${now}
      order by o.starts_at limit 1)
      union all
      (${occurrences} and o.starts_at <= ${now} and o.ends_at <= ${now} order by o.starts_at desc limit 1)
      order by ends_at desc limit 1
    ) o on true`;
};

const occurrenceColumns = (sql: Db) => sql`
  o.id as occurrence_id, o.starts_at as occurrence_starts_at, o.ends_at as occurrence_ends_at`;

export async function insertWindow(sql: Db, row: WindowRow): Promise<void> {
  await sql`
    insert into maintenance_windows
      (id, org_id, title, description, starts_at, ends_at, recurrence_rule, recurrence_time_zone, over_at,
        generated_until, write_source, created_at, updated_at)
    values (${row.id}, ${row.org_id}, ${row.title}, ${row.description}, ${row.starts_at}, ${row.ends_at},
      ${row.recurrence_rule}, ${row.recurrence_time_zone}, ${row.over_at}, ${row.generated_until},
      ${row.write_source}, ${row.created_at}, ${row.updated_at})`;
  await insertTargets(sql, row.id, row.target_ids);
}

/** Writes every mutable field. */
export async function updateWindow(sql: Db, row: WindowRow): Promise<void> {
  await sql`
    update maintenance_windows set title = ${row.title}, description = ${row.description},
      starts_at = ${row.starts_at}, ends_at = ${row.ends_at}, recurrence_rule = ${row.recurrence_rule},
      recurrence_time_zone = ${row.recurrence_time_zone}, over_at = ${row.over_at},
      generated_until = ${row.generated_until}, write_source = ${row.write_source}, updated_at = ${row.updated_at},
      sequence = sequence + 1
    where org_id = ${row.org_id} and id = ${row.id}`;
  await sql`delete from maintenance_window_targets where window_id = ${row.id}`;
  await insertTargets(sql, row.id, row.target_ids);
}

async function insertTargets(sql: Db, windowId: string, ids: readonly string[]): Promise<void> {
  await sql`
    insert into maintenance_window_targets (window_id, target_id, position)
    select ${windowId}, u.id, u.position from unnest(${[...ids]}::uuid[]) with ordinality as u (id, position)`;
}

/** Deletes a window. One that is not over is remembered as cancelled; older ones of the organisation are forgotten. */
export async function deleteWindow(sql: Db, orgId: string, id: string, now: Date): Promise<void> {
  await sql`
    delete from maintenance_cancellations
    where org_id = ${orgId} and cancelled_at < ${now}::timestamptz - make_interval(days => ${cancelledDays})`;
  await sql`
    insert into maintenance_cancellations (window_id, org_id, title, starts_at, ends_at, recurrence_rule,
      recurrence_time_zone, sequence, target_ids, cancelled_at)
    select w.id, w.org_id, w.title, w.starts_at, w.ends_at, w.recurrence_rule, w.recurrence_time_zone, w.sequence + 1,
      array(select wt.target_id from maintenance_window_targets wt where wt.window_id = w.id), ${now}
    from maintenance_windows w
    where w.org_id = ${orgId} and w.id = ${id} and (w.over_at is null or w.over_at > ${now})
    on conflict (window_id) do nothing`;
  await sql`delete from maintenance_windows where org_id = ${orgId} and id = ${id}`;
}

export async function selectWindow(sql: Db, orgId: string, id: string, now: Date): Promise<WindowView | null> {
  return await firstOf(sql<WindowView[]>`
    select ${columns(sql)}, ${occurrenceColumns(sql)} from maintenance_windows w ${nearest(sql, now)}
    where w.org_id = ${orgId} and w.id = ${id}`);
}

export async function lockWindow(sql: Db, orgId: string, id: string): Promise<WindowRow | null> {
  return await firstOf(sql<WindowRow[]>`
    select ${columns(sql)} from maintenance_windows w where w.org_id = ${orgId} and w.id = ${id} for no key update`);
}

/** Condition on `w` and its nearest occurrence `o`. */
const inState = (sql: Db, state: WindowState | "all", now: Date) => {
  if (state === "all") return sql`true`;
  if (state === "past") return sql`w.over_at <= ${now}`;
  const active = sql`o.starts_at <= ${now} and o.ends_at > ${now}`;
  if (state === "active") return active;
  return sql`(w.over_at is null or w.over_at > ${now}) and (${active}) is not true`;
};

/** Windows that are read in one turn: each may have 1,000 targets. */
const windowsAtOnce = 25;

/** Order of a list by the nearest occurrence. */
export type WindowOrder = "newest" | "soonest";

/** Windows of the organisation by the start of their nearest occurrence. */
export async function selectWindows(
  sql: Db,
  orgId: string,
  { state, now, order, limit, offset }: Paging & { state: WindowState | "all"; now: Date; order: WindowOrder },
): Promise<WindowView[]> {
  return await inPortions(
    sql<WindowView[]>`
      select ${columns(sql)}, ${occurrenceColumns(sql)} from maintenance_windows w ${nearest(sql, now)}
      where w.org_id = ${orgId} and ${inState(sql, state, now)}
      order by coalesce(o.starts_at, w.starts_at) ${order === "newest" ? sql`desc` : sql`asc`}, w.id
      limit ${limit} offset ${offset}`,
    { size: windowsAtOnce },
  );
}

export async function countWindows(sql: Db, orgId: string, state: WindowState | "all", now: Date): Promise<number> {
  const from = sql`
    from maintenance_windows w ${nearest(sql, now)} where w.org_id = ${orgId} and ${inState(sql, state, now)}`;
  return await countOf(sql, from);
}

/** Windows that have not ended. */
export const countUnfinished = async (sql: Db, orgId: string, now: Date): Promise<number> =>
  await countOf(sql, sql`from maintenance_windows where org_id = ${orgId} and (over_at is null or over_at > ${now})`);

/** The given ids that are targets of the organisation; locked against deletion until the transaction ends. */
export async function keepTargets(sql: Db, orgId: string, ids: readonly string[]): Promise<Set<string>> {
  const own = await columnOf<string>(sql`
    select id from targets where org_id = ${orgId} and id = any(${[...ids]}::uuid[]) order by id for key share`);
  return new Set(own);
}

import { newId } from "@statusmesh/shared/ids";
import {
  arrayOf,
  type Db,
  firstOf,
  inPortions,
  type Listed,
  listed,
  manyIds,
  type Paging,
} from "../../platform/db/client/sql.ts";
import type { StoredRow } from "../../platform/http/wire.ts";
import type { WindowRow } from "./queries.ts";
import { maxDays, type Occurrence } from "./schema.ts";

export type OccurrenceRow = StoredRow<Omit<Occurrence, "state">>;
type Span = Pick<OccurrenceRow, "starts_at" | "ends_at">;

/** Adds occurrences of a recurring window. Stored ones, also cancelled ones, do not change. */
export async function addOccurrences(sql: Db, row: Pick<WindowRow, "id" | "org_id">, spans: Span[]): Promise<void> {
  if (spans.length === 0) return;
  await sql`
    insert into maintenance_occurrences (id, window_id, org_id, starts_at, ends_at)
    select u.id, ${row.id}, ${row.org_id}, u.starts_at, u.ends_at
    from unnest(${spans.map(() => newId())}::uuid[],
      ${spans.map((span) => span.starts_at.toISOString())}::timestamptz[],
      ${spans.map((span) => span.ends_at.toISOString())}::timestamptz[]) as u (id, starts_at, ends_at)
    on conflict (window_id, starts_at) do nothing`;
}

/** Writes the only occurrence of a window without a rule; its id is the id of the window. */
export async function writeOnlyOccurrence(sql: Db, row: WindowRow): Promise<void> {
  // Occurrences of an earlier rule.
  await sql`
    delete from maintenance_occurrences
    where window_id = ${row.id} and starts_at = ${row.starts_at} and id <> ${row.id}`;
  await sql`
    insert into maintenance_occurrences (id, window_id, org_id, starts_at, ends_at)
    values (${row.id}, ${row.id}, ${row.org_id}, ${row.starts_at}, ${row.ends_at})
    on conflict (id) do update set starts_at = excluded.starts_at, ends_at = excluded.ends_at`;
}

/** Removes the occurrences that start after `at`. Cancelled ones stay, so that the rule does not create them again. */
export async function deleteUpcoming(sql: Db, orgId: string, windowId: string, at: Date): Promise<void> {
  await sql`
    delete from maintenance_occurrences
    where org_id = ${orgId} and window_id = ${windowId} and starts_at > ${at} and not cancelled`;
}

/** Occurrences of a window that end after a time, by start. */
export async function selectOccurrences(
  sql: Db,
  orgId: string,
  windowId: string,
  { after, limit, offset }: Paging & { after: Date },
): Promise<Listed<OccurrenceRow>> {
  const from = sql`
    from maintenance_occurrences where org_id = ${orgId} and window_id = ${windowId} and ends_at > ${after}`;
  const part = sql<OccurrenceRow[]>`
    select id, starts_at, ends_at, cancelled ${from} order by starts_at limit ${limit} offset ${offset}`;
  return await listed(sql, from, part);
}

export async function selectOccurrence(
  sql: Db,
  orgId: string,
  windowId: string,
  id: string,
): Promise<OccurrenceRow | null> {
  return await firstOf(sql<OccurrenceRow[]>`
    select id, starts_at, ends_at, cancelled from maintenance_occurrences
    where org_id = ${orgId} and window_id = ${windowId} and id = ${id}`);
}

export async function updateOccurrence(sql: Db, orgId: string, row: OccurrenceRow, now: Date): Promise<void> {
  await sql`
    with changed as (
      update maintenance_occurrences set ends_at = ${row.ends_at}, cancelled = ${row.cancelled}
      where org_id = ${orgId} and id = ${row.id} returning window_id
    )
    update maintenance_windows w set sequence = w.sequence + 1, updated_at = ${now}
    from changed where w.id = changed.window_id`;
}

export async function updateEnd(
  sql: Db,
  orgId: string,
  id: string,
  { ends_at, over_at }: { ends_at: Date; over_at: Date },
): Promise<void> {
  await sql`
    update maintenance_windows set ends_at = ${ends_at}, over_at = ${over_at} where org_id = ${orgId} and id = ${id}`;
}

/** A recurring window whose stored occurrences reach to `generated_until`. */
export type ShortWindow = Pick<
  WindowRow,
  "id" | "org_id" | "starts_at" | "ends_at" | "recurrence_rule" | "recurrence_time_zone" | "generated_until"
>;

/** Locks unfinished recurring windows whose stored occurrences end before `until`. */
export async function lockShortWindows(sql: Db, now: Date, until: Date, limit: number): Promise<ShortWindow[]> {
  return await sql<ShortWindow[]>`
    select id, org_id, starts_at, ends_at, recurrence_rule, recurrence_time_zone, generated_until
    from maintenance_windows
    where generated_until < ${until} and (over_at is null or over_at > ${now})
    order by generated_until limit ${limit} for update skip locked`;
}

export async function updateGenerated(sql: Db, orgId: string, id: string, until: Date): Promise<void> {
  await sql`update maintenance_windows set generated_until = ${until} where org_id = ${orgId} and id = ${id}`;
}

/** One occurrence of a window. All occurrences of a window share the list of the requested targets that it has. */
export type PageWindowRow = Pick<WindowRow, "id" | "title" | "description" | "starts_at" | "ends_at" | "target_ids">;

/**
 * Occurrences of windows that touch one of the targets and overlap the time from `from` to `to`, by start. Two
 * statements: 20 daily windows of 1,000 targets have two million pairs of an occurrence and a target.
 */
export async function selectWindowsOf(
  sql: Db,
  orgId: string,
  targetIds: readonly string[],
  from: Date,
  to: Date,
): Promise<PageWindowRow[]> {
  const ids = arrayOf(targetIds);
  const spans = await inPortions(sql<(Span & { window_id: string })[]>`
    select o.window_id, o.starts_at, o.ends_at from maintenance_occurrences o
    where o.org_id = ${orgId} and not o.cancelled and o.ends_at > ${from} and o.starts_at < ${to}
      and o.window_id in (
        select wt.window_id from maintenance_window_targets wt where wt.target_id = any(${ids}::uuid[]))
    order by o.starts_at, o.window_id`);
  if (spans.length === 0) return [];
  const rows = await sql<{ id: string; title: string; description: string | null; target_ids: string }[]>`
    select w.id, w.title, w.description, string_agg(wt.target_id::text, ' ' order by wt.position) as target_ids
    from maintenance_windows w join maintenance_window_targets wt on wt.window_id = w.id
    where w.org_id = ${orgId} and w.id = any(${[...new Set(spans.map((span) => span.window_id))]}::uuid[])
      and wt.target_id = any(${ids}::uuid[])
    group by w.id`;
  const windows = new Map(rows.map((row) => [row.id, { ...row, target_ids: row.target_ids.split(" ") }]));
  return spans.flatMap(({ window_id, starts_at, ends_at }) => {
    const window = windows.get(window_id);
    // Deleted between the two statements.
    return window === undefined ? [] : [{ ...window, starts_at, ends_at }];
  });
}

/** Windows that are read in one turn: each may have 400 occurrences. */
const windowsAtOnce = 100;

/**
 * The occurrences of windows that overlap the time from `from` to `to`, by window: start and end of each, as PostgreSQL
 * sends them (microseconds since 2000). 90,000 rows of two times took 290 ms to decode.
 */
export async function selectSpans(
  sql: Db,
  orgId: string,
  windowIds: readonly string[],
  { from, to }: { from: Date; to: Date },
) {
  return await inPortions(
    sql<{ window_id: string; spans: Buffer }[]>`
      select window_id, string_agg(timestamptz_send(starts_at) || timestamptz_send(ends_at), '') as spans
      from maintenance_occurrences
      where org_id = ${orgId} and window_id = any(${arrayOf(windowIds)}::uuid[]) and not cancelled
        and ends_at > ${from} and starts_at < ${to}
        and starts_at > ${from}::timestamptz - make_interval(days => ${maxDays})
      group by window_id`,
    { size: windowsAtOnce },
  );
}

/** The ids of the windows of each of the targets, a space between two; targets without one are left out. Unsorted. */
export async function selectWindowIds(sql: Db, orgId: string, targetIds: readonly string[]) {
  return await sql<{ target_id: string; window_ids: string }[]>`
    select wt.target_id, string_agg(wt.window_id::text, ' ') as window_ids
    from maintenance_window_targets wt join maintenance_windows w on w.id = wt.window_id and w.org_id = ${orgId}
    where wt.target_id = any(${manyIds(sql, targetIds)})
    group by wt.target_id`;
}

export interface CalendarRow extends OccurrenceRow {
  window_id: string;
  title: string;
  recurring: boolean;
}

/** Occurrences of the organisation that overlap the time from `from` to `to`, by start; at most `limit`. */
export async function selectCalendar(
  sql: Db,
  orgId: string,
  { from, to, limit }: { from: Date; to: Date; limit: number },
): Promise<CalendarRow[]> {
  return await sql<CalendarRow[]>`
    select o.id, o.starts_at, o.ends_at, o.cancelled, w.id as window_id, w.title,
      w.recurrence_rule is not null as recurring
    from maintenance_occurrences o join maintenance_windows w on w.id = o.window_id
    where o.org_id = ${orgId} and not o.cancelled and o.ends_at > ${from} and o.starts_at < ${to}
      and o.starts_at > ${from}::timestamptz - make_interval(days => ${maxDays})
    order by o.starts_at, o.id limit ${limit}`;
}

/** A monitor that is or will be under maintenance. */
export type TargetWindowRow = Pick<PageWindowRow, "id" | "title" | "starts_at" | "ends_at">;

/** The occurrence of a target that is in progress or starts next before `until`; null for none. */
export async function selectTargetWindow(
  sql: Db,
  orgId: string,
  targetId: string,
  { now, until }: { now: Date; until: Date },
): Promise<TargetWindowRow | null> {
  return await firstOf(sql<TargetWindowRow[]>`
    select w.id, w.title, o.starts_at, o.ends_at
    from maintenance_window_targets wt
    join maintenance_occurrences o on o.window_id = wt.window_id
    join maintenance_windows w on w.id = o.window_id
    where o.org_id = ${orgId} and wt.target_id = ${targetId}
      and o.ends_at > ${now} and o.starts_at < ${until} and not o.cancelled
    order by o.starts_at, o.ends_at desc limit 1`);
}

/** Names of the first 10 monitors of each window. */
export async function selectMonitorNames(
  sql: Db,
  orgId: string,
  windowIds: readonly string[],
): Promise<Map<string, string[]>> {
  const rows = await sql<{ window_id: string; names: string[] }[]>`
    select wt.window_id, (array_agg(t.name order by wt.position))[1:10] as names
    from maintenance_window_targets wt join targets t on t.id = wt.target_id and t.org_id = ${orgId}
    where wt.window_id = any(${[...windowIds]}::uuid[]) group by wt.window_id`;
  return new Map(rows.map(({ window_id, names }) => [window_id, names]));
}

/** The monitors of a window, in its order. */
export async function selectMonitorsOf(sql: Db, orgId: string, windowId: string) {
  return await sql<{ id: string; name: string }[]>`
    select t.id, t.name from maintenance_window_targets wt join targets t on t.id = wt.target_id
    where t.org_id = ${orgId} and wt.window_id = ${windowId} order by wt.position`;
}

/** Published status pages with a monitor of the window. */
export async function selectPagesOf(sql: Db, orgId: string, windowId: string) {
  return await sql<{ id: string; name: string }[]>`
    select p.id, p.name from status_pages p
    where p.org_id = ${orgId} and p.enabled and exists (
      select from status_page_components c join maintenance_window_targets wt on wt.target_id = c.target_id
      where c.page_id = p.id and wt.window_id = ${windowId})
    order by natural_key(p.name), p.id`;
}

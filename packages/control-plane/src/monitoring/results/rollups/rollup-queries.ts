import type { Fragment } from "postgres";
import { utcDay } from "@statusmesh/shared/time";
import { arrayOf, columnOf, countOf, type Db, valueOf } from "../../../platform/db/client/sql.ts";
import { runs } from "../runs-queries.ts";
import { changeColumns, changesOfRuns } from "../history/engine.ts";
import { latencyColumns, latencyOfRuns, msOfSum } from "../latency/engine.ts";

/** Whether any result is stored that no rollup has counted yet; before the first rollup. */
export async function hasResults(sql: Db): Promise<boolean> {
  return await valueOf<boolean>(sql`
    select exists (select from results) or exists (select from results_late)`);
}

/** Writes where the rollup begins, unless it has begun. */
export async function startProgress(sql: Db, hour: Date): Promise<void> {
  await sql`
    insert into rollup_progress (next_hour) values (${hour}) on conflict do nothing`;
}

/**
 * The next hour to count for everybody; null before the rollup began. Its lock makes rollups wait for each other: a
 * day is the sum of hours, and two sums at once would miss each other's.
 */
export async function lockProgress(sql: Db): Promise<Date | null> {
  return await valueOf<Date | null>(sql`select next_hour from rollup_progress for update`);
}

export async function writeProgress(sql: Db, nextHour: Date): Promise<void> {
  await sql`update rollup_progress set next_hour = ${nextHour}`;
}

/** The next hour to count; null before the rollup began. */
export async function selectNextHour(sql: Db): Promise<Date | null> {
  return await valueOf<Date | null>(sql`select next_hour from rollup_progress`);
}

/** The runs of one target in one hour by region; for a lateral join. Only runs that are evidence count. */
const hourOfRuns = (sql: Db, target: Fragment, hour: Fragment) => sql`
  select r.region, count(*) filter (where r.status = 'up') as up, count(*) filter (where r.status = 'down') as down,
    count(*) filter (where r.status = 'degraded') as degraded, count(*) filter (where r.status = 'error') as error
  from ${runs(sql, { target, from: hour, to: sql`${hour} + interval '1 hour'` }, ["status", "skip", "recheck"])} r
  where not r.skip and not r.recheck
  group by r.region`;

/** Arguments of the functions of tables by hour for a UTC day. */
const hoursOfDay = (sql: Db, target: Fragment, day: Fragment) => sql`
  ${target}, ${day}::timestamp at time zone 'UTC', (${day} + 1)::timestamp at time zone 'UTC'`;

/** The hours of one target in one UTC day; for a lateral join. No row without hours. */
const dayOfHours = (sql: Db, target: Fragment, day: Fragment) => sql`
  select sum(h.up) as up, sum(h.down) as down, sum(h.degraded) as degraded, sum(h.error) as error
  from results_hourly_of(${hoursOfDay(sql, target, day)}) h
  having count(*) > 0`;

/** The mean latency of the same hours; nulls without a time. */
const dayOfLatency = (sql: Db, target: Fragment, day: Fragment) => sql`
  select sum(h.samples)::int as samples, sum(${msOfSum(sql, sql`h.total_sum`)}) / sum(h.samples) as avg_ms
  from latency_hourly_of(${hoursOfDay(sql, target, day)}) h`;

/*
 * The rows of a statement that reads results and writes sums are sorted, by a column that no index has: all are read
 * before the first is written. Citus reads and writes over the same connection to a worker.
 */

/** Rows of a `from`, each a target and the start of an hour or a UTC day. */
interface Spans {
  rows: Fragment;
  target: Fragment;
  at: Fragment;
}

const ofAll = (sql: Db, span: Fragment): Spans => ({
  rows: sql`(values (${span})) as w (at) cross join targets t`,
  target: sql`t.id`,
  at: sql`w.at`,
});

/** An hour of every target. One index scan per target: the hour is a small part of its day's partition. */
export const hourOfAll = (sql: Db, hour: Date): Spans => ofAll(sql, sql`${hour}::timestamptz`);

/** A UTC day (`2026-11-20`) of every target. */
export const dayOfAll = (sql: Db, day: string): Spans => ofAll(sql, sql`${day}::date`);

const marked = (sql: Db, marks: readonly DirtyHour[]) => sql`
  unnest(${marks.map((mark) => mark.target_id)}::uuid[],
    ${marks.map((mark) => mark.hour.toISOString())}::timestamptz[])`;

const ofSome = (sql: Db, rows: Fragment): Spans => ({
  rows: sql`${rows} as m (target_id, at)`,
  target: sql`m.target_id`,
  at: sql`m.at`,
});

/** The given hours of the given targets. */
export const hoursOf = (sql: Db, marks: readonly DirtyHour[]): Spans => ofSome(sql, marked(sql, marks));

/** The UTC days of the given hours. */
export const daysOf = (sql: Db, marks: readonly DirtyHour[]): Spans =>
  ofSome(
    sql,
    sql`(
      select distinct target_id, (hour at time zone 'UTC')::date as day
      from ${marked(sql, marks)} as u (target_id, hour))`,
  );

export async function rollHours(sql: Db, { rows, target, at }: Spans): Promise<void> {
  await sql`
    insert into results_hourly (target_id, hour, region, up, down, degraded, error)
    select ${target}, ${at}, c.region, c.up, c.down, c.degraded, c.error
    from ${rows} cross join lateral (${hourOfRuns(sql, target, at)}) c order by c.region
    on conflict (target_id, hour, region) do update
    set up = excluded.up, down = excluded.down, degraded = excluded.degraded, error = excluded.error`;
}

/** Sums up the latency of hours. */
export async function rollLatency(sql: Db, { rows, target, at }: Spans): Promise<void> {
  await sql`
    insert into latency_hourly (target_id, ${latencyColumns(sql)})
    select ${target}, ${latencyColumns(sql)}
    from ${rows} cross join lateral (${latencyOfRuns(sql, target, at, sql`${at} + interval '1 hour'`)}) n
    order by n.region
    on conflict (target_id, hour, region) do update
    set samples = excluded.samples, total_sum = excluded.total_sum, dns_sum = excluded.dns_sum,
      connect_sum = excluded.connect_sum, tls_sum = excluded.tls_sum, ttfb_sum = excluded.ttfb_sum,
      dns_n = excluded.dns_n, connect_n = excluded.connect_n, tls_n = excluded.tls_n, ttfb_n = excluded.ttfb_n,
      sketch = excluded.sketch`;
}

/** Stores the state changes of hours. */
export async function rollChanges(sql: Db, { rows, target, at }: Spans): Promise<void> {
  await sql`
    insert into changes_hourly (target_id, ${changeColumns(sql)})
    select ${target}, ${changeColumns(sql)}
    from ${rows} cross join lateral (${changesOfRuns(sql, target, at, sql`${at} + interval '1 hour'`)}) n
    order by n.region
    on conflict (target_id, hour, region) do update
    set results = excluded.results, changes = excluded.changes, failing = excluded.failing`;
}

export async function rollDays(sql: Db, { rows, target, at }: Spans): Promise<void> {
  await sql`
    insert into results_daily (target_id, day, up, down, degraded, error, samples, avg_ms)
    select ${target}, ${at}, c.up, c.down, c.degraded, c.error, l.samples, l.avg_ms
    from ${rows} cross join lateral (${dayOfHours(sql, target, at)}) c
    cross join lateral (${dayOfLatency(sql, target, at)}) l order by c.up
    on conflict (target_id, day) do update
    set up = excluded.up, down = excluded.down, degraded = excluded.degraded, error = excluded.error,
      samples = excluded.samples, avg_ms = excluded.avg_ms`;
}

export async function countDirty(sql: Db): Promise<number> {
  return await countOf(sql, sql`from rollup_dirty`);
}

export interface DirtyHour {
  target_id: string;
  hour: Date;
}

/**
 * Consumes up to `limit` marks of hours before `before`. One that an ingest transaction holds is left for the next
 * time.
 */
export async function takeDirty(sql: Db, before: Date, limit: number): Promise<DirtyHour[]> {
  return await sql<DirtyHour[]>`
    delete from rollup_dirty d
    using (select target_id, hour from rollup_dirty where hour < ${before} order by target_id, hour limit ${limit}
      for update skip locked) as taken
    where d.target_id = taken.target_id and d.hour = taken.hour
    returning d.target_id, d.hour`;
}

type HourTable = "results_hourly" | "latency_hourly" | "changes_hourly";
type DayTable = "results_packed" | "hours_packed" | "changes_packed";

/** Drops hours, or packed UTC days, of the targets from before `cutoff`; a few targets at once are found by the key. */
export async function deleteBefore(
  sql: Db,
  table: HourTable | DayTable,
  targetIds: readonly string[],
  cutoff: Date,
): Promise<void> {
  const isOld = table.endsWith("_hourly") ? sql`hour < ${cutoff}` : sql`day < ${utcDay(cutoff.getTime())}::date`;
  await sql`delete from ${sql(table)} where target_id = any(${arrayOf(targetIds)}::uuid[]) and ${isOld}`;
}

/** Deleted targets of which something may be stored, by id, after `after`. */
export async function selectToEmpty(sql: Db, after: string | null, limit: number): Promise<string[]> {
  return await columnOf<string>(sql`
    select target_id as id from deleted_targets
    where not emptied and (${after}::uuid is null or target_id > ${after}) order by target_id limit ${limit}`);
}

/**
 * Deletes what is stored of deleted targets; their results once they were subtracted from the counts of their
 * organisation. The caller holds the locks of rollup and packing, which could write it again.
 */
export async function emptyDeleted(sql: Db, targetIds: readonly string[]): Promise<void> {
  const uncounted = await columnOf<string>(sql`
    select target_id from deleted_targets where target_id = any(${arrayOf(targetIds)}::uuid[]) and uncounted`);
  const ids = arrayOf(uncounted);
  for (const table of sumsOfTargets)
    await sql`delete from ${sql(table)} where target_id = any(${arrayOf(targetIds)}::uuid[])`;
  for (const table of resultsOfTargets) await sql`delete from ${sql(table)} where target_id = any(${ids}::uuid[])`;
  await sql`update deleted_targets set emptied = true where target_id = any(${ids}::uuid[])`;
}

const sumsOfTargets = [
  "results_hourly",
  "latency_hourly",
  "changes_hourly",
  "hours_packed",
  "changes_packed",
  "results_daily",
  "rollup_dirty",
  "issued_slots",
] as const;
const resultsOfTargets = ["results", "results_late", "results_packed"] as const;

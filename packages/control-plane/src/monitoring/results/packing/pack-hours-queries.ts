import type { Fragment } from "postgres";
import { arrayOf, type Db } from "../../../platform/db/client/sql.ts";
import { changeColumns } from "../history/change-queries.ts";
import { hourChanges, hourCounts, hourLatencies } from "../hours-queries.ts";
import { latencyColumns } from "../latency/queries.ts";
import { phases } from "../latency/phases.ts";

/*
 * Hours move between rows and the arrays of a day in one transaction, under the lock of the rollup (`lockProgress`):
 * an hour is in one of them for every reader, and no sum is written to a row whose day is packed at the moment.
 */

/** A UTC day of a target; `2026-11-20`. */
export interface TargetDay {
  target_id: string;
  day: string;
}

/** Hours of days before `before` of the targets, deleted from their table. */
const taken = (sql: Db, table: string, targetIds: readonly string[], before: string) => sql`
  delete from ${sql(table)} h where h.target_id = any(${arrayOf(targetIds)}::uuid[])
    and h.hour < ${before}::date::timestamp at time zone 'UTC'
  returning h.*`;

/** All 24 hours of each day, target and region that `hour` has, in order; `columns` are null where it has none. */
const wholeDays = (sql: Db, columns: Fragment) => sql`
  select k.target_id, k.day, k.region, n, ${columns}
  from (select distinct target_id, (hour at time zone 'UTC')::date as day, region from hour) k
  cross join generate_series(0, 23) n
  left join hour h on h.target_id = k.target_id and h.region = k.region
    and h.hour = (k.day::timestamp + n * interval '1 hour') at time zone 'UTC'`;

/** Hours as one array in the order of the day. */
const array = (sql: Db, column: string) => sql`array_agg(d.${sql(column)}::smallint order by d.n)`;
/** Null instead of an array when no hour meets the condition. */
const arrayIf = (sql: Db, condition: Fragment, ...columns: [string, ...string[]]) => sql`
  case when bool_or(${condition}) then ${
    columns.length === 1
      ? array(sql, columns[0])
      : sql`array[${commas(
          columns.map((one) => array(sql, one)),
          sql,
        )}]`
  } end`;
const commas = (parts: readonly Fragment[], sql: Db): Fragment =>
  parts.slice(1).reduce((all, part) => sql`${all}, ${part}`, parts[0]!);

/** Packs the hours of the targets before the UTC day `before`. None of those days may be packed yet. */
export async function packHours(sql: Db, targetIds: readonly string[], before: string): Promise<void> {
  // The planner knows nothing of the rows that are deleted, and would compare each with each in nested loops.
  await sql`set local enable_nestloop = off`;
  const differs = (name: string) =>
    sql`d.${sql(`${name}_n`)} <> case when d.${sql(`${name}_sum`)} is null then 0 else d.samples end`;
  await sql`
    with counts as (${taken(sql, "results_hourly", targetIds, before)}),
    latency as (${taken(sql, "latency_hourly", targetIds, before)}),
    hour as (
      select target_id, hour, region, coalesce(c.up, 0) as up, nullif(c.down, 0) as down,
        nullif(c.degraded, 0) as degraded, nullif(c.error, 0) as error, l.samples, l.total_sum, l.dns_sum,
        l.connect_sum, l.tls_sum, l.ttfb_sum, l.dns_n, l.connect_n, l.tls_n, l.ttfb_n, l.sketch
      from counts c full join latency l using (target_id, hour, region)
    )
    insert into hours_packed (target_id, day, region, up, down, degraded, error, samples, sums, phases, sketch_skip,
      sketches, sketch_ends)
    select d.target_id, d.day, d.region, ${array(sql, "up")}, ${arrayIf(sql, sql`d.down > 0`, "down")},
      ${arrayIf(sql, sql`d.degraded > 0`, "degraded")}, ${arrayIf(sql, sql`d.error > 0`, "error")},
      ${arrayIf(sql, sql`d.samples <> d.up + coalesce(d.degraded, 0)`, "samples")},
      ${arrayIf(sql, sql`d.samples > 0`, "total_sum", "dns_sum", "connect_sum", "tls_sum", "ttfb_sum")},
      ${arrayIf(
        sql,
        phases.map(differs).reduce((all, one) => sql`${all} or ${one}`),
        "dns_n",
        "connect_n",
        "tls_n",
        "ttfb_n",
      )},
      min(d.skip), string_agg(substring(d.sketch from d.skip + 1), ''::bytea order by d.n),
      case when bool_or(d.samples > 0)
        then array_agg((d.length - d.skip * d.sketches)::smallint order by d.n) end
    from (
      select w.*, min(length(w.sketch) - length(ltrim(w.sketch, '\\xf0'::bytea))) over same as skip,
        sum(coalesce(length(w.sketch), 0)) over before as length, count(w.sketch) over before as sketches
      from (${wholeDays(
        sql,
        sql`h.up, h.down, h.degraded, h.error, h.samples, h.total_sum, h.dns_sum, h.connect_sum, h.tls_sum, h.ttfb_sum,
          h.dns_n, h.connect_n, h.tls_n, h.ttfb_n, h.sketch`,
      )}) w
      window same as (partition by w.target_id, w.day, w.region), before as (same order by w.n)
    ) d
    group by d.target_id, d.day, d.region`;
  await sql`
    with hour as (${taken(sql, "changes_hourly", targetIds, before)})
    insert into changes_packed (target_id, day, region, results, changes, failing)
    select d.target_id, d.day, d.region, ${array(sql, "results")}, array_agg(d.changes order by d.n),
      case when bool_or(d.failing <> '') then array_agg(d.failing order by d.n) end
    from (${wholeDays(sql, sql`h.results, h.changes, h.failing`)}) d
    group by d.target_id, d.day, d.region`;
}

/** Whether one of the targets has hours before the UTC day `before` as rows. */
export async function areHoursLeft(sql: Db, targetIds: readonly string[], before: string): Promise<boolean> {
  for (const table of ["results_hourly", "changes_hourly"]) {
    // Citus fails on a subquery without columns.
    const [row] = await sql`
      select 1 from ${sql(table)} where target_id = any(${arrayOf(targetIds)}::uuid[])
        and hour < ${before}::date::timestamp at time zone 'UTC' limit 1`;
    if (row !== undefined) return true;
  }
  return false;
}

/** The days of the targets before the day `before` that have hours as rows and are packed as well. */
export async function selectPackedDays(sql: Db, targetIds: readonly string[], before: string): Promise<TargetDay[]> {
  const days = (table: string) => sql`
    select h.target_id, (h.hour at time zone 'UTC')::date as day from ${sql(table)} h
    where h.target_id = any(${arrayOf(targetIds)}::uuid[])
      and h.hour < ${before}::date::timestamp at time zone 'UTC'`;
  return await sql<TargetDay[]>`
    select d.target_id, d.day::text as day from (${days("results_hourly")} union ${days("changes_hourly")}) d
    where exists (select from hours_packed p where p.target_id = d.target_id and p.day = d.day)
      or exists (select from changes_packed p where p.target_id = d.target_id and p.day = d.day)`;
}

/**
 * Turns the given days into rows again, where they are packed. A row that is there already is newer than the element of
 * the array.
 */
export async function unpackHours(sql: Db, days: readonly TargetDay[]): Promise<void> {
  const given = sql`
    unnest(${arrayOf(days.map((one) => one.target_id))}::uuid[], ${arrayOf(days.map((one) => one.day))}::date[])
      as k (target_id, day)`;
  const range = {
    target: sql`k.target_id`,
    from: sql`(k.day::timestamp at time zone 'UTC')`,
    to: sql`((k.day + 1)::timestamp at time zone 'UTC')`,
  };
  const rows = (columns: Fragment, hours: Fragment) => sql`
    select h.target_id, ${columns} from ${given} cross join lateral ${hours} h order by h.region
    on conflict do nothing`;
  const counts = sql`hour, region, up, down, degraded, error`;
  await sql`insert into results_hourly (target_id, ${counts}) ${rows(counts, hourCounts(sql, range))}`;
  await sql`
    insert into latency_hourly (target_id, ${latencyColumns(sql)})
    ${rows(latencyColumns(sql), hourLatencies(sql, range))}`;
  await sql`
    insert into changes_hourly (target_id, ${changeColumns(sql)})
    ${rows(changeColumns(sql), hourChanges(sql, range))}`;
  await sql`delete from hours_packed p using ${given} where p.target_id = k.target_id and p.day = k.day`;
  await sql`delete from changes_packed p using ${given} where p.target_id = k.target_id and p.day = k.day`;
}

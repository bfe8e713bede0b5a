import type { Fragment } from "postgres";
import type { Db } from "../../platform/db/client/sql.ts";

/*
 * Sums by the hour: rows of results_hourly, latency_hourly and changes_hourly, and the arrays of packed days. Every
 * statement that answers with hours reads them here; only the rollup and the packing name the tables. For one day of a
 * target in psql:
 *
 *     select p.region, p.day + (n - 1) * interval '1 hour' as hour, p.up[n], coalesce(p.down[n], 0) as down,
 *       exp(p.sums[1][n] / 1000.0) / 1000 as total_ms, exp(p.sums[5][n] / 1000.0) / 1000 as ttfb_ms
 *     from hours_packed p, generate_series(1, 24) n where p.target_id = '…' and p.day = '2026-11-20';
 */

/** Hours of one target from `from` to before `to`; fragments without subqueries, see RunRange in runs-queries.ts. */
export interface HourRange {
  target: Fragment;
  from: Fragment;
  to: Fragment;
}

/** Start of hour `n`, counted from 1, of the packed day `p`. */
const packedHour = (sql: Db, n: Fragment) =>
  sql`(p.day::timestamp + (${n} - 1) * interval '1 hour') at time zone 'UTC'`;

/** Arguments of the functions of tables by hour, and of those by day. */
const hours = (sql: Db, { target, from, to }: HourRange) => sql`${target}, ${from}, ${to}`;
const days = (sql: Db, { target, from, to }: HourRange) => sql`
  ${target}, ((${from}) at time zone 'UTC')::date, ((${to}) at time zone 'UTC')::date`;

/** Selects hours `at` of packed days. */
const inRange = (sql: Db, { from, to }: HourRange) => sql`at.hour >= ${from} and at.hour < ${to}`;

/** {@link hourCounts} of hours that are not packed. */
export const hourCountRows = (sql: Db, range: HourRange) => sql`(
  select h.target_id, h.hour, h.region, h.up, h.down, h.degraded, h.error
  from results_hourly_of(${hours(sql, range)}) h)`;

/** Packed days with hours in the range, for statements whose many hours are computed with in this process. */
export const packedHours = (sql: Db, range: HourRange) => sql`hours_packed_of(${days(sql, range)})`;

/** Runs by status as a subquery: target_id, hour, region, up, down, degraded, error. */
export const hourCounts = (sql: Db, range: HourRange) => sql`(
  select h.* from ${hourCountRows(sql, range)} h
  union all
  select p.target_id, at.hour, p.region, u.up, coalesce(u.down, 0), coalesce(u.degraded, 0), coalesce(u.error, 0)
  from hours_packed_of(${days(sql, range)}) p cross join lateral unnest(p.up, p.down, p.degraded, p.error)
    with ordinality u (up, down, degraded, error, n)
  cross join lateral (select ${packedHour(sql, sql`u.n`)} as hour) at
  where ${inRange(sql, range)} and u.up is not null)`;

/** Number of runs with the phase in row `row` of sums, of hour `u.n` of the packed day `p`. */
const phaseRuns = (sql: Db, row: number) => sql`
  case when p.sums[${row}::int][u.n] is null then 0 else coalesce(p.phases[${row - 1}::int][u.n], u.samples) end`;

/** Latency as a subquery: target_id and the columns of latency_hourly. */
export const hourLatencies = (sql: Db, range: HourRange) => sql`(
  select h.target_id, h.hour, h.region, h.samples, h.total_sum, h.dns_sum, h.connect_sum, h.tls_sum, h.ttfb_sum,
    h.dns_n, h.connect_n, h.tls_n, h.ttfb_n, h.sketch
  from latency_hourly_of(${hours(sql, range)}) h
  union all
  select p.target_id, at.hour, p.region, u.samples, p.sums[1][u.n], p.sums[2][u.n], p.sums[3][u.n], p.sums[4][u.n],
    p.sums[5][u.n], ${phaseRuns(sql, 2)}, ${phaseRuns(sql, 3)}, ${phaseRuns(sql, 4)}, ${phaseRuns(sql, 5)},
    decode(repeat('f0', p.sketch_skip), 'hex')
      || substring(p.sketches from u.start + 1 for p.sketch_ends[u.n] - u.start)
  from hours_packed_of(${days(sql, range)}) p
  cross join lateral (
    select n, coalesce(p.samples[n], p.up[n] + coalesce(p.degraded[n], 0)) as samples,
      coalesce(p.sketch_ends[n - 1], 0) as start
    from generate_series(1, 24) n where p.sums[1][n] is not null
  ) u
  cross join lateral (select ${packedHour(sql, sql`u.n`)} as hour) at
  where ${inRange(sql, range)})`;

/** State changes as a subquery: target_id and the columns of changes_hourly. */
export const hourChanges = (sql: Db, range: HourRange) => sql`(
  select h.target_id, h.hour, h.region, h.results, h.changes, h.failing from changes_hourly_of(${hours(sql, range)}) h
  union all
  select p.target_id, at.hour, p.region, u.results, u.changes, coalesce(u.failing, ''::bytea)
  from changes_packed_of(${days(sql, range)}) p cross join lateral unnest(p.results, p.changes, p.failing)
    with ordinality u (results, changes, failing, n)
  cross join lateral (select ${packedHour(sql, sql`u.n`)} as hour) at
  where ${inRange(sql, range)} and u.results is not null)`;

/**
 * State changes of the newest stored hour before `before` with a stretch, of the target and region; at most one row of
 * each source. Of packed days it expands two: the day of `before` may have none earlier.
 */
export const latestChanges = (sql: Db, { target, region, before }: Record<"target" | "region" | "before", Fragment>) =>
  sql`(
    (select h.hour, h.changes from changes_hourly_of(${target}, '-infinity', ${before}) h
    where h.region = ${region} and h.changes <> ''
    order by h.hour desc limit 1)
    union all
    (select at.hour, u.changes
    from (
      select * from changes_packed_of(${target}, '-infinity', ((${before}) at time zone 'UTC')::date) d
      where d.region = ${region} and exists (select from unnest(d.changes) c where c <> '')
      order by d.day desc limit 2
    ) p cross join lateral unnest(p.changes) with ordinality u (changes, n)
    cross join lateral (select ${packedHour(sql, sql`u.n`)} as hour) at
    where u.changes <> '' and at.hour < ${before} order by at.hour desc limit 1))`;

/** Regions with stored hours of state changes before `before`, as a subquery. */
export const changeRegions = (sql: Db, { target, before }: Record<"target" | "before", Fragment>) => sql`(
  select h.region from changes_hourly_of(${target}, '-infinity', ${before}) h
  union
  select p.region from changes_packed_of(${target}, '-infinity', ((${before}) at time zone 'UTC')::date) p)`;

import type { Sql, TransactionSql } from "postgres";
import type { CheckStatus } from "@statusmesh/shared/result";
import type { Range } from "./range.ts";

type Db = Sql | TransactionSql;

/** A target that results are asked of, and how far apart its slots are. */
export interface ResultTarget {
  id: string;
  interval_secs: number;
}

/** The target, or null when the organisation has none of that id. */
export async function targetExists(sql: Db, orgId: string, targetId: string): Promise<ResultTarget | null> {
  const [row] = await sql<ResultTarget[]>`select t.id, t.interval_secs from targets t where t.org_id = ${orgId} and t.id = ${targetId}`;
  return row ?? null;
}

/** What a run may take, and how far a clock may be off: ingest refuses results from further ahead. */
const slackMs = 6 * 60_000;

/**
 * Rows of the target whose time is in the range. Partitions and the primary key go by slot, so the slot is bounded too: a
 * run starts at most one interval after its slot (jitter is a part of the interval) and ends within the slack.
 */
const rowsOf = (sql: Db, orgId: string, target: ResultTarget, range: Range, region: string | null) => sql`
  from results r
  where r.target_id = (select t.id from targets t where t.org_id = ${orgId} and t.id = ${target.id})
    and r.scheduled_at >= ${new Date(range.from.getTime() - target.interval_secs * 1000 - slackMs)}
    and r.scheduled_at < ${new Date(range.to.getTime() + slackMs)}
    and r."timestamp" >= ${range.from} and r."timestamp" < ${range.to}
    and (${region}::text is null or r.region = ${region})`;

export interface ResultRow {
  target_id: string;
  region: string;
  timestamp: Date;
  status: CheckStatus;
  error: string | null;
  http_status: number | null;
  response_size: number | null;
  dns_ms: number | null;
  connect_ms: number | null;
  tls_ms: number | null;
  ttfb_ms: number | null;
  total_ms: number | null;
}

/** One page of results, newest first. */
export async function selectResults(sql: Db, orgId: string, target: ResultTarget, range: Range, region: string | null, limit: number, offset: number): Promise<ResultRow[]> {
  return await sql<ResultRow[]>`
    select r.target_id, r.region, r."timestamp", r.status, r.error, r.http_status, r.response_size, r.dns_ms, r.connect_ms, r.tls_ms, r.ttfb_ms, r.total_ms
    ${rowsOf(sql, orgId, target, range, region)}
    order by r."timestamp" desc, r.scheduled_at desc, r.region
    limit ${limit} offset ${offset}`;
}

export async function countResults(sql: Db, orgId: string, target: ResultTarget, range: Range, region: string | null): Promise<number> {
  const [row] = await sql<{ count: number }[]>`select count(*)::int as count ${rowsOf(sql, orgId, target, range, region)}`;
  return row!.count;
}

/** One slice of latency. Percentiles and means in ms; a mean is null when no run had the phase. */
export interface LatencyRow {
  /** Empty when regions are not told apart. */
  region: string;
  /** Unix seconds at the start of the slice. */
  t: number;
  /** p50, p95, p99. */
  percentiles: [number, number, number];
  avg: number;
  dns: number | null;
  connect: number | null;
  tls: number | null;
  ttfb: number | null;
  samples: number;
}

/**
 * Latency in slices of `bucketSecs` counted from the Unix epoch; slices without a run are left out. Only runs that got
 * through count: a refused connection takes a millisecond and a timeout the whole budget, and neither is the target's latency.
 */
export async function selectLatency(
  sql: Db,
  orgId: string,
  target: ResultTarget,
  range: Range,
  region: string | null,
  bucketSecs: number,
  byRegion: boolean,
): Promise<LatencyRow[]> {
  return await sql<LatencyRow[]>`
    select case when ${byRegion} then r.region else '' end as region,
      (floor(extract(epoch from r."timestamp") / ${bucketSecs}::int) * ${bucketSecs}::int)::float8 as t,
      percentile_cont(array[0.5, 0.95, 0.99]) within group (order by r.total_ms) as percentiles,
      avg(r.total_ms) as avg, avg(r.dns_ms) as dns, avg(r.connect_ms) as connect, avg(r.tls_ms) as tls, avg(r.ttfb_ms) as ttfb,
      count(*)::int as samples
    ${rowsOf(sql, orgId, target, range, region)}
      and not r.skip and r.status in ('up', 'degraded') and r.total_ms is not null
    group by 1, 2
    order by 1, 2`;
}

/** How many runs ended how. */
export interface Counts {
  up: number;
  down: number;
  degraded: number;
  error: number;
}

export async function countStatuses(sql: Db, orgId: string, target: ResultTarget, range: Range, region: string | null): Promise<Counts> {
  const [row] = await sql<Counts[]>`
    select count(*) filter (where r.status = 'up')::int as up, count(*) filter (where r.status = 'down')::int as down,
      count(*) filter (where r.status = 'degraded')::int as degraded, count(*) filter (where r.status = 'error')::int as error
    ${rowsOf(sql, orgId, target, range, region)} and not r.skip`;
  return row!;
}

export interface SliceRow {
  target_id: string;
  /** Counted from 0 at the start of the range. */
  slice: number;
  status: "up" | "degraded" | "down";
  p95: number | null;
}

/**
 * The range cut into slices of `sliceMs` by slot, for many targets: the worst that a run found, and the 95th percentile in
 * ms. Slices without evidence are left out. 100 targets with a check a minute over 24 h are 144,000 rows and took 0.23 s;
 * going by slot instead of by the time of the run keeps the planner away from the partitions of other days.
 */
export async function selectSlices(sql: Db, orgId: string, targetIds: readonly string[], range: Range, sliceMs: number): Promise<SliceRow[]> {
  return await sql<SliceRow[]>`
    select t.id as target_id, h.slice, h.status, h.p95
    from targets t
    cross join lateral (
      select floor(extract(epoch from r.scheduled_at - ${range.from}::timestamptz)::float8 * 1000 / ${sliceMs}::int)::int as slice,
        case when bool_or(r.status in ('down', 'error')) then 'down' when bool_or(r.status = 'degraded') then 'degraded' else 'up' end as status,
        percentile_cont(0.95) within group (order by r.total_ms) filter (where r.status in ('up', 'degraded')) as p95
      from results r
      where r.target_id = t.id and r.scheduled_at >= ${range.from} and r.scheduled_at < ${range.to} and not r.skip
      group by 1
    ) h
    where t.org_id = ${orgId} and t.id = any(${targetIds as string[]}::uuid[])`;
}

export interface DayRow extends Counts {
  target_id: string;
  /** A UTC day, `2026-11-20`. */
  day: string;
}

/**
 * Runs per target and UTC day, from `firstDay` to `now`: days from the rollup, and what is not rolled up yet (at most
 * two hours when all is well) from the results themselves. Days without a run are left out.
 */
export async function selectDays(sql: Db, orgId: string, targetIds: readonly string[], firstDay: string, now: Date): Promise<DayRow[]> {
  return await sql<DayRow[]>`
    select t.id as target_id, d.day::text as day, sum(d.up)::int as up, sum(d.down)::int as down, sum(d.degraded)::int as degraded, sum(d.error)::int as error
    from targets t
    cross join lateral (
      select s.day, s.up, s.down, s.degraded, s.error
      from results_daily s
      where s.target_id = t.id and s.day >= ${firstDay}::date
      union all
      select (r.scheduled_at at time zone 'UTC')::date as day, count(*) filter (where r.status = 'up') as up, count(*) filter (where r.status = 'down') as down,
        count(*) filter (where r.status = 'degraded') as degraded, count(*) filter (where r.status = 'error') as error
      from results r
      where r.target_id = t.id and not r.skip
        and r.scheduled_at >= greatest((select p.next_hour from rollup_progress p), ${`${firstDay}T00:00:00Z`}::timestamptz)
        and r.scheduled_at < ${new Date(now.getTime() + slackMs)}
      group by 1
    ) d
    where t.org_id = ${orgId} and t.id = any(${targetIds as string[]}::uuid[])
    group by 1, 2
    order by 1, 2`;
}

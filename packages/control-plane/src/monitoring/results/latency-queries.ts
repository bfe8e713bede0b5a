import type { Fragment } from "postgres";
import type { Db } from "../../platform/db/sql.ts";
import type { Sources } from "./hours.ts";
import { type ResultTarget, rowsOf, runsOf, summed, unsummed } from "./queries.ts";
import type { Range } from "./range.ts";
import { runs } from "./runs-queries.ts";
import { lastBucket, least, logGrowth } from "./sketch.ts";

/** One slice of latency. Percentiles and means in ms; a mean is null when no run had the phase. */
export interface LatencyRow {
  /** Empty when regions are combined. */
  region: string;
  /** Start of the slice, Unix seconds. */
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
 * Latency in slices of `bucketSecs` counted from the Unix epoch, without empty slices. Only successful connections
 * count: a refused connection takes a millisecond and a timeout the whole budget, and neither is the target's latency.
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
      avg(r.total_ms) as avg, avg(r.dns_ms) as dns, avg(r.connect_ms) as connect, avg(r.tls_ms) as tls,
        avg(r.ttfb_ms) as ttfb,
      count(*)::int as samples
    ${rowsOf(sql, orgId, target, range, region, latencyOf)}
      and not r.skip and not r.recheck and r.status in ('up', 'degraded') and r.total_ms is not null
    group by 1, 2
    order by 1, 2`;
}

/** Latency of the hours of one slice. */
export interface LatencySliceRow {
  /** Empty when regions are combined. */
  region: string;
  /** Start of the slice, Unix seconds. */
  t: number;
  samples: number;
  /** Sums in ms, and the number of runs with the phase. */
  total_sum: number;
  dns_sum: number;
  connect_sum: number;
  tls_sum: number;
  ttfb_sum: number;
  dns_n: number;
  connect_n: number;
  tls_n: number;
  ttfb_n: number;
  /** The sketches of the hours (sketch.ts), each after its length as a 4-byte integer, big-endian. */
  sketches: Buffer;
}

/** Columns of runs that latency is made of. */
const latencyOf = ["status", "skip", "recheck", "total_ms", "dns_ms", "connect_ms", "tls_ms", "ttfb_ms"] as const;

/** LEB128 of a number below 2^14. */
const varint = (sql: Db, n: Fragment) =>
  sql`
    case when ${n} < 128 then set_byte('\\x00'::bytea, 0, ${n})
      else set_byte(set_byte('\\x0000'::bytea, 0, ${n} % 128 + 128), 1, ${n} / 128) end`;

/**
 * Latency of one target by the hour of the slot and region, as in latency_hourly, from results; for a lateral
 * join. `target`, `from` and `to` may name columns of the outer query. Summing in the database keeps the values out of
 * this process: an hour of 10,000 targets with a check per minute is 600,000 values, and 2.1 s here.
 */
export const latencyOfRuns = (sql: Db, target: Fragment, from: Fragment, to: Fragment) => sql`
  select s.hour, s.region, sum(s.samples)::int as samples, sum(s.total) as total_sum,
    coalesce(sum(s.dns), 0) as dns_sum, coalesce(sum(s.connect), 0) as connect_sum,
    coalesce(sum(s.tls), 0) as tls_sum, coalesce(sum(s.ttfb), 0) as ttfb_sum, sum(s.dns_n)::int as dns_n,
      sum(s.connect_n)::int as connect_n, sum(s.tls_n)::int as tls_n, sum(s.ttfb_n)::int as ttfb_n,
    string_agg(${varint(sql, sql`s.step`)} || ${varint(sql, sql`least(s.samples, 16383)`)}, ''::bytea
      order by s.bucket) as sketch
  from (
    select g.*, g.bucket - lag(g.bucket, 1, 0) over (partition by g.hour, g.region order by g.bucket) as step
    from (
      select date_trunc('hour', r.scheduled_at) as hour, r.region,
        least(greatest(ceil(ln(greatest(r.total_ms::float8,
          ${least}::float8) / ${least}::float8) / ${logGrowth}::float8), 0), ${lastBucket}::int)::int as bucket,
        count(*)::int as samples, sum(r.total_ms::float8) as total, sum(r.dns_ms::float8) as dns,
          sum(r.connect_ms::float8) as connect, sum(r.tls_ms::float8) as tls, sum(r.ttfb_ms::float8) as ttfb,
        count(r.dns_ms) as dns_n, count(r.connect_ms) as connect_n, count(r.tls_ms) as tls_n, count(r.ttfb_ms) as ttfb_n
      from ${runs(sql, { target, from, to }, latencyOf)} r
      where not r.skip and not r.recheck and r.status in ('up', 'degraded') and r.total_ms is not null
      group by 1, 2, 3
    ) g
  ) s
  group by s.hour, s.region`;

/** The columns of latency_hourly in table order. */
export const latencyColumns = (sql: Db) =>
  sql`
    hour, region, samples, total_sum, dns_sum, connect_sum, tls_sum, ttfb_sum, dns_n, connect_n, tls_n, ttfb_n, sketch`;

/** Slices of whole hours. */
export interface Slicing {
  bucketSecs: number;
  /** Start of the first slice, Unix seconds: it also takes the hour in which the range starts. */
  firstSecs: number;
  byRegion: boolean;
}

/**
 * Latency in slices, without empty ones: rolled-up hours as they are, the rest from the results, including hours marked
 * by late results. Hours are summed up here: to parse 6,480 rows took the client 80 ms.
 */
export async function selectLatencySlices(
  sql: Db,
  orgId: string,
  target: ResultTarget,
  sources: Sources,
  region: string | null,
  { bucketSecs, firstSecs, byRegion }: Slicing,
): Promise<LatencySliceRow[]> {
  const own = sql`(select t.id from targets t where t.org_id = ${orgId} and t.id = ${target.id})`;
  return await sql<LatencySliceRow[]>`
    select case when ${byRegion} then h.region else '' end as region,
      greatest(${firstSecs}::float8,
        floor(extract(epoch from h.hour) / ${bucketSecs}::int) * ${bucketSecs}::int)::float8
        as t,
      sum(h.samples)::int as samples, sum(h.total_sum) as total_sum, sum(h.dns_sum) as dns_sum,
      sum(h.connect_sum) as connect_sum, sum(h.tls_sum) as tls_sum, sum(h.ttfb_sum) as ttfb_sum,
      sum(h.dns_n)::int as dns_n, sum(h.connect_n)::int as connect_n, sum(h.tls_n)::int as tls_n,
      sum(h.ttfb_n)::int as ttfb_n, string_agg(int4send(length(h.sketch)) || h.sketch, ''::bytea) as sketches
    from (
      select ${latencyColumns(sql)} from latency_hourly h where ${summed(sql, orgId, target, sources, region)}
      union all
      select ${latencyColumns(sql)}
      from (${unsummed(sql, target, sources)}) as part ("from", "to")
      cross join lateral (${latencyOfRuns(sql, own, sql`part."from"`, sql`part."to"`)}) n
      where ${region}::text is null or n.region = ${region}
    ) h
    group by 1, 2`;
}

/** Regions that ran in the range, by slot, also those without a success; sorted. */
export async function selectRegions(sql: Db, orgId: string, target: ResultTarget, sources: Sources): Promise<string[]> {
  const rows = await sql<{ region: string }[]>`
    select h.region from results_hourly h where ${summed(sql, orgId, target, sources, null)}
    union
    select n.region
    from (${unsummed(sql, target, sources)}) as part ("from", "to")
    cross join lateral (
      select distinct r.region
      from ${runsOf(sql, orgId, target, { from: sql`part."from"`, to: sql`part."to"` }, ["skip", "recheck"])} r
      where not r.skip and not r.recheck
    ) n
    order by 1`;
  return rows.map(({ region }) => region);
}

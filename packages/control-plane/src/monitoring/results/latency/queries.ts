import type { Fragment } from "postgres";
import { columnOf, type Db } from "../../../platform/db/client/sql.ts";
import { mapInTurns } from "../../../platform/process/turns.ts";
import type { Sources } from "../hours.ts";
import { hourCounts, hourLatencies } from "../hours-queries.ts";
import { ownTarget, type ResultTarget, runsOf, slotsAround, summed, unsummed } from "../queries.ts";
import { byPhase, type Phase, phases } from "./phases.ts";
import type { Range } from "../range.ts";
import { percentileOf, runStatus, type VisitedRun, visitRuns } from "./run-arrays.ts";
import { runArrays, runs } from "../runs-queries.ts";
import { lastBucket, least, logGrowth } from "./sketch.ts";

/** One slice of latency. Percentiles and means in ms; a mean is null when no run had the phase. */
export interface LatencyRow extends Record<Phase, number | null> {
  /** Empty when regions are combined. */
  region: string;
  /** Start of the slice, Unix seconds. */
  t: number;
  /** p50, p95, p99. */
  percentiles: [number, number, number];
  avg: number;
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
  const { from, to } = slotsAround(target, range);
  const slots = { target: sql`own.id`, from: sql`${from}::timestamptz`, to: sql`${to}::timestamptz` };
  const slices = new Map<string, Samples>();
  const query = sql`
    select r.* from ${ownTarget(sql, orgId, target)}
    cross join lateral ${runArrays(sql, slots, region, ["timestamp", ...latencyOf])} r`;
  await query.values().forEach(([runsRegion, ...arrays]) => {
    const name = byRegion ? String(runsRegion) : "";
    visitRuns(arrays, (run) => {
      const { slot, time, status, counts, total } = run;
      // Out of the range of slots: see runArrays.
      if (slot < from.getTime() || slot >= to.getTime() || time < range.from.getTime() || time >= range.to.getTime())
        return;
      if (!counts || Number.isNaN(total) || (status !== runStatus.up && status !== runStatus.degraded)) return;
      const t = Math.floor(time / 1000 / bucketSecs) * bucketSecs;
      const key = `${t} ${name}`;
      let samples = slices.get(key);
      if (samples === undefined) slices.set(key, (samples = new Samples(name, t)));
      samples.add(run);
    });
  });
  return await mapInTurns([...slices.values()], (samples) => samples.row());
}

class Samples {
  readonly #region: string;
  readonly #t: number;
  readonly #totals: number[] = [];
  #sum = 0;
  readonly #sums = byPhase(() => 0);
  readonly #counts = byPhase(() => 0);

  constructor(region: string, t: number) {
    this.#region = region;
    this.#t = t;
  }

  add(run: VisitedRun): void {
    this.#totals.push(run.total);
    this.#sum += run.total;
    for (const phase of phases) {
      if (Number.isNaN(run[phase])) continue;
      this.#sums[phase] += run[phase];
      this.#counts[phase]++;
    }
  }

  row(): LatencyRow {
    const totals = this.#totals;
    const mean = (phase: Phase) => (this.#counts[phase] === 0 ? null : this.#sums[phase] / this.#counts[phase]);
    return {
      region: this.#region,
      t: this.#t,
      percentiles: [percentileOf(totals, 0.5), percentileOf(totals, 0.95), percentileOf(totals, 0.99)],
      avg: this.#sum / totals.length,
      ...byPhase(mean),
      samples: totals.length,
    };
  }
}

/** Latency of the hours of one slice: sums in ms, and the number of runs with each phase. */
export interface LatencySliceRow extends Record<`${Phase | "total"}_sum` | `${Phase}_n`, number> {
  /** Empty when regions are combined. */
  region: string;
  /** Start of the slice, Unix seconds. */
  t: number;
  samples: number;
  /** The sketches of the hours (sketch.ts), each after its length as a 4-byte integer, big-endian. */
  sketches: Buffer;
}

/** Columns of runs that latency is made of. */
const latencyOf = ["status", "skip", "recheck", "total_ms", "dns_ms", "connect_ms", "tls_ms", "ttfb_ms"] as const;

/** The bytes of a non-empty bucket in a sketch, as hex: `step` buckets after the one before, with `n` samples. */
const bucketBytes = (sql: Db, step: Fragment, n: Fragment) => sql`
  repeat('f0', ${step} / 240) || case when ${step} % 240 >= 16 then to_hex(${step} % 240 / 16) || '0' else '' end
    || to_hex(${step} % 16) || to_hex((${n} - 1) % 15 + 1) || repeat('0f', (${n} - 1) / 15)`;

/** Sum of microseconds as stored: within 0.05 %; null stays null. */
const storedSum = (sql: Db, us: Fragment) => sql`
  (case when ${us} > 1 then round(1000 * ln(${us})) else 0 * ${us} end)::smallint`;
/** Milliseconds of a stored sum. */
export const msOfSum = (sql: Db, column: Fragment) => sql`exp(${column} / 1000.0::float8) / 1000`;

/**
 * Latency of one target by the hour of the slot and region, as in latency_hourly, from results; for a lateral
 * join. `target`, `from` and `to` may name columns of the outer query. Summing in the database keeps the values out of
 * this process: an hour of 10,000 targets with a check per minute is 600,000 values, and 2.1 s here. Whole microseconds
 * add up to the same sum in any order.
 */
export const latencyOfRuns = (sql: Db, target: Fragment, from: Fragment, to: Fragment) => sql`
  select s.hour, s.region, sum(s.samples)::int as samples, ${storedSum(sql, sql`sum(s.total)`)} as total_sum,
    ${storedSum(sql, sql`sum(s.dns)`)} as dns_sum, ${storedSum(sql, sql`sum(s.connect)`)} as connect_sum,
    ${storedSum(sql, sql`sum(s.tls)`)} as tls_sum, ${storedSum(sql, sql`sum(s.ttfb)`)} as ttfb_sum,
    sum(s.dns_n)::int as dns_n, sum(s.connect_n)::int as connect_n, sum(s.tls_n)::int as tls_n,
    sum(s.ttfb_n)::int as ttfb_n,
    decode(string_agg(${bucketBytes(sql, sql`s.step`, sql`s.samples`)}, '' order by s.bucket), 'hex') as sketch
  from (
    select g.*, g.bucket - lag(g.bucket, 1, 0) over (partition by g.hour, g.region order by g.bucket) as step
    from (
      select date_trunc('hour', r.scheduled_at) as hour, r.region,
        least(greatest(ceil(ln(greatest(r.total_ms::float8,
          ${least}::float8) / ${least}::float8) / ${logGrowth}::float8), 0), ${lastBucket}::int)::int as bucket,
        count(*)::int as samples, ${wholeUs(sql, sql`r.total_ms`)} as total, ${wholeUs(sql, sql`r.dns_ms`)} as dns,
        ${wholeUs(sql, sql`r.connect_ms`)} as connect, ${wholeUs(sql, sql`r.tls_ms`)} as tls,
        ${wholeUs(sql, sql`r.ttfb_ms`)} as ttfb,
        count(r.dns_ms) as dns_n, count(r.connect_ms) as connect_n, count(r.tls_ms) as tls_n, count(r.ttfb_ms) as ttfb_n
      from ${runs(sql, { target, from, to }, latencyOf)} r
      where not r.skip and not r.recheck and r.status in ('up', 'degraded') and r.total_ms is not null
      group by 1, 2, 3
    ) g
  ) s
  group by s.hour, s.region`;

/** Sum in whole microseconds. */
const wholeUs = (sql: Db, ms: Fragment) => sql`sum(round(${ms}::float8 * 1000))`;

/** The columns of latency_hourly in table order, without the target. */
export const latencyColumns = (sql: Db) =>
  sql`
    hour, region, samples, total_sum, dns_sum, connect_sum, tls_sum, ttfb_sum, dns_n, connect_n, tls_n, ttfb_n, sketch`;

/** Slices of whole hours. */
export interface Slicing {
  bucketSecs: number;
  /** Start of the first slice, Unix seconds: it also takes the hour in which the range starts. */
  firstSecs: number;
  byRegion: boolean;
  /** True reads stored hours alone, never results: hours that are not rolled up yet are left out. */
  storedOnly?: boolean;
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
  { bucketSecs, firstSecs, byRegion, storedOnly = false }: Slicing,
): Promise<LatencySliceRow[]> {
  const unsummedLatency = () => sql`
    select ${latencyColumns(sql)}
    from ${ownTarget(sql, orgId, target)} cross join (${unsummed(sql, target, sources)}) as part ("from", "to")
    cross join lateral (${latencyOfRuns(sql, sql`own.id`, sql`part."from"`, sql`part."to"`)}) n
    where ${region}::text is null or n.region = ${region}`;
  const sum = (name: string) => sql`coalesce(sum(${msOfSum(sql, sql`h.${sql(`${name}_sum`)}`)}), 0)`;
  return await sql<LatencySliceRow[]>`
    select case when ${byRegion} then h.region else '' end as region,
      greatest(${firstSecs}::float8,
        floor(extract(epoch from h.hour) / ${bucketSecs}::int) * ${bucketSecs}::int)::float8
        as t,
      sum(h.samples)::int as samples, ${sum("total")} as total_sum, ${sum("dns")} as dns_sum,
      ${sum("connect")} as connect_sum, ${sum("tls")} as tls_sum, ${sum("ttfb")} as ttfb_sum,
      sum(h.dns_n)::int as dns_n, sum(h.connect_n)::int as connect_n, sum(h.tls_n)::int as tls_n,
      sum(h.ttfb_n)::int as ttfb_n, string_agg(int4send(length(h.sketch)) || h.sketch, ''::bytea) as sketches
    from (
      select ${latencyColumns(sql)} ${summed(sql, orgId, target, sources, region, hourLatencies)}
      ${storedOnly ? sql`` : sql`union all ${unsummedLatency()}`}
    ) h
    group by 1, 2`;
}

/** Regions that ran in the range, by slot, also those without a success; sorted. */
export async function selectRegions(sql: Db, orgId: string, target: ResultTarget, sources: Sources): Promise<string[]> {
  return await columnOf<string>(sql`
    select h.region ${summed(sql, orgId, target, sources, null, hourCounts)}
    union
    select n.region
    from (${unsummed(sql, target, sources)}) as part ("from", "to")
    cross join lateral (
      select distinct r.region
      from ${runsOf(sql, orgId, target, { from: sql`part."from"`, to: sql`part."to"` }, ["skip", "recheck"])} r
      where not r.skip and not r.recheck
    ) n
    order by 1`);
}

import { dayMs } from "@statusmesh/shared/time";
import type { OrgReader } from "../../../platform/context.ts";
import { mapInTurns } from "../../../platform/process/turns.ts";
import { isByHour, sourcesOf } from "../hours.ts";
import { type LatencyRow, type LatencySliceRow, selectLatency, selectLatencySlices, selectRegions } from "./queries.ts";
import { byPhase, type Phase } from "./phases.ts";
import type { Range } from "../range.ts";
import { forMembers, type RangeInput, resolve, roundMs } from "../resolve.ts";
import type { LatencyBucket, LatencySeries, RegionLatency } from "../schema.ts";
import { addSketches, emptyHistogram, percentiles } from "./sketch.ts";

/** Percentiles of a bucket, as shares. */
const shares = [0.5, 0.95, 0.99] as const;
const hourSecs = 3600;

/** A range, and how fine: about how many slices (60), none shorter than this (a minute), so that few are empty. */
interface LatencyInput extends RangeInput {
  slices?: number;
  leastSecs?: number;
}

/** Latency in slices. Every slice of the range is present; `samples` 0 marks a gap. Without a scope check. */
export async function readLatency(reader: OrgReader, targetId: string, input: LatencyInput): Promise<LatencySeries> {
  const { bucketSecs, range, rows } = await latencyRows(reader, targetId, input, false);
  return { bucket_seconds: bucketSecs, buckets: fill(range, bucketSecs, rows) };
}

export const latencySeries = forMembers(readLatency);

/**
 * Latency over time for each region that ran, by region id; `samples` is 0 where no run succeeded. Without a scope
 * check.
 */
export async function readLatencyByRegion(
  reader: OrgReader,
  targetId: string,
  input: Omit<LatencyInput, "region">,
): Promise<RegionLatency> {
  const { bucketSecs, range, rows, target, sources } = await latencyRows(reader, targetId, input, true);
  const ran = await selectRegions(reader.sql, reader.orgId, target, sources);
  const regions = [...new Set([...ran, ...rows.map((row) => row.region)])].sort();
  const of = (region: string) => rows.filter((row) => row.region === region);
  return {
    bucket_seconds: bucketSecs,
    regions: regions.map((region) => ({ region, buckets: fill(range, bucketSecs, of(region)) })),
  };
}

/** Percentiles of a range, and of its slices. */
export interface StoredLatency {
  /** Null without a successful run. */
  all: { p50: number; p95: number } | null;
  buckets: LatencyBucket[];
}

/**
 * Latency of the last days by stored hours alone, without a scope check: for readers who need no account. A month of
 * results can be a million rows, its hours are some thousand; the newest hour appears once it is rolled up.
 */
export async function readStoredLatency(reader: OrgReader, targetId: string, days: number): Promise<StoredLatency> {
  const now = reader.clock.now();
  const wire = { from: new Date(now - days * dayMs).toISOString(), to: new Date(now).toISOString() };
  const { target, range } = await resolve(reader, targetId, wire);
  const { hours } = sourcesOf(range, target.counted_to);
  if (hours === null) return { all: null, buckets: [] };
  const bucketSecs = Math.max(bucketSeconds(range, {}), hourSecs);
  const slices = await selectLatencySlices(reader.sql, reader.orgId, target, { hours, runs: [] }, null, {
    bucketSecs,
    firstSecs: sliceOf(hours.from.getTime(), bucketSecs) / 1000,
    byRegion: false,
    storedOnly: true,
  });
  const whole = emptyHistogram();
  for (const { sketches } of slices) addSketches(whole, sketches);
  const [p50, p95] = percentiles(whole, [0.5, 0.95]);
  return {
    all: slices.length === 0 ? null : { p50: roundMs(p50!), p95: roundMs(p95!) },
    buckets: fill(hours, bucketSecs, await presentSlices(slices)),
  };
}

export const latencyByRegion = forMembers(readLatencyByRegion);

/** Slices with samples. Short ranges are exact and go by the time of the run, long ones by the hour of the slot. */
async function latencyRows(ctx: OrgReader, targetId: string, input: LatencyInput, byRegion: boolean) {
  const { target, range, region } = await resolve(ctx, targetId, input);
  const { sql, orgId } = ctx;
  if (!isByHour(range, ctx.clock.now())) {
    const bucketSecs = bucketSeconds(range, input);
    const rows = await selectLatency(sql, orgId, target, range, region, bucketSecs, byRegion);
    return { target, range, sources: { hours: null, runs: [range] }, bucketSecs, rows };
  }
  // Without raw results nothing is finer than an hour.
  const bucketSecs = Math.max(bucketSeconds(range, input), hourSecs);
  const sources = sourcesOf(range, target.counted_to);
  const slicing = { bucketSecs, firstSecs: sliceOf(range.from.getTime(), bucketSecs) / 1000, byRegion };
  const slices = await selectLatencySlices(sql, orgId, target, sources, region, slicing);
  return { target, range, sources, bucketSecs, rows: await presentSlices(slices) };
}

/** Each a multiple of its shortest length. 60 slices: 1 h → 60 s, 24 h → 1440 s, 7 d → 10080 s, 30 d → 43200 s. */
function bucketSeconds({ from, to }: Range, { slices = 60, leastSecs = 60 }: LatencyInput): number {
  const step = Math.max(15, Math.min(60, leastSecs));
  const secs = (to.getTime() - from.getTime()) / 1000 / slices;
  return Math.max(leastSecs, Math.floor(secs / step) * step, step);
}

/** Start of the slice of a time, Unix ms. Slices count from the epoch, so they stay fixed while the range moves. */
const sliceOf = (atMs: number, bucketSecs: number): number =>
  Math.floor(atMs / (bucketSecs * 1000)) * bucketSecs * 1000;

/** Percentiles and means of slices. */
const presentSlices = (slices: readonly LatencySliceRow[]): Promise<LatencyRow[]> =>
  mapInTurns(slices, (slice) => {
    const histogram = emptyHistogram();
    addSketches(histogram, slice.sketches);
    const [p50, p95, p99] = percentiles(histogram, shares);
    const mean = (phase: Phase) => (slice[`${phase}_n`] === 0 ? null : slice[`${phase}_sum`] / slice[`${phase}_n`]);
    return {
      region: slice.region,
      t: slice.t,
      percentiles: [p50!, p95!, p99!],
      avg: slice.total_sum / slice.samples,
      ...byPhase(mean),
      samples: slice.samples,
    };
  });

const gap: Omit<LatencyRow, "region" | "t"> = {
  percentiles: [0, 0, 0],
  avg: 0,
  ...byPhase(() => null),
  samples: 0,
};

/** Every slice that overlaps the range, in order; slices without a row are gaps. */
function fill(range: Range, bucketSecs: number, rows: readonly LatencyRow[]): LatencyBucket[] {
  const known = new Map(rows.map((row) => [row.t * 1000, row]));
  const buckets: LatencyBucket[] = [];
  for (let t = sliceOf(range.from.getTime(), bucketSecs); t < range.to.getTime(); t += bucketSecs * 1000) {
    const {
      percentiles: [p50, p95, p99],
      avg,
      samples,
      ...means
    } = known.get(t) ?? gap;
    buckets.push({
      t,
      p50: roundMs(p50),
      p95: roundMs(p95),
      p99: roundMs(p99),
      avg: roundMs(avg),
      ...byPhase((phase) => roundMs(means[phase] ?? 0)),
      samples,
    });
  }
  return buckets;
}

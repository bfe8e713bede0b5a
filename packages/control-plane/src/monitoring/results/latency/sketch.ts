import { dayMs } from "@statusmesh/shared/time";

/*
 * Mergeable percentiles. A sketch is a histogram of milliseconds whose buckets grow by a constant factor, as in
 * DDSketch (Masson, Rim, Lee: "DDSketch: a fast and fully-mergeable quantile sketch with relative-error guarantees",
 * 2019):
 * bucket 0 holds values up to `least`, bucket i values above least × growth^(i-1) and up to least × growth^i. Sketches
 * are merged by adding their counts, so order and grouping do not matter. The database fills the buckets
 * (latency-queries.ts) and stores the non-empty ones, usually in a byte each: the distance from the previous bucket
 * (0 to 15) times 16, plus the count. With a count of 0 the byte itself is a distance (16 to 240), and a distance of 0
 * adds to the bucket before.
 */

/** Maximum relative error of a percentile (interpolated between neighbours). */
export const relativeError = 0.01;
/** Smallest distinguishable time, ms. Times are stored to a microsecond or less. */
export const least = 0.001;
/** Natural logarithm of the factor between two buckets. */
export const logGrowth = Math.log((1 + relativeError) / (1 - relativeError));
/** The last bucket. It starts beyond 24 h, the maximum time of a result. */
export const lastBucket = Math.ceil(Math.log(dayMs / least) / logGrowth);

/** Counts by bucket. */
export type Histogram = Uint32Array;

export const emptyHistogram = (): Histogram => new Uint32Array(lastBucket + 1);

export function addSketch(histogram: Histogram, sketch: Uint8Array): void {
  let bucket = 0;
  for (const byte of sketch) {
    const count = byte & 15;
    bucket += count === 0 ? byte : byte >> 4;
    histogram[bucket]! += count;
  }
}

/** Adds stored sketches, each after its length as a 4-byte integer, big-endian. */
export function addSketches(histogram: Histogram, sketches: Buffer): void {
  for (let at = 0; at < sketches.length;) {
    const end = at + 4 + sketches.readUInt32BE(at);
    addSketch(histogram, sketches.subarray(at + 4, end));
    at = end;
  }
}

/**
 * Percentiles of the histogram, ms, for ascending shares (0.5 is the median); zeros for an empty one. It interpolates
 * between two values as percentile_cont of SQL, so each is within {@link relativeError} of that.
 */
export function percentiles(histogram: Histogram, shares: readonly number[]): number[] {
  const total = histogram.reduce((sum, count) => sum + count, 0);
  if (total === 0) return shares.map(() => 0);
  let bucket = 0;
  let seen = histogram[0]!;
  // Shares are ascending, so one pass finds all ranks.
  const valueAt = (rank: number): number => {
    while (seen <= rank) seen += histogram[++bucket]!;
    return middleOf(bucket);
  };
  return shares.map((share) => {
    const rank = share * (total - 1);
    const low = valueAt(Math.floor(rank));
    // The upper rank may lie in a later bucket, before which the next share may still start.
    const before = { bucket, seen };
    const high = valueAt(Math.ceil(rank));
    ({ bucket, seen } = before);
    return low + (high - low) * (rank - Math.floor(rank));
  });
}

/** The geometric mean of the ends of the bucket. */
const middleOf = (bucket: number): number =>
  bucket === 0 ? least : (least * 2 * Math.exp(bucket * logGrowth)) / (Math.exp(logGrowth) + 1);

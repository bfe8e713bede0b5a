/*
 * Percentiles that can be added. A sketch is a histogram of milliseconds whose buckets grow by a constant factor, as in
 * DDSketch (Masson, Rim, Lee: "DDSketch: a fast and fully-mergeable quantile sketch with relative-error guarantees", 2019):
 * bucket 0 holds what is at most `least`, bucket i what is above least × growth^(i-1) and at most least × growth^i. Two
 * sketches are merged by adding their counts, so it makes no difference in which order or how often hours are put together.
 * The database fills the buckets (latency-queries.ts) and stores those that are not empty as pairs of LEB128 numbers: the
 * distance from the bucket before, and the count.
 */

/** How far a percentile may be off, as a share of the true one (the one that interpolates between neighbours). */
export const relativeError = 0.01;
/** The smallest time that is told apart, ms. Times are stored to a microsecond or less. */
export const least = 0.001;
/** Natural logarithm of the factor between two buckets. */
export const logGrowth = Math.log((1 + relativeError) / (1 - relativeError));
/** The last bucket. It begins beyond 24 h, the longest time that a result can have. */
export const lastBucket = Math.ceil(Math.log(86_400_000 / least) / logGrowth);

/** Counts by bucket. */
export type Histogram = Uint32Array;

export const emptyHistogram = (): Histogram => new Uint32Array(lastBucket + 1);

/** Adds a stored sketch to the histogram. */
export function addSketch(histogram: Histogram, sketch: Uint8Array): void {
  let at = 0;
  const next = (): number => {
    let value = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = sketch[at++]!;
      value |= (byte & 127) << shift;
      if (byte < 128) return value;
    }
  };
  for (let bucket = 0; at < sketch.length;) {
    bucket += next();
    histogram[bucket]! += next();
  }
}

/**
 * The percentiles of what was added, ms, for ascending shares (0.5 is the median); zeros when nothing was. Between two values
 * it interpolates as percentile_cont of SQL does, so each is within {@link relativeError} of what that gives.
 */
export function percentiles(histogram: Histogram, shares: readonly number[]): number[] {
  const total = histogram.reduce((sum, count) => sum + count, 0);
  if (total === 0) return shares.map(() => 0);
  let bucket = 0;
  let seen = histogram[0]!;
  // Ranks are asked for in ascending order, so that one pass finds them all.
  const valueAt = (rank: number): number => {
    while (seen <= rank) seen += histogram[++bucket]!;
    return middleOf(bucket);
  };
  return shares.map((share) => {
    const rank = share * (total - 1);
    const low = valueAt(Math.floor(rank));
    // The rank above may lie in a later bucket, which the next share may still begin before.
    const before = { bucket, seen };
    const high = valueAt(Math.ceil(rank));
    ({ bucket, seen } = before);
    return low + (high - low) * (rank - Math.floor(rank));
  });
}

/** The value that is as far, relatively, from the lower as from the upper end of the bucket. */
const middleOf = (bucket: number): number =>
  bucket === 0 ? least : (least * 2 * Math.exp(bucket * logGrowth)) / (Math.exp(logGrowth) + 1);

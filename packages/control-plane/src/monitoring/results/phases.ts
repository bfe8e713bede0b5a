import type { LatencyBucket } from "./schema.ts";

/** Mean time of each phase over the buckets, weighted by their samples; `rest` is what follows the first byte. */
export interface Phases {
  dns: number;
  connect: number;
  tls: number;
  ttfb: number;
  rest: number;
}

/** Average duration of each phase; null without a sample. */
export function phasesOf(buckets: readonly LatencyBucket[]): Phases | null {
  const samples = buckets.reduce((sum, bucket) => sum + bucket.samples, 0);
  if (samples === 0) return null;
  const mean = (of: (bucket: LatencyBucket) => number) =>
    buckets.reduce((sum, bucket) => sum + of(bucket) * bucket.samples, 0) / samples;
  const parts = {
    dns: mean((it) => it.dns),
    connect: mean((it) => it.connect),
    tls: mean((it) => it.tls),
    ttfb: mean((it) => it.ttfb),
  };
  return { ...parts, rest: Math.max(0, mean((it) => it.avg) - parts.dns - parts.connect - parts.tls - parts.ttfb) };
}

/** The newest bucket that has samples. */
export const latestBucket = (buckets: readonly LatencyBucket[]): LatencyBucket | null =>
  buckets.findLast((bucket) => bucket.samples > 0) ?? null;

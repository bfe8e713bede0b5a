import type { LatencyBucket } from "../schema.ts";

export const phases = ["dns", "connect", "tls", "ttfb"] as const;
export type Phase = (typeof phases)[number];

/** A value for each phase. */
export const byPhase = <T>(of: (phase: Phase) => T): Record<Phase, T> => ({
  dns: of("dns"),
  connect: of("connect"),
  tls: of("tls"),
  ttfb: of("ttfb"),
});

/** Mean time of each phase over the buckets, weighted by their samples; `rest` is what follows the first byte. */
export type Phases = Record<Phase | "rest", number>;

/** Average duration of each phase; null without a sample. */
export function phasesOf(buckets: readonly LatencyBucket[]): Phases | null {
  const samples = buckets.reduce((sum, bucket) => sum + bucket.samples, 0);
  if (samples === 0) return null;
  const mean = (of: (bucket: LatencyBucket) => number) =>
    buckets.reduce((sum, bucket) => sum + of(bucket) * bucket.samples, 0) / samples;
  const parts = byPhase((phase) => mean((it) => it[phase]));
  return { ...parts, rest: Math.max(0, mean((it) => it.avg) - parts.dns - parts.connect - parts.tls - parts.ttfb) };
}

/** The newest bucket that has samples. */
export const latestBucket = (buckets: readonly LatencyBucket[]): LatencyBucket | null =>
  buckets.findLast((bucket) => bucket.samples > 0) ?? null;

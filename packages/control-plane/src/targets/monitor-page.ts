import { errorInWords } from "@statusmesh/shared/checks";
import type { Span } from "../html/charts.ts";
import type { Incident } from "../incidents/schema.ts";
import type { LatencyBucket } from "../results/schema.ts";

const hourMs = 3_600_000;

/** The spans that the latency chart offers, shortest first. */
export const ranges = [
  { key: "1h", label: "1 h", words: "last hour", ms: hourMs },
  { key: "24h", label: "24 h", words: "last 24 hours", ms: 24 * hourMs },
  { key: "7d", label: "7 d", words: "last 7 days", ms: 7 * 24 * hourMs },
  { key: "30d", label: "30 d", words: "last 30 days", ms: 30 * 24 * hourMs },
  { key: "90d", label: "90 d", words: "last 90 days", ms: 90 * 24 * hourMs },
] as const;
export type RangeChoice = (typeof ranges)[number];

/** The chosen span, or 24 hours for anything that is not one. */
export const rangeOf = (key: string | undefined): RangeChoice => ranges.find((range) => range.key === key) ?? ranges[1];

/** Mean time of each phase over the buckets, weighted by their samples; `rest` is what follows the first byte. */
export interface Phases {
  dns: number;
  connect: number;
  tls: number;
  ttfb: number;
  rest: number;
}

/** Where the time goes, or null without a sample. */
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

/** Incidents as the chart shades them. */
export function shadesOf(incidents: readonly Incident[], now: number): Span[] {
  return incidents.map((incident) => ({
    from: Date.parse(incident.started_at),
    to: incident.ended_at === null ? now : Date.parse(incident.ended_at),
    kind: incident.severity === "minor" ? "degraded" : "down",
    title: `${incident.severity === "minor" ? "Degraded" : "Down"}${incident.error_sample === null ? "" : `: ${errorInWords(incident.error_sample)}`}`,
  }));
}

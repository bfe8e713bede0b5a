import Type, { type Static } from "typebox";
import { measurementFields } from "@statusmesh/shared/result";
import { Id, nullable, PageOf, Timestamp } from "../http/wire.ts";

export const CheckResult = Type.Object({ target_id: Id, region: Type.String(), timestamp: Timestamp, ...measurementFields }, { additionalProperties: false, title: "CheckResult" });
export type CheckResult = Static<typeof CheckResult>;

export const CheckResultPage = PageOf(CheckResult);

const meanMs = (phase: string) => Type.Number({ description: `Mean ${phase} time, ms; 0 where the kind skips the phase` });

/** One slice of a latency series. */
export const LatencyBucket = Type.Object({
  t: Type.Integer({ description: "Start of the bucket, Unix ms: a whole multiple of bucket_seconds, so the first may begin before the range" }),
  p50: Type.Number(),
  p95: Type.Number(),
  p99: Type.Number(),
  avg: Type.Number(),
  dns: meanMs("DNS"),
  connect: meanMs("connect"),
  tls: meanMs("TLS"),
  ttfb: meanMs("first-byte"),
  samples: Type.Integer({ description: "Runs that got through (up or degraded); 0 marks a gap" }),
});
export type LatencyBucket = Static<typeof LatencyBucket>;

export const LatencySeries = Type.Object({ bucket_seconds: Type.Integer(), buckets: Type.Array(LatencyBucket) }, { title: "LatencySeries" });
export type LatencySeries = Static<typeof LatencySeries>;

export const Uptime = Type.Object(
  {
    total: Type.Integer(),
    up: Type.Integer(),
    down: Type.Integer(),
    degraded: Type.Integer(),
    error: Type.Integer(),
    uptime_pct: Type.Number({ description: "Share of runs that found the target up or degraded, percent; 100 without any run, which total tells" }),
  },
  { title: "Uptime" },
);
export type Uptime = Static<typeof Uptime>;

/** One latency series per region that has samples. */
export const RegionLatency = Type.Object(
  { bucket_seconds: Type.Integer(), regions: Type.Array(Type.Object({ region: Type.String(), buckets: Type.Array(LatencyBucket) })) },
  { title: "RegionLatency" },
);
export type RegionLatency = Static<typeof RegionLatency>;

export const IncidentPeriod = Type.Object(
  {
    id: Type.String({ format: "uuid", description: "Made from the target and the first failing run, so it is the same at every request" }),
    target_id: Id,
    started_at: Timestamp,
    ended_at: nullable(Timestamp),
    status: Type.Enum(["down", "error"], { description: "down when any of its runs found the target down" }),
    duration_secs: nullable(Type.Integer({ description: "Null while it goes on" })),
    check_count: Type.Integer({ description: "Runs that found the target down or could not check it" }),
    error_sample: nullable(Type.String()),
  },
  { additionalProperties: false, title: "IncidentPeriod" },
);
export type IncidentPeriod = Static<typeof IncidentPeriod>;

export const IncidentPeriodPage = PageOf(IncidentPeriod);

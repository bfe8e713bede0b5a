import { Diagnosis } from "@statusmesh/shared/protocol/diagnosis";
import Type, { type Static } from "typebox";
import { Details, measurementFields } from "@statusmesh/shared/protocol/result";
import {
  described,
  Flag,
  Id,
  Integer,
  nullable,
  OneOf,
  PageOf,
  Shape,
  Text,
  Timestamp,
} from "../../platform/http/wire.ts";

export { rangeQuery } from "./range.ts";

export const CheckResult = Shape("CheckResult", "Result of one run", {
  target_id: Id,
  region: Text("Id of the region that ran it", "frankfurt"),
  timestamp: Timestamp,
  ...measurementFields,
  details: Details,
  diagnosis: Type.Optional(nullable(Diagnosis)),
  recheck: Flag(
    "True for a run between two checks that confirms or refutes the one before it. It decides about " +
      "incidents, and counts in neither uptime nor latency",
    false,
  ),
  skipped: Type.Optional(
    Type.Literal(true, {
      description:
        "The run was no evidence about the target: it was throttled or the agent could not run it, as the error " +
        "says. It counts in nothing. Absent for other runs",
    }),
  ),
});
export type CheckResult = Static<typeof CheckResult>;

export const CheckResultPage = PageOf(CheckResult);

const meanMs = (phase: string, example: number) =>
  Type.Number({ description: `Mean ${phase} time, ms; 0 where the kind skips the phase`, examples: [example] });
const percentile = (share: number, example: number) =>
  Type.Number({ description: `Total time that ${share} % of the runs kept, ms`, examples: [example] });

export const LatencyBucket = Type.Object(
  {
    t: Integer(
      "Start of the bucket, Unix ms: a multiple of bucket_seconds, so the first bucket may start before the range",
      1_795_253_400_000,
    ),
    p50: percentile(50, 98.2),
    p95: percentile(95, 140.6),
    p99: percentile(99, 212.4),
    avg: Type.Number({ description: "Mean total time, ms", examples: [101.7] }),
    dns: meanMs("DNS", 4.2),
    connect: meanMs("connect", 11.8),
    tls: meanMs("TLS", 23.5),
    ttfb: meanMs("first-byte", 61.3),
    samples: Integer("Runs that got through (up or degraded); 0 marks a gap", 24),
  },
  { title: "LatencyBucket" },
);
export type LatencyBucket = Static<typeof LatencyBucket>;

const BucketSeconds = Integer("Length of a bucket, a multiple of 60", 1440);

export const LatencySeries = Type.Object(
  { bucket_seconds: BucketSeconds, buckets: Type.Array(LatencyBucket, { description: "Oldest first, without gaps" }) },
  { title: "LatencySeries" },
);
export type LatencySeries = Static<typeof LatencySeries>;

export const Uptime = Type.Object(
  {
    total: Integer("Runs that were evidence", 1440),
    up: Integer("Runs with status up", 1432),
    down: Integer("Runs with status down", 5),
    degraded: Integer("Runs with status degraded", 2),
    error: Integer("Runs that could not check it", 1),
    uptime_pct: Type.Number({
      description: "100 × (up + degraded) / total, of a heartbeat the share of the time; 100 without either",
      examples: [99.583],
    }),
    imported: Type.Optional(
      Integer(
        "Runs of the total that another product counted, of the days that begin in the range; absent without",
        1440,
      ),
    ),
  },
  { title: "Uptime" },
);
export type Uptime = Static<typeof Uptime>;

/** One latency series per region that has samples. */
export const RegionLatency = Type.Object(
  {
    bucket_seconds: BucketSeconds,
    regions: Type.Array(
      Type.Object({
        region: Text("Id of the region", "frankfurt"),
        buckets: Type.Array(LatencyBucket, { description: "Oldest first, without gaps" }),
      }),
      { description: "One series for each region that ran; `samples` is 0 where no run succeeded" },
    ),
  },
  { title: "RegionLatency" },
);
export type RegionLatency = Static<typeof RegionLatency>;

export const IncidentPeriod = Shape("IncidentPeriod", "A contiguous run of bad results", {
  id: Type.String({
    format: "uuid",
    description: "Derived from the target and the first failing run, so it is stable",
  }),
  target_id: Id,
  started_at: Timestamp,
  ended_at: nullable(described(Timestamp, "Null while it lasts", "2026-11-20T09:41:30.000Z")),
  status: OneOf(["down", "error"], "down when any of its runs was down"),
  duration_secs: nullable(Integer("Null while it lasts", 690)),
  check_count: Integer("Runs with status down or error", 12),
  error_sample: nullable(Text("Error of one of these runs", "connection refused")),
});
export type IncidentPeriod = Static<typeof IncidentPeriod>;

export const IncidentPeriodPage = PageOf(IncidentPeriod);

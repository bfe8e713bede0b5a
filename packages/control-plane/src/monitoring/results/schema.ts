import Type, { type Static } from "typebox";
import { Details, measurementFields } from "@statusmesh/shared/result";
import { Id, nullable, PageOf, Timestamp } from "../../platform/http/wire.ts";

export { rangeQuery } from "./range.ts";

export const CheckResult = Type.Object(
  {
    target_id: Id,
    region: Type.String({ description: "Id of the region that ran it", examples: ["frankfurt"] }),
    timestamp: Timestamp,
    ...measurementFields,
    details: Details,
    recheck: Type.Boolean({
      description:
        "True for a run between two checks that confirms or refutes the one before it. It decides about " +
        "incidents, and counts in neither uptime nor latency",
      examples: [false],
    }),
    skipped: Type.Optional(
      Type.Literal(true, {
        description:
          "The run was no evidence about the target: it was throttled or the agent could not run it, as the error " +
          "says. It counts in nothing. Absent for other runs",
      }),
    ),
  },
  { additionalProperties: false, title: "CheckResult", description: "Result of one run" },
);
export type CheckResult = Static<typeof CheckResult>;

export const CheckResultPage = PageOf(CheckResult);

const meanMs = (phase: string, example: number) =>
  Type.Number({ description: `Mean ${phase} time, ms; 0 where the kind skips the phase`, examples: [example] });
const percentile = (share: number, example: number) =>
  Type.Number({ description: `Total time that ${share} % of the runs kept, ms`, examples: [example] });

/** One slice of a latency series. */
export const LatencyBucket = Type.Object(
  {
    t: Type.Integer({
      description:
        "Start of the bucket, Unix ms: a multiple of bucket_seconds, so the first bucket may start before the range",
      examples: [1_795_253_400_000],
    }),
    p50: percentile(50, 98.2),
    p95: percentile(95, 140.6),
    p99: percentile(99, 212.4),
    avg: Type.Number({ description: "Mean total time, ms", examples: [101.7] }),
    dns: meanMs("DNS", 4.2),
    connect: meanMs("connect", 11.8),
    tls: meanMs("TLS", 23.5),
    ttfb: meanMs("first-byte", 61.3),
    samples: Type.Integer({ description: "Runs that got through (up or degraded); 0 marks a gap", examples: [24] }),
  },
  { title: "LatencyBucket" },
);
export type LatencyBucket = Static<typeof LatencyBucket>;

const BucketSeconds = Type.Integer({ description: "Length of a bucket, a multiple of 60", examples: [1440] });

export const LatencySeries = Type.Object(
  { bucket_seconds: BucketSeconds, buckets: Type.Array(LatencyBucket, { description: "Oldest first, without gaps" }) },
  { title: "LatencySeries" },
);
export type LatencySeries = Static<typeof LatencySeries>;

export const Uptime = Type.Object(
  {
    total: Type.Integer({ description: "Runs that were evidence", examples: [1440] }),
    up: Type.Integer({ description: "Runs with status up", examples: [1432] }),
    down: Type.Integer({ description: "Runs with status down", examples: [5] }),
    degraded: Type.Integer({ description: "Runs with status degraded", examples: [2] }),
    error: Type.Integer({ description: "Runs that could not check it", examples: [1] }),
    uptime_pct: Type.Number({
      description: "100 × (up + degraded) / total, of a heartbeat the share of the time; 100 without either",
      examples: [99.583],
    }),
    imported: Type.Optional(
      Type.Integer({
        description:
          "Runs of the total that another product counted, of the days that begin in the range; absent without",
        examples: [1440],
      }),
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
        region: Type.String({ description: "Id of the region", examples: ["frankfurt"] }),
        buckets: Type.Array(LatencyBucket, { description: "Oldest first, without gaps" }),
      }),
      { description: "One series for each region that ran; `samples` is 0 where no run succeeded" },
    ),
  },
  { title: "RegionLatency" },
);
export type RegionLatency = Static<typeof RegionLatency>;

export const IncidentPeriod = Type.Object(
  {
    id: Type.String({
      format: "uuid",
      description: "Derived from the target and the first failing run, so it is stable",
    }),
    target_id: Id,
    started_at: Timestamp,
    ended_at: nullable(
      Type.Unsafe<string>({
        ...Timestamp,
        description: "Null while it lasts",
        examples: ["2026-11-20T09:41:30.000Z"],
      }),
    ),
    status: Type.Enum(["down", "error"], { description: "down when any of its runs was down" }),
    duration_secs: nullable(Type.Integer({ description: "Null while it lasts", examples: [690] })),
    check_count: Type.Integer({ description: "Runs with status down or error", examples: [12] }),
    error_sample: nullable(
      Type.String({ description: "Error of one of these runs", examples: ["connection refused"] }),
    ),
  },
  { additionalProperties: false, title: "IncidentPeriod", description: "A contiguous run of bad results" },
);
export type IncidentPeriod = Static<typeof IncidentPeriod>;

export const IncidentPeriodPage = PageOf(IncidentPeriod);

import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from "prom-client";
import type { System } from "../context.ts";
import type { RequestSeen } from "../http/exchange.ts";
import type { JobWatch } from "../jobs/runner.ts";
import type { AttemptWatch } from "../pipeline/deliver.ts";
import type { BatchWatch, IngestLoad } from "../pipeline/load.ts";
import { instanceGauges } from "./instance.ts";

/** Hooks that components of the service call, and the text that Prometheus scrapes. */
export interface Metrics {
  readonly request: (seen: RequestSeen) => void;
  readonly batch: BatchWatch;
  readonly attempt: AttemptWatch;
  readonly job: JobWatch;
  /** Registers the ingest queue, whose depth each scrape reads. */
  watchQueue(load: IngestLoad): void;
  /** `shared` is called at each scrape: true while rate limits are counted for all replicas together. */
  watchSharedLimits(shared: () => boolean): void;
  /** Prometheus text exposition format, version 0.0.4. */
  text(): Promise<string>;
}

/** Histogram buckets, seconds. The long poll of agents takes up to 25. */
const requestBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
const ingestBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
/** Methods that get a label; any other is "other", because clients choose it. */
const methods = new Set(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]);

/**
 * Opens the metrics of this process. No label has a value that a tenant or visitor can choose: routes are the declared
 * ones, and no organisation, target or address appears.
 */
export function openMetrics(system: System, version: string): Metrics {
  const registry = new Registry();
  const registers = [registry];
  const counter = (name: string, help: string, ...labelNames: string[]) =>
    new Counter({ registers, name: `statusmesh_${name}`, help, labelNames });
  const gauge = (name: string, help: string, ...labelNames: string[]) =>
    new Gauge({ registers, name: `statusmesh_${name}`, help, labelNames });
  collectDefaultMetrics({ register: registry });
  gauge("build_info", "1; the version is its label", "version").set({ version }, 1);

  const requests = new Histogram({
    registers,
    name: "statusmesh_http_request_duration_seconds",
    help:
      "Requests by the route as it is declared, method and class of the status; route none: refused or " +
      "unknown before a route was found",
    labelNames: ["route", "method", "status"],
    buckets: requestBuckets,
  });
  const results = counter("ingest_results_total", "Results that agents reported, by what became of them", "outcome");
  const batches = counter(
    "ingest_batches_total",
    "Batches of results, by what became of them; busy: the queue was full, and the agent comes again",
    "outcome",
  );
  const seconds = new Histogram({
    registers,
    name: "statusmesh_ingest_batch_duration_seconds",
    help: "From a batch's arrival to its commit",
    buckets: ingestBuckets,
  });
  const attempts = counter(
    "delivery_attempts_total",
    "Attempts to deliver a notice, by kind of channel and outcome; retry: another follows, dead: it was given up",
    "kind",
    "outcome",
  );
  const digests = counter("delivery_digests_total", "Delivered digests of several notices, by channel kind", "kind");
  const runs = counter(
    "job_runs_total",
    "Runs of a background job by outcome; elsewhere: another replica was at it",
    "name",
    "outcome",
  );
  const took = gauge("job_last_duration_seconds", "How long the last run of a job in this process took", "name");
  const succeeded = gauge(
    "job_last_success_timestamp_seconds",
    "When a job last succeeded in this process, Unix time; take the maximum over replicas",
    "name",
  );
  for (const outcome of ["stored", "duplicate", "unassigned", "untimely"]) results.inc({ outcome }, 0);
  for (const outcome of ["stored", "busy", "failed"]) batches.inc({ outcome }, 0);
  const queued = gauge("ingest_queued_results", "Results that came in and are not in the database yet");
  let queue: Pick<IngestLoad, "queued"> = { queued: 0 };
  const shared = gauge(
    "rate_limits_shared",
    "1 while Redis counts rate limits for all replicas; 0 while each replica counts its own, so that " +
      "limits apply per replica",
  );
  let isShared = (): boolean => false;
  const refresh = instanceGauges(registry, system);

  return {
    request({ route, method, status, ms }) {
      requests.observe(
        {
          route: route ?? "none",
          method: methods.has(method) ? method : "other",
          status: `${Math.floor(status / 100)}xx`,
        },
        Math.max(0, ms) / 1000,
      );
    },
    batch(seen) {
      batches.inc({ outcome: seen.outcome });
      if (seen.outcome !== "stored") return;
      seconds.observe(Math.max(0, seen.ms) / 1000);
      results.inc({ outcome: "stored" }, seen.stored);
      results.inc({ outcome: "duplicate" }, seen.duplicates);
      results.inc({ outcome: "unassigned" }, seen.dropped_unassigned);
      results.inc({ outcome: "untimely" }, seen.dropped_future);
      results.inc({ outcome: "off_schedule" }, seen.dropped_off_schedule ?? 0);
    },
    attempt(kind, outcome, notices) {
      attempts.inc({ kind, outcome });
      if (notices > 1 && outcome === "delivered") digests.inc({ kind });
    },
    job(name, outcome, { ms, at }) {
      runs.inc({ name, outcome });
      if (outcome === "elsewhere") return;
      took.set({ name }, Math.max(0, ms) / 1000);
      if (outcome === "ok") succeeded.set({ name }, at / 1000);
    },
    watchQueue(load) {
      queue = load;
    },
    watchSharedLimits(of) {
      isShared = of;
    },
    async text() {
      await refresh();
      shared.set(isShared() ? 1 : 0);
      queued.set(queue.queued);
      return await registry.metrics();
    },
  };
}

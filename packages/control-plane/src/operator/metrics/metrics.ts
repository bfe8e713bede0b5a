import { collectDefaultMetrics } from "prom-client";
import { isLoopback, parseBind } from "@statusmesh/shared/net/address";
import { expositionType, type MetricsPort, openMetricsPort } from "@statusmesh/shared/net/metrics-port";
import type { System } from "../../platform/context.ts";
import type { RequestSeen } from "../../platform/http/exchange.ts";
import type { JobWatch } from "../../platform/jobs/runner.ts";
import type { AttemptWatch } from "../../alerting/deliveries/engine.ts";
import type { BatchWatch, IngestLoad } from "../../monitoring/pipeline/engine.ts";
import { MetricFactory } from "./factory.ts";
import { instanceGauges } from "./instance.ts";
import type { Log } from "../../platform/process/log.ts";

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
  /** `ok` is called at each scrape: whether the server's own files are applied, null without such files. */
  watchDeclared(ok: () => boolean | null): void;
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
  const make = new MetricFactory();
  collectDefaultMetrics({ register: make.registry });
  make.gauge("build_info", "1; the version is its label", "version").set({ version }, 1);
  const batch = ingestMetrics(make);
  let queue: Pick<IngestLoad, "queued"> = { queued: 0 };
  let isShared = (): boolean => false;
  let isDeclaredOk = (): boolean | null => null;
  make.watched("ingest_queued_results", "Results that were received and are not stored yet", () => queue.queued);
  make.watched(
    "rate_limits_shared",
    "1 while Redis counts rate limits for all replicas; 0 while each replica counts its own, so that " +
      "limits apply per replica",
    () => Number(isShared()),
  );
  make.watched(
    "declared_ok",
    "1 while the files of declared.path, as this process has them, are applied; 0 while they cannot be; absent without",
    () => {
      const ok = isDeclaredOk();
      return ok === null ? null : Number(ok);
    },
  );
  const refreshInstance = instanceGauges(make, system);
  return {
    request: requestMetrics(make),
    batch,
    attempt: attemptMetrics(make),
    job: jobMetrics(make),
    watchQueue: (load) => void (queue = load),
    watchSharedLimits: (shared) => void (isShared = shared),
    watchDeclared: (ok) => void (isDeclaredOk = ok),
    async text() {
      await refreshInstance();
      return await make.registry.metrics();
    },
  };
}

function requestMetrics(make: MetricFactory): Metrics["request"] {
  const requests = make.histogram(
    "http_request_duration_seconds",
    "Requests by declared route, method and class of the status; route none: refused or unknown before a route was " +
      "found",
    requestBuckets,
    "route",
    "method",
    "status",
  );
  return ({ route, method, status, ms }) =>
    requests.observe(
      {
        route: route ?? "none",
        method: methods.has(method) ? method : "other",
        status: `${Math.floor(status / 100)}xx`,
      },
      Math.max(0, ms) / 1000,
    );
}

function ingestMetrics(make: MetricFactory): BatchWatch {
  const results = make.counter("ingest_results_total", "Results that agents reported, by outcome", "outcome");
  const batches = make.counter(
    "ingest_batches_total",
    "Batches of results, by outcome; busy: the queue was full, and the agent sends the batch again",
    "outcome",
  );
  const seconds = make.histogram(
    "ingest_batch_duration_seconds",
    "From the arrival of a batch to its commit",
    ingestBuckets,
  );
  for (const outcome of ["stored", "duplicate", "unassigned", "untimely", "off_schedule"]) results.inc({ outcome }, 0);
  for (const outcome of ["stored", "busy", "failed"]) batches.inc({ outcome }, 0);
  return (seen) => {
    batches.inc({ outcome: seen.outcome });
    if (seen.outcome !== "stored") return;
    seconds.observe(Math.max(0, seen.ms) / 1000);
    results.inc({ outcome: "stored" }, seen.stored);
    results.inc({ outcome: "duplicate" }, seen.duplicates);
    results.inc({ outcome: "unassigned" }, seen.dropped_unassigned);
    results.inc({ outcome: "untimely" }, seen.dropped_future);
    results.inc({ outcome: "off_schedule" }, seen.dropped_off_schedule);
  };
}

function attemptMetrics(make: MetricFactory): AttemptWatch {
  const attempts = make.counter(
    "delivery_attempts_total",
    "Delivery attempts by channel kind and outcome; retry: another attempt follows, dead: the delivery has failed",
    "kind",
    "outcome",
  );
  const rounds = make.counter(
    "delivery_rounds_total",
    "Delivered messages of several notices, by channel kind",
    "kind",
  );
  return (kind, outcome, notices) => {
    attempts.inc({ kind, outcome });
    if (notices > 1 && outcome === "delivered") rounds.inc({ kind });
  };
}

function jobMetrics(make: MetricFactory): JobWatch {
  const runs = make.counter(
    "job_runs_total",
    "Runs of a background job by outcome; elsewhere: another replica was running it",
    "name",
    "outcome",
  );
  const took = make.gauge("job_last_duration_seconds", "Duration of the last run of a job in this process", "name");
  const succeeded = make.gauge(
    "job_last_success_timestamp_seconds",
    "When a job last succeeded in this process, Unix time; take the maximum over replicas",
    "name",
  );
  return (name, outcome, { ms, at }) => {
    runs.inc({ name, outcome });
    if (outcome === "elsewhere") return;
    took.set({ name }, Math.max(0, ms) / 1000);
    if (outcome === "ok") succeeded.set({ name }, at / 1000);
  };
}

/** Serves the metrics at `GET /metrics` of `bind`. Rejects with the error of `listen`. */
export async function serveMetrics(bind: string, metrics: Metrics, log: Log): Promise<MetricsPort> {
  const address = parseBind(bind);
  const port = await openMetricsPort(address, {
    "/metrics": async () => ({ type: expositionType, text: await metrics.text() }),
  });
  log.info({ url: `${port.url}/metrics` }, "metrics can be read");
  if (!isLoopback(address.host))
    log.warn(
      { bind },
      "server.metrics_bind is not a loopback address and has no authentication: let only your monitoring reach it",
    );
  return port;
}

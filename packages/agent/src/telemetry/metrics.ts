import type { CheckStatus } from "@statusmesh/shared/protocol/result";
import type { StatsTotals, StatsWatch } from "./stats.ts";
import { family, Histogram, type Sample } from "./exposition.ts";

/** Values that a scrape reads from the agent. Times are Unix ms, null for never. */
export interface AgentNumbers {
  version: string;
  totals: StatsTotals;
  inFlight: number;
  assigned: number;
  spoolWaiting: number;
  spoolBacklog: number;
  spoolDropped: number;
  /** Null for a spool in memory. */
  spoolBytes: number | null;
  breakersOpen: number;
  pullFailures: number;
  pulledAt: number | null;
  reportedAt: number | null;
  clockOffsetMs: number;
  impaired: boolean;
  overMemory: boolean;
}

/** Seconds. Timeouts end at 60. */
const probeBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
const lagBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, 30];

/**
 * The agent's metrics in the text format of Prometheus. Written here instead of prom-client, which takes 4.7 MB on
 * disk with its three dependencies; the whole installed agent takes 13.
 */
export class AgentMetrics implements StatsWatch {
  readonly #checks = new Map<string, Sample & { value: number }>();
  readonly #durations = new Histogram(probeBuckets);
  readonly #lag = new Histogram(lagBuckets);
  #read: (() => Promise<AgentNumbers>) | null = null;

  ran(kind: string, status: CheckStatus, tookMs: number | null): void {
    const key = `${kind}/${status}`;
    const known = this.#checks.get(key);
    if (known === undefined) this.#checks.set(key, { labels: { kind, status }, value: 1 });
    else known.value++;
    if (tookMs !== null) this.#durations.observe(tookMs / 1000, kind);
  }

  started(lagMs: number): void {
    this.#lag.observe(Math.max(0, lagMs) / 1000);
  }

  /** Registers the sources of values; before that only runs are counted. */
  watch(read: () => Promise<AgentNumbers>): void {
    this.#read = read;
  }

  async text(): Promise<string> {
    return [
      family("counter", "sm_agent_checks_total", "Runs by kind of check and status, including skipped runs", [
        ...this.#checks.values(),
      ]),
      this.#durations.text(
        "sm_agent_probe_duration_seconds",
        "Duration of runs, without those that were refused before the probe",
        "kind",
      ),
      this.#lag.text("sm_agent_start_lag_seconds", "Delay between the planned and the actual start of a run"),
      ...(this.#read === null ? [] : numbersText(await this.#read())),
      ...processText(),
    ].join("");
  }
}

function numbersText(now: AgentNumbers): string[] {
  const counter = (name: string, help: string, ...samples: Sample[]) =>
    family("counter", `sm_agent_${name}_total`, help, samples);
  const gauge = (name: string, help: string, value: number | null) =>
    family("gauge", `sm_agent_${name}`, help, value === null ? [] : [{ value }]);
  const secs = (ms: number | null) => (ms === null ? null : ms / 1000);
  const { totals } = now;
  return [
    family("gauge", "sm_agent_build_info", "1; version and Node.js are its labels", [
      { labels: { version: now.version, node: process.version }, value: 1 },
    ]),
    gauge("in_flight", "Runs in flight", now.inFlight),
    gauge("assigned", "Checks assigned to this agent", now.assigned),
    counter("throttled", "Runs that were refused: the limit per host, --max-concurrency or --max-memory-mb", {
      value: totals.throttled,
    }),
    counter(
      "slots_skipped",
      "Slots without a run, because the previous run was in flight, or because the agent was suspended",
      { labels: { why: "running" }, value: totals.skipped },
      { labels: { why: "late" }, value: totals.missed },
    ),
    gauge("breakers_open", "Destinations with an open circuit breaker, after five failures in a row", now.breakersOpen),
    gauge("spool_waiting", "Results in the spool, not yet reported", now.spoolWaiting),
    gauge("spool_backlog", "Results in the spool that are older than the newest 2,000", now.spoolBacklog),
    gauge("spool_bytes", "Size of the spool's segments on disk", now.spoolBytes),
    counter("results_reported", "Results that the control plane has acknowledged", { value: totals.reported }),
    counter(
      "results_dropped",
      "Results discarded: the spool was full, or the control plane rejected them permanently",
      { labels: { why: "spool" }, value: now.spoolDropped },
      { labels: { why: "rejected" }, value: totals.dropped },
    ),
    counter("report_failures", "Reports that failed", { value: totals.reportFailures }),
    counter("pull_failures", "Pulls that failed", { value: now.pullFailures }),
    gauge("last_report_timestamp_seconds", "When a report was last acknowledged, Unix time", secs(now.reportedAt)),
    gauge("last_pull_timestamp_seconds", "When the control plane last answered a pull, Unix time", secs(now.pulledAt)),
    gauge(
      "clock_offset_seconds",
      "How far the control plane's clock is ahead of this machine's",
      now.clockOffsetMs / 1000,
    ),
    gauge("impaired", "1 while the agent's own network is down", Number(now.impaired)),
    gauge("over_memory_limit", "1 while no run starts because of --max-memory-mb", Number(now.overMemory)),
  ];
}

function processText(): string[] {
  const { user, system } = process.cpuUsage();
  return [
    family("gauge", "process_resident_memory_bytes", "Resident memory", [{ value: process.memoryUsage.rss() }]),
    family("counter", "process_cpu_seconds_total", "Processor time", [{ value: (user + system) / 1e6 }]),
    family("gauge", "process_start_time_seconds", "When the process started, Unix time", [
      { value: performance.timeOrigin / 1000 },
    ]),
  ];
}

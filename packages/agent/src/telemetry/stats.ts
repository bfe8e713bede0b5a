import { createHistogram, type RecordableHistogram } from "node:perf_hooks";
import type { CheckStatus } from "@statusmesh/shared/protocol/result";

/** Called for every run and start, for metrics. */
export interface StatsWatch {
  /** `tookMs` is null for a run without a probe. */
  ran(kind: string, status: CheckStatus, tookMs: number | null): void;
  started(lagMs: number): void;
}

const counted = ["skipped", "missed", "throttled", "reported", "reportFailures", "dropped"] as const;

/** Counters since the start of the agent. */
export type StatsTotals = Record<(typeof counted)[number], number>;

/** Statistics since the last call. */
export class Stats {
  watch: StatsWatch | null = null;
  readonly #taken: StatsTotals = { skipped: 0, missed: 0, throttled: 0, reported: 0, reportFailures: 0, dropped: 0 };
  #runs: Record<string, number> = {};
  #lag: RecordableHistogram = createHistogram({ lowest: 1, highest: 3_600_000_000, figures: 3 });
  /** Slots missed while the check's previous run was still running. */
  skipped = 0;
  /** Slots missed because the agent stalled, was suspended or overloaded. */
  missed = 0;
  throttled = 0;
  reported = 0;
  reportFailures = 0;
  /** Results given up: the spool was full, or the control plane will never accept them. */
  dropped = 0;
  inFlight = 0;
  #lagBefore = 0;

  /** 99th percentile of the scheduling lag, ms: since the last call, or before when nothing has started since. */
  get lagP99Ms(): number {
    return this.#lag.count === 0 ? this.#lagBefore : this.#lag.percentile(99) / 1000;
  }

  ran(kind: string, status: CheckStatus, tookMs: number | null): void {
    this.watch?.ran(kind, status, tookMs);
    const key = `${kind}/${status}`;
    this.#runs[key] = (this.#runs[key] ?? 0) + 1;
  }

  /** Scheduling lag of a check, ms. */
  started(lagMs: number): void {
    this.watch?.started(lagMs);
    this.#lag.record(Math.max(1, Math.round(lagMs * 1000)));
  }

  totals(): StatsTotals {
    const totals = { ...this.#taken };
    for (const name of counted) totals[name] += this[name];
    return totals;
  }

  /** Statistics for the log; times in ms. Resets the counters. */
  take(): Record<string, number | Record<string, number>> {
    const starts = this.#lag.count;
    const numbers = {
      checks: this.#runs,
      starts,
      lag_p50_ms: starts === 0 ? 0 : this.#lag.percentile(50) / 1000,
      lag_p99_ms: starts === 0 ? 0 : this.#lag.percentile(99) / 1000,
      lag_max_ms: starts === 0 ? 0 : this.#lag.max / 1000,
      skipped: this.skipped,
      missed: this.missed,
      throttled: this.throttled,
      reported: this.reported,
      report_failures: this.reportFailures,
      dropped: this.dropped,
      in_flight: this.inFlight,
    };
    this.#lagBefore = this.lagP99Ms;
    this.#runs = {};
    this.#lag.reset();
    for (const name of counted) {
      this.#taken[name] += this[name];
      this[name] = 0;
    }
    return numbers;
  }
}

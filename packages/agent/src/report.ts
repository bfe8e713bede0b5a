import { Compile } from "typebox/compile";
import { maxBatch, protocolVersion, type AgentResult, ResultsReply, type ResultsRequest, type RunReply } from "@statusmesh/shared/agent-protocol";
import { type Api, ApiError, backoffMs } from "./api.ts";
import type { Clock } from "./clock.ts";
import { type Log, Once } from "./log.ts";
import type { Batch, Spool, SpoolRecord } from "./spool.ts";
import type { Stats } from "./stats.ts";

const requestTimeoutMs = 15_000;
/** A lone result waits this long for company. */
const gatherMs = 25;
/** Under load a request goes out this often: each one costs both sides as much as twenty results. */
const spacingMs = 200;
const maxRequests = 2;
const slowRetryMs = 60_000;

const validReply = Compile(ResultsReply);

export interface ReporterOptions {
  api: Api;
  spool: Spool;
  clock: Clock;
  log: Log;
  stats: Stats;
}

/** Sends what is in the spool, and takes out of it only what the control plane has acknowledged. */
export class Reporter {
  readonly #options: ReporterOptions;
  readonly #condition: Once;
  readonly #abort = new AbortController();
  #sending = 0;
  #lastSentAt = -Infinity;
  #notBefore = -Infinity;
  #failures = 0;
  /** Smaller than the protocol's after a batch was rejected, to find the record that spoils it. */
  #limit = maxBatch;
  #timer: { at: number; cancel: () => void } | null = null;
  #draining: (() => void) | null = null;

  constructor(options: ReporterOptions) {
    this.#options = options;
    this.#condition = new Once(options.log);
  }

  /** Puts a record into the spool and sees to it that it is sent. The answer to a run on demand does not wait for company. */
  add(record: SpoolRecord): void {
    this.#options.spool.append(record);
    this.#plan("run" in record);
  }

  /** Sends what waits now, and resolves when nothing does or after `ms`. */
  async drain(ms: number): Promise<void> {
    this.#notBefore = -Infinity;
    const drained = new Promise<void>((settle) => {
      this.#draining = settle;
    });
    const cancel = this.#options.clock.after(ms, () => this.#draining?.());
    this.#plan(true);
    await drained;
    cancel();
    this.#timer?.cancel();
    this.#abort.abort(new Error("stopping"));
  }

  #plan(now = false): void {
    const { clock, spool } = this.#options;
    // A send that the end of draining cut off comes back here with its records, and must not try them again for ever.
    if (this.#abort.signal.aborted) return;
    if (spool.waiting === 0) {
      if (this.#sending === 0) this.#draining?.();
      return;
    }
    // While a batch is being taken apart, the next half depends on what becomes of this one.
    if (this.#sending >= (this.#limit < maxBatch ? 1 : maxRequests)) return;
    const time = clock.monotonic();
    const eager = now || this.#draining !== null || spool.waiting >= this.#limit;
    const at = Math.max(eager ? time : Math.max(time + gatherMs, this.#lastSentAt + spacingMs), this.#notBefore);
    if (this.#timer !== null && this.#timer.at <= at) return;
    this.#timer?.cancel();
    this.#timer = {
      at,
      cancel: clock.after(at - time, () => {
        this.#timer = null;
        void this.#send();
      }),
    };
  }

  async #send(): Promise<void> {
    const { spool, clock } = this.#options;
    this.#sending++;
    const batch = await spool.take(this.#limit);
    if (batch !== null) {
      this.#lastSentAt = clock.monotonic();
      // More than one batch waits: do not let the first one's round trip hold up the second.
      this.#plan();
      try {
        await this.#post(batch.records);
        await batch.ack();
        this.#succeeded(batch.records.length);
      } catch (error) {
        await this.#failed(batch, error);
      }
    }
    this.#sending--;
    this.#plan();
  }

  async #post(records: readonly SpoolRecord[]): Promise<void> {
    const results: AgentResult[] = [];
    const runs: RunReply[] = [];
    for (const record of records) {
      if ("result" in record) results.push(record.result);
      else runs.push(record.run);
    }
    const request: ResultsRequest = { protocol: protocolVersion, results, runs };
    const reply = await this.#options.api.post("/api/agent/results", request, { timeoutMs: requestTimeoutMs, signal: this.#abort.signal });
    // Anything may answer 200, a captive portal included; only a receipt is a receipt.
    if (!validReply.Check(reply)) throw new ApiError("unexpected", "the answer is not a receipt for results");
    if (reply.dropped_future > 0) {
      this.#options.log("warn", "the control plane dropped results from the future", { count: reply.dropped_future });
    }
  }

  #succeeded(count: number): void {
    this.#options.stats.reported += count;
    this.#failures = 0;
    this.#notBefore = -Infinity;
    this.#limit = Math.min(maxBatch, this.#limit * 2);
    if (this.#condition.clear()) this.#options.log("info", "results are accepted again");
  }

  async #failed(batch: Batch, error: unknown): Promise<void> {
    if (this.#abort.signal.aborted) return batch.release();
    const { clock, stats, log } = this.#options;
    const { trouble, message, retryAfterMs } = error instanceof ApiError ? error : new ApiError("unexpected", error instanceof Error ? error.message : String(error));
    stats.reportFailures++;
    if (trouble === "rejected") {
      if (batch.records.length > 1) {
        this.#limit = Math.ceil(batch.records.length / 2);
        return batch.release();
      }
      const [record] = batch.records;
      log("error", "the control plane rejects a result for good; it is dropped", { reason: message, ...(record !== undefined && nameOf(record)) });
      stats.dropped++;
      return batch.ack();
    }
    batch.release();
    this.#condition.say(trouble === "away" ? "warn" : "error", `results cannot be reported and are kept (${message})`);
    const wait = trouble === "away" ? (retryAfterMs ?? backoffMs(this.#failures++, 250, 30_000)) : backoffMs(0, slowRetryMs, slowRetryMs);
    this.#notBefore = clock.monotonic() + wait;
  }
}

function nameOf(record: SpoolRecord): Record<string, string | number> {
  return "result" in record ? { target_id: record.result.target_id, scheduled_at: record.result.scheduled_at } : { run_id: record.run.run_id };
}

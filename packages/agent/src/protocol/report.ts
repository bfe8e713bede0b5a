import { Compile } from "typebox/compile";
import {
  maxBatch,
  protocolVersion,
  type AgentResult,
  ResultsReply,
  type ResultsRequest,
  type RunReply,
} from "@statusmesh/shared/protocol/agent-protocol";
import { type Api, ApiError, asApiError, type Contact, retryMs } from "./api.ts";
import { Alarm, type Clock } from "../clock.ts";
import { type Log, Once } from "../telemetry/log.ts";
import type { Lane, Spool, SpoolRecord } from "../spool/spool.ts";
import type { Stats } from "../telemetry/stats.ts";

const requestTimeoutMs = 15_000;
/** Longest wait of a routine result, ms. A request costs both sides as much as twenty results. */
const routineMs = 1000;
/** Wait of a lone urgent result for others. */
const gatherMs = 25;
/** Interval of requests while many results are urgent. */
const spacingMs = 200;
/**
 * Requests in flight. The backlog has its own lane, sequential without a pause: at 1,000 results each that is many
 * times the rate of new results, which do not queue behind it.
 */
const requestsAtOnce: Record<Lane, number> = { fresh: 2, backlog: 1 };
/** When this many results of one batch are refused and none accepted, the results are not the problem. */
const hopeless = 20;

const validReply = Compile(ResultsReply);

export interface ReporterOptions {
  api: Api;
  spool: Spool;
  clock: Clock;
  log: Log;
  stats: Stats;
  /** Updated by every request, for `status` and metrics. */
  contact?: Contact;
  /** Called with the targets of stored results, and those of them to recheck. */
  onReceipt?: (targetIds: readonly string[], rechecks: ReadonlySet<string>) => void;
}

interface LaneState {
  sending: number;
  lastSentAt: number;
  /** Arrival of the oldest waiting result; null when unknown or when one is urgent. */
  routineSince: number | null;
  /** Sends. */
  readonly alarm: Alarm;
}

/** Sends the spool, and removes only results that the control plane acknowledged. */
export class Reporter {
  readonly #options: ReporterOptions;
  readonly #condition: Once;
  readonly #abort = new AbortController();
  readonly #lanes: Record<Lane, LaneState>;
  #notBefore = -Infinity;
  #failures = 0;
  #draining: (() => void) | null = null;

  constructor(options: ReporterOptions) {
    this.#options = options;
    this.#condition = new Once(options.log);
    this.#lanes = { fresh: this.#newLane("fresh"), backlog: this.#newLane("backlog") };
  }

  #newLane(lane: Lane): LaneState {
    const alarm = new Alarm(this.#options.clock, () => void this.#send(lane));
    return { sending: 0, lastSentAt: -Infinity, routineSince: null, alarm };
  }

  /**
   * Adds a record to the spool and schedules its report: an on-demand reply at once, a `routine` result within a
   * second, any other within {@link gatherMs} or, while there are many, {@link spacingMs}.
   */
  add(record: SpoolRecord, routine = false): void {
    const { spool, clock } = this.#options;
    const { fresh } = this.#lanes;
    const alone = spool.waiting === spool.backlog;
    if (!routine) fresh.routineSince = null;
    else if (alone) fresh.routineSince = clock.monotonic();
    spool.append(record);
    this.#plan("fresh", "run" in record);
    this.#plan("backlog");
  }

  /** Sets the region of results, and reports results of an earlier process in it. */
  serve(region: string): void {
    this.#options.spool.serve(region);
    this.#plan("backlog");
  }

  /** Reports now: the obstacle is gone. */
  resume(): void {
    this.#notBefore = -Infinity;
    this.#plan("fresh", true);
    this.#plan("backlog", true);
  }

  /** Reports now; resolves when nothing waits or after `ms`. */
  async drain(ms: number): Promise<void> {
    this.#notBefore = -Infinity;
    const drained = new Promise<void>((settle) => {
      this.#draining = settle;
    });
    const cancel = this.#options.clock.after(ms, () => this.#draining?.());
    this.#plan("fresh", true);
    this.#plan("backlog", true);
    await drained;
    cancel();
    for (const lane of Object.values(this.#lanes)) lane.alarm.cancel();
    this.#abort.abort(new Error("stopping"));
  }

  #plan(lane: Lane, now = false): void {
    const { clock, spool } = this.#options;
    // A send aborted by the end of draining releases its records here, and must not retry for ever.
    if (this.#abort.signal.aborted) return;
    const state = this.#lanes[lane];
    const waiting = lane === "backlog" ? spool.backlog : spool.waiting - spool.backlog;
    if (waiting === 0) {
      if (spool.waiting === 0 && this.#lanes.fresh.sending + this.#lanes.backlog.sending === 0) this.#draining?.();
      return;
    }
    // While the control plane is away one request at a time probes it.
    if (this.#failures > 0 && this.#lanes.fresh.sending + this.#lanes.backlog.sending > 0) return;
    if (state.sending >= requestsAtOnce[lane]) return;
    const time = clock.monotonic();
    const eager = now || lane === "backlog" || this.#draining !== null || waiting >= maxBatch;
    const urgentAt = Math.max(time + gatherMs, state.lastSentAt + spacingMs);
    const due = state.routineSince === null ? urgentAt : Math.max(urgentAt, state.routineSince + routineMs);
    state.alarm.setWithin(Math.max(eager ? time : due, this.#notBefore) - time);
  }

  async #send(lane: Lane): Promise<void> {
    const { spool, clock, stats } = this.#options;
    const state = this.#lanes[lane];
    if (this.#failures > 0 && this.#lanes.fresh.sending + this.#lanes.backlog.sending > 0) return;
    state.sending++;
    const batch = await spool.take(maxBatch, lane);
    if (batch !== null) {
      state.lastSentAt = clock.monotonic();
      // With more than one batch the round trip of the first must not delay the second.
      this.#plan(lane);
      try {
        const refused = await this.#deliver(batch.records);
        await batch.ack();
        stats.reported += batch.records.length - refused;
        stats.dropped += refused;
        this.#succeeded();
      } catch (error) {
        batch.release();
        state.routineSince = null;
        this.#failed(error);
      }
    }
    state.sending--;
    // An empty lane is not read again before an event.
    if (batch !== null || lane === "backlog") this.#plan("fresh");
    if (batch !== null || lane === "fresh") this.#plan("backlog");
  }

  /** Sends the records. Splits a refused batch until the invalid records are isolated, and returns their number. */
  async #deliver(records: readonly SpoolRecord[]): Promise<number> {
    const refused: SpoolRecord[] = [];
    let accepted = false;
    let reason = "";
    const deliver = async (some: readonly SpoolRecord[]): Promise<void> => {
      try {
        await this.#post(some);
        accepted = true;
      } catch (error) {
        if (!(error instanceof ApiError) || error.kind !== "rejected") throw error;
        this.#options.stats.reportFailures++;
        reason = error.message;
        if (some.length === 1) {
          refused.push(...some);
          if (refused.length >= hopeless && !accepted)
            throw new ApiError("unexpected", `${refused.length} results in a row are refused: ${reason}`);
          return;
        }
        const half = Math.ceil(some.length / 2);
        await deliver(some.slice(0, half));
        await deliver(some.slice(half));
      }
    };
    await deliver(records);
    for (const record of refused)
      this.#options.log("error", "the control plane rejected a result permanently; it is dropped", {
        reason,
        ...nameOf(record),
      });
    return refused.length;
  }

  async #post(records: readonly SpoolRecord[]): Promise<void> {
    const results: AgentResult[] = [];
    const runs: RunReply[] = [];
    for (const record of records) {
      if ("result" in record) results.push(record.result);
      else runs.push(record.run);
    }
    const request: ResultsRequest = { protocol: protocolVersion, results, runs };
    const reply = await this.#options.api.post("/api/agent/results", request, {
      timeoutMs: requestTimeoutMs,
      signal: this.#abort.signal,
    });
    // Any server may answer 200, for example a captive portal; only an acknowledgement counts.
    if (!validReply.Check(reply)) throw new ApiError("unexpected", "the answer is not a receipt for results");
    this.#options.onReceipt?.(
      results.map((result) => result.target_id),
      new Set(reply.rechecks),
    );
    if (reply.dropped_future > 0) {
      this.#options.log("warn", "the control plane dropped results from the future", { count: reply.dropped_future });
    }
    const { dropped_off_schedule: violations } = reply;
    if (violations > 0) {
      this.#options.log("warn", "the control plane dropped results that fit no schedule; its log says why", {
        count: violations,
      });
    }
  }

  #succeeded(): void {
    this.#options.contact?.succeeded(this.#options.clock.now());
    this.#failures = 0;
    this.#notBefore = -Infinity;
    if (this.#condition.clear())
      this.#options.log("info", "results are accepted again", { waiting: this.#options.spool.waiting });
  }

  #failed(error: unknown): void {
    if (this.#abort.signal.aborted) return;
    const { clock, stats } = this.#options;
    const failure = asApiError(error);
    const { kind, message } = failure;
    stats.reportFailures++;
    this.#options.contact?.failed(clock.now(), message);
    this.#condition.say(kind === "away" ? "warn" : "error", `results cannot be reported and are kept (${message})`);
    const wait = retryMs(failure, this.#failures++);
    this.#notBefore = Math.max(this.#notBefore, clock.monotonic() + wait);
  }
}

function nameOf(record: SpoolRecord): Record<string, string | number> {
  return "result" in record
    ? { target_id: record.result.target_id, scheduled_at: record.result.scheduled_at }
    : { run_id: record.run.run_id };
}

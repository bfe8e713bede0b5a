import { Compile } from "typebox/compile";
import {
  maxPingBatch,
  PingsReply,
  type PingsRequest,
  protocolVersion,
} from "@statusmesh/shared/protocol/agent-protocol";
import { Alarm, type Clock } from "../clock.ts";
import { type Api, ApiError, asApiError, retryMs } from "../protocol/api.ts";
import { type Log, Once } from "../telemetry/log.ts";
import type { PingBatch, PingJournal } from "./journal.ts";
import type { KnownAddresses } from "./known.ts";

const requestTimeoutMs = 15_000;
/** Interval of requests without a ping: windows of monitors wait for what the agent may have. */
const beatMs = 5000;
/** Wait of a ping for others. */
const gatherMs = 200;

const validReply = Compile(PingsReply);

export interface SenderOptions {
  api: Api;
  journal: PingJournal;
  known: KnownAddresses;
  clock: Clock;
  log: Log;
}

/** Delivers pings in the order in which they came, one batch at a time. */
export class PingSender {
  readonly #options: SenderOptions;
  readonly #condition: Once;
  readonly #abort = new AbortController();
  readonly #startedAt: number;
  readonly #alarm: Alarm;
  #until = 0;
  #failures = 0;
  #most = maxPingBatch;
  #sending: Promise<void> | null = null;
  #notBefore = -Infinity;
  #stopping = false;

  constructor(options: SenderOptions) {
    this.#options = options;
    this.#condition = new Once(options.log);
    this.#startedAt = options.clock.monotonic();
    this.#alarm = new Alarm(options.clock, () => {
      this.#sending = this.#send().finally(() => {
        this.#sending = null;
        this.#plan(options.journal.waiting > 0 ? gatherMs : beatMs);
      });
    });
    options.journal.onAppend = () => this.#plan(gatherMs);
    this.#plan(0);
  }

  /** The obstacle is gone: the token is a new one. */
  resume(): void {
    this.#notBefore = -Infinity;
    this.#plan(0);
  }

  /** Delivers what waits; resolves when nothing does, at the first failure, or after `ms`. */
  async stop(ms: number): Promise<void> {
    this.#stopping = true;
    this.#alarm.cancel();
    const cancel = this.#options.clock.after(ms, () => this.#abort.abort(new Error("stopping")));
    await this.#sending;
    await this.#send();
    cancel();
    this.#abort.abort(new Error("stopping"));
  }

  #plan(ms: number): void {
    if (this.#stopping || this.#sending !== null) return;
    this.#alarm.setWithin(Math.max(ms, this.#notBefore - this.#options.clock.monotonic()));
  }

  /** Sends batches until none waits. Never rejects. */
  async #send(): Promise<void> {
    const { journal, clock, log } = this.#options;
    try {
      for (let isFollowed = true; isFollowed && !this.#abort.signal.aborted;) {
        const settled = journal.settledUntil(clock.now());
        const batch = await journal.take(this.#most);
        isFollowed = batch?.isFollowed ?? false;
        await this.#deliver(batch, settled);
        await batch?.done();
        this.#most = maxPingBatch;
      }
      this.#failures = 0;
      this.#notBefore = -Infinity;
      if (this.#condition.clear()) log("info", "pings are delivered again");
    } catch (error) {
      this.#failed(error);
    }
  }

  async #deliver(batch: PingBatch | null, settled: number): Promise<void> {
    const { api, clock, known } = this.#options;
    const pings = (batch?.records ?? []).flatMap((record) => ("ping" in record ? [record.ping] : []));
    const bodies = (batch?.records ?? []).flatMap((record) => ("body" in record ? [record.body] : []));
    this.#until = Math.max(this.#until, batch?.isFollowed === true ? (pings.at(-1)?.at ?? 0) : settled);
    const request: PingsRequest = {
      protocol: protocolVersion,
      listening_since: Math.max(0, clock.now() - Math.ceil(clock.monotonic() - this.#startedAt)),
      until: this.#until,
      pings,
      bodies,
    };
    try {
      const reply = await api.post("/api/agent/pings", request, {
        timeoutMs: requestTimeoutMs,
        signal: this.#abort.signal,
      });
      // Any server may answer 200, for example a captive portal; only an acknowledgement counts.
      if (!validReply.Check(reply)) throw new ApiError("unexpected", "the answer is not a receipt for pings");
      const addresses = pings.map(({ address }) => address);
      known.note(addresses, new Set(reply.unknown), clock.now());
    } catch (error) {
      if (!(error instanceof ApiError) || error.kind !== "rejected" || batch === null) throw error;
      if (batch.records.length > 1) {
        this.#most = Math.ceil(batch.records.length / 2);
        throw error;
      }
      this.#options.log("error", "the control plane rejected a ping permanently; it is dropped", {
        reason: error.message,
      });
    }
  }

  #failed(error: unknown): void {
    if (this.#abort.signal.aborted) return;
    const failure = asApiError(error);
    const { kind, message } = failure;
    this.#condition.say(kind === "away" ? "warn" : "error", `pings cannot be delivered and are kept (${message})`);
    const wait = kind === "rejected" ? gatherMs : retryMs(failure, this.#failures);
    this.#failures++;
    this.#notBefore = this.#options.clock.monotonic() + wait;
  }
}

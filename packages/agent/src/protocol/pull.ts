import { Compile } from "typebox/compile";
import { type PullRequest, PullReply, protocolVersion } from "@statusmesh/shared/protocol/agent-protocol";
import { asObject } from "@statusmesh/shared/json";
import { type Api, ApiError, type ApiErrorKind, asApiError, backoffMs, type Contact, retryMs } from "./api.ts";
import type { CorrectedClock } from "../clock.ts";
import { type Log, Once } from "../telemetry/log.ts";

/** The control plane holds a poll for up to 25 s; after this time the connection is dead. */
const pollTimeoutMs = 40_000;
/** Interval of looking for a new token while the current one is refused, ms. */
const tokenLookMs = 2000;
/** Minimum time between polls, ms: an empty reply at once must not cause a busy loop. */
const emptyPauseMs = 1000;
/** Share of the 4 s of a stop for the deregistration; without it the agent expires half a minute later. */
const deregisterMs = 1500;

const validReply = Compile(PullReply);

export interface PullerOptions {
  api: Api;
  clock: CorrectedClock;
  log: Log;
  version: string;
  /** What this agent can run. */
  kinds: () => PullRequest["kinds"];
  /** How many on-demand runs can be taken now. */
  capacity: () => number;
  apply: (reply: PullReply) => void;
  /** Reads the current token after a refusal; null when there is none. */
  newToken?: () => string | null;
  /** The control plane refuses this agent, until it answers again. */
  refused: () => void;
  /** The new token was accepted: use it from now on. */
  renewed?: (token: string) => void;
  /** Start of the outage of the agent's own network, Unix ms; null while it works. */
  impairedSince?: () => number | null;
  /** Load of the agent. */
  load?: () => NonNullable<PullRequest["load"]>;
  /** Updated by every poll, for `status` and metrics. */
  contact?: Contact;
}

/** Polls the control plane. A problem is logged once when it starts and once when it ends. */
export class Puller {
  readonly #options: PullerOptions;
  readonly #stop = new AbortController();
  readonly #condition: Once;
  #cursor: string | null = null;
  #failures = 0;
  /** Failed polls since the start. */
  failed = 0;
  /** The token of the last pull was refused: look for another one. */
  #refused = false;
  #lastToken: string | null;
  /** Aborts the held poll. */
  #again = new AbortController();

  constructor(options: PullerOptions) {
    this.#options = options;
    this.#condition = new Once(options.log);
    this.#lastToken = options.newToken?.() ?? null;
  }

  /** Runs until {@link Puller.stop}. Never rejects. */
  async run(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      const waitMs = await this.#once();
      await this.#pause(waitMs);
    }
  }

  stop(): void {
    this.#stop.abort(new Error("stopping"));
  }

  /** Deregisters this agent, so that others take over at once. After {@link Puller.stop}; never rejects. */
  async leave(): Promise<void> {
    const { api, version } = this.#options;
    const over = new AbortController();
    const cancel = this.#options.clock.after(deregisterMs, () => over.abort(new Error("no answer")));
    const request: PullRequest = {
      protocol: protocolVersion,
      agent_version: version,
      kinds: this.#options.kinds(),
      cursor: null,
      capacity: 0,
      leaving: true,
    };
    // Away or refused: the agent expires.
    await api.post("/api/agent/pull", request, { timeoutMs: deregisterMs, signal: over.signal }).catch(() => null);
    cancel();
  }

  /** Polls again, because the reported state of the agent changed. */
  askAgain(): void {
    this.#again.abort(new Error("asking anew"));
  }

  /** One poll; returns the delay before the next, ms. */
  async #once(): Promise<number> {
    const { clock, log } = this.#options;
    const started = clock.monotonic();
    try {
      const token = this.#refused ? (this.#options.newToken?.() ?? null) : null;
      this.#lastToken = token ?? this.#lastToken;
      const reply = await this.#pull(token);
      this.#options.apply(reply);
      // Results follow only when the region of the token is known.
      if (token !== null) this.#options.renewed?.(token);
      this.#options.contact?.succeeded(clock.now());
      this.#cursor = reply.cursor;
      this.#failures = 0;
      this.#refused = false;
      if (this.#condition.clear()) log("info", "the control plane answers again");
      const empty = !reply.full && reply.checks.length === 0 && reply.drop.length === 0 && reply.runs.length === 0;
      return empty && clock.monotonic() - started < emptyPauseMs ? emptyPauseMs : 0;
    } catch (error) {
      if (this.#stop.signal.aborted || this.#again.signal.aborted) return 0;
      return this.#failed(asApiError(error));
    }
  }

  async #pull(token: string | null): Promise<PullReply> {
    const { api, clock, version, capacity, impairedSince, load } = this.#options;
    this.#again = new AbortController();
    const since = impairedSince?.() ?? null;
    const request: PullRequest = {
      protocol: protocolVersion,
      agent_version: version,
      kinds: this.#options.kinds(),
      cursor: this.#cursor,
      capacity: capacity(),
      ...(since === null ? {} : { impaired_since: since }),
      ...(load !== undefined ? { load: load() } : {}),
    };
    let arrived = 0;
    const signal = AbortSignal.any([this.#stop.signal, this.#again.signal]);
    const reply = await api.post("/api/agent/pull", request, {
      timeoutMs: pollTimeoutMs,
      signal,
      onHead: () => (arrived = clock.monotonic()),
      ...(token === null ? {} : { token }),
    });
    if (!validReply.Check(reply)) {
      const { protocol: theirs = protocolVersion } = asObject(reply);
      if (theirs !== protocolVersion) throw otherProtocol(theirs);
      throw new ApiError(
        "unexpected",
        `the answer is not a pull reply (${validReply.Errors(reply)[0]?.instancePath ?? "/"})`,
      );
    }
    if (reply.protocol !== protocolVersion) throw otherProtocol(reply.protocol);
    // A large body takes a while to arrive and parse; its time is that of the response head.
    clock.correct(reply.server_time + (clock.monotonic() - arrived));
    return reply;
  }

  #failed(error: ApiError): number {
    this.failed++;
    this.#options.contact?.failed(this.#options.clock.now(), error.message);
    this.#condition.say(error.kind === "away" ? "warn" : "error", `${explanations[error.kind]} (${error.message})`);
    if (error.kind === "away") return Math.max(error.retryAfterMs ?? 0, backoffMs(this.#failures++, 500, 30_000));
    // A cursor that the control plane cannot read would be refused for ever.
    this.#cursor = null;
    this.#refused = error.kind === "refused";
    if (this.#refused) this.#options.refused();
    return retryMs(error, 0);
  }

  /** Waits; a new token in place of a refused one ends the wait. */
  async #pause(ms: number): Promise<void> {
    for (let left = ms; left > 0 && !this.#stop.signal.aborted; left -= tokenLookMs) {
      if (this.#refused && (this.#options.newToken?.() ?? this.#lastToken) !== this.#lastToken) return;
      await this.#sleep(this.#refused ? Math.min(left, tokenLookMs) : left);
      if (!this.#refused) return;
    }
  }

  #sleep(ms: number): Promise<void> {
    const { signal } = this.#stop;
    return new Promise((settle) => {
      const wake = (): void => {
        cancel();
        signal.removeEventListener("abort", wake);
        settle();
      };
      const cancel = this.#options.clock.after(ms, wake);
      signal.addEventListener("abort", wake, { once: true });
    });
  }
}

function otherProtocol(theirs: unknown): ApiError {
  return new ApiError("protocol", `it speaks version ${String(theirs)}, this agent ${protocolVersion}`);
}

const explanations: Record<ApiErrorKind, string> = {
  away: "the control plane cannot be reached; checks continue, results are kept",
  refused:
    "the control plane does not accept this agent's token; nothing is checked, results are kept, trying again " +
    "every minute. Put the token of a new agent in place of it",
  protocol:
    "the control plane has another version of the agent protocol; checks continue unchanged, results are " +
    "kept. Update the older of the two",
  rejected: "the control plane does not understand this agent's request",
  unexpected: "what answers at this URL is not a StatusMesh control plane; trying again every minute",
};

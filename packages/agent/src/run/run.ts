import type { WithheldCheck } from "@statusmesh/shared/protocol/agent-protocol";
import {
  circuitOpen,
  isProbedType,
  kindOf,
  probedTypes,
  type ProbedSpec,
  throttledByCap,
} from "@statusmesh/shared/checks";
import type { Cause } from "@statusmesh/shared/protocol/result";
import { secondTry } from "@statusmesh/shared/schedule";
import { messageOf } from "@statusmesh/shared/thrown";
import { CircuitBreakers, type Failure, InflightCap, UsualDurations } from "./limits.ts";
import { RunQueue } from "./run-queue.ts";
import {
  type Dialled,
  type Outcome,
  type Prepared,
  Probing,
  type ProbingOptions,
  type Run,
  type WireCheck,
} from "./probing.ts";
import { certificatesFor } from "../probes/tls/certificates.ts";
import { probeOf } from "../probes/index.ts";
import type { Verdict } from "../probes/probe.ts";
import { clean, measurementOf, newTrace } from "./verdicts.ts";

export type { Outcome, Run, WireCheck } from "./probing.ts";

/** Default limit of concurrent runs: each holds a socket, and without sockets every target would seem down. */
const defaultMaxInflight = 4000;
/** Limit of queued on-demand runs: each keeps an API caller waiting. */
const maxWaiting = 1000;
/** A turn is late when it comes this much later than the usual duration of the runs before it says. */
const lateness = { factor: 1.25, ms: 50 };

const withheldType: WithheldCheck["type"] = "withheld";

export interface RunnerOptions extends ProbingOptions {
  /** Maximum number of concurrent runs. */
  maxInflight?: number;
  /** Reason to refuse new runs, such as a full memory; null when runs may start. */
  refusalReason?: () => string | null;
}

/** How a scheduled run waits for its turn at its host. */
export interface TurnOptions {
  slot: number;
  /** The longest time that it waits before it counts as throttled, ms. */
  longestMs: number;
  /** Records that the slot was throttled. The run still waits. */
  throttled(slot: number, outcome: Outcome): void;
}

/** A scheduled run. */
export interface TurnRun extends Run {
  /** The slot of its result: a later one than the planned one where that was recorded as throttled. */
  readonly slot: number;
  /** Set while it waits for its turn. */
  readonly turn: { moveTo(slot: number): void } | null;
}

/** Where a run goes: the keys of its cap and of its breaker. */
interface Way {
  host: string;
  dial: string;
}

/** Runs single checks: limits, then the probe under one deadline, then the outcome for the report. */
export class Runner {
  readonly cap = new InflightCap(2);
  readonly breakers = new CircuitBreakers();
  readonly #durations = new UsualDurations();
  readonly #options: RunnerOptions;
  readonly #queue: RunQueue;
  // Keyed by the check object, which stays the same between runs.
  readonly #prepared = new WeakMap<WireCheck, Prepared | Verdict>();

  constructor(options: RunnerOptions) {
    this.#options = options;
    this.#queue = new RunQueue(options.clock);
  }

  /** Number of on-demand runs that wait for capacity. */
  get waiting(): number {
    return this.#queue.onDemand;
  }

  /**
   * Runs a check now. An on-demand run collects warnings, waits up to its timeout for capacity, and is the trial of an
   * open circuit breaker; any other run is throttled at once.
   */
  run(orgId: string, check: WireCheck, onDemand = false): Run {
    const prepared = this.#prepare(check);
    if (!("probe" in prepared)) return this.#immediate(check.type, prepared);
    const way = wayOf(orgId, prepared);
    if (!onDemand && this.#isRefused(prepared, way)) return this.#refused(prepared, way!);
    const refusal = this.#enter(way, onDemand);
    if (refusal === null) return this.#start(orgId, check, prepared, way, onDemand);
    if (onDemand && this.#queue.onDemand < maxWaiting) return this.#wait(orgId, check, prepared, way);
    this.#options.stats.throttled++;
    return this.#immediate(prepared.kind, refusal);
  }

  /**
   * Runs a check of the schedule. Runs of one host take turns, first come, first served: a run that finds the cap
   * reached begins when the runs before it have ended. It is recorded as throttled once they last longer than usual,
   * and runs all the same when its turn comes.
   */
  runInTurn(orgId: string, check: WireCheck, options: TurnOptions): TurnRun {
    const prepared = this.#prepare(check);
    const way = "probe" in prepared ? wayOf(orgId, prepared) : null;
    const waits =
      "probe" in prepared &&
      way !== null &&
      !this.#isRefused(prepared, way) &&
      (this.#queue.scheduledOf(way.host) > 0 || this.cap.isFull(way.host));
    if (waits) return this.#waitInTurn(orgId, check, prepared, way, options);
    const run = this.run(orgId, check);
    return { done: run.done, abandon: () => run.abandon(), slot: options.slot, turn: null };
  }

  /**
   * Rechecks a check now. Null without a place or with an open circuit breaker: a refused run is no
   * new evidence, and counted as a failure it would confirm one that may have lasted a second.
   */
  recheck(orgId: string, check: WireCheck): Run | null {
    const prepared = this.#prepare(check);
    if (!("probe" in prepared)) return null;
    const way = wayOf(orgId, prepared);
    if (this.#isRefused(prepared, way)) return null;
    if (way !== null && this.#queue.scheduledOf(way.host) > 0) return null;
    return this.#enter(way, false) === null ? this.#start(orgId, check, prepared, way, false) : null;
  }

  /** Takes capacity for a run, or returns why there is none. */
  #enter(way: Way | null, onDemand: boolean): Verdict | null {
    const { stats, maxInflight = defaultMaxInflight, refusalReason } = this.#options;
    const error =
      stats.inFlight >= maxInflight
        ? `the agent is overloaded: ${maxInflight} checks are running`
        : (refusalReason?.() ?? null);
    if (error !== null) return { status: "error", error, skip: true, throttled: true };
    return way === null || this.cap.enter(way.host, onDemand) ? null : throttled;
  }

  /** Queues an on-demand run. */
  #wait(orgId: string, check: WireCheck, prepared: Prepared, way: Way | null): Run {
    const key = way?.host ?? "";
    let run: Run | null = null;
    let settle: (outcome: Outcome | null | Promise<Outcome | null>) => void = () => undefined;
    const done = new Promise<Outcome | null>((resolve) => (settle = resolve));
    const queued = {
      isOnDemand: true,
      start: () => {
        if (this.#enter(way, true) !== null) return false;
        cancelDeadline();
        run = this.#start(orgId, check, prepared, way, true);
        settle(run.done);
        return true;
      },
    };
    const cancelDeadline = this.#options.clock.after(prepared.timeoutMs, () => {
      this.#queue.remove(key, queued);
      this.#options.stats.throttled++;
      const error = `the agent had no capacity for this run within ${prepared.timeoutMs / 1000} s`;
      settle(this.#immediate(prepared.kind, { status: "error", error, skip: true, throttled: true }).done);
    });
    this.#queue.add(key, queued);
    return {
      done,
      abandon: () => {
        cancelDeadline();
        this.#queue.remove(key, queued);
        if (run === null) settle(null);
        else run.abandon();
      },
    };
  }

  /** Queues a scheduled run. */
  #waitInTurn(orgId: string, check: WireCheck, prepared: Prepared, way: Way, options: TurnOptions): TurnRun {
    const { clock, stats } = this.#options;
    let { slot } = options;
    let isThrottled = false;
    let run: Run | null = null;
    let cancelLate: () => void = () => undefined;
    let settle: (outcome: Outcome | null | Promise<Outcome | null>) => void = () => undefined;
    const done = new Promise<Outcome | null>((resolve) => (settle = resolve));
    const throttle = (): void => {
      isThrottled = true;
      stats.throttled++;
      options.throttled(slot, this.#outcome(prepared.kind, throttled));
    };
    const wait = (): void => {
      isThrottled = false;
      const ms = this.#turnMs(way.host, options.longestMs);
      if (ms === null) throttle();
      else cancelLate = clock.after(ms, throttle);
    };
    const queued = {
      isOnDemand: false,
      start: () => {
        if (this.#enter(way, false) !== null) return false;
        cancelLate();
        run = this.#start(orgId, check, prepared, way, false);
        settle(run.done);
        return true;
      },
    };
    const turn = {
      moveTo: (next: number): void => {
        cancelLate();
        if (!isThrottled) throttle();
        slot = next;
        wait();
      },
    };
    this.#queue.add(way.host, queued);
    wait();
    return {
      done,
      abandon: () => {
        cancelLate();
        this.#queue.remove(way.host, queued);
        if (run === null) settle(null);
        else run.abandon();
      },
      get slot() {
        return isThrottled ? secondTry(slot) : slot;
      },
      get turn() {
        return run === null ? turn : null;
      },
    };
  }

  /**
   * How long the last run in the queue of a host waits when the runs before it last as long as usual, ms; null for more
   * than `longestMs`.
   */
  #turnMs(host: string, longestMs: number): number | null {
    const usual = this.#durations.of(host);
    if (usual === null) return longestMs;
    const rounds = Math.ceil(this.#queue.scheduledOf(host) / this.cap.max);
    const ms = rounds * usual * lateness.factor + lateness.ms;
    return ms <= longestMs ? ms : null;
  }

  /** True where the breaker refuses the run. Takes no trial. */
  #isRefused({ timeoutMs }: Prepared, way: Way | null): boolean {
    return way !== null && this.breakers.refuses(way.dial, { timeoutMs, now: this.#options.clock.monotonic() });
  }

  #refused(prepared: Prepared, way: Way): Run {
    const failure = this.breakers.lastFailure(way.dial);
    const diagnosis = failure?.diagnosis ?? null;
    return this.#immediate(
      prepared.kind,
      { status: "error", error: circuitOpen, diagnosis },
      causeOf(failure, prepared),
    );
  }

  /** Runs a check that has its capacity. */
  #start(orgId: string, check: WireCheck, prepared: Prepared, way: Way | null, onDemand: boolean): Run {
    const { timeoutMs } = prepared;
    const now = this.#options.clock.monotonic();
    if (way === null || this.breakers.allows(way.dial, { timeoutMs, now, onDemand }))
      return this.#probe(orgId, check, prepared, way, onDemand);
    this.cap.leave(way.host, onDemand);
    return this.#refused(prepared, way);
  }

  #prepare(check: WireCheck): Prepared | Verdict {
    const known = this.#prepared.get(check);
    if (known !== undefined) return known;
    const prepared = prepare(check);
    this.#prepared.set(check, prepared);
    return prepared;
  }

  #immediate(kind: string, verdict: Verdict, cause: Cause | null = null): Run {
    return { done: Promise.resolve(this.#outcome(kind, verdict, cause)), abandon: () => undefined };
  }

  /** The outcome of a run that was not made. */
  #outcome(kind: string, verdict: Verdict, cause: Cause | null = null): Outcome {
    const { clock, stats } = this.#options;
    stats.ran(kind, verdict.status, null);
    return {
      measurement: measurementOf(kind, verdict, newTrace(), 0),
      timestamp: clock.now(),
      skip: verdict.skip === true,
      throttled: verdict.throttled === true,
      warnings: [],
      cause,
      certificateNotAfter: null,
      diagnosis: verdict.diagnosis ?? null,
      snapshot: null,
    };
  }

  #remember(key: string, kind: string, final: Verdict, dialled: Dialled, now: number): void {
    const { status, error, diagnosis = null } = final;
    if (dialled === "connected") this.breakers.connected(key);
    else if (dialled !== null)
      this.breakers.failed(key, now, { kind, status, error: clean(error ?? "no answer", 2000), diagnosis, ...dialled });
  }

  #probe(orgId: string, check: WireCheck, prepared: Prepared, way: Way | null, onDemand: boolean): Run {
    const { stats, clock } = this.#options;
    const started = clock.monotonic();
    stats.inFlight++;
    return new Probing(this.#options, check, prepared, {
      owner: orgId,
      onDemand,
      ended: () => {
        stats.inFlight--;
        if (way !== null) {
          this.cap.leave(way.host, onDemand);
          this.#durations.add(way.host, clock.monotonic() - started);
        }
        this.#queue.freed(way?.host ?? "");
      },
      concluded: (final, dialled, now) => {
        if (way !== null) this.#remember(way.dial, prepared.kind, final, dialled, now);
      },
    });
  }
}

const throttled: Verdict = { status: "degraded", error: throttledByCap, skip: true, throttled: true };

/** The keys of limits; null for a check without a destination. */
function wayOf(orgId: string, { destination, dial }: Prepared): Way | null {
  if (destination === null) return null;
  const host = `${orgId} ${destination.host}:${destination.port ?? "any"}`;
  return { host, dial: `${host} ${dial}` };
}

function prepare(check: WireCheck): Prepared | Verdict {
  if (check.type === withheldType) return { status: "error", error: String(check["reason"]), skip: true };
  if (!isProbedType(check.type)) {
    return {
      status: "error",
      error: `this agent cannot run ${check.type} checks (it knows ${probedTypes.join(", ")}): update it`,
      skip: true,
    };
  }
  const certificates = certificatesFor(check);
  if (certificates === null)
    return { status: "error", error: "this agent was not sent the certificate of the check", skip: true };
  // The control plane validated the spec when it was stored; the probe finds the rest.
  const spec = check as unknown as ProbedSpec;
  try {
    const destination = kindOf(spec).destination(spec);
    const probe = probeOf(spec.type);
    const family = typeof check["ip_version"] === "string" ? check["ip_version"] : "any";
    return {
      kind: spec.type,
      probe,
      certificates,
      timeoutMs: spec.timeout,
      destination,
      dial: `${probe.transport ?? "tcp"} ${family}`,
    };
  } catch (error) {
    return { status: "error", error: messageOf(error) };
  }
}

/** The failure as this kind reports it: an unreachable host is down for some kinds and error for others. */
function causeOf(failure: Failure | null, { kind, probe }: Prepared): Cause | null {
  if (failure === null) return null;
  return {
    status: failure.kind === kind && failure.status === "down" ? "down" : probe.timeoutStatus,
    error: failure.error,
  };
}

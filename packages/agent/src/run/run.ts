import type { WithheldCheck } from "@statusmesh/shared/agent-protocol";
import {
  circuitOpen,
  isProbedType,
  kindOf,
  probedTypes,
  type ProbedSpec,
  throttledByCap,
} from "@statusmesh/shared/checks";
import type { Cause } from "@statusmesh/shared/result";
import { messageOf } from "@statusmesh/shared/thrown";
import { CircuitBreakers, type Failure, InflightCap } from "./limits.ts";
import { OnDemandQueue } from "./on-demand-queue.ts";
import { type Outcome, type Prepared, Probing, type ProbingOptions, type Run, type WireCheck } from "./probing.ts";
import { probeOf } from "../probes/index.ts";
import type { Verdict } from "../probes/probe.ts";
import { clean, measurementOf, newTrace } from "./verdicts.ts";

export type { Outcome, Run, WireCheck } from "./probing.ts";

/** Default limit of concurrent runs: each holds a socket, and without sockets every target would seem down. */
const defaultMaxInflight = 4000;
/** Limit of queued on-demand runs: each keeps an API caller waiting. */
const maxWaiting = 1000;

const withheldType: WithheldCheck["type"] = "withheld";

export interface RunnerOptions extends ProbingOptions {
  /** Maximum number of concurrent runs. */
  maxInflight?: number;
  /** Reason to refuse new runs, such as a full memory; null when runs may start. */
  refusalReason?: () => string | null;
}

/** Runs single checks: limits, then the probe under one deadline, then the outcome for the report. */
export class Runner {
  readonly cap = new InflightCap(2);
  readonly breakers = new CircuitBreakers();
  readonly #options: RunnerOptions;
  readonly #queue: OnDemandQueue;
  // Keyed by the check object, which stays the same between runs.
  readonly #prepared = new WeakMap<WireCheck, Prepared | Verdict>();

  constructor(options: RunnerOptions) {
    this.#options = options;
    this.#queue = new OnDemandQueue(options.clock);
  }

  get waiting(): number {
    return this.#queue.size;
  }

  /**
   * Runs a check now. An on-demand run collects warnings and waits up to its timeout for a place; a scheduled run is
   * throttled at once.
   */
  run(orgId: string, check: WireCheck, onDemand = false): Run {
    const prepared = this.#prepare(check);
    if (!("probe" in prepared)) return this.#immediate(check.type, prepared);
    const key = keyOf(orgId, prepared);
    const refusal = this.#enter(key, onDemand);
    if (refusal === null) return this.#start(orgId, check, prepared, key, onDemand);
    if (onDemand && this.#queue.size < maxWaiting) return this.#wait(orgId, check, prepared, key);
    this.#options.stats.throttled++;
    return this.#immediate(prepared.kind, refusal);
  }

  /**
   * Rechecks a check now. Null without a place or with an open circuit breaker: a refused run is no
   * new evidence, and counted as a failure it would confirm one that may have lasted a second.
   */
  recheck(orgId: string, check: WireCheck): Run | null {
    const prepared = this.#prepare(check);
    if (!("probe" in prepared)) return null;
    const key = keyOf(orgId, prepared);
    if (key !== null && this.breakers.isOpen(key, this.#options.clock.monotonic())) return null;
    return this.#enter(key, false) === null ? this.#start(orgId, check, prepared, key, false) : null;
  }

  /** Takes a place for a run, or returns why there is none. */
  #enter(key: string | null, onDemand: boolean): Verdict | null {
    const { stats, maxInflight = defaultMaxInflight, refusalReason } = this.#options;
    const error =
      stats.inFlight >= maxInflight
        ? `the agent is overloaded: ${maxInflight} checks are running`
        : (refusalReason?.() ?? null);
    if (error !== null) return { status: "error", error, skip: true, throttled: true };
    if (key === null || this.cap.enter(key, onDemand)) return null;
    return { status: "degraded", error: throttledByCap, skip: true, throttled: true };
  }

  /** Queues an on-demand run. */
  #wait(orgId: string, check: WireCheck, prepared: Prepared, key: string | null): Run {
    let run: Run | null = null;
    let settle: (outcome: Outcome | null | Promise<Outcome | null>) => void = () => undefined;
    const done = new Promise<Outcome | null>((resolve) => (settle = resolve));
    const cancel = this.#queue.add(key ?? "", prepared.timeoutMs, {
      start: () => {
        if (this.#enter(key, true) !== null) return false;
        run = this.#start(orgId, check, prepared, key, true);
        settle(run.done);
        return true;
      },
      giveUp: () => {
        this.#options.stats.throttled++;
        const error = `the agent had no capacity for this run within ${prepared.timeoutMs / 1000} s`;
        settle(this.#immediate(prepared.kind, { status: "error", error, skip: true, throttled: true }).done);
      },
    });
    return {
      done,
      abandon: () => {
        cancel();
        if (run === null) settle(null);
        else run.abandon();
      },
    };
  }

  /** Runs a check that has a place. */
  #start(orgId: string, check: WireCheck, prepared: Prepared, key: string | null, onDemand: boolean): Run {
    if (key === null || this.breakers.allows(key, this.#options.clock.monotonic()))
      return this.#probe(orgId, check, prepared, key, onDemand);
    this.cap.leave(key, onDemand);
    const cause = causeOf(this.breakers.lastFailure(key), prepared);
    return this.#immediate(prepared.kind, { status: "error", error: circuitOpen }, cause);
  }

  #prepare(check: WireCheck): Prepared | Verdict {
    const known = this.#prepared.get(check);
    if (known !== undefined) return known;
    const prepared = prepare(check);
    this.#prepared.set(check, prepared);
    return prepared;
  }

  #immediate(kind: string, verdict: Verdict, cause: Cause | null = null): Run {
    const { clock, stats } = this.#options;
    stats.ran(kind, verdict.status, null);
    const outcome = {
      measurement: measurementOf(kind, verdict, newTrace(), 0),
      timestamp: clock.now(),
      skip: verdict.skip === true,
      throttled: verdict.throttled === true,
      warnings: [],
      cause,
      certificateNotAfter: null,
      snapshot: null,
    };
    return { done: Promise.resolve(outcome), abandon: () => undefined };
  }

  #remember(key: string, kind: string, { status, error, ...verdict }: Verdict, now: number): void {
    if (verdict.transportFailed === true)
      this.breakers.failed(key, now, { kind, status, error: clean(error ?? "no answer", 2000) });
    else if (status !== "error" && verdict.skip !== true) this.breakers.succeeded(key);
  }

  #probe(orgId: string, check: WireCheck, prepared: Prepared, key: string | null, onDemand: boolean): Run {
    const { stats } = this.#options;
    stats.inFlight++;
    return new Probing(this.#options, check, prepared, {
      owner: orgId,
      onDemand,
      ended: () => {
        stats.inFlight--;
        if (key !== null) this.cap.leave(key, onDemand);
        this.#queue.freed(key ?? "");
      },
      concluded: (final, now) => {
        if (key !== null) this.#remember(key, prepared.kind, final, now);
      },
    });
  }
}

/** The key of limits per destination; null without one. */
const keyOf = (orgId: string, { destination }: Prepared): string | null =>
  destination === null ? null : `${orgId} ${destination.host}:${destination.port ?? "any"}`;

function prepare(check: WireCheck): Prepared | Verdict {
  if (check.type === withheldType) return { status: "error", error: String(check["reason"]), skip: true };
  if (!isProbedType(check.type)) {
    return {
      status: "error",
      error: `this agent cannot run ${check.type} checks (it knows ${probedTypes.join(", ")}): update it`,
      skip: true,
    };
  }
  // The control plane validated the spec when it was stored; the probe finds the rest.
  const spec = check as unknown as ProbedSpec;
  try {
    const destination = kindOf(spec).destination(spec);
    return { kind: spec.type, probe: probeOf(spec.type), timeoutMs: spec.timeout, destination };
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

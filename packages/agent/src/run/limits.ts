import type { CheckStatus } from "@statusmesh/shared/protocol/result";

/**
 * Counts concurrent runs per key (organisation, host and port). On-demand runs leave the last free place to scheduled
 * runs where there are two or more, so that a test does not stop monitoring.
 */
export class InflightCap {
  readonly #counts = new Map<string, number>();
  readonly #demanded = new Map<string, number>();
  /** Limit of concurrent runs per key; each pull sends it. */
  max: number;

  constructor(max: number) {
    this.max = max;
  }

  /** Takes a place; false when none is free. */
  enter(key: string, onDemand = false): boolean {
    if (this.isFull(key)) return false;
    if (onDemand && (this.#demanded.get(key) ?? 0) >= Math.max(1, this.max - 1)) return false;
    add(this.#counts, key, 1);
    if (onDemand) add(this.#demanded, key, 1);
    return true;
  }

  isFull(key: string): boolean {
    return (this.#counts.get(key) ?? 0) >= this.max;
  }

  leave(key: string, onDemand = false): void {
    add(this.#counts, key, -1);
    if (onDemand) add(this.#demanded, key, -1);
  }
}

function add(counts: Map<string, number>, key: string, change: number): void {
  const count = (counts.get(key) ?? 0) + change;
  if (count <= 0) counts.delete(key);
  else counts.set(key, count);
}

/** Share of the usual duration that a shorter run takes away from it. */
const forgetting = 0.2;
/** Maximum number of keys whose durations are known; beyond it the oldest is evicted. */
const maxDurations = 10_000;

/** How long runs of a key usually last: a maximum that decays with each shorter run. */
export class UsualDurations {
  readonly #usual = new Map<string, number>();

  /** Ms; null before the first run. */
  of(key: string): number | null {
    return this.#usual.get(key) ?? null;
  }

  add(key: string, ms: number): void {
    const before = this.#usual.get(key) ?? ms;
    this.#usual.set(key, ms >= before ? ms : before + forgetting * (ms - before));
    if (this.#usual.size > maxDurations) this.#usual.delete(this.#usual.keys().next().value!);
  }
}

const failuresToOpen = 5;
const openMs = 30_000;
/** Maximum number of keys with failures; beyond it the oldest is evicted. */
const maxBreakers = 10_000;

/** A failed dial and the kind of its check. */
export interface Failure {
  kind: string;
  status: CheckStatus;
  error: string;
  /** As in a result. */
  diagnosis?: string | null;
  /** How long the run waited for the connection, ms; Infinity where no longer wait would have helped. */
  waitedMs: number;
}

/** A run that asks its breaker. */
export interface Caller {
  timeoutMs: number;
  /** Ms on a monotonic clock. */
  now: number;
  /** An on-demand run is a trial at any time, unless another trial is in flight. */
  onDemand?: boolean;
}

interface Breaker {
  /** Waits of the newest failures in a row, at most {@link failuresToOpen}. */
  waits: readonly number[];
  last: Failure;
  /** Ms on the monotonic clock; ignored while a breaker has few failures. */
  openUntil: number;
  /** While a trial is in flight, no other begins. */
  trialUntil: number;
}

/**
 * Circuit breakers, one per destination. Five dials that failed in a row open one; while it is open, runs are refused.
 * After 30 s one trial run is allowed: any connection closes the breaker, a failed dial opens it again. A failure by
 * timeout says nothing to a run that waits longer, so it refuses only runs that have at most its time.
 */
export class CircuitBreakers {
  readonly #breakers = new Map<string, Breaker>();

  /** False while the breaker refuses the run. True takes the trial where one is due. */
  allows(key: string, { timeoutMs, now, onDemand = false }: Caller): boolean {
    const breaker = this.#breakers.get(key);
    if (breaker === undefined || !applies(breaker, timeoutMs)) return true;
    if (now < (onDemand ? breaker.trialUntil : breaker.openUntil)) return false;
    // The outcome of the trial resets both; a trial that never ends only delays the next one.
    breaker.openUntil = now + openMs;
    breaker.trialUntil = now + Math.min(timeoutMs, openMs);
    return true;
  }

  /** True while such a run is refused. Unlike {@link CircuitBreakers.allows} it uses up no trial. */
  refuses(key: string, { timeoutMs, now }: Caller): boolean {
    const breaker = this.#breakers.get(key);
    return breaker !== undefined && applies(breaker, timeoutMs) && now < breaker.openUntil;
  }

  /** The last failed dial to the destination; null after a connection. */
  lastFailure(key: string): Failure | null {
    return this.#breakers.get(key)?.last ?? null;
  }

  connected(key: string): void {
    this.#breakers.delete(key);
  }

  failed(key: string, now: number, last: Failure): void {
    const waits = [...(this.#breakers.get(key)?.waits ?? []), last.waitedMs].slice(-failuresToOpen);
    this.#breakers.delete(key);
    this.#breakers.set(key, { waits, last, openUntil: now + openMs, trialUntil: now });
    if (this.#breakers.size > maxBreakers) this.#breakers.delete(this.#breakers.keys().next().value!);
  }

  /** Number of open breakers at `now`, ms on the monotonic clock. */
  open(now: number): number {
    return [...this.#breakers.keys()].filter((key) => this.refuses(key, { timeoutMs: 0, now })).length;
  }
}

const applies = ({ waits }: Breaker, timeoutMs: number): boolean =>
  waits.length === failuresToOpen && waits.every((waitedMs) => timeoutMs <= waitedMs);

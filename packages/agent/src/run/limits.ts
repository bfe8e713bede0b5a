import type { CheckStatus } from "@statusmesh/shared/result";

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
    if ((this.#counts.get(key) ?? 0) >= this.max) return false;
    if (onDemand && (this.#demanded.get(key) ?? 0) >= Math.max(1, this.max - 1)) return false;
    add(this.#counts, key, 1);
    if (onDemand) add(this.#demanded, key, 1);
    return true;
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

const failuresToOpen = 5;
const openMs = 30_000;
/** Maximum number of keys with failures; beyond it the oldest is evicted. */
const maxBreakers = 10_000;

/** A transport failure and the kind of its check. */
export interface Failure {
  kind: string;
  status: CheckStatus;
  error: string;
}

interface Breaker {
  failures: number;
  last: Failure;
  /** Ms on the monotonic clock; ignored while a breaker has few failures. */
  openUntil: number;
}

/**
 * Circuit breakers, one per key. Five consecutive transport failures open one; while it is open, runs are refused.
 * After 30 s one trial run is allowed: success closes the breaker, failure opens it again.
 */
export class CircuitBreakers {
  readonly #breakers = new Map<string, Breaker>();

  /** False while the breaker is open. `now` is ms on a monotonic clock. */
  allows(key: string, now: number): boolean {
    const breaker = this.#breakers.get(key);
    if (breaker === undefined || breaker.failures < failuresToOpen) return true;
    if (now < breaker.openUntil) return false;
    // The outcome of the trial resets this; a trial that never ends only delays the next one.
    breaker.openUntil = now + openMs;
    return true;
  }

  /** True while runs are refused. Unlike {@link CircuitBreakers.allows} it uses up no trial. */
  isOpen(key: string, now: number): boolean {
    const breaker = this.#breakers.get(key);
    return breaker !== undefined && breaker.failures >= failuresToOpen && now < breaker.openUntil;
  }

  /** The last failure at the destination; null after a success. */
  lastFailure(key: string): Failure | null {
    return this.#breakers.get(key)?.last ?? null;
  }

  succeeded(key: string): void {
    this.#breakers.delete(key);
  }

  failed(key: string, now: number, last: Failure): void {
    const failures = (this.#breakers.get(key)?.failures ?? 0) + 1;
    this.#breakers.delete(key);
    this.#breakers.set(key, { failures, last, openUntil: now + openMs });
    if (this.#breakers.size > maxBreakers) this.#breakers.delete(this.#breakers.keys().next().value!);
  }

  open(now: number): number {
    return [...this.#breakers.keys()].filter((key) => this.isOpen(key, now)).length;
  }
}

import type { CheckStatus } from "@statusmesh/shared/result";

/**
 * How many runs go on at once for each key (org, host and port). Runs on demand leave the last free place to the schedule
 * where there are two or more: monitors go on while somebody tests.
 */
export class InflightCap {
  readonly #counts = new Map<string, number>();
  readonly #demanded = new Map<string, number>();
  /** The most runs at once for one key; comes with every pull. */
  max: number;

  constructor(max: number) {
    this.max = max;
  }

  /** Takes a place. False when all are taken. */
  enter(key: string, onDemand = false): boolean {
    if ((this.#counts.get(key) ?? 0) >= this.max) return false;
    if (onDemand && (this.#demanded.get(key) ?? 0) >= Math.max(1, this.max - 1)) return false;
    add(this.#counts, key, 1);
    if (onDemand) add(this.#demanded, key, 1);
    return true;
  }

  /** Gives a place back, as it was taken. */
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
/** Every key that fails now and then stays in memory; beyond this many the one that failed longest ago is forgotten. */
const maxBreakers = 10_000;

/** A transport failure, and the kind of the check that met it. */
export interface Failure {
  kind: string;
  status: CheckStatus;
  error: string;
}

interface Breaker {
  failures: number;
  last: Failure;
  /** Ms on the monotonic clock; a breaker with few failures is closed whatever this says. */
  openUntil: number;
}

/**
 * Circuit breakers, one for each key. Five transport failures in a row open one; while it is open, runs are refused. After
 * 30 s one trial is let through: its success closes the breaker, its failure opens it again.
 */
export class CircuitBreakers {
  readonly #breakers = new Map<string, Breaker>();

  /** False while the breaker is open. `now` is ms on a monotonic clock. */
  allows(key: string, now: number): boolean {
    const breaker = this.#breakers.get(key);
    if (breaker === undefined || breaker.failures < failuresToOpen) return true;
    if (now < breaker.openUntil) return false;
    // Taken back by the trial's outcome; a trial that never ends merely delays the next one.
    breaker.openUntil = now + openMs;
    return true;
  }

  /** The last failure at the destination; null without one since its last success. */
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
    if (this.#breakers.size <= maxBreakers) return;
    for (const oldest of this.#breakers.keys()) {
      this.#breakers.delete(oldest);
      return;
    }
  }

  /** How many are open. */
  open(now: number): number {
    let count = 0;
    for (const { failures, openUntil } of this.#breakers.values())
      if (failures >= failuresToOpen && now < openUntil) count++;
    return count;
  }
}

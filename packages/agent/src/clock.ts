/** The clock of the agent's logic. Tests replace it. */
export interface Clock {
  /** Unix ms on the control plane's clock, as far as known; whole, because files, messages and rows hold integers. */
  now(): number;
  /** Monotonic ms, for measuring. */
  monotonic(): number;
  /** Calls back after `ms`; the returned function cancels. */
  after(ms: number, callback: () => void): () => void;
}

/** A clock that can be corrected. */
export interface CorrectedClock extends Clock {
  /** Adds a sample: the control plane's time when a reply left there, at the moment of its arrival. */
  correct(serverTime: number): void;
  /** Difference of the control plane's clock to the local one, ms. */
  offsetMs(): number;
}

const keptSamples = 8;
const stepMs = 1000;

/**
 * The control plane's clock, kept by the local monotonic clock: a change of the local clock moves no check.
 *
 * A sample is "server time = local time + offset − travel time of the reply". The duration of the long poll does not
 * matter. So every sample is low by its own latency, and the highest of the last few is the best. When they differ by
 * more than a second, a clock was changed, and the newest is right.
 */
export function correctedClock(): CorrectedClock {
  const local = (): number => performance.timeOrigin + performance.now();
  let samples: number[] = [];
  let offset = 0;
  return {
    // Down, so that no slot starts early.
    now: () => Math.floor(local() + offset),
    monotonic: () => performance.now(),
    after(ms, callback) {
      const timer = setTimeout(callback, Math.max(0, ms));
      return () => clearTimeout(timer);
    },
    correct(serverTime) {
      const sample = serverTime - local();
      if (samples.some((other) => Math.abs(other - sample) > stepMs)) samples = [];
      samples = [...samples.slice(1 - keptSamples), sample];
      offset = Math.max(...samples);
    },
    offsetMs: () => offset,
  };
}

/** A timer that keeps the earliest of the times that it is set to. */
export class Alarm {
  readonly #clock: Clock;
  readonly #ring: () => void;
  #set: { at: number; cancel: () => void } | null = null;

  constructor(clock: Clock, ring: () => void) {
    this.#clock = clock;
    this.#ring = ring;
  }

  /** Rings after `ms`, or earlier where it is set to an earlier time. */
  setWithin(ms: number): void {
    const at = this.#clock.monotonic() + ms;
    if (this.#set !== null && this.#set.at <= at) return;
    this.#set?.cancel();
    this.#set = {
      at,
      cancel: this.#clock.after(ms, () => {
        this.#set = null;
        this.#ring();
      }),
    };
  }

  cancel(): void {
    this.#set?.cancel();
  }
}

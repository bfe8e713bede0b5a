/** Time as the agent's logic sees it. Tests drive their own. */
export interface Clock {
  /** Unix ms on the control plane's clock, as far as it is known. */
  now(): number;
  /** Ms that only ever grow, for measuring. */
  monotonic(): number;
  /** Calls back after `ms`; the returned function cancels. */
  after(ms: number, callback: () => void): () => void;
}

/** A clock that can be set right from outside. */
export interface CorrectedClock extends Clock {
  /** Takes in the control plane's time as it stood when an answer left there, at the moment when it arrives here. */
  correct(serverTime: number): void;
  /** How far the control plane's clock is ahead of this machine's, ms. */
  offsetMs(): number;
}

const keptSamples = 8;
const stepMs = 1000;

/**
 * The control plane's clock, kept by this machine's monotonic one: setting the local clock moves no check.
 *
 * A sample says "server time = local time + offset − the time that the answer travelled". Only that last leg counts: how
 * long the control plane held the long poll does not. So every sample is low by its own latency, and the highest of the
 * last few is the truest; when they differ by more than a second, a clock was set, and the newest is right.
 */
export function correctedClock(): CorrectedClock {
  const local = (): number => performance.timeOrigin + performance.now();
  let samples: number[] = [];
  let offset = 0;
  return {
    now: () => local() + offset,
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

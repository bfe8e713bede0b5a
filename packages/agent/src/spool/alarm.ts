import type { Clock } from "../clock.ts";

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

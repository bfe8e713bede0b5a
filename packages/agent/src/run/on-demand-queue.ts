import type { Clock } from "../clock.ts";

/** Interval of looking for places released by other means than the end of a run (memory, sockets), ms. */
const lookMs = 50;

interface Waiting {
  start: () => boolean;
  over: () => void;
}

/** On-demand runs that wait for a place, FIFO per key. */
export class OnDemandQueue {
  readonly #clock: Clock;
  readonly #waiting = new Map<string, Waiting[]>();
  #size = 0;
  #looking = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get size(): number {
    return this.#size;
  }

  /**
   * Queues a run. `start` is called when a place may be free and returns whether it took one; `giveUp` is called after
   * `ms` without one. Returns a function that removes the run from the queue; it does nothing after either call.
   */
  add(key: string, ms: number, { start, giveUp }: { start: () => boolean; giveUp: () => void }): () => void {
    const cancelDeadline = this.#clock.after(ms, () => {
      this.#remove(key, waiting);
      giveUp();
    });
    const waiting: Waiting = { start, over: cancelDeadline };
    this.#waiting.set(key, [...(this.#waiting.get(key) ?? []), waiting]);
    this.#size++;
    this.#look();
    return () => this.#remove(key, waiting);
  }

  /** Starts the queued runs of the key that get a place. */
  freed(key: string): void {
    for (let first = this.#waiting.get(key)?.[0]; first !== undefined; first = this.#waiting.get(key)?.[0]) {
      if (!first.start()) return;
      this.#remove(key, first);
    }
  }

  #remove(key: string, waiting: Waiting): void {
    const before = this.#waiting.get(key);
    if (before?.includes(waiting) !== true) return;
    waiting.over();
    this.#size--;
    const left = before.filter((other) => other !== waiting);
    if (left.length === 0) this.#waiting.delete(key);
    else this.#waiting.set(key, left);
  }

  #look(): void {
    if (this.#looking) return;
    this.#looking = true;
    this.#clock.after(lookMs, () => {
      this.#looking = false;
      for (const key of this.#waiting.keys()) this.freed(key);
      if (this.#size > 0) this.#look();
    });
  }
}

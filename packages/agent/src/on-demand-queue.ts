import type { Clock } from "./clock.ts";

/** Places that are given back by other means than the end of a run (memory, sockets) are looked for this often. */
const lookMs = 50;

interface Waiting {
  start: () => boolean;
  over: () => void;
}

/** Runs on demand that wait for a place, first come first served for each key. */
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
   * Queues a run. `start` is called when there may be a place, and says whether there was; `giveUp` is called when there
   * was none for `ms`. Returns what takes the run out of the queue; after either call it does nothing.
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

  /** Starts the runs of the key for which there is a place now. */
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

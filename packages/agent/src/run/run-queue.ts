import type { Clock } from "../clock.ts";

/** Interval of looking for capacity released by other means than the end of a run (memory, sockets), ms. */
const lookMs = 50;

/** A run that waits for capacity. */
export interface QueuedRun {
  readonly isOnDemand: boolean;
  /** Called when capacity may be free; returns whether the run took it. */
  start(): boolean;
}

/** Runs that wait for capacity, FIFO per key. */
export class RunQueue {
  readonly #clock: Clock;
  readonly #queues = new Map<string, { runs: Set<QueuedRun>; scheduled: number }>();
  #onDemand = 0;
  #looking = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Number of queued on-demand runs. */
  get onDemand(): number {
    return this.#onDemand;
  }

  /** Number of queued scheduled runs of the key. */
  scheduledOf(key: string): number {
    return this.#queues.get(key)?.scheduled ?? 0;
  }

  /** Appends a run. */
  add(key: string, run: QueuedRun): void {
    let queue = this.#queues.get(key);
    if (queue === undefined) this.#queues.set(key, (queue = { runs: new Set(), scheduled: 0 }));
    queue.runs.add(run);
    if (run.isOnDemand) this.#onDemand++;
    else queue.scheduled++;
    this.#look();
  }

  /** Removes a run; nothing when it is queued no longer. */
  remove(key: string, run: QueuedRun): void {
    const queue = this.#queues.get(key);
    if (queue === undefined || !queue.runs.delete(run)) return;
    if (run.isOnDemand) this.#onDemand--;
    else queue.scheduled--;
    if (queue.runs.size === 0) this.#queues.delete(key);
  }

  /**
   * Starts the queued runs of the key for which there is capacity, in their order. An on-demand run that gets none
   * stops no scheduled run behind it, because it may not take the last free capacity.
   */
  freed(key: string): void {
    let skipsOnDemand = false;
    for (const run of this.#queues.get(key)?.runs ?? []) {
      if (run.isOnDemand && skipsOnDemand) continue;
      if (run.start()) this.remove(key, run);
      else if (run.isOnDemand) skipsOnDemand = true;
      else return;
    }
  }

  #look(): void {
    if (this.#looking) return;
    this.#looking = true;
    this.#clock.after(lookMs, () => {
      this.#looking = false;
      for (const key of this.#queues.keys()) this.freed(key);
      if (this.#queues.size > 0) this.#look();
    });
  }
}

export interface SemaphoreOptions {
  /** Number of waiting calls per key; more are refused. No limit by default. */
  maxWaiting?: number;
  /** The error of a refused call. */
  onFull?: () => Error;
}

/** Limits concurrent work per key; further calls wait in order (FIFO). */
export class Semaphore {
  readonly #keys = new Map<string, { entered: number; waiting: (() => void)[] }>();
  readonly #maxWaiting: number;
  readonly #onFull: () => Error;
  /** Concurrent work per key. */
  max: number;

  constructor(max: number, { maxWaiting = Infinity, onFull }: SemaphoreOptions = {}) {
    this.max = max;
    this.#maxWaiting = maxWaiting;
    this.#onFull = onFull ?? (() => new Error(`${maxWaiting} others are waiting`));
  }

  /** Number of calls that wait. */
  waiting(key = ""): number {
    return this.#keys.get(key)?.waiting.length ?? 0;
  }

  /** Runs `work` when there is a free place. Rejects when too many are waiting. */
  async run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const leave = await this.enter(key);
    try {
      return await work();
    } finally {
      leave();
    }
  }

  /** Resolves with the release function when there is a free place. Rejects with the reason of `signal` too. */
  async enter(key = "", signal?: AbortSignal): Promise<() => void> {
    signal?.throwIfAborted();
    const of = this.#keys.get(key) ?? { entered: 0, waiting: [] };
    if (of.entered >= this.max && of.waiting.length >= this.#maxWaiting) throw this.#onFull();
    this.#keys.set(key, of);
    if (of.entered < this.max && of.waiting.length === 0) of.entered++;
    else
      await new Promise<void>((resolve, reject) => {
        const admitted = (): void => {
          signal?.removeEventListener("abort", onAbort);
          resolve();
        };
        const onAbort = (): void => {
          of.waiting.splice(of.waiting.indexOf(admitted), 1);
          reject(signal!.reason as Error);
        };
        signal?.addEventListener("abort", onAbort, { once: true });
        of.waiting.push(admitted);
        this.#admit(of);
      });
    return () => {
      of.entered--;
      this.#admit(of);
      if (of.entered === 0 && of.waiting.length === 0) this.#keys.delete(key);
    };
  }

  /** Several may enter at a time, because `max` may have been raised. */
  #admit(of: { entered: number; waiting: (() => void)[] }): void {
    while (of.entered < this.max && of.waiting.length > 0) {
      of.entered++;
      of.waiting.shift()!();
    }
  }
}

import { LRUCache } from "lru-cache";
import { AppError } from "@statusmesh/shared/errors";
import type { Clock } from "../context.ts";

export interface LastGoodOptions {
  /** How long a value is served without asking again. */
  freshMs: number;
  /** How long the last good value is kept after it was last needed; 0 keeps none. */
  lastGoodMs: number;
  /** How long a computation may take before the last good value is served instead. */
  patienceMs: number;
  /** Most values at once; the least used goes. */
  max: number;
  clock: Clock;
  /** Told when the last good value stood in for a computation that failed or was late. */
  onFallback(error: unknown): void;
}

/**
 * Values that are costly to compute and asked for by crowds. Any number of callers wait for one computation per key; when
 * it fails, they get the last good value, and STATUS_DATA_UNAVAILABLE when there never was one (a failure is not kept, so
 * the next caller tries again).
 */
export class LastGoodCache<T extends object> {
  readonly #options: LastGoodOptions;
  readonly #fresh: LRUCache<string, T, () => Promise<T>>;
  readonly #lastGood: LRUCache<string, T>;

  constructor(options: LastGoodOptions) {
    this.#options = options;
    const perf = { now: () => options.clock.now() };
    const common = { max: options.max, perf, ttlResolution: 0 };
    this.#fresh = new LRUCache({
      ...common,
      ttl: options.freshMs,
      fetchMethod: (key, _stale, { context }) => this.#compute(key, context),
    });
    // A time to live of 0 would mean for ever; then nothing is put in.
    this.#lastGood = new LRUCache({ ...common, ttl: options.lastGoodMs, updateAgeOnGet: true });
  }

  async get(key: string, compute: () => Promise<T>): Promise<T> {
    return await this.#fresh.forceFetch(key, { context: compute });
  }

  async #compute(key: string, compute: () => Promise<T>): Promise<T> {
    const running = compute().then((value) => {
      if (this.#options.lastGoodMs > 0) this.#lastGood.set(key, value);
      return value;
    });
    try {
      return this.#lastGood.has(key) ? await within(this.#options.patienceMs, running) : await running;
    } catch (error) {
      const lastGood = this.#lastGood.get(key);
      if (lastGood === undefined)
        throw new AppError("STATUS_DATA_UNAVAILABLE", "The status cannot be read at the moment. Try again shortly.", {
          cause: error,
          retryAfterSecs: 10,
        });
      this.#options.onFallback(error);
      return lastGood;
    }
  }
}

/** The promise, or an error once the time is over. The work itself goes on. */
async function within<T>(ms: number, promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${ms} ms`)), ms);
  });
  // When the deadline wins, nobody is left to hear of a later failure.
  promise.catch(() => {});
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

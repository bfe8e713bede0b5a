import { LRUCache } from "lru-cache";
import { AppError } from "@statusmesh/shared/errors";
import { within } from "@statusmesh/shared/within";
import type { Clock } from "../context.ts";

export interface LastGoodOptions {
  /** Time to live of a value, ms. */
  freshMs: number;
  /** How long an unused last good value is kept, ms; 0 keeps none. */
  lastGoodMs: number;
  /** Deadline of a computation, ms; after it the last good value is served. */
  patienceMs: number;
  /** Maximum number of values; the least recently used is evicted. */
  max: number;
  clock: Clock;
  /** True for an error that computations of other keys would meet too, such as a stopped database. */
  isOutage?(error: unknown): boolean;
  /** Called when the last good value replaces a failed or late computation. */
  onFallback(error: unknown): void;
}

/**
 * Cache with single-flight: concurrent callers of a key share one computation. When it fails they get the last good
 * value, or STATUS_DATA_UNAVAILABLE when there is none. Failures are not cached.
 */
export class LastGoodCache<T extends object> {
  readonly #options: LastGoodOptions;
  readonly #fresh: LRUCache<string, T, () => Promise<T>>;
  readonly #lastGood: LRUCache<string, T>;
  /** Keys whose last computation failed or was late. */
  readonly #failing = new Set<string>();
  /** From an error that concerns every key to the next success. */
  #outage = false;

  constructor(options: LastGoodOptions) {
    this.#options = options;
    const perf = { now: () => options.clock.now() };
    const common = { max: options.max, perf, ttlResolution: 0 };
    this.#fresh = new LRUCache({
      ...common,
      ttl: options.freshMs,
      fetchMethod: (key, _stale, { context }) => this.#compute(key, context),
    });
    // lru-cache reads a time to live of 0 as unlimited.
    this.#lastGood = new LRUCache({ ...common, ttl: options.lastGoodMs, updateAgeOnGet: true });
  }

  async get(key: string, compute: () => Promise<T>): Promise<T> {
    return await this.#fresh.forceFetch(key, { context: compute });
  }

  /** The value of a key while it is fresh; undefined otherwise. Starts no computation. */
  peek(key: string): T | undefined {
    return this.#fresh.peek(key);
  }

  async #compute(key: string, compute: () => Promise<T>): Promise<T> {
    const running = compute().then((value) => {
      if (this.#options.lastGoodMs > 0) this.#lastGood.set(key, value);
      this.#failing.delete(key);
      this.#outage = false;
      return value;
    });
    // During an outage only its first visitors wait: the next ones get the last good value while it is tried again.
    const known = this.#outage || this.#failing.has(key) ? this.#lastGood.get(key) : undefined;
    if (known !== undefined) {
      running.catch(() => {});
      return known;
    }
    try {
      return this.#lastGood.has(key) ? await within(this.#options.patienceMs, running) : await running;
    } catch (error) {
      const lastGood = this.#lastGood.get(key);
      if (lastGood === undefined)
        throw new AppError("STATUS_DATA_UNAVAILABLE", "The status cannot be read at the moment. Try again shortly.", {
          cause: error,
          retryAfterSecs: 10,
        });
      this.#failing.add(key);
      if (this.#options.isOutage?.(error) === true) this.#outage = true;
      this.#options.onFallback(error);
      return lastGood;
    }
  }
}

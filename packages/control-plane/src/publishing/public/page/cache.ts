import { LRUCache } from "lru-cache";
import { atMost } from "../../../platform/caches.ts";
import { AppError } from "@statusmesh/shared/errors";
import { within } from "@statusmesh/shared/time";
import type { Clock } from "../../../platform/process/clock.ts";

export interface LastGoodOptions<T> {
  /** Time to live of a value, ms. */
  freshMs: number;
  /** How long an unused last good value is kept, ms; 0 keeps none. */
  lastGoodMs: number;
  /** Deadline of a computation, ms; after it the last good value is served. */
  patienceMs: number;
  /** Bytes of all fresh values, and of all last good ones; the least recently used are evicted. */
  maxBytes: number;
  /** Bytes that a value holds, roughly. */
  bytesOf(value: T): number;
  clock: Clock;
  /** True for an error that computations of other keys would meet too, such as a stopped database. */
  isOutage?(error: unknown): boolean;
  /** Called when the last good value replaces a failed or late computation. */
  onFallback(error: unknown): void;
}

/** A value with the version of its source. */
interface Versioned<T> {
  readonly value: T;
  readonly version: string;
}

/** Bytes of an entry beside its value. */
const entryBytes = 200;

/**
 * Cache with single-flight: concurrent callers of a key share one computation. When it fails they get the last good
 * value, or STATUS_DATA_UNAVAILABLE when there is none. Failures are not cached.
 */
export class LastGoodCache<T extends object> {
  readonly #options: LastGoodOptions<T>;
  readonly #fresh: LRUCache<string, Versioned<T>>;
  readonly #lastGood: LRUCache<string, T>;
  /** Computations in flight, by version and key. */
  readonly #running = new Map<string, Promise<T>>();
  /** Computations that have outlived a {@link drop} are not stored. */
  #drops = 0;
  /** Keys whose last computation failed or was late, until the next success. */
  readonly #failing: LRUCache<string, true>;
  /** From an error that concerns every key to the next success. */
  #outage = false;

  constructor(options: LastGoodOptions<T>) {
    this.#options = options;
    const { maxBytes, bytesOf } = options;
    const perf = { now: () => options.clock.now() };
    const common = { maxSize: maxBytes, perf, ttlResolution: 0 };
    const sizeOf = (value: T, key: string) => entryBytes + 2 * key.length + Math.ceil(bytesOf(value));
    this.#fresh = new LRUCache({
      ...common,
      ttl: options.freshMs,
      sizeCalculation: ({ value }, key) => sizeOf(value, key),
    });
    // lru-cache reads a time to live of 0 as unlimited.
    this.#lastGood = new LRUCache({
      ...common,
      ttl: options.lastGoodMs,
      updateAgeOnGet: true,
      sizeCalculation: sizeOf,
    });
    this.#failing = new LRUCache(atMost(10_000));
  }

  /** The fresh value of a key, else that of `compute`. A value of another `version` of its source is not fresh. */
  async get(key: string, compute: () => Promise<T>, version = ""): Promise<T> {
    const fresh = this.peek(key, version);
    if (fresh !== undefined) return fresh;
    const flight = `${version} ${key}`;
    let running = this.#running.get(flight);
    if (running === undefined) {
      const drops = this.#drops;
      const made = this.#compute(key, compute, drops).then((value) => {
        if (drops === this.#drops) this.#fresh.set(key, { value, version });
        return value;
      });
      running = made.finally(() => {
        if (this.#running.get(flight) === running) this.#running.delete(flight);
      });
      this.#running.set(flight, running);
    }
    return await running;
  }

  /** The value of a key while it is fresh; undefined otherwise. Starts no computation. */
  peek(key: string, version = ""): T | undefined {
    const found = this.#fresh.peek(key);
    return found?.version === version ? found.value : undefined;
  }

  /**
   * Drops the values that `matches` accepts, also as last good ones, and does not store what is being computed: it may
   * have read its source before the write that is the reason. Without `matches`, drops all fresh values.
   */
  drop(matches?: (value: T) => boolean): void {
    this.#drops++;
    this.#running.clear();
    if (matches === undefined) return this.#fresh.clear();
    for (const [key, { value }] of Array.from(this.#fresh.entries())) if (matches(value)) this.#fresh.delete(key);
    for (const [key, value] of Array.from(this.#lastGood.entries())) if (matches(value)) this.#lastGood.delete(key);
  }

  async #compute(key: string, compute: () => Promise<T>, drops: number): Promise<T> {
    const running = compute().then((value) => {
      if (this.#options.lastGoodMs > 0 && drops === this.#drops) this.#lastGood.set(key, value);
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
      this.#failing.set(key, true);
      if (this.#options.isOutage?.(error) === true) this.#outage = true;
      this.#options.onFallback(error);
      return lastGood;
    }
  }
}

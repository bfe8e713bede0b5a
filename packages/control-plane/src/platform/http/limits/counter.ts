import { LRUCache } from "lru-cache";
import { atMost } from "../../caches.ts";
import { within, minuteMs } from "@statusmesh/shared/time";
import type { Clock } from "../../process/clock.ts";
import type { RedisClient } from "../../db/redis.ts";

/** Events of a key within its current minute, which starts with the first event. */
export interface Tally {
  readonly count: number;
  /** Rest of the minute, ms. */
  readonly leftMs: number;
}

/** Counts events per key and minute, over all replicas or in this process. It never fails. */
export interface Counter {
  /** Counts one event. Without Redis the tally is there at once: a promise costs a busy page more than the count. */
  add(key: string): Tally | Promise<Tally>;
}

const windowMs = minuteMs;
/** Keys that a process counts. The least recently used is evicted, and starts at 0 again. */
const maxKeys = 100_000;
/** Callers compare the count with limits of their own, so the library's limit is unreachable. */
const sharedWindow = { points: Number.MAX_SAFE_INTEGER, duration: windowMs / 1000, keyPrefix: "sm:rate" };
/** Timeout of Redis per request. */
const timeoutMs = 250;
/** Pause after a failure of Redis. */
const pauseMs = 1_000;

/** A counter on Redis. Without Redis, or while it is unavailable, each process counts for itself. */
export function openCounter(redis: RedisClient | null, clock: Clock): Counter {
  const own = ownCounter(clock);
  if (redis === null) return { add: own };
  const shared = openShared(redis);
  let askAfter = 0;
  return {
    async add(key) {
      if (clock.now() >= askAfter) {
        try {
          const { consumedPoints, msBeforeNext } = await within(timeoutMs, (await shared).consume(key));
          return { count: consumedPoints, leftMs: msBeforeNext };
        } catch {
          // The connection logs the reason.
          askAfter = clock.now() + pauseMs;
        }
      }
      return own(key);
    },
  };
}

async function openShared(redis: RedisClient) {
  const { RateLimiterRedis } = (await import("rate-limiter-flexible")).default;
  return new RateLimiterRedis({
    ...sharedWindow,
    storeClient: redis,
    useRedisPackage: true,
    rejectIfRedisNotReady: true,
  });
}

/** Counts in this process. The library's own memory store takes six times the CPU, with a timer per key. */
function ownCounter(clock: Clock): (key: string) => Tally {
  const windows = new LRUCache<string, { count: number; endsAt: number }>(atMost(maxKeys));
  return (key) => {
    const now = clock.now();
    let window = windows.get(key);
    // The wall clock may have been set back.
    if (window === undefined || now >= window.endsAt || now < window.endsAt - windowMs) {
      window = { count: 0, endsAt: now + windowMs };
      windows.set(key, window);
    }
    window.count++;
    return { count: window.count, leftMs: window.endsAt - now };
  };
}

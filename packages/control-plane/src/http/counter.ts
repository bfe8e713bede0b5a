import { RateLimiterMemory, RateLimiterRedis, type RateLimiterRes } from "rate-limiter-flexible";
import { within } from "@statusmesh/shared/within";
import type { Clock } from "../context.ts";
import type { RedisClient } from "../db/redis.ts";

/** Events of a key within its current minute, which starts with the first event. */
export interface Tally {
  readonly count: number;
  /** Rest of the minute, ms. */
  readonly leftMs: number;
}

/** Counts events per key and minute, over all replicas or in this process. It never fails. */
export interface Counter {
  add(key: string): Promise<Tally>;
}

/** Callers compare the count with limits of their own, so the library's limit is unreachable. */
const window = { points: Number.MAX_SAFE_INTEGER, duration: 60, keyPrefix: "sm:rate" };
/** Timeout of Redis per request. */
const timeoutMs = 250;
/** Pause after a failure of Redis. */
const pauseMs = 1_000;

/** A counter on Redis. Without Redis, or while it is unavailable, each process counts for itself. */
export function openCounter(redis: RedisClient | null, clock: Clock): Counter {
  const own = new RateLimiterMemory(window);
  if (redis === null) return { add: async (key) => tally(await own.consume(key)) };
  const shared = new RateLimiterRedis({
    ...window,
    storeClient: redis,
    useRedisPackage: true,
    rejectIfRedisNotReady: true,
  });
  let askAfter = 0;
  return {
    async add(key) {
      if (clock.now() >= askAfter) {
        try {
          return tally(await within(timeoutMs, shared.consume(key)));
        } catch {
          // The connection logs the reason.
          askAfter = clock.now() + pauseMs;
        }
      }
      return tally(await own.consume(key));
    },
  };
}

const tally = ({ consumedPoints, msBeforeNext }: RateLimiterRes): Tally => ({
  count: consumedPoints,
  leftMs: msBeforeNext,
});

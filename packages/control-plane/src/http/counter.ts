import { RateLimiterMemory, RateLimiterRedis, type RateLimiterRes } from "rate-limiter-flexible";
import type { Clock } from "../context.ts";
import type { RedisClient } from "../db/redis.ts";

/** What a key has come to within the minute that its first event began. */
export interface Tally {
  readonly count: number;
  /** Until the minute is over, ms. */
  readonly leftMs: number;
}

/** Counts events per key and minute, over all replicas or in this process. It never fails. */
export interface Counter {
  add(key: string): Promise<Tally>;
}

/** The limits differ by key and are held against the count by the caller, so the library's own is out of reach. */
const window = { points: Number.MAX_SAFE_INTEGER, duration: 60, keyPrefix: "sm:rate" };
/** A request waits this long for Redis at most. */
const patienceMs = 250;
/** A Redis that failed is not asked again for as long. */
const restMs = 1_000;

/** A counter on Redis; each process counts for itself while Redis is away, or where `redis` is null. */
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
          return tally(await within(patienceMs, shared.consume(key)));
        } catch {
          // Openly down or silent: what the connection knows of it is logged there.
          askAfter = clock.now() + restMs;
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

async function within<T>(ms: number, work: Promise<T>): Promise<T> {
  // When the time is over nobody is left to hear of a later failure.
  work.catch(() => {});
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${ms} ms`)), ms);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

import { availableParallelism } from "node:os";
import { LRUCache } from "lru-cache";
import { minuteMs } from "@statusmesh/shared/time";
import { atMost } from "../../platform/caches.ts";

/** One core stays free for everything else. */
const maxRunning = Math.max(1, Math.min(2, availableParallelism() - 1));
const maxWaiting = 20;
/** On a machine where hashes take seconds, twenty of them outlast the connection of the last one that waits (75 s). */
const longestWaitMs = 10_000;
const maxVisitors = 50_000;
const memoryMs = 10 * minuteMs;

interface Waiting {
  readonly visitor: string;
  /** The lowest weight runs first. */
  readonly weight: number;
  enter(): void;
  refuse(): void;
}

/** Admits calls to an expensive operation. */
export interface WaitingPlaces {
  /**
   * Resolves with the release function once the call may run; null at once or later when there is no place. A visitor
   * has one waiting place. `known`: a browser that has signed in to this account before, which goes first.
   */
  enter(visitor: string, known: boolean): Promise<(() => void) | null>;
}

/**
 * At most two calls at a time, and twenty that wait, one per visitor. Visitors with the fewest calls of the last ten
 * minutes go first and take the place of others, so that a flood holds nobody else up.
 */
export function openWaitingPlaces(running = maxRunning, longestMs = longestWaitMs): WaitingPlaces {
  let free = running;
  let waiting: Waiting[] = [];
  const calls = new LRUCache<string, number>({ ...atMost(maxVisitors), ttl: memoryMs, ttlAutopurge: false });

  function leave(): void {
    free++;
    // The first of equals: sort is stable.
    const [next, ...others] = waiting.sort((a, b) => a.weight - b.weight);
    waiting = others;
    if (next === undefined) return;
    free--;
    next.enter();
  }

  return {
    async enter(visitor, known) {
      const count = (calls.get(visitor) ?? 0) + 1;
      calls.set(visitor, count);
      if (free > 0) {
        free--;
        return leave;
      }
      if (waiting.some((one) => one.visitor === visitor)) return null;
      const weight = known ? 0 : count;
      if (waiting.length >= maxWaiting) {
        const last = waiting.reduce((worst, one) => (one.weight >= worst.weight ? one : worst));
        if (last.weight <= weight) return null;
        waiting = waiting.filter((one) => one !== last);
        last.refuse();
      }
      return await new Promise((resolve) => {
        const settle = (result: (() => void) | null): void => {
          clearTimeout(timer);
          resolve(result);
        };
        const own = { visitor, weight, enter: () => settle(leave), refuse: () => settle(null) };
        const timer = setTimeout(() => {
          waiting = waiting.filter((one) => one !== own);
          resolve(null);
        }, longestMs);
        waiting.push(own);
      });
    },
  };
}

import { availableParallelism } from "node:os";
import { LRUCache } from "lru-cache";
import { minuteMs } from "@statusmesh/shared/time";
import { atMost } from "../../../platform/caches.ts";

/** One core stays free for everything else. */
const maxRunning = Math.max(1, Math.min(2, availableParallelism() - 1));
const maxWaiting = 20;
/** On a machine where hashes take seconds, twenty of them outlast the connection of the last one that waits (75 s). */
const longestWaitMs = 10_000;
const maxVisitors = 50_000;
const memoryMs = 10 * minuteMs;

interface Waiting {
  readonly visitor: string;
  readonly known: boolean;
  enter(): void;
  refuse(): void;
}

/** Admits calls to an expensive operation. */
export interface WaitingPlaces {
  /**
   * Resolves with the release function once the call may run; null at once or later when the queue is full. A visitor
   * has one slot in it. `known`: a browser that has signed in to this account before, which goes first.
   */
  enter(visitor: string, known: boolean): Promise<(() => void) | null>;
}

/**
 * At most two calls at a time, and twenty that wait, one per visitor. Visitors with the fewest calls of the last ten
 * minutes go first and take the place of others. Refused calls count, and they count at once: a visitor who sends more
 * while one of theirs waits goes behind those who send one, so that a flood holds nobody else up.
 */
export function openWaitingPlaces(running = maxRunning, longestMs = longestWaitMs): WaitingPlaces {
  let free = running;
  const waiting = new Set<Waiting>();
  const calls = new LRUCache<string, number>({ ...atMost(maxVisitors), ttl: memoryMs, ttlAutopurge: false });

  /** The lowest runs first. */
  const weightOf = ({ visitor, known }: Pick<Waiting, "visitor" | "known">): number =>
    known ? 0 : (calls.get(visitor) ?? 1);

  function leave(): void {
    free++;
    let next: Waiting | undefined;
    // The first of equals.
    for (const one of waiting) if (next === undefined || weightOf(one) < weightOf(next)) next = one;
    if (next === undefined) return;
    free--;
    waiting.delete(next);
    next.enter();
  }

  /** Refuses the last one that goes behind `weight`; false where none does. */
  function makeRoom(weight: number): boolean {
    let last: Waiting | undefined;
    for (const one of waiting) if (last === undefined || weightOf(one) >= weightOf(last)) last = one;
    if (last === undefined || weightOf(last) <= weight) return false;
    waiting.delete(last);
    last.refuse();
    return true;
  }

  return {
    async enter(visitor, known) {
      calls.set(visitor, (calls.get(visitor) ?? 0) + 1);
      if (free > 0) {
        free--;
        return leave;
      }
      for (const one of waiting) if (one.visitor === visitor) return null;
      if (waiting.size >= maxWaiting && !makeRoom(weightOf({ visitor, known }))) return null;
      return await new Promise((resolve) => {
        const settle = (result: (() => void) | null): void => {
          clearTimeout(timer);
          resolve(result);
        };
        const own = { visitor, known, enter: () => settle(leave), refuse: () => settle(null) };
        const timer = setTimeout(() => {
          waiting.delete(own);
          resolve(null);
        }, longestMs);
        waiting.add(own);
      });
    },
  };
}

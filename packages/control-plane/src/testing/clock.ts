import { setTimeout as sleep } from "node:timers/promises";

/** Friday 20 November 2026, 13:00 UTC: when every test begins unless it says otherwise. */
export const noon = Date.UTC(2026, 10, 20, 13);
export const second = 1000;
export const minute = 60 * second;
export const hour = 60 * minute;
export const day = 24 * hour;

/** A clock that only tests advance. */
export interface FakeClock {
  at: number;
  now(): number;
  advance(ms: number): void;
}

export function fakeClock(start = noon): FakeClock {
  const clock = { at: start, now: () => clock.at, advance: (ms: number) => void (clock.at += ms) };
  return clock;
}

/**
 * Time until a condition is looked at again, ms: an eighth of the wait so far. Most conditions are requests or queries,
 * and several files wait at a time.
 */
export const pauseAfter = (waitedMs: number): number => Math.min(200, Math.max(20, waitedMs / 8));

/**
 * Waits until `condition` returns a true value, and returns it; throws after `ms`. The limit is generous, because a
 * loaded machine is slow and a wait that succeeds costs only the time that it needs.
 */
export async function until<T>(condition: () => T | Promise<T>, what: string, ms = 90_000): Promise<NonNullable<T>> {
  const began = performance.now();
  do {
    const value = await condition();
    if (value) return value;
    await sleep(pauseAfter(performance.now() - began));
  } while (performance.now() < began + ms);
  throw new Error(`timed out after ${ms / 1000} s: ${what}`);
}

import { setTimeout as sleep } from "node:timers/promises";

/** Friday 20 November 2026, 13:00 UTC: when every test begins unless it says otherwise. */
export const noon = Date.UTC(2026, 10, 20, 13);
export const second = 1000;
export const minute = 60 * second;
export const hour = 60 * minute;
export const day = 24 * hour;

/** A clock that stands until it is moved. */
export interface FakeClock {
  at: number;
  now(): number;
  advance(ms: number): void;
}

export function fakeClock(start = noon): FakeClock {
  const clock = { at: start, now: () => clock.at, advance: (ms: number) => void (clock.at += ms) };
  return clock;
}

/** Waits until `condition` gives something true, at most 15 s. */
export async function until<T>(condition: () => T | Promise<T>, what: string): Promise<T> {
  for (let tries = 0; tries < 750; tries++) {
    const value = await condition();
    if (value) return value;
    await sleep(20);
  }
  throw new Error(`never came: ${what}`);
}

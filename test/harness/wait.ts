import { setTimeout as sleep } from "node:timers/promises";
import { pauseAfter } from "@statusmesh/control-plane/testing/clock";

/** Long, because a loaded machine is slow, and a wait that succeeds ends with its condition. */
export const defaultDeadlineMs = 120_000;

/** Thrown by a condition that can never become true, to end the wait. */
export class Hopeless extends Error {}

/**
 * Waits until `condition` returns something other than false, null or undefined, and returns that. At the time limit it
 * throws with `what` and the last error of the condition.
 */
export async function waitFor<T>(
  what: string,
  condition: () => Promise<T | false | null | undefined> | T | false | null | undefined,
  options: { ms?: number; everyMs?: number } = {},
): Promise<T> {
  const ms = options.ms ?? defaultDeadlineMs;
  const began = performance.now();
  let complaint = "";
  do {
    try {
      const value = await condition();
      if (value !== false && value !== null && value !== undefined) return value;
      complaint = "";
    } catch (error) {
      if (error instanceof Hopeless) throw error;
      complaint = ` (${error instanceof Error ? error.message : String(error)})`;
    }
    await sleep(options.everyMs ?? pauseAfter(performance.now() - began));
  } while (performance.now() < began + ms);
  throw new Error(`waited ${ms / 1000} s in vain for ${what}${complaint}`);
}

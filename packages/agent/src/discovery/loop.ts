import { exponentialMs, jitteredMs } from "@statusmesh/shared/backoff";
import { messageOf } from "@statusmesh/shared/thrown";
import { minuteMs, secondMs } from "@statusmesh/shared/time";
import { setTimeout as sleep } from "node:timers/promises";
import type { Outcome } from "./cycle.ts";
import type { Source } from "./source.ts";

/** Times of the loop, ms. */
interface Pace {
  /** Wait after an event, for those that follow it. */
  readonly debounceMs: number;
  readonly everyMs: number;
  /** The next cycle while something is gone: it is paused after a minute. */
  readonly goneMs: number;
  readonly retryMs: number;
  readonly mostRetryMs: number;
}

export const usualPace: Pace = {
  debounceMs: 5 * secondMs,
  everyMs: 5 * minuteMs,
  goneMs: minuteMs,
  retryMs: 5 * secondMs,
  mostRetryMs: minuteMs,
};

/**
 * Runs cycles until the signal aborts: at once, after events, and every few minutes. `cycle` resolves to null where it
 * failed.
 */
export async function discoverUntil(
  source: Source,
  cycle: () => Promise<Outcome | null>,
  { signal, pace, warn }: { signal: AbortSignal; pace: Pace; warn: (text: string) => void },
): Promise<void> {
  let wake = (): void => undefined;
  let isChanged = false;
  const changed = (): void => {
    isChanged = true;
    wake();
  };
  signal.addEventListener("abort", () => wake(), { once: true });
  const watching = follow(source, changed, { signal, pace, warn });
  let failures = 0;
  while (!signal.aborted) {
    isChanged = false;
    const outcome = await cycle();
    failures = outcome === null ? failures + 1 : 0;
    const waitMs =
      outcome === null
        ? jitteredMs(exponentialMs(failures - 1, pace.retryMs, pace.mostRetryMs))
        : (outcome.summary["orphaned"] ?? 0) > 0
          ? pace.goneMs
          : pace.everyMs;
    // No AbortSignal.any: Node.js 20 may collect it before it fires.
    await new Promise<void>((settle) => {
      const timer = setTimeout(settle, waitMs);
      wake = () => {
        clearTimeout(timer);
        settle();
      };
      if (isChanged || signal.aborted) wake();
    });
    if (isChanged) await sleep(pace.debounceMs, undefined, { signal }).catch(() => undefined);
  }
  await watching;
}

/** Keeps the events of the source connected. What happened in between is found by a cycle. */
async function follow(
  source: Source,
  changed: () => void,
  { signal, pace, warn }: { signal: AbortSignal; pace: Pace; warn: (text: string) => void },
): Promise<void> {
  let failures = 0;
  let last = "";
  while (!signal.aborted) {
    const since = performance.now();
    try {
      await source.watch(changed, signal);
    } catch (error) {
      if (signal.aborted) return;
      const message = messageOf(error);
      if (message !== last) warn(`events: ${message}`);
      last = message;
    }
    failures = performance.now() - since > pace.mostRetryMs ? 0 : failures + 1;
    const waitMs = jitteredMs(exponentialMs(failures, pace.retryMs, pace.mostRetryMs));
    await sleep(waitMs, undefined, { signal }).catch(() => undefined);
    changed();
  }
}

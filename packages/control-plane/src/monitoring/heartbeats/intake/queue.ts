import type { System } from "../../../platform/context.ts";
import { pause } from "../../../platform/process/pause.ts";
import { type PingOutcome, type PrepareDays, type ReceivedPing, storePings } from "./reports.ts";

/** Pings of one transaction. */
const batchPings = 500;
/**
 * The time between the starts of two transactions, ms. One costs as much as ten pings: without it 1,000 pings a second
 * beside 10,000 results were 160 transactions a second, and the slowest pings took longer.
 */
const spacingMs = 15;

/**
 * Opens the queue of pings of this process. Those that arrive before the next transaction may start are stored together
 * by it, so that a thousand a second need few. The promise of a ping resolves once it is stored.
 */
export function openPings(system: System, prepareDays: PrepareDays): (ping: ReceivedPing) => Promise<PingOutcome> {
  let waiting: Waiting[] = [];
  let running = false;
  let startedAt = -Infinity;
  const run = async () => {
    running = true;
    while (waiting.length > 0) {
      const early = startedAt + spacingMs - performance.now();
      if (early > 0) await pause(early);
      startedAt = performance.now();
      const batch = waiting.slice(0, batchPings);
      waiting = waiting.slice(batch.length);
      try {
        const outcomes = await storePings(
          system,
          prepareDays,
          batch.map(({ ping }) => ping),
        );
        for (const [n, { resolve }] of batch.entries()) resolve(outcomes[n]!);
      } catch (error) {
        for (const { reject } of batch) reject(error);
      }
    }
    running = false;
  };
  return (ping) =>
    new Promise((resolve, reject) => {
      waiting.push({ ping, resolve, reject });
      if (!running) void run();
    });
}

interface Waiting {
  ping: ReceivedPing;
  resolve(outcome: PingOutcome): void;
  reject(error: unknown): void;
}

import type { System } from "../../platform/context.ts";
import { type PingOutcome, type PrepareDays, type ReceivedPing, storePings } from "./heartbeats.ts";

/** Pings of one transaction. */
const batchPings = 500;

/**
 * Opens the queue of pings of this process. Those that arrive while a transaction runs are the next one together, so
 * that a thousand a second need few transactions. The promise of a ping resolves once it is stored.
 */
export function openPings(system: System, prepareDays: PrepareDays): (ping: ReceivedPing) => Promise<PingOutcome> {
  let waiting: Waiting[] = [];
  let running = false;
  const run = async () => {
    running = true;
    while (waiting.length > 0) {
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

import type { System } from "../context.ts";
import { purge } from "./queries.ts";
import { sealStoredSecrets } from "./sealing.ts";

const dayMs = 86_400_000;
const keepMessagesMs = 30 * dayMs;
const keepPendingMs = 2 * dayMs;

/**
 * Removes subscriptions that were not confirmed and old messages, and seals the secrets that an earlier release stored.
 */
export async function sweepSubscribers(system: System): Promise<void> {
  const now = system.clock.now();
  await purge(system.sql, {
    pendingBefore: new Date(now - keepPendingMs),
    messagesBefore: new Date(now - keepMessagesMs),
  });
  await sealStoredSecrets(system);
}

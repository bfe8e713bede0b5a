import { dayMs } from "@statusmesh/shared/time";
import type { System } from "../../platform/context.ts";
import { giveUp } from "./delivery-queries.ts";
import { purge } from "./queries.ts";

const keepMessagesMs = 30 * dayMs;
const keepPendingMs = 2 * dayMs;
/** Later messages would mislead. */
const keepTryingMs = dayMs;

/** Removes subscriptions that were not confirmed and old messages, and gives up deliveries that wait for a day. */
export async function sweepSubscribers(system: System): Promise<void> {
  const now = system.clock.now();
  await purge(system.sql, {
    pendingBefore: new Date(now - keepPendingMs),
    messagesBefore: new Date(now - keepMessagesMs),
  });
  await giveUp(system.sql, new Date(now - keepTryingMs));
}

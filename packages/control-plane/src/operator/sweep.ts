import { dayMs } from "@statusmesh/shared/time";
import { sweepSignIn } from "../access/auth/service.ts";
import type { System } from "../platform/context.ts";
import { deleteEndedCounters } from "../platform/db/counters.ts";
import { sweepOAuth } from "../access/oauth/service.ts";
import { sweepFlows } from "../access/sign-in/service.ts";
import { sweepSubscribers } from "../publishing/subscribers/engine.ts";
import { deleteRunsBefore, deleteTombstonesBefore } from "./queries.ts";

/**
 * Removes expired rows: used links, ended sessions, answered runs, subscriptions without confirmation, ended counters,
 * tombstones of deleted targets.
 */
export async function sweep(system: System): Promise<void> {
  const now = system.clock.now();
  await sweepSignIn(system);
  await sweepFlows(system);
  await sweepOAuth(system);
  await sweepSubscribers(system);
  await deleteEndedCounters(system.sql, new Date(now));
  await deleteRunsBefore(system.sql, new Date(now - 600_000));
  // An agent with an older cursor gets everything, so a day is enough.
  await deleteTombstonesBefore(system.sql, new Date(now - dayMs));
}

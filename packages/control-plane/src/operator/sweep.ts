import { sweepSignIn } from "../access/auth/service.ts";
import { sweepOAuth } from "../access/oauth/service.ts";
import { sweepFlows } from "../access/sign-in/service.ts";
import { sweepRuns } from "../monitoring/pipeline/engine.ts";
import { sweepPings } from "../monitoring/heartbeats/service.ts";
import { sweepTombstones } from "../monitoring/targets/service.ts";
import type { System } from "../platform/context.ts";
import { deleteEndedCounters } from "../platform/db/counters.ts";
import { sweepSubscribers } from "../publishing/subscribers/engine.ts";

/** Removes expired rows of every domain: used links, ended sessions, answered runs, ended counters, tombstones. */
export async function sweep(system: System): Promise<void> {
  await sweepSignIn(system);
  await sweepFlows(system);
  await sweepOAuth(system);
  await sweepSubscribers(system);
  await deleteEndedCounters(system.sql, new Date(system.clock.now()));
  await sweepRuns(system);
  await sweepTombstones(system);
  await sweepPings(system);
}

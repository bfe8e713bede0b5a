import { hourMs, utcDay } from "@statusmesh/shared/time";
import { purgeAudit } from "../access/audit/service.ts";
import { purgeAttempts } from "../access/auth/passwords/service.ts";
import { sweepSignIn } from "../access/auth/service.ts";
import { purgeVerifications } from "../alerting/channels/verification/service.ts";
import type { System } from "../platform/context.ts";
import { purgeSnapshots } from "../alerting/incidents/timeline/service.ts";
import { purgeDeletedOrgs } from "../access/orgs/service.ts";
import { purgeRefusals } from "../access/plans/service.ts";
import { deleteTargetsOf, sweepTombstones } from "../monitoring/targets/service.ts";
import { purgeShares } from "../publishing/shares/service.ts";
import { isDoneForDay, markDoneForDay } from "./queries.ts";
import { sweepOAuth } from "../access/oauth/service.ts";
import { sweepFlows } from "../access/sign-in/service.ts";
import { sweepRuns } from "../monitoring/pipeline/engine.ts";
import { sweepPings } from "../monitoring/heartbeats/service.ts";
import { sweepReaders } from "../publishing/page-access/service.ts";
import { deleteEndedCounters } from "../platform/db/counters.ts";
import { sweepSubscribers } from "../publishing/subscribers/engine.ts";

/** UTC. */
const startsAtHour = 3;
const name = "purge";

/**
 * Once a day from 03:00 UTC on: removes deleted organisations after their grace period, and old rows of logs. Every
 * replica calls it often: the day of the last run is in the database, so that a missed night is made up for. Returns
 * whether this call did the work.
 */
export async function nightly(system: System): Promise<boolean> {
  // The day that began at 03:00 UTC last.
  const today = utcDay(system.clock.now() - startsAtHour * hourMs);
  if (await isDoneForDay(system.sql, name, today)) return false;
  const orgs = await purgeDeletedOrgs(system, deleteTargetsOf);
  const entries = await purgeAudit(system);
  const refusals = await purgeRefusals(system);
  const attempts = await purgeAttempts(system);
  const shares = await purgeShares(system);
  const verifications = await purgeVerifications(system);
  const snapshots = await purgeSnapshots(system);
  // Last: a purge that broke off is done again.
  await markDoneForDay(system.sql, name, today);
  const purged = { orgs, entries, refusals, attempts, shares, verifications, snapshots };
  if (Object.values(purged).some((count) => count > 0)) system.log.info(purged, "purged for the night");
  return true;
}

/** Removes expired rows of every domain: used links, ended sessions, answered runs, ended counters, tombstones. */
export async function sweep(system: System): Promise<void> {
  await sweepSignIn(system);
  await sweepFlows(system);
  await sweepOAuth(system);
  await sweepSubscribers(system);
  await sweepReaders(system);
  await deleteEndedCounters(system.sql, new Date(system.clock.now()));
  await sweepRuns(system);
  await sweepTombstones(system);
  await sweepPings(system);
}

import type { Sql } from "postgres";
import { purgeAudit } from "../audit/service.ts";
import { purgeAttempts } from "../auth/service.ts";
import type { System } from "../context.ts";
import { purgeDeletedOrgs } from "../orgs/service.ts";
import { purgeRefusals } from "../plans/service.ts";
import { purgeShares } from "../shares/service.ts";

/** UTC. */
const startsAtHour = 3;
const name = "purge";

/**
 * Once a day from 03:00 UTC on: removes deleted organisations whose time is over and what the logs need not keep. Asked
 * often, and by every replica: the day on which it was done is in the database, and a night that was missed is made up
 * for as soon as there is somebody to do so. Returns whether there was anything to do.
 */
export async function nightly(system: System): Promise<boolean> {
  const sql = system.sql as Sql;
  // The day that began at 03:00 UTC last.
  const today = new Date(system.clock.now() - startsAtHour * 3_600_000).toISOString().slice(0, 10);
  const [done] = await sql`select 1 from nightly_runs where name = ${name} and day >= ${today}::date`;
  if (done !== undefined) return false;
  const orgs = await purgeDeletedOrgs(system);
  const entries = await purgeAudit(system);
  const refusals = await purgeRefusals(system);
  const attempts = await purgeAttempts(system);
  const shares = await purgeShares(system);
  // Last: a purge that broke off is done again.
  await sql`
    insert into nightly_runs (name, day) values (${name}, ${today}::date) on conflict (name) do update
    set day = excluded.day`;
  if (orgs + entries + refusals + attempts + shares > 0)
    system.log.info({ orgs, entries, refusals, attempts, shares }, "purged for the night");
  return true;
}

import type { Sql } from "postgres";
import { sweepSignIn } from "../auth/service.ts";
import type { System } from "../context.ts";
import { sweepOAuth } from "../oauth/service.ts";
import { sweepFlows } from "../sign-in/service.ts";

const day = 86_400_000;

/** Removes what has served its purpose: used links, ended sessions, answered runs, word of deleted targets. */
export async function sweep(system: System): Promise<void> {
  const now = system.clock.now();
  const sql = system.sql as Sql;
  await sweepSignIn(system);
  await sweepFlows(system);
  await sweepOAuth(system);
  await sql`delete from on_demand_runs where requested_at < ${new Date(now - 600_000)}`;
  // An agent with an older cursor gets everything anew, so a day is more than it needs.
  await sql`delete from deleted_targets where deleted_at < ${new Date(now - day)}`;
}

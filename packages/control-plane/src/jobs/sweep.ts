import type { Sql } from "postgres";
import type { System } from "../context.ts";
import { sweepFlows } from "../sign-in/service.ts";

const day = 86_400_000;

/** Removes what has served its purpose: used links, ended sessions, answered runs, word of deleted targets. */
export async function sweep(system: System): Promise<void> {
  const now = system.clock.now();
  const sql = system.sql as Sql;
  await sql`delete from sign_in_links where expires_at < ${new Date(now - day)}`;
  await sql`delete from sessions where expires_at < ${new Date(now)} or last_used_at < ${new Date(now - 30 * day)}`;
  await sweepFlows(system);
  // Longer than the longest throttle.
  await sql`delete from magic_link_requests where asked_at < ${new Date(now - 2 * day)}`;
  await sql`delete from on_demand_runs where requested_at < ${new Date(now - 600_000)}`;
  // An agent with an older cursor gets everything anew, so a day is more than it needs.
  await sql`delete from deleted_targets where deleted_at < ${new Date(now - day)}`;
}

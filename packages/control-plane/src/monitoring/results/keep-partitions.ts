import type { Sql } from "postgres";
import { dayMs } from "@statusmesh/shared/time";
import type { System } from "../../platform/context.ts";
import { dropOldPartitions, ensurePartitions } from "../../platform/db/partitions.ts";
import { resultDays } from "./engine.ts";
import { oldestAcceptable } from "./service.ts";

const daysAhead = 7;

/**
 * Makes the partitions of results up to a week ahead and drops those whose day ended more than 90 days ago. There is
 * never a hole between them: agents that went on measuring while the control plane was away for weeks find a place for
 * what they bring. Run it at every start before results are taken, and every few hours. Needs the pool.
 */
export async function keepPartitions(system: System): Promise<void> {
  const sql = system.sql as Sql;
  const now = system.clock.now();
  const oldest = (await oldestAcceptable(sql))?.getTime() ?? Infinity;
  const from = Math.max(Math.min(oldest, now - dayMs), now - resultDays * dayMs);
  const made = await ensurePartitions(sql, new Date(from), new Date(now + daysAhead * dayMs));
  const dropped = await dropOldPartitions(sql, new Date(now), resultDays);
  if (made.length + dropped.length > 0)
    system.log.info({ made: made.length, dropped: dropped.length }, "result partitions kept");
}

import { dayMs, minuteMs, utcDay } from "@statusmesh/shared/time";
import type { Sql } from "postgres";
import type { System } from "../../../platform/context.ts";
import { dropPartitionsBefore, ensurePartitions } from "../../../platform/db/distributed/partitions.ts";
import { resultDays } from "../hours.ts";
import { oldestAcceptable } from "./late-queries.ts";
import { type PackProgress, selectProgress, startPacking } from "../packing/pack-queries.ts";

const daysAhead = 7;
/** A reader that began before its day was packed reads the partition for at most this long. */
const readersMs = 10 * minuteMs;

/**
 * Makes the partitions of results from the first day that is not packed up to a week ahead, and drops those of packed
 * days and of days that ended more than 90 days ago. There is never a hole between them: agents that went on measuring
 * while the control plane was away for weeks find a place for what they bring. Run it at every start before results are
 * taken, and every few hours. Needs the pool.
 */
export async function keepPartitions(system: System): Promise<void> {
  const sql = system.sql as Sql;
  const now = system.clock.now();
  const progress = await selectProgress(sql);
  const oldest = progress === null ? await oldestAcceptable(sql) : new Date(progress.sealed_to);
  const from = Math.max(Math.min(oldest?.getTime() ?? Infinity, now - dayMs), now - resultDays * dayMs);
  const made = await ensurePartitions(sql, new Date(from), new Date(now + daysAhead * dayMs));
  if (progress === null) await startPacking(sql, utcDay(from), new Date(now));
  const dropped = await dropPartitionsBefore(
    sql,
    new Date(Math.max(now - resultDays * dayMs, packedTo(progress, now))),
  );
  if (made.length + dropped.length > 0)
    system.log.info({ made: made.length, dropped: dropped.length }, "result partitions kept");
}

/** Partitions of earlier times, Unix ms, have no reader. */
function packedTo(progress: PackProgress | null, now: number): number {
  if (progress === null) return -Infinity;
  const to = Date.parse(progress.packed_to);
  return now - progress.packed_at.getTime() > readersMs ? to : to - dayMs;
}

/** Creates missing partitions of the given UTC days (`2026-11-20`), except those of sealed days; remembers the rest. */
export function dayPreparer(sql: Sql): (days: readonly string[]) => Promise<void> {
  const ready = new Set<string>();
  return async (days) => {
    for (const day of days) {
      if (ready.has(day)) continue;
      const sealedTo = (await selectProgress(sql))?.sealed_to;
      if (sealedTo === undefined || day >= sealedTo) await ensurePartitions(sql, new Date(day), new Date(day));
      ready.add(day);
    }
  };
}

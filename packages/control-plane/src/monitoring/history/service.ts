import { dayMs } from "@statusmesh/shared/time";
import { getOrMake } from "../../platform/caches.ts";
import type { System } from "../../platform/context.ts";
import type { Interval } from "../../platform/intervals.ts";
import { selectDays } from "./queries.ts";
import type { ImportedDay } from "./schema.ts";

export { daysOf, upsertDays } from "./queries.ts";

/** A day from another product as times, Unix ms: sums of a day have none, so its outage lies around noon. */
export interface DayTimes extends Interval {
  down: Interval | null;
  degraded: boolean;
}

/** Imported days that begin in the range, oldest first, by target. Without a scope check. */
export async function importedDays(
  system: System,
  orgId: string,
  targetIds: readonly string[],
  range: { from: Date; to: Date },
): Promise<Map<string, ImportedDay[]>> {
  const days = new Map<string, ImportedDay[]>();
  for (const row of await selectDays(system.sql, orgId, targetIds, range))
    getOrMake(days, row.target_id, () => []).push(row);
  return days;
}

/** The times of a day with runs; null for one without: the failing share of its runs is that of its time. */
export function timesOf({ day, up, degraded, down, error }: ImportedDay): DayTimes | null {
  const all = up + degraded + down + error;
  if (all === 0) return null;
  const start = Date.parse(day);
  const noon = start + dayMs / 2;
  const half = (((down + error) / all) * dayMs) / 2;
  return {
    start,
    end: start + dayMs,
    down: half === 0 ? null : { start: noon - half, end: noon + half },
    degraded: degraded > 0,
  };
}

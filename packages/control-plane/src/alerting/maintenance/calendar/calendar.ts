import { dayMs } from "@statusmesh/shared/time";
import { instantOf } from "@statusmesh/shared/zoned";
import type { System } from "../../../platform/context.ts";
import { selectCancellations, selectSeries, type SeriesRow } from "./queries.ts";
import { cancelledDays } from "../queries.ts";
import { formatRule, parseRule } from "../recurrence.ts";

/** A window as a calendar shows it. */
export interface CalendarWindow extends Omit<SeriesRow, "recurrence_rule" | "recurrence_time_zone"> {
  /** Null for a window that happens once. `rule` is an RRULE whose UNTIL is an instant (RFC 5545, section 3.3.10). */
  series: { rule: string; zone: string } | null;
  cancelled: boolean;
}

/** Windows of any of the targets that take place in the range, and those that were cancelled lately. */
export async function calendarOf(
  { sql, clock }: System,
  orgId: string,
  targetIds: readonly string[],
  range: { from: Date; to: Date },
): Promise<CalendarWindow[]> {
  if (targetIds.length === 0) return [];
  const since = new Date(clock.now() - cancelledDays * dayMs);
  const [rows, cancelled] = await Promise.all([
    selectSeries(sql, orgId, targetIds, range),
    selectCancellations(sql, orgId, targetIds, since),
  ]);
  return [
    ...rows.map((row) => ({ ...withSeries(row), cancelled: false })),
    ...cancelled.map((row) => ({ ...withSeries(row), cancelled: true })),
  ];
}

function withSeries({ recurrence_rule: rule, recurrence_time_zone: zone, ...row }: SeriesRow) {
  return { ...row, series: rule === null || zone === null ? null : { rule: ruleInUtc(rule, zone), zone } };
}

/** UNTIL with a date means the whole day in the zone. */
function ruleInUtc(text: string, zone: string): string {
  const { until, ...rule } = parseRule(text);
  const last = until !== null && "date" in until ? { instant: instantOf(until.date + dayMs - 1000, zone) } : until;
  return formatRule({ ...rule, until: last });
}

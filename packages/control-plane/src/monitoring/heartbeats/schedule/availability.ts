import { outagesOf } from "../../../alerting/incidents/reports/service.ts";
import { windowsOf } from "../../../alerting/maintenance/service.ts";
import { getOrMake } from "../../../platform/caches.ts";
import type { System } from "../../../platform/context.ts";
import { difference, intersection, type Interval, length, union } from "../../../platform/intervals.ts";
import { importedDays, timesOf } from "../../history/service.ts";
import { type ExpectedRow, selectExpected } from "../queries.ts";

/*
 * Uptime of heartbeats is by time: a job that reports more often while it works would else be up more. It is the share
 * of the time in which a report was expected, as public pages have it for every monitor.
 */

/** Times of a heartbeat within a range, as unions; Unix ms. */
export interface Availability {
  /** A report was expected: neither before the first ping nor in a pause. */
  expected: readonly Interval[];
  /** Of `expected`, without maintenance. */
  counted: readonly Interval[];
  /** Confirmed outages. */
  down: readonly Interval[];
}

/** {@link Availability} of the heartbeats among the targets of an organisation. Without a scope check. */
export async function availabilityOf(
  system: System,
  orgId: string,
  targetIds: readonly string[],
  range: { from: Date; to: Date },
): Promise<Map<string, Availability>> {
  const now = system.clock.now();
  const expected = await expectedOf(system, orgId, targetIds, range);
  const ids = [...expected.keys()];
  if (ids.length === 0) return new Map();
  const [outages, windows, imported] = await Promise.all([
    outagesOf(system, orgId, ids, range),
    windowsOf(system, orgId, ids, range),
    importedDays(system, orgId, ids, range),
  ]);
  const down = grouped(
    outages.filter(({ state }) => state !== "degraded"),
    now,
  );
  const maintenance = grouped(
    windows.flatMap(({ target_ids: covered, ...times }) => covered.map((target_id) => ({ target_id, ...times }))),
    now,
  );
  return new Map(
    ids.map((id) => {
      const days = (imported.get(id) ?? []).flatMap((day) => timesOf(day) ?? []);
      const own = union([...expected.get(id)!, ...days]);
      return [
        id,
        {
          expected: own,
          counted: difference(own, maintenance.get(id) ?? []),
          down: union([...(down.get(id) ?? []), ...days.flatMap((day) => day.down ?? [])]),
        },
      ] as const;
    }),
  );
}

/**
 * Times of a range in which reports were expected, as unions, of the heartbeats among the targets. Without a scope
 * check, and without imported days.
 */
export async function expectedOf(
  { sql, clock }: System,
  orgId: string,
  targetIds: readonly string[],
  range: { from: Date; to: Date },
): Promise<Map<string, Interval[]>> {
  const now = clock.now();
  const span = { start: range.from.getTime(), end: Math.min(range.to.getTime(), now) };
  const expected = grouped(await selectExpected(sql, orgId, targetIds, range), now);
  return new Map([...expected].map(([id, own]) => [id, intersection(own, [span])]));
}

/** Four decimals, rounded down: 100 means no failure. Null stays null. */
export const shownPct = (pct: number | null): number | null =>
  pct === null ? null : Math.floor(pct * 10_000 + 1e-6) / 10_000;

/** Percent of the counted time without an outage, as it is shown; null without counted time. */
export function shareOf({ counted, down }: Availability): number | null {
  const total = length(counted);
  return total === 0 ? null : shownPct(100 - (100 * length(intersection(counted, down))) / total);
}

/** State of a slice of time: down where any of it was. */
export function sliceState({ expected, down }: Availability, slice: Interval): "up" | "down" | "none" {
  const own = intersection(expected, [slice]);
  if (own.length === 0) return "none";
  return intersection(own, down).length > 0 ? "down" : "up";
}

/** State of a day, of which an outage may be a part. */
export function dayState({ expected, down }: Availability, day: Interval): "up" | "partial" | "down" | "none" {
  const own = intersection(expected, [day]);
  if (own.length === 0) return "none";
  const failedMs = length(intersection(own, down));
  return failedMs === 0 ? "up" : failedMs * 2 > length(own) ? "down" : "partial";
}

/** The union of the times of each target; what has not ended lasts until now. */
function grouped(rows: readonly ExpectedRow[], now: number): Map<string, Interval[]> {
  const spans = new Map<string, Interval[]>();
  for (const { target_id, starts_at, ends_at } of rows)
    getOrMake(spans, target_id, () => []).push({ start: starts_at.getTime(), end: ends_at?.getTime() ?? now });
  return new Map([...spans].map(([id, own]) => [id, union(own)]));
}

import { dayMs, hourMs } from "@statusmesh/shared/time";
import type { System } from "../../platform/context.ts";
import { mapInTurns } from "../../platform/http/turns.ts";
import { selectDayHours, selectStretches, type TargetDay } from "./probed-queries.ts";

/** A time range, Unix ms. */
interface Span {
  start: number;
  end: number;
}

/** Unix ms. */
interface ProbedLimits {
  created: number;
  lastRun: number;
}

/**
 * Time in which targets were checked in the last `days` days, oldest first: stretches of whole UTC days with runs, at
 * both ends from the first or to the last hour with a run. `limits` bounds the time of a target: no span begins before
 * `created`, and the newest one ends at `lastRun`. Reads two days per stretch instead of 90.
 */
export async function probedSpans(
  { sql, clock }: System,
  orgId: string,
  targetIds: readonly string[],
  days: number,
  limits: (targetId: string) => ProbedLimits,
): Promise<Map<string, Span[]>> {
  const now = clock.now();
  const firstDay = new Date(now - days * dayMs).toISOString().slice(0, 10);
  const stretches = targetIds.length === 0 ? [] : await selectStretches(sql, orgId, targetIds, firstDay, now);
  const isOver = (day: string): boolean => Date.parse(day) + dayMs <= now;
  const edges: TargetDay[] = [];
  for (const { target_id, first, last } of stretches) {
    edges.push({ target_id, day: first });
    if (last !== first && isOver(last)) edges.push({ target_id, day: last });
  }
  const rows = edges.length === 0 ? [] : await selectDayHours(sql, orgId, edges);
  const hours = new Map(rows.map((row) => [`${row.target_id} ${row.day}`, row]));
  const spans = new Map<string, Span[]>();
  await mapInTurns(stretches, ({ target_id, first, last }) => {
    const { created, lastRun } = limits(target_id);
    const start = Math.max(hours.get(`${target_id} ${first}`)?.first.getTime() ?? Date.parse(first), created);
    const lastHour = hours.get(`${target_id} ${last}`)?.last.getTime();
    const end = isOver(last)
      ? lastHour === undefined
        ? Date.parse(last) + dayMs
        : lastHour + hourMs
      : // Also bounds the hours of today that are not counted yet.
        Math.min(now, Math.max(lastRun, start, Date.parse(last)));
    if (end <= start) return;
    const own = spans.get(target_id);
    if (own === undefined) spans.set(target_id, [{ start, end }]);
    else own.push({ start, end });
  });
  return spans;
}

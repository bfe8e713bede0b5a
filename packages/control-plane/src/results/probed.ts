import type { System } from "../context.ts";
import { selectDayHours, type TargetDay } from "./probed-queries.ts";
import type { Counts } from "./queries.ts";

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

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
 * Time in which targets were checked, oldest first: whole UTC days with runs, and at both ends of such a stretch from
 * the first or to the last hour with a run. `counts` is the answer of `dailyCounts`. `limits` bounds the time of a
 * target: no span begins before `created`, and the newest one ends at `lastRun`. Reads two days per stretch instead of
 * 90.
 */
export async function probedSpans(
  system: System,
  orgId: string,
  counts: ReadonlyMap<string, ReadonlyMap<string, Counts>>,
  limits: (targetId: string) => ProbedLimits,
): Promise<Map<string, Span[]>> {
  const today = system.clock.now();
  const edges: TargetDay[] = [];
  for (const [target_id, days] of counts)
    for (const day of days.keys())
      if (!days.has(shifted(day, -1)) || (!days.has(shifted(day, 1)) && Date.parse(day) + dayMs <= today))
        edges.push({ target_id, day });
  const rows = edges.length === 0 ? [] : await selectDayHours(system.sql, orgId, edges);
  const hours = new Map(rows.map((row) => [`${row.target_id} ${row.day}`, row]));

  const spans = new Map<string, Span[]>();
  for (const [id, days] of counts) {
    const own: Span[] = [];
    const { created, lastRun } = limits(id);
    for (const day of [...days.keys()].sort()) {
      const midnight = Date.parse(day);
      const known = hours.get(`${id} ${day}`);
      const before = own.at(-1);
      const joined = before?.end === midnight;
      const first = joined || known === undefined ? midnight : known.first.getTime();
      // Also bounds the hours of today that are not counted yet.
      const start = Math.max(first, created);
      const isLast = !days.has(shifted(day, 1));
      const end =
        midnight + dayMs > today
          ? Math.min(today, Math.max(lastRun, start))
          : isLast && known !== undefined
            ? known.last.getTime() + hourMs
            : midnight + dayMs;
      if (joined) before!.end = end;
      else if (end > start) own.push({ start, end });
    }
    spans.set(id, own);
  }
  return spans;
}

const shifted = (day: string, by: number): string => new Date(Date.parse(day) + by * dayMs).toISOString().slice(0, 10);

import { dayMs, hourMs } from "@statusmesh/shared/time";
import type { System } from "../../platform/context.ts";
import { mapInTurns } from "../../platform/http/turns.ts";
import { selectDayHours, type TargetDay } from "./probed-queries.ts";
import type { Counts } from "./queries.ts";

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
  const { before, after } = neighbours();
  await mapInTurns([...counts], ([target_id, days]) => {
    for (const day of days.keys())
      if (!days.has(before(day)) || (!days.has(after(day)) && Date.parse(day) + dayMs <= today))
        edges.push({ target_id, day });
  });
  const rows = edges.length === 0 ? [] : await selectDayHours(system.sql, orgId, edges);
  const hours = new Map(rows.map((row) => [`${row.target_id} ${row.day}`, row]));

  const spansOf = ([id, days]: readonly [string, ReadonlyMap<string, Counts>]) => {
    const own: Span[] = [];
    const { created, lastRun } = limits(id);
    for (const day of [...days.keys()].sort()) {
      const midnight = Date.parse(day);
      const known = hours.get(`${id} ${day}`);
      const last = own.at(-1);
      const joined = last?.end === midnight;
      const first = joined || known === undefined ? midnight : known.first.getTime();
      // Also bounds the hours of today that are not counted yet.
      const start = Math.max(first, created);
      const isLast = !days.has(after(day));
      const end =
        midnight + dayMs > today
          ? Math.min(today, Math.max(lastRun, start))
          : isLast && known !== undefined
            ? known.last.getTime() + hourMs
            : midnight + dayMs;
      if (joined) last!.end = end;
      else if (end > start) own.push({ start, end });
    }
    return [id, own] as const;
  };
  return new Map(await mapInTurns([...counts], spansOf));
}

/** Neighbours of the days of one computation: 1,000 targets have 90,000 days with the same ones. */
function neighbours(): { before: (day: string) => string; after: (day: string) => string } {
  const shifted = (by: number) => {
    const known = new Map<string, string>();
    return (day: string): string => {
      let found = known.get(day);
      if (found === undefined)
        known.set(day, (found = new Date(Date.parse(day) + by * dayMs).toISOString().slice(0, 10)));
      return found;
    };
  };
  return { before: shifted(-1), after: shifted(1) };
}

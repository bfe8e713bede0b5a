import { dayMs, hourMs, utcDay } from "@statusmesh/shared/time";
import { getOrMake } from "../../../platform/caches.ts";
import type { System } from "../../../platform/context.ts";
import type { Interval } from "../../../platform/intervals.ts";
import { mapInTurns } from "../../../platform/process/turns.ts";
import { sourcesOf } from "../hours.ts";
import type { TargetDay } from "../packing/pack-hours-queries.ts";
import * as queries from "./probed-queries.ts";
import type { Range } from "../range.ts";
import { selectNextHour } from "../rollups/rollup-queries.ts";

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
  system: System,
  orgId: string,
  targetIds: readonly string[],
  days: number,
  limits: (targetId: string) => ProbedLimits,
): Promise<Map<string, Interval[]>> {
  if (targetIds.length === 0) return new Map();
  const now = system.clock.now();
  const first = utcDay(now - days * dayMs);
  const nextHour = await selectNextHour(system.sql);
  const around = { first, last: "infinity" };
  const stretches = await queries.selectStretches(system.sql, orgId, targetIds, around, { nextHour, now });
  return await spansOf(system, orgId, stretches, { start: Date.parse(first), end: Infinity }, limits);
}

/** Time in which a target was checked, as {@link probedSpans} has it, and its runs. */
export interface Checked {
  spans: readonly Interval[];
  /** Number of runs of a slot in the range. */
  checks: number;
}

/**
 * {@link Checked} of targets in a range of up to 400 days. Spans may reach over its ends. Days come from their sums:
 * 10,000 targets have four million, which are read once.
 */
export async function checkedTime(
  system: System,
  orgId: string,
  targetIds: readonly string[],
  range: Range,
  limits: (targetId: string) => ProbedLimits,
): Promise<Map<string, Checked>> {
  if (targetIds.length === 0) return new Map();
  const { sql, clock } = system;
  const now = clock.now();
  const countedTo = await selectNextHour(sql);
  const { hours, runs } = sourcesOf(range, countedTo);
  const days = hours === null ? null : wholeDays(hours);
  // Sums of today are those of its rolled-up hours: a range with all of them reads no hours but those of its first day.
  const isUntilNow = days !== null && range.to >= countedTo!;
  // A day more at both ends: a stretch that goes on there has no edge in the range.
  const around = { first: utcDay(range.from.getTime() - dayMs), last: utcDay(range.to.getTime() + dayMs) };
  // Parts of hours that have sums, whose other part is outside of the range.
  const partial = countedTo === null ? [] : runs.map(({ from, to }) => ({ from, to: to < countedTo ? to : countedTo }));
  const rows = await queries.selectChecked(
    sql,
    orgId,
    targetIds,
    around,
    range,
    {
      days: isUntilNow ? { from: days.from, to: null } : days,
      hours: hours === null ? [] : without(hours, isUntilNow ? { from: days.from, to: hours.to } : days),
      runs: partial.filter(({ from, to }) => from < to),
    },
    { nextHour: countedTo, now },
  );
  const holed = rows.filter(hasHoles).map((row) => row.target_id);
  const stretches: queries.StretchRow[] =
    holed.length === 0 ? [] : await queries.selectStretches(sql, orgId, holed, around, { nextHour: countedTo, now });
  for (const row of rows) if (!hasHoles(row)) stretches.push(...stretchesOf(row));
  const span = { start: range.from.getTime(), end: range.to.getTime() };
  const spans = await spansOf(system, orgId, stretches, span, limits);
  const checks = new Map(rows.map((row) => [row.target_id, row.checks]));
  return new Map(targetIds.map((id) => [id, { spans: spans.get(id) ?? [], checks: checks.get(id) ?? 0 }]));
}

/** Whether days between the first and the last one are missing, as far as the row tells. */
const hasHoles = ({ first, last, days, recent_first: start, recent_last: end }: queries.CheckedRow): boolean =>
  (first !== null && daysTo(first, last!) + 1 > days) ||
  (start !== null && daysTo(utcDay(start.getTime()), utcDay(end!.getTime())) > 1);

/** The stretch of rolled-up days and that of recent runs, as one where they touch. */
function stretchesOf({
  target_id,
  first,
  last,
  recent_first: start,
  recent_last: end,
}: queries.CheckedRow): queries.StretchRow[] {
  const summed = first === null ? null : { target_id, first, last: last! };
  if (start === null) return summed === null ? [] : [summed];
  const recent = { target_id, first: utcDay(start.getTime()), last: utcDay(end!.getTime()) };
  if (summed === null) return [recent];
  if (daysTo(summed.last, recent.first) > 1) return [summed, recent];
  return [{ target_id, first: summed.first, last: recent.last > summed.last ? recent.last : summed.last }];
}

const daysTo = (from: string, to: string): number => (Date.parse(to) - Date.parse(from)) / dayMs;

/** The whole UTC days in a range of hours; null for none. */
function wholeDays({ from, to }: Range): Range | null {
  const start = Math.ceil(from.getTime() / dayMs) * dayMs;
  const end = Math.floor(to.getTime() / dayMs) * dayMs;
  return start < end ? { from: new Date(start), to: new Date(end) } : null;
}

/** The parts of a range before and after a part of it. */
const without = (range: Range, part: Range | null): Range[] =>
  part === null
    ? [range]
    : [
        { from: range.from, to: part.from },
        { from: part.to, to: range.to },
      ].filter(({ from, to }) => from < to);

/** The spans of stretches. Reads the hours of those ends that are in `range`. */
async function spansOf(
  { sql, clock }: System,
  orgId: string,
  stretches: readonly queries.StretchRow[],
  range: Interval,
  limits: (targetId: string) => ProbedLimits,
): Promise<Map<string, Interval[]>> {
  const now = clock.now();
  const isOver = (day: string): boolean => Date.parse(day) + dayMs <= now;
  const isRead = (day: string): boolean => Date.parse(day) < range.end && Date.parse(day) + dayMs > range.start;
  const edges: TargetDay[] = [];
  for (const { target_id, first, last } of stretches) {
    if (isRead(first)) edges.push({ target_id, day: first });
    if (last !== first && isOver(last) && isRead(last)) edges.push({ target_id, day: last });
  }
  const rows = edges.length === 0 ? [] : await queries.selectDayHours(sql, orgId, edges);
  const hours = new Map(rows.map((row) => [`${row.target_id} ${row.day}`, row]));
  const spans = new Map<string, Interval[]>();
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
    getOrMake(spans, target_id, () => []).push({ start, end });
  });
  return spans;
}

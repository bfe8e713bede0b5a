import { dayMs, utcDay } from "@statusmesh/shared/time";
import type { Impact, Severity } from "../../../alerting/incidents/schema.ts";
import { outageState } from "../../../alerting/incidents/reports/service.ts";
import type { MonitorStatus } from "../../../monitoring/targets/schema.ts";
import { difference, firstAfter, intersection, type Interval, length, union } from "../../../platform/intervals.ts";
import { instantOf, localOf } from "@statusmesh/shared/zoned";

/** A calendar day of a time zone. */
export interface Day extends Interval {
  /** `2026-11-20` */
  date: string;
}

/** The last `count` days of a time zone up to that of `now`, oldest first. The last one ends at `now`. */
export function daysUntil(now: number, count: number, timeZone: string): Day[] {
  const today = Math.floor(localOf(now, timeZone) / dayMs) * dayMs;
  const starts = Array.from({ length: count }, (_, at) => instantOf(today - (count - 1 - at) * dayMs, timeZone));
  return starts.map((start, at) => ({
    date: utcDay(today - (count - 1 - at) * dayMs),
    start,
    end: starts[at + 1] ?? now,
  }));
}

/** Public state of a component. */
export const componentStates = [
  "operational",
  "degraded",
  "partial_outage",
  "major_outage",
  "maintenance",
  "no_data",
] as const;
export type ComponentState = (typeof componentStates)[number];

/** Worst last. On one component maintenance replaces an outage; across components an outage outranks maintenance. */
const ranking: readonly ComponentState[] = [
  "no_data",
  "operational",
  "maintenance",
  "degraded",
  "partial_outage",
  "major_outage",
];
const rank = (state: ComponentState): number => ranking.indexOf(state);

/** The worst of the states; `no_data` for an empty list. */
export function worst(states: Iterable<ComponentState>): ComponentState {
  let found: ComponentState = "no_data";
  for (const state of states) if (rank(state) > rank(found)) found = state;
  return found;
}

/** Current state of a component: maintenance first, then its open incident, then whether there is live data. */
export function componentState(now: {
  inMaintenance: boolean;
  incident: { severity: Severity; impact: Impact } | null;
  status: MonitorStatus;
}): ComponentState {
  if (now.inMaintenance) return "maintenance";
  if (now.incident !== null) return outageState(now.incident.severity, now.incident.impact);
  return now.status === "unknown" ? "no_data" : "operational";
}

export interface IncidentSpan extends Interval {
  state: Impact;
}

export interface DayCell {
  /** `2026-11-20` */
  date: string;
  state: ComponentState;
  /** Seconds of the day with an outage that was more than degraded, outside maintenance windows. */
  downtime_secs: number;
  /** True for a day with runs of another product. */
  imported?: true;
}

/** The past of a component. Ranges that last end at the time of the computation. */
export interface History {
  incidents: readonly IncidentSpan[];
  /** Maintenance windows, a union. */
  maintenance: readonly Interval[];
  /** Time in which the monitor was checked, a union. */
  probed: readonly Interval[];
  /** Days that another product checked: part of `probed`, with their outages in `incidents`. */
  imported?: readonly Interval[];
}

/**
 * A cell for each day. A day has the worst state of its outages; a maintenance window replaces it; a day without
 * checks has no data. `windows` are those of each day, given where many components share them.
 */
export function dayCells(
  days: readonly Day[],
  { incidents, maintenance, probed, imported = [] }: History,
  windows: readonly (readonly Interval[])[] = byDay(days, maintenance),
): DayCell[] {
  const isProbed = touchedDays(days, probed);
  const isImported = touchedDays(days, imported);
  const incidentsOf = incidents.length === 0 ? null : byDay(days, incidents);
  return days.map((day, at) => {
    const own = incidentsOf?.[at] ?? [];
    const down = own.length === 0 ? [] : difference(union(own.filter(isDown)), windows[at]!);
    return {
      date: day.date,
      state:
        windows[at]!.length > 0
          ? "maintenance"
          : isProbed[at]!
            ? worst(["operational", ...own.map(({ state }) => state)])
            : "no_data",
      downtime_secs: down.length === 0 ? 0 : Math.round(length(intersection(down, [day])) / 1000),
      ...(isImported[at] === true ? { imported: true as const } : {}),
    };
  });
}

/** Time that counts for the uptime, a union, and its milliseconds in each day. */
export interface CountedTime {
  spans: readonly Interval[];
  msByDay: readonly number[];
}

/** The checked time of the days without planned maintenance. */
export function countedTime(days: readonly Day[], { maintenance, probed }: Omit<History, "incidents">): CountedTime {
  const range = { start: days[0]!.start, end: days.at(-1)!.end };
  const spans = difference(intersection(probed, [range]), maintenance);
  return { spans, msByDay: msByDay(days, spans) };
}

/**
 * Share of the checked time of the last days without a confirmed outage, 0 to 100, by the number of days: degraded
 * time counts as up, planned maintenance is left out. Null without checked time. `counted` is given where many
 * components share it.
 */
export function uptimesOf(
  days: readonly Day[],
  history: History,
  counted: CountedTime = countedTime(days, history),
): (number | null)[] {
  const down = intersection(counted.spans, union(history.incidents.filter(isDown)));
  const [countedMs, downMs] = [counted.msByDay, msByDay(days, down)];
  const uptimes: (number | null)[] = [null];
  let [total, failed] = [0, 0];
  for (let at = days.length - 1; at >= 0; at--) {
    total += countedMs[at]!;
    failed += downMs[at]!;
    uptimes.push(total === 0 ? null : 100 - (100 * failed) / total);
  }
  return uptimes;
}

/** The spans that touch each day, in their order. */
export function byDay<S extends Interval>(days: readonly Day[], spans: readonly S[]): S[][] {
  const found: S[][] = days.map(() => []);
  for (const span of spans)
    for (let at = firstAfter(days, span.start); at < days.length && touches(span, days[at]!); at++)
      found[at]!.push(span);
  return found;
}

/** For each day whether a span touches it. */
function touchedDays(days: readonly Day[], spans: readonly Interval[]): boolean[] {
  const touched = days.map(() => false);
  for (const span of spans)
    for (let at = firstAfter(days, span.start); at < days.length && touches(span, days[at]!); at++) touched[at] = true;
  return touched;
}

/** Milliseconds of a union in each day. */
function msByDay(days: readonly Day[], ranges: readonly Interval[]): number[] {
  const ms = days.map(() => 0);
  for (const { start, end } of ranges)
    for (let at = firstAfter(days, start); at < days.length && days[at]!.start < end; at++)
      ms[at]! += Math.min(end, days[at]!.end) - Math.max(start, days[at]!.start);
  return ms;
}

const isDown = ({ state }: IncidentSpan): boolean => state !== "degraded";

/** A range without duration still counts for its day. */
const touches = (span: Interval, day: Day): boolean =>
  span.start < day.end && (span.end > day.start || span.start >= day.start);

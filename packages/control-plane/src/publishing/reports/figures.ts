import {
  type Coverage,
  difference,
  firstAfter,
  intersection,
  type Interval,
  length,
  union,
} from "../../platform/intervals.ts";
import { shownPct } from "../../monitoring/heartbeats/schedule/service.ts";

/** What is known of a monitor around a range. Ranges of time are unions. */
export interface Past {
  /** Time in which it was checked. */
  probed: readonly Interval[];
  /** Confirmed outages that were more than degraded. */
  down: readonly Interval[];
  maintenance: Coverage;
  /** Runs, incidents that began, those of them with a time to resolve, and their time of outage in ms. */
  checks: number;
  incidents: number;
  resolved: number;
  outageMs: number;
}

/** Sums of a range; those of several monitors add up. Milliseconds, as long as they are summed. */
export interface Figures extends Pick<Past, "checks" | "incidents" | "resolved" | "outageMs"> {
  /** Checked time without maintenance, and the part of it with an outage. */
  countedMs: number;
  failedMs: number;
  /** Outages outside of maintenance, as the days of a status page count them: also where no check ran. */
  downtimeMs: number;
  maintenanceMs: number;
  /** The time of the range in which any of the monitors was checked, a union. */
  probed: readonly Interval[];
}

const zeros = {
  countedMs: 0,
  failedMs: 0,
  downtimeMs: 0,
  maintenanceMs: 0,
  checks: 0,
  incidents: 0,
  resolved: 0,
  outageMs: 0,
} satisfies Omit<Figures, "probed">;
const names = Object.keys(zeros) as (keyof typeof zeros)[];

/** The figures of one monitor, by the rules of status pages: `uptimesOf` and `dayCells` in public/states.ts. */
export function figuresOf(range: Interval, { probed, down, maintenance, ...totals }: Past): Figures {
  const checked = intersection(probed, [range]);
  const outside = (times: readonly Interval[]) => length(times) - maintenance.within(times);
  return {
    ...totals,
    countedMs: outside(checked),
    failedMs: outside(intersection(checked, down)),
    downtimeMs: outside(intersection(down, [range])),
    maintenanceMs: maintenance.within([range]),
    probed: checked,
  };
}

/** The figures of several monitors or groups as those of one. Those of many are added at once: times are merged. */
export function sumOf(parts: readonly Figures[]): Figures {
  const sums = { ...zeros };
  for (const part of parts) for (const name of names) sums[name] += part[name];
  return { ...sums, probed: union(parts.flatMap(({ probed }) => probed)) };
}

/** Adds the downtime of a monitor in a range, as {@link figuresOf} counts it, to the days of the range. */
export function addDowntime(
  days: readonly (Interval & { ms: number })[],
  range: Interval,
  { down, maintenance }: Pick<Past, "down" | "maintenance">,
): void {
  for (const outage of intersection(down, [range]))
    for (let at = firstAfter(days, outage.start); at < days.length && days[at]!.start < outage.end; at++) {
      const parts = intersection([outage], [days[at]!]);
      days[at]!.ms += length(parts) - maintenance.within(parts);
    }
}

/** A range has 400 days; a heartbeat has a gap for each pause. */
const mostGaps = 200;

/** Figures as a report shows them. Null: nothing was measured, and for `mttr_secs` no incident has ended. */
export function shown(range: Interval, figures: Figures) {
  const { countedMs, failedMs, probed, resolved } = figures;
  const gaps = difference([range], probed);
  const long = [...gaps].sort((a, b) => b.end - b.start - (a.end - a.start)).slice(0, mostGaps);
  return {
    uptime_pct: countedMs === 0 ? null : shownPct(100 - (100 * failedMs) / countedMs),
    checks: figures.checks,
    downtime_secs: probed.length === 0 ? null : Math.round(figures.downtimeMs / 1000),
    incidents: figures.incidents,
    mttr_secs: resolved === 0 ? null : Math.round(figures.outageMs / resolved / 1000),
    maintenance_secs: Math.round(figures.maintenanceMs / 1000),
    gaps: (gaps.length > mostGaps ? long.sort((a, b) => a.start - b.start) : gaps).map(({ start, end }) => ({
      from: new Date(start).toISOString(),
      to: new Date(end).toISOString(),
    })),
  };
}

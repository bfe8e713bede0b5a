import { dayMs } from "@statusmesh/shared/time";
import { getOrMake } from "../../../platform/caches.ts";
import type { System } from "../../../platform/context.ts";
import { outageState } from "../../../alerting/incidents/reports/service.ts";
import { expectedOf } from "../../../monitoring/heartbeats/schedule/service.ts";
import { type DayTimes, importedDays, timesOf as dayTimes } from "../../../monitoring/history/service.ts";
import { probedSpans } from "../../../monitoring/results/history/service.ts";
import type { PageWindowRow } from "../../../alerting/maintenance/service.ts";
import { inGroups, type PublicComponentRow } from "../../status-pages/components/service.ts";
import { byDay, type CountedTime, countedTime, type Day, type History } from "./states.ts";
import { type Interval, union } from "../../../platform/intervals.ts";
import type * as queries from "../queries.ts";
import type { PublicComponent, PublicStatus } from "../schema.ts";

export const historyDays = 90;

/** Merged maintenance of this many sets of windows is kept during a computation. */
const keptSets = 50;

/**
 * Answers what a component went through: its outages, its maintenance and the time in which it was checked.
 * Components in the same windows share their merged maintenance.
 */
export function historiesOf(read: {
  now: number;
  spans: readonly queries.SpanRow[];
  windows: readonly PageWindowRow[];
  probed: ReadonlyMap<string, History["probed"]>;
  imported: ReadonlyMap<string, readonly DayTimes[]>;
}): (id: string) => History {
  const spans = grouping(read.spans, (span) => span.component_id);
  // Occurrences of a window share their list of targets.
  const series = [...grouping(read.windows, (window) => window.target_ids)].map(([ids, windows]) => ({
    ids,
    spans: windows.map((window) => ({ start: window.starts_at.getTime(), end: window.ends_at.getTime() })),
  }));
  const seriesOf = new Map<string, number[]>();
  for (const [at, { ids }] of series.entries()) for (const id of ids) getOrMake(seriesOf, id, () => []).push(at);
  const merged = new Map<string, History["maintenance"]>();
  const maintenanceOf = (id: string): History["maintenance"] => {
    const own = seriesOf.get(id) ?? [];
    const key = own.join();
    const known = merged.get(key);
    if (known !== undefined) return known;
    const maintenance = union(own.flatMap((at) => series[at]!.spans));
    if (merged.size >= keptSets) merged.clear();
    merged.set(key, maintenance);
    return maintenance;
  };
  return (id) => {
    const outages: History["incidents"][number][] = [];
    const maintained: Interval[] = [];
    for (const { started_at, ended_at, pinned_severity: pinned, impact } of spans.get(id) ?? []) {
      const [start, end] = [started_at.getTime(), ended_at?.getTime() ?? read.now];
      if (impact === "maintenance") maintained.push({ start, end });
      else outages.push({ start, end, state: outageState(pinned, impact) });
    }
    const own: History = {
      incidents: outages,
      maintenance: maintained.length === 0 ? maintenanceOf(id) : union(maintained),
      probed: read.probed.get(id) ?? [],
    };
    const imported = read.imported.get(id);
    if (imported === undefined) return own;
    return {
      ...own,
      incidents: [...own.incidents, ...imported.flatMap(importedOutages)],
      probed: union([...own.probed, ...imported]),
      imported,
    };
  };
}

/** Outages of an imported day, whose extent is not known: a major one where most of its runs failed. */
function importedOutages({ start, end, down, degraded }: DayTimes): History["incidents"][number][] {
  const failed = down === null ? [] : [{ ...down, state: worstOf(down, end - start) }];
  return degraded ? [...failed, { start, end, state: "degraded" }] : failed;
}

const worstOf = ({ start, end }: Interval, dayMs: number) =>
  (end - start) * 2 > dayMs ? ("major_outage" as const) : ("partial_outage" as const);

/**
 * Answers the maintenance of each day and the time that counts: computed once for components that were in the same
 * windows and checked at the same times, as most are.
 */
export function sharedTimes(
  days: readonly Day[],
): (history: History) => { windows: Interval[][]; counted: CountedTime } {
  interface Shared {
    windows: Interval[][];
    byProbed: Map<string, CountedTime>;
  }
  const known = new WeakMap<History["maintenance"], Shared>();
  const [from, to] = [days[0]!.start, days.at(-1)!.end];
  return (history) => {
    const { maintenance, probed } = history;
    const { windows, byProbed } = getOrMake(known, maintenance, () => ({
      windows: byDay(days, maintenance),
      byProbed: new Map(),
    }));
    const key = probed.map(({ start, end }) => `${Math.max(start, from)} ${Math.min(end, to)}`).join();
    let counted = byProbed.get(key);
    if (counted === undefined) {
      counted = countedTime(days, history);
      if (byProbed.size >= keptSets) byProbed.clear();
      byProbed.set(key, counted);
    }
    return { windows, counted };
  };
}

/** Days since `since` that another product checked, by component. */
export async function importedTime(system: System, orgId: string, ids: readonly string[], since: Date) {
  const days = await importedDays(system, orgId, ids, { from: since, to: new Date(system.clock.now()) });
  return new Map([...days].map(([id, own]) => [id, own.flatMap((day) => dayTimes(day) ?? [])] as const));
}

/** Time of the newest result of any component; null before the first. */
export function newestResult(rows: readonly PublicComponentRow[]): Date | null {
  const times = rows.flatMap((row) => row.last_result_at?.getTime() ?? []);
  return times.length === 0 ? null : new Date(Math.max(...times));
}

/** Time in which each component was checked. A monitor with live votes is checked until now. */
export async function probedTime(system: System, orgId: string, rows: readonly PublicComponentRow[]) {
  const now = system.clock.now();
  const ids = rows.map((row) => row.id);
  const limits = new Map(
    rows.map((row) => [
      row.id,
      {
        created: row.created_at.getTime(),
        lastRun: row.status === "unknown" ? (row.last_result_at?.getTime() ?? 0) : now,
      },
    ]),
  );
  const [probed, expected] = await Promise.all([
    probedSpans(system, orgId, ids, historyDays, (id) => limits.get(id)!),
    expectedOf(system, orgId, ids, { from: new Date(now - (historyDays + 1) * dayMs), to: new Date(now) }),
  ]);
  return new Map([...probed, ...expected]);
}

/** Items by key, in the order of their first item. */
export function grouping<K, T>(items: readonly T[], keyOf: (item: T) => K): Map<K, T[]> {
  const groups = new Map<K, T[]>();
  for (const item of items) getOrMake(groups, keyOf(item), () => []).push(item);
  return groups;
}

export const grouped = (
  components: readonly { group: string | null; component: PublicComponent }[],
): PublicStatus["groups"] =>
  inGroups(components, ({ group }) => group).map(({ name, items }) => ({
    name,
    components: items.map(({ component }) => component),
  }));

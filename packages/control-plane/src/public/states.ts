import type { Impact, Severity } from "../incidents/schema.ts";
import type { MonitorStatus } from "../targets/schema.ts";

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

const labels: Record<ComponentState, string> = {
  operational: "All Systems Operational",
  maintenance: "Maintenance in progress",
  degraded: "Minor Service Disruption",
  partial_outage: "Partial System Outage",
  major_outage: "Major System Outage",
  no_data: "No Monitoring Data",
};

/** The banner: the worst state and its label. A component without data hides no other. */
export function banner(states: Iterable<ComponentState>): { state: ComponentState; label: string } {
  const state = worst(states);
  return { state, label: labels[state] };
}

/** The component state during an incident. `impact` is the share of regions that see it: now, or at its peak. */
export function incidentState(severity: Severity, impact: Impact): "degraded" | "partial_outage" | "major_outage" {
  if (severity === "minor") return "degraded";
  if (severity === "critical") return "major_outage";
  return impact === "major_outage" ? "major_outage" : "partial_outage";
}

/** Current state of a component: maintenance first, then its open incident, then whether there is live data. */
export function componentState(now: {
  inMaintenance: boolean;
  incident: { severity: Severity; impact: Impact } | null;
  status: MonitorStatus;
}): ComponentState {
  if (now.inMaintenance) return "maintenance";
  if (now.incident !== null) return incidentState(now.incident.severity, now.incident.impact);
  return now.status === "unknown" ? "no_data" : "operational";
}

/** A time range, Unix ms; `end` is null while it lasts. */
export interface Span {
  start: number;
  end: number | null;
}

export interface IncidentSpan extends Span {
  severity: Severity;
  /** Share of regions that saw it at its peak. */
  impact: Impact;
}

/** One UTC day of a component. */
export interface DayCell {
  /** `2026-11-20` */
  date: string;
  state: ComponentState;
  /** Seconds of the day inside incidents that were more than minor. */
  downtime_secs: number;
}

const dayMs = 86_400_000;

/**
 * The cells of the last `days` UTC days up to that of `now`, oldest first. A day has the worst state of its incidents; a
 * maintenance window replaces it; a day that is not in `checkedDays` has no data.
 */
export function dayCells(
  now: number,
  days: number,
  history: { incidents: readonly IncidentSpan[]; maintenance: readonly Span[]; checkedDays: ReadonlySet<string> },
): DayCell[] {
  const today = Math.floor(now / dayMs) * dayMs;
  return Array.from({ length: days }, (_, index) => {
    const day: Span & { end: number } = {
      start: today - (days - 1 - index) * dayMs,
      end: Math.min(today - (days - 2 - index) * dayMs, now),
    };
    const date = new Date(day.start).toISOString().slice(0, 10);
    const own = history.incidents.filter((incident) => touches(incident, day));
    const downtime = own
      .filter((incident) => incident.severity !== "minor")
      .reduce((total, incident) => total + overlap(incident, day), 0);
    return { date, state: dayState(date, day, own, history), downtime_secs: Math.round(downtime / 1000) };
  });
}

function dayState(
  date: string,
  day: Span & { end: number },
  incidents: readonly IncidentSpan[],
  history: { maintenance: readonly Span[]; checkedDays: ReadonlySet<string> },
): ComponentState {
  if (history.maintenance.some((window) => touches(window, day))) return "maintenance";
  if (!history.checkedDays.has(date)) return "no_data";
  return worst(["operational", ...incidents.map((incident) => incidentState(incident.severity, incident.impact))]);
}

/** An incident without duration still counts for its day. */
const touches = (span: Span, day: Span & { end: number }): boolean =>
  span.start < day.end && (span.end === null || span.end > day.start || span.start >= day.start);

const overlap = (span: Span, day: Span & { end: number }): number =>
  Math.max(0, Math.min(span.end ?? day.end, day.end) - Math.max(span.start, day.start));

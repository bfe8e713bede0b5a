import type { Visit } from "../context.ts";
import { iso, isoOrNull } from "../http/wire.ts";
import { type Counts, dailyCounts, sum, uptimePct } from "../results/service.ts";
import { type PageWindowRow, windowsOf } from "../maintenance/service.ts";
import { publicComponents, servedPage } from "../status-pages/service.ts";
import type { Branding } from "../status-pages/schema.ts";
import * as queries from "./queries.ts";
import type { PublicComponent, PublicIncident, PublicMaintenance, PublicStatus } from "./schema.ts";
import { banner, componentState, dayCells, incidentState } from "./states.ts";

const dayMs = 86_400_000;
export const historyDays = 90;
const recentDays = 30;
const upcomingDays = 7;
/** Limits the page of a flapping monitor. Open incidents come first. */
const maxIncidents = 500;

/** Everything that one page shows. */
export interface ServedStatus {
  orgId: string;
  pageId: string;
  branding: Branding;
  /** Time of the newest result of any component; null before the first. */
  checkedAt: Date | null;
  /** Runs per component and UTC day, for uptime over fewer days than the page shows. */
  runs: Map<string, Map<string, Counts>>;
  status: PublicStatus;
}

/** Computes the requested page with five queries. Null when no page is published there. */
export async function computeStatus(system: Visit): Promise<ServedStatus | null> {
  const page = await servedPage(system);
  if (page === null) return null;
  const now = system.clock.now();
  const rows = await publicComponents(system, page);
  const range = { from: new Date(now - historyDays * dayMs), to: new Date(now + upcomingDays * dayMs) };
  const [counts, spans, incidents, windows] = await Promise.all([
    dailyCounts(
      system,
      page.org_id,
      rows.map((row) => row.target_id),
      historyDays - 1,
    ),
    queries.selectIncidentSpans(system.sql, page.org_id, page.id, new Date(now - historyDays * dayMs)),
    queries.selectPublicIncidents(system.sql, page.org_id, page.id, new Date(now - recentDays * dayMs), maxIncidents),
    windowsOf(
      system,
      page.org_id,
      rows.map((row) => row.target_id),
      range,
    ),
  ]);
  const names = new Map(rows.map((row) => [row.target_id, row.name]));
  const active = windows.filter((window) => window.starts_at.getTime() <= now && window.ends_at.getTime() > now);
  const upcoming = windows.filter((window) => window.starts_at.getTime() > now);

  const open = new Map(
    incidents.filter((incident) => incident.ended_at === null).map((incident) => [incident.target_id, incident]),
  );
  const components = rows.map((row) => {
    const days = counts.get(row.target_id) ?? new Map<string, Counts>();
    const own = spans.filter((span) => span.target_id === row.target_id);
    const component: PublicComponent = {
      id: row.target_id,
      name: row.name,
      description: row.description,
      status: componentState({
        inMaintenance: active.some((window) => window.target_ids.includes(row.target_id)),
        incident: open.get(row.target_id) ?? null,
        status: row.status,
      }),
      uptime_pct: shownPct(uptimePct(sum(days.values()))),
      history: dayCells(now, historyDays, {
        incidents: own.map((span) => ({
          start: span.started_at.getTime(),
          end: span.ended_at?.getTime() ?? null,
          severity: span.severity,
          impact: span.peak_impact,
        })),
        maintenance: windows
          .filter((window) => window.target_ids.includes(row.target_id))
          .map((window) => ({ start: window.starts_at.getTime(), end: window.ends_at.getTime() })),
        checkedDays: new Set(days.keys()),
      }),
    };
    return { group: row.group, component };
  });

  return {
    orgId: page.org_id,
    pageId: page.id,
    branding: page.branding,
    checkedAt: rows.reduce<Date | null>(
      (newest, row) =>
        row.last_result_at !== null && (newest === null || row.last_result_at > newest) ? row.last_result_at : newest,
      null,
    ),
    runs: counts,
    status: {
      overall: banner(components.map(({ component }) => component.status)),
      generated_at: new Date(now).toISOString(),
      page: { name: page.branding.display_name ?? page.name, about: page.branding.about, logo_url: null },
      groups: grouped(components),
      active_incidents: incidents.filter((incident) => incident.ended_at === null).map(presentIncident),
      recent_incidents: incidents.filter((incident) => incident.ended_at !== null).map(presentIncident),
      active_maintenance: active.map((window) => presentWindow(window, names)),
      upcoming_maintenance: upcoming.map((window) => presentWindow(window, names)),
    },
  };
}

/** Groups components: groups in the order of their first component, ungrouped components last. */
function grouped(components: readonly { group: string | null; component: PublicComponent }[]): PublicStatus["groups"] {
  const groups = new Map<string | null, PublicComponent[]>();
  for (const { group, component } of components) groups.set(group, [...(groups.get(group) ?? []), component]);
  const named = [...groups].filter(([name]) => name !== null);
  const rest = groups.get(null);
  return [...named, ...(rest === undefined ? [] : [[null, rest] as const])].map(([name, own]) => ({
    name,
    components: own,
  }));
}

function presentWindow(window: PageWindowRow, names: ReadonlyMap<string, string>): PublicMaintenance {
  return {
    id: window.id,
    title: window.title,
    description: window.description,
    starts_at: iso(window.starts_at),
    ends_at: iso(window.ends_at),
    components: window.target_ids.map((id) => ({ id, name: names.get(id)! })),
  };
}

/** Four decimals, rounded down: 100 means no failure. */
export const shownPct = (pct: number | null): number | null =>
  pct === null ? null : Math.floor(pct * 10_000 + 1e-6) / 10_000;

const stateWords = { degraded: "degraded", partial_outage: "partial outage", major_outage: "major outage" } as const;

/** The public view of an incident. */
export function presentIncident(row: queries.PublicIncidentRow): PublicIncident {
  const peak = incidentState(row.severity, row.peak_impact);
  return {
    id: row.id,
    title: row.public_title ?? `${row.component_name} ${stateWords[peak]}`,
    description: row.public_description,
    state: row.ended_at === null ? "open" : "closed",
    status: row.ended_at === null ? incidentState(row.severity, row.impact) : peak,
    severity: row.severity,
    component: { id: row.target_id, name: row.component_name },
    started_at: iso(row.started_at),
    ended_at: isoOrNull(row.ended_at),
    duration_secs:
      row.ended_at === null ? null : Math.round((row.ended_at.getTime() - row.started_at.getTime()) / 1000),
    updates: row.updates.map((update) => ({
      phase: update.phase,
      message: update.message,
      created_at: new Date(update.created_at).toISOString(),
    })),
  };
}

import type { System } from "../context.ts";
import { iso, isoOrNull } from "../http/wire.ts";
import { dailyCounts, probedSpans } from "../results/service.ts";
import { type PageWindowRow, windowsOf } from "../maintenance/service.ts";
import { logoPath, type PageRow, publicComponents, type PublicComponentRow } from "../status-pages/service.ts";
import type { Branding } from "../status-pages/schema.ts";
import { type Day, daysUntil } from "./days.ts";
import { union } from "./intervals.ts";
import * as queries from "./queries.ts";
import type { PublicComponent, PublicIncident, PublicMaintenance, PublicStatus } from "./schema.ts";
import { componentState, dayCells, type History, incidentState, uptimeOf, worst } from "./states.ts";
import { type Texts, textsOf } from "./texts.ts";

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
  /** Path of the logo on every host; null for none. */
  logo: string | null;
  /** Whether visitors can subscribe. */
  subscribe: boolean;
  domain: string | null;
  /** Time of the newest result of any component; null before the first. */
  checkedAt: Date | null;
  /** Uptime of a component over the last days, 0 to 100; null without checks. */
  uptime(componentId: string, days: number): number | null;
  status: PublicStatus;
}

/** Computes a page with six queries. */
export async function computeStatus(system: System, page: PageRow): Promise<ServedStatus> {
  const now = system.clock.now();
  const rows = await publicComponents(system, page);
  const days = daysUntil(now, historyDays, page.branding.timezone);
  const since = new Date(days[0]!.start);
  const ids = rows.map((row) => row.target_id);
  const [probed, spans, incidents, windows] = await Promise.all([
    probedTime(system, page.org_id, rows),
    queries.selectIncidentSpans(system.sql, page.org_id, page.id, since),
    queries.selectPublicIncidents(system.sql, page.org_id, page.id, new Date(now - recentDays * dayMs), maxIncidents),
    windowsOf(system, page.org_id, ids, { from: since, to: new Date(now + upcomingDays * dayMs) }),
  ]);
  const histories = historiesOf(ids, { now, spans, windows, probed });
  const uptime = (id: string, of: readonly Day[]) => shownPct(uptimeOf(of, histories.get(id)!));
  const logo = page.logo_hash === null ? null : logoPath(page.logo_hash);

  return {
    orgId: page.org_id,
    pageId: page.id,
    branding: page.branding,
    logo,
    subscribe: page.subscriptions_enabled,
    domain: page.custom_domain,
    checkedAt: newestResult(rows),
    uptime: (id, count) => uptime(id, days.slice(-count)),
    status: presentStatus(page, {
      now,
      rows,
      incidents,
      windows,
      logoUrl: logo && `${system.config.server.public_url}${logo}`,
      history: (id) => ({ uptime_pct: uptime(id, days), history: dayCells(days, histories.get(id)!) }),
    }),
  };
}

/** The public data of a page. `history` returns the cells and the uptime of a component over all days. */
function presentStatus(
  page: PageRow,
  read: {
    now: number;
    rows: readonly PublicComponentRow[];
    incidents: readonly queries.PublicIncidentRow[];
    windows: readonly PageWindowRow[];
    logoUrl: string | null;
    history: (id: string) => Pick<PublicComponent, "uptime_pct" | "history">;
  },
): PublicStatus {
  const { now, rows, windows, logoUrl, history } = read;
  const texts = textsOf(page.branding.language);
  const names = new Map(rows.map((row) => [row.target_id, row.name]));
  const active = windows.filter((window) => window.starts_at.getTime() <= now && window.ends_at.getTime() > now);
  const upcoming = windows.filter((window) => window.starts_at.getTime() > now);
  const openIncidents = read.incidents.filter((incident) => incident.ended_at === null);
  const ended = read.incidents.filter((incident) => incident.ended_at !== null);
  const open = new Map(openIncidents.map((incident) => [incident.target_id, incident]));
  const components = rows.map((row) => {
    const component: PublicComponent = {
      id: row.target_id,
      name: row.name,
      description: row.description,
      status: componentState({
        inMaintenance: active.some((window) => window.target_ids.includes(row.target_id)),
        incident: open.get(row.target_id) ?? null,
        status: row.status,
      }),
      ...history(row.target_id),
    };
    return { group: row.group, component };
  });
  const overall = worst(components.map(({ component }) => component.status));
  return {
    overall: { state: overall, label: texts.banner[overall] },
    generated_at: new Date(now).toISOString(),
    page: { name: page.branding.display_name ?? page.name, about: page.branding.about, logo_url: logoUrl },
    groups: grouped(components),
    active_incidents: openIncidents.map((row) => presentIncident(row, texts)),
    recent_incidents: ended.map((row) => presentIncident(row, texts)),
    active_maintenance: active.map((window) => presentWindow(window, names)),
    upcoming_maintenance: upcoming.map((window) => presentWindow(window, names)),
  };
}

/** What each component went through: its confirmed incidents, its maintenance and the time in which it was checked. */
function historiesOf(
  ids: readonly string[],
  read: {
    now: number;
    spans: readonly queries.IncidentSpanRow[];
    windows: readonly PageWindowRow[];
    probed: ReadonlyMap<string, History["probed"]>;
  },
): Map<string, History> {
  const { now, windows, probed } = read;
  const spans = new Map<string, queries.IncidentSpanRow[]>(ids.map((id) => [id, []]));
  for (const span of read.spans) spans.get(span.target_id)?.push(span);
  return new Map(
    ids.map((id) => [
      id,
      {
        incidents: spans.get(id)!.map((span) => ({
          start: span.started_at.getTime(),
          end: span.ended_at?.getTime() ?? now,
          severity: span.severity,
          impact: span.peak_impact,
        })),
        maintenance: union(
          windows
            .filter((window) => window.target_ids.includes(id))
            .map((window) => ({ start: window.starts_at.getTime(), end: window.ends_at.getTime() })),
        ),
        probed: probed.get(id) ?? [],
      },
    ]),
  );
}

/** Time of the newest result of any component; null before the first. */
function newestResult(rows: readonly PublicComponentRow[]): Date | null {
  const times = rows.flatMap((row) => row.last_result_at?.getTime() ?? []);
  return times.length === 0 ? null : new Date(Math.max(...times));
}

/** Time in which each component was checked. A monitor with live votes is checked until now. */
async function probedTime(system: System, orgId: string, rows: readonly PublicComponentRow[]) {
  const now = system.clock.now();
  const ids = rows.map((row) => row.target_id);
  const counts = await dailyCounts(system, orgId, ids, historyDays);
  const limits = new Map(
    rows.map((row) => [
      row.target_id,
      {
        created: row.created_at.getTime(),
        lastRun: row.status === "unknown" ? (row.last_result_at?.getTime() ?? 0) : now,
      },
    ]),
  );
  return await probedSpans(system, orgId, counts, (id) => limits.get(id)!);
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
const shownPct = (pct: number | null): number | null =>
  pct === null ? null : Math.floor(pct * 10_000 + 1e-6) / 10_000;

/** The public view of an incident. */
export function presentIncident(row: queries.PublicIncidentRow, texts: Texts): PublicIncident {
  const peak = incidentState(row.severity, row.peak_impact);
  return {
    id: row.id,
    title: row.public_title ?? texts.outage[peak](row.component_name),
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

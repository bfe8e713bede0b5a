import { dayMs } from "@statusmesh/shared/time";
import { getOrMake } from "../../../platform/caches.ts";
import type { System } from "../../../platform/context.ts";
import { mapInTurns } from "../../../platform/process/turns.ts";
import { iso, isoOrNull } from "../../../platform/http/wire.ts";
import { outageSecs, outageState } from "../../../alerting/incidents/reports/service.ts";
import { shownPct } from "../../../monitoring/heartbeats/schedule/service.ts";
import { type PageWindowRow, windowsOf } from "../../../alerting/maintenance/service.ts";
import type { PublicComponentRow } from "../../status-pages/components/service.ts";
import { logoPath, logoUrl } from "../../status-pages/logos/service.ts";
import { type PageRow, publicComponents } from "../../status-pages/visits/service.ts";
import type { Branding } from "../../status-pages/schema.ts";
import { componentState, dayCells, daysUntil, uptimesOf, worst } from "./states.ts";
import * as queries from "../queries.ts";
import type { PublicComponent, PublicIncident, PublicMaintenance, PublicStatus } from "../schema.ts";
import type { Language } from "../../languages/schema.ts";
import { languageOf, type Texts, textsOf } from "../../languages/service.ts";
import { groupsOf, maxIncidents, type Parent, parentsOf, recentDays } from "../../entries/service.ts";
import { entriesJson, type Entry, type EntrySource, presentEntries } from "./entries.ts";
import {
  historyDays,
  historiesOf,
  sharedTimes,
  importedTime,
  newestResult,
  probedTime,
  grouping,
  grouped,
} from "./histories.ts";

const upcomingDays = 7;

/** Bytes of a page without components, and of a component: cells of its days, JSON and HTML. */
const pageBytes = 40_000;
const componentBytes = 15_000;
/** Bytes of the page of a component with response times. */
const timesBytes = 12_000;

/** Everything that one page shows. */
export interface ServedStatus {
  orgId: string;
  pageId: string;
  branding: Branding;
  /** Language of the texts in it. */
  language: Language;
  /** Paths of the logos on every host; null for none. The dark theme shows the second one, if there is one. */
  logo: string | null;
  logoDark: string | null;
  /** Sizes of both, pixels, as `240x80`. */
  logoSize: string | null;
  logoDarkSize: string | null;
  /** Whether visitors can subscribe. */
  subscribe: boolean;
  domain: string | null;
  /** Names the style sheet of the page; null without one. */
  css: string | null;
  /** Bytes that it holds with the replies made from it, roughly. */
  bytes: number;
  /** Time of the last change of the page's settings. */
  updatedAt: Date;
  /** Time of the newest result of any component; null before the first. */
  checkedAt: Date | null;
  /** Uptime of a component over the last days, 0 to 100; null without checks. */
  uptime(componentId: string, days: number): number | null;
  /** True where the page leaves out incidents: its uptime is that of reported outages. */
  reported: boolean;
  /** When an incident was published; null: as it began. */
  publishedAt(incidentId: string): Date | null;
  /** Facts of the monitor behind a component, if there is one, and its number. */
  monitor(componentId: string): Pick<PublicComponentRow, "kind" | "number" | "expires_at" | "show">;
  status: PublicStatus;
  /** Incidents that share a cause, as visitors see them: open ones first, then the newest. */
  entries: readonly Entry[];
  /** What the entries are made of, for another language. */
  entrySource: EntrySource;
}

/** Computes a page with nine queries. */
export async function computeStatus(system: System, page: PageRow): Promise<ServedStatus> {
  const now = system.clock.now();
  const rows = await publicComponents(system, page);
  const days = daysUntil(now, historyDays, page.branding.timezone);
  const since = new Date(days[0]!.start);
  const ids = rows.map((row) => row.id);
  const monitors = rows.filter((row) => row.state === null);
  const monitorIds = monitors.map((row) => row.id);
  const byId = new Map(rows.map((row) => [row.id, row]));
  const [probed, imported, spans, incidents, windows, parents] = await Promise.all([
    probedTime(system, page.org_id, monitors),
    importedTime(system, page.org_id, monitorIds, since),
    queries.selectSpans(system.sql, page.org_id, page.id, since),
    queries.selectPublicIncidents(system.sql, page.org_id, page.id, new Date(now - recentDays * dayMs), maxIncidents),
    windowsOf(system, page.org_id, monitorIds, { from: since, to: new Date(now + upcomingDays * dayMs) }),
    parentsOf(system, page.org_id, page.id, new Date(now - recentDays * dayMs)),
  ]);
  // A state that is set manually is known all the time.
  for (const { id, state, created_at: created } of rows)
    if (state !== null) probed.set(id, [{ start: created.getTime(), end: now }]);
  const historyOf = historiesOf({ now, spans, windows, probed, imported });
  const shared = sharedTimes(days);
  const published = new Map(incidents.map((one) => [one.id, one.published_at]));
  const past = new Map(
    await mapInTurns(ids, (id) => {
      const history = historyOf(id);
      const { windows, counted } = shared(history);
      return [
        id,
        {
          uptimes: uptimesOf(days, history, counted).map((pct) => (byId.get(id)!.show.uptime ? shownPct(pct) : null)),
          cells: dayCells(days, history, windows),
        },
      ] as const;
    }),
  );
  const entrySource: EntrySource = {
    groups: groupedIncidents(incidents, parents),
    titled: new Set(incidents.filter((one) => one.public_title !== null).map(({ id }) => id)),
    groupOf: (id) => byId.get(id)?.group ?? null,
  };
  const { status, entries } = await presentStatus(system, page, {
    now,
    rows,
    incidents,
    entrySource,
    windows,
    history: (id) => ({ uptime_pct: past.get(id)!.uptimes[historyDays]!, history: past.get(id)!.cells }),
  });
  return {
    orgId: page.org_id,
    pageId: page.id,
    bytes:
      pageBytes +
      rows.length * componentBytes +
      rows.filter(({ show }) => show.latency).length * timesBytes +
      bytesOf(incidents) +
      bytesOfPlans(windows, now),
    branding: page.branding,
    language: languageOf(page.branding),
    logo: page.logo_hash && logoPath(page.logo_hash),
    logoDark: page.logo_dark_hash && logoPath(page.logo_dark_hash),
    logoSize: page.logo_size,
    logoDarkSize: page.logo_dark_size,
    subscribe: page.subscriptions_enabled,
    domain: page.custom_domain,
    css: page.css_hash,
    updatedAt: page.updated_at,
    checkedAt: newestResult(rows),
    uptime: (id, count) => past.get(id)!.uptimes[count]!,
    reported: page.publish.mode !== "always",
    publishedAt: (id) => published.get(id) ?? null,
    monitor: (id) => byId.get(id)!,
    status,
    entries,
    entrySource,
  };
}

/** Ids of the incidents of each entry. */
const groupedIncidents = (incidents: readonly queries.PublicIncidentRow[], parents: readonly Parent[]): string[][] =>
  groupsOf(
    incidents.map((one) => ({
      id: one.id,
      componentId: one.component_id,
      host: one.host,
      start: one.started_at.getTime(),
      end: one.ended_at?.getTime() ?? Infinity,
      shown: one.shown_at.getTime(),
    })),
    parents,
  );

/** Bytes of incidents with their texts, in memory and in replies, roughly. */
const bytesOf = (incidents: readonly queries.PublicIncidentRow[]): number =>
  incidents.reduce(
    (sum, { updates }) => updates.reduce((own, { message }) => own + 500 + 10 * message.length, sum + 20_000),
    0,
  );

/**
 * Bytes of the windows that a page lists, with their components, in replies, roughly. Occurrences of a window share
 * the list of its components.
 */
function bytesOfPlans(windows: readonly PageWindowRow[], now: number): number {
  const listed = windows.filter(({ ends_at }) => ends_at.getTime() > now);
  const lists = new Set(listed.map((one) => one.target_ids));
  return [...lists].reduce((sum, ids) => sum + 200 * ids.length, 200 * listed.length + 6000 * lists.size);
}

/** The public data of a page. `history` returns the cells and the uptime of a component over all days. */
async function presentStatus(
  system: System,
  page: PageRow,
  read: {
    now: number;
    rows: readonly PublicComponentRow[];
    incidents: readonly queries.PublicIncidentRow[];
    entrySource: EntrySource;
    windows: readonly PageWindowRow[];
    history: (id: string) => Pick<PublicComponent, "uptime_pct" | "history">;
  },
): Promise<{ status: PublicStatus; entries: Entry[] }> {
  const { now, rows, windows, history } = read;
  const all = textsOf(languageOf(page.branding));
  const texts = all.page;
  const windowOf = presentWindows(new Map(rows.map((row) => [row.id, row.name])));
  const active = windows.filter((window) => window.starts_at.getTime() <= now && window.ends_at.getTime() > now);
  const inMaintenance = new Set(active.flatMap((window) => window.target_ids));
  const upcoming = windows.filter((window) => window.starts_at.getTime() > now);
  const openIncidents = read.incidents.filter((incident) => incident.ended_at === null);
  const ended = read.incidents.filter((incident) => incident.ended_at !== null);
  const open = new Map(openIncidents.map((incident) => [incident.component_id, incident]));
  const components = await mapInTurns(rows, (row) => {
    const component: PublicComponent = {
      id: row.id,
      name: row.name,
      description: row.description,
      status:
        row.state ??
        componentState({
          inMaintenance: inMaintenance.has(row.id),
          incident: open.get(row.id) ?? null,
          status: row.status,
        }),
      ...history(row.id),
    };
    return { group: row.group, component };
  });
  const overall = worst(components.map(({ component }) => component.status));
  const active_incidents = await mapInTurns(openIncidents, (row) => presentIncident(row, texts));
  const recent_incidents = await mapInTurns(ended, (row) => presentIncident(row, texts));
  const entries = presentEntries(read.entrySource, [...active_incidents, ...recent_incidents], all);
  const status: PublicStatus = {
    overall: { state: overall, label: texts.banner[overall] },
    generated_at: new Date(now).toISOString(),
    page: {
      name: page.branding.display_name ?? page.name,
      about: page.branding.about,
      logo_url: logoUrl(system, page.logo_hash),
      logo_dark_url: logoUrl(system, page.logo_dark_hash),
    },
    groups: grouped(components),
    entries: entriesJson(entries),
    active_incidents,
    recent_incidents,
    active_maintenance: await mapInTurns(active, (window) => ({ ...windowOf(window), later: [] })),
    upcoming_maintenance: await mapInTurns([...grouping(upcoming, ({ id }) => id).values()], ([next, ...later]) => ({
      ...windowOf(next!),
      later: later.map(timesOf),
    })),
  };
  return { status, entries };
}

/** Presents windows. Occurrences of a window share the list of their components. */
function presentWindows(
  names: ReadonlyMap<string, string>,
): (window: PageWindowRow) => Omit<PublicMaintenance, "later"> {
  const lists = new Map<readonly string[], PublicMaintenance["components"]>();
  return (window) => {
    const { id, title, description, target_ids: ids } = window;
    const components = getOrMake(lists, ids, () => ids.map((one) => ({ id: one, name: names.get(one)! })));
    return { id, title, description, ...timesOf(window), components };
  };
}

const timesOf = ({ starts_at, ends_at }: PageWindowRow) => ({ starts_at: iso(starts_at), ends_at: iso(ends_at) });

/** The public view of an incident. */
export function presentIncident(row: queries.PublicIncidentRow, texts: Texts["page"]): PublicIncident {
  const pinned = row.severity_pinned ? row.severity : null;
  const peak = outageState(pinned, row.peak_impact);
  const status = row.ended_at === null ? outageState(pinned, row.impact) : peak;
  return {
    id: row.id,
    title: row.public_title ?? texts.outage[status](row.component_name),
    description: row.public_description,
    state: row.ended_at === null ? "open" : "closed",
    status,
    peak_status: peak,
    severity: row.severity,
    component: { id: row.component_id, name: row.component_name },
    started_at: iso(row.started_at),
    ended_at: isoOrNull(row.ended_at),
    duration_secs: row.ended_at === null ? null : outageSecs(row),
    outage_since: isoOrNull(row.outage_since),
    past_outage_secs: outageSecs(row),
    ...(row.imported ? { imported: true as const } : {}),
    updates_total: row.updates_total,
    updates: row.updates.map((update) => ({
      phase: update.phase,
      message: update.message,
      created_at: new Date(update.created_at).toISOString(),
    })),
  };
}

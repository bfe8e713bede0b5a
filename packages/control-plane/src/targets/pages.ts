import { checkTypes, isCheckType, kindOf } from "@statusmesh/shared/checks";
import { normaliseText } from "@statusmesh/shared/text";
import { silentRegions } from "../agents/service.ts";
import { listChannels } from "../channels/service.ts";
import type { Ctx } from "../context.ts";
import { numbered } from "../html/format.ts";
import { type StateName, stateWords } from "../html/states.ts";
import { page, type PageCall, wholeNumber } from "../html/pages.ts";
import { activeWindows, targetWindow } from "../maintenance/service.ts";
import { explainIncident, getIncident, listDeliveries, listIncidents } from "../incidents/service.ts";
import {
  latencyByRegion,
  latencySeries,
  latestBucket,
  listResults,
  monitorHistory,
  phasesOf,
  throttledTargets,
  uptime,
} from "../results/service.ts";
import { setupSteps } from "../orgs/service.ts";
import { listRegionChoices } from "../regions/service.ts";
import { findingOf } from "./finding.ts";
import { kindForms, startPolicy, targetFields } from "./form.ts";
import { rangeOf, ranges, shadesOf } from "./monitor-page.ts";
import type { Target } from "./schema.ts";
import {
  getMonitor,
  getTarget,
  listMonitors,
  type MonitorRegion,
  type MonitorRow,
  targetRegions,
  targetTag,
} from "./service.ts";
import {
  detail,
  expiryWords,
  isWaiting,
  overview,
  policyWords,
  shownState,
  silenceWords,
  shownStates,
  throttledWords,
  where,
  why,
} from "./words.ts";

const pageSize = 50;
const dayMs = 86_400_000;
/** Half an hour each over a day: fine enough to see an outage of one check interval, few enough to count. */
const slices = 48;

async function monitors({ ctx, query }: PageCall<"tenant">) {
  const q = normaliseText(query["q"] ?? "").slice(0, 200);
  const tag = normaliseText(query["tag"] ?? "").slice(0, 200);
  const state = shownStates.find((known) => known === query["state"]);
  const sort = query["sort"] === "days_left" ? query["sort"] : undefined;
  const offset = wholeNumber(query["offset"], 0, 1_000_000);
  const filtered = q !== "" || tag !== "" || state !== undefined;
  const filter = { ...(q === "" ? {} : { q }), ...(tag === "" ? {} : { tag }) };
  const list = await listMonitors(ctx, {
    ...filter,
    ...(state === undefined ? {} : { state }),
    ...(sort === undefined ? {} : { sort }),
    limit: pageSize,
    offset,
  });
  // The sentence on top speaks of all monitors, whatever the list is narrowed to.
  const all = filtered || sort !== undefined || offset > 0 ? await listMonitors(ctx, { limit: 3, offset: 0 }) : list;
  const now = ctx.clock.now();
  const ids = list.items.map((row) => row.target.id);
  const [history, silent, throttled, setup, maintenance] = await Promise.all([
    monitorHistory(ctx, ids, { from: new Date(now - dayMs), to: new Date(now), slices }),
    silentRegions(ctx),
    throttledOf(ctx, list.items),
    setupSteps(ctx),
    activeWindows(ctx),
  ]);
  return {
    view: "targets/list" as const,
    fragment: "targets/list-live" as const,
    data: {
      rows: list.items.map((row) => ({
        ...row,
        ...shown(row, now, throttled(row)),
        history: history.get(row.target.id) ?? null,
      })),
      list,
      states: shownStates.map((name) => ({ name, word: stateWords[name], count: list.counts[name] })),
      tags: [...new Set([...(tag === "" ? [] : [tag]), ...list.items.flatMap((row) => row.target.tags)])].slice(0, 8),
      overview: overview(all.items, all.counts),
      title: numbered("Monitors", all.counts.down + all.counts.error),
      everything: shownStates.reduce((sum, name) => sum + all.counts[name], 0),
      lastCheck: all.last_check_at,
      silent: silent.map((region) => ({ ...region, ...silenceWords(region) })),
      maintenance,
      query: { q, tag, state: state ?? "", sort: sort ?? "", offset },
      canSort: sort !== undefined || list.items.some((row) => row.details !== null),
      setup,
      isOwner: ctx.role === "owner",
      sliceSecs: dayMs / slices / 1000,
      origin: ctx.config.server.public_url,
    },
  };
}

/** Words and state of a row, decided here so that templates only place them. */
function shown(row: MonitorRow, now: number, throttled: string | null) {
  const state = shownState(row);
  const waiting = isWaiting(row);
  return {
    state,
    word: waiting ? "Pending first check" : throttled === null ? stateWords[state] : "Throttled",
    throttled,
    since: state === "down" || state === "error" ? (row.open_incident?.started_at ?? row.status_since) : null,
    detail: throttled ?? detail(row, now),
    expiry: expiryWords(row, now),
    kind: kindOf(row.target.check).label,
  };
}

/** Says for each row why it has no data, where its runs are throttled; null for any other. */
async function throttledOf(ctx: Ctx, rows: readonly MonitorRow[]): Promise<(row: MonitorRow) => string | null> {
  const silent = rows.filter((row) => shownState(row) === "unknown" && row.probed && row.last_result_at !== null);
  const ids = await throttledTargets(
    ctx,
    silent.map((row) => row.target.id),
  );
  const words = throttledWords(ctx.config.checker.per_host_max_inflight);
  return (row) => (ids.has(row.target.id) ? words : null);
}

async function monitor({ ctx, params, query }: PageCall<"tenant">) {
  const id = params["id"]!;
  const row = await getMonitor(ctx, id);
  const now = ctx.clock.now();
  // A monitor made this hour would be a dot at the end of an empty day.
  const young = now - Date.parse(row.target.created_at) < 2 * 3_600_000;
  const range = rangeOf(query["range"] ?? (young ? "1h" : "24h"));
  const region = row.regions.find((own) => own.region === query["region"])?.region;
  const span = { from: new Date(now - range.ms).toISOString(), to: new Date(now).toISOString() };
  const ofRegion = region === undefined ? {} : { region };
  const [series, byRegion, up, results, incidents, silent, throttled, trouble, window] = await Promise.all([
    latencySeries(ctx, id, { ...span, ...ofRegion }),
    latencyByRegion(ctx, id, span),
    uptime(ctx, id, { ...span, ...ofRegion }),
    listResults(ctx, id, { ...span, ...ofRegion, limit: wholeNumber(query["results"], 10, 100) || 10, offset: 0 }),
    listIncidents(ctx, { state: "all", target_id: id, limit: 100, offset: 0 }),
    silentRegions(ctx),
    throttledOf(ctx, [row]),
    row.open_incident === null ? null : troubleOf(ctx, row.open_incident.id),
    targetWindow(ctx, id),
  ]);
  const said = shown(row, now, throttled(row));
  return {
    view: "targets/show" as const,
    fragment: "targets/show-live" as const,
    data: {
      title: `${said.word}: ${row.target.name}`,
      row: { ...row, ...said },
      summary: kindOf(row.target.check).summary(row.target.check),
      ranges,
      range,
      region: region ?? "",
      series,
      points: series.buckets,
      latest: latestBucket(series.buckets),
      phases: phasesOf(series.buckets),
      chartRange: { from: now - range.ms, to: now },
      shades: shadesOf(incidents.items, now),
      regions: row.regions.map((own) => ({
        ...own,
        state: regionState(own),
        p95: latestBucket(byRegion.regions.find((it) => it.region === own.region)?.buckets ?? [])?.p95 ?? null,
      })),
      up,
      results,
      incidents: incidents.items.slice(0, 10),
      window: window === null ? null : { ...window, active: window.starts_at.getTime() <= now },
      incidentsTotal: incidents.total,
      incidents30d: incidents.items.filter((incident) => Date.parse(incident.started_at) > now - 30 * dayMs).length,
      trouble:
        trouble === null
          ? null
          : {
              ...trouble,
              why: why(trouble.votes, row.open_incident!.error_sample),
              where: where(row.open_incident),
              policy: policyWords(row.target.region_policy, trouble.votes),
            },
      policy: policyWords(row.target.region_policy, null),
      silent: silent
        .filter(({ id: silentId }) => row.regions.some((own) => own.region === silentId))
        .map((region) => ({ ...region, ...silenceWords(region) })),
    },
  };
}

/** How a region reads: its last run, or no data where it is disabled or silent. A failing vote is never up. */
function regionState({ enabled, live, vote, status }: MonitorRegion): StateName {
  if (!live || !enabled || status === null) return "unknown";
  return vote === "failing" && status === "up" ? "down" : status;
}

/** Why the incident is open, and which channels were notified. */
async function troubleOf(ctx: Ctx, incidentId: string) {
  const [votes, deliveries, incident] = await Promise.all([
    explainIncident(ctx, incidentId),
    listDeliveries(ctx, incidentId, { limit: 20, offset: 0 }),
    getIncident(ctx, incidentId),
  ]);
  const told = deliveries.items.filter((delivery) => delivery.reason === "opened" && delivery.state === "delivered");
  return { votes, told, acknowledged: incident.acknowledged_at };
}

/**
 * Channels, regions and kinds for the form. `ownRegions` are the regions of the monitor: those that the operator has
 * disabled are listed too, so that saving the regions keeps them.
 */
async function formData(ctx: Ctx, target: Target | null, ownRegions: readonly string[]) {
  const [channels, regions] = await Promise.all([
    listChannels(ctx, { limit: 1000, offset: 0 }),
    listRegionChoices(ctx, ownRegions),
  ]);
  return {
    target,
    etag: target === null ? null : targetTag(target),
    kinds: kindForms(target?.check ?? null),
    fields: targetFields(target),
    policy: startPolicy(target),
    channels: channels.items,
    regions: regions.map((region) => ({ ...region, chosen: ownRegions.includes(region.id) })),
  };
}

async function newMonitor({ ctx, query }: PageCall<"tenant">) {
  const type = isCheckType(query["kind"]) ? query["kind"] : checkTypes[0]!;
  return { view: "targets/form" as const, data: { ...(await formData(ctx, null, [])), type } };
}

async function editMonitor({ ctx, params }: PageCall<"tenant">) {
  const target = await getTarget(ctx, params["id"]!);
  const { regions } = await targetRegions(ctx, target.id);
  return {
    view: "targets/form" as const,
    data: { ...(await formData(ctx, target, regions)), type: target.check.type },
  };
}

export const targetsPages = [
  page({ path: "/", auth: "tenant", handle: monitors }),
  page({ path: "/monitors", auth: "tenant", handle: monitors }),
  page({
    // The console asks for it after a test or a check, so that their words are those of every page.
    path: "/monitors/finding",
    auth: "tenant",
    handle: async ({ query, http }) =>
      http.get("sec-fetch-dest") === "document"
        ? { redirect: "/monitors" }
        : { view: "targets/finding", data: findingOf(query) },
  }),
  page({ path: "/monitors/new", auth: "tenant", handle: newMonitor }),
  page({ path: "/monitors/{id}/edit", auth: "tenant", handle: editMonitor }),
  page({ path: "/monitors/{id}", auth: "tenant", handle: monitor }),
];

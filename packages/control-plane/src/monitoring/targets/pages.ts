import {
  checkKinds,
  checkTypes,
  detailsOf,
  isCheckType,
  isGroup,
  kindOf,
  listedMembers,
} from "@statusmesh/shared/checks";
import { dayMs, hourMs } from "@statusmesh/shared/time";
import { servedRegions, silentRegions } from "../agents/service.ts";
import { getOrg } from "../../access/orgs/service.ts";
import { channelChoices } from "../../alerting/channels/service.ts";
import { routedChannels, routesInWords } from "../../alerting/channels/routes/service.ts";
import type { Ctx } from "../../platform/context.ts";
import type { StateName } from "../../platform/html/format.ts";
import { formPage, page, type PageCall, wholeNumber } from "../../platform/html/pages.ts";
import { targetWindow } from "../../alerting/maintenance/calendar/service.ts";
import { windowsOf } from "../../alerting/maintenance/service.ts";
import { flapping, getIncident, listIncidents, regionNamer } from "../../alerting/incidents/service.ts";
import { explainIncident, listDeliveries } from "../../alerting/incidents/explanation/service.ts";
import { listOutages } from "../../alerting/incidents/reports/service.ts";
import { beatKinds, readBeats } from "../results/history/service.ts";
import { latencyByRegion, latencySeries, latestBucket, phasesOf } from "../results/latency/service.ts";
import { listResults, recentHistory, uptime } from "../results/service.ts";
import { namesOf } from "./dependencies/group-members.ts";
import { groupPanel } from "./console/group-panel.ts";
import { heartbeatPanel } from "./console/heartbeat-panel.ts";
import { planOf } from "../../access/plans/service.ts";
import { certificateChoices } from "../certificates/service.ts";
import { listRegionChoices } from "../regions/service.ts";
import type { CheckResult } from "../results/schema.ts";
import { findingOf } from "./console/finding.ts";
import { neighboursOf } from "./dependencies/dependencies.ts";
import { copyOf, kindForms, startPolicy, targetFields } from "./console/form.ts";
import { monitorsPage, shown, throttledOf } from "./console/list-page.ts";
import {
  beatsOf,
  chartSlices,
  chartValues,
  linesOf,
  maintenanceShade,
  missingOf,
  rangeOf,
  ranges,
  shadesOf,
} from "./console/monitor-page.ts";
import type { Target } from "./schema.ts";
import { getMonitor, type MonitorRegion, pinnedTargets } from "./list/service.ts";
import { getTarget } from "./service.ts";
import { targetRegions, targetTag } from "./write/service.ts";
import { isWaiting, policyWords, resultLines, silenceWords, where, why } from "./console/words.ts";
import { expirationLevels } from "./health/expiring-schema.ts";
import { listExpirations } from "./health/expiring.ts";

/** The page of a monitor. Its state is read before its results: a first run between the two is read again. */
async function monitor(call: PageCall<"tenant">) {
  const read = await readMonitor(call);
  const { row, results } = read.data;
  return isWaiting(row) && results.items.length > 0 ? await readMonitor(call) : read;
}

async function readMonitor({ ctx, params, query }: PageCall<"tenant">) {
  const id = params["id"]!;
  const row = await getMonitor(ctx, id);
  const now = ctx.clock.now();
  // A monitor made this hour would be a dot at the end of an empty day.
  const young = now - Date.parse(row.target.created_at) < 2 * hourMs;
  const range = rangeOf({ range: young ? "1h" : "24h", ...query }, now);
  const region = row.regions.find((own) => own.region === query["region"])?.region;
  const span = { from: new Date(range.from).toISOString(), to: new Date(range.to).toISOString() };
  const ofRegion = region === undefined ? {} : { region };
  const isNew = now - Date.parse(row.target.created_at) < dayMs;
  const isWrong = row.open_incident !== null || ["down", "error", "degraded"].includes(row.status);
  // A group has no runs.
  const shownKinds = beatKinds.filter((kind) => kind !== "checks" || !isGroup(row.target.check));
  const beatKind =
    shownKinds.find((kind) => kind === query["beats"]) ??
    ((isNew || isWrong) && shownKinds.includes("checks") ? "checks" : "hours");
  const month = new Date(now - 30 * dayMs).toISOString();
  const fine = { slices: chartSlices, leastSecs: row.target.interval };
  const [
    series,
    byRegion,
    up,
    up30d,
    results,
    incidents,
    outages,
    silent,
    throttled,
    evidence,
    window,
    regionNames,
    pinned,
    beats,
    job,
    group,
    neighbours,
    flaps,
    history,
    windows,
    recentIncidents,
    routed,
  ] = await Promise.all([
    latencySeries(ctx, id, { ...span, ...ofRegion, ...fine }),
    latencyByRegion(ctx, id, { ...span, ...fine }),
    uptime(ctx, id, { ...span, ...ofRegion }),
    uptime(ctx, id, { from: month, to: new Date(now).toISOString(), ...ofRegion }),
    listResults(ctx, id, { ...span, ...ofRegion, limit: wholeNumber(query["results"], 10, 100) || 10, offset: 0 }),
    listIncidents(ctx, { state: "all", target_id: id, limit: 10, offset: 0 }),
    listOutages(ctx, { targetId: id, ...span }),
    silentRegions(ctx),
    throttledOf(ctx, [row]),
    row.open_incident === null ? null : evidenceOf(ctx, row.open_incident.id),
    targetWindow(ctx, id),
    listRegionChoices(
      ctx,
      row.regions.map((own) => own.region),
    ),
    pinnedTargets(ctx),
    readBeats(ctx, id, beatKind, row.target.interval),
    heartbeatPanel(ctx, row.target),
    groupPanel(ctx, row.target),
    neighboursOf(ctx, id),
    flapping(ctx, [id]),
    recentHistory(ctx, [id]),
    windowsOf(ctx, ctx.orgId, [id], { from: new Date(range.from), to: new Date(range.to) }),
    listIncidents(ctx, { state: "all", target_id: id, from: month, limit: 1, offset: 0 }),
    routedChannels(ctx, id),
  ]);
  const lineOf = chartValues.find((value) => value === query["line"]) ?? "p50";
  const nameOf = (own: string): string => regionNames.find((one) => one.id === own)?.name ?? own;
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
      beats: beatsOf(beats, { kind: beatKind, kinds: shownKinds, isProbed: job === null, nameOf }),
      job,
      group,
      neighbours,
      flapping: flaps.get(id) ?? null,
      isPinned: pinned.includes(id),
      /** Channels that the monitor lists, and those by its tags in words. */
      listedChannels: row.target.alerts.length,
      routes: routesInWords(routed),
      nameOf,
      region: region ?? "",
      series,
      points: series.buckets,
      latest: latestBucket(series.buckets),
      now: history.get(id) ?? null,
      lineOf,
      lines:
        region === undefined && byRegion.regions.length > 1 ? linesOf(series.buckets, byRegion, lineOf, nameOf) : [],
      missing: region === undefined ? missingOf(series.buckets, byRegion).map(nameOf) : [],
      age: (now - Math.max(range.from, Date.parse(row.target.created_at))) / 1000,
      daysLeft: row.expires_at === null ? null : Math.floor((row.expires_at.getTime() - now) / dayMs),
      phases: phasesOf(series.buckets),
      chartRange: { from: range.from, to: range.to, live: !range.fixed },
      shades: [...windows.map(maintenanceShade), ...shadesOf(outages, now)],
      regions: row.regions.map((own) => ({
        ...shownRegion(own, byRegion),
        isUnable: row.target.regions_unable?.some(({ region: unable }) => unable === own.region) === true,
      })),
      up,
      up30d,
      results: { ...results, lines: resultLines(results.items) },
      detailsOf: ({ details, timestamp }: CheckResult): string =>
        details === null ? "" : (detailsOf(row.target.check.type)?.inWords(details, Date.parse(timestamp)) ?? ""),
      incidents: incidents.items,
      window: window === null ? null : { ...window, active: window.starts_at.getTime() <= now },
      incidentsTotal: incidents.total,
      incidents30d: recentIncidents.total,
      evidence:
        evidence === null
          ? null
          : {
              ...evidence,
              why: why(evidence.votes, row.open_incident!.error_sample, nameOf),
              where: where(row.open_incident),
              policy: row.regions.length < 2 ? "" : policyWords(row.target.region_policy, evidence.votes),
            },
      policy: row.regions.length < 2 ? "" : policyWords(row.target.region_policy, null),
      silent: silent
        .filter(({ id: silentId }) => row.regions.some((own) => own.region === silentId))
        .map((region) => ({ ...region, ...silenceWords(region) })),
    },
  };
}

/** A region of the monitor with its state and newest p95, ms. */
function shownRegion(own: MonitorRegion, { regions }: Awaited<ReturnType<typeof latencyByRegion>>) {
  const buckets = regions.find((it) => it.region === own.region)?.buckets ?? [];
  return { ...own, state: regionState(own), p95: latestBucket(buckets)?.p95 ?? null };
}

/** State of a region: that of its last run, or no data where it is disabled or silent. A failing vote is never up. */
function regionState({ enabled, live, vote, status }: MonitorRegion): StateName {
  if (!live || !enabled || status === null) return "unknown";
  return vote === "failing" && status === "up" ? "down" : status;
}

/** Why the incident is open, and which channels were notified. */
async function evidenceOf(ctx: Ctx, incidentId: string) {
  const [votes, deliveries, incident] = await Promise.all([
    explainIncident(ctx, incidentId),
    listDeliveries(ctx, incidentId, { limit: 20, offset: 0 }),
    getIncident(ctx, incidentId),
  ]);
  const notified = deliveries.items.filter(
    (delivery) => delivery.reason === "opened" && delivery.state === "delivered",
  );
  return { votes, notified, acknowledged: incident.acknowledged_at };
}

/** Channels that a monitor notifies, those of its ladder included. */
const boundTo = (target: Target | null): string[] => [
  ...(target?.alerts ?? []).map(({ channel_id: id }) => id),
  ...(target?.escalation ?? []).flatMap(({ channel_ids: ids }) => ids),
];

/**
 * Channels, regions and kinds for the form. `ownRegions` are the regions of the monitor: those that the operator has
 * disabled are listed too, so that saving the regions keeps them.
 */
async function formData(ctx: Ctx, target: Target | null, ownRegions: readonly string[], source: Target | null = null) {
  const [org, plan, channels, certificates, regions, served] = await Promise.all([
    getOrg(ctx, ctx.orgId),
    planOf(ctx),
    channelChoices(ctx, boundTo(target)),
    certificateChoices(ctx),
    listRegionChoices(ctx, ownRegions),
    servedRegions(ctx),
  ]);
  const copied = source === null ? null : copyOf(source);
  const start = target ?? copied?.copy ?? null;
  const from = target ?? source;
  return {
    target,
    /** Values that the form starts with: of the target, or of the one that is cloned. */
    start,
    cloned: source,
    lostSecrets: copied?.lost ?? false,
    etag: target === null ? null : targetTag(target),
    kinds: kindForms(start?.check ?? null, target !== null),
    fields: targetFields(start),
    policy: startPolicy(start),
    /** Least interval of the plan; each kind has its own, too. */
    minIntervalSecs: plan.min_check_interval_secs,
    channels,
    certificates,
    ladder: org.escalation,
    members: await namesOf(ctx, start === null ? [] : listedMembers(start.check)),
    parents: from === null ? [] : (await neighboursOf(ctx, from.id)).parents,
    regions: regions.map((region) => ({
      ...region,
      chosen: ownRegions.includes(region.id),
      note: !region.enabled ? "Disabled by the operator" : served.has(region.id) ? "Online" : "No agent connected",
    })),
  };
}

/** The enabled regions of a new monitor: those of the one that is cloned, else those with an agent, else all. */
async function startRegions(ctx: Ctx, source: Target | null): Promise<string[]> {
  const enabled = (await listRegionChoices(ctx, [])).map(({ id }) => id);
  const own = source === null ? await servedRegions(ctx) : new Set((await targetRegions(ctx, source.id)).regions);
  const kept = enabled.filter((id) => own.has(id));
  return kept.length > 0 ? kept : enabled;
}

async function newMonitor({ ctx, query }: PageCall<"tenant">) {
  const source = query["from"] === undefined ? null : await getTarget(ctx, query["from"]);
  const type = source?.check.type ?? (isCheckType(query["kind"]) ? query["kind"] : checkTypes[0]!);
  const regions = await startRegions(ctx, source);
  return {
    view: "targets/form" as const,
    data: { ...(await formData(ctx, null, regions, source)), type, address: (query["address"] ?? "").slice(0, 2048) },
  };
}

async function editMonitor({ ctx, params }: PageCall<"tenant">) {
  const target = await getTarget(ctx, params["id"]!);
  const { regions } = await targetRegions(ctx, target.id);
  return {
    view: "targets/form" as const,
    data: { ...(await formData(ctx, target, regions)), type: target.check.type, address: "" },
  };
}

export const targetsPages = [
  page("/", "tenant", monitorsPage),
  page("/monitors", "tenant", monitorsPage),
  // The console asks for it after a test or a check, so that their words are those of every page.
  page("/monitors/finding", "tenant", async ({ ctx, query, http }) =>
    http.get("sec-fetch-dest") === "document"
      ? { redirect: "/monitors" }
      : { view: "targets/finding", data: findingOf(query, await regionNamer(ctx)) },
  ),
  formPage("/monitors/new", newMonitor),
  formPage("/monitors/import", async ({ ctx }) => ({
    view: "targets/import",
    data: {
      title: "Import monitors",
      minIntervalSecs: Math.max(checkKinds.http.minIntervalSecs, (await planOf(ctx)).min_check_interval_secs),
    },
  })),
  formPage("/monitors/{id}/edit", editMonitor),
  page("/monitors/{id}", "tenant", monitor),
  page("/expiring", "tenant", async ({ ctx, query, offset }) => {
    const level = expirationLevels.find((known) => known === query["level"]);
    const list = await listExpirations(ctx, {
      ...(level === undefined ? {} : { level }),
      limit: 50,
      offset,
    });
    return { view: "targets/expiring", data: { list, level: level ?? "" } };
  }),
];

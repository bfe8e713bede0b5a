import { reservedRegions } from "@statusmesh/shared/checks";
import { normaliseId } from "@statusmesh/shared/ids";
import { normaliseText } from "@statusmesh/shared/text";
import { hourMs, minuteMs } from "@statusmesh/shared/time";
import type { Ctx } from "../../platform/context.ts";
import { causeName, causeTitle, namesOf, readCause, shareOf, withRegionName } from "../causes/service.ts";
import type { LatencyPoint } from "../../platform/html/charts.ts";
import { numbered } from "../../platform/html/format.ts";
import { formPage, page, wholeNumber } from "../../platform/html/pages.ts";
import { readTimeRange } from "../../platform/http/query.ts";
import { kindLabel } from "../channels/config/service.ts";
import type { RegionPolicy } from "./evaluation/policy.ts";
import { type Incident, severities } from "./schema.ts";
import * as reports from "./reports/service.ts";
import * as escalation from "./escalation/service.ts";
import * as explanation from "./explanation/service.ts";
import * as timelineService from "./timeline/service.ts";
import * as service from "./service.ts";
import { textsOf, timelineOf } from "./timeline/timeline.ts";
import { templatesFor } from "../update-templates/service.ts";

const pageSize = 50;
const states = ["all", "unacknowledged", "open", "closed"] as const;
/** Ranges of the list, in hours before now. */
const ranges: Readonly<Record<string, number>> = { "24h": 24, "7d": 168, "30d": 720 };
/** Events that the page of an incident shows. */
const maxEvents = 1000;
/** Outages that it shows, newest first. */
const maxOutages = 20;

/** The query of the list as far as it makes sense: a range, or `since` where that is null. */
function readQuery(query: Readonly<Record<string, string>>, now: number) {
  const { severity = "", since = "" } = query;
  const range = readTimeRange(query, now);
  return {
    range,
    state: states.find((known) => known === query["state"]) ?? "all",
    monitor: normaliseId(query["monitor"] ?? ""),
    severity: (severities as readonly string[]).includes(severity) ? severity : "",
    since: range === null && Object.hasOwn(ranges, since) ? since : "",
    cause: readCause(query["cause"] ?? "") === null ? "" : normaliseText(query["cause"]!),
    offset: wholeNumber(query["offset"], 0, 1_000_000),
  };
}

/** The last day of monitors by id, in slices of the same length: `up`, `degraded`, `down` or `none`. */
export type StripsOf = (ctx: Ctx, targetIds: readonly string[]) => Promise<ReadonlyMap<string, { strip: string[] }>>;

async function listOf(ctx: Ctx, asked: ReturnType<typeof readQuery>, stripsOf: StripsOf) {
  const { state, monitor, cause, offset } = asked;
  const severity = severities.find((known) => known === asked.severity);
  const hours = ranges[asked.since];
  const filter = {
    ...(monitor === "" ? {} : { target_id: monitor }),
    ...(severity === undefined ? {} : { severity }),
    ...(asked.range === null
      ? {}
      : { from: new Date(asked.range.from).toISOString(), to: new Date(asked.range.to).toISOString() }),
    ...(hours === undefined ? {} : { from: new Date(ctx.clock.now() - hours * hourMs).toISOString() }),
  };
  const waiting = state === "unacknowledged";
  const page = {
    state: waiting ? ("open" as const) : state,
    ...(waiting ? { acknowledged: false } : {}),
    ...filter,
    limit: pageSize,
    offset,
  };
  const [region, list, open, monitors] = await Promise.all([
    service.regionNamer(ctx),
    cause === ""
      ? service.listIncidentLines(ctx, page)
      : { ...(await service.listIncidents(ctx, { ...page, cause })), causes: [] },
    service.openCounts(ctx),
    service.monitorsWithIncidents(ctx),
  ]);
  const strips = await stripsOf(
    ctx,
    list.causes.map(({ exampleId }) => exampleId),
  );
  const items = list.items.map((one) => ({
    ...one,
    rank: service.rankOf(one),
  }));
  return {
    list: { ...list, items },
    causes: list.causes.map((one) => ({
      ...inWords(one, region),
      strip: strips.get(one.exampleId)?.strip ?? [],
    })),
    open,
    region,
    monitors,
    causeName: cause === "" ? "" : causeName(readCause(cause)!),
  };
}

/** A line of a common cause with its words. */
function inWords(line: service.IncidentCause, region: (id: string) => string) {
  const one = withRegionName(line, region);
  return { ...one, lead: causeTitle(one), share: shareOf(one, "incident"), detail: namesOf(one.names, one.count) };
}

/** Open causes that the view for people on call shows. */
const maxCalls = 50;

/** Latency of a monitor in a range, RFC 3339: of the domain of results, which stands above this one. */
export type LatencyOf = (
  ctx: Ctx,
  targetId: string,
  range: { from: string; to: string; slices: number },
) => Promise<{ buckets: readonly LatencyPoint[] }>;

/** Points of the chart of an incident, and the least time that it shows before the start. */
const chartPoints = 120;
const leastBeforeMs = 30 * minuteMs;

/** Latency around an incident, and its outages. Null where the results of that time are gone. */
async function chartOf(ctx: Ctx, incident: Incident, outages: readonly reports.Outage[], latencyOf: LatencyOf) {
  const now = ctx.clock.now();
  const start = Date.parse(incident.started_at);
  const end = incident.ended_at === null ? now : Date.parse(incident.ended_at);
  const around = Math.max(leastBeforeMs, (end - start) / 2);
  const [from, to] = [start - around, Math.min(now, end + around)];
  const { buckets } = await latencyOf(ctx, incident.target_id, {
    from: new Date(from).toISOString(),
    to: new Date(to).toISOString(),
    slices: chartPoints,
  });
  if (!buckets.some(({ samples }) => samples > 0)) return null;
  const shades = outages.map(({ started_at, ended_at, state }) => ({
    from: started_at.getTime(),
    to: ended_at?.getTime() ?? now,
    kind: state === "degraded" ? ("degraded" as const) : ("down" as const),
    title: "Outage",
  }));
  return { points: buckets, shades, range: { from, to, live: to === now } };
}

/** How many subscribers an update of an incident of a monitor reaches, by page: of the domain of subscribers. */
type ReachOf = (ctx: Ctx, targetId: string) => Promise<ReadonlyMap<string, number>>;

export const incidentsPages = (stripsOf: StripsOf, latencyOf: LatencyOf, reachOf: ReachOf) => [
  page("/oncall", "tenant", async ({ ctx }) => {
    const [region, { causes, items, total }, open] = await Promise.all([
      service.regionNamer(ctx),
      service.listIncidentLines(ctx, { state: "open", limit: maxCalls, offset: 0 }),
      service.openCounts(ctx),
    ]);
    const [shared, calls] = await Promise.all([
      escalation.callsOfCauses(
        ctx,
        causes.map(({ key }) => key),
      ),
      escalation.callsOf(
        ctx,
        items.map(({ id }) => id),
      ),
    ]);
    return {
      view: "incidents/on-call",
      fragment: "incidents/on-call-live",
      data: {
        title: numbered("On call", open.waiting),
        open,
        causes: causes.map((one) => ({ ...inWords(one, region), call: shared.get(one.key) ?? null })),
        items: items.map((one) => ({ ...one, rank: service.rankOf(one), call: calls.get(one.id) ?? null })),
        hidden: total - causes.length - items.length,
      },
    };
  }),
  page("/incidents", "tenant", async ({ ctx, query }) => {
    const asked = readQuery(query, ctx.clock.now());
    const data = await listOf(ctx, asked, stripsOf);
    return {
      view: "incidents/list",
      fragment: "incidents/list-live",
      data: { title: numbered("Incidents", data.open.waiting), ...data, query: asked },
    };
  }),
  formPage("/incidents/new", async ({ ctx, query }) => {
    const chosen = await service.namedMonitor(ctx, normaliseId(query["monitor"] ?? ""));
    return { view: "incidents/report", data: { chosen, templates: await templatesFor(ctx, "incident") } };
  }),
  page("/incidents/{id}", "tenant", async ({ ctx, params }) => {
    const id = params["id"]!;
    const incident = await service.getIncident(ctx, id);
    const [region, explained, events, snapshots, outages, templates, reach] = await Promise.all([
      service.regionNamer(ctx),
      explanation.explainIncident(ctx, id),
      timelineService.listEvents(ctx, id, { limit: maxEvents, offset: 0 }),
      timelineService.listSnapshots(ctx, id),
      reports.listOutages(ctx, { incidentId: id }, maxOutages),
      templatesFor(ctx, "incident"),
      reachOf(ctx, incident.target_id),
    ]);
    // Of a closed incident: all that failed at some time.
    const failed = [
      ...new Set([
        ...incident.regions_down,
        ...events.items.flatMap(({ detail }) => textsOf((detail as Record<string, unknown>)["regions_down"])),
      ]),
    ];
    const regionsThen = { failed, passed: incident.regions_up.filter((own) => !failed.includes(own)) };
    const votes = { ...explained, region_policy: explained.region_policy as RegionPolicy };
    const deliveries = {
      items: votes.deliveries.map((one) => ({ ...one, kind: kindLabel(one.channel_type) })),
      total: votes.deliveries_total,
    };
    const timeline = timelineOf(events.items, deliveries.items, region);
    const call = (await escalation.callsOf(ctx, [id])).get(id) ?? null;
    const chart = await chartOf(ctx, incident, outages, latencyOf);
    const title = `${incident.state === "open" ? "Open" : "Closed"} incident: ${incident.monitor_name}`;
    return {
      view: "incidents/show",
      fragment: "incidents/show-live",
      data: {
        title,
        region,
        incident,
        call,
        votes,
        regionsThen,
        /** False for heartbeats and groups, whose one region stands for the monitor itself. */
        isProbed: !votes.regions.some(({ region: own }) => reservedRegions.includes(own)),
        chart,
        deliveries,
        timeline,
        outages,
        templates,
        reach: incident.publications
          .filter(({ published_at: at }) => at !== null)
          .map(({ page_id: page, page_name: name }) => ({ name, count: reach.get(page) ?? 0 })),
        snapshots: snapshots.toReversed(),
      },
    };
  }),
];

import Type from "typebox";
import { Closed, Integer, Shape, Text } from "../../../platform/http/wire.ts";
import { ok, route, type Route } from "../../../platform/http/route.ts";
import { mapInTurns } from "../../../platform/process/turns.ts";
import { AppError } from "@statusmesh/shared/errors";
import type { PageVisit } from "../../../platform/context.ts";
import type { ServedStatus } from "../page/compute.ts";
import { mostSevere } from "../page/entries.ts";
import { componentsOf, oncePerStatus, servedStatus } from "../service.ts";
import type { ComponentState } from "../page/states.ts";

/*
 * A published page in the shape of Uptime Kuma (server/routers/status-page-router.js there), for dashboards that read
 * nothing else. Ids are the numbers of monitors and components.
 */

/** Kuma's numbers: 0 down, 1 up, 2 pending, 3 maintenance. */
const statuses: Record<ComponentState, number> = {
  operational: 1,
  degraded: 1,
  partial_outage: 0,
  major_outage: 0,
  maintenance: 3,
  no_data: 2,
};

const KumaPage = Shape("KumaPage", "A page in the shape of Uptime Kuma", {
  config: Closed(
    {
      slug: Text("Slug of the page", "acme"),
      title: Text("Heading of the page", "Acme"),
      description: Type.Union([Type.String(), Type.Null()], { description: "About the page", examples: [null] }),
      published: Type.Literal(true, { description: "Others are not found" }),
    },
    { description: "The page" },
  ),
  incident: Type.Union(
    [
      Closed({
        id: Text("Id", "01939f6d-4f2a-7b3c-9a52-8f0e6d1c2b3a"),
        title: Text("Title", "Checkout unavailable"),
        content: Text("Newest update; empty without one", "We have found the cause."),
        style: Text("Kuma's word for its colour", "danger"),
        createdDate: Text("Start, UTC", "2026-11-20 09:30:00"),
        pin: Type.Literal(true, { description: "Kuma's word for open" }),
      }),
      Type.Null(),
    ],
    { description: "The most severe open incident; null for none" },
  ),
  publicGroupList: Type.Array(
    Closed({
      id: Integer("Position", 1),
      name: Text("Name; empty for components without a group", "Shop"),
      weight: Integer("Position", 1),
      monitorList: Type.Array(
        Closed({
          id: Integer("Number of the monitor", 7),
          name: Text("Name of the component", "Checkout"),
        }),
        { description: "In their order" },
      ),
    }),
    { description: "In the order of the page" },
  ),
  maintenanceList: Type.Array(
    Closed({
      id: Text("Id of the window", "1"),
      title: Text("Title", "Database upgrade"),
    }),
    { description: "Open windows" },
  ),
});

const KumaHeartbeats = Shape("KumaHeartbeats", "States of a page in the shape of Uptime Kuma", {
  heartbeatList: Type.Record(
    Type.String(),
    Type.Array(
      Closed({
        status: Integer("0 down, 1 up, 2 pending, 3 maintenance", 1),
        time: Text("UTC", "2026-11-20 00:00:00.000"),
        msg: Type.Literal("", { description: "Always empty" }),
        ping: Type.Null({ description: "Not published" }),
      }),
    ),
    { description: "By the number of the monitor: a beat for each of the last days, and now", examples: [{}] },
  ),
  uptimeList: Type.Record(Type.String(), Type.Number(), {
    description: "By number and hours: the share of today without an outage",
    examples: [{ "7_24": 1 }],
  }),
});

const shared = {
  auth: "page",
  tag: "Public",
  cache: "public, max-age=10, stale-while-revalidate=30",
  etag: true,
  params: Type.Object({ slug: Type.String({ maxLength: 60, description: "Slug of the page" }) }),
} as const;

export const kumaRoutes: Route[] = [
  route("GET", "/api/status-page/{slug}", {
    ...shared,
    summary: "A status page in the shape of Uptime Kuma",
    replies: { 200: KumaPage },
    handle: async ({ ctx, params }) => ok(pageOf(params.slug, await servedAt(ctx, params.slug))),
  }),
  route("GET", "/api/status-page/heartbeat/{slug}", {
    ...shared,
    summary: "States of a status page in the shape of Uptime Kuma",
    replies: { 200: KumaHeartbeats },
    handle: async ({ ctx, params }) => ok(await heartbeatsJson(await servedAt(ctx, params.slug))),
  }),
];

/** The page of the path, which names its slug as it is stored. */
async function servedAt(visit: PageVisit, slug: string): Promise<ServedStatus> {
  if (visit.page.slug !== slug) throw new AppError("STATUS_PAGE_NOT_FOUND", "No status page is published here.");
  return await servedStatus(visit);
}

const comma = Buffer.from(",");
const time = (iso: string): string => iso.replace("T", " ").replace("Z", "");

function pageOf(slug: string, { status, entries, monitor }: ServedStatus) {
  const incident = mostSevere(entries);
  return {
    config: { slug, title: status.page.name, description: status.page.about, published: true },
    incident:
      incident === null
        ? null
        : {
            id: incident.id,
            title: incident.title,
            content: incident.updates[0]?.message ?? "",
            style: incident.status === "degraded" ? "warning" : "danger",
            createdDate: time(incident.started_at).slice(0, 19),
            pin: true,
          },
    publicGroupList: status.groups.map(({ name, components }, at) => ({
      id: at + 1,
      name: name ?? "",
      weight: at + 1,
      monitorList: components.map(({ id, name: own }) => ({ id: monitor(id).number, name: own })),
    })),
    maintenanceList: status.active_maintenance.map(({ id, title }) => ({ id, title })),
  };
}

/** The heartbeats as JSON, written component by component: a thousand of them are 6 MB. */
const heartbeatsJson = oncePerStatus(async ({ status, monitor, uptime }) => {
  const now = time(status.generated_at);
  const beat = (status: number, at: string) => ({ status, time: at, msg: "", ping: null });
  const affected = new Set(status.active_incidents.map(({ component }) => component.id));
  const uptimes: Record<string, number> = {};
  const lists = await mapInTurns(componentsOf(status), ({ id, status: state, history }) => {
    const { number } = monitor(id);
    const pct = uptime(id, 1);
    if (pct !== null) uptimes[`${number}_24`] = pct / 100;
    const days = history.slice(0, -1).map((day) => beat(statuses[day.state], `${day.date} 00:00:00.000`));
    // Down while an incident is open, whatever its severity.
    const current = state !== "maintenance" && affected.has(id) ? 0 : statuses[state];
    return Buffer.from(`"${number}":${JSON.stringify([...days, beat(current, now)])}`);
  });
  return Buffer.concat([
    Buffer.from('{"heartbeatList":{'),
    ...lists.flatMap((list, at) => (at === 0 ? [list] : [comma, list])),
    Buffer.from(`},"uptimeList":${JSON.stringify(uptimes)}}`),
  ]);
});

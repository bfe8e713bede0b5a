import { normaliseId } from "@statusmesh/shared/ids";
import { numbered } from "../html/format.ts";
import { page, wholeNumber } from "../html/pages.ts";
import type { RegionPolicy } from "../targets/schema.ts";
import { explainIncident, getIncident, listIncidents } from "./service.ts";

const pageSize = 50;
const states = ["all", "open", "closed"] as const;

export const incidentsPages = [
  page({
    path: "/incidents",
    auth: "tenant",
    async handle({ ctx, query }) {
      const state = states.find((known) => known === query["state"]) ?? "all";
      const monitor = normaliseId(query["monitor"] ?? "");
      const offset = wholeNumber(query["offset"], 0, 1_000_000);
      const ofMonitor = monitor === "" ? {} : { target_id: monitor };
      const [list, open] = await Promise.all([
        listIncidents(ctx, { state, ...ofMonitor, limit: pageSize, offset }),
        listIncidents(ctx, { state: "open", ...ofMonitor, limit: 1, offset: 0 }),
      ]);
      return {
        view: "incidents/list",
        fragment: "incidents/list-live",
        data: { title: numbered("Incidents", open.total), list, open: open.total, query: { state, monitor, offset } },
      };
    },
  }),
  page({
    path: "/incidents/{id}",
    auth: "tenant",
    async handle({ ctx, params }) {
      const id = params["id"]!;
      const incident = await getIncident(ctx, id);
      const explained = await explainIncident(ctx, id);
      const votes = { ...explained, region_policy: explained.region_policy as RegionPolicy };
      const deliveries = { items: votes.deliveries, total: votes.deliveries_total };
      const title = `${incident.state === "open" ? "Open" : "Closed"} incident: ${incident.monitor_name}`;
      return { view: "incidents/show", fragment: "incidents/show-live", data: { title, incident, votes, deliveries } };
    },
  }),
];

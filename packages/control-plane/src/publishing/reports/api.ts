import { csvReply } from "../../platform/http/csv.ts";
import { ok, route, type Route } from "../../platform/http/route.ts";
import { UptimePage, UptimeQuery } from "./schema.ts";
import { uptimeCsv, uptimeReport } from "./service.ts";

export const reportRoutes: Route[] = [
  route({
    method: "GET",
    path: "/api/v1/reports/uptime",
    auth: "tenant",
    scope: "targets:read",
    tag: "Reports",
    summary: "Uptime in a range of time, by target, tag or status page",
    description:
      "At most 400 days. Days are those of the organisation's zone. Maintenance is no downtime, imported history " +
      "counts, and times without checks are gaps, neither up nor down. By status page it needs status_page:read too.",
    query: UptimeQuery,
    replies: { 200: UptimePage },
    csv: true,
    errors: ["BAD_TIME_RANGE"],
    async handle({ ctx, query }) {
      if (query.format === "csv") return csvReply("uptime.csv", await uptimeCsv(ctx, query));
      const { items, total, limit, offset } = await uptimeReport(ctx, query);
      return ok({ items, total, limit, offset });
    },
  }),
];

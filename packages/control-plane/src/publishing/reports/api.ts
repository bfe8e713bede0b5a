import { csvReply } from "../../platform/http/reply/csv.ts";
import { createdIn, ok, route, type Route } from "../../platform/http/route.ts";
import { Recipient, RecipientCreate, RecipientPage, RecipientQuery } from "./recipient-schema.ts";
import * as recipients from "./recipients.ts";
import { UptimePage, UptimeQuery } from "./schema.ts";
import { uptimeCsv, uptimeReport } from "./service.ts";

const path = "/api/v1/reports/recipients";
const write = { auth: "tenant", scope: "channels:write", tag: "Reports" } as const;

export const reportRoutes: Route[] = [
  route("GET", "/api/v1/reports/uptime", {
    auth: "tenant",
    scope: "targets:read",
    tag: "Reports",
    summary: "Uptime in a range of time, by target, tag or status page",
    description:
      "At most 400 days. Days are those of the organisation's zone. Maintenance is not downtime, imported history " +
      "counts, and times without checks are gaps, neither up nor down. By status page it needs status_page:read too, " +
      "and components without a monitor are not included.",
    query: UptimeQuery,
    replies: { 200: UptimePage },
    csv: true,
    errors: ["BAD_TIME_RANGE"],
    async handle({ ctx, query }) {
      if (query.format === "csv") return csvReply("uptime.csv", await uptimeCsv(ctx, query));
      const { items, total, limit, offset, to: until } = await uptimeReport(ctx, query);
      return ok({ items, total, limit, offset, until });
    },
  }),
  route("GET", path, {
    auth: "tenant",
    scope: "channels:read",
    tag: "Reports",
    summary: "List the recipients of the uptime report",
    query: RecipientQuery,
    replies: { 200: RecipientPage },
    handle: async ({ ctx, query }) => ok(await recipients.listRecipients(ctx, query)),
  }),
  route("POST", path, {
    ...write,
    summary: "Send the uptime report to a mail channel every month",
    description:
      "On the first of each month, after 08:00 in the organisation's time zone, the channel gets one mail about the " +
      "month before. Needs targets:read too, and status_page:read for a status page.",
    body: RecipientCreate,
    replies: { 201: Recipient },
    errors: ["INVALID_REPORT_RECIPIENT"],
    handle: async ({ ctx, body }) => createdIn(`${path}#`, await recipients.addRecipient(ctx, body)),
  }),
  route("DELETE", `${path}/{id}`, {
    ...write,
    summary: "Stop sending a report",
    replies: { 204: null },
    errors: ["REPORT_RECIPIENT_NOT_FOUND"],
    handle: async ({ ctx, params }) => recipients.removeRecipient(ctx, params.id),
  }),
];

import Type from "typebox";
import { csvReply } from "../../platform/http/reply/csv.ts";
import { ok, route, type Route } from "../../platform/http/route.ts";
import { Closed, paging, Text } from "../../platform/http/wire.ts";
import { importHistory } from "./import/import.ts";
import { HistoryImport, HistoryImported } from "./import/schema.ts";
import { rangeQuery } from "./range.ts";
import { CheckResultPage, IncidentPeriodPage, LatencySeries, RegionLatency, Uptime } from "./schema.ts";
import * as latency from "./latency/service.ts";
import * as history from "./history/service.ts";
import * as service from "./service.ts";

const region = Type.Optional(Type.String({ maxLength: 40, description: "Only this region", examples: ["frankfurt"] }));
const shared = {
  auth: "tenant",
  scope: "targets:read",
  tag: "Results",
  errors: ["TARGET_NOT_FOUND", "BAD_TIME_RANGE"],
} as const;

/** Results and statistics computed from them. */
export const resultRoutes: Route[] = [
  route("GET", "/api/v1/targets/{id}/results", {
    ...shared,
    summary: "List results",
    description:
      "Newest first. Runs that were throttled or failed inside the agent, and rechecks, are listed and " +
      "count neither in uptime nor in latency.",
    query: Type.Object({ ...rangeQuery, region, ...paging(1000, 10_000) }),
    replies: { 200: CheckResultPage },
    handle: async ({ ctx, params, query }) => ok(await service.listResults(ctx, params.id, query)),
  }),
  route("GET", "/api/v1/targets/{id}/results.csv", {
    ...shared,
    summary: "Results as CSV",
    description: "The rows of the list, newest first, at most 1,000,000. Sent while it is read.",
    query: Closed({ ...rangeQuery, region }),
    replies: { 200: Text("CSV (RFC 4180) with a header line") },
    mediaType: "text/csv",
    handle: async ({ ctx, params, query }) =>
      csvReply(`results-${params.id.slice(0, 8)}.csv`, await service.resultsCsv(ctx, params.id, query)),
  }),
  route("GET", "/api/v1/targets/{id}/latency", {
    ...shared,
    summary: "Latency over time",
    description:
      "The range in about 60 slices, each a multiple of 60 s. Exact below 60 hours. Ranges of 60 hours and " +
      "more, and those that begin more than 90 days ago, are made from whole hours of the last 13 months: " +
      "percentiles are within 1 %, a slice is at least an hour long and takes the hours that begin in it.",
    query: Type.Object({ ...rangeQuery, region }),
    replies: { 200: LatencySeries },
    handle: async ({ ctx, params, query }) => ok(await latency.latencySeries(ctx, params.id, query)),
  }),
  route("GET", "/api/v1/targets/{id}/latency/by-region", {
    ...shared,
    summary: "Latency over time by region",
    query: Type.Object(rangeQuery),
    replies: { 200: RegionLatency },
    handle: async ({ ctx, params, query }) => ok(await latency.latencyByRegion(ctx, params.id, query)),
  }),
  route("GET", "/api/v1/targets/{id}/uptime", {
    ...shared,
    summary: "Uptime",
    query: Type.Object({ ...rangeQuery, region }),
    replies: { 200: Uptime },
    async handle({ ctx, params, query }) {
      const { share: _, ...found } = await service.uptime(ctx, params.id, query);
      return ok(found);
    },
  }),
  route("GET", "/api/v1/targets/{id}/incidents", {
    ...shared,
    summary: "List incident periods",
    description:
      "Newest first. A period is a contiguous run of down or error results of a region, in slot order; an " +
      "up result ends it, and bad runs after that are another period. Degraded results neither start, end " +
      "nor split a period and are not counted, nor are runs that were skipped. Periods of several regions " +
      "that overlap are one. A period that reaches over an edge of the range is shown whole.",
    query: Type.Object({
      ...rangeQuery,
      ongoing_only: Type.Boolean({ default: false, description: "Only ongoing periods" }),
      ...paging(100, 1000),
    }),
    replies: { 200: IncidentPeriodPage },
    handle: async ({ ctx, params, query }) => ok(await history.listPeriods(ctx, params.id, query)),
  }),
  route("POST", "/api/v1/import/history", {
    auth: "tenant",
    scope: "targets:write",
    role: "owner",
    category: "bulk_ops",
    tag: "Results",
    summary: "Import history",
    description:
      "What another product recorded of targets before their first own result: sums of UTC days, and incidents that " +
      "have ended; at most 10,000 days and incidents in a request. All or nothing; the same day, or an incident with " +
      "the same start, replaces what was imported before. It counts in uptime, strips, reports and badges, is marked " +
      "`imported`, opens no incident and sends no notification. On status pages the failing share of a day's runs " +
      "is its downtime.",
    bodyLimit: 4 * 1_048_576,
    body: HistoryImport,
    replies: { 200: HistoryImported },
    errors: [
      "TARGET_NOT_FOUND",
      "HISTORY_OVERLAP",
      "INVALID_ID",
      "INVALID_TIME_RANGE",
      "EMPTY_TITLE",
      "TITLE_TOO_LONG",
      "BULK_EMPTY",
      "BULK_TOO_LARGE",
    ],
    handle: async ({ ctx, body }) => ok(await importHistory(ctx, body)),
  }),
];

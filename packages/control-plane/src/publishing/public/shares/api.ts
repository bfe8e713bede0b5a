import Type from "typebox";
import { AppError } from "@statusmesh/shared/errors";
import { dayMs } from "@statusmesh/shared/time";
import { ok, route, type Route } from "../../../platform/http/route.ts";
import { paging, Text } from "../../../platform/http/wire.ts";
import type { OrgReader, System } from "../../../platform/context.ts";
import { CheckResultPage, IncidentPeriodPage, LatencySeries, rangeQuery } from "../../../monitoring/results/schema.ts";
import { parseRange, readResults } from "../../../monitoring/results/service.ts";
import { readLatency } from "../../../monitoring/results/latency/service.ts";
import { readPeriods } from "../../../monitoring/results/history/service.ts";
import { openShare } from "../../shares/service.ts";
import { publicPeriod, publicResult, sharedStatus } from "./view.ts";
import { SharedStatus } from "../schema.ts";
import { readForVisitors } from "./reads.ts";

/** A visitor may not make the service read more than this at a time. */
const maxRangeDays = 90;
const region = Type.Optional(Type.String({ maxLength: 40, description: "Only this region", examples: ["frankfurt"] }));
const shared = {
  auth: "public",
  tag: "Share links",
  // Nothing on the way may keep a copy: a revoked link ends with its next request.
  cache: "no-store",
  params: Type.Object({ token: Text("Token of the link") }),
} as const;

/** The data of a shared monitor, for anyone with the link. */
export const shareViewRoutes: Route[] = [
  route("GET", "/m/{token}/live", {
    ...shared,
    summary: "State of a shared monitor",
    replies: { 200: SharedStatus },
    errors: ["SHARE_NOT_FOUND", "STATUS_DATA_UNAVAILABLE"],
    handle: async ({ ctx, params }) => ok(await sharedStatus(ctx, params.token)),
  }),
  route("GET", "/m/{token}/results", {
    ...shared,
    summary: "Results of a shared monitor",
    description: "Newest first. Errors that name a host read as `check failed`.",
    query: Type.Object({ ...rangeQuery, region, ...paging(100, 1000) }),
    replies: { 200: CheckResultPage },
    errors: ["SHARE_NOT_FOUND", "BAD_TIME_RANGE", "STATUS_DATA_UNAVAILABLE"],
    async handle({ ctx, params, query }) {
      const page = await readRange(ctx, params.token, "results", query, (reader, id) => readResults(reader, id, query));
      return ok({ ...page, items: page.items.map(publicResult) });
    },
  }),
  route("GET", "/m/{token}/latency", {
    ...shared,
    summary: "Latency of a shared monitor",
    query: Type.Object({ ...rangeQuery, region }),
    replies: { 200: LatencySeries },
    errors: ["SHARE_NOT_FOUND", "BAD_TIME_RANGE", "STATUS_DATA_UNAVAILABLE"],
    handle: async ({ ctx, params, query }) =>
      ok(await readRange(ctx, params.token, "latency", query, (reader, id) => readLatency(reader, id, query))),
  }),
  route("GET", "/m/{token}/incidents", {
    ...shared,
    summary: "Incident periods of a shared monitor",
    query: Type.Object({ ...rangeQuery, ...paging(100, 1000) }),
    replies: { 200: IncidentPeriodPage },
    errors: ["SHARE_NOT_FOUND", "BAD_TIME_RANGE", "STATUS_DATA_UNAVAILABLE"],
    async handle({ ctx, params, query }) {
      const page = await readRange(ctx, params.token, "incidents", query, (reader, id) =>
        readPeriods(reader, id, { ...query, ongoing_only: false }),
      );
      return ok({ ...page, items: page.items.map(publicPeriod) });
    },
  }),
];

/**
 * Reads a range of the shared monitor for visitors, by {@link readForVisitors}. Throws SHARE_NOT_FOUND, and
 * BAD_TIME_RANGE for one that is longer than 90 days.
 */
async function readRange<T extends object>(
  visit: System,
  token: string,
  name: string,
  query: { from?: string | undefined; to?: string | undefined },
  work: (reader: OrgReader, targetId: string) => Promise<T>,
): Promise<T> {
  const share = await openShare(visit, token);
  const { from, to } = parseRange(query, visit.clock.now());
  if (to.getTime() - from.getTime() > maxRangeDays * dayMs)
    throw new AppError("BAD_TIME_RANGE", `A shared monitor is read in ranges of up to ${maxRangeDays} days.`, {
      field: "/query/from",
    });
  return await readForVisitors(visit, share, "ranges", `${name} ${JSON.stringify(query)}`, (reader) =>
    work(reader, share.targetId),
  );
}

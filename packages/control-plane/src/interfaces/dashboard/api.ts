import { ok, route, type Route } from "../../platform/http/route.ts";
import { DashboardSummary } from "./schema.ts";
import { dashboardSummary, type PipelineLoad } from "./service.ts";

export const dashboardRoutes = (load: PipelineLoad): Route[] => [
  route("GET", "/api/v1/dashboard/summary", {
    auth: "tenant",
    scope: "targets:read",
    tag: "Dashboard",
    summary: "The organisation in numbers",
    description: "At most 5 seconds old.",
    replies: { 200: DashboardSummary },
    cache: "private, max-age=5",
    handle: async ({ ctx }) => ok(await dashboardSummary(ctx, load)),
  }),
];

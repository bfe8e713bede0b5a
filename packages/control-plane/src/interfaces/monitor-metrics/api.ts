import Type from "typebox";
import { ok, route, type Route } from "../../platform/http/route.ts";
import { kumaMetrics, monitorMetrics } from "./service.ts";

const openMetrics = "application/openmetrics-text; version=1.0.0";

const Metrics = Type.String({
  title: "Metrics",
  description: "One sample per line",
  examples: ['statusmesh_monitor_up{id="01a20802-e7f2-75e3-bd04-d1ce2b1b0ca1",name="Shop",kind="http"} 1\n'],
});

export const monitorMetricRoutes: Route[] = [
  route("GET", "/kuma/metrics", {
    auth: "tenant",
    scope: "targets:read",
    tag: "Targets",
    summary: "Metrics of all monitors in the format of Uptime Kuma",
    description:
      "For Home Assistant and dashboards that read Kuma: its base address is `/kuma` here. The token may also be the " +
      "password of HTTP Basic with an empty user name. Paused monitors are left out. At most 5 seconds old.",
    mediaType: "text/plain; version=0.0.4",
    replies: { 200: Metrics },
    cache: "private, max-age=5",
    handle: async ({ ctx }) => ok(await kumaMetrics(ctx)),
  }),
  route("GET", "/api/v1/metrics", {
    auth: "tenant",
    scope: "targets:read",
    tag: "Targets",
    summary: "Metrics of all monitors for Prometheus",
    description:
      "In the text format of Prometheus, or in OpenMetrics where `Accept` prefers it. At most 5 seconds old; " +
      "uptime is made of summed hours and may lack the last two. A tag `name:value` is the label `tag_name`.",
    mediaType: "text/plain; version=0.0.4",
    replies: { 200: Metrics },
    cache: "private, max-age=5",
    handle: async ({ ctx, http }) => {
      http.vary("Accept");
      return http.accepts(["text/plain", openMetrics]) === openMetrics
        ? ok(await monitorMetrics(ctx, "openmetrics"), { "Content-Type": `${openMetrics}; charset=utf-8` })
        : ok(await monitorMetrics(ctx, "prometheus"));
    },
  }),
];

import Type from "typebox";
import { IdText } from "@statusmesh/shared/text";
import { hourMs } from "@statusmesh/shared/time";
import { tool, type Tool } from "../../platform/http/tool.ts";
import { absent, clippedOrNull, customerText, fitting } from "../../platform/http/tool-texts.ts";
import { Closed, described, Integer, Text, Timestamp } from "../../platform/http/wire.ts";
import { type IncidentSpan, incidentSpans } from "../../alerting/incidents/reports/service.ts";
import { latencySeries } from "./latency/service.ts";
import { listFailures, uptime } from "./service.ts";
import { listPeriods } from "./history/service.ts";

const windows = { "1h": hourMs, "24h": 24 * hourMs, "7d": 168 * hourMs, "30d": 720 * hourMs } as const;
const maxRows = 50;
/** Longest error of a row, characters; bytes of a list. The latency takes 8 kB of the 25. */
const shortText = 300;
const failureBytes = 9_000;
const periodBytes = 5_000;

const time = (description: string) => described(Timestamp, description);
const ms = () => absent(Type.Number());

const History = Closed({
  monitor_id: Type.String(),
  window: Type.String(),
  checks: Type.Integer(),
  uptime_pct: absent(Type.Number({ description: "Successful checks, percent" })),
  latency: Closed(
    {
      bucket_secs: Type.Integer(),
      buckets: Type.Array(
        Closed({
          t: time("Start of the bucket"),
          p50: ms(),
          p95: ms(),
          p99: ms(),
          samples: Type.Integer(),
        }),
        { description: "Oldest first, without those that have no samples" },
      ),
    },
    { description: "Duration of successful checks, milliseconds" },
  ),
  failures: Type.Array(
    Closed({
      at: time("Time of the check"),
      region: Type.String(),
      status: Type.Enum(["down", "degraded", "error"], { type: "string" }),
      error: absent(customerText("what failed")),
      http_status: absent(Type.Integer()),
    }),
    { description: "Failing and degraded checks, newest first" },
  ),
  failures_left_out: Integer("Older failures that are not in the list"),
  incidents: Type.Array(
    Closed({
      started_at: time("First failing check"),
      ended_at: absent(time("Absent while it is ongoing")),
      status: Type.Enum(["down", "error"], { type: "string", description: "Worst result" }),
      failed_checks: Type.Integer(),
      error: absent(customerText("what failed")),
      incident_id: absent(Text("Incident of this period; absent for an unconfirmed failure")),
    }),
    { description: "Periods of failing checks in the window, newest first" },
  ),
  incidents_left_out: Integer("Older periods that are not in the list"),
});

/** Whether an incident and a period of failing checks have a moment in common. */
const overlap = (one: IncidentSpan, period: { started_at: string; ended_at: string | null }): boolean =>
  (period.ended_at === null || one.started_at.getTime() <= Date.parse(period.ended_at)) &&
  (one.ended_at === null || one.ended_at.getTime() >= Date.parse(period.started_at));

export const resultTools: Tool[] = [
  tool({
    name: "get_monitor_history",
    title: "History of a monitor",
    description: "Uptime, latency, failures and periods of failure of one monitor.",
    scope: "targets:read",
    input: Closed({
      monitor_id: IdText({ maxLength: 100, description: "From list_monitors" }),
      window: Type.Enum(Object.keys(windows) as (keyof typeof windows)[], {
        type: "string",
        default: "24h",
        description: "How far back",
      }),
    }),
    output: History,
    async handle({ ctx, args: { monitor_id: id, window } }) {
      const to = new Date(ctx.clock.now());
      const range = { from: new Date(to.getTime() - windows[window]).toISOString(), to: to.toISOString() };
      const [counted, latency] = await Promise.all([uptime(ctx, id, range), latencySeries(ctx, id, range)]);
      const [failed, periods, opened] = await Promise.all([
        listFailures(ctx, id, { ...range, limit: maxRows }),
        listPeriods(ctx, id, { ...range, ongoing_only: false, limit: maxRows, offset: 0 }),
        incidentSpans(ctx, id, { from: new Date(range.from), to }),
      ]);
      const failures = fitting(
        failed.map(({ timestamp, region, status, error, http_status }) => ({
          at: timestamp,
          region,
          status: status as "down" | "degraded" | "error",
          error: clippedOrNull(error, shortText),
          http_status,
        })),
        failureBytes,
      );
      const incidents = fitting(
        periods.items.map(({ started_at, ended_at, status, check_count, error_sample }) => ({
          started_at,
          ended_at,
          status,
          failed_checks: check_count,
          error: clippedOrNull(error_sample, shortText),
          incident_id: opened.find((one) => overlap(one, { started_at, ended_at }))?.id ?? null,
        })),
        periodBytes,
      );
      return {
        monitor_id: id,
        window,
        checks: counted.total,
        uptime_pct: counted.share,
        latency: {
          bucket_secs: latency.bucket_seconds,
          buckets: latency.buckets
            .filter(({ samples }) => samples > 0)
            .map(({ t, p50, p95, p99, samples }) => ({ t: new Date(t).toISOString(), p50, p95, p99, samples })),
        },
        failures: failures.rows,
        failures_left_out: Math.max(0, counted.total - counted.up - failures.rows.length),
        incidents: incidents.rows,
        incidents_left_out: periods.total - incidents.rows.length,
      };
    },
  }),
];

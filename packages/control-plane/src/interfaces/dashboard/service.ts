import { LRUCache } from "lru-cache";
import { dayMs } from "@statusmesh/shared/time";
import { atMost, getOrMake } from "../../platform/caches.ts";
import { type Ctx, requireScope } from "../../platform/context.ts";
import { countIncidentsSince } from "../../alerting/incidents/service.ts";
import { lastDayCounts, uptimePct } from "../../monitoring/results/service.ts";
import { monitorCounts, openCircuits } from "../../monitoring/targets/list/service.ts";
import type { DashboardSummary } from "./schema.ts";

const freshMs = 5_000;
/** Maximum number of cached summaries; each is a dozen numbers. */
const maxOrgs = 10_000;

/** Pipeline figures of an organisation; see the fields of {@link DashboardSummary}. */
export type PipelineLoad = (ctx: Ctx) => Promise<{ inFlight: number; queued: number; dropped: number }>;

type Summaries = LRUCache<string, DashboardSummary, () => Promise<DashboardSummary>>;

/** One cache per database pool. */
const caches = new WeakMap<object, Summaries>();

/** Concurrent callers of a key share one computation; failures are not cached. */
const newCache = ({ clock }: Ctx): Summaries =>
  new LRUCache({
    ...atMost(maxOrgs),
    ttl: freshMs,
    ttlResolution: 0,
    perf: { now: () => clock.now() },
    fetchMethod: (_org, _stale, { context }) => context(),
  });

/** The dashboard summary, at most 5 s old, shared by the members of the organisation. */
export async function dashboardSummary(ctx: Ctx, load: PipelineLoad): Promise<DashboardSummary> {
  requireScope(ctx, "targets:read");
  const cache = getOrMake(caches, ctx.sql, () => newCache(ctx));
  return cache.get(ctx.orgId) ?? (await cache.forceFetch(ctx.orgId, { context: () => compute(ctx, load) }));
}

async function compute(ctx: Ctx, load: PipelineLoad): Promise<DashboardSummary> {
  const [states, runs, incidents, circuits, pipeline] = await Promise.all([
    monitorCounts(ctx),
    lastDayCounts(ctx, ctx.orgId),
    countIncidentsSince(ctx.sql, ctx.orgId, new Date(ctx.clock.now() - dayMs)),
    openCircuits(ctx),
    load(ctx),
  ]);
  const { paused, ...current_status } = states;
  const enabled = Object.values(current_status).reduce((sum, count) => sum + count, 0);
  return {
    targets: { total: enabled + paused, enabled, disabled: paused },
    current_status,
    last_24h: {
      checks_total: runs.up + runs.down + runs.degraded + runs.error,
      checks_up: runs.up + runs.degraded,
      uptime_pct: uptimePct(runs) ?? 100,
      incidents,
    },
    system: {
      in_flight_checks: pipeline.inFlight,
      result_queue_depth: pipeline.queued,
      dropped_results_last_5m: pipeline.dropped,
      circuit_breakers_open: circuits,
    },
  };
}

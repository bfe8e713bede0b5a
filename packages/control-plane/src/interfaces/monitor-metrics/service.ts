import { Readable } from "node:stream";
import { LRUCache } from "lru-cache";
import { hourMs, minuteMs, secondMs } from "@statusmesh/shared/time";
import {
  type NewestRun,
  newestRuns,
  type UptimeWindow,
  uptimesOf,
  type YearOf,
  yearsOf,
} from "../../monitoring/results/history/service.ts";
import { idOfNumber, measuredMonitors } from "../../monitoring/targets/health/service.ts";
import { getOrMake } from "../../platform/caches.ts";
import { type Ctx, requireScope } from "../../platform/context.ts";
import { mapInTurns } from "../../platform/process/turns.ts";
import { windowsOf } from "../../alerting/maintenance/service.ts";
import { kumaExposition } from "./kuma.ts";
import { exposition } from "./exposition.ts";

/** Scrapes within this time share a text. Uptime changes once an hour, and costs most of the read. */
const freshMs = 5 * secondMs;
const uptimeMs = minuteMs;
/** The days of a year: 3.7 million rows for 10,000 monitors. */
const yearMs = hourMs;
/** Of the texts of all organisations; one of 10,000 monitors has about 25 MB. */
const maxBytes = 67_108_864;
/** Of the uptimes of all organisations; those of a monitor take about 300. */
const uptimeBytes = { all: 33_554_432, monitor: 300 };

type Uptimes = Map<string, Record<UptimeWindow, number | null>>;

interface Caches {
  texts: LRUCache<string, Buffer[], Ctx>;
  kuma: LRUCache<string, Buffer[], Ctx>;
  uptimes: LRUCache<string, Uptimes, Ctx>;
  years: LRUCache<string, Map<string, YearOf>, Ctx>;
}

/** By database pool. */
const cachesOf = new WeakMap<object, Caches>();

const caches = (ctx: Ctx): Caches => getOrMake(cachesOf, ctx.sql, () => newCaches(ctx));

/** Concurrent scrapes share one read; failures are not cached. */
function newCaches({ clock }: Ctx): Caches {
  const shared = { ttlResolution: 0, perf: { now: () => clock.now() } };
  const sized = {
    maxSize: uptimeBytes.all,
    sizeCalculation: ({ size }: { size: number }) => 1 + uptimeBytes.monitor * size,
  };
  const texts = (read: (ctx: Ctx) => Promise<Buffer[]>) =>
    new LRUCache<string, Buffer[], Ctx>({
      ...shared,
      ttl: freshMs,
      maxSize: maxBytes,
      sizeCalculation: (chunks) => chunks.reduce((sum, { length }) => sum + length, 1),
      fetchMethod: (_org, _stale, { context }) => read(context),
    });
  return {
    texts: texts(textOf),
    kuma: texts(kumaTextOf),
    uptimes: new LRUCache<string, Uptimes, Ctx>({
      ...shared,
      ttl: uptimeMs,
      ...sized,
      fetchMethod: (_org, _stale, { context }) => uptimesOf(context),
    }),
    years: new LRUCache<string, Map<string, YearOf>, Ctx>({
      ...shared,
      ttl: yearMs,
      ...sized,
      fetchMethod: (_org, _stale, { context }) => yearsOf(context),
    }),
  };
}

/** Metrics of every monitor of the organisation as a stream of text, at most 5 s old. */
export async function monitorMetrics(ctx: Ctx, format: "prometheus" | "openmetrics"): Promise<Readable> {
  requireScope(ctx, "targets:read");
  const chunks = await caches(ctx).texts.forceFetch(ctx.orgId, { context: ctx });
  return Readable.from(format === "openmetrics" ? [...chunks, Buffer.from("# EOF\n")] : chunks, { objectMode: false });
}

/** The same in the words of Uptime Kuma. */
export async function kumaMetrics(ctx: Ctx): Promise<Readable> {
  requireScope(ctx, "targets:read");
  return Readable.from(await caches(ctx).kuma.forceFetch(ctx.orgId, { context: ctx }), { objectMode: false });
}

async function kumaTextOf(ctx: Ctx): Promise<Buffer[]> {
  const now = ctx.clock.now();
  const [monitors, runs, uptimes, years] = await Promise.all([
    measuredMonitors(ctx),
    newestRuns(ctx),
    caches(ctx).uptimes.forceFetch(ctx.orgId, { context: ctx }),
    caches(ctx).years.forceFetch(ctx.orgId, { context: ctx }),
  ]);
  const ids = monitors.map(({ id }) => id);
  const windows = await windowsOf(ctx, ctx.orgId, ids, { from: new Date(now), to: new Date(now + 1) });
  const maintained = new Set(windows.flatMap(({ target_ids: covered }) => covered));
  const byTarget = await runsByTarget(runs);
  return await kumaExposition(
    await mapInTurns(monitors, (monitor) => ({
      ...monitor,
      runs: byTarget.get(monitor.id) ?? [],
      uptime: uptimes.get(monitor.id) ?? null,
      year: years.get(monitor.id) ?? null,
      maintained: maintained.has(monitor.id),
    })),
    now,
  );
}

async function runsByTarget(runs: readonly NewestRun[]): Promise<Map<string, NewestRun[]>> {
  const byTarget = new Map<string, NewestRun[]>();
  await mapInTurns(runs, (run) => getOrMake(byTarget, run.target_id, (): NewestRun[] => []).push(run));
  return byTarget;
}

async function textOf(ctx: Ctx): Promise<Buffer[]> {
  const [monitors, runs, uptimes] = await Promise.all([
    measuredMonitors(ctx),
    newestRuns(ctx),
    caches(ctx).uptimes.forceFetch(ctx.orgId, { context: ctx }),
  ]);
  const byTarget = await runsByTarget(runs);
  return await exposition(
    await mapInTurns(monitors, (monitor) => ({
      ...monitor,
      runs: byTarget.get(monitor.id) ?? [],
      uptime: uptimes.get(monitor.id) ?? null,
    })),
  );
}

/** The id of the monitor with this number; null for none in the organisation. */
export async function monitorOfNumber(ctx: Ctx, number: number): Promise<string | null> {
  requireScope(ctx, "targets:read");
  return await idOfNumber(ctx, number);
}

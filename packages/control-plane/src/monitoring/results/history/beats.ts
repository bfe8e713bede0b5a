import { dayMs, hourMs, utcDay } from "@statusmesh/shared/time";
import { windowsOf } from "../../../alerting/maintenance/service.ts";
import { getOrMake } from "../../../platform/caches.ts";
import { type Ctx, requireScope } from "../../../platform/context.ts";
import { takeTurns } from "../../../platform/process/turns.ts";
import { availabilityOf, dayState, sliceState } from "../../heartbeats/schedule/service.ts";
import * as queries from "./beat-queries.ts";
import { selectDays, selectRecent } from "./overview-queries.ts";
import { roundMs } from "../resolve.ts";
import { percentileOf, runStatus, visitRuns } from "../latency/run-arrays.ts";
import type { RunArrays } from "../runs-queries.ts";

export type BeatState = "up" | "degraded" | "partial" | "down" | "none";

/** The last checks of a monitor in a list. */
export interface RecentChecks {
  /** One cell a slot, oldest first; the slot of now is left out until its result is there. */
  strip: (BeatState | "maintenance")[];
  /** Median and 95th percentile of the newest half hour of the last hour that has successful runs, ms; null: none. */
  p50Now: number | null;
  p95Now: number | null;
  /** Whether a maintenance window covers it now. */
  inMaintenance: boolean;
}

/** The last 50 checks of many monitors, without a scope check; foreign ids are left out. */
export async function readRecent(ctx: Ctx, targetIds: readonly string[]): Promise<Map<string, RecentChecks>> {
  const now = ctx.clock.now();
  const wanted = { checks: counts.checks + 1, leastSecs: (2 * halfHourMs) / 1000 };
  const found = new Map<string, Gathered>();
  const turns = await takeTurns();
  for (const row of await selectRecent(ctx.sql, ctx.orgId, targetIds, new Date(now), wanted)) {
    if (turns.over()) await turns.next();
    const own = getOrMake(found, row.targetId, (): Gathered => {
      return { intervalMs: row.intervalMs, slots: new Map(), totals: [[], []] };
    });
    if (row.arrays !== null) gather(own, row.region, row.arrays, now);
  }
  const ids = [...found.keys()];
  const longest = Math.max(0, ...[...found.values()].map(({ intervalMs }) => intervalMs));
  const range = { from: new Date(now - wanted.checks * longest), to: new Date(now + 1) };
  const [reported, windows] = await Promise.all([
    availabilityOf(ctx, ctx.orgId, ids, range),
    windowsOf(ctx, ctx.orgId, ids, range),
  ]);
  return new Map(
    [...found].map(([id, { intervalMs, slots, totals }]) => {
      const spans = windows
        .filter(({ target_ids: covered }) => covered.includes(id))
        .map(({ starts_at, ends_at }) => ({ start: starts_at.getTime(), end: ends_at.getTime() }));
      const isCovered = (at: number) => spans.some(({ start, end }) => start <= at && at < end);
      const job = reported.get(id);
      const last = Math.floor(now / intervalMs);
      const cells = Array.from({ length: wanted.checks }, (_, index) => {
        const slot = last - wanted.checks + 1 + index;
        const slice = { start: slot * intervalMs, end: (slot + 1) * intervalMs };
        const regions = [...(slots.get(slot)?.values() ?? [])].map((state) => ({ state }));
        const state = job === undefined ? stateOf(regions) : sliceState(job, slice);
        return state !== "none" && isCovered(slice.start) ? ("maintenance" as const) : state;
      });
      const newest = totals.find((own) => own.length > 0);
      return [
        id,
        {
          strip: cells.at(-1) === "none" ? cells.slice(0, -1) : cells.slice(1),
          p50Now: newest === undefined ? null : roundMs(percentileOf(newest, 0.5)),
          p95Now: newest === undefined ? null : roundMs(percentileOf(newest, 0.95)),
          inMaintenance: isCovered(now),
        },
      ];
    }),
  );
}

const halfHourMs = hourMs / 2;

interface Gathered {
  intervalMs: number;
  /** State of each region by the number of the slot, counted from the Unix epoch in intervals. */
  slots: Map<number, Map<string, BeatState>>;
  /** Times of successful runs of the newest half hour and of the one before, ms. */
  totals: [number[], number[]];
}

function gather({ intervalMs, slots, totals }: Gathered, region: string, arrays: RunArrays, now: number): void {
  visitRuns(arrays, ({ slot, status, counts: isCounted, total }) => {
    if (!isCounted) return;
    const regions = getOrMake(slots, Math.floor(slot / intervalMs), () => new Map<string, BeatState>());
    if (status === runStatus.down || status === runStatus.error) regions.set(region, "down");
    else {
      if (regions.get(region) !== "down")
        regions.set(region, status === runStatus.degraded || regions.get(region) === "degraded" ? "degraded" : "up");
      if (!Number.isNaN(total)) totals[Math.floor((now - slot) / halfHourMs)]?.push(total);
    }
  });
}

/** One beat of the bar of a monitor: a check of all regions, an hour or a day. */
export interface Beat {
  /** Begin, Unix ms. */
  at: number;
  state: BeatState;
  /** True for a day with imported runs. */
  imported?: true;
  /** Of a day with failing runs: their share of its time, seconds. */
  downSecs?: number;
  regions: { region: string; state: BeatState; p50: number | null; error: string | null }[];
}

/** How a bar counts its beats. */
export const beatKinds = ["checks", "hours", "days"] as const;
export type BeatKind = (typeof beatKinds)[number];

const counts: Readonly<Record<BeatKind, number>> = { checks: 50, hours: 24, days: 90 };

/** The last 50 checks, 24 hours or 90 days (UTC) of a monitor, oldest first. Empty beats have no regions. */
export async function readBeats(ctx: Ctx, id: string, kind: BeatKind, intervalSecs: number): Promise<Beat[]> {
  requireScope(ctx, "targets:read");
  const now = ctx.clock.now();
  if (kind === "days") return await days(ctx, id, now);
  const sliceMs = kind === "hours" ? hourMs : intervalSecs * 1000;
  const last = Math.floor(now / sliceMs);
  const first = last - counts[kind] + 1;
  const range = { from: new Date(first * sliceMs), to: new Date((last + 1) * sliceMs) };
  const beats = Array.from({ length: counts[kind] }, (_, at): Beat => {
    return { at: (first + at) * sliceMs, state: "none", regions: [] };
  });
  for (const row of await queries.selectBeats(ctx.sql, ctx.orgId, id, range, sliceMs)) {
    const { region, p50, error, failed, degraded } = row;
    const state = failed > 0 ? "down" : degraded > 0 ? "degraded" : "up";
    beats[row.slice - first]?.regions.push({ region, state, p50, error: state === "up" ? null : error });
  }
  const reported = (await availabilityOf(ctx, ctx.orgId, [id], range)).get(id);
  for (const beat of beats)
    beat.state =
      reported === undefined ? stateOf(beat.regions) : sliceState(reported, { start: beat.at, end: beat.at + sliceMs });
  // The slot of now may not have been reported yet: no gap is shown for it.
  return kind === "checks" && beats.at(-1)!.state === "none" ? beats.slice(0, -1) : beats;
}

/** Down where most of the regions fail, degraded where some do. */
function stateOf(regions: readonly { state: BeatState }[]): BeatState {
  const failing = regions.filter(({ state }) => state === "down").length;
  if (regions.length === 0) return "none";
  if (failing * 2 > regions.length) return "down";
  return failing > 0 || regions.some(({ state }) => state === "degraded") ? "degraded" : "up";
}

async function days(ctx: Ctx, id: string, now: number): Promise<Beat[]> {
  const firstDay = utcDay(now - (counts.days - 1) * dayMs);
  const rows = await selectDays(ctx.sql, ctx.orgId, [id], firstDay, new Date(now));
  const today = Math.floor(now / dayMs);
  const range = { from: new Date((today - counts.days + 1) * dayMs), to: new Date(now) };
  const reported = (await availabilityOf(ctx, ctx.orgId, [id], range)).get(id);
  const counted = new Map(rows.map((row) => [row.day, row]));
  return Array.from({ length: counts.days }, (_, index): Beat => {
    const at = (today - counts.days + 1 + index) * dayMs;
    const day = counted.get(utcDay(at));
    const imported = day?.imported === true ? { imported: true as const } : {};
    if (reported !== undefined)
      return { at, state: dayState(reported, { start: at, end: at + dayMs }), ...imported, regions: [] };
    if (day === undefined) return { at, state: "none", regions: [] };
    const failed = day.down + day.error;
    const all = failed + day.up + day.degraded;
    const state = failed * 2 > all ? "down" : failed > 0 ? "partial" : day.degraded > 0 ? "degraded" : "up";
    const secs = (Math.min(at + dayMs, now) - at) / 1000;
    const down = failed === 0 ? {} : { downSecs: (secs * failed) / all };
    return { at, state: all === 0 ? "none" : state, ...imported, ...down, regions: [] };
  });
}

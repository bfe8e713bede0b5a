import { dayMs, hourMs, utcDay } from "@statusmesh/shared/time";
import { type Ctx, requireScope } from "../../platform/context.ts";
import { availabilityOf, dayState, sliceState } from "../heartbeats/service.ts";
import * as queries from "./beat-queries.ts";
import { selectDays } from "./overview-queries.ts";

export type BeatState = "up" | "degraded" | "partial" | "down" | "none";

/** One beat of the bar of a monitor: a check of all regions, an hour or a day. */
export interface Beat {
  /** Begin, Unix ms. */
  at: number;
  state: BeatState;
  /** True for a day with imported runs. */
  imported?: true;
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
function stateOf(regions: Beat["regions"]): BeatState {
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
    return { at, state: all === 0 ? "none" : state, ...imported, regions: [] };
  });
}

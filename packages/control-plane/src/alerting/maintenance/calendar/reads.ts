import { dayMs } from "@statusmesh/shared/time";
import { type Ctx, requireScope } from "../../../platform/context.ts";
import * as queries from "../occurrence-queries.ts";

/** Soon enough to be named on the page of a monitor, ms. */
const soonMs = dayMs;

/** Occurrences of the organisation that overlap a time range, by start; at most `limit`. */
export async function calendar(
  ctx: Ctx,
  range: { from: Date; to: Date; limit: number },
): Promise<queries.CalendarRow[]> {
  requireScope(ctx, "maintenance:read");
  return await queries.selectCalendar(ctx.sql, ctx.orgId, range);
}

/** Occurrences in progress, by start; at most 10. */
export async function activeWindows(ctx: Ctx): Promise<queries.CalendarRow[]> {
  const now = ctx.clock.now();
  return await calendar(ctx, { from: new Date(now), to: new Date(now + 1), limit: 10 });
}

/** The occurrence of a monitor that is in progress or starts within a day; null for none. */
export async function targetWindow(ctx: Ctx, targetId: string): Promise<queries.TargetWindowRow | null> {
  requireScope(ctx, "maintenance:read");
  const now = ctx.clock.now();
  return await queries.selectTargetWindow(ctx.sql, ctx.orgId, targetId, {
    now: new Date(now),
    until: new Date(now + soonMs),
  });
}

/** Monitors of a window, and the published status pages that show it. */
export async function windowScope(ctx: Ctx, windowId: string) {
  requireScope(ctx, "maintenance:read");
  const [monitors, pages] = await Promise.all([
    queries.selectMonitorsOf(ctx.sql, ctx.orgId, windowId),
    queries.selectPagesOf(ctx.sql, ctx.orgId, windowId),
  ]);
  return { monitors, pages };
}

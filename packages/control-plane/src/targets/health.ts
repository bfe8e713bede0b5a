import { type Ctx, type OrgReader, requireScope } from "../context.ts";
import { everything } from "./filter-queries.ts";
import { type FailingRow, selectFailing, selectStates } from "./health-queries.ts";
import { countMonitors } from "./list-queries.ts";
import type { MonitorState } from "./schema.ts";

export interface OrgHealth {
  /** Monitors in each state. */
  totals: Record<MonitorState, number>;
  /** The worst failing monitors: worst state first, then the longest failure. */
  failing: FailingRow[];
  failingTotal: number;
}

/** How the monitors of the organisation are now, with the `worst` worst ones. */
export async function orgHealth(ctx: Ctx, { worst }: { worst: number }): Promise<OrgHealth> {
  requireScope(ctx, "targets:read");
  const now = new Date(ctx.clock.now());
  const [counts, failing] = await Promise.all([
    countMonitors(ctx.sql, ctx.orgId, now, everything),
    selectFailing(ctx.sql, ctx.orgId, now, worst),
  ]);
  const totals: OrgHealth["totals"] = { up: 0, down: 0, degraded: 0, error: 0, unknown: 0, paused: 0 };
  for (const { state, count } of counts) totals[state as MonitorState] = count;
  return { totals, failing, failingTotal: totals.down + totals.error + totals.degraded };
}

/** States of these monitors. Without a scope check, for lists of status pages, which check their own. */
export async function monitorStates(reader: OrgReader, ids: readonly string[]): Promise<Map<string, MonitorState>> {
  if (ids.length === 0) return new Map();
  const rows = await selectStates(reader.sql, reader.orgId, new Date(reader.clock.now()), ids);
  return new Map(rows.map(({ id, state }) => [id, state]));
}

import { kindOf } from "@statusmesh/shared/checks";
import { type Ctx, requireScope } from "../../platform/context.ts";
import * as queries from "./filter-queries.ts";
import type { MonitorState } from "./schema.ts";

export interface FoundMonitor {
  id: string;
  name: string;
  state: MonitorState;
  /** Summary of the check. */
  detail: string;
}

/** The monitors with every word of `q` in name, address or tags, and how many; names that begin with it first. */
export async function searchMonitors(
  ctx: Ctx,
  q: string,
  limit: number,
): Promise<{ items: FoundMonitor[]; total: number }> {
  requireScope(ctx, "targets:read");
  const rows = await queries.searchTargets(ctx.sql, ctx.orgId, new Date(ctx.clock.now()), q, limit);
  const items = rows.map(({ spec, total: _, ...row }) => ({ ...row, detail: kindOf(spec).summary(spec) }));
  return { items, total: rows[0]?.total ?? 0 };
}

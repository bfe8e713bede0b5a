import { kindOf } from "@statusmesh/shared/checks";
import { type Ctx, requireScope } from "../../platform/context.ts";
import * as queries from "./search-queries.ts";
import type { MonitorState } from "./schema.ts";

export interface FoundMonitor {
  id: string;
  name: string;
  state: MonitorState;
  /** Summary of the check. */
  detail: string;
}

/** The monitors with every word of `q` in name, address or tags; those whose name begins with it first. */
export async function searchMonitors(ctx: Ctx, q: string, limit: number): Promise<FoundMonitor[]> {
  requireScope(ctx, "targets:read");
  const rows = await queries.searchTargets(ctx.sql, ctx.orgId, new Date(ctx.clock.now()), q, limit);
  return rows.map(({ spec, ...row }) => ({ ...row, detail: kindOf(spec).summary(spec) }));
}

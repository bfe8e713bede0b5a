import { dayMs } from "@statusmesh/shared/time";
import { type Ctx, requireScope } from "../../platform/context.ts";
import * as queries from "./search-queries.ts";

/** Closed incidents older than this are not searched, days. */
const searchedDays = 90;

/** Open incidents, and those of the last 90 days, with every word in monitor, title or error; and how many. */
export async function searchIncidents(
  ctx: Ctx,
  words: readonly string[],
  limit: number,
): Promise<{ items: queries.FoundIncident[]; total: number }> {
  requireScope(ctx, "incidents:read");
  const from = new Date(ctx.clock.now() - searchedDays * dayMs);
  const items = await queries.searchIncidents(ctx.sql, ctx.orgId, words, from, limit);
  return { items, total: items[0]?.total ?? 0 };
}

import { LRUCache } from "lru-cache";
import type { Ctx, System } from "../../platform/context.ts";
import type { RateCategory } from "../../platform/http/route.ts";
import * as queries from "./queries.ts";

/** Time to live of cached budgets, ms: a changed plan applies after it. */
const freshMs = 5_000;
const maxOrgs = 10_000;

/** Requests per minute by category, from the plan of the caller's organisation; null is unlimited. */
export function openBudgets({
  clock,
}: Pick<System, "clock">): (ctx: Ctx) => Promise<Readonly<Record<RateCategory, number | null>>> {
  const known = new LRUCache<string, Record<RateCategory, number | null>, Ctx>({
    max: maxOrgs,
    ttl: freshMs,
    perf: { now: () => clock.now() },
    ttlResolution: 0,
    fetchMethod: async (orgId, _stale, { context }) => {
      const plan = await queries.selectPlan(context.sql, orgId);
      return {
        api_writes: plan.api_writes_per_min,
        api_reads: plan.api_reads_per_min,
        bulk_ops: plan.bulk_ops_per_min,
        test_now: plan.test_now_per_min,
        check_now: plan.check_now_per_min,
      };
    },
  });
  return async (ctx) => known.get(ctx.orgId) ?? (await known.forceFetch(ctx.orgId, { context: ctx }));
}

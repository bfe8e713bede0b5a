import { atMost } from "../../platform/caches.ts";
import type { Ctx, System } from "../../platform/context.ts";
import { StartupError } from "../../config/startup-error.ts";
import * as queries from "./queries.ts";
import type { Plan as PlanShown } from "./schema.ts";
import { PlanRefusal } from "./refusals.ts";
import { LRUCache } from "lru-cache";
import type { RateCategory } from "../../platform/http/route.ts";

export { PlanRefusal, purgeRefusals, recordRefusal, refusalsOf } from "./refusals.ts";

export type Plan = queries.PlanRow;

/** Singular and plural of the counted resources. */
const quotas = {
  max_members: ["member", "members"],
  max_targets: ["target", "targets"],
  max_status_pages: ["status page", "status pages"],
  max_public_components: ["public monitor", "public monitors"],
  max_components_per_page: ["component for each status page", "components for each status page"],
  max_updates_per_incident: ["update for each incident", "updates for each incident"],
  max_update_templates: ["update template", "update templates"],
  max_certificates: ["certificate", "certificates"],
  max_notification_channels: ["notification channel", "notification channels"],
  max_share_links_per_monitor: ["share link for each monitor", "share links for each monitor"],
  max_maintenance_windows: ["unfinished maintenance window", "unfinished maintenance windows"],
  max_shared_monitors: ["shared monitor", "shared monitors"],
} as const satisfies Partial<Record<keyof Plan, readonly [string, string]>>;

/** A quota of the plan. */
export type Quota = keyof typeof quotas;

/** Current number, and how many the transaction adds. */
export interface Use {
  readonly current: number;
  readonly adding: number;
}

/** Throws StartupError when `tenancy.default_plan` names a plan that does not exist. */
export async function requireDefaultPlan({ sql, config }: Pick<System, "sql" | "config">): Promise<void> {
  const plan = config.tenancy.default_plan;
  const known = (await queries.selectPlans(sql)).map(({ id }) => id);
  if (known.includes(plan)) return;
  throw new StartupError(
    `tenancy.default_plan (SM_TENANCY__DEFAULT_PLAN) names the plan "${plan}", which does not exist. ` +
      `Use one of: ${known.join(", ")}.`,
  );
}

/** Every plan, as it is without overrides. For operators. */
export async function listPlans({ sql }: Pick<System, "sql">): Promise<PlanShown[]> {
  return (await queries.selectPlans(sql)).map(({ id, name, ...limits }) => ({ id, name, limits }));
}

/** The plan of the caller's organisation. */
export async function planOf(ctx: Pick<Ctx, "sql" | "orgId">): Promise<Plan> {
  return await queries.selectPlan(ctx.sql, ctx.orgId);
}

/**
 * Takes quota for the resources that the transaction `tx` adds, and returns the plan. Throws QUOTA_EXCEEDED (for
 * channels CHANNEL_QUOTA_EXCEEDED). `use` runs with the organisation locked, so that concurrent additions count each
 * other; the lock lasts until the transaction ends. A plan without this limit takes no lock and counts nothing.
 */
export async function takeQuota(tx: Pick<Ctx, "sql" | "orgId">, quota: Quota, use: () => Promise<Use>): Promise<Plan> {
  const seen = await queries.selectPlan(tx.sql, tx.orgId);
  if (seen[quota] === null) return seen;
  const plan = await queries.lockPlan(tx.sql, tx.orgId);
  const limit = plan[quota];
  if (limit === null) return plan;
  quotaRule(tx.orgId, plan, quota, await use());
  return plan;
}

/** {@link takeQuota} for one resource more than `count` returns. */
export const takeOne = async (
  tx: Pick<Ctx, "sql" | "orgId">,
  quota: Quota,
  count: () => Promise<number>,
): Promise<Plan> => await takeQuota(tx, quota, async () => ({ current: await count(), adding: 1 }));

/** Throws what {@link takeQuota} throws, for a plan that is read already; takes nothing. */
export function quotaRule(orgId: string, plan: Plan, quota: Quota, { current, adding }: Use): void {
  const limit = plan[quota];
  if (limit !== null && adding > 0 && current + adding > limit) throw exceeded(orgId, quota, current, limit, plan.id);
}

function exceeded(orgId: string, quota: Quota, current: number, limit: number, plan: string): PlanRefusal {
  const allowed = `The plan ${plan} allows ${limit} ${quotas[quota][limit === 1 ? 0 : 1]}`;
  const there = `there ${current === 1 ? "is" : "are"} ${current} already`;
  const code = quota === "max_notification_channels" ? "CHANNEL_QUOTA_EXCEEDED" : "QUOTA_EXCEEDED";
  return new PlanRefusal(code, `${allowed}, and ${there}.`, { quota, current, limit, plan, orgId });
}

/** Time to live of cached budgets, ms: a changed plan applies after it. */
const freshMs = 5_000;
const maxOrgs = 10_000;

/** Requests per minute by category, from the plan of the caller's organisation; null is unlimited. */
export function openBudgets({
  clock,
}: Pick<System, "clock">): (ctx: Ctx) => Promise<Readonly<Record<RateCategory, number | null>>> {
  const known = new LRUCache<string, Record<RateCategory, number | null>, Ctx>({
    ...atMost(maxOrgs),
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

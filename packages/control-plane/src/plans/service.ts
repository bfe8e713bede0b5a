import type { ErrorCode } from "@statusmesh/shared/errors";
import type { Ctx } from "../context.ts";
import * as queries from "./queries.ts";
import { PlanRefusal } from "./refusals.ts";

export { openBudgets } from "./budgets.ts";
export { PlanRefusal, purgeRefusals, recordRefusal, refusalsOf } from "./refusals.ts";

export type Plan = queries.PlanRow;

interface QuotaWords {
  /** What it counts: one, and many. */
  readonly things: readonly [string, string];
  readonly code: ErrorCode;
}

const quotas = {
  max_members: { things: ["member", "members"], code: "QUOTA_EXCEEDED" },
  max_targets: { things: ["target", "targets"], code: "QUOTA_EXCEEDED" },
  max_status_pages: { things: ["status page", "status pages"], code: "QUOTA_EXCEEDED" },
  max_public_components: { things: ["public monitor", "public monitors"], code: "QUOTA_EXCEEDED" },
  max_notification_channels: {
    things: ["notification channel", "notification channels"],
    code: "CHANNEL_QUOTA_EXCEEDED",
  },
} as const satisfies Partial<Record<keyof Plan, QuotaWords>>;

/** Something of which a plan allows only so many. */
export type Quota = keyof typeof quotas;

/** What there is of something, and how many of it the transaction adds. */
export interface Use {
  readonly current: number;
  readonly adding: number;
}

/** The plan of the caller's organisation. */
export async function planOf(ctx: Ctx): Promise<Plan> {
  return await queries.selectPlan(ctx.sql, ctx.orgId);
}

/**
 * Takes room for what the transaction `tx` is about to add, or has just added, and returns the plan. Throws QUOTA_EXCEEDED
 * (for channels CHANNEL_QUOTA_EXCEEDED) where the plan has none. `use` is called with the organisation locked, so that of
 * many parallel additions each counts those before it; the room is kept until the transaction ends. Where the plan knows
 * no limit nobody waits and nothing is counted.
 */
export async function takeQuota(tx: Pick<Ctx, "sql" | "orgId">, quota: Quota, use: () => Promise<Use>): Promise<Plan> {
  const seen = await queries.selectPlan(tx.sql, tx.orgId);
  if (seen[quota] === null) return seen;
  const plan = await queries.lockPlan(tx.sql, tx.orgId);
  const limit = plan[quota];
  if (limit === null) return plan;
  const { current, adding } = await use();
  if (adding > 0 && current + adding > limit) throw exceeded(tx.orgId, quota, current, limit, plan.id);
  return plan;
}

function exceeded(orgId: string, quota: Quota, current: number, limit: number, plan: string): PlanRefusal {
  const { things, code } = quotas[quota];
  return new PlanRefusal(
    code,
    `The plan ${plan} allows ${limit} ${things[limit === 1 ? 0 : 1]}, and there ${current === 1 ? "is" : "are"} ${current} already.`,
    {
      quota,
      current,
      limit,
      plan,
      orgId,
    },
  );
}

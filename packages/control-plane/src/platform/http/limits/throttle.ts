import { AppError } from "@statusmesh/shared/errors";
import type { Ctx } from "../../context.ts";
import type { Counter, Tally } from "./counter.ts";
import type { RateCategory } from "../route.ts";

/** Requests per minute of each category; null is unlimited. */
export type Budgets = Readonly<Record<RateCategory, number | null>>;

/** Charges a tenant's request to its budgets; throws RATE_LIMITED when one is exceeded. */
export type Throttle = (ctx: Ctx, category: RateCategory) => Promise<void>;

/**
 * Charges each request to its organisation and to its user, because a user may act in several. Both have the budget of
 * the organisation's plan for the category.
 */
export function openThrottle(counter: Counter, budgetsOf: (ctx: Ctx) => Promise<Budgets>): Throttle {
  return async (ctx, category) => {
    const budget = (await budgetsOf(ctx))[category];
    if (budget === null) return;
    const [org, user] = await Promise.all([
      counter.add(`${category}:org:${ctx.orgId}`),
      counter.add(`${category}:user:${ctx.userId}`),
    ]);
    refuseOver(budget, org, `per_org_${category}`);
    refuseOver(budget, user, `per_user_${category}`);
  };
}

/** Throws RATE_LIMITED when the count exceeds the budget of the minute. */
export function refuseOver(budget: number, { count, leftMs }: Tally, scope: string): void {
  if (count > budget) throw rateLimited(scope, leftMs, { limit: budget, window_secs: 60 });
}

/** RATE_LIMITED; `waitMs` becomes Retry-After. */
export function rateLimited(scope: string, waitMs: number, details: Record<string, number>): AppError {
  const secs = Math.max(1, Math.ceil(waitMs / 1000));
  return new AppError("RATE_LIMITED", `Too many requests. Try again in ${secs} s.`, {
    retryAfterSecs: secs,
    details: { scope, ...details },
  });
}

import { AppError, type ErrorCode, type ErrorExtras } from "@statusmesh/shared/errors";
import { newId } from "@statusmesh/shared/ids";
import { dayMs, minuteMs } from "@statusmesh/shared/time";
import type { Ctx, System } from "../../platform/context.ts";
import * as queries from "./queries.ts";

/** Period of the refusals in usage, days. */
const usageDays = 30;

/** A refusal: `current` exists or was requested, `limit` is the maximum (for the interval the minimum). */
export interface Refused extends Readonly<Pick<queries.RefusalRow, "quota" | "current" | "limit" | "plan">> {
  /** When it is not the organisation that the request acts in. */
  readonly orgId?: string;
}

/** The AppError of a refusal by a plan; {@link recordRefusal} recognises it. */
export class PlanRefusal extends AppError {
  readonly refused: Refused;

  constructor(code: ErrorCode, message: string, refused: Refused, extras: ErrorExtras = {}) {
    const { quota, current, limit, plan } = refused;
    super(code, message, { details: { quota, current, limit, plan }, ...extras });
    this.refused = refused;
  }
}

/** The refusal behind an error; a service may have wrapped it to set another field. */
function refusalIn(error: unknown): Refused | null {
  for (let at = error; at instanceof Error; at = at.cause) if (at instanceof PlanRefusal) return at.refused;
  return null;
}

/**
 * Records that a plan refused a request; ignores any other error. Called after the rollback of the refused
 * transaction. Never throws: a failure is logged.
 */
export async function recordRefusal(ctx: System | Ctx, error: unknown): Promise<void> {
  const refused = refusalIn(error);
  if (refused === null) return;
  const now = ctx.clock.now();
  const { quota, current, limit, plan } = refused;
  const [orgId, userId] = "orgId" in ctx ? [refused.orgId ?? ctx.orgId, ctx.userId] : [refused.orgId, null];
  if (orgId === undefined) return;
  try {
    const minute = new Date(now - (now % minuteMs));
    const row = { id: newId(), orgId, userId, quota, current, limit, plan, minute, at: new Date(now) };
    await queries.upsertRefusal(ctx.sql, row);
  } catch (cause) {
    ctx.log.warn({ org: orgId, quota, err: String(cause) }, "a plan limit refusal could not be recorded");
  }
}

/** Refusals per quota in the last 30 days, without zeros. The caller has checked its scope. */
export async function refusalsOf(ctx: Ctx): Promise<Record<string, number>> {
  const rows = await queries.countRefusals(ctx.sql, ctx.orgId, new Date(ctx.clock.now() - usageDays * dayMs));
  return Object.fromEntries(rows.map(({ quota, refusals }) => [quota, refusals]));
}

/** Deletes rows older than `retention.quota_events_days`. Returns their number. */
export async function purgeRefusals({ sql, clock, config }: System): Promise<number> {
  return await queries.deleteRefusalsBefore(sql, new Date(clock.now() - config.retention.quota_events_days * dayMs));
}

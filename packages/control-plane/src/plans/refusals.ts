import { AppError, type ErrorCode, type ErrorExtras } from "@statusmesh/shared/errors";
import { newId } from "@statusmesh/shared/ids";
import type { Ctx, System } from "../context.ts";
import * as queries from "./queries.ts";

const day = 86_400_000;
const minute = 60_000;
/** How far back usage counts refusals. */
const usageDays = 30;

/** What a plan does not allow: `current` was there or asked for where `limit` is the most (for the interval: the least). */
export interface Refused {
  /** The column of the plan, or what else limits. */
  readonly quota: string;
  readonly current: number;
  readonly limit: number;
  readonly plan: string;
  /** Where it is not the organisation that the request acts in. */
  readonly orgId?: string;
}

/** The AppError of a refusal by a plan; {@link recordRefusal} knows it again. */
export class PlanRefusal extends AppError {
  readonly refused: Refused;

  constructor(code: ErrorCode, message: string, refused: Refused, extras: ErrorExtras = {}) {
    const { quota, current, limit, plan } = refused;
    super(code, message, { details: { quota, current, limit, plan }, ...extras });
    this.refused = refused;
  }
}

/** The plan's refusal behind an error, which may have been given another field on its way. */
function refusalIn(error: unknown): Refused | null {
  for (let at = error; at instanceof Error; at = at.cause) if (at instanceof PlanRefusal) return at.refused;
  return null;
}

/**
 * Notes that a plan refused a request; any other error is none of its business. Called after the refused transaction has
 * been rolled back. Never throws: what cannot be noted goes to the log.
 */
export async function recordRefusal(ctx: System | Ctx, error: unknown): Promise<void> {
  const refused = refusalIn(error);
  if (refused === null) return;
  const now = ctx.clock.now();
  const { quota, current, limit, plan } = refused;
  const [orgId, userId] = "orgId" in ctx ? [refused.orgId ?? ctx.orgId, ctx.userId] : [refused.orgId, null];
  if (orgId === undefined) return;
  try {
    await queries.noteRefusal(ctx.sql, {
      id: newId(),
      orgId,
      userId,
      quota,
      current,
      limit,
      plan,
      minute: new Date(now - (now % minute)),
      at: new Date(now),
    });
  } catch (cause) {
    ctx.log.warn({ org: orgId, quota, err: String(cause) }, "a refusal by the plan could not be noted");
  }
}

/** How often each quota refused in the last 30 days; those that never did are not in it. The caller has asked for its scope. */
export async function refusalsOf(ctx: Ctx): Promise<Record<string, number>> {
  return Object.fromEntries(
    (await queries.countRefusals(ctx.sql, ctx.orgId, new Date(ctx.clock.now() - usageDays * day))).map(
      ({ quota, refusals }) => [quota, refusals],
    ),
  );
}

/** Removes what is older than `retention.quota_events_days`. Returns how many rows went. */
export async function purgeRefusals(system: System): Promise<number> {
  return await queries.deleteRefusalsBefore(
    system.sql,
    new Date(system.clock.now() - system.config.retention.quota_events_days * day),
  );
}

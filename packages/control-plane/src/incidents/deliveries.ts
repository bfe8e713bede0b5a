import { type Ctx, requireScope, type System } from "../context.ts";
import { iso, isoOrNull, type Page } from "../http/wire.ts";
import * as queries from "./delivery-queries.ts";
import { findIncident } from "./find.ts";
import type { Delivery } from "./schema.ts";

/** The notification log of an incident, oldest first, with every attempt. Throws INCIDENT_NOT_FOUND. */
export async function listDeliveries(
  ctx: Ctx,
  incidentId: string,
  { limit, offset }: { limit: number; offset: number },
): Promise<Page<Delivery>> {
  requireScope(ctx, "incidents:read");
  await findIncident(ctx, incidentId);
  return await deliveriesOf(ctx, incidentId, limit, offset);
}

/** Like {@link listDeliveries}, of an incident that is known to be the organisation's. */
export async function deliveriesOf(
  ctx: Ctx,
  incidentId: string,
  limit: number,
  offset: number,
): Promise<Page<Delivery>> {
  const [rows, total] = await Promise.all([
    queries.selectDeliveries(ctx.sql, ctx.orgId, incidentId, limit, offset),
    queries.countDeliveries(ctx.sql, ctx.orgId, incidentId),
  ]);
  const items = rows.map((row) => ({
    id: row.id,
    channel_id: row.channel_id,
    channel_name: row.channel_name,
    channel_type: row.channel_kind,
    reason: row.reason,
    state: row.state,
    attempts: row.attempts.map((attempt) => ({ ...attempt, at: new Date(attempt.at).toISOString() })),
    next_attempt_at: isoOrNull(row.next_attempt_at),
    created_at: iso(row.created_at),
    delivered_at: isoOrNull(row.delivered_at),
  }));
  return { items, total, limit, offset };
}

/**
 * Moves notices that waited while the organisation was deleted to dead letter: they are out of date, and what still lasts
 * gets its next reminder. Call it in the transaction that restores the organisation. Returns their number.
 */
export async function dropHeldNotices(tx: System, orgId: string): Promise<number> {
  const reason = "the organisation was deleted when this was to be sent";
  return await queries.dropPendingDeliveries(tx.sql, orgId, reason, new Date(tx.clock.now()));
}

import type { Ctx } from "../../platform/context.ts";
import type { Paging } from "../../platform/db/sql.ts";
import { iso, isoOrNull, type Page } from "../../platform/http/wire.ts";
import type { Delivery } from "./schema.ts";
import * as queries from "./log-queries.ts";

/** The notification log of an incident that is known to be the organisation's, oldest first, with every attempt. */
export async function deliveriesOf(ctx: Ctx, incidentId: string, { limit, offset }: Paging): Promise<Page<Delivery>> {
  const { rows, total } = await queries.selectDeliveries(ctx.sql, ctx.orgId, incidentId, { limit, offset });
  return { items: rows.map(presentDelivery), total, limit, offset };
}

export const presentDelivery = ({ channel_kind, ...row }: queries.DeliveryRow): Delivery => ({
  ...row,
  channel_type: channel_kind,
  attempts: row.attempts.map((attempt) => ({ ...attempt, at: new Date(attempt.at).toISOString() })),
  next_attempt_at: isoOrNull(row.next_attempt_at),
  created_at: iso(row.created_at),
  delivered_at: isoOrNull(row.delivered_at),
});

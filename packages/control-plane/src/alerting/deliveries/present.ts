import type { Ctx } from "../../platform/context.ts";
import type { Paging } from "../../platform/db/sql.ts";
import { iso, isoTimes, type Page, pageOf } from "../../platform/http/wire.ts";
import type { Delivery } from "./schema.ts";
import * as queries from "./log-queries.ts";

/** The notification log of an incident that is known to be the organisation's, oldest first, with every attempt. */
export async function deliveriesOf(ctx: Ctx, incidentId: string, page: Paging): Promise<Page<Delivery>> {
  return pageOf(await queries.selectDeliveries(ctx.sql, ctx.orgId, incidentId, page), page, presentDelivery);
}

export const presentDelivery = ({ channel_kind, ...row }: queries.DeliveryRow): Delivery => ({
  ...isoTimes(row),
  channel_type: channel_kind,
  attempts: row.attempts.map((attempt) => ({ ...attempt, at: iso(new Date(attempt.at)) })),
});

import type { Ctx } from "../../platform/context.ts";
import type { Paging } from "../../platform/db/client/sql.ts";
import { iso, isoTimes, type Page, pageOf } from "../../platform/http/wire.ts";
import { deviceNames } from "../channels/devices/service.ts";
import type { Delivery } from "./schema.ts";
import * as queries from "./log-queries.ts";

/**
 * The notification log of an incident that is known to be the organisation's, oldest first, with every attempt. A
 * device is named to its person and to owners.
 */
export async function deliveriesOf(ctx: Ctx, incidentId: string, page: Paging): Promise<Page<Delivery>> {
  const listed = await queries.selectDeliveries(ctx.sql, ctx.orgId, incidentId, page);
  const names = await deviceNames(
    ctx,
    listed.rows.flatMap(({ channel_id: id, channel_kind: kind }) => (id !== null && kind === "web_push" ? [id] : [])),
  );
  return pageOf(listed, page, (row) => {
    const delivery = presentDelivery(row);
    return { ...delivery, channel_name: names.get(row.channel_id ?? "") ?? delivery.channel_name };
  });
}

export const presentDelivery = ({ channel_kind, ...row }: queries.DeliveryRow): Delivery => ({
  ...isoTimes(row),
  channel_type: channel_kind,
  attempts: row.attempts.map((attempt) => ({ ...attempt, at: iso(new Date(attempt.at)) })),
});

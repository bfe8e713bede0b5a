import { differences, named, record } from "../../../access/audit/service.ts";
import { type Ctx, inTransaction, requireScope } from "../../../platform/context.ts";
import type { Paging } from "../../../platform/db/client/sql.ts";
import type { Page } from "../../../platform/http/wire.ts";
import { deliveriesOf, reviveDelivery } from "../../deliveries/engine.ts";
import type { Delivery } from "../../deliveries/schema.ts";
import { appendEvents } from "../timeline/events.ts";
import { lockEvidence } from "../evidence/evidence.ts";
import { findIncident } from "../find.ts";

/** The notification log of an incident, oldest first, with every attempt. Throws INCIDENT_NOT_FOUND. */
export async function listDeliveries(ctx: Ctx, incidentId: string, paging: Paging): Promise<Page<Delivery>> {
  requireScope(ctx, "incidents:read");
  await findIncident(ctx, incidentId);
  return await deliveriesOf(ctx, incidentId, paging);
}

/** Sends a dead delivery again. Throws INCIDENT_NOT_FOUND, and like {@link reviveDelivery}. */
export async function retryDelivery(ctx: Ctx, incidentId: string, deliveryId: string): Promise<Delivery> {
  requireScope(ctx, "incidents:write");
  return await inTransaction(ctx, async (tx) => {
    const { target_id: targetId, monitor_name } = await findIncident(tx, incidentId);
    await lockEvidence(tx, [targetId]);
    const { before, after } = await reviveDelivery(tx, incidentId, deliveryId);
    const { channel_id, channel_name, reason } = after;
    const detail = { delivery_id: deliveryId, channel_id, channel_name, reason };
    await appendEvents(tx, [incidentId], "notification_retried", detail);
    await record(tx, { resourceId: incidentId, ...named(differences({ before, after }), { monitor_name }) });
    return after;
  });
}

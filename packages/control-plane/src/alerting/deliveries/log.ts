import { AppError } from "@statusmesh/shared/errors";
import { isId } from "@statusmesh/shared/ids";
import { differences, named, record } from "../../access/audit/service.ts";
import { type Ctx, inTransaction, requireScope, type System } from "../../platform/context.ts";
import type { Paging } from "../../platform/db/sql.ts";
import type { Page } from "../../platform/http/wire.ts";
import * as queries from "./log-queries.ts";
import { deliveriesOf, presentDelivery } from "./present.ts";
import { appendEvents, findIncident, lockEvidence } from "../incidents/engine.ts";
import type { Delivery } from "../incidents/schema.ts";

/** The notification log of an incident, oldest first, with every attempt. Throws INCIDENT_NOT_FOUND. */
export async function listDeliveries(ctx: Ctx, incidentId: string, paging: Paging): Promise<Page<Delivery>> {
  requireScope(ctx, "incidents:read");
  await findIncident(ctx, incidentId);
  return await deliveriesOf(ctx, incidentId, paging);
}

/**
 * Sends a dead delivery again; of several requests at the same time, one succeeds. Throws INCIDENT_NOT_FOUND,
 * DELIVERY_NOT_FOUND, DELIVERY_NOT_DEAD, and DELIVERY_SUPERSEDED where the channel has received a newer notice.
 */
export async function retryDelivery(ctx: Ctx, incidentId: string, deliveryId: string): Promise<Delivery> {
  requireScope(ctx, "incidents:write");
  return await inTransaction(ctx, async (tx) => {
    const { target_id: targetId, monitor_name } = await findIncident(tx, incidentId);
    await lockEvidence(tx, [targetId]);
    const find = async () => await queries.selectDelivery(tx.sql, tx.orgId, incidentId, deliveryId);
    // A statement of its own: the next one reads what the transaction that held the lock has committed.
    const exists = isId(deliveryId) && (await queries.lockDelivery(tx.sql, tx.orgId, incidentId, deliveryId));
    const before = exists ? await find() : null;
    if (before === null) throw new AppError("DELIVERY_NOT_FOUND", "This incident has no such notification.");
    if (!(await queries.reviveDelivery(tx.sql, tx.orgId, incidentId, deliveryId, new Date(tx.clock.now()))))
      throw before.state === "dead"
        ? new AppError("DELIVERY_SUPERSEDED", "The channel has received a newer notification of this incident.")
        : new AppError(
            "DELIVERY_NOT_DEAD",
            `Only a failed notification can be sent again; this one is ${before.state}.`,
          );
    const after = presentDelivery((await find())!);
    const { channel_id, channel_name, reason } = after;
    await appendEvents(tx, [incidentId], "notification_retried", {
      delivery_id: deliveryId,
      channel_id,
      channel_name,
      reason,
    });
    const changed = differences({ before: presentDelivery(before), after });
    await record(tx, { resourceId: incidentId, ...named(changed, { monitor_name }) });
    return after;
  });
}

/**
 * Marks notices that waited while the organisation was deleted as dead: they are out of date, and an incident that is
 * still open gets its next reminder. Call it in the transaction that restores the organisation. Returns their number.
 */
export async function dropHeldNotices(tx: System, orgId: string): Promise<number> {
  const reason = "the organisation was deleted when this was to be sent";
  return await queries.dropPendingDeliveries(tx.sql, orgId, reason, new Date(tx.clock.now()));
}

import { AppError } from "@statusmesh/shared/errors";
import { isId } from "@statusmesh/shared/ids";
import type { Ctx, System } from "../../platform/context.ts";
import * as queries from "./log-queries.ts";
import { presentDelivery } from "./present.ts";

/**
 * Makes a dead delivery of an incident pending again, in a transaction that has locked the evidence of its target; of
 * several requests at the same time, one succeeds. Throws DELIVERY_NOT_FOUND, DELIVERY_NOT_DEAD, and
 * DELIVERY_SUPERSEDED where the channel has received a newer notice.
 */
export async function reviveDelivery(tx: Ctx, incidentId: string, id: string) {
  const find = async () => await queries.selectDelivery(tx.sql, tx.orgId, incidentId, id);
  // A statement of its own: the next one reads what the transaction that held the lock has committed.
  const exists = isId(id) && (await queries.lockDelivery(tx.sql, tx.orgId, incidentId, id));
  const before = exists ? await find() : null;
  if (before === null) throw new AppError("DELIVERY_NOT_FOUND", "This incident has no such notification.");
  if (!(await queries.reviveDelivery(tx.sql, tx.orgId, incidentId, id, new Date(tx.clock.now()))))
    throw before.state === "dead"
      ? new AppError("DELIVERY_SUPERSEDED", "The channel has received a newer notification of this incident.")
      : new AppError("DELIVERY_NOT_DEAD", `Only a failed notification can be sent again; this one is ${before.state}.`);
  return { before: presentDelivery(before), after: presentDelivery((await find())!) };
}

/**
 * Marks notices that waited while the organisation was deleted as dead: they are out of date, and an incident that is
 * still open gets its next reminder. Call it in the transaction that restores the organisation. Returns their number.
 */
export async function dropHeldNotices(tx: System, orgId: string): Promise<number> {
  const reason = "the organisation was deleted when this was to be sent";
  return await queries.dropPendingDeliveries(tx.sql, orgId, reason, new Date(tx.clock.now()));
}

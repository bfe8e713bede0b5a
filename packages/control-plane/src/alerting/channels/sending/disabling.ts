import { differences, record } from "../../../access/audit/service.ts";
import { asSystem, inTransaction, type System } from "../../../platform/context.ts";
import { present } from "../config/presenting.ts";
import * as queries from "../queries.ts";

/** Disables a locked channel with the reason, in the transaction of the caller. `action` is for the audit log. */
export async function disableLocked(
  tx: System,
  row: queries.ChannelRow,
  reason: string,
  action: string,
): Promise<void> {
  const at = new Date(tx.clock.now());
  const after = await queries.disableChannel(tx.sql, row, { reason, at, verified: true });
  const changes = differences({ before: present(tx, row), after: present(tx, after) });
  await record(asSystem(tx, row.org_id, action), { resourceId: row.id, ...changes });
}

/** Disables a channel whose receiver has ended for good; one that is disabled or deleted by now stays as it is. */
export async function disableChannel(system: System, orgId: string, id: string, reason: string): Promise<void> {
  await inTransaction(system, async (tx) => {
    const row = await queries.selectChannel(tx.sql, orgId, id, { lock: true });
    if (row?.enabled === true) await disableLocked(tx, row, reason, "push subscription ended");
  });
}

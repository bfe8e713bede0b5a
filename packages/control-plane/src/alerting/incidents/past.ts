import { newId } from "@statusmesh/shared/ids";
import type { ActorCtx } from "../../platform/context.ts";
import { insertPast, type PastIncident, selectFull } from "./past-queries.ts";

/**
 * Stores incidents from before the first own results of targets: closed, without a notice, no evidence. Call it in a
 * transaction, with targets of the organisation. Returns the first target that has more than `most`; null for none.
 */
export async function importIncidents(
  tx: ActorCtx,
  incidents: readonly Omit<PastIncident, "id">[],
  most: number,
): Promise<string | null> {
  if (incidents.length === 0) return null;
  const rows = incidents.map((one) => ({ ...one, id: newId() }));
  await insertPast(tx.sql, tx.orgId, rows, { severity: "major", imported: true }, new Date(tx.clock.now()));
  return await selectFull(tx.sql, [...new Set(rows.map(({ targetId }) => targetId))], most);
}

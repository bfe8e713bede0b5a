import { type CheckType, checkKinds } from "@statusmesh/shared/checks";
import { firstTry, isOnGrid, isOnRecheckGrid, secondTry } from "@statusmesh/shared/schedule";
import type { Db } from "../../../platform/db/client/sql.ts";
import { issueSlots, lockIssuing } from "./issued-slot-queries.ts";

/** Minimum time between rechecks of the kind, ms. */
export const leastRecheckMs = (kind: CheckType): number => (checkKinds[kind].minRecheckSecs ?? 0) * 1000;

/**
 * Issues a slot at or after `fromMs` that no other run of the target has in the region. Call it in the transaction
 * that stores the run. Null when the target is gone.
 */
export async function issueFreeSlot(
  sql: Db,
  { targetId, region, fromMs }: { targetId: string; region: string; fromMs: number },
): Promise<Date | null> {
  const row = await lockIssuing(sql, targetId, region, new Date(fromMs));
  if (row === null) return null;
  let slotMs = Math.max(fromMs, row.created_at.getTime(), secondTry(row.last?.getTime() ?? 0) + 1);
  const intervalsMs = row.intervals.map((secs) => secs * 1000);
  const grid = { targetId, region, intervalsMs, leastRecheckMs: leastRecheckMs(row.kind) };
  while (isOnGrid(grid, slotMs) || isOnGrid(grid, firstTry(slotMs)) || isOnRecheckGrid(grid, slotMs)) slotMs++;
  await issueSlots(sql, region, [{ targetId, slotMs }]);
  return new Date(slotMs);
}

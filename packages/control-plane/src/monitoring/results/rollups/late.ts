import { hourMs } from "@statusmesh/shared/time";
import type { AgentResult } from "@statusmesh/shared/protocol/agent-protocol";
import type { Db } from "../../../platform/db/client/sql.ts";
import { insertLateHours } from "./late-queries.ts";

/** Start of the hour of a slot, Unix ms. */
export const hourOf = (atMs: number): number => Math.floor(atMs / hourMs) * hourMs;

/**
 * Marks the hours of results that arrived after their hour ended, so that the rollup sums them again. Call it in
 * the transaction that inserts the results, with the new ones and the clock of the batch. That transaction must end
 * within 30 s; with clocks of replicas up to a minute apart nothing is missed.
 */
export async function markLate(
  sql: Db,
  results: readonly Pick<AgentResult, "target_id" | "scheduled_at">[],
  nowMs: number,
): Promise<void> {
  const current = hourOf(nowMs);
  const late = new Map<string, { targetId: string; hour: number }>();
  for (const { target_id: targetId, scheduled_at: slot } of results) {
    const hour = hourOf(slot);
    if (hour < current) late.set(`${targetId} ${hour}`, { targetId, hour });
  }
  if (late.size === 0) return;
  const marks = [...late.values()].sort((a, b) =>
    a.targetId === b.targetId ? a.hour - b.hour : a.targetId < b.targetId ? -1 : 1,
  );
  await insertLateHours(sql, marks);
}

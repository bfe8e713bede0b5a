import type { AgentResult } from "@statusmesh/shared/protocol/agent-protocol";
import { dayMs, secondMs } from "@statusmesh/shared/time";
import type { Db } from "../../../platform/db/client/sql.ts";
import { type CountsRow, insertCounts } from "./org-count-queries.ts";

/**
 * Counts new results for the organisations of their targets, in the transaction that stores them: one appended row per
 * organisation and second of the batch, so that batches do not wait for each other. Runs older than 24 hours are left
 * out.
 */
export async function countForOrgs(
  sql: Db,
  results: readonly Pick<AgentResult, "target_id" | "timestamp" | "status">[],
  orgOf: (targetId: string) => string,
  nowMs: number,
): Promise<void> {
  const rows = new Map<string, CountsRow>();
  for (const { target_id: id, timestamp: startedMs, status } of results) {
    if (startedMs < nowMs - dayMs) continue;
    const orgId = orgOf(id);
    const at = Math.floor(startedMs / secondMs) * secondMs;
    const key = `${orgId} ${at}`;
    let row = rows.get(key);
    if (row === undefined) rows.set(key, (row = { orgId, at, up: 0, down: 0, degraded: 0, error: 0 }));
    row[status]++;
  }
  if (rows.size === 0) return;
  await insertCounts(sql, [...rows.values()]);
}

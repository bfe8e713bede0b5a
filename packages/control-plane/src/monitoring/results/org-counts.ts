import type { CheckStatus } from "@statusmesh/shared/result";
import { dayMs, secondMs } from "@statusmesh/shared/time";
import type { Db } from "../../platform/db/sql.ts";
import { type CountsRow, insertCounts } from "./org-count-queries.ts";

/** A run as counted for its organisation. Times are Unix ms. */
export interface CountedRun {
  orgId: string;
  startedMs: number;
  status: CheckStatus;
}

/**
 * Counts new runs for their organisations, in the transaction that stores them: one appended row per organisation and
 * second of the batch, so that batches do not wait for each other. Runs older than 24 hours are left out.
 */
export async function countForOrgs(sql: Db, runs: readonly CountedRun[], nowMs: number): Promise<void> {
  const rows = new Map<string, CountsRow>();
  for (const { orgId, startedMs, status } of runs) {
    if (startedMs < nowMs - dayMs) continue;
    const at = Math.floor(startedMs / secondMs) * secondMs;
    const key = `${orgId} ${at}`;
    let row = rows.get(key);
    if (row === undefined) rows.set(key, (row = { orgId, at, up: 0, down: 0, degraded: 0, error: 0 }));
    row[status]++;
  }
  if (rows.size === 0) return;
  await insertCounts(sql, [...rows.values()]);
}

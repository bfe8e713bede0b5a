import { inTransaction, type System } from "../../../platform/context.ts";
import type { Db, Ids } from "../../../platform/db/client/sql.ts";
import { applyEvidence, type Decision, type EvidenceTarget, type LockedEvidence } from "./evidence.ts";
import { markMembers } from "../groups/judging.ts";

/**
 * {@link applyEvidence} in a transaction, or in that of the caller, at whose end the groups of the targets that have
 * changed are judged. Returns what `decide` returns.
 */
export async function changeEvidence<T extends EvidenceTarget, R, I extends Ids>(
  system: System,
  targetIds: I,
  select: (sql: Db, ids: I) => Promise<T[]>,
  decide: (evidence: ReadonlyMap<string, LockedEvidence<T>>, tx: System) => Promise<Decision<R>>,
): Promise<R> {
  const isWhole = "begin" in system.sql;
  const work = async (tx: System): Promise<R> => {
    const { result, moved } = await applyEvidence(tx, targetIds, select, decide, { isWhole });
    markMembers(tx, moved);
    return result;
  };
  return await inTransaction(system, work, { readsFirst: true });
}

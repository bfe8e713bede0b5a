import type { Fragment } from "postgres";
import type { System } from "../../../platform/context.ts";
import { changeEvidence } from "./change.ts";
import type { EvidenceChange } from "./evidence.ts";
import { isAnyFlappingDue, selectFlappingDue } from "./flapping-queries.ts";
import { settleByTime } from "../evaluation/overrides.ts";
import { selectPoliciesOfAny } from "../queries.ts";
import { current } from "../evaluation/replay.ts";

/** Few enough that one transaction is short. */
const batch = 200;

/** False when {@link settleFlapping} would find nothing. */
export const isFlappingDue = ({ sql, clock }: System): Fragment => isAnyFlappingDue(sql, new Date(clock.now()));

/**
 * Ends the flapping of targets that are down and send no results: an outage is not hidden by silence. Returns the
 * number of targets. May run on any number of replicas at once.
 */
export async function settleFlapping(system: System): Promise<number> {
  let settled = 0;
  for (let size = batch; size === batch;) {
    const ids = await selectFlappingDue(system.sql, new Date(system.clock.now()), batch);
    size = ids.length;
    if (size > 0) settled += await settle(system, ids);
  }
  return settled;
}

async function settle(system: System, ids: readonly string[]): Promise<number> {
  return await changeEvidence(system, ids, selectPoliciesOfAny, async (evidence, { clock }) => {
    const changes = new Map<string, EvidenceChange>();
    let result = 0;
    for (const [id, { policy, state }] of evidence) {
      const settled = settleByTime(policy, state.evaluation, clock.now());
      if (settled !== null) result++;
      const checkpoint = current(policy, state.evaluation);
      const same = { state: state.evaluation, checkpoint, inserted: [], updated: [], retracted: [], notices: [] };
      changes.set(id, { evaluation: settled ?? same, latest: state.latest, closedBy: "engine", lastResultAt: null });
    }
    return { changes, result };
  });
}

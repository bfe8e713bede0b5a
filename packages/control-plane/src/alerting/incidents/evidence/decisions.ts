import { newId } from "@statusmesh/shared/ids";
import type { Ctx, System } from "../../../platform/context.ts";
import { current } from "../evaluation/replay.ts";
import type { Actor } from "../timeline/event-schema.ts";
import { actorOf } from "../timeline/events.ts";
import { changeEvidence } from "./change.ts";
import type { EvidenceChange, LockedEvidence, Reevaluated } from "./evidence.ts";
import { closeByHand, openByHand, raise, reconsider, restart, withRaise } from "../evaluation/overrides.ts";
import type { ManualFacts } from "./record-queries.ts";
import * as ladderQueries from "../escalation/ladder-queries.ts";
import * as lifecycleQueries from "../lifecycle/lifecycle-queries.ts";
import { type PolicyRow, selectPolicies } from "../queries.ts";
import { policyOf, type PolicyFields } from "../evaluation/policy.ts";

/** Targets whose evidence is changed at once. */
const portion = 500;

/** Closes the incident, if it is the open one of the target, as a decision of the caller. Notifies its channels. */
export async function closeAsPerson(ctx: Ctx, targetId: string, incidentId: string): Promise<void> {
  await decideOn(ctx, [targetId], { closedBy: "person", actor: await actorOf(ctx) }, ({ policy, state }) => {
    const { incident } = current(policy, state.evaluation);
    if (incident?.id !== incidentId || incident.closedAt !== null) return null;
    return {
      evaluation: closeByHand(policy, state.evaluation, { at: ctx.clock.now(), notify: true }),
      latest: state.latest,
    };
  });
}

/**
 * Opens an incident of a target as a decision of the caller and notifies its channels, unless `notify` is false. False
 * when one is open. `startedAt` is Unix ms.
 */
export async function openAsPerson(
  ctx: Ctx,
  targetId: string,
  { id, startedAt, ...manual }: ManualFacts & { id: string; startedAt: number },
): Promise<boolean> {
  let opened = false;
  const severity = manual.severity === "minor" ? ("minor" as const) : ("major" as const);
  await decideOn(ctx, [targetId], { closedBy: "person", actor: await actorOf(ctx), manual }, ({ policy, state }) => {
    const opening = { id, at: ctx.clock.now(), startedAt, severity, notify: manual.notify };
    const evaluation = openByHand(policy, state.evaluation, opening);
    opened = evaluation !== null;
    return evaluation === null ? null : { evaluation, latest: state.latest };
  });
  return opened;
}

/** Notifies the channels that the target's open incident has become more severe by a decision of the caller. */
export async function raiseAsPerson(ctx: Ctx, targetId: string, incidentId: string): Promise<void> {
  await decideOn(ctx, [targetId], { closedBy: "person" }, ({ policy, state }) => {
    const evaluation = raise(policy, state.evaluation);
    if (evaluation.checkpoint.incident?.id !== incidentId || evaluation.notices.length === 0) return null;
    return { evaluation, latest: state.latest };
  });
}

/** Closes the open incidents of targets that are paused, without a notice. Call it in the transaction of the pause. */
export async function closeSilently(ctx: Ctx, targetIds: readonly string[]): Promise<void> {
  if (targetIds.length === 0) return;
  const sorted = [...targetIds].sort();
  const cause = { closedBy: "pause" as const, actor: await actorOf(ctx) };
  // In portions, so that thousands do not hold the event loop; locks are taken in id order all the same.
  for (let at = 0; at < sorted.length; at += portion)
    await decideOn(ctx, sorted.slice(at, at + portion), cause, ({ policy, state }) => ({
      evaluation: closeByHand(policy, state.evaluation, { at: ctx.clock.now(), notify: false }),
      latest: state.latest,
    }));
}

/** A target before an edit, and the regions that probe it afterwards. */
export interface PolicyEdit extends PolicyFields {
  regions: readonly string[];
  /** What down meant there; left out where that is as before. */
  severity?: PolicyRow["severity"];
  /** True when the check is another one: earlier runs are no evidence about it. */
  restarts?: boolean;
}

/**
 * Evaluates the evidence of targets by their edited policies, with the votes of their regions only. Call it in the
 * transaction of the edit, after the rows are written.
 */
export async function reevaluate(ctx: Ctx, edits: ReadonlyMap<string, PolicyEdit>): Promise<void> {
  const sorted = [...edits.keys()].sort();
  for (let at = 0; at < sorted.length; at += portion)
    await decideOn(ctx, sorted.slice(at, at + portion), { closedBy: "engine" }, ({ policy, state, target }, id) => {
      const edit = edits.get(id)!;
      const { regions } = edit;
      if (edit.restarts === true)
        return { evaluation: restart(policyOf(edit), state.evaluation, ctx.clock.now()), latest: {} };
      const change = { before: policyOf(edit), after: policy, regions, at: ctx.clock.now() };
      const evaluation = reconsider(state.evaluation, change, newId);
      // A notice of the edit itself says the new severity.
      const raises =
        evaluation.notices.length === 0 &&
        edit.severity === "major" &&
        target.severity === "critical" &&
        evaluation.checkpoint.incident?.impact !== "degraded";
      return {
        evaluation: raises ? withRaise(evaluation) : evaluation,
        latest: Object.fromEntries(Object.entries(state.latest).filter(([region]) => regions.includes(region))),
      };
    });
}

/**
 * Has reminders of the target's open incident follow its edited interval: the next one is due that long after the last
 * notice, at once if that has passed, and never with an interval of 0. Call it in the transaction of the edit.
 */
export async function rescheduleReminders(ctx: Ctx, targetId: string, intervalSecs: number): Promise<void> {
  const now = new Date(ctx.clock.now());
  await lifecycleQueries.rescheduleReminders(ctx.sql, ctx.orgId, targetId, intervalSecs, now);
}

/** Has open incidents follow ladders that have changed: those of targets, or the default of the organisation (null). */
export async function rescheduleLadders(
  { sql }: System,
  orgId: string,
  targetIds: readonly string[] | null = null,
): Promise<void> {
  await ladderQueries.rescheduleLadders(sql, orgId, targetIds);
}

/** Changes the evidence of the organisation's targets by a decision that is no result. Null changes nothing. */
async function decideOn(
  ctx: Ctx,
  targetIds: readonly string[],
  cause: { closedBy: EvidenceChange["closedBy"]; actor?: Actor; manual?: ManualFacts },
  decision: (evidence: LockedEvidence<PolicyRow>, targetId: string) => Reevaluated | null,
): Promise<void> {
  await changeEvidence(
    ctx,
    targetIds,
    (sql, ids) => selectPolicies(sql, ctx.orgId, ids),
    async (evidence) => {
      const changes = new Map<string, EvidenceChange>();
      for (const [id, locked] of evidence) {
        const change = decision(locked, id);
        if (change !== null) changes.set(id, { ...change, ...cause, lastResultAt: null });
      }
      return { changes, result: undefined };
    },
  );
}

import { copyCheckpoint, current, type Evaluation, type EvaluationState } from "./evaluate.ts";
import { closedSilently, keepNotified, planNotices } from "./notices.ts";
import { close, decide, type EngineSeverity, manualIncident, type Policy } from "./votes.ts";

/*
 * Changes of the evidence that are no runs: a person opens or closes the incident, or edits the policy.
 */

/** The state with every run folded into the checkpoint: later runs can no longer change what a person decided on. */
export function foldAll(policy: Policy, state: EvaluationState): EvaluationState {
  const checkpoint = current(policy, state);
  const newest = state.recent.at(-1);
  const incidents = checkpoint.incident === null ? [] : [checkpoint.incident];
  return {
    base: checkpoint,
    horizon: newest === undefined ? state.horizon : [newest[0], newest[1]],
    recent: [],
    incidents,
    told: keepNotified(state.told, incidents),
  };
}

/**
 * Closes the open incident as a person's decision at `at`, or does nothing. All streaks restart: opening it again
 * takes as many failing runs as any outage. `silent` (a pause) sends no notice.
 */
export function closeByHand(policy: Policy, state: EvaluationState, at: number, silent: boolean): Evaluation {
  const folded = foldAll(policy, state);
  const checkpoint = folded.base;
  const incident = checkpoint.incident;
  for (const region of Object.values(checkpoint.regions)) {
    region.vote = null;
    region.streak = 0;
  }
  if (incident === null || incident.closedAt !== null) return { ...unchanged, state: folded, checkpoint };
  delete incident.manual;
  close(incident, at, at);
  const { notices, notified } = silent
    ? { notices: [], notified: closedSilently(folded.told, incident.id) }
    : planNotices(folded.told, [incident], [], [], false);
  const closed = { ...folded, incidents: [incident], told: notified };
  return { ...unchanged, state: closed, checkpoint, updated: [incident], notices };
}

/** Opens an incident as a person's decision; null when one is open. */
export function openByHand(
  policy: Policy,
  state: EvaluationState,
  opening: { id: string; at: number; severity: EngineSeverity },
): Evaluation | null {
  const folded = foldAll(policy, state);
  const before = folded.base.incident;
  if (before !== null && before.closedAt === null) return null;
  const incident = manualIncident(policy, folded.base, opening);
  const base = { ...folded.base, incident };
  const { notices, notified } = planNotices(folded.told, [incident], [], [], true);
  const opened = { ...folded, base, incidents: [incident], told: notified };
  return { ...unchanged, state: opened, checkpoint: base, inserted: [incident], notices };
}

/** Evaluates the evidence so far by an edited policy. `regions` are those that probe the target from now on. */
export function reconsider(
  before: Policy,
  after: Policy,
  state: EvaluationState,
  regions: readonly string[],
  at: number,
  newId: () => string,
): Evaluation {
  const folded = foldAll(before, state);
  const base = copyCheckpoint(folded.base);
  for (const [name, region] of Object.entries(base.regions)) {
    if (!regions.includes(name)) delete base.regions[name];
    else if (region.streak >= after.confirmations) region.vote = region.kind === "P" ? "passing" : "failing";
  }
  const wasOpen = base.incident !== null && base.incident.closedAt === null;
  const transition = decide(after, base, at, { since: at, mayOpen: true });
  const incident = base.incident;
  if (incident === null) return { ...unchanged, state: { ...folded, base, incidents: [] }, checkpoint: base };
  if (transition === null) {
    const same = { ...folded, base, incidents: [incident] };
    return { ...unchanged, state: same, checkpoint: base, updated: wasOpen ? [incident] : [] };
  }
  const isNew = incident.id === "";
  if (isNew) incident.id = newId();
  const { notices, notified } = planNotices(folded.told, [incident], [], [], true);
  return {
    state: { ...folded, base, incidents: [incident], told: notified },
    checkpoint: base,
    inserted: isNew ? [incident] : [],
    updated: isNew ? [] : [incident],
    retracted: [],
    notices,
  };
}

const unchanged = { inserted: [], updated: [], retracted: [], notices: [] };

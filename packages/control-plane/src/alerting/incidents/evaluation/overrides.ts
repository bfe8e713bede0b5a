import { copyCheckpoint, current, type Evaluation, type EvaluationState } from "./replay.ts";
import { flappingOf, settle } from "./flaps.ts";
import { calmed, closedSilently, keepNotified, planNotices } from "./notices.ts";
import { type Checkpoint, close, copyIncident, decide, type EngineSeverity, manualIncident } from "./machine.ts";
import type { Policy } from "./policy.ts";

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
    notified: keepNotified(state.notified, incidents),
  };
}

/**
 * Closes the open incident as a person's decision at `at`, or does nothing. All streaks restart: opening it again
 * needs the configured number of failing runs. `notify` is false for a pause.
 */
export function closeByHand(
  policy: Policy,
  state: EvaluationState,
  { at, notify }: { at: number; notify: boolean },
): Evaluation {
  const folded = withoutFlaps(foldAll(policy, state));
  const checkpoint = folded.base;
  const incident = checkpoint.incident;
  for (const region of Object.values(checkpoint.regions)) {
    region.vote = null;
    region.streak = 0;
  }
  if (incident === null || incident.closedAt !== null) return { ...unchanged, state: folded, checkpoint };
  delete incident.manual;
  close(incident, at, at);
  const { notices, notified } = notify
    ? planNotices(folded.notified, { incidents: [incident], mayOpen: false, flapping: null })
    : { notices: [], notified: closedSilently(folded.notified, incident.id) };
  const closed = { ...folded, incidents: [incident], notified };
  return { ...unchanged, state: closed, checkpoint, updated: [incident], notices };
}

/** Opens an incident as a person's decision; null when one is open. Without `notify` no channel is notified. */
export function openByHand(
  policy: Policy,
  state: EvaluationState,
  { notify, ...opening }: { id: string; at: number; startedAt: number; severity: EngineSeverity; notify: boolean },
): Evaluation | null {
  const folded = withoutFlaps(foldAll(policy, state));
  const before = folded.base.incident;
  if (before !== null && before.closedAt === null) return null;
  const incident = manualIncident(policy, folded.base, opening);
  const base = { ...folded.base, incident };
  const { notices, notified } = planNotices(folded.notified, { incidents: [incident], mayOpen: true, flapping: null });
  const opened = { ...folded, base, incidents: [incident], notified };
  return { ...unchanged, state: opened, checkpoint: base, inserted: [incident], notices: notify ? notices : [] };
}

export interface PolicyChange {
  readonly before: Policy;
  readonly after: Policy;
  /** The regions that run the check from now on. */
  readonly regions: readonly string[];
  /** Unix ms. */
  readonly at: number;
}

/** Evaluates the evidence so far by an edited policy. `newId` makes the id of an incident that it opens. */
export function reconsider(
  state: EvaluationState,
  { before, after, regions, at }: PolicyChange,
  newId: () => string,
): Evaluation {
  const folded = foldAll(before, state);
  const base = copyCheckpoint(folded.base);
  for (const [name, region] of Object.entries(base.regions)) {
    if (!regions.includes(name)) delete base.regions[name];
    else if (region.streak >= after.confirmations) region.vote = region.kind;
  }
  const wasOpen = base.incident !== null && base.incident.closedAt === null;
  const transition = decide(after, base, at, { since: at, mayOpen: true });
  const incident = base.incident;
  if (incident === null) return { ...unchanged, state: { ...folded, base, incidents: [] }, checkpoint: base };
  // Notices also where detection was turned off.
  if (transition === null && flappingOf(folded.base) === flappingOf(base)) {
    const same = { ...folded, base, incidents: [incident] };
    return { ...unchanged, state: same, checkpoint: base, updated: wasOpen ? [incident] : [] };
  }
  const isNew = incident.id === "";
  if (isNew) incident.id = newId();
  const changed = { incidents: [incident], mayOpen: true, flapping: flappingOf(base) };
  const { notices, notified } = planNotices(folded.notified, changed);
  return {
    state: { ...folded, base, incidents: [incident], notified },
    checkpoint: base,
    inserted: isNew ? [incident] : [],
    updated: isNew ? [] : [incident],
    retracted: [],
    notices,
  };
}

/**
 * Drops the evidence of runs before `at` (Unix ms), also of those that arrive later. An open incident stays until the
 * votes of later runs close it.
 */
export function restart(policy: Policy, state: EvaluationState, at: number): Evaluation {
  const folded = foldAll(policy, state);
  const base: Checkpoint = { regions: {}, incident: folded.base.incident };
  const horizon = folded.horizon[0] < at ? ([at, ""] as const) : folded.horizon;
  // Another check does not flap.
  const { notices, notified } = planNotices(folded.notified, {
    incidents: flappingOf(folded.base) === null ? [] : folded.incidents,
    mayOpen: false,
    flapping: null,
  });
  const told = { ...folded.notified, ...notified };
  return { ...unchanged, state: { ...folded, base, horizon, notified: told }, checkpoint: base, notices };
}

/** The folded state without flaps: a person's decision ends them. */
function withoutFlaps(folded: EvaluationState): EvaluationState {
  const { flaps: _, ...base } = folded.base;
  return { ...folded, base, notified: calmed(folded.notified) };
}

/** The state at `at`, Unix ms, where an incident that flaps has lasted without a run that says so; null where not. */
export function settleByTime(policy: Policy, state: EvaluationState, at: number): Evaluation | null {
  const folded = foldAll(policy, state);
  const base = copyCheckpoint(folded.base);
  settle(policy, base, at, { silent: true });
  const incident = base.incident;
  if (incident === null || incident.closedAt !== null || flappingOf(base) !== null) return null;
  const changed = { incidents: [incident], mayOpen: false, flapping: null };
  const { notices, notified } = planNotices(folded.notified, changed);
  return { ...unchanged, state: { ...folded, base, incidents: [incident], notified }, checkpoint: base, notices };
}

/**
 * The same with the notice that an open incident has become more severe, if its channels know of it. `raised`: a person
 * has set the severity of the incident.
 */
export function withRaise(evaluation: Evaluation, by: { raised?: true } = {}): Evaluation {
  const { checkpoint, state, notices } = evaluation;
  const { incident } = checkpoint;
  const last = incident === null ? undefined : state.notified[incident.id];
  if (incident === null || incident.closedAt !== null || last?.state !== "open") return evaluation;
  const notified = { ...state.notified, [incident.id]: { ...last, escalated: last.escalated + 1 } };
  const notice = { reason: "escalated" as const, seq: last.escalated, incident: copyIncident(incident), ...by };
  return { ...evaluation, state: { ...state, notified }, notices: [...notices, notice] };
}

/** {@link withRaise} of evidence that is otherwise unchanged. */
export const raise = (policy: Policy, state: EvaluationState): Evaluation =>
  withRaise({ ...unchanged, state, checkpoint: current(policy, state) }, { raised: true });

const unchanged = { inserted: [], updated: [], retracted: [], notices: [] };

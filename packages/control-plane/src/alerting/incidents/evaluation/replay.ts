import { keepNotified, type Notified, type NoticeToSend, planNotices, type PlayedTransition } from "./notices.ts";
import { flappingOf } from "./flaps.ts";
import { type Checkpoint, copyIncident, type Grade, type IncidentState, type Run, step } from "./machine.ts";
import type { Policy } from "./policy.ts";

/**
 * From results to incidents, as a pure function: (policy, state, new runs) → (state, incidents to store, notices).
 *
 * The same runs give the same incidents in any order, batching or number of copies. To make that true for late runs as
 * well, the state keeps the newest runs as they are (`recent`) on top of a checkpoint (`base`) of all older ones, and
 * every evaluation replays `recent` in slot order. A late run takes its place among them, and the incidents of the
 * replay are matched with the stored ones: changed ones are updated, and one that the replay no longer has is
 * retracted. A run older than the checkpoint is stored as a result and changes no incident. So the promise holds as
 * long as no run is overtaken by more than {@link window} others.
 */
export interface EvaluationState {
  readonly base: Checkpoint;
  /** Slot and region of the newest run in `base`. */
  readonly horizon: readonly [slot: number, region: string];
  /** In slot order: [slot, region, grade]. */
  readonly recent: readonly (readonly [number, string, Grade])[];
  /** The incidents of the last replay, oldest first, as they are stored. */
  readonly incidents: readonly IncidentState[];
  /** The last notice of each incident, by its id. */
  readonly notified: Readonly<Record<string, Notified>>;
}

export interface Evaluation {
  readonly state: EvaluationState;
  /** {@link current} of the new state, without another replay. */
  readonly checkpoint: Checkpoint;
  readonly inserted: readonly IncidentState[];
  readonly updated: readonly IncidentState[];
  /** Ids of stored incidents that late runs refute. */
  readonly retracted: readonly string[];
  readonly notices: readonly NoticeToSend[];
}

export const emptyState: EvaluationState = {
  base: { regions: {}, incident: null },
  horizon: [0, ""],
  recent: [],
  incidents: [],
  notified: {},
};

/** How many of the newest runs are kept for reordering. */
export function window(confirmations: number, regions: number): number {
  return Math.min(64, Math.max(1, regions) * (2 * confirmations + 4));
}

interface Replay {
  checkpoint: Checkpoint;
  incidents: IncidentState[];
  transitions: PlayedTransition[];
}

/** Orders runs by slot, then region. */
export const bySlot = (
  a: readonly [number, string, ...unknown[]],
  b: readonly [number, string, ...unknown[]],
): number => a[0] - b[0] || (a[1] < b[1] ? -1 : a[1] > b[1] ? 1 : 0);

/** A copy that {@link step} may change. */
export function copyCheckpoint(checkpoint: Checkpoint): Checkpoint {
  const regions: Checkpoint["regions"] = {};
  for (const [name, region] of Object.entries(checkpoint.regions)) regions[name] = { ...region };
  return { ...checkpoint, regions, incident: checkpoint.incident === null ? null : copyIncident(checkpoint.incident) };
}

function replay(policy: Policy, base: Checkpoint, runs: EvaluationState["recent"]): Replay {
  const checkpoint = copyCheckpoint(base);
  const incidents = checkpoint.incident === null ? [] : [checkpoint.incident];
  const transitions: PlayedTransition[] = [];
  for (const [slot, region, grade] of runs) {
    const flapped = flappingOf(checkpoint) !== null;
    const transition = step(policy, checkpoint, { slot, region, grade });
    const flapping = flappingOf(checkpoint);
    if (transition === null && flapped === (flapping !== null)) continue;
    if (transition === "opened") incidents.push(checkpoint.incident!);
    transitions.push({ slot, index: incidents.length - 1, snapshot: copyIncident(checkpoint.incident!), flapping });
  }
  return { checkpoint, incidents, transitions };
}

export interface EvaluateOptions {
  /** Unix ms: transitions of older slots correct the record without a notice, unless the incident is still open. */
  readonly freshAfter: number;
  /** Makes the ids of incidents to insert. */
  readonly newId: () => string;
  readonly refuted?: readonly Refuted[];
}

/** Runs of a region that later evidence refutes: slots from `from` up to, but not including `to`. */
export interface Refuted {
  readonly region: string;
  readonly from: number;
  /** Infinity: all later ones, also those that are part of the checkpoint. */
  readonly to: number;
}

/**
 * The state without refuted runs. Those within the checkpoint can no longer be distinguished: from `from` on it starts
 * again, without the votes of the region and an incident that began later.
 */
function without(state: EvaluationState, { region, from, to }: Refuted): EvaluationState {
  const recent = state.recent.filter(([slot, of]) => of !== region || slot < from || slot >= to);
  if (state.horizon[0] < from || to !== Infinity)
    return recent.length === state.recent.length ? state : { ...state, recent };
  const { [region]: _, ...regions } = state.base.regions;
  const { incident } = state.base;
  const stays = incident !== null && (incident.manual === true || incident.startedAt < from);
  return {
    ...state,
    base: { ...state.base, regions, incident: stays ? incident : null },
    horizon: [from - 1, region],
    recent,
  };
}

/** Adds `runs` to `state`, takes the refuted ones out of it, and replays it. */
export function evaluate(
  policy: Policy,
  before: EvaluationState,
  runs: readonly Run[],
  { freshAfter, newId, refuted = [] }: EvaluateOptions,
): Evaluation {
  const state = refuted.reduce(without, before);
  const known = new Set(state.recent.map(([slot, region]) => `${slot}/${region}`));
  const added: [number, string, Grade][] = [];
  for (const run of runs) {
    const key = `${run.slot}/${run.region}`;
    if (known.has(key) || bySlot([run.slot, run.region], state.horizon) <= 0) continue;
    known.add(key);
    added.push([run.slot, run.region, run.grade]);
  }
  if (added.length === 0 && state === before)
    return { state, checkpoint: current(policy, state), inserted: [], updated: [], retracted: [], notices: [] };

  const frontier = state.recent.at(-1) ?? state.horizon;
  const recent = [...state.recent, ...added].sort(bySlot);
  const played = replay(policy, state.base, recent);
  const stored = match(state.incidents, played.incidents, newId);
  const newTransitions = played.transitions.filter((it) => it.slot > frontier[0] && it.slot >= freshAfter);
  const mayOpen = recent.at(-1)![0] >= freshAfter;
  const { notices, notified } = planNotices(state.notified, {
    incidents: played.incidents,
    retracted: stored.retracted,
    transitions: newTransitions,
    mayOpen,
    flapping: flappingOf(played.checkpoint),
  });

  const { inserted, updated, retracted } = stored;
  return {
    state: compact(policy, state, recent, played, notified),
    checkpoint: played.checkpoint,
    inserted,
    updated,
    retracted: retracted.map((it) => it.id),
    notices,
  };
}

/** Gives the incidents of a replay the ids of stored ones, and sorts them into inserted, updated and retracted. */
function match(before: readonly IncidentState[], now: IncidentState[], newId: () => string) {
  const unmatched = [...before];
  const inserted: IncidentState[] = [];
  const updated: IncidentState[] = [];
  for (const incident of now) {
    const at = unmatched.findIndex((old) => (incident.id === "" ? overlaps(old, incident) : old.id === incident.id));
    const old = at < 0 ? undefined : unmatched.splice(at, 1)[0];
    if (old === undefined) {
      incident.id = newId();
      inserted.push(incident);
    } else {
      incident.id = old.id;
      if (differs(old, incident)) updated.push(incident);
    }
  }
  return { inserted, updated, retracted: unmatched };
}

const overlaps = (a: IncidentState, b: IncidentState): boolean =>
  a.startedAt <= (b.closedAt ?? Infinity) && b.startedAt <= (a.closedAt ?? Infinity);

function differs(a: IncidentState, b: IncidentState): boolean {
  return (
    a.startedAt !== b.startedAt ||
    a.openedAt !== b.openedAt ||
    a.endedAt !== b.endedAt ||
    a.closedAt !== b.closedAt ||
    a.severity !== b.severity ||
    a.impact !== b.impact ||
    a.peakImpact !== b.peakImpact ||
    a.reopened !== b.reopened ||
    a.since !== b.since ||
    a.pastMs !== b.pastMs ||
    a.outages.join() !== b.outages.join() ||
    a.regionsDown.join() !== b.regionsDown.join() ||
    a.regionsUp.join() !== b.regionsUp.join()
  );
}

/** Moves runs older than the window into the checkpoint. Both checkpoints drop an incident that cannot reopen. */
function compact(
  policy: Policy,
  state: EvaluationState,
  recent: EvaluationState["recent"],
  played: Replay,
  notified: Record<string, Notified>,
): EvaluationState {
  const keep = window(policy.confirmations, Object.keys(played.checkpoint.regions).length);
  if (recent.length <= keep)
    return { base: state.base, horizon: state.horizon, recent, incidents: played.incidents, notified };
  const old = recent.slice(0, recent.length - keep);
  const folded = replay(policy, state.base, old);
  // The replay of a prefix opens the same incidents in the same order, so its last one is the one at the same place.
  const last = folded.incidents.length - 1;
  if (folded.checkpoint.incident !== null) folded.checkpoint.incident.id = played.incidents[last]!.id;
  // The checkpoint keeps the last stretch of its incident: no later run changes the ones before.
  const final = (folded.checkpoint.incident?.outages.length ?? 1) - 1;
  if (final > 0) folded.checkpoint.incident!.outages = folded.checkpoint.incident!.outages.slice(final);
  const [slot, region] = old.at(-1)!;
  // Every later run has a later slot than those in the checkpoint.
  const closedAt = folded.checkpoint.incident?.closedAt ?? null;
  const over = closedAt !== null && slot - closedAt >= policy.reopenMs && flappingOf(folded.checkpoint) === null;
  if (over) {
    folded.checkpoint.incident = null;
    if (last === played.incidents.length - 1) played.checkpoint.incident = null;
  }
  const incidents = played.incidents.slice(over ? last + 1 : Math.max(0, last));
  if (final > 0 && !over) {
    incidents[0] = { ...incidents[0]!, outages: incidents[0]!.outages.slice(final) };
    if (incidents.length === 1) played.checkpoint.incident = incidents[0];
  }
  return {
    base: folded.checkpoint,
    horizon: [slot, region],
    recent: recent.slice(old.length),
    incidents,
    notified: keepNotified(notified, incidents),
  };
}

/** The votes and the incident after every known run. */
export function current(policy: Policy, state: EvaluationState): Checkpoint {
  const { checkpoint, incidents } = replay(policy, state.base, state.recent);
  if (checkpoint.incident !== null)
    checkpoint.incident.id = state.incidents[incidents.length - 1]?.id ?? checkpoint.incident.id;
  return checkpoint;
}

import {
  type Checkpoint,
  decide,
  type EngineSeverity,
  type IncidentState,
  type Policy,
  type Run,
  step,
  type Transition,
} from "./votes.ts";

/**
 * From results to incidents, as a pure function: (policy, state, new runs) → (state, what to store, whom to tell).
 *
 * The same runs give the same incidents in whatever order, batches or number of copies they arrive. To make that true
 * for late runs as well, the state keeps the newest runs as they are (`recent`) on top of a checkpoint (`base`) of all
 * older ones, and every evaluation replays `recent` in slot order. A run that comes after newer ones takes its place
 * among them, and the incidents of the replay are matched with those stored: changed ones are updated, and one that
 * turns out never to have been is retracted. A run older than the checkpoint is history only: it is stored as a result
 * and changes no incident. So the promise holds as long as no run is overtaken by more than {@link window} others.
 */
export interface EvaluationState {
  readonly base: Checkpoint;
  /** Slot and region of the newest run in `base`. */
  readonly horizon: readonly [slot: number, region: string];
  /** In slot order: [slot, region, verdict]. */
  readonly recent: readonly (readonly [number, string, Run["verdict"]])[];
  /** The incidents of the last replay, oldest first, as they are stored. */
  readonly incidents: readonly IncidentState[];
  /** What was told about them, by incident id. */
  readonly told: Readonly<Record<string, Told>>;
}

interface Told {
  state: "open" | "closed";
  severity: EngineSeverity;
  reopened: number;
  resolved: number;
}

/** A notice to write into the outbox. */
export interface NoticeToSend {
  readonly reason: Transition;
  /** Counts the notices of this reason for this incident, from 0. */
  readonly seq: number;
  /** The incident as it was at that moment. */
  readonly incident: IncidentState;
}

export interface Evaluation {
  readonly state: EvaluationState;
  /** Where the target stands now: {@link current} of the new state, without another replay. */
  readonly checkpoint: Checkpoint;
  readonly inserted: IncidentState[];
  readonly updated: IncidentState[];
  /** Ids of stored incidents that late runs have shown never to have been. */
  readonly retracted: string[];
  readonly notices: NoticeToSend[];
}

export const emptyState: EvaluationState = {
  base: { regions: {}, incident: null },
  horizon: [0, ""],
  recent: [],
  incidents: [],
  told: {},
};

/** How many of the newest runs are kept for reordering. */
export function window(confirmations: number, regions: number): number {
  return Math.min(64, Math.max(1, regions) * (2 * confirmations + 4));
}

interface Happening {
  slot: number;
  /** Index of the incident within the replay. */
  index: number;
  snapshot: IncidentState;
}

interface Replay {
  checkpoint: Checkpoint;
  incidents: IncidentState[];
  happenings: Happening[];
}

/** Orders runs by slot, then region. */
export const bySlot = (
  a: readonly [number, string, ...unknown[]],
  b: readonly [number, string, ...unknown[]],
): number => a[0] - b[0] || (a[1] < b[1] ? -1 : a[1] > b[1] ? 1 : 0);

const copyIncident = (incident: IncidentState): IncidentState => ({ ...incident });

function copyCheckpoint(checkpoint: Checkpoint): Checkpoint {
  const regions: Checkpoint["regions"] = {};
  for (const [name, region] of Object.entries(checkpoint.regions)) regions[name] = { ...region };
  return { regions, incident: checkpoint.incident === null ? null : copyIncident(checkpoint.incident) };
}

function replay(policy: Policy, base: Checkpoint, runs: EvaluationState["recent"]): Replay {
  const checkpoint = copyCheckpoint(base);
  const incidents = checkpoint.incident === null ? [] : [checkpoint.incident];
  const happenings: Happening[] = [];
  for (const [slot, region, verdict] of runs) {
    const transition = step(policy, checkpoint, { slot, region, verdict });
    if (transition === null) continue;
    if (transition === "opened") incidents.push(checkpoint.incident!);
    happenings.push({ slot, index: incidents.length - 1, snapshot: copyIncident(checkpoint.incident!) });
  }
  return { checkpoint, incidents, happenings };
}

/**
 * Folds `runs` into `state`.
 *
 * `freshAfter` (Unix ms): what happened in older slots repairs the record but is not news, and nobody is told of it
 * unless it still goes on. `newId` makes the ids of incidents that are to be inserted.
 */
export function evaluate(
  policy: Policy,
  state: EvaluationState,
  runs: readonly Run[],
  freshAfter: number,
  newId: () => string,
): Evaluation {
  const known = new Set(state.recent.map(([slot, region]) => `${slot}/${region}`));
  const added: [number, string, Run["verdict"]][] = [];
  for (const run of runs) {
    const key = `${run.slot}/${run.region}`;
    if (known.has(key) || bySlot([run.slot, run.region], state.horizon) <= 0) continue;
    known.add(key);
    added.push([run.slot, run.region, run.verdict]);
  }
  if (added.length === 0)
    return { state, checkpoint: current(policy, state), inserted: [], updated: [], retracted: [], notices: [] };

  const frontier = state.recent.at(-1) ?? state.horizon;
  const recent = [...state.recent, ...added].sort(bySlot);
  const played = replay(policy, state.base, recent);
  const stored = match(state.incidents, played.incidents, newId);
  const news = played.happenings.filter((it) => it.slot > frontier[0] && it.slot >= freshAfter);
  const fresh = recent.at(-1)![0] >= freshAfter;
  const { notices, told } = tell(state, played.incidents, stored.retracted, news, fresh);

  const { inserted, updated, retracted } = stored;
  return {
    state: compact(policy, state, recent, played, told),
    checkpoint: played.checkpoint,
    inserted,
    updated,
    retracted: retracted.map((it) => it.id),
    notices,
  };
}

/** Gives the incidents of a replay the ids of the stored ones they are, and sorts them into inserted, updated and retracted. */
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
    a.regionsDown.join() !== b.regionsDown.join() ||
    a.regionsUp.join() !== b.regionsUp.join()
  );
}

/** Decides whom to tell: first what happened just now, in order; then, where the record and what was told still differ, a correction. */
function tell(
  state: EvaluationState,
  incidents: readonly IncidentState[],
  retracted: readonly IncidentState[],
  news: readonly Happening[],
  fresh: boolean,
) {
  const told: Record<string, Told> = {};
  const notices: NoticeToSend[] = [];
  for (const { id } of [...incidents, ...retracted]) if (state.told[id] !== undefined) told[id] = { ...state.told[id] };

  const say = (reason: Transition, incident: IncidentState) => {
    const before = told[incident.id];
    const seq = reason === "reopened" ? (before?.reopened ?? 0) : reason === "resolved" ? (before?.resolved ?? 0) : 0;
    notices.push({ reason, seq, incident: copyIncident(incident) });
    told[incident.id] = {
      state: reason === "resolved" ? "closed" : "open",
      severity: incident.severity,
      reopened: (before?.reopened ?? 0) + (reason === "reopened" ? 1 : 0),
      resolved: (before?.resolved ?? 0) + (reason === "resolved" ? 1 : 0),
    };
  };
  const settle = (incident: IncidentState, mayOpen: boolean) => {
    const before = told[incident.id];
    if (incident.closedAt !== null) {
      if (before?.state === "open") say("resolved", incident);
    } else if (before?.state !== "open") {
      if (mayOpen) say(before === undefined ? "opened" : "reopened", incident);
    } else if (before.severity === "minor" && incident.severity === "major") say("escalated", incident);
  };

  for (const { index, snapshot } of news) settle({ ...snapshot, id: incidents[index]!.id }, true);
  for (const incident of incidents) settle(incident, fresh);
  for (const incident of retracted)
    if (told[incident.id]?.state === "open")
      say("resolved", {
        ...incident,
        closedAt: incident.closedAt ?? incident.openedAt,
        endedAt: incident.endedAt ?? incident.openedAt,
      });
  for (const incident of retracted) delete told[incident.id];
  return { notices, told };
}

/** Moves what is older than the window into the checkpoint, and drops an incident that is over with from both checkpoints. */
function compact(
  policy: Policy,
  state: EvaluationState,
  recent: EvaluationState["recent"],
  played: Replay,
  told: Record<string, Told>,
): EvaluationState {
  const keep = window(policy.confirmations, Object.keys(played.checkpoint.regions).length);
  if (recent.length <= keep)
    return { base: state.base, horizon: state.horizon, recent, incidents: played.incidents, told };
  const old = recent.slice(0, recent.length - keep);
  const folded = replay(policy, state.base, old);
  // The replay of a prefix opens the same incidents in the same order, so its last one is the one at the same place.
  const last = folded.incidents.length - 1;
  if (folded.checkpoint.incident !== null) folded.checkpoint.incident.id = played.incidents[last]!.id;
  const [slot, region] = old.at(-1)!;
  // An incident that no run to come could reopen is over with: every such run has a later slot.
  const closedAt = folded.checkpoint.incident?.closedAt ?? null;
  const over = closedAt !== null && slot - closedAt >= policy.reopenMs;
  if (over) {
    folded.checkpoint.incident = null;
    if (last === played.incidents.length - 1) played.checkpoint.incident = null;
  }
  const incidents = played.incidents.slice(over ? last + 1 : Math.max(0, last));
  return {
    base: folded.checkpoint,
    horizon: [slot, region],
    recent: recent.slice(old.length),
    incidents,
    told: keepTold(told, incidents),
  };
}

function keepTold(told: Record<string, Told>, incidents: readonly IncidentState[]): Record<string, Told> {
  return Object.fromEntries(Object.entries(told).filter(([id]) => incidents.some((incident) => incident.id === id)));
}

/** Where the target stands after every run known. */
export function current(policy: Policy, state: EvaluationState): Checkpoint {
  const { checkpoint, incidents } = replay(policy, state.base, state.recent);
  if (checkpoint.incident !== null)
    checkpoint.incident.id = state.incidents[incidents.length - 1]?.id ?? checkpoint.incident.id;
  return checkpoint;
}

/** The state with everything folded into the checkpoint: a person's decision settles the evidence that came before it. */
export function settle(policy: Policy, state: EvaluationState): EvaluationState {
  const checkpoint = current(policy, state);
  const newest = state.recent.at(-1);
  const incidents = checkpoint.incident === null ? [] : [checkpoint.incident];
  return {
    base: checkpoint,
    horizon: newest === undefined ? state.horizon : [newest[0], newest[1]],
    recent: [],
    incidents,
    told: keepTold({ ...state.told }, incidents),
  };
}

/**
 * Closes the open incident by a person's word at `at`, or does nothing. All streaks start anew, so that it takes as
 * many failing runs as any outage to open again. `silent` (a pause) tells nobody.
 */
export function closeByHand(policy: Policy, state: EvaluationState, at: number, silent: boolean): Evaluation {
  const settled = settle(policy, state);
  const incident = settled.base.incident;
  for (const region of Object.values(settled.base.regions)) {
    region.vote = null;
    region.streak = 0;
  }
  const checkpoint = settled.base;
  if (incident === null || incident.closedAt !== null)
    return { state: settled, checkpoint, inserted: [], updated: [], retracted: [], notices: [] };
  incident.closedAt = at;
  incident.endedAt = Math.max(at, incident.startedAt);
  const { notices, told } = silent
    ? { notices: [], told: silence(settled.told, incident.id) }
    : tell(settled, [incident], [], [], false);
  return {
    state: { ...settled, incidents: [incident], told },
    checkpoint,
    inserted: [],
    updated: [incident],
    retracted: [],
    notices,
  };
}

function silence(told: Readonly<Record<string, Told>>, id: string): Record<string, Told> {
  const before = told[id];
  return before === undefined ? { ...told } : { ...told, [id]: { ...before, state: "closed" } };
}

/** Holds the evidence so far against an edited policy. `regions` are those that the target is probed from now on. */
export function reconsider(
  before: Policy,
  after: Policy,
  state: EvaluationState,
  regions: readonly string[],
  at: number,
  newId: () => string,
): Evaluation {
  const settled = settle(before, state);
  const base = copyCheckpoint(settled.base);
  for (const [name, region] of Object.entries(base.regions)) {
    if (!regions.includes(name)) delete base.regions[name];
    else if (region.streak >= after.confirmations) region.vote = region.kind === "P" ? "passing" : "failing";
  }
  const known = base.incident;
  const wasOpen = known !== null && known.closedAt === null;
  const transition = decide(after, base, at, { recoverySince: at, mayOpen: true });
  const incident = base.incident;
  if (transition === null || incident === null)
    return {
      state: { ...settled, base, incidents: incident === null ? [] : [incident] },
      checkpoint: base,
      inserted: [],
      updated: wasOpen && incident !== null ? [incident] : [],
      retracted: [],
      notices: [],
    };
  const inserted = incident.id === "" ? [incident] : [];
  if (incident.id === "") incident.id = newId();
  const { notices, told } = tell(settled, [incident], [], [], true);
  return {
    state: { ...settled, base, incidents: [incident], told },
    checkpoint: base,
    inserted,
    updated: inserted.length > 0 ? [] : [incident],
    retracted: [],
    notices,
  };
}

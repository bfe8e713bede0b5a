import { newId } from "@statusmesh/shared/ids";
import { circuitOpen } from "@statusmesh/shared/checks";
import type { Cause, CheckStatus } from "@statusmesh/shared/protocol/result";
import type { System } from "../../../platform/context.ts";
import { commitBehind } from "../../../platform/db/client/driver.ts";
import type { Db, Ids } from "../../../platform/db/client/sql.ts";
import { forEachInTurns } from "../../../platform/process/turns.ts";
import { bySlot, evaluate, type Evaluation, type Refuted } from "../evaluation/replay.ts";
import {
  lockStates,
  type LockedState,
  type NewerRun,
  type StateUpdate,
  writeNewerRuns,
  writeStates,
} from "./queries.ts";
import type { Actor } from "../timeline/event-schema.ts";
import { type EvaluatedTarget, recordEvaluations } from "./record.ts";
import type { ManualFacts } from "./record-queries.ts";
import {
  formatState,
  type Latest,
  newestSlot,
  parsePassing,
  parseState,
  type Passing,
  passesOn,
  type TargetState,
} from "../evaluation/stored-state.ts";
import type { StoredFlapping } from "./flapping-queries.ts";
import { flappingOf, settlesAt } from "../evaluation/flaps.ts";
import { type Checkpoint, gradeOf, isUnsettled } from "../evaluation/machine.ts";
import { freshnessMs, type Policy, policyOf, type PolicyFields } from "../evaluation/policy.ts";
import { type Reading, statusOf } from "../evaluation/target-status.ts";
import type { PolicyRow } from "../queries.ts";

export { selectRechecks } from "./queries.ts";

/** The part of a target that decides about its incidents and their notices. */
export type EvidenceTarget = PolicyFields &
  Pick<PolicyRow, "id" | "org_id" | "name" | "renotify_interval_secs" | "severity">;

/** The evidence of a target, locked until the transaction ends. What it holds is read when it is asked for. */
export class LockedEvidence<T extends EvidenceTarget> {
  readonly target: T;
  readonly policy: Policy;
  readonly stored: LockedState;
  /** The short form of a target that has only passed lately, or null. */
  readonly passing: Passing | null;
  #state: TargetState | null = null;

  constructor(target: T, stored: LockedState) {
    this.target = target;
    this.policy = policyOf(target);
    this.stored = stored;
    this.passing = parsePassing(stored.state);
  }

  get state(): TargetState {
    return (this.#state ??= parseState(this.stored.state, this.stored.status_until));
  }

  /** The newest slot of evidence from a region, Unix ms; 0 without any. */
  newestSlot(region: string): number {
    if (this.passing !== null) return newestSlot(this.passing, this.stored.status_until, region) ?? 0;
    return this.state.latest[region]?.slot ?? 0;
  }
}

/** New evidence of one target, and what follows from it. */
export interface Reevaluated {
  readonly evaluation: Evaluation;
  readonly latest: TargetState["latest"];
}

/** Evidence that is unchanged up to the slot `newest`, Unix ms. */
export interface Unchanged {
  readonly newest: number;
}

export type EvidenceChange = (Reevaluated | Unchanged) & {
  /** Cause of the closing of incidents that this change closes. */
  readonly closedBy: "engine" | "person" | "pause";
  /** The cause of the change on the timeline; the engine where left out. */
  readonly actor?: Actor;
  /** Facts that a person states of the incident that the change opens. */
  readonly manual?: ManualFacts;
  /** Unix ms of the newest run; null when the change is not caused by a result. */
  readonly lastResultAt: number | null;
};

/** What follows from evidence. */
export interface Decision<R> {
  readonly changes: ReadonlyMap<string, EvidenceChange>;
  readonly result: R;
  /** Writes that are under way on the connection: those of the changes are sent without waiting for their replies. */
  readonly writes?: Promise<unknown>;
  /** True where all statements of `writes` have been sent, so that the COMMIT can follow them at once. */
  readonly areSent?: boolean;
}

/**
 * The only path by which evidence changes, for results and for people's decisions: locks the evidence of the targets in
 * id order, reads their policies, lets `decide` make the changes, writes the states, then incidents and notices. Joins
 * the caller's transaction, which `isWhole` says there was none. `select` reads the policies of those targets that the
 * caller may change; the others are left alone. Returns what `decide` returns, and the targets whose groups may change.
 */
export async function applyEvidence<T extends EvidenceTarget, R, I extends Ids>(
  tx: System,
  targetIds: I,
  select: (sql: Db, ids: I) => Promise<T[]>,
  decide: (evidence: ReadonlyMap<string, LockedEvidence<T>>, tx: System) => Promise<Decision<R>>,
  { isWhole = false } = {},
): Promise<{ result: R; moved: readonly string[] }> {
  // A statement of its own, so that it sees the policy edits whose locks the first one waited for. Sent with it: the
  // server executes one after the other.
  const [states, targets] = await Promise.all([lockStates(tx.sql, targetIds), select(tx.sql, targetIds)]);
  const locked = new Map(states.map((stored) => [stored.target_id, stored]));
  const evidence = new Map<string, LockedEvidence<T>>();
  await forEachInTurns(targets, (target) => {
    const stored = locked.get(target.id);
    if (stored !== undefined) evidence.set(target.id, new LockedEvidence(target, stored));
  });
  const { changes, result, writes, areSent = false } = await decide(evidence, tx);
  const [moved] = await Promise.all([writeChanges(tx, evidence, changes, isWhole && areSent), writes]);
  return { result, moved };
}

/** Keeps the evidence of targets, and with it their incidents, as they are until the transaction of `tx` ends. */
export async function lockEvidence(tx: System, targetIds: readonly string[]): Promise<void> {
  await lockStates(tx.sql, targetIds);
}

/**
 * With `commits` the COMMIT follows at once, unless incidents change, which takes further statements. Returns the
 * targets whose groups may change: incidents of theirs do, or they were unknown, or are.
 */
async function writeChanges(
  tx: System,
  evidence: ReadonlyMap<string, LockedEvidence<EvidenceTarget>>,
  changes: ReadonlyMap<string, EvidenceChange>,
  commits: boolean,
): Promise<readonly string[]> {
  const now = tx.clock.now();
  const moved: string[] = [];
  const newer: NewerRun[] = [];
  const updates: StateUpdate[] = [];
  const evaluated: EvaluatedTarget[] = [];
  await forEachInTurns([...changes], ([id, change]) => {
    const { target, policy, stored } = evidence.get(id)!;
    const wasKnown = isKnown(stored.status, stored.status_until?.getTime() ?? null, now);
    if ("newest" in change) {
      if (!wasKnown) moved.push(id);
      const { newest, lastResultAt } = change;
      newer.push({ targetId: target.id, until: newest + policy.livenessMs, lastResultAt });
      return;
    }
    const { evaluation, latest, closedBy, actor, manual, lastResultAt } = change;
    const after: TargetState = { evaluation: evaluation.state, latest };
    const reading = statusOf(policy, after, evaluation.checkpoint);
    const update = {
      targetId: target.id,
      state: formatState(policy, after, reading.newest),
      status: reading.status,
      until: reading.until,
      since: sinceOf(reading, evaluation.checkpoint, stored),
      lastResultAt,
      lastError: reading.error,
      circuitOpen: reading.circuitOpen,
      recheckRegions: unsettledRegions(evaluation.checkpoint),
      flapping: shownFlapping(evaluation.checkpoint),
      flappingDueAt: settlesAt(policy, evaluation.checkpoint),
    };
    if (hasOnlyNewerRun(stored, update)) newer.push(update);
    else updates.push(update);
    const { inserted, updated, retracted, notices } = evaluation;
    const { flapping } = update;
    const flaps = { before: stored.flapping, after: flapping };
    const isCalm = (flaps.before === null) === (flaps.after === null);
    const changesIncidents = inserted.length + updated.length + retracted.length + notices.length > 0;
    if (changesIncidents || wasKnown !== isKnown(update.status, update.until, now)) moved.push(id);
    if (!changesIncidents && isCalm) return;
    evaluated.push({
      orgId: target.org_id,
      targetId: target.id,
      name: target.name,
      renotifyIntervalSecs: target.renotify_interval_secs,
      downSeverity: target.severity,
      errorSample: manual?.publicTitle ?? reading.error,
      diagnosis: manual === undefined ? reading.diagnosis : null,
      closedBy,
      actor,
      manual,
      flaps,
      evaluation,
    });
  });
  const writes = [
    newer.length > 0 ? writeNewerRuns(tx.sql, newer) : undefined,
    updates.length > 0 ? writeStates(tx.sql, updates) : undefined,
    evaluated.length > 0
      ? recordEvaluations(tx.sql, evaluated, tx.config.server.public_url, new Date(tx.clock.now()))
      : undefined,
  ];
  if (commits && evaluated.length + moved.length === 0) commitBehind(tx.sql);
  await Promise.all(writes);
  return moved;
}

const isKnown = (status: string, until: number | null, now: number): boolean =>
  status !== "unknown" && until !== null && until > now;

function shownFlapping(checkpoint: Checkpoint): StoredFlapping | null {
  const flapping = flappingOf(checkpoint);
  const { incident } = checkpoint;
  if (flapping === null || incident === null) return null;
  return { since: new Date(flapping.since).toISOString(), changes: flapping.changes, incident_id: incident.id };
}

/** Start of the status, Unix ms. A status that was stale in between starts again. */
function sinceOf(reading: Reading, checkpoint: Checkpoint, stored: LockedState): number | null {
  const isSame = reading.status === stored.status && (stored.status_until?.getTime() ?? 0) >= (reading.newest ?? 0);
  if (isSame) return stored.status_since?.getTime() ?? null;
  const failing = Object.values(checkpoint.regions).filter((region) => region.vote === "failing");
  return reading.status === "up" || failing.length === 0
    ? reading.newest
    : Math.min(...failing.map((region) => region.since));
}

/** True when the times of the newest run are all that an update changes. */
const hasOnlyNewerRun = (stored: LockedState, update: StateUpdate): boolean =>
  update.state === stored.state &&
  update.status === stored.status &&
  update.since === (stored.status_since?.getTime() ?? null) &&
  update.lastError === stored.last_error &&
  update.circuitOpen === stored.circuit_open &&
  update.flapping?.changes === stored.flapping?.changes &&
  update.recheckRegions.join() === (stored.recheck_regions ?? []).join();

/** Regions whose last run contradicts their vote, in the order of their names. */
const unsettledRegions = ({ regions }: Checkpoint): string[] =>
  Object.keys(regions)
    .filter((name) => isUnsettled(regions[name]!))
    .sort();

/** True when the region should run the check once more soon: its last run contradicts its vote. */
export function needsRecheck(
  { stored }: LockedEvidence<EvidenceTarget>,
  change: EvidenceChange | undefined,
  region: string,
): boolean {
  if (change === undefined) return stored.recheck_regions?.includes(region) === true;
  const own = "newest" in change ? undefined : change.evaluation.checkpoint.regions[region];
  return own !== undefined && isUnsettled(own);
}

/** One run as evidence. `slot` is Unix ms. */
export interface RunEvidence {
  readonly slot: number;
  readonly status: CheckStatus;
  readonly error: string | null;
  /** The last failure at the destination, where an open circuit breaker refused this run. */
  readonly cause: Cause | null;
  /** What kept the run from its destination, as results have it. */
  readonly diagnosis?: string | null;
}

/** Adds the runs of one region to the evidence, at `now` (Unix ms), in place of those that they refute. */
export function addRuns(
  locked: LockedEvidence<EvidenceTarget>,
  region: string,
  runs: readonly RunEvidence[],
  now: number,
  refuted: readonly Refuted[] = [],
): Reevaluated | Unchanged {
  const newest = runs.length === 1 && refuted.length === 0 ? unchangedUpTo(locked, region, runs[0]!) : null;
  if (newest !== null) return { newest };
  const { policy, state } = locked;
  const latest = { ...state.latest };
  const shown = latest[region]?.slot ?? 0;
  if (refuted.some(({ from, to }) => shown >= from && shown < to)) delete latest[region];
  const isEvidence = ({ slot }: RunEvidence): boolean => bySlot([slot, region], state.evaluation.horizon) > 0;
  for (const run of runs) {
    const known = latest[region];
    if (known === undefined ? isEvidence(run) : run.slot > known.slot) latest[region] = latestOf(run, known);
  }
  const graded = runs.map(({ slot, status }) => ({ slot, region, grade: gradeOf(status) }));
  return {
    evaluation: evaluate(policy, state.evaluation, graded, { freshAfter: now - freshnessMs(policy), newId, refuted }),
    latest,
  };
}

/** The newest slot, where the run is one more pass of a target that is up and stays up; else null. */
function unchangedUpTo(
  { passing, stored, policy }: LockedEvidence<EvidenceTarget>,
  region: string,
  { slot, status }: RunEvidence,
): number | null {
  const { status_until: until } = stored;
  if (status !== "up" || passing === null || until === null || stored.status !== "up") return null;
  if (stored.last_error !== null || stored.circuit_open || stored.recheck_regions !== null) return null;
  const newest = passesOn(policy, passing, until, region, slot);
  return newest !== null && newest <= until.getTime() ? newest : null;
}

/**
 * The displayed part of a run. A run that an open breaker refused shows the failure that keeps it open, or the region's
 * last failure where an agent of the first release leaves that out.
 */
function latestOf({ slot, status, error, cause, diagnosis = null }: RunEvidence, known: Latest | undefined): Latest {
  const why = diagnosis === null ? {} : { diagnosis };
  if (error !== circuitOpen) return { slot, status, error: shortened(error), ...why };
  if (cause !== null) return { slot, status: cause.status, error: shortened(cause.error), ...why, refused: true };
  return known === undefined || known.status === "up"
    ? { slot, status, error, refused: true }
    : { ...known, slot, refused: true };
}

const shortened = (error: string | null): string | null => error?.slice(0, 200) ?? null;

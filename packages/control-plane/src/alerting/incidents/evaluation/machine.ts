import type { CheckStatus } from "@statusmesh/shared/protocol/result";
import { countChange, type Flaps, flappingOf, settle } from "./flaps.ts";
import { isLive, type Policy, quorum } from "./policy.ts";

/**
 * One step of the evaluation: a run arrives in slot order, its region's vote may change, and with it the incident.
 * Everything here is a pure function of its arguments; times are slots in Unix ms, never a clock.
 */

/** The grade of a run; a degraded run is a failure of minor severity. A skipped run is not evidence and has none. */
export type Grade = "passed" | "degraded" | "failed";

export const gradeOf = (status: CheckStatus): Grade =>
  status === "up" ? "passed" : status === "degraded" ? "degraded" : "failed";

/** One run of one region, by its slot. */
export interface Run {
  readonly slot: number;
  readonly region: string;
  readonly grade: Grade;
}

/** Streaks are counted up to here. */
export const maxStreak = 1000;

export type Vote = "failing" | "passing";

export interface RegionState {
  vote: Vote | null;
  /** The current streak: its kind, length and first slot. */
  kind: Vote;
  streak: number;
  since: number;
  /** True from a failed run until the vote is passing, or as many degraded runs in a row as confirm a vote. */
  major: boolean;
  /** The degraded runs in a row at the end of a failing streak: number and first slot. Else 0. */
  degradedStreak: number;
  degradedSince: number;
  last: number;
}

export type EngineSeverity = "minor" | "major";
export type Impact = "degraded" | "partial_outage" | "major_outage";

/** A stretch of an outage: start, end (null while it lasts) and impact. Times are slots, Unix ms. */
export type Outage = readonly [start: number, end: number | null, impact: Impact];

export interface IncidentState {
  /** Empty until the incident is matched with a stored one or inserted. */
  id: string;
  /** First failing run of the regions that opened it. */
  startedAt: number;
  /** The run that confirmed it. */
  openedAt: number;
  /** First run of the recovery; null while open. */
  endedAt: number | null;
  /** The run that confirmed the recovery. */
  closedAt: number | null;
  /** Highest since it opened or reopened last: the one that channels were notified of. */
  severity: EngineSeverity;
  /** Of what fails now. */
  impact: Impact;
  peakImpact: Impact;
  /** Start of the current outage, or of the last one: `startedAt` until it reopens. */
  since: number;
  /** Length of the outages that are over, ms. The time between an end and a reopening does not count. */
  pastMs: number;
  /** When it failed and how far, oldest first, starts ascending. At least the last one; older ones are final. */
  outages: readonly Outage[];
  reopened: number;
  regionsDown: string[];
  regionsUp: string[];
  /** Present while a person keeps it open: passing runs do not close it. */
  manual?: true;
}

/** The votes and the incident after a run. */
export interface Checkpoint {
  regions: Record<string, RegionState>;
  /** The latest incident, open or closed. */
  incident: IncidentState | null;
  flaps?: Flaps;
}

/** Severity of what fails now; of the worst that failed once the incident is closed. */
export function severityOf({ closedAt, impact, peakImpact }: IncidentState): EngineSeverity {
  return (closedAt === null ? impact : peakImpact) === "degraded" ? "minor" : "major";
}

/** A copy that {@link step} may change. */
export const copyIncident = (incident: IncidentState): IncidentState => ({ ...incident });

export type Transition = "opened" | "reopened" | "resolved" | "escalated";

const impacts: readonly Impact[] = ["degraded", "partial_outage", "major_outage"];

/**
 * True while the last run of a region contradicts its vote: a failure is not yet confirmed, or a recovery. A region
 * without a vote that passes confirms nothing.
 */
export const isUnsettled = ({ streak, kind, vote }: RegionState): boolean =>
  streak > 0 && (kind === "failing" ? vote !== "failing" : vote === "failing");

/** Folds one run into the checkpoint, in place; returns what happened to the incident, or null. */
export function step(policy: Policy, checkpoint: Checkpoint, run: Run): Transition | null {
  const region = (checkpoint.regions[run.region] ??= {
    vote: null,
    kind: "passing",
    streak: 0,
    since: run.slot,
    major: false,
    degradedStreak: 0,
    degradedSince: 0,
    last: run.slot,
  });
  const before = region.vote;
  const kind = run.grade === "passed" ? "passing" : "failing";
  if (region.streak === 0 || region.kind !== kind) {
    region.kind = kind;
    region.streak = 0;
    region.since = run.slot;
    // A pass that is not confirmed does not make the outage lighter.
    region.major &&= region.vote === "failing";
    region.degradedStreak = 0;
    region.degradedSince = 0;
  }
  region.streak = Math.min(region.streak + 1, maxStreak);
  region.last = run.slot;
  if (run.grade === "failed") {
    region.major = true;
    region.degradedStreak = 0;
  } else if (run.grade === "degraded") {
    if (region.degradedStreak === 0) region.degradedSince = run.slot;
    region.degradedStreak = Math.min(region.degradedStreak + 1, maxStreak);
    if (region.degradedStreak >= policy.confirmations) region.major = false;
  }
  if (region.streak >= policy.confirmations) region.vote = kind;
  if (region.vote === "passing" && kind === "passing") region.major = false;
  // A passing run confirms no outage, even when other votes have gone stale since.
  const isStreak = kind === "passing" || region.vote !== before;
  const since = isStreak ? region.since : run.grade === "degraded" && !region.major ? region.degradedSince : run.slot;
  const transition = decide(policy, checkpoint, run.slot, { since, mayOpen: kind === "failing" });
  settle(policy, checkpoint, run.slot);
  return transition;
}

interface Deciding {
  /** The first slot of the runs that change something: of a recovery, for example. */
  since: number;
  mayOpen: boolean;
}

/** Applies the policy to the votes at time `at`, in place. */
export function decide(policy: Policy, checkpoint: Checkpoint, at: number, deciding: Deciding): Transition | null {
  const transition = judge(policy, checkpoint, at, deciding);
  countChange(policy, checkpoint, transition, at);
  return transition;
}

function judge(policy: Policy, checkpoint: Checkpoint, at: number, { since, mayOpen }: Deciding): Transition | null {
  const failing: string[] = [];
  const failingLive: RegionState[] = [];
  const passing: string[] = [];
  let live = 0;
  let major = false;
  for (const [name, region] of Object.entries(checkpoint.regions)) {
    const counts = isLive(policy, region.last, at);
    if (counts) live++;
    if (region.vote === "failing") {
      failing.push(name);
      if (counts) failingLive.push(region);
      major ||= region.major;
    } else if (region.vote === "passing" && counts) passing.push(name);
  }

  const incident = checkpoint.incident;
  if (incident === null || incident.closedAt !== null) {
    if (!mayOpen || failingLive.length === 0 || failingLive.length < quorum(policy.regionPolicy, live)) return null;
    return open(policy, checkpoint, at, failingLive, failing, passing);
  }

  // Stale failing votes count: silence closes nothing.
  const voters = live + failing.length - failingLive.length;
  if (!incident.manual && passing.length > 0 && failing.length < quorum(policy.regionPolicy, voters)) {
    close(incident, at, Math.min(since, at));
    incident.regionsDown = failing.sort();
    incident.regionsUp = passing.sort();
    return "resolved";
  }
  // Without votes nothing is known yet: the check has just been changed.
  if (!incident.manual && failing.length === 0 && passing.length === 0) return null;
  const escalates = major && incident.severity === "minor";
  if (escalates) incident.severity = "major";
  // A person said how severe it is: runs raise that and do not lower it.
  const now = incident.manual ? incident.severity : major ? "major" : "minor";
  describe(incident, now, failing, passing);
  continueOutage(incident, Math.min(since, at));
  return escalates ? "escalated" : null;
}

function open(
  policy: Policy,
  checkpoint: Checkpoint,
  at: number,
  failingLive: RegionState[],
  failing: string[],
  passing: string[],
): Transition {
  const severity: EngineSeverity = failingLive.some((region) => region.major) ? "major" : "minor";
  const startedAt = Math.min(...failingLive.map((region) => region.since));
  const last = checkpoint.incident;
  // What flaps is one incident until it is stable.
  const reopens = last?.closedAt != null && (at - last.closedAt < policy.reopenMs || flappingOf(checkpoint) !== null);
  if (reopens) {
    last.since = Math.max(startedAt, last.endedAt!);
    last.endedAt = null;
    last.closedAt = null;
    last.reopened++;
    last.severity = severity;
    describe(last, severity, failing, passing);
    const before = last.outages.at(-1)![0] === last.since ? last.outages.slice(0, -1) : last.outages;
    last.outages = [...before, [last.since, null, last.impact]];
    return "reopened";
  }
  checkpoint.incident = newIncident({ id: "", startedAt, openedAt: at, severity }, failing, passing);
  return "opened";
}

function newIncident(
  given: Pick<IncidentState, "id" | "startedAt" | "openedAt" | "severity" | "manual">,
  failing: string[],
  passing: string[],
): IncidentState {
  const incident: IncidentState = {
    ...given,
    endedAt: null,
    closedAt: null,
    impact: "degraded",
    peakImpact: "degraded",
    since: given.startedAt,
    pastMs: 0,
    outages: [],
    reopened: 0,
    regionsDown: [],
    regionsUp: [],
  };
  describe(incident, given.severity, failing, passing);
  incident.outages = [[given.startedAt, null, incident.impact]];
  return incident;
}

/** The incident that a person opens at `at`, Unix ms. It stays open until a person closes it. */
export function manualIncident(
  policy: Policy,
  { regions }: Checkpoint,
  { id, at, startedAt, severity }: { id: string; at: number; startedAt: number; severity: EngineSeverity },
): IncidentState {
  const voting = (vote: RegionState["vote"]) =>
    Object.keys(regions).filter((name) => {
      const region = regions[name]!;
      return region.vote === vote && (vote === "failing" || isLive(policy, region.last, at));
    });
  return newIncident({ id, startedAt, openedAt: at, severity, manual: true }, voting("failing"), voting("passing"));
}

/** Closes an open incident, whose outage ended at `endedAt`. In place. */
export function close(incident: IncidentState, closedAt: number, endedAt: number): void {
  const [start, , impact] = incident.outages.at(-1)!;
  incident.closedAt = closedAt;
  incident.endedAt = Math.max(start, endedAt);
  incident.pastMs += incident.endedAt - incident.since;
  incident.outages = [...incident.outages.slice(0, -1), [start, incident.endedAt, impact]];
}

/** Begins another stretch of the outage at `since` where its impact has changed. In place. */
function continueOutage(incident: IncidentState, since: number): void {
  const [start, , impact] = incident.outages.at(-1)!;
  if (impact === incident.impact) return;
  const before = incident.outages.slice(0, -1);
  const ended: Outage[] = since > start ? [[start, since, impact]] : [];
  incident.outages = [...before, ...ended, [Math.max(start, since), null, incident.impact]];
}

function describe(incident: IncidentState, severity: EngineSeverity, failing: string[], passing: string[]): void {
  incident.regionsDown = failing.sort();
  incident.regionsUp = passing.sort();
  incident.impact = severity === "minor" ? "degraded" : passing.length > 0 ? "partial_outage" : "major_outage";
  if (impacts.indexOf(incident.impact) > impacts.indexOf(incident.peakImpact)) incident.peakImpact = incident.impact;
}

/**
 * One step of the evaluation: a run arrives in slot order, its region's vote may change, and with it the incident.
 * Everything here is a pure function of its arguments; times are slots in Unix ms, never a clock.
 */

/**
 * The grade of a run: passed, degraded (a failure of minor severity), failed. A skipped run is no evidence and has
 * none.
 */
export type Grade = "P" | "D" | "F";

/** One run of one region, by its slot. */
export interface Run {
  readonly slot: number;
  readonly region: string;
  readonly grade: Grade;
}

export type RegionPolicy = "any" | "majority" | "all" | { readonly count: number };

/** The settings of a target that decide about its incidents. */
export interface Policy {
  readonly confirmations: number;
  readonly intervalMs: number;
  readonly regionPolicy: RegionPolicy;
  /** How long a vote stays live after the region's last run, ms. */
  readonly livenessMs: number;
  /** An incident that closed less than this long ago reopens instead of a new one opening, ms. */
  readonly reopenMs: number;
}

/** Streaks are counted up to here. */
export const maxStreak = 1000;

export interface RegionState {
  vote: "failing" | "passing" | null;
  /** The current streak: its kind, length and first slot, and whether a failing one has a run that failed. */
  kind: "P" | "F";
  streak: number;
  since: number;
  hard: boolean;
  last: number;
}

export type EngineSeverity = "minor" | "major";
export type Impact = "degraded" | "partial_outage" | "major_outage";

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
  severity: EngineSeverity;
  impact: Impact;
  peakImpact: Impact;
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
}

/** A copy that {@link step} may change. */
export const copyIncident = (incident: IncidentState): IncidentState => ({ ...incident });

export type Transition = "opened" | "reopened" | "resolved" | "escalated";

const impacts: readonly Impact[] = ["degraded", "partial_outage", "major_outage"];

/** How many of `voters` regions must fail. At least 1. */
export function quorum(policy: RegionPolicy, voters: number): number {
  if (policy === "any") return 1;
  if (policy === "majority") return Math.floor(voters / 2) + 1;
  if (policy === "all") return Math.max(1, voters);
  return Math.max(1, Math.min(policy.count, voters));
}

/** True while a vote given by a run at `last` counts at time `at`. */
export function isLive(policy: Policy, last: number, at: number): boolean {
  return last > at - policy.livenessMs;
}

/**
 * True while the last run of a region contradicts its vote: a failure is not yet confirmed, or a recovery. A region
 * without a vote that passes confirms nothing.
 */
export const isUnsettled = ({ streak, kind, vote }: RegionState): boolean =>
  streak > 0 && (kind === "F" ? vote !== "failing" : vote === "failing");

/** Folds one run into the checkpoint, in place; returns what happened to the incident, or null. */
export function step(policy: Policy, checkpoint: Checkpoint, run: Run): Transition | null {
  const region = (checkpoint.regions[run.region] ??= {
    vote: null,
    kind: "P",
    streak: 0,
    since: run.slot,
    hard: false,
    last: run.slot,
  });
  const kind = run.grade === "P" ? "P" : "F";
  if (region.streak === 0 || region.kind !== kind) {
    region.kind = kind;
    region.streak = 0;
    region.since = run.slot;
    region.hard = false;
  }
  region.streak = Math.min(region.streak + 1, maxStreak);
  region.hard ||= run.grade === "F";
  region.last = run.slot;
  if (region.streak >= policy.confirmations) region.vote = kind === "P" ? "passing" : "failing";
  // A passing run confirms no outage, even when other votes have gone stale since.
  return decide(policy, checkpoint, run.slot, { recoverySince: region.since, mayOpen: kind === "F" });
}

/**
 * Applies the policy to the votes at time `at`, in place. `recoverySince` is the start of a recovery, if this is one.
 */
export function decide(
  policy: Policy,
  checkpoint: Checkpoint,
  at: number,
  { recoverySince, mayOpen }: { recoverySince: number; mayOpen: boolean },
): Transition | null {
  const failing: string[] = [];
  const failingLive: RegionState[] = [];
  const passing: string[] = [];
  let live = 0;
  let hard = false;
  for (const [name, region] of Object.entries(checkpoint.regions)) {
    const counts = isLive(policy, region.last, at);
    if (counts) live++;
    if (region.vote === "failing") {
      failing.push(name);
      if (counts) failingLive.push(region);
      hard ||= region.hard;
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
    incident.endedAt = Math.max(incident.startedAt, Math.min(recoverySince, at));
    incident.closedAt = at;
    incident.regionsDown = failing.sort();
    incident.regionsUp = passing.sort();
    return "resolved";
  }
  const escalates = hard && incident.severity === "minor";
  if (escalates) incident.severity = "major";
  describe(incident, failing, passing);
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
  const severity: EngineSeverity = failingLive.some((region) => region.hard) ? "major" : "minor";
  const last = checkpoint.incident;
  if (last?.closedAt != null && at - last.closedAt < policy.reopenMs) {
    last.endedAt = null;
    last.closedAt = null;
    last.reopened++;
    if (severity === "major") last.severity = "major";
    describe(last, failing, passing);
    return "reopened";
  }
  const startedAt = Math.min(...failingLive.map((region) => region.since));
  checkpoint.incident = {
    id: "",
    startedAt,
    openedAt: at,
    endedAt: null,
    closedAt: null,
    severity,
    impact: "degraded",
    peakImpact: "degraded",
    reopened: 0,
    regionsDown: [],
    regionsUp: [],
  };
  describe(checkpoint.incident, failing, passing);
  return "opened";
}

/** The incident that a person opens at `at`, Unix ms. It stays open until a person closes it. */
export function manualIncident(
  policy: Policy,
  { regions }: Checkpoint,
  { id, at, severity }: { id: string; at: number; severity: EngineSeverity },
): IncidentState {
  const voting = (vote: RegionState["vote"]) =>
    Object.keys(regions).filter((name) => {
      const region = regions[name]!;
      return region.vote === vote && (vote === "failing" || isLive(policy, region.last, at));
    });
  const incident: IncidentState = {
    id,
    startedAt: at,
    openedAt: at,
    endedAt: null,
    closedAt: null,
    severity,
    impact: "degraded",
    peakImpact: "degraded",
    reopened: 0,
    regionsDown: [],
    regionsUp: [],
    manual: true,
  };
  describe(incident, voting("failing"), voting("passing"));
  return incident;
}

function describe(incident: IncidentState, failing: string[], passing: string[]): void {
  incident.regionsDown = failing.sort();
  incident.regionsUp = passing.sort();
  incident.impact = incident.severity === "minor" ? "degraded" : passing.length > 0 ? "partial_outage" : "major_outage";
  if (impacts.indexOf(incident.impact) > impacts.indexOf(incident.peakImpact)) incident.peakImpact = incident.impact;
}

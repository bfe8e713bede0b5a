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
  /** The current streak: its kind, length and first slot. */
  kind: "P" | "F";
  streak: number;
  since: number;
  /** True from a failed run until the vote is passing, or as many degraded runs in a row as confirm a vote. */
  hard: boolean;
  /** The degraded runs in a row at the end of a failing streak: number and first slot. Else 0. */
  eased: number;
  easedSince: number;
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
}

/** Severity of what fails now; of the worst that failed once the incident is closed. */
export function severityOf({ closedAt, impact, peakImpact }: IncidentState): EngineSeverity {
  return (closedAt === null ? impact : peakImpact) === "degraded" ? "minor" : "major";
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
    eased: 0,
    easedSince: 0,
    last: run.slot,
  });
  const before = region.vote;
  const kind = run.grade === "P" ? "P" : "F";
  if (region.streak === 0 || region.kind !== kind) {
    region.kind = kind;
    region.streak = 0;
    region.since = run.slot;
    // A pass that is not confirmed does not make the outage lighter.
    region.hard &&= region.vote === "failing";
    region.eased = 0;
    region.easedSince = 0;
  }
  region.streak = Math.min(region.streak + 1, maxStreak);
  region.last = run.slot;
  if (run.grade === "F") {
    region.hard = true;
    region.eased = 0;
  } else if (run.grade === "D") {
    if (region.eased === 0) region.easedSince = run.slot;
    region.eased = Math.min(region.eased + 1, maxStreak);
    if (region.eased >= policy.confirmations) region.hard = false;
  }
  if (region.streak >= policy.confirmations) region.vote = kind === "P" ? "passing" : "failing";
  if (region.vote === "passing" && kind === "P") region.hard = false;
  // A passing run confirms no outage, even when other votes have gone stale since.
  const isStreak = kind === "P" || region.vote !== before;
  const since = isStreak ? region.since : run.grade === "D" && !region.hard ? region.easedSince : run.slot;
  return decide(policy, checkpoint, run.slot, { since, mayOpen: kind === "F" });
}

/**
 * Applies the policy to the votes at time `at`, in place. `since` is the first slot of the runs that change something:
 * of a recovery, for example.
 */
export function decide(
  policy: Policy,
  checkpoint: Checkpoint,
  at: number,
  { since, mayOpen }: { since: number; mayOpen: boolean },
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
    close(incident, at, Math.min(since, at));
    incident.regionsDown = failing.sort();
    incident.regionsUp = passing.sort();
    return "resolved";
  }
  const escalates = hard && incident.severity === "minor";
  if (escalates) incident.severity = "major";
  // A person said how severe it is: runs raise that and do not lower it.
  const now = incident.manual ? incident.severity : hard ? "major" : "minor";
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
  const severity: EngineSeverity = failingLive.some((region) => region.hard) ? "major" : "minor";
  const startedAt = Math.min(...failingLive.map((region) => region.since));
  const last = checkpoint.incident;
  if (last?.closedAt != null && at - last.closedAt < policy.reopenMs) {
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
  checkpoint.incident = {
    id: "",
    startedAt,
    openedAt: at,
    endedAt: null,
    closedAt: null,
    severity,
    impact: "degraded",
    peakImpact: "degraded",
    since: startedAt,
    pastMs: 0,
    outages: [],
    reopened: 0,
    regionsDown: [],
    regionsUp: [],
  };
  describe(checkpoint.incident, severity, failing, passing);
  checkpoint.incident.outages = [[startedAt, null, checkpoint.incident.impact]];
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
    since: at,
    pastMs: 0,
    outages: [],
    reopened: 0,
    regionsDown: [],
    regionsUp: [],
    manual: true,
  };
  describe(incident, severity, voting("failing"), voting("passing"));
  incident.outages = [[at, null, incident.impact]];
  return incident;
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

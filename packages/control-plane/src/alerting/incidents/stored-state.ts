import type { CheckStatus } from "@statusmesh/shared/result";
import { bySlot, emptyState, type EvaluationState, window } from "./evaluate.ts";
import { maxStreak, type Policy, type RegionState } from "./votes.ts";

/** The last run of a region that was evidence, for people to read. */
export interface Latest {
  slot: number;
  /** Of the last run that was made: a run that an open circuit breaker refused has no status of the target. */
  status: CheckStatus;
  error: string | null;
  /** True when an open circuit breaker refused the run. */
  refused?: true;
}

/** The evidence of a target. */
export interface TargetState {
  evaluation: EvaluationState;
  latest: Record<string, Latest>;
}

/*
 * `target_states.state` is an empty text for a target without results, the JSON of a TargetState, or a short form for a
 * target whose recent runs have all passed, one interval apart. The text stays the same while runs pass, because all
 * slots follow from the newest one, which `status_until` contains:
 *
 *   { fold count ":" region ":" since ":" missed ":" phase ":" lag " " } interval " " liveness
 *
 * Numbers are in base 36, times in ms. `status_until` is the newest slot and the liveness. `phase` and `lag` make a
 * region's newest slot of it: the last one of that phase of the interval, less `lag` intervals. `count` runs of the
 * region are kept as they are. `fold` is the part of the region in the checkpoint: nothing (n), its first run (f, F
 * where the region votes), or more (m, M). `since` is the slot of the first pass in a row, and `missed` the number of
 * later slots without a run.
 */

/** The short form. */
export interface Passing {
  readonly interval: number;
  readonly liveness: number;
  readonly regions: readonly PassingRegion[];
}

interface PassingRegion {
  readonly name: string;
  readonly fold: "n" | "f" | "m";
  readonly votes: boolean;
  readonly count: number;
  readonly since: number;
  readonly missed: number;
  readonly phase: number;
  readonly lag: number;
}

/** Reads the short form; null for any other text. */
export function parsePassing(text: string): Passing | null {
  if (text === "" || text.startsWith("{")) return null;
  const parts = text.split(" ");
  const liveness = long(parts.pop());
  const interval = long(parts.pop());
  const regions = parts.map((part): PassingRegion => {
    const [folded = "", name = "", since, missed, phase, lag] = part.split(":");
    const fold = folded[0]!.toLowerCase() as PassingRegion["fold"];
    const count = long(folded.slice(1));
    const votes = folded[0] !== fold;
    return { name, fold, votes, count, since: long(since), missed: long(missed), phase: long(phase), lag: long(lag) };
  });
  return { interval, liveness, regions };
}

/** The newest slot of a region, where `newest` is that of all regions. */
const slotOf = ({ phase, lag }: PassingRegion, interval: number, newest: number): number =>
  newest - ((newest - phase) % interval) - lag * interval;

/** The newest slot of evidence from a region, Unix ms; null without any. */
export function newestSlot(passing: Passing, until: Date | null, region: string): number | null {
  const own = passing.regions.find(({ name }) => name === region);
  return own === undefined || until === null ? null : slotOf(own, passing.interval, until.getTime() - passing.liveness);
}

/**
 * The newest slot, Unix ms, where one more pass changes nothing else. Null where the pass has to be evaluated: it is
 * not in the region's next slot, or changes the stored form.
 */
export function passesOn(
  policy: Policy,
  { interval, liveness, regions }: Passing,
  until: Date,
  region: string,
  slot: number,
): number | null {
  if (interval !== policy.intervalMs || liveness !== policy.livenessMs) return null;
  const before = until.getTime() - liveness;
  const newest = Math.max(before, slot);
  let kept = 0;
  let oldest: readonly [number, string] | null = null;
  for (const one of regions) {
    const own = slotOf(one, interval, before);
    const now = one.name === region ? slot : own;
    if (one.fold !== "m" || !one.votes || Math.floor((newest - now) / interval) !== one.lag) return null;
    kept += one.count;
    const first = [own - (one.count - 1) * interval, one.name] as const;
    if (oldest === null || bySlot(first, oldest) < 0) oldest = first;
    if (one.name !== region) continue;
    if (slot !== own + interval) return null;
    const slots = Math.floor((own - one.count * interval - one.since) / interval) + 1;
    if (one.missed !== 0 && slots - one.missed + 1 >= maxStreak) return null;
  }
  // One run more than is kept, and the oldest one, of the same region, moves into the checkpoint.
  return oldest?.[1] === region && kept === window(policy.confirmations, regions.length) ? newest : null;
}

/** Reads a stored state. `until` is `status_until`. */
export function parseState(text: string, until: Date | null): TargetState {
  if (text === "") return { evaluation: emptyState, latest: {} };
  const passing = parsePassing(text);
  return passing === null ? (JSON.parse(text) as TargetState) : expand(passing, until?.getTime() ?? 0);
}

/**
 * The stored form of a state whose newest slot is `newest` (Unix ms); {@link parseState} makes the same state of it.
 */
export function formatState(policy: Policy, state: TargetState, newest: number | null): string {
  if (newest !== null && hasOnlyPasses(state)) {
    const passing = shorten(policy, state, newest);
    if (isSame(expand(passing, newest + policy.livenessMs), state)) return formatPassing(passing);
  }
  return JSON.stringify(state);
}

/** Region ids of this form divide a text in the short form where they should. */
const plainId = /^[a-z0-9-]+$/;

const hasOnlyPasses = ({ evaluation: { base, incidents, recent }, latest }: TargetState): boolean =>
  base.incident === null &&
  incidents.length === 0 &&
  recent.every(([, , grade]) => grade === "P") &&
  Object.keys(latest).every((name) => plainId.test(name));

const formatPassing = ({ interval, liveness, regions }: Passing): string =>
  [
    ...regions.map(({ name, fold, votes, count, since, missed, phase, lag }) =>
      [(votes ? fold.toUpperCase() : fold) + short(count), name, ...[since, missed, phase, lag].map(short)].join(":"),
    ),
    short(interval),
    short(liveness),
  ].join(" ");

/** The short form of a state of passes. It is valid only where {@link expand} returns the same state. */
function shorten(policy: Policy, { evaluation: { base, recent }, latest }: TargetState, newest: number): Passing {
  const interval = policy.intervalMs;
  const regions = Object.entries(latest).map(([name, { slot }]): PassingRegion => {
    const own = recent.filter(([, region]) => region === name);
    const known = base.regions[name];
    const fold = known === undefined ? "n" : known.streak === 1 ? "f" : "m";
    return {
      name,
      fold,
      votes: known?.vote === "passing",
      count: own.length,
      since: known?.since ?? own[0]?.[0] ?? slot,
      missed: fold === "m" ? missedOf(known!, interval) : 0,
      phase: slot % interval,
      lag: Math.floor((newest - slot) / interval),
    };
  });
  return { interval, liveness: policy.livenessMs, regions };
}

/**
 * How many slots between the first pass in a row and the last one have no run; streaks are not counted beyond {@link
 * maxStreak}.
 */
function missedOf({ since, last, streak }: RegionState, interval: number): number {
  const slots = Math.floor((last - since) / interval) + 1;
  return streak === maxStreak && slots >= maxStreak ? 0 : slots - streak;
}

function expand({ interval, liveness, regions: parts }: Passing, until: number): TargetState {
  const newest = until - liveness;
  const regions: Record<string, RegionState> = {};
  const latest: TargetState["latest"] = {};
  const recent: [number, string, "P"][] = [];
  let horizon: readonly [number, string] = [0, ""];
  for (const part of parts) {
    const { name, fold, votes, count, since, missed } = part;
    const slot = slotOf(part, interval, newest);
    for (let back = count - 1; back >= 0; back--)
      recent.push([fold === "n" && back === count - 1 ? since : slot - back * interval, name, "P"]);
    latest[name] = { slot, status: "up", error: null };
    if (fold === "n") continue;
    const last = fold === "f" ? since : slot - count * interval;
    const streak = fold === "f" ? 1 : Math.min(maxStreak, Math.floor((last - since) / interval) + 1 - missed);
    regions[name] = {
      vote: votes ? "passing" : null,
      kind: "P",
      streak,
      since,
      hard: false,
      eased: 0,
      easedSince: 0,
      last,
    };
    if (bySlot([last, name], horizon) > 0) horizon = [last, name];
  }
  recent.sort(bySlot);
  return { evaluation: { base: { regions, incident: null }, horizon, recent, incidents: [], told: {} }, latest };
}

const short = (number: number): string => number.toString(36);
const long = (text: string | undefined): number => Number.parseInt(text ?? "", 36);

/** Whether a state of passes, as {@link expand} makes them, is the same as another one of passes. */
function isSame(made: TargetState, given: TargetState): boolean {
  const [a, b] = [made.evaluation, given.evaluation];
  const regions = Object.entries(a.base.regions);
  const latest = Object.entries(made.latest);
  return (
    a.horizon[0] === b.horizon[0] &&
    a.horizon[1] === b.horizon[1] &&
    a.recent.length === b.recent.length &&
    a.recent.every(([slot, region], at) => slot === b.recent[at]![0] && region === b.recent[at]![1]) &&
    Object.keys(b.told).length === 0 &&
    regions.length === Object.keys(b.base.regions).length &&
    regions.every(([name, region]) => isSameRegion(region, b.base.regions[name])) &&
    latest.length === Object.keys(given.latest).length &&
    latest.every(([name, { slot }]) => {
      const other = given.latest[name];
      return other?.slot === slot && other.status === "up" && other.error === null && other.refused === undefined;
    })
  );
}

const isSameRegion = (a: RegionState, b: RegionState | undefined): boolean =>
  b !== undefined &&
  a.vote === b.vote &&
  a.kind === b.kind &&
  a.streak === b.streak &&
  a.since === b.since &&
  a.hard === b.hard &&
  a.eased === b.eased &&
  a.last === b.last;

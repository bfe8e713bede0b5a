import type { CheckStatus } from "@statusmesh/shared/protocol/result";
import { hourMs } from "@statusmesh/shared/time";
import { type Checkpoint, type Grade, maxStreak, type RegionState, type Vote } from "./machine.ts";
import type { Policy } from "./policy.ts";
import { bySlot, emptyState, type EvaluationState, window } from "./replay.ts";

/** The last run of a region that was evidence, for people to read. */
export interface Latest {
  slot: number;
  /** Of the last run that was made: a run that an open circuit breaker refused has no status of the target. */
  status: CheckStatus;
  error: string | null;
  /** What kept a failed run from its destination, as results have it; absent where nothing says it. */
  diagnosis?: string;
  /** True when an open circuit breaker refused the run. */
  refused?: true;
}

export interface TargetState {
  evaluation: EvaluationState;
  latest: Record<string, Latest>;
}

/*
 * `target_states.state` is rewritten at every result that changes it, so it is compact: an empty text for a target
 * without results, JSON for most others (see {@link encode}), or a short form for a target whose recent runs have all
 * passed, one interval apart. The short form stays the same while runs pass, because all slots follow from the newest
 * one, which `status_until` contains:
 *
 *   [ "!" opening { "," opening } " " ] { folded count ":" region ":" since ":" missed ":" phase ":" lag " " }
 *   interval " " liveness
 *
 * Numbers are in base 36, times in ms. `status_until` is the newest slot and the liveness. `phase` and `lag` make a
 * region's newest slot of it: the last one of that phase of the interval, less `lag` intervals. `count` runs of the
 * region are kept as they are. `folded` is a letter of {@link foldedLetters}, a capital where the region votes. `since`
 * is the slot of the first pass in a row, and `missed` the number of later slots without a run. `opening` is the slot
 * of an opening within the last hour (`flaps.ts`).
 */

/** How many runs of a region the checkpoint contains. */
type Folded = "none" | "first" | "several";
const foldedLetters: Readonly<Record<Folded, string>> = { none: "n", first: "f", several: "m" };
const gradeLetters: Readonly<Record<Grade, string>> = { passed: "P", degraded: "D", failed: "F" };
const voteLetters: Readonly<Record<Vote, string>> = { passing: "P", failing: "F" };

/** The value whose code a record of codes has. */
function decoderOf<T extends string>(codes: Readonly<Record<T, string>>): (code: string) => T {
  const values = new Map((Object.keys(codes) as T[]).map((value) => [codes[value], value]));
  return (code) => values.get(code)!;
}
const foldedOf = decoderOf(foldedLetters);
const gradeOfLetter = decoderOf(gradeLetters);
const voteOf = decoderOf(voteLetters);

/** The short form. */
export interface Passing {
  readonly interval: number;
  readonly liveness: number;
  readonly regions: readonly PassingRegion[];
  readonly openings: readonly number[];
}

interface PassingRegion {
  readonly name: string;
  readonly folded: Folded;
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
  const openings = parts[0]!.startsWith("!") ? parts.shift()!.slice(1).split(",").map(long) : [];
  const liveness = long(parts.pop());
  const interval = long(parts.pop());
  const regions = parts.map((part): PassingRegion => {
    const [head = "", name = "", since, missed, phase, lag] = part.split(":");
    const letter = head[0]!.toLowerCase();
    const folded = foldedOf(letter);
    const count = long(head.slice(1));
    const votes = head[0] !== letter;
    return { name, folded, votes, count, since: long(since), missed: long(missed), phase: long(phase), lag: long(lag) };
  });
  return { interval, liveness, regions, openings };
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
  { interval, liveness, regions, openings }: Passing,
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
    if (one.folded !== "several" || !one.votes || Math.floor((newest - now) / interval) !== one.lag) return null;
    kept += one.count;
    const first = [own - (one.count - 1) * interval, one.name] as const;
    if (oldest === null || bySlot(first, oldest) < 0) oldest = first;
    if (one.name !== region) continue;
    if (slot !== own + interval) return null;
    const slots = Math.floor((own - one.count * interval - one.since) / interval) + 1;
    if (one.missed !== 0 && slots - one.missed + 1 >= maxStreak) return null;
  }
  // Openings of more than an hour before the run that moves into the checkpoint are forgotten.
  if (openings.length > 0 && oldest !== null && oldest[0] - openings[0]! > hourMs) return null;
  // One run more than is kept, and the oldest one, of the same region, moves into the checkpoint.
  return oldest?.[1] === region && kept === window(policy.confirmations, regions.length) ? newest : null;
}

/** Reads a stored state. `until` is `status_until`. */
export function parseState(text: string, until: Date | null): TargetState {
  if (text === "") return { evaluation: emptyState, latest: {} };
  const passing = parsePassing(text);
  return passing === null ? decode(JSON.parse(text) as StoredState) : expand(passing, until?.getTime() ?? 0);
}

/**
 * The stored form of a state whose newest slot is `newest` (Unix ms); {@link parseState} makes the same state of it.
 */
export function formatState(policy: Policy, state: TargetState, newest: number | null): string {
  if (newest !== null && hasOnlyPasses(state)) {
    const passing = shorten(policy, state, newest);
    if (isSame(expand(passing, newest + policy.livenessMs), state)) return formatPassing(passing);
  }
  return JSON.stringify(encode(state));
}

/** A region of the checkpoint as JSON: {@link RegionState} in the order of its fields, with codes for the votes. */
type StoredRegion = [
  vote: string | null,
  kind: string,
  streak: number,
  since: number,
  major: boolean,
  degradedStreak: number,
  degradedSince: number,
  last: number,
];

/** A {@link TargetState} as JSON, with codes in place of words where there are many. */
interface StoredState extends Pick<TargetState, "latest">, Pick<EvaluationState, "horizon" | "incidents" | "notified"> {
  regions: Record<string, StoredRegion>;
  incident: Checkpoint["incident"];
  flaps?: Checkpoint["flaps"];
  recent: [slot: number, region: string, grade: string][];
}

function encode({ evaluation: { base, horizon, recent, incidents, notified }, latest }: TargetState): StoredState {
  const regions: StoredState["regions"] = {};
  for (const [name, region] of Object.entries(base.regions)) {
    const { vote, kind, streak, since, major, degradedStreak, degradedSince, last } = region;
    regions[name] = [
      vote === null ? null : voteLetters[vote],
      voteLetters[kind],
      streak,
      since,
      major,
      degradedStreak,
      degradedSince,
      last,
    ];
  }
  const graded = recent.map(([slot, region, grade]): StoredState["recent"][number] => [
    slot,
    region,
    gradeLetters[grade],
  ]);
  const flaps = base.flaps === undefined ? {} : { flaps: base.flaps };
  return { regions, incident: base.incident, ...flaps, horizon, recent: graded, incidents, notified, latest };
}

function decode({ regions, incident, flaps, horizon, recent, incidents, notified, latest }: StoredState): TargetState {
  const base: Checkpoint = { regions: {}, incident, ...(flaps === undefined ? {} : { flaps }) };
  for (const [name, stored] of Object.entries(regions)) {
    const [vote, kind, streak, since, major, degradedStreak, degradedSince, last] = stored;
    base.regions[name] = {
      vote: vote === null ? null : voteOf(vote),
      kind: voteOf(kind),
      streak,
      since,
      major,
      degradedStreak,
      degradedSince,
      last,
    };
  }
  const graded = recent.map(([slot, region, letter]) => [slot, region, gradeOfLetter(letter)] as const);
  return { evaluation: { base, horizon, recent: graded, incidents, notified }, latest };
}

/** Region ids of this form divide a text in the short form where they should. */
const plainId = /^[a-z0-9-]+$/;

const hasOnlyPasses = ({ evaluation: { base, incidents, recent }, latest }: TargetState): boolean =>
  base.incident === null &&
  (base.flaps?.flapping ?? null) === null &&
  incidents.length === 0 &&
  recent.every(([, , grade]) => grade === "passed") &&
  Object.keys(latest).every((name) => plainId.test(name));

const formatPassing = ({ interval, liveness, regions, openings }: Passing): string =>
  [
    ...(openings.length === 0 ? [] : [`!${openings.map(short).join()}`]),
    ...regions.map(({ name, folded, votes, count, since, missed, phase, lag }) => {
      const letter = foldedLetters[folded];
      return [
        (votes ? letter.toUpperCase() : letter) + short(count),
        name,
        ...[since, missed, phase, lag].map(short),
      ].join(":");
    }),
    short(interval),
    short(liveness),
  ].join(" ");

/** The short form of a state of passes. It is valid only where {@link expand} returns the same state. */
function shorten(policy: Policy, { evaluation: { base, recent }, latest }: TargetState, newest: number): Passing {
  const interval = policy.intervalMs;
  const regions = Object.entries(latest).map(([name, { slot }]): PassingRegion => {
    const own = recent.filter(([, region]) => region === name);
    const known = base.regions[name];
    const folded = known === undefined ? "none" : known.streak === 1 ? "first" : "several";
    return {
      name,
      folded,
      votes: known?.vote === "passing",
      count: own.length,
      since: known?.since ?? own[0]?.[0] ?? slot,
      missed: folded === "several" ? missedOf(known!, interval) : 0,
      phase: slot % interval,
      lag: Math.floor((newest - slot) / interval),
    };
  });
  return { interval, liveness: policy.livenessMs, regions, openings: base.flaps?.openings ?? [] };
}

/**
 * How many slots between the first pass in a row and the last one have no run; streaks are not counted beyond {@link
 * maxStreak}.
 */
function missedOf({ since, last, streak }: RegionState, interval: number): number {
  const slots = Math.floor((last - since) / interval) + 1;
  return streak === maxStreak && slots >= maxStreak ? 0 : slots - streak;
}

function expand({ interval, liveness, regions: parts, openings }: Passing, until: number): TargetState {
  const newest = until - liveness;
  const regions: Record<string, RegionState> = {};
  const latest: TargetState["latest"] = {};
  const recent: [number, string, "passed"][] = [];
  let horizon: readonly [number, string] = [0, ""];
  for (const part of parts) {
    const { name, folded, votes, count, since, missed } = part;
    const slot = slotOf(part, interval, newest);
    for (let back = count - 1; back >= 0; back--)
      recent.push([folded === "none" && back === count - 1 ? since : slot - back * interval, name, "passed"]);
    latest[name] = { slot, status: "up", error: null };
    if (folded === "none") continue;
    const last = folded === "first" ? since : slot - count * interval;
    const streak = folded === "first" ? 1 : Math.min(maxStreak, Math.floor((last - since) / interval) + 1 - missed);
    regions[name] = {
      vote: votes ? "passing" : null,
      kind: "passing",
      streak,
      since,
      major: false,
      degradedStreak: 0,
      degradedSince: 0,
      last,
    };
    if (bySlot([last, name], horizon) > 0) horizon = [last, name];
  }
  recent.sort(bySlot);
  const flaps = openings.length === 0 ? {} : { flaps: { openings: [...openings], flapping: null } };
  const base: Checkpoint = { regions, incident: null, ...flaps };
  return { evaluation: { base, horizon, recent, incidents: [], notified: {} }, latest };
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
    Object.keys(b.notified).length === 0 &&
    (a.base.flaps?.openings.join() ?? "") === (b.base.flaps?.openings.join() ?? "") &&
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
  a.major === b.major &&
  a.degradedStreak === b.degradedStreak &&
  a.last === b.last;

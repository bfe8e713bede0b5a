import type { CheckStatus } from "@statusmesh/shared/result";
import { bySlot, emptyState, type EvaluationState } from "./evaluate.ts";
import { maxStreak, type Policy, type RegionState } from "./votes.ts";

/** The last run of a region that was evidence, for people to read. */
export interface Latest {
  slot: number;
  /** Of the last run that was made: status and error of a run that an open circuit breaker refused say nothing. */
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
 * target whose runs have only passed lately, one interval apart. It stays the same while they go on to, because all slots
 * follow from the newest one, which `status_until` tells:
 *
 *   { fold count ":" region ":" since ":" missed ":" phase ":" lag " " } interval " " liveness
 *
 * Numbers are in base 36, times in ms. `status_until` is the newest slot and the liveness. `phase` and `lag` make a region's
 * newest slot of it: the last one of that phase of the interval, less `lag` intervals. `count` runs of the region are kept as
 * they are. `fold` says what the checkpoint has of it: nothing (n), its first run (f, F where the region votes), or more (m,
 * M). `since` is the slot of the first pass in a row, and `missed` how many slots from there on have no run.
 */

/** Reads a stored state. `until` is `status_until`. */
export function parseState(text: string, until: Date | null): TargetState {
  if (text === "") return { evaluation: emptyState, latest: {} };
  if (text.startsWith("{")) return JSON.parse(text) as TargetState;
  return expand(text, until?.getTime() ?? 0);
}

/** The stored form of a state whose newest slot is `newest` (Unix ms); {@link parseState} makes the same state of it. */
export function formatState(policy: Policy, state: TargetState, newest: number | null): string {
  if (newest !== null && hasOnlyPasses(state)) {
    const text = shorten(policy, state, newest);
    if (isSame(expand(text, newest + policy.livenessMs), state)) return text;
  }
  return JSON.stringify(state);
}

const hasOnlyPasses = ({ evaluation: { base, incidents, recent } }: TargetState): boolean =>
  base.incident === null && incidents.length === 0 && recent.every(([, , verdict]) => verdict === "P");

function shorten(policy: Policy, { evaluation: { base, recent }, latest }: TargetState, newest: number): string {
  const { intervalMs: interval, livenessMs } = policy;
  const regions = Object.entries(latest).map(([name, { slot }]) => {
    const own = recent.filter(([, region]) => region === name);
    const known = base.regions[name];
    const fold = known === undefined ? "n" : known.streak === 1 ? "f" : "m";
    const since = known?.since ?? own[0]?.[0] ?? slot;
    const missed = fold === "m" ? missedOf(known!, interval) : 0;
    const phase = slot % interval;
    const lag = Math.floor((newest - slot) / interval);
    const letter = known?.vote === "passing" ? fold.toUpperCase() : fold;
    return [letter + short(own.length), name, ...[since, missed, phase, lag].map(short)].join(":");
  });
  return [...regions, short(interval), short(livenessMs)].join(" ");
}

/** How many slots between the first pass in a row and the last one have no run; streaks are not counted beyond {@link maxStreak}. */
function missedOf({ since, last, streak }: RegionState, interval: number): number {
  const slots = Math.floor((last - since) / interval) + 1;
  return streak === maxStreak && slots >= maxStreak ? 0 : slots - streak;
}

function expand(text: string, until: number): TargetState {
  const parts = text.split(" ");
  const newest = until - long(parts.pop());
  const interval = long(parts.pop());
  const regions: Record<string, RegionState> = {};
  const latest: TargetState["latest"] = {};
  const recent: [number, string, "P"][] = [];
  let horizon: readonly [number, string] = [0, ""];
  for (const part of parts) {
    const [folded = "", name = "", ...numbers] = part.split(":");
    const [since = 0, missed = 0, phase = 0, lag = 0] = numbers.map(long);
    const fold = folded[0]?.toLowerCase();
    const count = long(folded.slice(1));
    const slot = newest - ((newest - phase) % interval) - lag * interval;
    for (let back = count - 1; back >= 0; back--)
      recent.push([fold === "n" && back === count - 1 ? since : slot - back * interval, name, "P"]);
    latest[name] = { slot, status: "up", error: null };
    if (fold === "n") continue;
    const last = fold === "f" ? since : slot - count * interval;
    const streak = fold === "f" ? 1 : Math.min(maxStreak, Math.floor((last - since) / interval) + 1 - missed);
    regions[name] = {
      vote: folded[0] === fold ? null : "passing",
      kind: "P",
      streak,
      since,
      hard: false,
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
  a.last === b.last;

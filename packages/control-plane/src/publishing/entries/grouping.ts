import { getOrMake } from "../../platform/caches.ts";
import type { Interval } from "../../platform/intervals.ts";

/** A published incident of a page. Times in Unix ms; `end` is infinite while it is open. */
export interface Member extends Interval {
  id: string;
  componentId: string;
  /** Host that its monitor connects to. */
  host: string | null;
  /** When the page began to show it. */
  shown: number;
}

/** A monitor that components of a page depend on. */
export interface Parent {
  id: string;
  /** Components of the page. */
  children: readonly string[];
  /** Outages of a monitor that is not on the page. Null: its published incidents are members themselves. */
  outages: readonly Interval[] | null;
}

/**
 * Ids of the incidents that share a cause, the one that the page showed first in front: its id names the entry, so an
 * entry that grows keeps its address. Incidents share a cause when they overlap and have one host, or when they overlap
 * an outage of a monitor that they depend on. Every incident is in exactly one list.
 */
export function groupsOf(members: readonly Member[], parents: readonly Parent[]): string[][] {
  const sets = disjointSets(members.length);
  const byHost = new Map<string, number[]>();
  const byComponent = new Map<string, number[]>();
  for (const [at, { host, componentId }] of members.entries()) {
    if (host !== null) getOrMake(byHost, host, () => []).push(at);
    getOrMake(byComponent, componentId, () => []).push(at);
  }
  for (const own of byHost.values()) joinOverlapping(members, own, sets.join);
  for (const { id, children, outages } of parents) {
    const failed = children.flatMap((child) => byComponent.get(child) ?? []);
    if (failed.length === 0) continue;
    const causes =
      outages ?? (byComponent.get(id) ?? []).map((at) => ({ start: members[at]!.start, end: members[at]!.end, at }));
    for (const cause of causes) {
      let first = "at" in cause ? (cause.at as number) : null;
      for (const at of failed) {
        if (!overlap(members[at]!, cause)) continue;
        if (first === null) first = at;
        else sets.join(first, at);
      }
    }
  }
  const groups = new Map<number, Member[]>();
  for (const [at, member] of members.entries()) getOrMake(groups, sets.find(at), () => []).push(member);
  return [...groups.values()].map((own) => own.toSorted(firstShown).map(({ id }) => id));
}

const firstShown = (a: Member, b: Member): number => a.shown - b.shown || (a.id < b.id ? -1 : 1);

const overlap = (a: Interval, b: Interval): boolean => a.start <= b.end && b.start <= a.end;

/** Joins those of the members that overlap, also over others between them. */
function joinOverlapping(members: readonly Member[], own: readonly number[], join: (a: number, b: number) => void) {
  const sorted = own.toSorted((a, b) => members[a]!.start - members[b]!.start);
  let last: number | undefined;
  for (const at of sorted) {
    if (last !== undefined && members[at]!.start <= members[last]!.end) join(last, at);
    if (last === undefined || members[at]!.end > members[last]!.end) last = at;
  }
}

/** Sets of the numbers below `count` that can be joined. */
function disjointSets(count: number) {
  const parents = Array.from({ length: count }, (_, at) => at);
  const find = (at: number): number => {
    let root = at;
    while (parents[root] !== root) root = parents[root] = parents[parents[root]!]!;
    return root;
  };
  return { find, join: (a: number, b: number) => void (parents[find(a)] = find(b)) };
}

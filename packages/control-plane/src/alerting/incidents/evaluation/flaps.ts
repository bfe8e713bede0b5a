import { hourMs } from "@statusmesh/shared/time";
import type { Policy } from "./policy.ts";

/*
 * Flapping: a target that fails for the third time within an hour flaps until it stays down, or up, for long enough.
 * Part of the fold of the evidence: pure, and times are slots, Unix ms.
 */

export interface Flapping {
  /** Slot of the opening from which on it flaps. */
  since: number;
  /** Openings and closings, those that made it flap included. */
  changes: number;
  /** Slot of the last change. */
  last: number;
}

/** What the changes of a target say; absent where there was none within an hour. */
export interface Flaps {
  /** Slots of the openings within the last hour, oldest first: at most three. */
  openings: number[];
  flapping: Flapping | null;
}

/** What the fold of the evidence has of the votes and of the incident, as far as it counts here. */
interface Changing {
  regions: Readonly<Record<string, { vote: string | null; kind: "failing" | "passing"; since: number; last: number }>>;
  incident: { readonly closedAt: number | null; readonly manual?: true } | null;
  flaps?: Flaps;
}

/** Openings within an hour from which on a target flaps. */
const openingsOfFlapping = 3;

export const flappingOf = ({ flaps }: Changing): Flapping | null => flaps?.flapping ?? null;

/** Counts a change of the incident at `at`. In place. Incidents that a person opened do not count. */
export function countChange(
  policy: Policy,
  checkpoint: Changing,
  transition: "opened" | "reopened" | "resolved" | "escalated" | null,
  at: number,
): void {
  if (!policy.flapDetection || checkpoint.incident?.manual === true) return void delete checkpoint.flaps;
  if (transition === null || transition === "escalated") return;
  const { openings = [], flapping = null } = checkpoint.flaps ?? {};
  const opens = transition !== "resolved";
  if (!opens && checkpoint.flaps === undefined) return;
  const recent = opens ? [...openings.filter((slot) => at - slot <= hourMs), at].slice(-openingsOfFlapping) : openings;
  const begins = flapping === null && recent.length === openingsOfFlapping && opens;
  checkpoint.flaps = {
    openings: recent,
    flapping: begins
      ? { since: at, changes: 2 * openingsOfFlapping - 1, last: at }
      : flapping && { ...flapping, changes: flapping.changes + 1, last: at },
  };
}

/**
 * Ends the flapping of a target that has stayed up or down until `at`, and forgets openings of more than an hour ago.
 * In place. After staying down, the openings count on; after staying up they do not. `silent`: no run has come since.
 */
export function settle(policy: Policy, checkpoint: Changing, at: number, { silent = false } = {}): void {
  const { flaps } = checkpoint;
  if (flaps === undefined) return;
  const { openings, flapping } = flaps;
  if (flapping === null) {
    const recent = openings.filter((slot) => at - slot <= hourMs);
    if (recent.length === 0) delete checkpoint.flaps;
    else if (recent.length < openings.length) checkpoint.flaps = { openings: recent, flapping };
  } else if (isOpen(checkpoint)) {
    if (at - downSince(checkpoint, flapping, silent) >= policy.flapDownMs)
      checkpoint.flaps = { openings, flapping: null };
  } else if (at - flapping.last >= policy.flapUpMs) delete checkpoint.flaps;
}

const isOpen = ({ incident }: Changing): boolean => incident !== null && incident.closedAt === null;

/** The slot since which no region that votes failing has passed; Infinity where the last run of one has. */
function downSince({ regions }: Changing, { last }: Flapping, silent: boolean): number {
  const failing = Object.values(regions).filter(({ vote }) => vote === "failing");
  const sinces = failing.map((region) => (region.kind === "failing" ? region.since : silent ? region.last : Infinity));
  return Math.max(last, ...sinces);
}

/**
 * When an open incident that flaps has lasted long enough although no run says so, Unix ms: silence must not hide an
 * outage. Null where that cannot be.
 */
export function settlesAt(policy: Policy, checkpoint: Changing): number | null {
  const flapping = flappingOf(checkpoint);
  if (flapping === null || !isOpen(checkpoint)) return null;
  return downSince(checkpoint, flapping, true) + policy.flapDownMs + policy.livenessMs;
}

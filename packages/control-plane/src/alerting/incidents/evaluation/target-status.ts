import type { CheckStatus } from "@statusmesh/shared/protocol/result";
import { type Checkpoint, severityOf } from "./machine.ts";
import { isLive, type Policy } from "./policy.ts";
import { current } from "./replay.ts";
import type { TargetState } from "./stored-state.ts";

/** Status of a target, valid from its newest evidence until that is stale. */
export interface Reading {
  status: CheckStatus | "unknown";
  /** Unix ms; after it the status is unknown. */
  until: number | null;
  newest: number | null;
  /** Of the newest failing run of a live region. */
  error: string | null;
  /** What kept that run from its destination. */
  diagnosis: string | null;
  /** True when an open circuit breaker refuses the runs of a live region. */
  circuitOpen: boolean;
}

/**
 * An open incident decides, not the runs: degraded while only degraded runs fail, else down. Without one a single
 * failing run is not an outage yet: any live region that passes makes the target up; when none passes, the newest
 * run's status is shown.
 */
export function statusOf(
  policy: Policy,
  state: TargetState,
  checkpoint: Checkpoint = current(policy, state.evaluation),
): Reading {
  const runs = Object.entries(state.latest).sort(([, a], [, b]) => b.slot - a.slot);
  const newest = runs[0]?.[1];
  if (newest === undefined)
    return { status: "unknown", until: null, newest: null, error: null, diagnosis: null, circuitOpen: false };
  const live = runs.filter(([, run]) => isLive(policy, run.slot, newest.slot)).map(([, run]) => run);
  const failing = live.filter((run) => run.status !== "up");
  const { error = null, diagnosis = null } = failing[0] ?? {};
  const circuit = live.some((run) => run.refused === true);
  const at = { until: newest.slot + policy.livenessMs, newest: newest.slot, circuitOpen: circuit };
  const incident = checkpoint.incident;
  if (incident !== null && incident.closedAt === null)
    return { ...at, status: severityOf(incident) === "minor" ? "degraded" : "down", error, diagnosis };
  return live.length > failing.length
    ? { ...at, status: "up", error: null, diagnosis: null }
    : { ...at, status: newest.status, error, diagnosis };
}

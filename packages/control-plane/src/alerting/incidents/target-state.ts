import type { CheckStatus } from "@statusmesh/shared/result";
import { livenessMs } from "@statusmesh/shared/schedule";
import { current } from "./evaluate.ts";
import type { TargetState } from "./stored-state.ts";
import { type Checkpoint, type Grade, isLive, type Policy, type RegionPolicy, severityOf } from "./votes.ts";

/** The part of a target that decides about its incidents. */
export interface PolicyFields {
  /** Time budget of the check, ms. */
  timeout: number;
  interval_secs: number;
  alert_confirmations: number;
  region_policy: RegionPolicy;
}

/**
 * The policy of a target with its derived times: a vote is live for max(2 × interval + timeout, 90 s), an incident
 * reopens within max(5 min, 3 × interval).
 */
export function policyOf(target: PolicyFields): Policy {
  const intervalMs = target.interval_secs * 1000;
  return {
    confirmations: target.alert_confirmations,
    intervalMs,
    regionPolicy: target.region_policy,
    livenessMs: livenessMs(intervalMs, target.timeout),
    reopenMs: Math.max(300_000, 3 * intervalMs),
  };
}

/** Results of older slots are history and cause no notice: the time in which an incident would reopen. */
export const freshnessMs = (policy: Policy): number => policy.reopenMs;

export function gradeOf(status: CheckStatus): Grade {
  return status === "up" ? "P" : status === "degraded" ? "D" : "F";
}

/** Status of the monitor, valid from its newest evidence until that is stale. */
export interface Reading {
  status: CheckStatus | "unknown";
  /** Unix ms; after it the status is unknown. */
  until: number | null;
  newest: number | null;
  /** Of the newest failing run of a live region. */
  error: string | null;
  /** True when an open circuit breaker refuses the runs of a live region. */
  circuitOpen: boolean;
}

/**
 * An open incident decides, not the runs: degraded when nothing fails worse now, else down. Without one a single
 * failing run is not an outage yet: any live region that passes makes the monitor up; when none passes, the newest
 * run's status is shown.
 */
export function read(
  policy: Policy,
  state: TargetState,
  checkpoint: Checkpoint = current(policy, state.evaluation),
): Reading {
  const runs = Object.entries(state.latest).sort(([, a], [, b]) => b.slot - a.slot);
  const newest = runs[0]?.[1];
  if (newest === undefined) return { status: "unknown", until: null, newest: null, error: null, circuitOpen: false };
  const live = runs.filter(([, run]) => isLive(policy, run.slot, newest.slot)).map(([, run]) => run);
  const failing = live.filter((run) => run.status !== "up");
  const error = failing[0]?.error ?? null;
  const circuit = live.some((run) => run.refused === true);
  const at = { until: newest.slot + policy.livenessMs, newest: newest.slot, circuitOpen: circuit };
  const incident = checkpoint.incident;
  if (incident !== null && incident.closedAt === null)
    return { ...at, status: severityOf(incident) === "minor" ? "degraded" : "down", error };
  return live.length > failing.length ? { ...at, status: "up", error: null } : { ...at, status: newest.status, error };
}

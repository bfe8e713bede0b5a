import { livenessMs } from "@statusmesh/shared/schedule";

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

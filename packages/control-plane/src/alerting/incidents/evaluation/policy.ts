import { livenessMs } from "@statusmesh/shared/schedule";
import { hourMs, minuteMs } from "@statusmesh/shared/time";

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
  readonly flapDetection: boolean;
  /** What flaps and stays down, or up, for so long does not flap any more, ms. */
  readonly flapDownMs: number;
  readonly flapUpMs: number;
}

/** The part of a target that decides about its incidents. */
export interface PolicyFields {
  /** Time budget of the check, ms. */
  timeout: number;
  interval_secs: number;
  alert_confirmations: number;
  region_policy: RegionPolicy;
  flap_detection: boolean;
}

/**
 * The policy of a target with its derived times: a vote is live for max(2 × interval + timeout, 90 s), an incident
 * reopens within max(5 min, 3 × interval). Flapping ends after max(5 min, 3 × interval) of downtime, 15 min at most,
 * or max(15 min, 5 × interval) of uptime, 1 h at most.
 */
export function policyOf(target: PolicyFields): Policy {
  const intervalMs = target.interval_secs * 1000;
  return {
    confirmations: target.alert_confirmations,
    intervalMs,
    regionPolicy: target.region_policy,
    livenessMs: livenessMs(intervalMs, target.timeout),
    reopenMs: Math.max(5 * minuteMs, 3 * intervalMs),
    flapDetection: target.flap_detection,
    flapDownMs: Math.min(15 * minuteMs, Math.max(5 * minuteMs, 3 * intervalMs)),
    flapUpMs: Math.min(hourMs, Math.max(15 * minuteMs, 5 * intervalMs)),
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

import { dayMs, hourMs } from "@statusmesh/shared/time";

export type Outcome =
  | { ok: true; status: number | null }
  | { ok: false; error: string; status: number | null; permanent: boolean; retryAfterSecs: number | null };

/** Next state of the delivery. Times are Unix ms. */
export type RetryDecision =
  | { state: "delivered" | "dead"; nextAttemptAt: null }
  | { state: "pending"; nextAttemptAt: number };

export const maxAttempts = 8;
const firstDelayMs = 30_000;
const maxDelayMs = hourMs;
/** Limit of Retry-After: a notice older than a day is useless. */
const maxRetryAfterMs = dayMs;
/** From this attempt on the backoff is a minimum, because a receiver that asks for 1 s would use up all attempts. */
const patientAttempts = 3;

/** Backoff: 30 s, doubled per attempt, up to 20 % jitter, at most one hour. */
export function backoffMs(attempt: number, random: number): number {
  return Math.round(Math.min(maxDelayMs, firstDelayMs * 2 ** (attempt - 1) * (1 + 0.2 * random)));
}

/** The next state after attempt number `attempt` (from 1), which ended at `now`. `random` is in 0..1. */
export function afterAttempt(outcome: Outcome, attempt: number, now: number, random: number): RetryDecision {
  if (outcome.ok) return { state: "delivered", nextAttemptAt: null };
  if (outcome.permanent || attempt >= maxAttempts) return { state: "dead", nextAttemptAt: null };
  const backoff = backoffMs(attempt, random);
  if (outcome.retryAfterSecs === null) return { state: "pending", nextAttemptAt: now + backoff };
  const asked = Math.min(maxRetryAfterMs, Math.max(1, outcome.retryAfterSecs) * 1000);
  return { state: "pending", nextAttemptAt: now + (attempt > patientAttempts ? Math.max(asked, backoff) : asked) };
}

/** Limit of a pause of a whole channel: an error of the receiver must not silence it for a day. */
const maxPauseMs = 300_000;

/** Until when the receiver wants no request at all, Unix ms: 429 or 503 with Retry-After; null without such a wish. */
export function pauseOf(outcome: Outcome, now: number): number | null {
  if (outcome.ok || outcome.retryAfterSecs === null || (outcome.status !== 429 && outcome.status !== 503)) return null;
  return now + Math.min(maxPauseMs, Math.max(1, outcome.retryAfterSecs) * 1000);
}

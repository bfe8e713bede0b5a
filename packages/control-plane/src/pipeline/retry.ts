/** How one attempt to deliver went. */
export type Outcome =
  | { ok: true; status: number | null }
  | { ok: false; error: string; status: number | null; permanent: boolean; retryAfterSecs: number | null };

/** What becomes of the delivery. Times are unix ms. */
export type Verdict =
  | { state: "delivered" | "dead"; nextAttemptAt: null }
  | { state: "pending"; nextAttemptAt: number };

export const maxAttempts = 8;
const firstDelayMs = 30_000;
const maxDelayMs = 3_600_000;
/** Beyond a day a notice is not worth waiting for, whatever the receiver says. */
const maxRetryAfterMs = 86_400_000;
/** A receiver that keeps saying "in a second" would use up all attempts in a few seconds: from this attempt on the backoff is the least. */
const patientAttempts = 3;

/** 30 s, doubled with each attempt, up to 20 % longer so that receivers are not hit by all at once, and never above an hour. */
export function backoffMs(attempt: number, random: number): number {
  return Math.round(Math.min(maxDelayMs, firstDelayMs * 2 ** (attempt - 1) * (1 + 0.2 * random)));
}

/** Decides after attempt number `attempt` (1 for the first), which ended at `now`. `random` is in 0..1. */
export function afterAttempt(outcome: Outcome, attempt: number, now: number, random: number): Verdict {
  if (outcome.ok) return { state: "delivered", nextAttemptAt: null };
  if (outcome.permanent || attempt >= maxAttempts) return { state: "dead", nextAttemptAt: null };
  const backoff = backoffMs(attempt, random);
  if (outcome.retryAfterSecs === null) return { state: "pending", nextAttemptAt: now + backoff };
  const asked = Math.min(maxRetryAfterMs, Math.max(1, outcome.retryAfterSecs) * 1000);
  return { state: "pending", nextAttemptAt: now + (attempt > patientAttempts ? Math.max(asked, backoff) : asked) };
}

import type { System } from "../../platform/context.ts";
import { type ClaimedDelivery, releaseDelivery } from "./queries.ts";
import { openRecorder } from "./recorder.ts";
import type { Sender, Sent } from "./send.ts";
import { afterAttempt, pauseOf } from "./retry.ts";

/** Called for each recorded attempt. `kind` is `none` when the channel was deleted; `notices` is 1 but for a digest. */
export type AttemptWatch = (kind: string, outcome: "delivered" | "retry" | "dead", notices: number) => void;

export interface AttemptOptions {
  sender: Sender;
  watch: AttemptWatch | undefined;
  /** Aborted: no send begins any more. */
  stopping: AbortSignal;
  /** Aborted: sends in flight are interrupted. */
  interrupted: AbortSignal;
}

/** Returns the function that sends a claimed delivery and records the attempt; a stopping process releases it. */
export function openAttempts(
  system: System,
  { sender, watch, stopping, interrupted }: AttemptOptions,
): (delivery: ClaimedDelivery) => Promise<void> {
  const { sql, clock, log } = system;
  const recorder = openRecorder(system);

  function logAttempt(
    delivery: ClaimedDelivery,
    { outcome, notices }: Sent,
    { state, nextAttemptAt }: ReturnType<typeof afterAttempt>,
    written: boolean,
  ): void {
    const fields = {
      delivery: delivery.id,
      incident: delivery.notice.incident_id,
      channel: delivery.channel_name,
      attempt: delivery.attempts + 1,
      ...(notices > 1 ? { notices } : {}),
    };
    if (!written) log.warn(fields, "an attempt took longer than its lease and is repeated");
    else if (outcome.ok) log.debug(fields, "delivered");
    else if (state === "dead") log.warn({ ...fields, reason: outcome.error }, "a delivery has failed permanently");
    else log.info({ ...fields, reason: outcome.error, next: nextAttemptAt }, "a delivery attempt has failed");
  }

  return async (delivery) => {
    const sent = stopping.aborted ? null : await sender.send(delivery);
    if (sent === null || (!sent.outcome.ok && interrupted.aborted)) return await releaseDelivery(sql, delivery);
    const now = clock.now();
    const { outcome } = sent;
    const next = afterAttempt(outcome, delivery.attempts + 1, now, Math.random());
    const written = await recorder.record({
      delivery,
      at: now,
      ok: outcome.ok,
      status: outcome.status,
      error: outcome.ok ? null : outcome.error,
      state: next.state,
      nextAttemptAt: next.nextAttemptAt,
      pausedUntil: pauseOf(outcome, now),
      sent: sent.tried,
    });
    if (written)
      watch?.(delivery.channel?.kind ?? "none", next.state === "pending" ? "retry" : next.state, sent.notices);
    logAttempt(delivery, sent, next, written);
  };
}

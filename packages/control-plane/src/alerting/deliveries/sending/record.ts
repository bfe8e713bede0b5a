import type { System } from "../../../platform/context.ts";
import type { ClaimedDelivery } from "./claim-queries.ts";
import type { Recorder } from "./recorder.ts";
import { afterAttempt, pauseOf } from "./retry.ts";
import { settleMembers } from "../rounds/round-queries.ts";
import type { Attempt } from "./send.ts";

/** Called for each recorded attempt. `kind` is `none` when the channel was deleted. */
export type AttemptWatch = (kind: string, result: "delivered" | "retry" | "dead", notices: number) => void;

interface Recording {
  system: System;
  recorder: Recorder;
  watch: AttemptWatch | undefined;
}

/** Records an attempt and what follows from it, for every delivery of the message. */
export async function recordAttempt(
  { system, recorder, watch }: Recording,
  delivery: ClaimedDelivery,
  { outcome, sent, notices }: Attempt,
): Promise<void> {
  const { sql, clock, log } = system;
  const number = delivery.attempts + 1;
  const now = clock.now();
  const { state, nextAttemptAt } = afterAttempt(outcome, number, now, Math.random());
  const written = await recorder.record({
    delivery,
    at: now,
    ok: outcome.ok,
    status: outcome.status,
    error: outcome.ok ? null : outcome.error,
    state,
    nextAttemptAt,
    pausedUntil: pauseOf(outcome, now),
    sent,
    dissolves: state === "dead" && sent && notices > 1,
  });
  if (written && delivery.message_id !== null && state !== "pending") await settleMembers(sql, delivery.id);
  if (written) watch?.(delivery.channel?.kind ?? "none", state === "pending" ? "retry" : state, notices);
  const fields = {
    delivery: delivery.id,
    incident: delivery.notice.incident_id,
    channel: delivery.channel_name,
    attempt: number,
    ...(notices > 1 ? { notices } : {}),
  };
  if (!written) log.warn(fields, "an attempt took longer than its lease and is repeated");
  else if (outcome.ok) log.debug(fields, "delivered");
  else if (state === "dead") log.warn({ ...fields, reason: outcome.error }, "a delivery has failed permanently");
  else log.info({ ...fields, reason: outcome.error, next: nextAttemptAt }, "a delivery attempt has failed");
}

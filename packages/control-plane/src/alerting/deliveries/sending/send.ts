import type { Semaphore } from "@statusmesh/shared/semaphore";
import { stackOf } from "@statusmesh/shared/thrown";
import type { System } from "../../../platform/context.ts";
import type { Db } from "../../../platform/db/client/sql.ts";
import type { Outbound } from "../../../platform/outbound/client.ts";
import { DeliveryError } from "../../channels/kinds/service.ts";
import { sendThrough, sharesOf } from "../../channels/sending/service.ts";
import { composeAlert, groupOf } from "../alerts/alerts.ts";
import { type ClaimedDelivery, isInRounds, type RoundRules } from "./claim-queries.ts";
import { compose, type Composed } from "./compose.ts";
import type { Outcome } from "./retry.ts";
import { collectWaiting } from "../rounds/round-queries.ts";

export interface Sender {
  system: System;
  transport: Outbound;
  /** The clock that the processes of a database share, Unix ms. */
  sharedTime: (sql: Db) => Promise<number>;
  /** Deliveries with alerts decide in turn, by channel: each would wait for its lock with a connection. */
  turns: Semaphore;
  /** Aborted: no send begins any more. */
  stopping: AbortSignal;
  /** Aborted: sends in flight are interrupted. */
  interrupt: AbortSignal;
}

export interface Attempt {
  outcome: Outcome;
  /** False when nothing was sent: the channel is disabled or deleted. */
  sent: boolean;
  /** Notices in the message; 1 for an alert, which is not taken apart. */
  notices: number;
}

/**
 * Makes one attempt. `over`: nothing is left to say. `apart`: the message is of a round, and its channel has no rounds
 * any more. `done`: the delivery left with another message, or waits. `late`: the lease may have ended, so nothing was
 * sent.
 */
export async function attemptOf(
  sender: Sender,
  delivery: ClaimedDelivery,
  { rounds, isLate }: { rounds: RoundRules; isLate: () => boolean },
): Promise<Attempt | "over" | "apart" | "done" | "late"> {
  const { sql } = sender.system;
  const { channel, message_id: messageId } = delivery;
  const shares = channel === null ? null : sharesOf(channel.kind);
  if (messageId !== null && channel !== null && shares !== "alert") {
    if (rounds.secs === 0 || !(await isInRounds(sql, channel.id, rounds.kinds))) return "apart";
    await collectWaiting(sql, delivery);
  }
  if (channel === null) return notSent("the channel was deleted");
  if (!channel.enabled) {
    const reason = channel.disabled_reason === null ? "" : `: ${channel.disabled_reason}`;
    return notSent(`the channel is disabled${reason}`);
  }
  const shared = { ...delivery, channel_id: channel.id };
  if (shares === "alert") {
    const content = await sender.turns.run(channel.id, async () =>
      composeAlert(sender.system, shared, await sender.sharedTime(sql)),
    );
    if (typeof content === "string") return content;
    if (isLate()) return "late";
    return {
      outcome: await sendComposed(sender, delivery, { content, notices: 1, mail: null }),
      sent: true,
      notices: 1,
    };
  }
  let composed = await compose(sender.system, { ...delivery, channel });
  // A recovery that was written meanwhile may be all that is left to say.
  if (composed === "over" && messageId !== null && (await collectWaiting(sql, delivery)) > 0)
    composed = await compose(sender.system, { ...delivery, channel });
  if (composed === "over") return "over";
  if (shares === "group" && composed.content.kind === "notice") {
    const group = await sender.turns.run(channel.id, async () =>
      groupOf(sender.system, shared, await sender.sharedTime(sql)),
    );
    if (group !== null) composed.content.group = group;
  }
  if (isLate()) return "late";
  return { outcome: await sendComposed(sender, delivery, composed), sent: true, notices: composed.notices };
}

async function sendComposed(
  { system, transport }: Sender,
  { id, channel }: ClaimedDelivery,
  { content, notices, mail }: Composed,
): Promise<Outcome> {
  try {
    const messageId = notices > 1 ? `${id}.${notices}` : id;
    const message = { deliveryId: id, messageId, content, ...(mail === null ? {} : { mail }) };
    return {
      ok: true,
      status: await sendThrough(system, channel!, { ...message, sentAt: system.clock.now() }, transport),
    };
  } catch (error) {
    if (error instanceof DeliveryError) {
      const { status, permanent, retryAfterSecs } = error;
      return { ok: false, error: storable(error.message), status, permanent, retryAfterSecs };
    }
    system.log.error({ delivery: id, err: stackOf(error) }, "a channel kind has failed with an unexpected error");
    return { ok: false, error: "internal error", status: null, permanent: false, retryAfterSecs: null };
  }
}

const notSent = (error: string): Attempt => ({
  outcome: { ok: false, error, status: null, permanent: true, retryAfterSecs: null },
  sent: false,
  notices: 1,
});

/** PostgreSQL stores neither NUL nor a lone surrogate; one such text would fail the whole batch of attempts. */
const storable = (text: string): string => text.replaceAll("\0", "").toWellFormed().slice(0, 1000).toWellFormed();

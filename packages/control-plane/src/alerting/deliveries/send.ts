import { DeliveryError, receiverOf, sendThrough } from "../channels/service.ts";
import type { Content } from "../channels/schema.ts";
import type { System } from "../../platform/context.ts";
import type { Outbound } from "../../platform/outbound/client.ts";
import { digestOf } from "./digest.ts";
import { digestMembers, dissolveDigest } from "./digest-queries.ts";
import type { ClaimedDelivery } from "./queries.ts";
import type { Outcome } from "./retry.ts";

/** An attempt that was made. */
export interface Sent {
  outcome: Outcome;
  /** False when the channel could not be tried: it is disabled or gone. */
  tried: boolean;
  /** Notices in the message: more than 1 for a digest. */
  notices: number;
}

export interface Sender {
  /** Makes one attempt. Null when the delivery was taken apart instead, and is to be claimed again. */
  send(delivery: ClaimedDelivery): Promise<Sent | null>;
}

export function openSender(system: System, transport: Outbound): Sender {
  const { sql, clock, log, config } = system;

  async function send(delivery: ClaimedDelivery): Promise<Sent | null> {
    const { id, channel } = delivery;
    const members = delivery.digest_id === null ? [] : await digestMembers(sql, id);
    const notices = Math.max(1, members.length);
    if (channel === null) return { ...notTried("the channel was deleted"), notices };
    if (!channel.enabled) {
      const reason = channel.disabled_reason === null ? "" : `: ${channel.disabled_reason}`;
      return { ...notTried(`the channel is disabled${reason}`), notices };
    }
    if (members.length > 1 && receiverOf(system, channel)?.digests === false) {
      // The channel has become one of another kind.
      await dissolveDigest(sql, id);
      return null;
    }
    const content: Content =
      members.length > 1
        ? { kind: "digest", digest: digestOf(members, config.server.public_url) }
        : { kind: "notice", notice: delivery.notice };
    return { outcome: await attempt(delivery, content), tried: true, notices };
  }

  async function attempt({ id, channel }: ClaimedDelivery, content: Content): Promise<Outcome> {
    try {
      const message = { deliveryId: id, content, sentAt: clock.now() };
      return { ok: true, status: await sendThrough(system, channel!, message, transport) };
    } catch (error) {
      if (error instanceof DeliveryError) {
        const { status, permanent, retryAfterSecs } = error;
        return { ok: false, error: storable(error.message), status, permanent, retryAfterSecs };
      }
      log.error(
        { delivery: id, err: error instanceof Error ? error.stack : String(error) },
        "a channel kind has failed with an unexpected error",
      );
      return { ok: false, error: "internal error", status: null, permanent: false, retryAfterSecs: null };
    }
  }

  return { send };
}

const notTried = (error: string): Pick<Sent, "outcome" | "tried"> => ({
  outcome: { ok: false, error, status: null, permanent: true, retryAfterSecs: null },
  tried: false,
});

/** PostgreSQL stores neither NUL nor a lone surrogate; one such text would fail the whole batch of attempts. */
const storable = (text: string): string => text.replaceAll("\0", "").toWellFormed().slice(0, 1000).toWellFormed();

export const reasonOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

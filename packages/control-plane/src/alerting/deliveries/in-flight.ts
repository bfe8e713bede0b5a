import { createHash } from "node:crypto";
import { receiverOf } from "../channels/service.ts";
import type { System } from "../../platform/context.ts";
import { openPlaces, type Places } from "./limits.ts";
import { type ClaimedDelivery, releaseDelivery, storeHostKey } from "./queries.ts";
import { reasonOf } from "./send.ts";

/** Free places that a backlog waits for, so that it is claimed in portions. */
const portion = 20;

/** The claimed deliveries of this process. */
export interface InFlight {
  readonly places: Pick<Places, "room" | "channels" | "hosts" | "orgs">;
  /** Starts the deliveries of a claim with room for `room`. */
  start(claimed: readonly ClaimedDelivery[], room: number): void;
  /** Resolves when all have ended. */
  ended(): Promise<void>;
}

/**
 * `deliver` sends one delivery and records its outcome. `wake` is called when places for another claim are free: after
 * each delivery, or in a backlog after a portion of them.
 */
export function openInFlight(
  system: System,
  deliver: (delivery: ClaimedDelivery) => Promise<void>,
  wake: () => void,
): InFlight {
  const { sql, clock, log } = system;
  const places = openPlaces(() => clock.now());
  const running = new Map<string, Promise<void>>();
  /** True when the last claim left deliveries for want of places. */
  let backlog = false;
  /** Deliveries that have ended since the last claim. */
  let freed = 0;

  /** Sends a delivery if its host has a place, and releases it otherwise. */
  async function sendOrRelease(delivery: ClaimedDelivery): Promise<void> {
    const host = hostKeyOf(system, delivery);
    const free = places.take({ channel: delivery.channel_id ?? "", host, org: delivery.org_id });
    if (free === null) await releaseDelivery(sql, delivery);
    else await deliver(delivery).finally(free);
    const { channel_id: channelId, host_key: stored } = delivery;
    if (channelId !== null && host !== channelId && host !== stored) await storeHostKey(sql, channelId, host);
  }

  function track(delivery: ClaimedDelivery): void {
    const done = sendOrRelease(delivery)
      .catch((error: unknown) =>
        log.warn(
          { delivery: delivery.id, reason: reasonOf(error) },
          "an attempt could not be recorded; it is repeated when its lease expires",
        ),
      )
      .finally(() => {
        running.delete(delivery.id);
        freed++;
        if (!backlog || freed >= portion || running.size === 0) wake();
      });
    running.set(delivery.id, done);
  }

  return {
    places,
    start(claimed, room) {
      freed = 0;
      backlog = claimed.length >= Math.min(portion, room);
      for (const delivery of claimed) track(delivery);
    },
    ended: async () => void (await Promise.all(running.values())),
  };
}

/** Key of the receiver's host; the id of the channel where the config cannot be opened. */
function hostKeyOf(system: System, { channel, channel_id }: ClaimedDelivery): string {
  const host = channel === null ? null : (receiverOf(system, channel)?.host ?? null);
  return host === null ? (channel_id ?? "") : createHash("sha256").update(host).digest("base64url").slice(0, 22);
}

import { setMaxListeners } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { channelOutbound } from "../channels/service.ts";
import type { System } from "../../platform/context.ts";
import { failureOf } from "../../platform/db/failures.ts";
import type { Hub } from "../../platform/db/notify.ts";
import { deliveriesChannel } from "./outbox-queries.ts";
import { type AttemptWatch, openAttempts } from "./attempt.ts";
import { gatherDigests, stormRules } from "./digest.ts";
import { openInFlight } from "./in-flight.ts";
import { maxInFlight } from "./limits.ts";
import { openPasses } from "./passes.ts";
import { claimDeliveries, isAnyPending, nextDueAt } from "./queries.ts";
import { openSender, reasonOf } from "./send.ts";

/** Six times the deadline of a send, so that clocks of replicas may differ by most of a minute. */
const leaseMs = 60_000;
const stopTimeoutMs = 3_000;
const releaseTimeoutMs = 1_000;

export interface DelivererOptions {
  watch?: AttemptWatch | undefined;
  /** CA certificates (PEM) in place of the system's. */
  ca?: string;
}

export interface Deliverer {
  /** Time of the last successful read of the outbox, Unix ms; null before the first. */
  readonly claimedAt: () => number | null;
  /** Claims no more, waits 3 s for sends in flight, and releases the rest. */
  stop(): Promise<void>;
}

/**
 * Sends the deliveries of the outbox. Any number may run on one database: a delivery is leased to one process, and to
 * another when the lease expires. A commit that wrote a delivery wakes it, and a timer for retries.
 */
export function startDeliverer(system: System, hub: Hub, options: DelivererOptions = {}): Deliverer {
  const { sql, clock, log } = system;
  const stopping = new AbortController();
  const interrupt = new AbortController();
  setMaxListeners(maxInFlight, interrupt.signal);
  const storms = stormRules(system.config.alerts.digest_threshold);
  let claimedAt: number | null = null;
  /** When the next digest can be complete, Unix ms; null when no notice is held back. */
  let gatherAt: number | null = null;

  const deliver = openAttempts(system, {
    sender: openSender(system, channelOutbound(system, { ca: options.ca, signal: interrupt.signal })),
    watch: options.watch,
    stopping: stopping.signal,
    interrupted: interrupt.signal,
  });
  const inFlight = openInFlight(system, deliver, () => passes.wake());
  const passes = openPasses({
    async once() {
      // The statements of a claim and of digests are long, and planned anew each time.
      if (!(await isAnyPending(sql))) {
        claimedAt = clock.now();
        gatherAt = null;
        return false;
      }
      await claim();
      return await gather();
    },
    async pauseMs() {
      const now = clock.now();
      const dueAt = (await nextDueAt(sql, now))?.getTime() ?? Number.POSITIVE_INFINITY;
      return Math.min(dueAt, gatherAt ?? dueAt) - now;
    },
    failed: (error) =>
      log[failureOf(error) === null ? "warn" : "debug"]({ reason: reasonOf(error) }, "deliveries cannot be read"),
  });

  async function claim(): Promise<void> {
    const { channels, hosts, orgs } = inFlight.places;
    const room = inFlight.places.room();
    if (room <= 0) return;
    const now = clock.now();
    const limits = { room, channels, hosts, orgs, storms, now, leasedUntil: now + leaseMs };
    const claimed = await claimDeliveries(sql, limits);
    claimedAt = now;
    inFlight.start(claimed, room);
  }

  /** Forms digests, if one can be complete by now. Returns true when there are new ones to claim. */
  async function gather(): Promise<boolean> {
    if (gatherAt !== null && clock.now() < gatherAt) return false;
    const { formed, nextAt } = await gatherDigests(system, storms);
    gatherAt = nextAt;
    return formed;
  }

  async function finished(): Promise<void> {
    await passes.running();
    await inFlight.ended();
  }

  const off = hub.on(deliveriesChannel, passes.wake);
  passes.wake();

  return {
    claimedAt: () => claimedAt,
    async stop() {
      stopping.abort();
      off();
      passes.stop();
      await waitAtMost(stopTimeoutMs, finished());
      interrupt.abort();
      // Interrupted deliveries are released; without a database their leases expire.
      await waitAtMost(releaseTimeoutMs, finished());
    },
  };
}

async function waitAtMost(ms: number, work: Promise<void>): Promise<void> {
  const timer = new AbortController();
  await Promise.race([work, sleep(ms, undefined, { signal: timer.signal }).catch(() => undefined)]);
  timer.abort();
}

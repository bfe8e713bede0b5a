import { createHash } from "node:crypto";
import { setMaxListeners } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { channelOutbound, receiverOf } from "../channels/service.ts";
import type { System } from "../context.ts";
import { failureOf } from "../db/failures.ts";
import type { Hub } from "../db/notify.ts";
import { deliveriesChannel } from "../incidents/engine.ts";
import { gatherDigests, stormRules } from "./deliver-digest.ts";
import { maxInFlight, openPlaces } from "./deliver-limits.ts";
import { claimDeliveries, type ClaimedDelivery, nextDueAt, releaseDelivery, storeHostKey } from "./deliver-queries.ts";
import { openRecorder } from "./deliver-recorder.ts";
import { openSender, type Sent } from "./deliver-send.ts";
import { afterAttempt, pauseOf } from "./retry.ts";

/** Six times the deadline of a send, so that clocks of replicas may differ by most of a minute. */
const leaseMs = 60_000;
const maxPauseMs = 5_000;
const stopTimeoutMs = 3_000;
/** Free places that a backlog waits for, so that it is claimed in portions. */
const portion = 20;

/** Called for each recorded attempt. `kind` is `none` when the channel was deleted; `notices` is 1 but for a digest. */
export type AttemptWatch = (kind: string, outcome: "delivered" | "retry" | "dead", notices: number) => void;

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
  const abort = new AbortController();
  setMaxListeners(maxInFlight, abort.signal);
  const sender = openSender(system, channelOutbound(system, { ca: options.ca, signal: abort.signal }));
  const recorder = openRecorder(system);
  const places = openPlaces(() => clock.now());
  const storms = stormRules(system.config.alerts.digest_threshold);
  const inFlight = new Map<string, Promise<void>>();
  let stopping = false;
  let passing: Promise<void> | null = null;
  let again = false;
  /** True when the last claim left deliveries for want of places. */
  let backlog = false;
  /** Sends that have ended since the last claim. */
  let freed = 0;
  let claimedAt: number | null = null;
  /** When the next digest can be complete, Unix ms; null when no notice is held back. */
  let gatherAt: number | null = null;
  let timer: NodeJS.Timeout | undefined;

  /** One pass at a time; a wake-up during a pass causes one more. */
  function wake(): void {
    if (stopping) return;
    if (passing !== null) again = true;
    else
      passing = pass().finally(() => {
        passing = null;
        if (again) wake();
      });
  }

  async function pass(): Promise<void> {
    clearTimeout(timer);
    let pauseMs = maxPauseMs;
    try {
      do {
        again = false;
        await claim();
        await gather();
      } while (again && !stopping);
      const now = clock.now();
      const dueAt = (await nextDueAt(sql, now))?.getTime() ?? Number.POSITIVE_INFINITY;
      pauseMs = Math.min(maxPauseMs, Math.max(10, Math.min(dueAt, gatherAt ?? dueAt) - now));
    } catch (error) {
      log[failureOf(error) === null ? "warn" : "debug"]({ reason: reasonOf(error) }, "deliveries cannot be read");
    }
    if (!stopping) timer = setTimeout(wake, pauseMs);
  }

  async function claim(): Promise<void> {
    const room = places.room();
    if (room <= 0) return;
    const now = clock.now();
    const claimed = await claimDeliveries(sql, {
      room,
      channels: places.channels,
      hosts: places.hosts,
      orgs: places.orgs,
      storms,
      now,
      leasedUntil: now + leaseMs,
    });
    claimedAt = now;
    freed = 0;
    backlog = claimed.length >= Math.min(portion, room);
    for (const delivery of claimed) start(delivery);
  }

  /** Forms digests, if one can be complete by now. */
  async function gather(): Promise<void> {
    if (gatherAt !== null && clock.now() < gatherAt) return;
    const { formed, nextAt } = await gatherDigests(system, storms);
    gatherAt = nextAt;
    if (formed) again = true;
  }

  /** Sends a claimed delivery if its host has a place, and releases it otherwise. */
  function start(delivery: ClaimedDelivery): void {
    const host = hostKeyOf(delivery);
    const free = places.take({ channel: delivery.channel_id ?? "", host, org: delivery.org_id });
    const work = free === null ? releaseDelivery(sql, delivery) : deliver(delivery).finally(free);
    const done = work
      .then(() => storeHost(delivery, host))
      .catch((error: unknown) =>
        log.warn(
          { delivery: delivery.id, reason: reasonOf(error) },
          "an attempt could not be recorded; it is repeated when its lease expires",
        ),
      )
      .finally(() => {
        inFlight.delete(delivery.id);
        freed++;
        if (!backlog || freed >= portion || inFlight.size === 0) wake();
      });
    inFlight.set(delivery.id, done);
  }

  /** Key of the host that the delivery goes to; of the channel where the config cannot be opened. */
  function hostKeyOf({ channel, channel_id }: ClaimedDelivery): string {
    const host = channel === null ? null : (receiverOf(system, channel)?.host ?? null);
    return host === null ? (channel_id ?? "") : createHash("sha256").update(host).digest("base64url").slice(0, 22);
  }

  async function storeHost({ channel_id, host_key }: ClaimedDelivery, host: string): Promise<void> {
    if (channel_id === null || host === channel_id || host === host_key) return;
    await storeHostKey(sql, channel_id, host);
  }

  async function deliver(delivery: ClaimedDelivery): Promise<void> {
    const sent = stopping ? null : await sender.send(delivery);
    if (sent === null || (!sent.outcome.ok && abort.signal.aborted)) return await releaseDelivery(sql, delivery);
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
      options.watch?.(delivery.channel?.kind ?? "none", next.state === "pending" ? "retry" : next.state, sent.notices);
    logAttempt(delivery, sent, next, written);
  }

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
    else if (state === "dead") log.warn({ ...fields, reason: outcome.error }, "a delivery has failed for good");
    else log.info({ ...fields, reason: outcome.error, next: nextAttemptAt }, "a delivery attempt has failed");
  }

  const off = hub.on(deliveriesChannel, wake);
  wake();

  return {
    claimedAt: () => claimedAt,
    async stop() {
      stopping = true;
      off();
      clearTimeout(timer);
      const finished = async () => {
        await passing;
        await Promise.all(inFlight.values());
      };
      await within(stopTimeoutMs, finished());
      abort.abort();
      // Interrupted deliveries are released; without a database their leases expire.
      await within(1000, finished());
    },
  };
}

const reasonOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

async function within(ms: number, work: Promise<void>): Promise<void> {
  const timer = new AbortController();
  await Promise.race([work, sleep(ms, undefined, { signal: timer.signal }).catch(() => undefined)]);
  timer.abort();
}

import { createHash } from "node:crypto";
import { setMaxListeners } from "node:events";
import { minuteMs } from "@statusmesh/shared/time";
import { messageOf, stackOf } from "@statusmesh/shared/thrown";
import { timezoneOf } from "../../access/orgs/service.ts";
import type { System } from "../../platform/context.ts";
import { failureOf } from "../../platform/db/failures.ts";
import type { Hub } from "../../platform/db/notify.ts";
import { pause } from "../../platform/process/pause.ts";
import type { Content } from "../channels/schema.ts";
import { channelOutbound, DeliveryError, receiverOf, sendThrough } from "../channels/service.ts";
import { noticeToSend } from "./acknowledge-links.ts";
import {
  claimDeliveries,
  type ClaimedDelivery,
  isAnyPending,
  nextDueAt,
  releaseDelivery,
  storeHostKey,
} from "./claim-queries.ts";
import { type DigestMember, digestMembers, dissolveDigest } from "./digest-queries.ts";
import { digestOf, gatherDigests, stormRules } from "./digest.ts";
import { maxInFlight, openPlaces } from "./limits.ts";
import { deliveriesChannel } from "./outbox-queries.ts";
import { openPasses } from "./passes.ts";
import { openRecorder } from "./recorder.ts";
import { afterAttempt, type Outcome, pauseOf } from "./retry.ts";

/*
 * How notices leave. The outbox (outbox.ts) has one pending delivery per notice and channel, written in the transaction
 * that changed the incident. From there:
 *
 *   1. wake    a commit that wrote deliveries (NOTIFY), the time of the next attempt, or 5 s      passes.ts
 *   2. claim   lease due deliveries: as many as channel, host and organisation have free places   claim-queries.ts
 *   3. send    one attempt through the channel's kind; a deadline of 10 s                         channels/sending.ts
 *   4. record  the attempt, and what follows: delivered, another attempt, or dead letter          retry.ts, recorder.ts
 *   5. digest  notices of a storm are not claimed; once complete they become one message          digest.ts
 *
 * Any number of processes may run on one database. Each change is an update that repeats its condition (pending, and
 * the lease is still ours): a row that changes means that this process won. A process that is killed loses its leases
 * when they expire, so a notice is sent at least once, each time with the same delivery id.
 */

/** Six times the deadline of a send, so that clocks of replicas may differ by most of a minute. */
const leaseMs = minuteMs;
/** With more due than places, the next claim waits for this many free places: few large claims, not many small ones. */
const portion = 20;
const stopTimeoutMs = 3_000;
const releaseTimeoutMs = 1_000;

/** Called for each recorded attempt. `kind` is `none` when the channel was deleted; `notices` is 1 but for a digest. */
export type AttemptWatch = (kind: string, result: "delivered" | "retry" | "dead", notices: number) => void;

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

interface Attempt {
  outcome: Outcome;
  /** False when nothing was sent: the channel is disabled or deleted. */
  sent: boolean;
  /** Notices in the message: more than 1 for a digest. */
  notices: number;
}

/** Sends the deliveries of the outbox until it is stopped. */
export function startDeliverer(system: System, hub: Hub, options: DelivererOptions = {}): Deliverer {
  const { sql, clock, log } = system;
  /** Aborted: no send begins any more. */
  const stopping = new AbortController();
  /** Aborted: sends in flight are interrupted. */
  const interrupt = new AbortController();
  setMaxListeners(maxInFlight, interrupt.signal);
  const transport = channelOutbound(system, { ca: options.ca, signal: interrupt.signal });
  const recorder = openRecorder(system);
  const places = openPlaces(() => clock.now());
  const storms = stormRules(system.config.alerts.digest_threshold);

  const inFlight = new Map<string, Promise<void>>();
  /** True when the last claim left due deliveries behind. */
  let backlog = false;
  /** Deliveries that have ended since the last claim. */
  let ended = 0;
  let claimedAt: number | null = null;
  /** When the next digest can be complete, Unix ms; null when no notice is held back. */
  let gatherAt: number | null = null;

  // 1. Wake.

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
      log[failureOf(error) === null ? "warn" : "debug"]({ reason: messageOf(error) }, "deliveries cannot be read"),
  });

  // 2. Claim.

  async function claim(): Promise<void> {
    const { channels, hosts, orgs } = places;
    const room = places.room();
    if (room <= 0) return;
    const now = clock.now();
    const limits = { room, channels, hosts, orgs, storms, now, leasedUntil: now + leaseMs };
    const claimed = await claimDeliveries(sql, limits);
    claimedAt = now;
    ended = 0;
    backlog = claimed.length >= Math.min(portion, room);
    for (const delivery of claimed) inFlight.set(delivery.id, deliver(delivery));
  }

  /** Delivers a claimed delivery and gives its places back. Never rejects. */
  async function deliver(delivery: ClaimedDelivery): Promise<void> {
    try {
      await deliverInPlace(delivery);
    } catch (error) {
      log.warn(
        { delivery: delivery.id, reason: messageOf(error) },
        "an attempt could not be recorded; it is repeated when its lease expires",
      );
    }
    inFlight.delete(delivery.id);
    ended++;
    if (!backlog || ended >= portion || inFlight.size === 0) passes.wake();
  }

  /** A channel whose config has changed sends to another host than the claim assumed, which may have no place. */
  async function deliverInPlace(delivery: ClaimedDelivery): Promise<void> {
    const { channel_id: channelId, host_key: stored } = delivery;
    const host = hostKeyOf(system, delivery);
    const free = places.take({ channel: channelId ?? "", host, org: delivery.org_id });
    if (free === null) await releaseDelivery(sql, delivery);
    else await sendAndRecord(delivery).finally(free);
    if (channelId !== null && host !== channelId && host !== stored) await storeHostKey(sql, channelId, host);
  }

  async function sendAndRecord(delivery: ClaimedDelivery): Promise<void> {
    const attempt = stopping.signal.aborted ? null : await send(delivery);
    const interrupted = attempt !== null && !attempt.outcome.ok && interrupt.signal.aborted;
    if (attempt === null || interrupted) await releaseDelivery(sql, delivery);
    else await record(delivery, attempt);
  }

  // 3. Send.

  /** Makes one attempt. Null when a digest was dissolved instead: its deliveries are claimed one by one. */
  async function send(delivery: ClaimedDelivery): Promise<Attempt | null> {
    const { id, channel } = delivery;
    const members = delivery.digest_id === null ? leftAlone(delivery) : await digestMembers(sql, id);
    const notices = Math.max(1, members.length);
    if (channel === null) return { ...notSent("the channel was deleted"), notices };
    if (!channel.enabled) {
      const reason = channel.disabled_reason === null ? "" : `: ${channel.disabled_reason}`;
      return { ...notSent(`the channel is disabled${reason}`), notices };
    }
    if (members.length > 0 && receiverOf(system, channel)?.digests === false) {
      // The kind of the channel has changed to one without digests.
      await dissolveDigest(sql, id);
      return null;
    }
    // One that opened and ended outside the hours of the channel is a digest of one line.
    const isDigest = members.length > 1 || members.some(({ held_by: by, notice }) => by === "hours" && isOver(notice));
    const zone = await timezoneOf(system, channel.org_id);
    const content: Content = isDigest
      ? { kind: "digest", digest: digestOf(members, system.config.server.public_url), zone }
      : { kind: "notice", notice: await noticeToSend(system, delivery, zone), zone };
    return { outcome: await sendContent(delivery, content), sent: true, notices };
  }

  async function sendContent({ id, channel }: ClaimedDelivery, content: Content): Promise<Outcome> {
    try {
      const message = { deliveryId: id, content, sentAt: clock.now() };
      return { ok: true, status: await sendThrough(system, channel!, message, transport) };
    } catch (error) {
      if (error instanceof DeliveryError) {
        const { status, permanent, retryAfterSecs } = error;
        return { ok: false, error: storable(error.message), status, permanent, retryAfterSecs };
      }
      log.error({ delivery: id, err: stackOf(error) }, "a channel kind has failed with an unexpected error");
      return { ok: false, error: "internal error", status: null, permanent: false, retryAfterSecs: null };
    }
  }

  // 4. Record, and retry.

  async function record(delivery: ClaimedDelivery, { outcome, sent, notices }: Attempt): Promise<void> {
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
    });
    if (written) options.watch?.(delivery.channel?.kind ?? "none", state === "pending" ? "retry" : state, notices);
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

  // 5. Digest.

  /** Forms digests, if one can be complete by now. Returns true when there are new ones to claim. */
  async function gather(): Promise<boolean> {
    if (gatherAt !== null && clock.now() < gatherAt) return false;
    const { formed, nextAt } = await gatherDigests(system, storms);
    gatherAt = nextAt;
    return formed;
  }

  async function finished(): Promise<void> {
    await passes.running();
    await Promise.all(inFlight.values());
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

/** True for an opening of an incident that is over. */
const isOver = ({ reason, ended_at }: ClaimedDelivery["notice"]): boolean => reason !== "resolved" && ended_at !== null;

/**
 * An opening of an incident that is over, left of a digest whose first delivery was deleted with its monitor: it is a
 * digest still, because as a notice it would say that the monitor is down.
 */
const leftAlone = ({ notice }: ClaimedDelivery): DigestMember[] =>
  isOver(notice) ? [{ notice, held_by: "hours", spec: null, tags: null }] : [];

/** Key of the receiver's host; the id of the channel where the config cannot be opened. */
function hostKeyOf(system: System, { channel, channel_id }: ClaimedDelivery): string {
  const host = channel === null ? null : (receiverOf(system, channel)?.host ?? null);
  return host === null ? (channel_id ?? "") : createHash("sha256").update(host).digest("base64url").slice(0, 22);
}

const notSent = (error: string): Pick<Attempt, "outcome" | "sent"> => ({
  outcome: { ok: false, error, status: null, permanent: true, retryAfterSecs: null },
  sent: false,
});

/** PostgreSQL stores neither NUL nor a lone surrogate; one such text would fail the whole batch of attempts. */
const storable = (text: string): string => text.replaceAll("\0", "").toWellFormed().slice(0, 1000).toWellFormed();

async function waitAtMost(ms: number, work: Promise<void>): Promise<void> {
  const timer = new AbortController();
  await Promise.race([work, pause(ms, timer.signal)]);
  timer.abort();
}

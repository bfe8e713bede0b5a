import { createHash } from "node:crypto";
import { setMaxListeners } from "node:events";
import { Semaphore } from "@statusmesh/shared/semaphore";
import { minuteMs } from "@statusmesh/shared/time";
import { messageOf } from "@statusmesh/shared/thrown";
import type { System } from "../../../platform/context.ts";
import { failureOf } from "../../../platform/db/client/failures.ts";
import type { Hub } from "../../../platform/db/notify.ts";
import { type Db, serverTime } from "../../../platform/db/client/sql.ts";
import { pause } from "../../../platform/process/pause.ts";
import { channelOutbound, hostOf, roundKinds } from "../../channels/sending/service.ts";
import {
  claimDeliveries,
  type ClaimedDelivery,
  endLeases,
  isAnyPending,
  nextDueAt,
  releaseDelivery,
  type RoundRules,
  storeHostKey,
} from "./claim-queries.ts";
import { maxInFlight, openPlaces, type Places } from "./limits.ts";
import { deliveriesChannel } from "../outbox/outbox-queries.ts";
import { openPasses, type Passes } from "./passes.ts";
import { type AttemptWatch, recordAttempt } from "./record.ts";
import { openRecorder, type Recorder } from "./recorder.ts";
import { dissolve, dropOver, settleMembers } from "../rounds/round-queries.ts";
import { attemptOf, type Sender } from "./send.ts";

export type { AttemptWatch } from "./record.ts";

/*
 * How notices leave. The outbox (outbox.ts) has one pending delivery per notice and channel, written in the transaction
 * that changed the incident. From there:
 *
 *   1. wake     a commit that wrote deliveries (NOTIFY), the time of the next attempt or round, or 5 s     passes.ts
 *   2. claim    lease due deliveries: as many as channel, host and organisation have free places    claim-queries.ts
 *   3. settle   members of messages that have ended get their end, also after a process was killed  round-queries.ts
 *   4. collect  in rounds, a leased delivery takes with it whatever waits for its channel           round-queries.ts
 *               at pagers, what waits for its alert, or it waits for the next update of the texts         alerts.ts
 *   5. send     one attempt, composed from what is true then; a deadline of 10 s            compose.ts and send.ts
 *   6. record   the attempt, and what follows: delivered, another attempt, or dead letter     retry.ts and record.ts
 *
 * Any number of processes may run on one database. Each change is an update that repeats its condition (pending, and
 * the lease is still ours): a row that changes means that this process won. A process that is killed loses its leases
 * when they expire, or when it starts again where it is the only one, so a message is sent at least once, each time
 * with the same id. Leases and rounds are times of the database's clock, so replicas whose clocks differ agree.
 */

/** Six times the deadline of a send. */
export const leaseMs = minuteMs;
/**
 * No send begins later than so long after its claim: a process that was suspended, or waited for the database, would
 * send what another one has claimed since.
 */
const latestSendMs = leaseMs / 2;
/** With more due than places, the next claim waits for this many free places: few large claims, not many small ones. */
const portion = 20;
const stopTimeoutMs = 3_000;
const releaseTimeoutMs = 1_000;

export interface DelivererOptions {
  /** True where no other process can run on the database: a lease that is found is that of a killed one. */
  isAlone?: boolean;
  watch?: AttemptWatch | undefined;
  /** CA certificates (PEM) in place of the system's. */
  ca?: string;
  /** The clock that the processes of a database share, Unix ms; left out, that of the database. */
  sharedTime?: (sql: Db) => Promise<number>;
}

export interface Deliverer {
  /** Time of the last successful read of the outbox, Unix ms; null before the first. */
  readonly claimedAt: () => number | null;
  /** Claims no more, waits 3 s for sends in flight, and releases the rest. */
  stop(): Promise<void>;
}

/** What sends and records a claimed delivery. */
export interface Sending extends Sender {
  rounds: RoundRules;
  recorder: Recorder;
  watch: AttemptWatch | undefined;
}

/** A running deliverer. */
interface Running extends Sending {
  sharedTime: (sql: Db) => Promise<number>;
  places: Places;
  passes: Passes;
  inFlight: Map<string, Promise<void>>;
  /** True when the last claim left due deliveries behind. */
  backlog: boolean;
  /** Deliveries that have ended since the last claim. */
  ended: number;
  claimedAt: number | null;
  /** True until the leases of a killed process have been ended. */
  inherits: boolean;
}

/** Sends the deliveries of the outbox until it is stopped. */
export function startDeliverer(system: System, hub: Hub, options: DelivererOptions = {}): Deliverer {
  const stopping = new AbortController();
  const interrupt = new AbortController();
  setMaxListeners(maxInFlight, interrupt.signal);
  const running: Running = {
    system,
    stopping: stopping.signal,
    interrupt: interrupt.signal,
    transport: channelOutbound(system, { ca: options.ca, signal: interrupt.signal }),
    sharedTime: options.sharedTime ?? serverTime,
    turns: new Semaphore(1),
    rounds: { kinds: roundKinds(), secs: system.config.alerts.round_secs },
    recorder: openRecorder(system),
    watch: options.watch,
    places: openPlaces(() => system.clock.now()),
    passes: openPasses({
      once: () => pass(running),
      pauseMs: () => pauseMs(running),
      failed: (error) =>
        system.log[failureOf(error) === null ? "warn" : "debug"](
          { reason: messageOf(error) },
          "deliveries cannot be read",
        ),
    }),
    inFlight: new Map(),
    backlog: false,
    ended: 0,
    claimedAt: null,
    inherits: options.isAlone ?? false,
  };
  const { passes } = running;
  const off = hub.on(deliveriesChannel, passes.wake);
  passes.wake();
  return {
    claimedAt: () => running.claimedAt,
    async stop() {
      stopping.abort();
      off();
      passes.stop();
      await waitAtMost(stopTimeoutMs, finished(running));
      interrupt.abort();
      // Interrupted deliveries are released; without a database their leases expire.
      await waitAtMost(releaseTimeoutMs, finished(running));
    },
  };
}

/**
 * Claims and settles; true when the next claim may find what has been settled. The statement of a claim is long and
 * planned anew each time: not without a reason. It comes first, because a first notice waits for no end of a message.
 */
async function pass(running: Running): Promise<boolean> {
  const { sql, clock } = running.system;
  if (await isAnyPending(sql)) {
    if (running.inherits) await endLeases(sql);
    running.inherits = false;
    await claim(running);
    return (await settleMembers(sql)) > 0;
  }
  running.claimedAt = clock.now();
  return false;
}

async function pauseMs({ system: { sql }, sharedTime, rounds }: Running): Promise<number> {
  const now = await sharedTime(sql);
  return ((await nextDueAt(sql, now, rounds))?.getTime() ?? Number.POSITIVE_INFINITY) - now;
}

async function claim(running: Running): Promise<void> {
  const { sql, clock } = running.system;
  const { channels, hosts, orgs } = running.places;
  const room = running.places.room();
  if (room <= 0) return;
  const begun = clock.now();
  const now = await running.sharedTime(sql);
  const limits = { room, channels, hosts, orgs, rounds: running.rounds, now, leasedUntil: now + leaseMs };
  const claimed = await claimDeliveries(sql, limits);
  running.claimedAt = clock.now();
  running.ended = 0;
  running.backlog = claimed.length >= Math.min(portion, room);
  for (const delivery of claimed) running.inFlight.set(delivery.id, deliver(running, delivery, begun));
}

/** Delivers a claimed delivery and gives its places back. Never rejects. */
async function deliver(running: Running, delivery: ClaimedDelivery, claimedAt: number): Promise<void> {
  try {
    await deliverInPlace(running, delivery, claimedAt);
  } catch (error) {
    running.system.log.warn(
      { delivery: delivery.id, reason: messageOf(error) },
      "an attempt could not be recorded; it is repeated when its lease expires",
    );
  }
  running.inFlight.delete(delivery.id);
  running.ended++;
  if (!running.backlog || running.ended >= portion || running.inFlight.size === 0) running.passes.wake();
}

/** A channel whose config has changed sends to another host than the claim assumed, which may have no place. */
async function deliverInPlace(running: Running, delivery: ClaimedDelivery, claimedAt: number): Promise<void> {
  const { sql } = running.system;
  const { channel_id: channelId, host_key: stored } = delivery;
  const host = hostKeyOf(running.system, delivery);
  const free = running.places.take({ channel: channelId ?? "", host, org: delivery.org_id });
  if (free === null) await releaseDelivery(sql, delivery);
  else await sendAndRecord(running, delivery, claimedAt).finally(free);
  if (channelId !== null && host !== channelId && host !== stored) await storeHostKey(sql, channelId, host);
}

/** Makes one attempt of a delivery that was claimed at `claimedAt`, Unix ms of this process, and records it. */
export async function sendAndRecord(running: Sending, delivery: ClaimedDelivery, claimedAt: number): Promise<void> {
  const { sql, clock } = running.system;
  if (running.stopping.aborted) return await releaseDelivery(sql, delivery);
  const isLate = () => clock.now() - claimedAt > latestSendMs;
  const attempt = await attemptOf(running, delivery, { rounds: running.rounds, isLate });
  if (attempt === "done") return;
  if (attempt === "late") return await releaseDelivery(sql, delivery);
  if (attempt === "over") return void (await dropOver(sql, delivery));
  if (attempt === "apart") return await dissolve(sql, delivery);
  const wasInterrupted = !attempt.outcome.ok && running.interrupt.aborted;
  if (wasInterrupted) await releaseDelivery(sql, delivery);
  else await recordAttempt(running, delivery, attempt);
}

async function finished({ passes, inFlight }: Running): Promise<void> {
  await passes.running();
  await Promise.all(inFlight.values());
}

/** Key of the receiver's host; the id of the channel where the config cannot be opened. */
function hostKeyOf(system: System, { channel, channel_id }: ClaimedDelivery): string {
  const host = channel === null ? null : hostOf(system, channel);
  return host === null ? (channel_id ?? "") : createHash("sha256").update(host).digest("base64url").slice(0, 22);
}

async function waitAtMost(ms: number, work: Promise<void>): Promise<void> {
  const timer = new AbortController();
  await Promise.race([work, pause(ms, timer.signal)]);
  timer.abort();
}

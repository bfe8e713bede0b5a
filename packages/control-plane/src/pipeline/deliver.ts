import { setMaxListeners } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { channelOutbound, DeliveryError, sendThrough } from "../channels/service.ts";
import type { System } from "../context.ts";
import { failureOf } from "../db/failures.ts";
import type { Hub } from "../db/notify.ts";
import { deliveriesChannel } from "../incidents/engine.ts";
import { claimDeliveries, type ClaimedDelivery, nextDueAt, recordAttempt, releaseDelivery } from "./deliver-queries.ts";
import { afterAttempt, type Outcome } from "./retry.ts";

/** Six times the deadline of a send, so that clocks of replicas may differ by most of a minute. */
const leaseMs = 60_000;
const maxInFlight = 50;
/** Limits what a hanging receiver occupies. */
const maxInFlightPerChannel = 5;
const longestPauseMs = 5000;
const stopPatienceMs = 3000;

/** Called for each recorded attempt. `kind` is `none` when the channel was deleted. */
export type AttemptWatch = (kind: string, outcome: "delivered" | "retry" | "dead") => void;

export interface DelivererOptions {
  watch?: AttemptWatch | undefined;
  /** CA certificates (PEM) in place of the system's. */
  ca?: string;
}

export interface Deliverer {
  /** Claims no more, waits 3 s for sends in flight, and releases the rest. */
  stop(): Promise<void>;
}

/**
 * Sends the deliveries of the outbox. Any number may run on one database: a delivery is leased to one process, and to
 * another when the lease expires. A commit that wrote a delivery wakes it, and a timer for retries.
 */
export function startDeliverer(system: System, hub: Hub, options: DelivererOptions = {}): Deliverer {
  const { sql, clock, log } = system;
  const cut = new AbortController();
  setMaxListeners(maxInFlight, cut.signal);
  const transport = channelOutbound(system, { ca: options.ca, signal: cut.signal });
  const inFlight = new Map<string, { channelId: string | null; done: Promise<void> }>();
  let stopping = false;
  let passing: Promise<void> | null = null;
  let again = false;
  let timer: NodeJS.Timeout | undefined;

  /** One pass at a time; a wake-up during a pass causes one more. */
  function wake(): void {
    if (stopping) return;
    if (passing !== null) again = true;
    else
      passing = passes().finally(() => {
        passing = null;
        if (again) wake();
      });
  }

  async function passes(): Promise<void> {
    clearTimeout(timer);
    let pause = longestPauseMs;
    try {
      do {
        again = false;
        await claim();
      } while (again && !stopping);
      const next = await nextDueAt(sql, clock.now());
      if (next !== null) pause = Math.min(pause, Math.max(10, next.getTime() - clock.now()));
    } catch (error) {
      log[failureOf(error) === null ? "warn" : "debug"]({ reason: reasonOf(error) }, "deliveries cannot be read");
    }
    if (!stopping) timer = setTimeout(wake, pause);
  }

  async function claim(): Promise<void> {
    const room = maxInFlight - inFlight.size;
    if (room <= 0) return;
    const now = clock.now();
    const busy = [...inFlight.values()].flatMap(({ channelId }) => channelId ?? []);
    const claimed = await claimDeliveries(sql, {
      room,
      perChannel: maxInFlightPerChannel,
      busy,
      now,
      leasedUntil: now + leaseMs,
    });
    for (const delivery of claimed) {
      const done = deliver(delivery)
        .catch((error: unknown) =>
          log.warn(
            { delivery: delivery.id, reason: reasonOf(error) },
            "an attempt could not be written down; it is made again when its lease has run out",
          ),
        )
        .finally(() => {
          inFlight.delete(delivery.id);
          wake();
        });
      inFlight.set(delivery.id, { channelId: delivery.channel_id, done });
    }
  }

  async function deliver(delivery: ClaimedDelivery): Promise<void> {
    const outcome = stopping ? null : await attempt(delivery);
    if (outcome === null || (!outcome.ok && cut.signal.aborted)) return await releaseDelivery(sql, delivery);
    const now = clock.now();
    const verdict = afterAttempt(outcome, delivery.attempt_count + 1, now, Math.random());
    const written = await recordAttempt(sql, delivery, {
      at: now,
      ok: outcome.ok,
      status: outcome.status,
      error: outcome.ok ? null : outcome.error,
      ...verdict,
    });
    const fields = {
      delivery: delivery.id,
      incident: delivery.notice.incident_id,
      channel: delivery.channel_name,
      attempt: delivery.attempt_count + 1,
    };
    if (written)
      options.watch?.(delivery.channel?.kind ?? "none", verdict.state === "pending" ? "retry" : verdict.state);
    if (!written) log.warn(fields, "an attempt took longer than its lease and is made again");
    else if (outcome.ok) log.debug(fields, "delivered");
    else
      log[verdict.state === "dead" ? "warn" : "info"](
        { ...fields, reason: outcome.error, next: verdict.nextAttemptAt },
        verdict.state === "dead" ? "a notice was given up" : "a notice was not accepted",
      );
  }

  async function attempt({ id, notice, channel }: ClaimedDelivery): Promise<Outcome> {
    if (channel === null) return refused("the channel was deleted");
    if (!channel.enabled)
      return refused(
        `the channel is disabled${channel.disabled_reason === null ? "" : `: ${channel.disabled_reason}`}`,
      );
    try {
      return {
        ok: true,
        status: await sendThrough(
          system,
          channel,
          { deliveryId: id, content: { kind: "notice", notice }, sentAt: clock.now() },
          transport,
        ),
      };
    } catch (error) {
      if (error instanceof DeliveryError)
        return {
          ok: false,
          error: error.message,
          status: error.status,
          permanent: error.permanent,
          retryAfterSecs: error.retryAfterSecs,
        };
      log.error(
        { delivery: id, err: error instanceof Error ? error.stack : String(error) },
        "a channel kind failed in a way that it should not",
      );
      return { ok: false, error: "internal error", status: null, permanent: false, retryAfterSecs: null };
    }
  }

  const off = hub.on(deliveriesChannel, wake);
  wake();

  return {
    async stop() {
      stopping = true;
      off();
      clearTimeout(timer);
      const finished = async () => {
        await passing;
        await Promise.all([...inFlight.values()].map(({ done }) => done));
      };
      await within(stopPatienceMs, finished());
      cut.abort();
      // Interrupted deliveries are released; without a database their leases expire.
      await within(1000, finished());
    },
  };
}

const refused = (error: string): Outcome => ({ ok: false, error, status: null, permanent: true, retryAfterSecs: null });
const reasonOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

async function within(ms: number, work: Promise<void>): Promise<void> {
  const timer = new AbortController();
  await Promise.race([work, sleep(ms, undefined, { signal: timer.signal }).catch(() => undefined)]);
  timer.abort();
}

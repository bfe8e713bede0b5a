import { setMaxListeners } from "node:events";
import type { Fragment } from "postgres";
import { minuteMs } from "@statusmesh/shared/time";
import { channelOutbound } from "../../alerting/channels/sending/service.ts";
import type { System } from "../../platform/context.ts";
import { type FreePlaces, type KeyLimit, openKeyLimit } from "../../platform/outbound/key-limits.ts";
import * as queries from "./delivery-queries.ts";
import type { SubscriberRow } from "./queries.ts";
import { challenge, confirmByMail, deliverByMail, deliverToWebhook } from "./send.ts";

/** Time between two runs of a queue, ms. */
export const everyMs = 2_000;
/** Messages of an organisation wait while one of its alerts has waited longer than this, ms. */
const alertsFirstMs = 3_000;
/** Mails at a time. */
const atOnce = 5;
const challengeMs = 3_000;
/** Requests to webhooks in flight in one process, of challenges and of messages each. */
export const webhookLimits = {
  all: 100,
  page: { fast: 20, slow: 20 },
  host: { fast: 10, slow: 1 },
  org: { fast: 40, slow: 40 },
};

/** True when a mail or webhook may be due. */
export const areMessagesDue = ({ sql, clock }: System): Fragment => queries.isAnyDue(sql, new Date(clock.now()));

/** A page may take every place when no other one has mails due. */
const anyOf = (room: number): FreePlaces => ({ limit: room, all: () => [] });

/**
 * Sends due confirmations and messages by mail, at the configured pace (`subscribers.per_minute`): pages in turn, and
 * organisations whose alerts wait later. Returns the number of sent mails.
 */
export async function sendMails(system: System): Promise<number> {
  const at = system.clock.now();
  const budget = Math.max(1, Math.round((system.config.subscribers.per_minute * everyMs) / minuteMs));
  // Half of the budget, rounded up in every other run: strangers decide how many confirmations there are.
  const forConfirmations = Math.floor((budget + (Math.floor(at / everyMs) % 2)) / 2);
  const claim = (room: number): queries.Claim => ({
    ...claimOf("email", at),
    room,
    pages: anyOf(room),
    hosts: anyOf(room),
    orgs: anyOf(room),
  });
  const confirmations = await queries.takeConfirmations(system.sql, claim(forConfirmations));
  const due = await queries.takeDue(system.sql, claim(budget - confirmations.length));
  const work = [
    ...confirmations.map((row) => () => confirmByMail(system, row)),
    ...due.map((row) => () => deliverByMail(system, row)),
  ];
  let sent = 0;
  for (let first = 0; first < work.length; first += atOnce) {
    const outcomes = await Promise.all(work.slice(first, first + atOnce).map((send) => send()));
    sent += outcomes.filter(Boolean).length;
  }
  return sent;
}

const claimOf = (kind: "email" | "webhook", at: number) => ({
  kind,
  now: new Date(at),
  alertsSince: new Date(at - alertsFirstMs),
});

export interface WebhookSender {
  /** Starts due challenges and messages that have a place, without waiting for them. Returns their number. */
  start(): Promise<number>;
  /** Resolves when all started requests have ended. */
  ended(): Promise<void>;
  /** Interrupts the requests in flight, and resolves when they have ended. They are retried like failed ones. */
  stop(): Promise<void>;
}

/** Opens the queues of challenges and of messages to webhooks. `ca`: CA certificates (PEM) in place of the system's. */
export function openWebhookSender(system: System, { ca }: { ca?: string } = {}): WebhookSender {
  const { sql, clock } = system;
  const interrupt = new AbortController();
  setMaxListeners(2 * webhookLimits.all, interrupt.signal);
  const outbound = { ca, signal: interrupt.signal };
  const challenges = openQueue(() => clock.now());
  const messages = openQueue(() => clock.now());
  const toChallenge = channelOutbound(system, { ...outbound, deadlineMs: challengeMs });
  const toMessage = channelOutbound(system, outbound);
  const ended = async (): Promise<void> => void (await Promise.all([challenges.ended(), messages.ended()]));
  return {
    async start() {
      const base = claimOf("webhook", clock.now());
      const confirmations = await challenges.fill(
        async (places) => await queries.takeConfirmations(sql, { ...base, ...places }),
        async (row) => await challenge(system, toChallenge, row),
      );
      return (
        confirmations +
        (await messages.fill(
          async (places) => await queries.takeDue(sql, { ...base, ...places }),
          async (row) => await deliverToWebhook(system, toMessage, row),
        ))
      );
    },
    ended,
    async stop() {
      interrupt.abort();
      await ended();
    },
  };
}

/** Requests in flight of one kind, limited by page, host and organisation: see {@link webhookLimits}. */
function openQueue(now: () => number) {
  const [pages, hosts, orgs] = [
    openKeyLimit(webhookLimits.page, now),
    openKeyLimit(webhookLimits.host, now),
    openKeyLimit(webhookLimits.org, now),
  ];
  const running = new Set<Promise<unknown>>();

  function track(row: SubscriberRow, work: Promise<unknown>): void {
    const began = now();
    const limits: [KeyLimit, string][] = [
      [pages, row.page_id],
      [hosts, row.host],
      [orgs, row.org_id],
    ];
    for (const [limit, key] of limits) limit.begin(key, began);
    const done = work.finally(() => {
      for (const [limit, key] of limits) limit.end(key, began);
      running.delete(done);
    });
    running.add(done);
  }

  return {
    /** Takes rows for the free places and starts `send` for each; returns their number. `send` never rejects. */
    async fill<T extends SubscriberRow>(
      take: (places: Pick<queries.Claim, "room" | "pages" | "hosts" | "orgs">) => Promise<T[]>,
      send: (row: T) => Promise<unknown>,
    ): Promise<number> {
      const room = webhookLimits.all - running.size;
      if (room <= 0) return 0;
      const rows = await take({ room, pages, hosts, orgs });
      for (const row of rows) track(row, send(row));
      return rows.length;
    },
    ended: async () => void (await Promise.all(running)),
  };
}

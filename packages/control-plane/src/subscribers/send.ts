import type { System } from "../context.ts";
import { channelOutbound, checkWebhookUrl, isPermanentStatus, webhookSignature } from "../channels/service.ts";
import { mailHtml, mailText } from "../email/layout.ts";
import { deliverMail } from "../email/mail.ts";
import type { Outbound } from "../outbound/client.ts";
import { originOf } from "./announce.ts";
import { mailWords, wordsOf } from "./content.ts";
import * as queries from "./delivery-queries.ts";
import { openSecret } from "./sealing.ts";
import { deleteByToken, updateSubscription } from "./queries.ts";

/** Time between two runs of the job, ms. */
export const everyMs = 2_000;
/** Nothing is sent while an alert has waited longer than this. */
const alertsFirstMs = 3_000;
const atOnce = 5;

/** True when {@link sendToSubscribers} would find a message. */
export const areMessagesDue = async ({ sql, clock }: System): Promise<boolean> =>
  await queries.isAnyDue(sql, new Date(clock.now()));

/**
 * Sends due confirmations and messages at the configured pace (`subscribers.per_minute`), and none while alerts of
 * channels wait. Returns the number of sent messages.
 */
export async function sendToSubscribers(
  system: System,
  transport: Outbound = channelOutbound(system),
): Promise<number> {
  const now = system.clock.now();
  if (await queries.alertsWait(system.sql, new Date(now - alertsFirstMs))) return 0;
  const budget = Math.max(1, Math.round((system.config.subscribers.per_minute * everyMs) / 60_000));
  const confirmations = await queries.takeConfirmations(system.sql, new Date(now), budget);
  const due = await queries.takeDue(system.sql, new Date(now), Math.max(0, budget - confirmations.length));
  const work = [
    ...confirmations.map((row) => () => confirm(system, transport, row)),
    ...due.map((row) => () => deliver(system, transport, row)),
  ];
  let sent = 0;
  for (let at = 0; at < work.length; at += atOnce) {
    const outcomes = await Promise.all(work.slice(at, at + atOnce).map((send) => send()));
    sent += outcomes.filter(Boolean).length;
  }
  return sent;
}

const pathOf = (token: string): string => `/status/subscriptions/${token}`;

/** RFC 8058, section 3.1. */
const unsubscribeHeaders = (manageUrl: string): Record<string, string> => ({
  "List-Unsubscribe": `<${manageUrl}/unsubscribe>`,
  "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
});

async function confirm(system: System, transport: Outbound, row: queries.DueConfirmation): Promise<boolean> {
  const origin = originOf(system, row.slug);
  const manageUrl = `${origin}${pathOf(row.token)}`;
  if (row.kind === "webhook") return await challenge(system, transport, row, manageUrl);
  const w = wordsOf(row.language);
  const words = {
    tone: "plain" as const,
    title: w.confirmTitle(row.page_name),
    paragraphs: [w.confirmText],
    link: { label: w.confirm, url: manageUrl },
    footer: w.confirmFooter,
  };
  const sent = await attempt(system, row.id, async () => {
    if (system.config.email.smtp_url === "") {
      // Without the address. The operator can use the link to confirm an own subscription.
      system.log.info({ link: manageUrl }, "confirmation of a subscription, not sent: email.smtp_url is not set");
      return;
    }
    await mail(system, row.address, words, unsubscribeHeaders(manageUrl));
  });
  if (sent) await queries.confirmationSent(system.sql, row.id);
  return sent;
}

/** A webhook is confirmed when its answer repeats the challenge. */
async function challenge(
  system: System,
  transport: Outbound,
  row: queries.DueConfirmation,
  manageUrl: string,
): Promise<boolean> {
  return await attempt(system, row.id, async () => {
    const { status, text } = await post(system, transport, row, {
      type: "verification",
      challenge: row.id,
      secret: secretOf(system, row),
      page: row.page_name,
      manage_url: manageUrl,
    });
    if (status >= 300 || !text.includes(row.id))
      throw new Error(`the answer does not repeat the challenge (${status})`);
    await updateSubscription(system.sql, row.token, {
      confirmAt: new Date(system.clock.now()),
      componentIds: undefined,
    });
  });
}

async function deliver(system: System, transport: Outbound, row: queries.DueDelivery): Promise<boolean> {
  const manageUrl = `${row.content.origin}${pathOf(row.token)}`;
  const sent = await attempt(system, row.id, async () => {
    if (row.kind === "email") {
      if (system.config.email.smtp_url === "") throw new Error("email.smtp_url is not set");
      await mail(system, row.address, mailWords(row.content, manageUrl), unsubscribeHeaders(manageUrl));
      return;
    }
    const { origin: _origin, language: _language, zone: _zone, ...content } = row.content;
    const { status } = await post(system, transport, row, {
      type: "update",
      id: row.message_id,
      ...content,
      manage_url: manageUrl,
    });
    // 410 ends the subscription.
    if (status === 410) return await deleteByToken(system.sql, row.token);
    if (status >= 300 && !isPermanentStatus(status)) throw new Error(`the receiver answered ${status}`);
  });
  if (sent) await queries.markDelivered(system.sql, row.message_id, row.id, new Date(system.clock.now()));
  return sent;
}

async function mail(
  { config }: System,
  to: string,
  words: Parameters<typeof mailHtml>[0],
  headers: Record<string, string>,
): Promise<void> {
  const subject = words.title
    .replaceAll(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, " ")
    .slice(0, 150)
    .toWellFormed();
  await deliverMail(config.email, { to, subject, text: mailText(words), html: mailHtml(words), headers });
}

/** A webhook subscriber always has a secret. */
const secretOf = (system: System, { id, org_id, secret }: queries.DueConfirmation | queries.DueDelivery): string =>
  openSecret(system, { id, org_id, secret: secret! });

async function post(
  system: System,
  transport: Outbound,
  row: queries.DueConfirmation | queries.DueDelivery,
  content: object,
): Promise<{ status: number; text: string }> {
  // The deny-list may have changed since the subscription.
  checkWebhookUrl(system, row.address, "/webhook_url");
  const body = JSON.stringify(content);
  return await transport.send({
    method: "POST",
    url: row.address,
    headers: {
      "content-type": "application/json",
      ...webhookSignature(secretOf(system, row), system.clock.now(), body),
    },
    body,
  });
}

/** True on success. A failure is logged without the address and retried later. */
async function attempt(system: System, subscriberId: string, work: () => Promise<void>): Promise<boolean> {
  try {
    await work();
    return true;
  } catch (error) {
    // Mail servers repeat the address in their refusals.
    const reason = String(error instanceof Error ? error.message : error).replaceAll(/\S+@\S+/g, "<address>");
    system.log.warn({ subscriber: subscriberId, reason }, "a message to a subscriber could not be sent");
    return false;
  }
}

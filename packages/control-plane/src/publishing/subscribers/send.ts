import { messageOf } from "@statusmesh/shared/thrown";
import type { System } from "../../platform/context.ts";
import { checkWebhookUrl, isPermanentStatus, webhookSignature } from "../../alerting/channels/config/service.ts";
import { mailHtml, mailText, nameWithoutUrl } from "../../platform/email/layout.ts";
import { deliverMail } from "../../platform/email/mail.ts";
import type { Outbound } from "../../platform/outbound/client.ts";
import type { Language } from "../languages/schema.ts";
import { textsOf } from "../languages/service.ts";
import { mailWords } from "./content.ts";
import * as queries from "./delivery-queries.ts";
import { pageBase } from "../status-pages/service.ts";
import { openSecret } from "./sealing.ts";
import { deleteByToken, updateSubscription } from "./queries.ts";

const pathOf = (token: string): string => `/subscriptions/${token}`;

/** RFC 8058, section 3.1. */
const unsubscribeHeaders = (manageUrl: string): Record<string, string> => ({
  "List-Unsubscribe": `<${manageUrl}/unsubscribe>`,
  "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
});

/** Language and direction of a mail, for readers that speak or mirror it. */
const writing = (language: Language) => ({ lang: language, dir: textsOf(language).dir });

const manageUrlOf = (system: System, { slug, token }: queries.DueConfirmation): string =>
  `${pageBase(system, slug)}${pathOf(token)}`;

/** Mails the link that confirms a subscription. The sends of this file never reject; they return true on success. */
export async function confirmByMail(system: System, row: queries.DueConfirmation): Promise<boolean> {
  const manageUrl = manageUrlOf(system, row);
  const w = textsOf(row.language).mail;
  const title = w.confirmTitle(nameWithoutUrl(row.page_name, w.aPage));
  const words = {
    tone: "plain" as const,
    subject: title,
    title,
    paragraphs: [w.confirmText],
    link: { label: w.confirm, url: manageUrl },
    footer: w.confirmFooter,
    ...writing(row.language),
  };
  return await attempt(system, row.id, async () => {
    if (system.config.email.smtp_url === "")
      // Without the address. The operator can use the link to confirm an own subscription.
      system.log.info({ link: manageUrl }, "confirmation of a subscription, not sent: email.smtp_url is not set");
    else await mail(system, row.address, words, unsubscribeHeaders(manageUrl));
    await queries.confirmationSent(system.sql, row.id);
  });
}

/** Sends a webhook its challenge. It is confirmed when its answer repeats the challenge. */
export async function challenge(system: System, transport: Outbound, row: queries.DueConfirmation): Promise<boolean> {
  return await attempt(system, row.id, async () => {
    const { status, text } = await post(system, transport, row, {
      type: "verification",
      challenge: row.id,
      secret: secretOf(system, row),
      page: row.page_name,
      manage_url: manageUrlOf(system, row),
    });
    if (status >= 300 || !text.includes(row.id))
      throw new Error(`the answer does not repeat the challenge (${status})`);
    await updateSubscription(system.sql, row.token, {
      confirmAt: new Date(system.clock.now()),
      componentIds: undefined,
    });
  });
}

/** Mails a message. */
export async function deliverByMail(system: System, row: queries.DueDelivery): Promise<boolean> {
  const manageUrl = `${row.content.base}${pathOf(row.token)}`;
  return await attempt(system, row.id, async () => {
    if (system.config.email.smtp_url === "") throw new Error("email.smtp_url is not set");
    await mail(
      system,
      row.address,
      mailWords({ ...row.content, zone: row.time_zone ?? row.content.zone }, manageUrl, row),
      unsubscribeHeaders(manageUrl),
    );
    await delivered(system, row);
  });
}

/** Posts a message to a webhook. */
export async function deliverToWebhook(
  system: System,
  transport: Outbound,
  row: queries.DueDelivery,
): Promise<boolean> {
  return await attempt(system, row.id, async () => {
    const { base, language: _language, zone: _zone, group: _group, ...content } = row.content;
    const { status } = await post(system, transport, row, {
      type: "update",
      id: row.message_id,
      ...content,
      ...(row.source === null ? {} : { source: row.source }),
      manage_url: `${base}${pathOf(row.token)}`,
    });
    // 410 ends the subscription.
    if (status === 410) return await deleteByToken(system.sql, row.token);
    if (status >= 300 && !isPermanentStatus(status)) throw new Error(`the receiver answered ${status}`);
    await delivered(system, row);
  });
}

const delivered = async (system: System, row: queries.DueDelivery): Promise<void> =>
  await queries.markDelivered(system.sql, row.message_id, row.id);

async function mail(
  { config }: System,
  to: string,
  { subject, ...words }: Parameters<typeof mailHtml>[0] & { subject: string },
  headers: Record<string, string>,
): Promise<void> {
  await deliverMail(config.email, {
    to,
    subject,
    text: mailText(words),
    html: mailHtml(words),
    headers,
  });
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
    const reason = messageOf(error)
      .split(/(\s)/)
      .map((word) => (word.includes("@") ? "<address>" : word))
      .join("");
    system.log.warn({ subscriber: subscriberId, reason }, "a message to a subscriber could not be sent");
    return false;
  }
}

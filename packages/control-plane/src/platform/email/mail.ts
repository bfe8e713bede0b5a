import { messageOf } from "@statusmesh/shared/thrown";
import type { Config } from "../../config/config.ts";
import type { System } from "../context.ts";
import { bodyText, subjectLine } from "./layout.ts";

export interface Mail {
  /** One address. */
  to: string;
  /** Subject, text and HTML lose control characters before they are sent; the subject is cut to its longest length. */
  subject: string;
  text: string;
  /** HTML version; without it the mail is plain text. */
  html?: string;
  /** Additional headers. */
  headers?: Record<string, string>;
  /** The same at every attempt, so that mailboxes recognise a repetition (RFC 5322 section 3.6.4). */
  messageId?: string;
  /** Ids of the mail that this one answers, and of those of its thread, oldest first. */
  inReplyTo?: string;
  references?: string[];
}

/** Outcome: accepted by the mail server, logged because none is configured, or refused. */
export type Mailed = "sent" | "logged" | "failed";

const connectMs = 5_000;
const answerMs = 10_000;

/**
 * Sends a mail to the configured server (`email.smtp_url`) and waits until it is accepted. Without a server the mail is
 * logged, so that the operator finds its links. Never throws: a refusal is logged.
 */
export async function sendMail({ config, log }: Pick<System, "config" | "log">, mail: Mail): Promise<Mailed> {
  if (config.email.smtp_url === "") {
    log.info(
      { to: mail.to, subject: mail.subject, text: mail.text },
      "mail that was not sent, because email.smtp_url is not set",
    );
    return "logged";
  }
  try {
    await deliverMail(config.email, mail);
    return "sent";
  } catch (error) {
    // The text may hold a sign-in link, so it is not logged.
    log.error({ to: mail.to, subject: mail.subject, reason: messageOf(error) }, "a mail could not be sent");
    return "failed";
  }
}

/**
 * Returns when the configured server has accepted the mail; throws the error of nodemailer otherwise, also when no
 * server is configured.
 */
export async function deliverMail(
  { smtp_url, from }: Config["email"],
  { to, subject, text, html, headers, messageId, inReplyTo, references }: Mail,
): Promise<void> {
  if (smtp_url === "") throw new Error("no mail server is configured (email.smtp_url)");
  // One connection per mail: mails are rare, and servers close idle connections.
  const transport = await transportTo(smtp_url);
  try {
    await transport.sendMail({
      from,
      to: { name: "", address: to },
      subject: subjectLine(subject),
      text: bodyText(text),
      ...(html === undefined ? {} : { html: bodyText(html) }),
      ...(messageId === undefined ? {} : { messageId }),
      ...(inReplyTo === undefined ? {} : { inReplyTo }),
      ...(references === undefined ? {} : { references }),
      // RFC 3834 section 5: suppresses automatic replies.
      headers: { "Auto-Submitted": "auto-generated", ...headers },
      // Mails have no attachments.
      disableFileAccess: true,
      disableUrlAccess: true,
    });
  } finally {
    transport.close();
  }
}

/** The library is loaded with the first mail. */
async function transportTo(url: string) {
  const { createTransport } = await import("nodemailer");
  return createTransport({ url, connectionTimeout: connectMs, greetingTimeout: connectMs, socketTimeout: answerMs });
}

/** Connects to the mail server, authenticates and sends nothing. Throws the error. */
export async function checkMailServer(url: string): Promise<void> {
  const transport = await transportTo(url);
  try {
    await transport.verify();
  } finally {
    transport.close();
  }
}

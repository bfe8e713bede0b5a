import { createTransport } from "nodemailer";
import type { System } from "../context.ts";

export interface Mail {
  /** One address. */
  to: string;
  subject: string;
  /** Plain text: nothing in it needs more, and every reader shows it. */
  text: string;
}

/** What became of a mail: taken by the mail server, written to the log because there is none, or refused. */
export type Mailed = "sent" | "logged" | "failed";

const connectMs = 5_000;
const answerMs = 10_000;

/**
 * Hands a mail to the configured server (`email.smtp_url`) and waits until it has taken it. Without one the mail is written
 * to the log, where the person who runs the service finds the link. Never throws: a refusal is logged.
 */
export async function sendMail({ config, log }: Pick<System, "config" | "log">, mail: Mail): Promise<Mailed> {
  if (config.email.smtp_url === "") {
    log.info(
      { to: mail.to, subject: mail.subject, text: mail.text },
      "mail that was not sent, because email.smtp_url is not set",
    );
    return "logged";
  }
  // A connection of its own for each mail: they are rare, and an idle one would be closed by the server anyway.
  const transport = transportTo(config.email.smtp_url);
  try {
    await transport.sendMail({
      from: config.email.from,
      to: { name: "", address: mail.to },
      subject: mail.subject,
      text: mail.text,
      // RFC 3834 section 5: keeps holiday notices and the like from answering.
      headers: { "Auto-Submitted": "auto-generated" },
      // A text of ours never names a file or a URL to attach.
      disableFileAccess: true,
      disableUrlAccess: true,
    });
    return "sent";
  } catch (error) {
    // The text has a link that signs somebody in, so it is not logged here.
    log.error(
      { to: mail.to, subject: mail.subject, reason: error instanceof Error ? error.message : String(error) },
      "a mail could not be sent",
    );
    return "failed";
  } finally {
    transport.close();
  }
}

const transportTo = (url: string) =>
  createTransport({ url, connectionTimeout: connectMs, greetingTimeout: connectMs, socketTimeout: answerMs });

/** Connects to the mail server and signs in, and sends nothing. Throws what went wrong. */
export async function checkMailServer(url: string): Promise<void> {
  const transport = transportTo(url);
  try {
    await transport.verify();
  } finally {
    transport.close();
  }
}

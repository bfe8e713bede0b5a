import type { System } from "../../../platform/context.ts";
import { hashToken } from "../../../platform/crypto/token.ts";
import { mailOf } from "../../../platform/email/layout.ts";
import { sendMail } from "../../../platform/email/mail.ts";
import { type Caller, recordAttempt } from "../passwords/attempts.ts";
import { requireMethod } from "../second-factor/factors.ts";
import * as queries from "../queries.ts";
import * as sessionQueries from "../sessions/session-queries.ts";
import { makeSignInLink } from "../sessions/sessions.ts";

/**
 * Mails a sign-in link to the address, if a user has it. The reply does not reveal that, neither by content nor by
 * time: the work that differs runs after it. An address gets one link per `auth.magic_link.throttle_secs`. Throws
 * NOT_FOUND where the method is not enabled.
 */
export async function requestMagicLink(system: System, input: { email: string } & Caller): Promise<void> {
  requireMethod(system.config, "magic_link");
  const email = input.email.toLowerCase();
  const now = system.clock.now();
  const throttleMs = system.config.auth.magic_link.throttle_secs * 1000;
  const allowed =
    throttleMs === 0 ||
    (await sessionQueries.takeMagicLinkTurn(system.sql, hashToken(email), new Date(now), new Date(now - throttleMs)));
  const sendAndRecord = async () => {
    const sent = allowed ? await sendLink(system, email) : { userId: null, outcome: "throttled" };
    await recordAttempt(system, { method: "magic_link", email, userId: sent.userId }, input, sent.outcome);
  };
  sendAndRecord().catch((error: unknown) =>
    system.log.error({ err: String(error) }, "a sign-in link could not be sent"),
  );
}

async function sendLink(system: System, email: string): Promise<{ userId: string | null; outcome: string }> {
  const userId = await queries.selectUserByEmail(system.sql, email);
  if (userId === null) return { userId, outcome: "no_account" };
  const path = await makeSignInLink(system, userId, "magic_link");
  const mailed = await sendMail(system, {
    to: email,
    ...mailOf({
      tone: "plain",
      title: "Your sign-in link for StatusMesh",
      paragraphs: ["Open this link and press the button to sign in. It works once, for 15 minutes."],
      link: { label: "Sign in", url: `${system.config.server.public_url}${path}` },
      footer: "If you did not request it, ignore it: without the link nobody can sign in.",
    }),
  });
  return { userId, outcome: mailed === "failed" ? "mail_failed" : "link_sent" };
}

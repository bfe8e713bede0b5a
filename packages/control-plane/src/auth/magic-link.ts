import { AppError } from "@statusmesh/shared/errors";
import type { Config } from "../config.ts";
import type { System } from "../context.ts";
import { hashToken } from "../crypto/token.ts";
import { sendMail } from "../email/mail.ts";
import { noteAttempt } from "./attempts.ts";
import * as queries from "./queries.ts";
import { type Caller, makeSignInLink } from "./sessions.ts";

type Method = Config["auth"]["enabled_methods"][number];

/** A way to sign in that is not switched on is not there: NOT_FOUND. */
export function requireMethod({ config }: Pick<System, "config">, method: Method): void {
  if (!config.auth.required || !config.auth.enabled_methods.includes(method))
    throw new AppError("NOT_FOUND", "This way to sign in is not switched on (auth.enabled_methods).");
}

/**
 * Mails a sign-in link to the address, if somebody here has it. Whoever asks learns nothing about that: the answer is the
 * same, and all that differs is done after it. Each address gets a link at most once in `auth.magic_link.throttle_secs`.
 */
export async function requestMagicLink(system: System, input: { email: string } & Caller): Promise<void> {
  requireMethod(system, "magic_link");
  const email = input.email.toLowerCase();
  const now = system.clock.now();
  const throttleMs = system.config.auth.magic_link.throttle_secs * 1000;
  const allowed =
    throttleMs === 0 ||
    (await queries.takeMagicLinkTurn(system.sql, hashToken(email), new Date(now), new Date(now - throttleMs)));
  const asked = async () => {
    const sent = allowed ? await sendLink(system, email) : { userId: null, outcome: "throttled" };
    await noteAttempt(system, { method: "magic_link", email, userId: sent.userId }, input, sent.outcome);
  };
  asked().catch((error: unknown) => system.log.error({ err: String(error) }, "a sign-in link could not be made"));
}

async function sendLink(system: System, email: string): Promise<{ userId: string | null; outcome: string }> {
  const userId = await queries.selectUserByEmail(system.sql, email);
  if (userId === null) return { userId, outcome: "no_account" };
  const path = await makeSignInLink(system, userId, "magic_link");
  const mailed = await sendMail(system, {
    to: email,
    subject: "Your sign-in link for StatusMesh",
    text: `Open this link and press the button to sign in:\n\n${system.config.server.public_url}${path}\n\nIt works once, for 15 minutes. If you did not ask for it, ignore it: without the link nobody gets in.\n`,
  });
  return { userId, outcome: mailed === "failed" ? "mail_failed" : "link_sent" };
}

import type { System } from "../platform/context.ts";
import type { DatabaseProblem } from "../platform/db/client/failures.ts";
import type { DatabaseWatch } from "../platform/db/client/watch.ts";
import { sendMail } from "../platform/email/mail.ts";
import { operatorMail } from "./operator-notices.ts";
import { absolute } from "../platform/html/format.ts";

/** A failover or a restart is shorter. */
const patienceMs = 120_000;
const everyMs = 15_000;

const texts: Readonly<Record<DatabaseProblem["failure"], { about: string; text: string }>> = {
  away: {
    about: "the database does not answer",
    text: "Agents keep their results and report them later. Until then no incident opens and no notice is sent.",
  },
  busy: {
    about: "the database is too busy to answer",
    text: "Look at its load, its locks and the number of its connections.",
  },
  conflict: { about: "the database refuses transactions", text: "Look at the log of the service." },
  full: {
    about: "the disk of the database is full",
    text:
      "Nothing can be stored: no incident opens and no notice is sent. Free disk space. Agents keep their " +
      "results and report them later.",
  },
  readonly: {
    about: "the database takes no writes",
    text: "It is a standby, or default_transaction_read_only is on. No incident opens and no notice is sent.",
  },
};

/**
 * Mails the operator when the database cannot be used, and when that is over. Other notices to the operator are
 * recorded in the database; this one cannot be, so each replica sends its own. `look` is one round, for tests.
 */
export function databaseNotices(
  system: Pick<System, "config" | "clock" | "log">,
  watch: Pick<DatabaseWatch, "problem" | "ready">,
): { look(): Promise<void> } {
  let notified: DatabaseProblem | null = null;
  const mail = async (subject: string, text: string): Promise<boolean> => {
    const { operator, bootstrap, server } = system.config;
    const to = operator.email || bootstrap.email;
    const link = { label: "StatusMesh", url: server.public_url };
    const mailed = await sendMail(system, { to, ...operatorMail(subject, text, link) });
    return mailed !== "failed";
  };
  return {
    async look() {
      // Writes as well, so that a full disk is noticed without other writes.
      await watch.ready().catch(() => {});
      const problem = watch.problem();
      if (problem === null && notified !== null) {
        if (await mail(`Over: ${texts[notified.failure].about}`, "The service works again.")) notified = null;
      } else if (problem !== null && notified === null && system.clock.now() - problem.since >= patienceMs) {
        const { about, text } = texts[problem.failure];
        const since = `Since ${absolute(new Date(problem.since))}: ${problem.reason}.`;
        if (await mail(about, `${since} ${text}`)) notified = problem;
      }
    },
  };
}

/** Looks every 15 s until `signal` fires. */
export function startDatabaseNotices(system: System, watch: DatabaseWatch, signal: AbortSignal): void {
  const notices = databaseNotices(system, watch);
  let looking = false;
  const timer = setInterval(() => {
    if (looking) return;
    looking = true;
    void notices.look().finally(() => (looking = false));
  }, everyMs);
  signal.addEventListener("abort", () => clearInterval(timer), { once: true });
}

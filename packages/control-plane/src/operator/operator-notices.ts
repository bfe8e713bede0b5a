import { agentProblems } from "../monitoring/agents/service.ts";
import type { System } from "../platform/context.ts";
import { mailOf } from "../platform/email/layout.ts";
import { sendMail } from "../platform/email/mail.ts";
import { absolute } from "../platform/html/format.ts";
import { markMailed, noteProblem, takePastProblems, problemsToMail } from "./queries.ts";

/** A shorter problem causes no mail: agents restart, and networks have short outages. */
const patienceMs = 120_000;
/** After a gap this long between two runs of the job, an earlier problem counts as a new one. */
const gapMs = 90_000;

interface Problem {
  key: string;
  /** Subject of the mail, and of the mail at the end of the problem. */
  about: string;
  text: string;
}

/**
 * Mails the operator about a region without an agent and an agent whose own network is down. One mail when it has
 * lasted, one when it is over, however many monitors it concerns.
 */
export async function notifyOperator(system: System): Promise<void> {
  const { sql, clock } = system;
  const now = clock.now();
  const problems = await currentProblems(system);
  for (const problem of problems) await noteProblem(sql, problem, new Date(now), new Date(now - gapMs));
  const keys = problems.map(({ key }) => key);
  for (const { about, mailed } of await takePastProblems(sql, keys))
    if (mailed) await mailOperator(system, `Over: ${about}`, "Checks run and count again.");

  const due = await problemsToMail(sql, new Date(now - patienceMs));
  for (const { key, about, text } of problems) {
    if (!due.has(key)) continue;
    // Recorded after the mail: one that could not be sent is sent the next time.
    if (await mailOperator(system, about, text)) await markMailed(sql, key, new Date(now));
  }
}

/** A mail to the operator of the installation. */
export const operatorMail = (subject: string, text: string, link: { label: string; url: string }) =>
  mailOf({
    tone: subject.startsWith("Over: ") ? "up" : "down",
    subject: `StatusMesh: ${subject}`,
    title: `${subject.charAt(0).toUpperCase()}${subject.slice(1)}.`,
    paragraphs: [text],
    link,
    footer: "StatusMesh sends this mail to the operator of the installation (operator.email).",
  });

/** False when the mail server did not accept it. */
async function mailOperator(system: System, subject: string, text: string): Promise<boolean> {
  const { operator, bootstrap, server } = system.config;
  const mailed = await sendMail(system, {
    to: operator.email || bootstrap.email,
    ...operatorMail(subject, text, { label: "Regions and agents", url: `${server.public_url}/settings/regions` }),
  });
  if (mailed !== "failed") system.log.warn({ subject }, "notice mailed to the operator");
  return mailed !== "failed";
}

async function currentProblems(system: System): Promise<Problem[]> {
  const { regions, impaired } = await agentProblems(system);
  const silent = "Monitors that run only there have no results, and nobody is notified when one of them goes down.";
  return [
    ...regions
      .filter(({ why }) => why !== "network")
      .map(({ id, name, why, since }) => ({
        key: `region ${id}`,
        about: `nothing is checked from the region ${name}`,
        text:
          why === "none" || since === null
            ? `No agent has ever connected for it. ${silent} Start one with: sm-agent run`
            : `Its agents have not connected since ${absolute(new Date(since))}. ${silent} Check the machine ` +
              "that sm-agent runs on, and whether it reaches this control plane.",
      })),
    ...impaired.map(({ id, name, region, since }) => ({
      key: `agent ${id}`,
      about: `the network of the agent ${name} is down`,
      text:
        `Since ${absolute(new Date(since))} it cannot reach any target or canary from the region ${region}. ` +
        "Its failed checks are no evidence, so they open no incidents. " +
        `If no other agent serves the region, ${silent.charAt(0).toLowerCase()}${silent.slice(1)}`,
    })),
  ];
}

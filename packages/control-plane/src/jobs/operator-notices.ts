import { agentTroubles } from "../agents/service.ts";
import type { System } from "../context.ts";
import { sendMail } from "../email/mail.ts";
import { absolute } from "../html/format.ts";
import { markMailed, noteTrouble, takeTroublesOver, troublesToMail } from "./queries.ts";

/** A shorter trouble causes no mail: agents restart, and networks have hiccups. */
const patienceMs = 120_000;
/** After a gap this long between two runs of the job, a trouble that was seen before begins anew. */
const gapMs = 90_000;

interface Trouble {
  key: string;
  /** The subject of the mail, and of the one that says that it is over. */
  about: string;
  text: string;
}

/**
 * Mails the operator about a region without an agent and an agent whose own network is down. One mail when it has
 * lasted, one when it is over, however many monitors it concerns.
 */
export async function tellOperator(system: System): Promise<void> {
  const { sql, clock } = system;
  const now = clock.now();
  const troubles = await currentTroubles(system);
  for (const trouble of troubles) await noteTrouble(sql, trouble, new Date(now), new Date(now - gapMs));
  const keys = troubles.map(({ key }) => key);
  for (const { about, mailed } of await takeTroublesOver(sql, keys))
    if (mailed) await tell(system, `Over: ${about}`, "Checks run and count again.");

  const due = await troublesToMail(sql, new Date(now - patienceMs));
  for (const { key, about, text } of troubles) {
    if (!due.has(key)) continue;
    // Recorded after the mail: one that could not be sent is sent the next time.
    if (await tell(system, about, text)) await markMailed(sql, key, new Date(now));
  }
}

/** False when the mail server did not accept it. */
async function tell(system: System, subject: string, text: string): Promise<boolean> {
  const { operator, bootstrap } = system.config;
  const mailed = await sendMail(system, {
    to: operator.email || bootstrap.email,
    subject: `StatusMesh: ${subject}`,
    text: `${subject}.\n\n${text}\n`,
  });
  if (mailed !== "failed") system.log.warn({ subject }, "the operator is told");
  return mailed !== "failed";
}

async function currentTroubles(system: System): Promise<Trouble[]> {
  const { regions, impaired } = await agentTroubles(system);
  const silent =
    "The monitors that are probed only from there have no results, and nobody is told when one of them goes down.";
  return [
    ...regions
      .filter(({ why }) => why !== "network")
      .map(({ id, name, why, since }) => ({
        key: `region ${id}`,
        about: `nothing is checked from the region ${name}`,
        text:
          why === "none" || since === null
            ? `No agent has ever come for it. ${silent} Start one with: sm-agent run`
            : `Its agents have not been heard of since ${absolute(new Date(since))}. ${silent} See to the machine ` +
              "that sm-agent runs on, and whether it reaches this control plane.",
      })),
    ...impaired.map(({ id, name, region, since }) => ({
      key: `agent ${id}`,
      about: `the network of the agent ${name} is down`,
      text:
        `Since ${absolute(new Date(since))} it reaches nothing from the region ${region}: neither targets nor ` +
        "canaries answer. What it fails to reach counts for nothing, so no monitor is called down for it. If " +
        `no other agent serves the region, ${silent.charAt(0).toLowerCase()}${silent.slice(1)}`,
    })),
  ];
}

import type { Sql } from "postgres";
import { agentTroubles } from "../agents/service.ts";
import type { System } from "../context.ts";
import { sendMail } from "../email/mail.ts";
import { absolute } from "../html/format.ts";

/** What lasts this long is told: agents restart, and networks have hiccups. */
const patienceMs = 120_000;
/** A gap this long between two looks means that nobody looked: what was seen before it begins anew. */
const gapMs = 90_000;

interface Trouble {
  key: string;
  /** The subject of the mail, and of the one that says that it is over. */
  about: string;
  text: string;
}

/**
 * Tells the operator, once, of what keeps the service itself from seeing: a region without an agent, an agent whose own
 * network is down. One mail when it has lasted, one when it is over, however many monitors it concerns.
 */
export async function tellOperator(system: System): Promise<void> {
  const sql = system.sql as Sql;
  const now = system.clock.now();
  const troubles = await currentTroubles(system);
  for (const { key, about } of troubles) {
    await sql`
      insert into operator_notices (key, about, noticed_at, seen_at)
      values (${key}, ${about}, ${new Date(now)}, ${new Date(now)})
      on conflict (key) do update set seen_at = excluded.seen_at,
        noticed_at = case when operator_notices.told_at is null
          and operator_notices.seen_at < ${new Date(now - gapMs)} then excluded.noticed_at
            else operator_notices.noticed_at end`;
  }
  const over = await sql<{ about: string; told: boolean }[]>`
    delete from operator_notices where not (key = any(${troubles.map(({ key }) => key)}::text[]))
    returning about, told_at is not null as told`;
  for (const { about, told } of over) if (told) await tell(system, `Over: ${about}`, "Checks run and count again.");

  const due = await sql<
    { key: string }[]
  >`select key from operator_notices where told_at is null and noticed_at <= ${new Date(now - patienceMs)}`;
  for (const { key, about, text } of troubles) {
    if (!due.some((it) => it.key === key)) continue;
    // Noted after the mail: one that could not be sent is sent the next time.
    if (await tell(system, about, text))
      await sql`update operator_notices set told_at = ${new Date(now)} where key = ${key}`;
  }
}

/** False when the mail server would not take it. */
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

import type { System } from "../../platform/context.ts";
import { mailOf } from "../../platform/email/layout.ts";
import { sendMail } from "../../platform/email/mail.ts";
import { minuteIn } from "../../platform/zoned.ts";
import { markMailed, selectFailing } from "./channel-failures-queries.ts";

/** A restart of a receiver is shorter: the second attempt follows after 30 s, the third a minute later. */
const graceMs = 120_000;
const batch = 50;

/**
 * Mails the owners about a channel whose deliveries keep failing: one mail for a failing spell. Returns the number of
 * channels. A mail that could not be sent is sent by the next run.
 */
export async function mailChannelFailures(system: System): Promise<number> {
  const { sql, clock, config } = system;
  const failing = await selectFailing(sql, new Date(clock.now() - graceMs), batch);
  let mailed = 0;
  for (const channel of failing) {
    const { id, name, failing_since, last_error, given_up, owners, timezone } = channel;
    const next = given_up
      ? "The last notification is not attempted again; its incident lists it, and can send it again. " +
        "The channel stays enabled for later ones."
      : "The channel stays enabled, and failed notifications are attempted again.";
    const mail = mailOf({
      tone: "down",
      subject: `StatusMesh: channel ${name} is failing`,
      title: `Notifications to the channel "${name}" have been failing since ${minuteIn(failing_since, timezone)}.`,
      paragraphs: [next],
      facts: [{ label: "Last error", value: last_error ?? "unknown" }],
      link: { label: "Check its configuration", url: `${config.server.public_url}/channels/${id}/edit` },
      footer: "StatusMesh sends this mail to the owners of the organisation.",
    });
    let failed = false;
    for (const to of owners) if ((await sendMail(system, { to, ...mail })) === "failed") failed = true;
    if (failed) continue;
    await markMailed(sql, channel, new Date(clock.now()));
    mailed++;
  }
  return mailed;
}

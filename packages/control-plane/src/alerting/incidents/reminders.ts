import { inBatches, type System } from "../../platform/context.ts";
import { type OutboxNotice, writeDeliveries } from "../deliveries/engine.ts";
import { withDependents } from "./dependencies.ts";
import { noticeOf } from "./notices.ts";
import { isReminderDue, takeDueReminders } from "./reminder-queries.ts";

/** Few enough that one transaction is short. */
const batch = 200;

/** False when {@link sendReminders} would find nothing. */
export const areRemindersDue = async ({ sql, clock }: System): Promise<boolean> =>
  await isReminderDue(sql, clock.now());

/**
 * Sends the reminders that are due: of open incidents that are not acknowledged, at the interval of the target's
 * policy. Returns the number of reminders. May run on any number of replicas at once.
 */
export async function sendReminders(system: System): Promise<number> {
  return await inBatches(system, batch, async (tx) => {
    const now = tx.clock.now();
    const incidents = await takeDueReminders(tx.sql, now, batch);
    const notices = incidents
      .filter(({ reminder_due_at }) => reminder_due_at !== null)
      .map((incident): OutboxNotice => ({
        orgId: incident.org_id,
        seq: incident.reminders_sent - 1,
        notice: noticeOf(incident, incident.monitor_name, "reminder", tx.config.server.public_url),
      }));
    await writeDeliveries(tx.sql, now, await withDependents(tx.sql, notices));
    return { taken: incidents.length, done: notices.length };
  });
}

import type { Fragment } from "postgres";
import { inBatches, type System } from "../../../platform/context.ts";
import { writeDeliveries } from "../../deliveries/engine.ts";
import { withDependents } from "../holds/dependencies.ts";
import { outboxNotice } from "../evaluation/notices.ts";
import { isReminderDue, takeDueReminders } from "./reminder-queries.ts";

/** Few enough that one transaction is short. */
const batch = 200;

/** False when {@link sendReminders} would find nothing. */
export const areRemindersDue = ({ sql, clock }: System): Fragment => isReminderDue(sql, new Date(clock.now()));

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
      .map((one) => outboxNotice(one, "reminder", one.reminders_sent - 1, tx.config.server.public_url));
    await writeDeliveries(tx.sql, now, await withDependents(tx.sql, notices));
    return { taken: incidents.length, done: notices.length };
  });
}

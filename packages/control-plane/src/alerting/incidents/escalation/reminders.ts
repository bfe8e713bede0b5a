import type { Fragment } from "postgres";
import { inBatches, type System } from "../../../platform/context.ts";
import { portionsOf } from "../../../platform/process/turns.ts";
import { writeDeliveries } from "../../deliveries/engine.ts";
import { withDependents } from "../holds/dependencies.ts";
import { outboxNotice } from "../evaluation/notices.ts";
import { isReminderDue, takeDueReminders } from "./reminder-queries.ts";

/** Incidents of one transaction: what it writes is one message, and 1,000 take less than a second. */
const batch = 1000;
/** Reminders that are written together, so that the event loop is not held. */
const portion = 100;

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
    for (const some of portionsOf(notices, portion))
      await writeDeliveries(tx.sql, now, await withDependents(tx.sql, some));
    return { taken: incidents.length, done: notices.length };
  });
}

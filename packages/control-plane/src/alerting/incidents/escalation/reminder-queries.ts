import type { Db } from "../../../platform/db/client/sql.ts";
import type { NoticeSubject } from "../evaluation/notices.ts";
import { waits } from "../holds/hold-queries.ts";
import { noticeColumns } from "../queries.ts";

export interface DueIncident extends NoticeSubject {
  /** This one included. */
  reminders_sent: number;
  /** Null when the target's policy asks for none any more. */
  reminder_due_at: Date | null;
}

/** True when an incident may be due for its next reminder. */
export const isReminderDue = (sql: Db, at: Date) => sql`exists (select from incidents where reminder_due_at <= ${at})`;

/**
 * Moves each due incident to its next reminder; the caller that changed the row sends it. Keeps the rhythm, unless a
 * whole period was missed.
 */
export async function takeDueReminders(sql: Db, now: number, limit: number): Promise<DueIncident[]> {
  const at = new Date(now);
  return await sql<DueIncident[]>`
    with due as (
      select i.id, t.name, t.renotify_interval_secs, make_interval(secs => t.renotify_interval_secs) as period
      from incidents i
      join targets t on t.id = i.target_id
      join orgs o on o.id = i.org_id and o.deleted_at is null
      where i.reminder_due_at <= ${at} and i.ended_at is null and i.acknowledged_at is null and not i.retracted
        -- A reminder waits until nothing holds it, behind the notice that is held.
        and i.held_reason is null and not ${waits(sql, at)}
      order by i.reminder_due_at
      limit ${limit}
      for update of i skip locked
    )
    update incidents i
    set reminder_due_at = case when due.renotify_interval_secs = 0 then null
                               when i.reminder_due_at + due.period > ${at} then i.reminder_due_at + due.period
                               else ${at}::timestamptz + due.period end,
        reminders_sent = i.reminders_sent + case when due.renotify_interval_secs = 0 then 0 else 1 end
    from due
    where i.id = due.id
    returning ${noticeColumns(sql)}, i.severity, i.reminders_sent, i.reminder_due_at, due.name as monitor_name`;
}

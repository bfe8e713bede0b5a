import { affectsRow, type Db } from "../../platform/db/client/sql.ts";

export type Source = "telegram" | "whatsapp" | "resend" | "sms" | "pagerduty";

/** Records an event in the transaction that handles it. False for a duplicate. */
export async function claimEvent(sql: Db, source: Source, id: string, now: Date): Promise<boolean> {
  return await affectsRow(sql`
    insert into hook_events (source, id, received_at) values (${source}, ${id}, ${now}) on conflict do nothing`);
}

/** Deletes old events. Vendors retry an event for at most three days. */
export async function forgetEvents(sql: Db, before: Date): Promise<void> {
  await sql`delete from hook_events where received_at < ${before}`;
}

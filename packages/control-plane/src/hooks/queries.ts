import type { Db } from "../db/sql.ts";

export type Source = "telegram" | "whatsapp" | "resend";

/** Notes an event in the transaction that handles it. False for one that was handled before. */
export async function claimEvent(sql: Db, source: Source, id: string, now: Date): Promise<boolean> {
  const { count } = await sql`
    insert into hook_events (source, id, received_at) values (${source}, ${id}, ${now}) on conflict do nothing`;
  return count === 1;
}

/** Forgets old events: vendors send an event again for three days at most. */
export async function forgetEvents(sql: Db, before: Date): Promise<void> {
  await sql`delete from hook_events where received_at < ${before}`;
}

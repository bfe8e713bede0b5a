import type { Db } from "../../platform/db/sql.ts";

export interface AttemptRow {
  id: string;
  at: Date;
  method: string;
  email: string | null;
  user_id: string | null;
  outcome: string;
  ip: string;
  user_agent: string | null;
}

export async function insertAttempt(sql: Db, row: AttemptRow): Promise<void> {
  await sql`
    insert into login_attempts (id, at, method, email, user_id, outcome, ip, user_agent)
    values (${row.id}, ${row.at}, ${row.method}, ${row.email}, ${row.user_id}, ${row.outcome}, ${row.ip},
      ${row.user_agent})`;
}

/** Returns the number of deleted rows. */
export async function deleteAttemptsBefore(sql: Db, before: Date): Promise<number> {
  return (await sql`delete from login_attempts where at < ${before}`).count;
}

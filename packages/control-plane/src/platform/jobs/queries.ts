import { lockSpaces } from "../db/locks.ts";
import type { Db } from "../db/sql.ts";

/**
 * Takes the lock of a job until the transaction ends; false when another replica holds it. The transaction only holds
 * the lock, and is idle for as long as the job takes.
 */
export async function takeJobLock(sql: Db, name: string): Promise<boolean> {
  const [lock] = await sql<{ held: boolean }[]>`
    select pg_try_advisory_xact_lock(${lockSpaces.jobs}, hashtext(${name})) as held,
      set_config('idle_in_transaction_session_timeout', '0', true)`;
  return lock?.held === true;
}

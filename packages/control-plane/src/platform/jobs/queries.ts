import { lockSpaces } from "../db/locks.ts";
import { type Db, valueOf } from "../db/sql.ts";

/**
 * Takes the lock of a job until the transaction ends; false when another replica holds it. The transaction only holds
 * the lock, and is idle for as long as the job takes.
 */
export async function takeJobLock(sql: Db, name: string): Promise<boolean> {
  return await valueOf<boolean>(sql`
    select pg_try_advisory_xact_lock(${lockSpaces.jobs}, hashtext(${name})),
      set_config('idle_in_transaction_session_timeout', '0', true)`);
}

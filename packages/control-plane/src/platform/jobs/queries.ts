import type { Fragment } from "postgres";
import { lockSpaces } from "../db/locks.ts";
import { type Db, valueOf } from "../db/client/sql.ts";

/**
 * Takes the lock of a job until the transaction ends; false when another replica holds it. The transaction only holds
 * the lock, and is idle for as long as the job takes.
 */
export async function takeJobLock(sql: Db, name: string): Promise<boolean> {
  return await valueOf<boolean>(sql`
    select pg_try_advisory_xact_lock(${lockSpaces.jobs}, hashtext(${name})),
      set_config('idle_in_transaction_session_timeout', '0', true)`);
}

/** Values of conditions, in one statement. */
export async function valuesOf(sql: Db, conditions: readonly Fragment[]): Promise<boolean[]> {
  const [first, ...others] = conditions;
  if (first === undefined) return [];
  const list = others.reduce((before, one) => sql`${before}, ${one}`, first);
  return await valueOf<boolean[]>(sql`select json_build_array(${list})`);
}

/** Whether the condition of a job is true. */
export async function isTrue<T extends { sql: Db }>(system: T, isDue: (system: T) => Fragment): Promise<boolean> {
  return await valueOf<boolean>(system.sql`select ${isDue(system)}`);
}

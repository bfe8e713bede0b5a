import type { Db } from "../../platform/db/sql.ts";

/** Failed tries of one counter; the key is the SHA-256 of its kind and value. */
export interface TurnRow {
  key_hash: Buffer;
  failures: number;
  window_ends_at: Date;
  /** The wait after the last failure, ms. */
  wait_ms: number;
  next_at: Date;
}

/** The counters with these keys, locked in the order of their keys; a new one has no failures. */
export async function lockTurns(sql: Db, keys: readonly Buffer[], now: Date): Promise<TurnRow[]> {
  const sorted = [...keys].sort((a, b) => Buffer.compare(a, b));
  const rows: TurnRow[] = [];
  for (const key of sorted)
    rows.push(
      ...(await sql<TurnRow[]>`
        insert into sign_in_turns as t (key_hash, failures, window_ends_at, wait_ms, next_at)
        values (${key}, 0, ${now}, 0, ${now})
        on conflict (key_hash) do update set failures = t.failures
        returning key_hash, failures, window_ends_at, wait_ms, next_at`),
    );
  return rows;
}

export async function updateTurns(sql: Db, rows: readonly TurnRow[]): Promise<void> {
  for (const { key_hash, ...row } of rows) await sql`update sign_in_turns set ${sql(row)} where key_hash = ${key_hash}`;
}

/** Takes one failure off a counter. */
export async function giveBack(sql: Db, key: Buffer): Promise<void> {
  await sql`update sign_in_turns set failures = failures - 1 where key_hash = ${key} and failures > 0`;
}

export async function deleteTurn(sql: Db, key: Buffer): Promise<void> {
  await sql`delete from sign_in_turns where key_hash = ${key}`;
}

/** Deletes counters whose window has ended. */
export async function deleteEndedTurns(sql: Db, now: Date): Promise<void> {
  await sql`delete from sign_in_turns where window_ends_at <= ${now}`;
}

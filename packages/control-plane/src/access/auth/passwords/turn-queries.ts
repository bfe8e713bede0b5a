import { arrayOf, type Db } from "../../../platform/db/client/sql.ts";

/** Failed tries of one counter; the key is the SHA-256 of its kind and value. */
export interface TurnRow {
  key_hash: Buffer;
  failures: number;
  window_ends_at: Date;
  /** The wait after the last failure, ms. */
  wait_ms: number;
  next_at: Date;
}

/**
 * The counters with these keys, a new one without failures. They are locked in the order of their keys: rows are
 * inserted in the order of the sub-select.
 */
export async function lockTurns(sql: Db, keys: readonly Buffer[], now: Date): Promise<TurnRow[]> {
  return await sql<TurnRow[]>`
    insert into sign_in_turns as t (key_hash, failures, window_ends_at, wait_ms, next_at)
    select decode(key, 'hex'), 0, ${now}, 0, ${now} from unnest(${arrayOf(keys.map(hexOf))}::text[]) key order by key
    on conflict (key_hash) do update set failures = t.failures
    returning key_hash, failures, window_ends_at, wait_ms, next_at`;
}

/** Writes counters that the transaction has locked. */
export async function updateTurns(sql: Db, rows: readonly TurnRow[]): Promise<void> {
  await sql`
    update sign_in_turns t set failures = n.failures, window_ends_at = n.window_ends_at, wait_ms = n.wait_ms,
      next_at = n.next_at
    from unnest(${arrayOf(rows.map(({ key_hash }) => hexOf(key_hash)))}::text[],
      ${arrayOf(rows.map(({ failures }) => failures))}::int[],
      ${arrayOf(rows.map(({ window_ends_at }) => window_ends_at.toISOString()))}::timestamptz[],
      ${arrayOf(rows.map(({ wait_ms }) => wait_ms))}::int[],
      ${arrayOf(rows.map(({ next_at }) => next_at.toISOString()))}::timestamptz[])
      as n (key, failures, window_ends_at, wait_ms, next_at)
    where t.key_hash = decode(n.key, 'hex')`;
}

const hexOf = (bytes: Buffer): string => bytes.toString("hex");

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

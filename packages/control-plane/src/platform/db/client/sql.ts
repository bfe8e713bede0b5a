import { finished } from "node:stream/promises";
import type { Fragment, PendingQuery, Row, Sql, TransactionSql } from "postgres";
import { forEachInTurns } from "../../process/turns.ts";
import { connectionOf } from "./driver.ts";

/** Where a query runs: the pool, or the one connection of an open transaction. */
export type Db = Sql | TransactionSql;

/**
 * Returns an array literal of values that need no quotes: ids, numbers, booleans, ISO times, words. For large arrays on
 * hot paths, because the client's serializer scans every character.
 */
export function arrayOf(values: readonly (string | number | boolean | null)[]): string {
  return `{${values.map((value) => value ?? "NULL").join()}}`;
}

/** Array of hundreds of ids for `= any(…)`: of a literal one PostgreSQL estimates every element, 15 ms for 1,000. */
export const manyIds = (sql: Db, ids: readonly string[]): Fragment =>
  sql`array(select unnest(${arrayOf(ids)}::uuid[]))`;

/** Ids that are listed, or an array of those that a query finds. */
export type Ids = readonly string[] | Fragment;

/** `ids` for `= any(…)`. */
export const idArray = (sql: Db, ids: Ids): Fragment => (isList(ids) ? sql`${arrayOf(ids)}::uuid[]` : ids);

const isList = (ids: Ids): ids is readonly string[] => Array.isArray(ids);

/**
 * What `make` returns, made once: fragments without values are the same for every statement, and the client takes 2 µs
 * to make one. A read of results had 200.
 */
export function madeOnce(make: (sql: Db) => Fragment): (sql: Db) => Fragment {
  let made: Fragment | null = null;
  return (sql) => (made ??= make(sql));
}

/** Rows (key, free): the free slots of keys, for a claim that limits what is in flight by key. */
export const freePlaces = (sql: Db, { all }: { all(): readonly { key: string; free: number }[] }) => {
  const places = all();
  return sql`
    select * from unnest(${places.map(({ key }) => key)}::text[], ${places.map(({ free }) => free)}::int[])
      as t (key, free)`;
};

/** Rows that are parsed in one turn of the event loop: 10,000 results took 75 ms. */
const portion = 1000;

/**
 * The rows of a query with a long result, fetched in portions of `size`; smaller ones where a row has kilobytes. One
 * with at most `most` rows, which fit into a portion, is not: that saves a round trip.
 */
export async function inPortions<T extends Row>(
  query: PendingQuery<T[]>,
  { size = portion, most = Infinity }: { size?: number; most?: number } = {},
): Promise<T[]> {
  if (most <= size) return await query;
  const rows: T[] = [];
  await query.cursor(size, (part) => void rows.push(...(part as T[])));
  return rows;
}

/** The first row of a query; null without one. */
export async function firstOf<T extends Row>(query: PendingQuery<T[]>): Promise<T | null> {
  const [row] = await query;
  return row ?? null;
}

/** The row of a query that always has one. */
export async function rowOf<T extends Row>(query: PendingQuery<T[]>): Promise<T> {
  return (await query)[0]!;
}

/** The values of the first column of a query. */
export async function columnOf<T>(query: PendingQuery<Row[]>): Promise<T[]> {
  return (await query.values()).map(([value]) => value as T);
}

/** The first value of the first row of a query; null without a row, which `T` allows where that may be. */
export async function valueOf<T>(query: PendingQuery<Row[]>): Promise<T> {
  const [value] = await columnOf<T>(query);
  return value ?? (null as T);
}

/**
 * SQL, in a column: the transaction commits without waiting for the disk. Others see it at once and a killed process of
 * ours loses nothing; a crash of the database may undo it as a whole.
 */
export const commitsEarly = (sql: Db) => sql`set_config('synchronous_commit', 'off', true)`;

/** True when a statement has changed, locked or found a row. */
export const affectsRow = async (statement: PendingQuery<Row[]>): Promise<boolean> => (await statement).count > 0;

/** Waits for a write. Where another row has the value of a unique column (SQLSTATE 23505), throws `taken` instead. */
export async function unlessTaken<T>(write: Promise<T>, taken: (cause: unknown) => Error): Promise<T> {
  try {
    return await write;
  } catch (cause) {
    throw (cause as { code?: unknown }).code === "23505" ? taken(cause) : cause;
  }
}

/** True when `from`, the tables and conditions of a select, has a row. */
export async function anyOf(sql: Db, from: Fragment): Promise<boolean> {
  return await valueOf<boolean>(sql`select exists (select ${from})`);
}

/** Part of a list: `limit` rows behind the first `offset`. */
export interface Paging {
  limit: number;
  offset: number;
}

/** Number of the rows of `from`: the tables and conditions of a select. */
export async function countOf(sql: Db, from: Fragment): Promise<number> {
  return await valueOf<number>(sql`select count(*)::int ${from}`);
}

/** Part of a list, and the number of all its rows. */
export interface Listed<T> {
  rows: T[];
  total: number;
}

/** Reads `part` of the rows of `from`, and counts all of them at the same time. */
export async function listed<T>(sql: Db, from: Fragment, part: PromiseLike<T[]>): Promise<Listed<T>> {
  const [rows, total] = await Promise.all([part, countOf(sql, from)]);
  return { rows, total };
}

/** Keeps locks short and each statement below its time limit. */
const batch = 5_000;

/** Runs `step`, which deletes at most `limit` rows, until it deletes fewer. Returns their number. */
export async function deleteInBatches(step: (limit: number) => PendingQuery<Row[]>): Promise<number> {
  for (let total = 0; ;) {
    const { count: gone } = await step(batch);
    total += gone;
    if (gone < batch) return total;
  }
}

/** A value of COPY in text format; times as ISO strings. */
export type CopyValue = string | number | boolean | null;

/**
 * Writes a row for each item with the statement `copy … from stdin`: PostgreSQL logs the rows of a page in one record.
 */
export async function copyIn<T>(
  sql: Db,
  statement: PendingQuery<Row[]>,
  items: readonly T[],
  rowOf: (item: T) => readonly CopyValue[],
): Promise<void> {
  const lines: string[] = [];
  await forEachInTurns(items, (item) => void lines.push(`${rowOf(item).map(fieldOf).join("\t")}\n`));
  const stream = await statement.writable();
  // The client would send a CopyFail when the stream closes, also after its end.
  Object.assign(stream, { _destroy: (error: Error | null, done: (error: Error | null) => void) => done(error) });
  // Without it TCP keeps the end of the data back until the server has acknowledged the data: 40 ms.
  connectionOf(sql)?.peek().socket?.setNoDelay();
  const written = finished(stream);
  stream.end(lines.join(""));
  await written;
}

const fieldOf = (value: CopyValue): string =>
  value === null ? "\\N" : typeof value === "string" ? value.replace(special, (char) => escapes[char]!) : String(value);

const special = /[\\\t\n\r]/g;
const escapes: Record<string, string> = { "\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r" };

/** Resolves when the server has answered the shortest query. */
export async function ping(sql: Db): Promise<void> {
  await sql`select 1`;
}

/** Version of the server, like `15.4`. */
export async function serverVersion(sql: Db): Promise<string> {
  return await valueOf<string>(sql`select current_setting('server_version')`);
}

/** Clock of the server, Unix ms. */
export async function serverTime(sql: Db): Promise<number> {
  return await valueOf<number>(sql`select (extract(epoch from clock_timestamp()) * 1000)::float8`);
}

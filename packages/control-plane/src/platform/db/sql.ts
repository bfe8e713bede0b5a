import type { Fragment, Sql, TransactionSql, PendingQuery, Row } from "postgres";

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

/** Rows (key, free): the free places of keys, for a claim that limits what is in flight by key. */
export const freePlaces = (sql: Db, { all }: { all(): readonly { key: string; free: number }[] }) => {
  const places = all();
  return sql`
    select * from unnest(${places.map(({ key }) => key)}::text[], ${places.map(({ free }) => free)}::int[])
      as t (key, free)`;
};

/** Rows that are parsed in one turn of the event loop: 10,000 results took 75 ms. */
const portion = 1000;

/** The rows of a query with a long result, fetched in portions; smaller ones where a row has kilobytes. */
export async function inPortions<T extends Row>(query: PendingQuery<T[]>, size = portion): Promise<T[]> {
  const rows: T[] = [];
  await query.cursor(size, (part) => void rows.push(...(part as T[])));
  return rows;
}

/** Keeps locks short and each statement below its time limit. */
const batch = 5_000;

/** Calls `step`, which deletes at most `limit` rows and returns their number, until it deletes fewer. Returns all. */
export async function deleteInBatches(step: (limit: number) => Promise<number>, limit = batch): Promise<number> {
  for (let total = 0; ;) {
    const gone = await step(limit);
    total += gone;
    if (gone < limit) return total;
  }
}

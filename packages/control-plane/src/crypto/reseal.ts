import type { Sealer } from "./seal.ts";

/** One batch of a table whose rows hold sealed secrets, on their way to another key. */
export interface ResealedBatch {
  /** The id to go on after; null when this was the last batch. */
  readonly last: string | null;
  readonly seen: number;
  readonly changed: number;
  /** Rows that could not be opened, and why. */
  readonly failed: readonly { readonly id: string; readonly reason: string }[];
}

export interface Resealing<Row, Value> {
  sealer: Sealer;
  /** The rows of the batch, locked, in the order of ids. */
  rows: readonly Row[];
  /** How many a batch has at most: fewer are the last. */
  limit: number;
  /** The part of a row that is stored, with `change` applied to each of its secrets. */
  map(row: Row, change: (sealed: string, place: string) => string): Value;
  store(id: string, value: Value): Promise<void>;
}

/** Brings the secrets of the rows under the key in use, and stores the rows in which that changed one. */
export async function resealRows<Row extends { id: string }, Value>({
  sealer,
  rows,
  limit,
  map,
  store,
}: Resealing<Row, Value>): Promise<ResealedBatch> {
  let changed = 0;
  const failed: { id: string; reason: string }[] = [];
  for (const row of rows) {
    let stale = false;
    let value: Value;
    try {
      value = map(row, (sealed, place) => {
        const fresh = sealer.reseal(sealed, place);
        stale ||= fresh !== sealed;
        return fresh;
      });
    } catch (error) {
      failed.push({ id: row.id, reason: error instanceof Error ? error.message : String(error) });
      continue;
    }
    if (!stale) continue;
    await store(row.id, value);
    changed++;
  }
  return { last: rows.length === limit ? (rows.at(-1)?.id ?? null) : null, seen: rows.length, changed, failed };
}

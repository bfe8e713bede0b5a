import { messageOf } from "@statusmesh/shared/thrown";
import { inTransaction, type System } from "../context.ts";
import type { Db } from "../db/client/sql.ts";

/** The outcome of one batch of rows that were sealed again. */
export interface ResealedBatch {
  /** Cursor of the next batch; null after the last batch. */
  readonly last: string | null;
  readonly seen: number;
  readonly changed: number;
  /** Rows that could not be opened, with the reason. */
  readonly failed: readonly { readonly id: string; readonly reason: string }[];
}

/** Where sealed rows are stored, and which part of them is sealed. */
export interface SealedRows<Row, Value> {
  /** Up to `limit` rows after `after`, by id, locked until the transaction ends. */
  rows(sql: Db, after: string | null, limit: number): Promise<readonly Row[]>;
  /** The stored part of a row, with `change` applied to each secret. */
  map(row: Row, change: (sealed: string, place: string) => string): Value;
  store(sql: Db, id: string, value: Value): Promise<void>;
}

/**
 * Makes the function that seals the secrets of up to `limit` rows after `after`, by id, under the current key, and
 * stores the changed rows. For rotate-kek.
 */
export const resealer =
  <Row extends { id: string }, Value>({ rows, map, store }: SealedRows<Row, Value>) =>
  async (system: System, after: string | null, limit: number): Promise<ResealedBatch> =>
    await inTransaction(system, async ({ sql, sealer }) => {
      const batch = await rows(sql, after, limit);
      let changed = 0;
      const failed: { id: string; reason: string }[] = [];
      for (const row of batch) {
        let stale = false;
        let value: Value;
        try {
          value = map(row, (sealed, place) => {
            const fresh = sealer.reseal(sealed, place);
            stale ||= fresh !== sealed;
            return fresh;
          });
        } catch (error) {
          failed.push({ id: row.id, reason: messageOf(error) });
          continue;
        }
        if (!stale) continue;
        await store(sql, row.id, value);
        changed++;
      }
      // A smaller batch is the last.
      const last = batch.length === limit ? (batch.at(-1)?.id ?? null) : null;
      return { last, seen: batch.length, changed, failed };
    });

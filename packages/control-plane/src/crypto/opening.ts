import { randomUUID } from "node:crypto";
import { AppError } from "@statusmesh/shared/errors";
import { type Sealer, UnreadableSecret } from "./seal.ts";

/** Applies a change to every secret of a value and returns the copy, as the kinds of checks and channels do. */
type MapSecrets<Value> = (value: Value, change: (secret: string, pointer: string) => string) => Value;

/** A stored value with the secrets opened that can be. */
export interface PartlyOpened<Value> {
  readonly value: Value;
  /** True for what stands in place of a secret that could not be opened. */
  isClosed(secret: string): boolean;
}

/** Opens what can be opened. In place of the rest stands a text that nobody could have sent. `placeOf` is what each was sealed for. */
export function openPartly<Value>(
  sealer: Sealer,
  value: Value,
  mapSecrets: MapSecrets<Value>,
  placeOf: (pointer: string) => string,
): PartlyOpened<Value> {
  const closed = new Set<string>();
  const opened = mapSecrets(value, (sealed, pointer) => {
    try {
      return sealer.open(sealed, placeOf(pointer));
    } catch (error) {
      if (!(error instanceof UnreadableSecret)) throw error;
      const stand = `closed:${randomUUID()}`;
      closed.add(stand);
      return stand;
    }
  });
  return { value: opened, isClosed: (secret) => closed.has(secret) };
}

/** SECRET_UNREADABLE for the secret at `field`, a pointer into the body of a PATCH; the answer has it in its details. */
export const unreadable = (field: string, what: string, cause?: unknown): AppError =>
  new AppError(
    "SECRET_UNREADABLE",
    `The stored secret ${field} was sealed under a key that is not configured here, so ${what}. Send it anew or set it to null with a PATCH, or configure the key (security.credentials_kek_previous_base64).`,
    { field, cause },
  );

/** One batch of a table whose rows hold sealed secrets, looked at. */
export interface ReadBatch {
  /** The id to go on after; null when this was the last batch. */
  readonly last: string | null;
  readonly seen: number;
  readonly unreadable: number;
}

/** How many of the rows `open` throws for. `limit` is how many a batch has at most: fewer are the last. */
export function countUnreadable<Row extends { id: string }>(
  rows: readonly Row[],
  limit: number,
  open: (row: Row) => void,
): ReadBatch {
  let closed = 0;
  for (const row of rows) {
    try {
      open(row);
    } catch {
      closed++;
    }
  }
  return { last: rows.length === limit ? (rows.at(-1)?.id ?? null) : null, seen: rows.length, unreadable: closed };
}

import { randomUUID } from "node:crypto";
import { AppError } from "@statusmesh/shared/errors";
import { type Sealer, UnreadableSecret } from "./seal.ts";

/** Returns a copy of a value with `change` applied to every secret; `mapSecrets` of a check or channel kind. */
type MapSecrets<Value> = (value: Value, change: (secret: string, pointer: string) => string) => Value;

/** A stored value with every secret opened that can be opened. */
export interface PartlyOpened<Value> {
  readonly value: Value;
  /** True for the placeholder of a secret that could not be opened. */
  isClosed(secret: string): boolean;
}

/**
 * Opens the secrets that can be opened; a random placeholder replaces the others. `placeOf` names the place of each.
 */
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

/** SECRET_UNREADABLE for the secret at `field`, a pointer into the body of a PATCH; repeated in `details`. */
export const unreadable = (field: string, what: string, cause?: unknown): AppError =>
  new AppError(
    "SECRET_UNREADABLE",
    `The stored secret ${field} was sealed under a key that is not configured here, so ${what}. Send it ` +
      "anew or set it to null with a PATCH, or configure the key " +
      "(security.credentials_kek_previous_base64).",
    { field, cause },
  );

/** The outcome of one batch of rows with sealed secrets. */
export interface ReadBatch {
  /** Cursor of the next batch; null after the last batch. */
  readonly last: string | null;
  readonly seen: number;
  readonly unreadable: number;
}

/** Counts the rows for which `open` throws. `limit` is the batch size: a smaller batch is the last. */
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

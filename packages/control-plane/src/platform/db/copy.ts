import { finished } from "node:stream/promises";
import type { PendingQuery, Row } from "postgres";
import type { Connection } from "./beats.ts";
import type { Db } from "./sql.ts";

/** A value of COPY in text format; times as ISO strings. */
export type CopyValue = string | number | boolean | null;

/** Writes rows with the statement `copy … from stdin`: PostgreSQL logs the rows of a page in one record. */
export async function copyIn(
  sql: Db,
  statement: PendingQuery<Row[]>,
  rows: readonly (readonly CopyValue[])[],
): Promise<void> {
  const stream = await statement.writable();
  // The client would send a CopyFail when the stream closes, also after its end.
  Object.assign(stream, { _destroy: (error: Error | null, done: (error: Error | null) => void) => done(error) });
  // Without it TCP keeps the end of the data back until the server has acknowledged the data: 40 ms.
  (sql as unknown as { connection?: Connection }).connection?.peek().socket?.setNoDelay();
  const written = finished(stream);
  stream.end(rows.map((row) => `${row.map(fieldOf).join("\t")}\n`).join(""));
  await written;
}

const fieldOf = (value: CopyValue): string =>
  value === null ? "\\N" : typeof value === "string" ? value.replace(special, (char) => escapes[char]!) : String(value);

const special = /[\\\t\n\r]/g;
const escapes: Record<string, string> = { "\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r" };

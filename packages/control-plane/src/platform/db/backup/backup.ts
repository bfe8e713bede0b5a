import type { ISql, Sql } from "postgres";
import { StartupError } from "../../../config/startup-error.ts";
import { digest, type Entry, partBytes } from "./archive.ts";
import { openSession } from "../client/connect.ts";
import { columnOf, valueOf } from "../client/sql.ts";
import { columnList, quoted, type SequenceState, sequencesOf, type Table, tablesInOrder } from "./tables.ts";

export const backupFormat = 1;
export const manifestName = "manifest.json";
export const summaryName = "summary.json";

/** First entry of a backup: describes the others. */
export interface Manifest {
  readonly format: typeof backupFormat;
  readonly version: string;
  readonly created_at: string;
  /** Migrations that define the schema of the rows. */
  readonly migrations: readonly { readonly name: string; readonly sha256: string }[];
  readonly tables: readonly Table[];
  /** UTC days that have a partition of results, like 20261122. */
  readonly result_days: readonly string[];
}

/** Last entry. A backup without it is incomplete. */
export interface Summary {
  readonly tables: readonly { readonly name: string; readonly rows: number; readonly sha256: string }[];
  readonly sequences: readonly SequenceState[];
}

/** Name of the archive entry with a part of a table. */
export const partName = (table: string, part: number): string =>
  `tables/${table}/${String(part).padStart(6, "0")}.copy`;

/**
 * Yields the entries of a backup of the whole database: one snapshot, read in one repeatable-read transaction while the
 * service runs. Memory holds one part. The embedded PostgreSQL has no pg_dump; this works with every PostgreSQL.
 */
export async function* backupEntries(pool: Sql, about: { version: string; at: Date }): AsyncGenerator<Entry> {
  // The pool cannot keep a transaction open between the steps of a generator.
  const sql = openSession(pool);
  try {
    await sql`set idle_in_transaction_session_timeout = 0`;
    await sql`begin isolation level repeatable read read only`;
    const manifest = await readManifest(sql, about);
    yield { name: manifestName, content: json(manifest) };
    const tables: Summary["tables"][number][] = [];
    for (const table of manifest.tables) {
      const { add, hex } = digest();
      let [part, rows] = [0, 0];
      for await (const content of partsOf(sql, table)) {
        add(content);
        rows += newlines(content);
        yield { name: partName(table.name, part++), content };
      }
      tables.push({ name: table.name, rows, sha256: hex() });
    }
    yield { name: summaryName, content: json({ tables, sequences: await sequencesOf(sql) } satisfies Summary) };
  } finally {
    await sql.end({ timeout: 1 });
  }
}

async function readManifest(sql: ISql, { version, at }: { version: string; at: Date }): Promise<Manifest> {
  if (!(await valueOf<boolean>(sql`select to_regclass('schema_migrations') is not null`)))
    throw new StartupError("There is nothing to back up: no StatusMesh has used this database.");
  const migrations = await sql<Manifest["migrations"][number][]>`
    select name, sha256 from schema_migrations order by name`;
  const days = await columnOf<string>(sql`
    select substr(c.relname, 9) as day from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = to_regclass('results') and c.relname ~ '^results_[0-9]{8}$' and not i.inhdetachpending
    order by 1`);
  return {
    format: backupFormat,
    version,
    created_at: at.toISOString(),
    migrations: [...migrations],
    tables: await tablesInOrder(sql),
    result_days: days,
  };
}

/** Yields the rows of a table in COPY's text format, split at any byte. */
async function* partsOf(sql: Sql, table: Table): AsyncGenerator<Buffer> {
  const query = `copy (select ${columnList(table)} from ${quoted(table.name)}) to stdout`;
  let chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of (await sql.unsafe(query).readable()) as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    length += chunk.length;
    if (length < partBytes) continue;
    yield Buffer.concat(chunks);
    [chunks, length] = [[], 0];
  }
  if (length > 0) yield Buffer.concat(chunks);
}

/** Counts rows: each ends with a newline, and newlines in values are escaped (manual, COPY, "Text Format"). */
export function newlines(bytes: Buffer): number {
  let count = 0;
  for (let at = bytes.indexOf(10); at !== -1; at = bytes.indexOf(10, at + 1)) count++;
  return count;
}

const json = (value: object): Buffer => Buffer.from(`${JSON.stringify(value, null, 1)}\n`);

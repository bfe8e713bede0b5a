import type { Writable } from "node:stream";
import type { Sql } from "postgres";
import Type, { type TSchema } from "typebox";
import { Value } from "typebox/value";
import { StartupError } from "../../../config/startup-error.ts";
import { digest, type Entry } from "./archive.ts";
import { backupFormat, type Manifest, manifestName, newlines, partName, type Summary, summaryName } from "./backup.ts";
import { openSession } from "../client/connect.ts";
import { migrate, migrationsFolder, readMigrations } from "../migrate.ts";
import { ensurePartitions } from "../distributed/partitions.ts";
import { columnList, quoted, type Table, tablesInOrder } from "./tables.ts";

/**
 * Loads a backup into an empty database, in one transaction: a damaged or incomplete backup changes no rows. Creates
 * the schema of the backup first and runs the later migrations at the end. Returns the manifest and the summary. Throws
 * StartupError.
 */
export async function restoreEntries(
  pool: Sql,
  entries: AsyncIterable<Entry>,
  folder: string = migrationsFolder,
): Promise<{ manifest: Manifest; summary: Summary }> {
  const input = entries[Symbol.asyncIterator]();
  const first = await input.next();
  const manifest = parseManifest(first.done === true ? null : first.value);
  const [used] = await pool<{ used: boolean }[]>`select to_regclass('orgs') is not null as used`;
  if (used?.used === true) await requireEmpty(pool);
  await prepareSchema(pool, manifest, folder);
  for (const day of manifest.result_days) {
    const date = new Date(`${day.slice(0, 4)}-${day.slice(4, 6)}-${day.slice(6)}T00:00:00Z`);
    await ensurePartitions(pool, date, date);
  }
  const sql = openSession(pool);
  try {
    await sql`set idle_in_transaction_session_timeout = 0`;
    await sql`begin`;
    await requireEmpty(sql);
    // The backup also has the rows that migrations insert.
    const own = await tablesInOrder(sql);
    await sql.unsafe(`truncate ${own.map(({ name }) => quoted(name)).join(", ")}`);
    const summary = await load(sql, manifest, own, input);
    for (const { name, last } of summary.sequences)
      if (last !== null) await sql`select setval(${quoted(name)}::regclass, ${last}::text::bigint)`;
    await sql`commit`;
    await migrate(pool, folder);
    await sql`analyze`;
    return { manifest, summary };
  } finally {
    await sql.end({ timeout: 1 });
    await input.return?.(undefined);
  }
}

function parseManifest(entry: Entry | null): Manifest {
  const manifest = entry?.name === manifestName ? (parseJson(entry) as Partial<Manifest> | null) : null;
  if (typeof manifest?.format !== "number") throw new StartupError("This is no backup of StatusMesh.");
  if (manifest.format !== backupFormat)
    throw new StartupError(
      `The backup was written by StatusMesh ${manifest.version} in a format that this version does not support. ` +
        "Restore it with that version.",
    );
  if (!Value.Check(manifestShape, manifest))
    throw new StartupError(`The backup is damaged: ${manifestName} is invalid.`);
  return manifest;
}

/** The value of a JSON entry; null where it is no JSON. */
function parseJson({ content }: Entry): unknown {
  try {
    return JSON.parse(content.toString("utf8"));
  } catch {
    return null;
  }
}

const listOf = <T extends Record<string, TSchema>>(fields: T) => Type.Array(Type.Object(fields));
const manifestShape = Type.Object({
  format: Type.Literal(backupFormat),
  version: Type.String(),
  created_at: Type.String(),
  migrations: listOf({ name: Type.String(), sha256: Type.String() }),
  tables: listOf({ name: Type.String(), columns: Type.Array(Type.String()) }),
  // Each day is a partition: ten years have 3,653.
  result_days: Type.Array(Type.String({ pattern: "^2\\d{3}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\\d|3[01])$" }), {
    maxItems: 10_000,
  }),
});
const summaryShape = Type.Object({
  tables: listOf({ name: Type.String(), rows: Type.Number(), sha256: Type.String() }),
  sequences: listOf({ name: Type.String(), last: Type.Union([Type.String(), Type.Null()]) }),
});

/** Runs the migrations that the backup names. */
async function prepareSchema(pool: Sql, { migrations, version }: Manifest, folder: string): Promise<void> {
  const own = readMigrations(folder);
  for (const [index, { name, sha256 }] of migrations.entries()) {
    if (own[index]?.name === name && own[index].sha256 === sha256) continue;
    throw new StartupError(
      `The backup was written by StatusMesh ${version}, whose schema this version does not have (${name}). ` +
        "Restore it with that version or a later one.",
    );
  }
  const last = migrations.at(-1)?.name ?? "";
  await migrate(pool, folder, last);
  const [newer] = await pool<{ name: string }[]>`select name from schema_migrations where name > ${last} limit 1`;
  if (newer !== undefined)
    throw new StartupError(
      `The database has a newer schema than the backup (${newer.name}). ` +
        "Restore into a database that nothing has used yet.",
    );
}

async function requireEmpty(sql: Sql): Promise<void> {
  const [row] = await sql<{ orgs: number; users: number; targets: number }[]>`
    select (select count(*)::int from orgs) as orgs, (select count(*)::int from users) as users,
      (select count(*)::int from targets) as targets`;
  if (row!.orgs + row!.users + row!.targets > 0)
    throw new StartupError(
      `The database is not empty: it has ${row!.orgs} organisations, ${row!.users} users and ${row!.targets} ` +
        "monitors. Nothing was changed. Restore into an empty database.",
    );
}

async function load(
  sql: Sql,
  manifest: Manifest,
  own: readonly Table[],
  input: AsyncIterator<Entry>,
): Promise<Summary> {
  const known = new Set(own.map(({ name }) => name));
  let next = await input.next();
  const loaded: Summary["tables"][number][] = [];
  for (const table of manifest.tables) {
    if (!known.has(table.name)) throw new StartupError(`The backup is damaged: it has an unknown table ${table.name}.`);
    const { add, hex } = digest();
    let rows = 0;
    let stream: Writable | null = null;
    for (let part = 0; next.done !== true && next.value.name === partName(table.name, part); part++) {
      const { content } = next.value;
      add(content);
      rows += newlines(content);
      stream ??= await copyInto(sql, table);
      await write(stream, content);
      next = await input.next();
    }
    if (stream !== null) await end(stream);
    loaded.push({ name: table.name, rows, sha256: hex() });
  }
  if (next.done === true || next.value.name !== summaryName)
    throw new StartupError("The backup is damaged: it has parts that its manifest does not name. Nothing was changed.");
  const summary = parseJson(next.value);
  if (!Value.Check(summaryShape, summary))
    throw new StartupError(`The backup is damaged: ${summaryName} is invalid. Nothing was changed.`);
  for (const [index, { name, rows, sha256 }] of loaded.entries()) {
    const said = summary.tables[index];
    if (said?.name !== name || said.rows !== rows || said.sha256 !== sha256)
      throw new StartupError(`The backup is damaged: the table ${name} is not what was written. Nothing was changed.`);
  }
  return summary;
}

async function copyInto(sql: Sql, table: Table): Promise<Writable> {
  const stream = await sql.unsafe(`copy ${quoted(table.name)} (${columnList(table)}) from stdin`).writable();
  // Writes report their errors; the stream emits one more when the connection ends before the copy.
  return stream.on("error", () => {});
}

/** Resolves when the socket has accepted the bytes, so that memory holds one part. */
function write(stream: Writable, bytes: Buffer): Promise<void> {
  return new Promise((resolve, reject) => {
    stream.once("error", reject);
    stream.write(bytes, (error) => {
      stream.off("error", reject);
      if (error) reject(error);
      else resolve();
    });
  });
}

function end(stream: Writable): Promise<void> {
  return new Promise((resolve, reject) => {
    stream.once("error", reject);
    stream.end(() => resolve());
  });
}

import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Sql, TransactionSql } from "postgres";
import { messageOf } from "@statusmesh/shared/thrown";
import { StartupError } from "../../config/startup-error.ts";
import { allowTime } from "./client/connect.ts";
import { failureOf } from "./client/failures.ts";
import { lockKeys } from "./locks.ts";
import { valueOf } from "./client/sql.ts";

export interface Migration {
  /** The file name without its ending: `0001_initial`. */
  readonly name: string;
  readonly text: string;
  /** SHA-256 of the text, hex. */
  readonly sha256: string;
}

interface Recorded {
  name: string;
  sha256: string;
}

export const migrationsFolder = fileURLToPath(new URL("../../../migrations/", import.meta.url));

/** Returns the files `NNNN_name.sql` of a folder in order. Throws for another form of name or a repeated number. */
export function readMigrations(folder: string): Migration[] {
  const files = readdirSync(folder)
    .filter((file) => file.endsWith(".sql"))
    .sort();
  const numbers = new Set<string>();
  return files.map((file) => {
    const number = /^(\d{4})_[a-z0-9_]+\.sql$/.exec(file)?.[1];
    if (number === undefined) throw new StartupError(`The migration ${file} is not named NNNN_name.sql.`);
    if (numbers.has(number)) throw new StartupError(`Two migrations have the number ${number}.`);
    numbers.add(number);
    // A checkout may have changed the line ends.
    const text = readFileSync(join(folder, file), "utf8").replaceAll("\r\n", "\n");
    return { name: file.slice(0, -".sql".length), text, sha256: createHash("sha256").update(text).digest("hex") };
  });
}

/**
 * Brings the schema up to date, up to the migration `last` if given, and returns the names of the migrations that ran.
 * Each is one transaction, which takes an advisory lock and reads the recorded migrations: any number of processes may
 * start at once. Throws StartupError for a changed migration, or a database that is newer than this program.
 */
export async function migrate(sql: Sql, folder: string = migrationsFolder, last?: string): Promise<string[]> {
  const migrations = readMigrations(folder);
  const ran: string[] = [];
  for (;;) {
    const name = await sql.begin((tx) => runNext(tx, migrations, last));
    if (name === null) return ran;
    ran.push(name);
  }
}

/** Returns the names of the migrations that have not run. Throws StartupError like {@link migrate}. */
export async function pendingMigrations(sql: Sql): Promise<string[]> {
  const migrations = readMigrations(migrationsFolder);
  const isThere = await valueOf<boolean>(sql`select to_regclass('schema_migrations') is not null`);
  const done = isThere ? await sql<Recorded[]>`select name, sha256 from schema_migrations order by name` : [];
  firstPending(migrations, done);
  return migrations.slice(done.length).map(({ name }) => name);
}

async function runNext(tx: TransactionSql, migrations: readonly Migration[], last?: string): Promise<string | null> {
  await allowTime(tx, 0);
  await tx`select pg_advisory_xact_lock(${lockKeys.migrate})`;
  const next = firstPending(migrations, await recorded(tx));
  if (next === null || (last !== undefined && next.name > last)) return null;
  // A wait for a lock blocks all later queries of that table: fail, and be started again.
  await tx`set local lock_timeout = '10s'`;
  try {
    await tx.unsafe(next.text);
  } catch (error) {
    throw new StartupError(`The migration ${next.name} failed and was undone: ${messageOf(error)}`, {
      cause: error,
      temporary: failureOf(error) !== null,
    });
  }
  await tx`insert into schema_migrations (name, sha256) values (${next.name}, ${next.sha256})`;
  return next.name;
}

async function recorded(tx: TransactionSql): Promise<Recorded[]> {
  await tx`create table if not exists schema_migrations (
    name text primary key, sha256 text not null, ran_at timestamptz not null default now())`;
  return await tx<Recorded[]>`select name, sha256 from schema_migrations order by name`;
}

/** Returns the next migration, null for none. Throws StartupError when the two histories do not match. */
function firstPending(migrations: readonly Migration[], done: readonly Recorded[]): Migration | null {
  for (const [index, { name, sha256 }] of done.entries()) {
    const own = migrations[index];
    if (!migrations.some((migration) => migration.name === name)) {
      throw new StartupError(
        `The database is newer than this StatusMesh: it has the migration ${name}. Start that version or a later one.`,
      );
    }
    if (own?.name !== name)
      throw new StartupError(
        `The migration ${own?.name} has a lower number than ${name}, which has run already. Give it a higher one.`,
      );
    if (own.sha256 !== sha256)
      throw new StartupError(
        `The migration ${name} was changed after it had run on this database. ` +
          "Restore the file, and write the change as a new migration.",
      );
  }
  return migrations[done.length] ?? null;
}

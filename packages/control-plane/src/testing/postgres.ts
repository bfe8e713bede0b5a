import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import * as fs from "node:fs";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import postgres, { type Sql } from "postgres";
import { newId } from "@statusmesh/shared/ids";
import { openPool } from "../db/connect.ts";
import { migrate, migrationsFolder, readMigrations } from "../db/migrate.ts";
import { until } from "./clock.ts";
import { addressFile, startingFile, templateLock, testFolder, usersLock } from "./postgres-place.ts";

/** The part of a test that a fixture needs: undoing when the test is over. */
export interface Teardown {
  teardown(undo: () => unknown): void;
}

interface Server {
  path: string;
  username: string;
  password: string;
  /** One connection to the server's own database; it holds the lock that keeps the server alive. */
  session: Sql;
}

/** A migrated database of one test. */
export interface TestDatabase {
  readonly name: string;
  /** A small pool for preparing and asserting. */
  readonly sql: Sql;
  /** Another pool on it, ended with the test. */
  pool(max?: number): Sql;
  /** Environment of a control plane that uses it. The server has a Unix socket only, which a URL cannot name. */
  readonly env: Readonly<Record<"SM_DATABASE__URL" | "PGHOST" | "PGUSER" | "PGPASSWORD", string>>;
}

/** The process holds this connection, and the lock with it, for as long as it uses the server. */
const sessionOptions = {
  max: 1,
  idle_timeout: 0,
  max_lifetime: null,
  fetch_types: false,
  connect_timeout: 5,
  onnotice: () => undefined,
} as const;

let server: Promise<Server> | null = null;
let users = 0;

/** Content of a template database beside the schema. */
export interface Fixture {
  fill(sql: Sql): Promise<void>;
  /** Connections of a pool unless the caller says otherwise. */
  poolSize: number;
}

const schemaOnly: Fixture = { fill: async () => {}, poolSize: 4 };

/**
 * A fresh migrated database, filled by `fixture`, dropped after the test. All test files of a run share one PostgreSQL,
 * which the first of them starts and which ends a few seconds after the last.
 */
export async function cloneDatabase(t: Teardown, fixture: Fixture = schemaOnly): Promise<TestDatabase> {
  users++;
  const { session, ...address } = await (server ??= joinServer());
  const template = await ensureTemplate(session, address, fixture);
  const name = `t_${newId().replaceAll("-", "")}`;
  await session.unsafe(`create database ${name} template ${template}`);
  const pools: Sql[] = [];
  const pool = (max = fixture.poolSize): Sql => {
    const sql = openPool({ ...address, database: name }, { max });
    pools.push(sql);
    return sql;
  };
  t.teardown(async () => {
    await Promise.all(pools.map((sql) => sql.end({ timeout: 1 })));
    await session.unsafe(`drop database if exists ${name} with (force)`);
    if (--users > 0) return;
    server = null;
    await session.end({ timeout: 1 });
  });
  const env = {
    SM_DATABASE__URL: `postgres:///${name}`,
    PGHOST: dirname(address.path),
    PGUSER: address.username,
    PGPASSWORD: address.password,
  };
  return { name, sql: pool(), pool, env };
}

async function joinServer(): Promise<Server> {
  return await until(async () => (await connect()) ?? (startServer(), null), "the PostgreSQL of the test run", 60_000);
}

/** Connects to the running server and takes its shared lock; null when there is none or it is about to end. */
async function connect(): Promise<Server | null> {
  let address: Omit<Server, "session"> & { database: string };
  try {
    address = JSON.parse(fs.readFileSync(addressFile(testFolder), "utf8")) as typeof address;
  } catch {
    return null;
  }
  const session = postgres({ ...sessionOptions, ...address });
  try {
    const [row] = await session<{ shared: boolean }[]>`select pg_try_advisory_lock_shared(${usersLock}) as shared`;
    if (row?.shared === true) {
      const { path, username, password } = address;
      return { path, username, password, session };
    }
  } catch {
    // The server of an earlier run was killed and left its address.
    fs.rmSync(addressFile(testFolder), { force: true });
  }
  await session.end({ timeout: 0 });
  return null;
}

/** A start that takes longer is tried again by another process. */
const startingMs = 20_000;

/** Starts the server in its own process, unless another test process is starting it. */
function startServer(): void {
  const mark = startingFile(testFolder);
  fs.mkdirSync(testFolder, { recursive: true });
  const since = fs.statSync(mark, { throwIfNoEntry: false })?.mtimeMs;
  if (since !== undefined && Date.now() - since < startingMs) return;
  fs.rmSync(mark, { force: true });
  try {
    fs.writeFileSync(mark, String(process.pid), { flag: "wx" });
  } catch {
    return;
  }
  const child = spawn(process.execPath, [fileURLToPath(new URL("postgres-server.js", import.meta.url)), testFolder], {
    detached: true,
    stdio: "ignore",
  });
  child.unref();
}

/** Name of the database that tests copy; there is one for each state of the migrations and each fixture. */
async function ensureTemplate(session: Sql, address: Omit<Server, "session">, { fill }: Fixture): Promise<string> {
  const migrations = readMigrations(migrationsFolder).map((migration) => migration.sha256);
  const state = [...migrations, String(fill)].join();
  const name = `template_${createHash("sha256").update(state).digest("hex").slice(0, 16)}`;
  await session`select pg_advisory_lock(${templateLock})`;
  try {
    const [ready] = await session`select 1 from pg_database where datname = ${name}`;
    if (ready !== undefined) return name;
    const draft = `${name}_draft`;
    await session.unsafe(`drop database if exists ${draft} with (force)`);
    await session.unsafe(`create database ${draft}`);
    const sql = openPool({ ...address, database: draft }, { max: 1 });
    try {
      await migrate(sql);
      await fill(sql);
    } finally {
      await sql.end({ timeout: 5 });
    }
    // The name appears only once the database is complete, also when a process is killed before.
    await session.unsafe(`alter database ${draft} rename to ${name}`);
    return name;
  } finally {
    await session`select pg_advisory_unlock(${templateLock})`;
  }
}

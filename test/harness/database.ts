import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import * as fs from "node:fs";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import postgres, { type Sql } from "postgres";
import { openPool } from "@statusmesh/control-plane/db/connect";
import { migrate, migrationsFolder, readMigrations } from "@statusmesh/control-plane/db/migrate";
import { newId } from "@statusmesh/shared/ids";
import { addressFile, startingFile, templateLock, testFolder, usersLock } from "./database-place.ts";
import type { Teardown } from "./folder.ts";
import { waitFor } from "./wait.ts";

interface Server {
  path: string;
  username: string;
  password: string;
  /** One connection to the server's own database; it holds the lock that keeps the server alive. */
  session: Sql;
}

/** A migrated database of one test file. */
export interface TestDatabase {
  readonly name: string;
  /** A small pool for looking and for preparing. */
  readonly sql: Sql;
  /** Another pool on it, ended with the test. */
  pool(max?: number): Sql;
  /** What a control plane needs in its environment to use it. The server has a Unix socket only, which a URL cannot name. */
  readonly env: Readonly<Record<"SM_DATABASE__URL" | "PGHOST" | "PGUSER" | "PGPASSWORD", string>>;
}

/** Held for as long as the process uses the server: the client must not give it up by itself. */
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

/**
 * A fresh, empty, migrated database, dropped after the test. All test files of a run share one PostgreSQL, which the
 * first of them starts and which ends by itself a few seconds after the last.
 */
export async function cloneDatabase(t: Teardown): Promise<TestDatabase> {
  users++;
  const { session, ...address } = await (server ??= joinServer());
  const template = await ensureTemplate(session, address);
  const name = `t_${newId().replaceAll("-", "")}`;
  await session.unsafe(`create database ${name} template ${template}`);
  const pools: Sql[] = [];
  const pool = (max = 4): Sql => {
    const sql = openPool({ ...address, database: name }, { max });
    pools.push(sql);
    return sql;
  };
  const database: TestDatabase = {
    name,
    sql: pool(),
    pool,
    env: {
      SM_DATABASE__URL: `postgres:///${name}`,
      PGHOST: dirname(address.path),
      PGUSER: address.username,
      PGPASSWORD: address.password,
    },
  };
  t.teardown(async () => {
    await Promise.all(pools.map((sql) => sql.end({ timeout: 1 })));
    await session.unsafe(`drop database if exists ${name} with (force)`);
    if (--users > 0) return;
    server = null;
    await session.end({ timeout: 1 });
  });
  return database;
}

async function joinServer(): Promise<Server> {
  return await waitFor("the PostgreSQL of the test run", async () => (await connect()) ?? (startServer(), null), {
    ms: 60_000,
    everyMs: 100,
  });
}

/** Connects to the running server and takes a share in it; null when there is none or it is about to end. */
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
    // The server of an earlier run that did not end well: its address leads nowhere.
    fs.rmSync(addressFile(testFolder), { force: true });
  }
  await session.end({ timeout: 0 });
  return null;
}

/** How long a start may take before another process tries. */
const startingMs = 20_000;

/** Starts the server in a process of its own, unless another test process has just done so. */
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
  const child = spawn(process.execPath, [fileURLToPath(new URL("database-server.js", import.meta.url)), testFolder], {
    detached: true,
    stdio: "ignore",
  });
  child.unref();
}

/** The migrated database that the others are copied from, one for each state of the migrations. */
async function ensureTemplate(session: Sql, address: Omit<Server, "session">): Promise<string> {
  const state = readMigrations(migrationsFolder)
    .map((migration) => migration.sha256)
    .join();
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
    } finally {
      await sql.end({ timeout: 5 });
    }
    // Under its name it is complete, whoever was killed in between.
    await session.unsafe(`alter database ${draft} rename to ${name}`);
    return name;
  } finally {
    await session`select pg_advisory_unlock(${templateLock})`;
  }
}

import { spawn } from "node:child_process";
import * as fs from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import postgres, { type Sql } from "postgres";
import type { Log } from "../log.ts";
import { StartupError } from "../startup-error.ts";
import type { DatabaseAddress } from "./connect.ts";
import { findBinaries, type Binaries } from "./embedded-binaries.ts";
import { secureStopped, writeAccess } from "./embedded-access.ts";
import {
  ensureCluster,
  type Folder,
  prepareFolder,
  removeLeftovers,
  socketFolder,
  socketPath,
  writeSettings,
} from "./embedded-folder.ts";
import { ensurePassword, isSecretOf, readPassword, scramSecret, setPassword, superuser } from "./embedded-password.ts";
import { removeForeignPid, runningServer, signalTo } from "./embedded-process.ts";
import { serverEnv } from "./embedded-tools.ts";
import { lockKeys } from "./locks.ts";

/** Crash recovery of a large write-ahead log precedes the first connection. */
const startDeadlineMs = 60_000;
/** The server releases the lock of a killed process when it reads the end of its socket. */
const lockPatienceMs = 1500;
const stopDeadlineMs = 5000;
const logLimitBytes = 5_000_000;
const database = "statusmesh";

export interface Embedded {
  /** For openPool and openDatabase. */
  readonly address: DatabaseAddress;
  /** Shuts the server down within 5 s; open connections are ended. */
  stop(): Promise<void>;
}

export interface EmbeddedOptions {
  /** `data.dir`; the cluster is in its folder `postgres`. */
  dataDir: string;
  log: Log;
  /** Use the server of a running StatusMesh instead of refusing: for commands. */
  join?: boolean;
}

/**
 * Starts the bundled PostgreSQL on a data folder, or adopts one that a killed process left running. Restarts it after a
 * crash, until `stop`. One process at a time holds a data folder. Throws StartupError.
 */
export async function startEmbedded({ dataDir, log, join: joins = false }: EmbeddedOptions): Promise<Embedded> {
  const binaries = findBinaries();
  const folder = prepareFolder(dataDir, binaries);
  await ensureCluster(folder, binaries);
  const server = makeServer(folder, binaries, log);
  let stopping = false;
  let recovery: Promise<void> | null = null;
  const onLoss = () => {
    if (!stopping) recovery = recover();
  };
  let session = await server.open(onLoss, () => stopping);

  let held = await takeLock(session.sql);
  for (
    const patience = performance.now() + lockPatienceMs;
    !held && !joins && performance.now() < patience;
    held = await takeLock(session.sql)
  )
    await sleep(50);
  if (!held) {
    const holder = await lockHolder(session.sql);
    stopping = true;
    await session.sql.end({ timeout: 0 });
    if (joins) return { address: server.address(), stop: async () => {} };
    throw new StartupError(
      `Another StatusMesh${holder === null ? "" : ` (${holder})`} already uses the data folder ${folder.dataDir}: ` +
        "stop it, or set data.dir (SM_DATA__DIR) to another folder.",
      // During a restart the previous process may still hold the folder.
      { temporary: true },
    );
  }
  const capping = setInterval(() => capLog(folder.logFile), 60_000).unref();
  const embedded: Embedded = {
    address: server.address(),
    async stop() {
      if (stopping) return;
      stopping = true;
      clearInterval(capping);
      await recovery;
      await server.stop();
      await session.sql.end({ timeout: 0 });
    },
  };

  /** The connection with the lock ends with the server, which shows a crash, also of an adopted server. */
  async function recover(): Promise<void> {
    while (!stopping) {
      log.error({ log: folder.logFile }, "the embedded PostgreSQL ended, starting it again");
      try {
        session = await server.open(onLoss, () => stopping);
        if (!(await takeLock(session.sql)))
          log.error({ folder: folder.dataDir }, "another StatusMesh has taken the data folder");
        return;
      } catch (error) {
        if (!stopping)
          log.error(
            { reason: error instanceof Error ? error.message : String(error) },
            "the embedded PostgreSQL does not start",
          );
        await sleep(stopping ? 0 : 1000);
      }
    }
  }

  try {
    await secureRunning(session.sql, folder);
    removeLeftovers(folder.dataDir);
    const [existing] = await session.sql`select 1 from pg_database where datname = ${database}`;
    if (existing === undefined) await session.sql`create database ${session.sql(database)}`;
  } catch (error) {
    await embedded.stop();
    throw error;
  }
  return embedded;
}

/**
 * Sets the password of a running server before requiring it, so that a kill in between leaves a server that the next
 * process can use. Earlier versions used trust. Always reloads the rules: a killed process may have written them only.
 */
async function secureRunning(sql: Sql, folder: Folder): Promise<void> {
  const password = ensurePassword(folder.dataDir, folder.keeper);
  const [role] = await sql<{ secret: string | null }[]>`
    select rolpassword as secret from pg_authid where rolname = ${superuser}`;
  if (!isSecretOf(role?.secret ?? null, password)) await sql.unsafe(setPassword(scramSecret(password)));
  writeAccess(folder, "scram-sha-256");
  await sql`select pg_reload_conf()`;
}

async function takeLock(sql: Sql): Promise<boolean> {
  const [row] = await sql<{ held: boolean }[]>`select pg_try_advisory_lock(${lockKeys.dataFolder}) as held`;
  return row?.held === true;
}

async function lockHolder(sql: Sql): Promise<string | null> {
  const [row] = await sql<{ name: string }[]>`
    select a.application_name as name from pg_locks l join pg_stat_activity a using (pid)
    where l.locktype = 'advisory' and l.objid = ${lockKeys.dataFolder} and l.granted`;
  return row?.name ?? null;
}

function makeServer(folder: Folder, binaries: Binaries, log: Log) {
  const { dataDir, pgdata, logFile, owner } = folder;
  // Read for every connection, because another process may set the password while a pool is open.
  const password = (): string => readPassword(dataDir) ?? "";
  let socketDir = pgdata;
  /** The last server that this process started. */
  let launched: { pid: number | undefined; ended: boolean } | null = null;

  function launch(): void {
    socketDir = socketFolder(folder);
    writeSettings(folder, socketDir);
    capLog(logFile);
    const output = fs.openSync(logFile, "a", 0o600);
    // Detached: Ctrl-C signals the whole process group, and the database must end last.
    // listen_addresses is on the command line, where postgres.conf cannot change it.
    const child = spawn(binaries.postgres, ["-D", pgdata, "-c", "listen_addresses="], {
      ...owner,
      detached: true,
      cwd: pgdata,
      env: serverEnv,
      stdio: ["ignore", output, output],
    });
    fs.closeSync(output);
    const state = { pid: child.pid, ended: false };
    child.on("error", () => (state.ended = true));
    child.on("exit", () => (state.ended = true));
    child.unref();
    launched = state;
  }

  /** Connects to the maintenance database, without time limits. Starts a server when none runs. */
  async function open(onLoss: () => void, unwanted: () => boolean): Promise<{ sql: Sql }> {
    const deadline = performance.now() + startDeadlineMs;
    let failures = 0;
    let adopted = true;
    for (let pause = 5; performance.now() < deadline; await sleep(pause)) {
      if (unwanted()) throw new StartupError("The start of the embedded PostgreSQL was cancelled.");
      const running = runningServer(pgdata);
      if (running !== null) socketDir = running.socketDir;
      else if (launched === null || launched.ended) {
        if (!adopted && ++failures === 3)
          throw new StartupError(`The embedded PostgreSQL does not start: ${lastComplaint(logFile)} (${logFile})`);
        await sleep(200 * failures);
        removeForeignPid(pgdata, !adopted);
        if (await secureStopped(folder, binaries)) launch();
        adopted = false;
      }
      const sql = await tryConnect(socketPath(socketDir), password, onLoss);
      if (sql !== null) {
        if (adopted) log.info({ pid: running?.pid }, "the embedded PostgreSQL was running already");
        return { sql };
      }
      pause = Math.min(pause * 1.2, 100);
    }
    throw new StartupError(
      `The embedded PostgreSQL did not answer within ${startDeadlineMs / 1000} s: ` +
        `${lastComplaint(logFile)} (${logFile})`,
    );
  }

  async function stop(): Promise<void> {
    // A server that has just started may not have written postmaster.pid yet.
    const own = launched !== null && !launched.ended ? launched : null;
    const pid = runningServer(pgdata)?.pid ?? own?.pid;
    if (pid === undefined) return;
    const gone = () => (own?.pid === pid ? own.ended : runningServer(pgdata)?.pid !== pid);
    const started = performance.now();
    // The signals of pg_ctl stop -m fast and -m immediate. Committed transactions survive both.
    for (const [signal, until] of [
      ["SIGINT", stopDeadlineMs - 1000],
      ["SIGQUIT", stopDeadlineMs],
    ] as const) {
      signalTo(pid, signal);
      while (performance.now() - started < until) {
        if (gone()) return;
        await sleep(10);
      }
    }
    log.warn({ pid }, "the embedded PostgreSQL did not stop in time");
  }

  return {
    open,
    stop,
    address: (): DatabaseAddress => ({ path: socketPath(socketDir), database, username: superuser, password }),
  };
}

/** Returns a connection; null when the server does not run, is starting or is stopping. */
async function tryConnect(path: string, password: () => string, onLoss: () => void): Promise<Sql | null> {
  let established = false;
  const sql = postgres({
    path,
    username: superuser,
    password,
    database: "postgres",
    max: 1,
    idle_timeout: 0,
    max_lifetime: null,
    fetch_types: false,
    connection: { application_name: `process ${process.pid}` },
    onnotice: () => {},
    onclose: () => {
      if (established) {
        established = false;
        onLoss();
      }
    },
  });
  try {
    await sql`select 1`;
    established = true;
    return sql as unknown as Sql;
  } catch (error) {
    await sql.end({ timeout: 0 });
    const { code = "" } = error as { code?: string };
    if (["ENOENT", "ECONNREFUSED", "ECONNRESET", "EPIPE", "CONNECTION_CLOSED", "57P03", "57P01"].includes(code))
      return null;
    if (code === "28P01")
      throw new StartupError(
        "The embedded PostgreSQL refuses the password in postgres.password of the data folder. Put the right file " +
          "back; or stop StatusMesh and that server, remove the file, and start again: a new password is set.",
      );
    throw new StartupError(
      `The embedded PostgreSQL refuses connections: ${error instanceof Error ? error.message : String(error)}`,
      { cause: error },
    );
  }
}

/** Moves a large log to `<file>.1`. The server appends, so that truncating the file is safe. */
function capLog(file: string): void {
  if ((fs.statSync(file, { throwIfNoEntry: false })?.size ?? 0) <= logLimitBytes) return;
  fs.copyFileSync(file, `${file}.1`);
  fs.truncateSync(file);
}

function lastComplaint(file: string): string {
  const lines = fs.existsSync(file) ? fs.readFileSync(file, "utf8").split("\n") : [];
  const line = lines.findLast((text) => /FATAL|PANIC|could not|cannot|error/.test(text)) ?? "it left no message";
  return line.replace(/^.*?(FATAL|PANIC):\s*/, "");
}

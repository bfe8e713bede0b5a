import { spawn } from "node:child_process";
import * as fs from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import type { Sql } from "postgres";
import { minuteMs } from "@statusmesh/shared/time";
import { messageOf } from "@statusmesh/shared/thrown";
import type { Log } from "../../process/log.ts";
import { StartupError } from "../../../config/startup-error.ts";
import type { DatabaseAddress } from "../client/connect.ts";
import { openClient } from "../client/driver.ts";
import type { Binaries } from "./binaries.ts";
import { type Folder, secureStopped } from "./access.ts";
import { socketFolder, socketPath, writeSettings } from "./folder.ts";
import { readPassword, superuser } from "./password.ts";
import { removeForeignPid, runningServer, signalTo } from "./process.ts";
import { serverEnv } from "./tools.ts";

/** Crash recovery of a large write-ahead log precedes the first connection. */
const startDeadlineMs = minuteMs;
const stopDeadlineMs = 5000;
const logLimitBytes = 5_000_000;
export const database = "statusmesh";

/** The server process of a cluster, started by this process or by a killed one. */
export interface Server {
  /**
   * Connects to the maintenance database, without time limits. Starts a server when none runs. `onLoss` is called when
   * the connection is lost; `unwanted` cancels the start.
   */
  open(onLoss: () => void, unwanted: () => boolean): Promise<{ sql: Sql }>;
  /** Stops the server within 5 s. */
  stop(): Promise<void>;
  address(): DatabaseAddress;
}

/** A server that this process has started. */
interface Launched {
  pid: number | undefined;
  ended: boolean;
}

export function makeServer(folder: Folder, binaries: Binaries, log: Log): Server {
  const { dataDir, pgdata, logFile } = folder;
  // Read for every connection, because another process may set the password while a pool is open.
  const password = (): string => readPassword(dataDir) ?? "";
  let socketDir = pgdata;
  /** The last one. */
  let launched: Launched | null = null;

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
        if (await secureStopped(folder, binaries)) {
          socketDir = socketFolder(folder);
          launched = launch(folder, binaries, socketDir);
        }
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

  return {
    open,
    stop: () => stopServer(pgdata, launched, log),
    address: () => ({ path: socketPath(socketDir), database, username: superuser, password }),
  };
}

/** Starts the server, whose end `ended` shows. */
function launch(folder: Folder, { postgres: program }: Binaries, socketDir: string): Launched {
  const { pgdata, logFile, owner } = folder;
  writeSettings(folder, socketDir);
  capLog(logFile);
  const output = fs.openSync(logFile, "a", 0o600);
  // Detached: Ctrl-C signals the whole process group, and the database must end last.
  // listen_addresses is on the command line, where postgres.conf cannot change it.
  const child = spawn(program, ["-D", pgdata, "-c", "listen_addresses="], {
    ...owner,
    detached: true,
    cwd: pgdata,
    env: serverEnv,
    stdio: ["ignore", output, output],
  });
  fs.closeSync(output);
  const state: Launched = { pid: child.pid, ended: false };
  child.on("error", () => (state.ended = true));
  child.on("exit", () => (state.ended = true));
  child.unref();
  return state;
}

async function stopServer(pgdata: string, launched: Launched | null, log: Log): Promise<void> {
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

/** Returns a connection; null when the server does not run, is starting or is stopping. */
async function tryConnect(path: string, password: () => string, onLoss: () => void): Promise<Sql | null> {
  let established = false;
  const sql = openClient({
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
    return sql;
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
    throw new StartupError(`The embedded PostgreSQL refuses connections: ${messageOf(error)}`, { cause: error });
  }
}

/** Moves a large log to `<file>.1`. The server appends, so that truncating the file is safe. */
export function capLog(file: string): void {
  if ((fs.statSync(file, { throwIfNoEntry: false })?.size ?? 0) <= logLimitBytes) return;
  fs.copyFileSync(file, `${file}.1`);
  fs.truncateSync(file);
}

function lastComplaint(file: string): string {
  const lines = fs.existsSync(file) ? fs.readFileSync(file, "utf8").split("\n") : [];
  const line = lines.findLast((text) => /FATAL|PANIC|could not|cannot|error/.test(text)) ?? "it left no message";
  return line.replace(/^.*?(FATAL|PANIC):\s*/, "");
}

import { dirname } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Sql } from "postgres";
import { messageOf } from "@statusmesh/shared/thrown";
import type { Log } from "../../process/log.ts";
import { StartupError } from "../../../config/startup-error.ts";
import type { DatabaseAddress } from "../client/connect.ts";
import { findBinaries } from "./binaries.ts";
import { type Folder, writeAccess } from "./access.ts";
import { ensureCluster, prepareFolder, removeLeftovers } from "./folder.ts";
import { ensurePassword, isSecretOf, scramSecret, setPassword, superuser } from "./password.ts";
import { outsideFolder } from "./reach.ts";
import { capLog, database, makeServer } from "./server.ts";
import { lockKeys } from "../locks.ts";
import { valueOf } from "../client/sql.ts";

/** The server releases the lock of a killed process when it reads the end of its socket. */
const lockPatienceMs = 1500;

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
  /** Parent of the cluster and its programs where PostgreSQL's account cannot enter the data folder. */
  outside?: string;
}

/**
 * Starts the bundled PostgreSQL on a data folder, or adopts one that a killed process left running. Restarts it after a
 * crash, until `stop`. One process at a time holds a data folder. Throws StartupError.
 */
export async function startEmbedded(options: EmbeddedOptions): Promise<Embedded> {
  const { dataDir, log, join: joins = false, outside = outsideFolder } = options;
  const { binaries, ...folder } = prepareFolder(dataDir, findBinaries(), outside);
  if (dirname(folder.pgdata) !== folder.dataDir)
    log.info(
      { folder: folder.pgdata },
      "the database is outside of the data folder, which PostgreSQL's account cannot enter",
    );
  await ensureCluster(folder, binaries);
  const server = makeServer(folder, binaries, log);
  let stopping = false;
  let recovery: Promise<void> | null = null;
  const onLoss = () => {
    if (!stopping) recovery = recover();
  };
  let session = await server.open(onLoss, () => stopping);

  if (!(await takeLock(session.sql, joins ? 0 : lockPatienceMs))) {
    const taken = folderTaken(folder, await lockHolder(session.sql));
    stopping = true;
    await session.sql.end({ timeout: 0 });
    if (joins) return { address: server.address(), stop: async () => {} };
    throw taken;
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
        if (!(await takeLock(session.sql, 0)))
          log.error({ folder: folder.dataDir }, "another StatusMesh has taken the data folder");
        return;
      } catch (error) {
        if (!stopping) log.error({ reason: messageOf(error) }, "the embedded PostgreSQL does not start");
        await sleep(stopping ? 0 : 1000);
      }
    }
  }

  try {
    await secureRunning(session.sql, folder);
    removeLeftovers(folder);
    await ensureDatabase(session.sql);
  } catch (error) {
    await embedded.stop();
    throw error;
  }
  return embedded;
}

/**
 * Sets the password of a running server before requiring it, so that a kill in between leaves a server that the next
 * process can use. Always reloads the rules: a killed process may have written them only.
 */
async function secureRunning(sql: Sql, folder: Folder): Promise<void> {
  const password = ensurePassword(folder.dataDir, folder.keeper);
  const [role] = await sql<{ secret: string | null }[]>`
    select rolpassword as secret from pg_authid where rolname = ${superuser}`;
  if (!isSecretOf(role?.secret ?? null, password)) await sql.unsafe(setPassword(scramSecret(password)));
  writeAccess(folder, "scram-sha-256");
  await sql`select pg_reload_conf()`;
}

async function ensureDatabase(sql: Sql): Promise<void> {
  const [existing] = await sql`select 1 from pg_database where datname = ${database}`;
  if (existing === undefined) await sql`create database ${sql(database)}`;
}

/** Takes the lock of the data folder; false when another process still holds it after `patienceMs`. */
async function takeLock(sql: Sql, patienceMs: number): Promise<boolean> {
  for (const until = performance.now() + patienceMs; ; await sleep(50)) {
    if (await valueOf<boolean>(sql`select pg_try_advisory_lock(${lockKeys.dataFolder})`)) return true;
    if (performance.now() >= until) return false;
  }
}

const folderTaken = (folder: Folder, holder: string | null): StartupError =>
  new StartupError(
    `Another StatusMesh${holder === null ? "" : ` (${holder})`} already uses the data folder ${folder.dataDir}: ` +
      "stop it, or set data.dir (SM_DATA__DIR) to another folder.",
    // During a restart the previous process may still hold the folder.
    { temporary: true },
  );

async function lockHolder(sql: Sql): Promise<string | null> {
  return await valueOf<string | null>(sql`
    select a.application_name as name from pg_locks l join pg_stat_activity a using (pid)
    where l.locktype = 'advisory' and l.objid = ${lockKeys.dataFolder} and l.granted`);
}

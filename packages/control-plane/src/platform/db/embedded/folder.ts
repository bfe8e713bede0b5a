import { createHash, randomBytes } from "node:crypto";
import * as fs from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { codeOf, messageOf } from "@statusmesh/shared/thrown";
import { StartupError } from "../../../config/startup-error.ts";
import { type Folder, writeAccess } from "./access.ts";
import type { Binaries } from "./binaries.ts";
import { ensurePassword, scramSecret, superuser } from "./password.ts";
import { closedFolder, clusterOf, mayEnter, placeOutside, reachablePrograms, unreachable } from "./reach.ts";
import { replaceFile, run } from "./tools.ts";

/** User id of "nobody". PostgreSQL refuses to run as root, and runs as this user then. */
const unprivileged = 65_534;
/** sun_path has 108 bytes on Linux and 104 on macOS, with the final zero. */
const socketPathLimit = 103;
const socketName = ".s.PGSQL.5432";

/**
 * Creates the data folder if needed, and chooses the user of PostgreSQL and a cluster and programs that it can reach.
 * Throws StartupError.
 */
export function prepareFolder(dir: string, installed: Binaries, outside: string): Folder & { binaries: Binaries } {
  let dataDir: string;
  try {
    makeFolder(dir);
    dataDir = fs.realpathSync(dir);
    // Permission bits do not show a read-only file system, and do not apply to root.
    const probe = join(dataDir, `.write-${randomBytes(6).toString("hex")}`);
    fs.writeFileSync(probe, "");
    fs.rmSync(probe);
  } catch (error) {
    throw new StartupError(
      `The data folder ${dir} cannot be written (${codeOf(error)}): ` +
        "set data.dir (SM_DATA__DIR) to a folder that this user may write.",
      { cause: error },
    );
  }
  let pgdata = clusterOf(dataDir);
  const holder = fs.statSync(pgdata, { throwIfNoEntry: false });
  const self = process.getuid?.() ?? 0;
  if (self !== 0 && holder !== undefined && holder.uid !== self) {
    throw new StartupError(
      `The folder ${pgdata} belongs to user id ${holder.uid}, and StatusMesh runs as ${self}: ` +
        `run it as that user, or as root give the folder away with "chown -R ${self} ${pgdata}".`,
    );
  }
  const owner =
    self !== 0
      ? {}
      : holder !== undefined && holder.uid !== 0
        ? { uid: holder.uid, gid: holder.gid }
        : { uid: unprivileged, gid: unprivileged };
  let binaries = installed;
  if (owner.uid !== undefined) {
    if (!mayEnter(dataDir, owner)) fs.chmodSync(dataDir, fs.statSync(dataDir).mode | 0o001);
    const closed = closedFolder(dirname(pgdata), owner);
    if (closed !== null) {
      // The cluster of a folder that was open before: it may be large, so a person moves it.
      if (holder !== undefined) throw unreachable(closed, owner, `Move ${pgdata}`);
      pgdata = placeOutside(dataDir, owner, outside);
    }
    binaries = reachablePrograms(installed, pgdata, owner, outside);
  }
  return { dataDir, pgdata, logFile: join(dataDir, "postgres.log"), owner, keeper: keeperOf(dataDir, self), binaries };
}

/**
 * When root runs a command in the data folder of a service account, the password file belongs to that account. It never
 * belongs to "nobody", which other programs use too.
 */
function keeperOf(dataDir: string, self: number): number | null {
  const holder = fs.statSync(dataDir).uid;
  return self !== 0 || holder === 0 || holder === unprivileged ? null : holder;
}

/** Like mkdir -p. The one of Node 20 never returns when a parent is a dangling link, as to an unmounted disk. */
function makeFolder(dir: string): void {
  if (fs.existsSync(dir)) return;
  if (dirname(dir) !== dir) makeFolder(dirname(dir));
  try {
    fs.mkdirSync(dir);
  } catch (error) {
    if (!fs.statSync(dir, { throwIfNoEntry: false })?.isDirectory()) throw error;
  }
}

/** Creates the cluster if there is none. A kill, or another process at the same time, leaves no incomplete one. */
export async function ensureCluster(folder: Folder, { initdb, major }: Binaries): Promise<void> {
  const { dataDir, pgdata, owner, keeper } = folder;
  const versionFile = join(pgdata, "PG_VERSION");
  if (!fs.existsSync(versionFile)) {
    const fresh = join(dirname(pgdata), `postgres.new-${process.pid}-${randomBytes(4).toString("hex")}`);
    const secretFile = `${fresh}.secret`;
    try {
      // initdb stores a SCRAM secret unchanged. It is no password, so that the user of the database may read it.
      fs.writeFileSync(secretFile, scramSecret(ensurePassword(dataDir, keeper)), { flag: "wx", mode: 0o644 });
      fs.mkdirSync(fresh, { mode: 0o700 });
      if (owner.uid !== undefined) fs.chownSync(fresh, owner.uid, owner.gid!);
      const locale = ["--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"];
      await run(
        initdb,
        [
          "-D",
          fresh,
          `--username=${superuser}`,
          `--pwfile=${secretFile}`,
          "--auth-local=scram-sha-256",
          "--auth-host=reject",
          "--no-instructions",
          ...locale,
        ],
        { ...owner, cwd: fresh },
      );
      writeAccess({ ...folder, pgdata: fresh }, "scram-sha-256");
      fs.renameSync(fresh, pgdata);
    } catch (error) {
      if (!fs.existsSync(versionFile))
        throw error instanceof StartupError
          ? error
          : new StartupError(`The database folder ${pgdata} cannot be made: ${messageOf(error)}`, { cause: error });
    } finally {
      fs.rmSync(fresh, { recursive: true, force: true });
      fs.rmSync(secretFile, { force: true });
    }
  }
  const version = fs.readFileSync(versionFile, "utf8").trim();
  if (version !== major)
    throw new StartupError(
      `The database in ${pgdata} was made by PostgreSQL ${version}, and this StatusMesh brings ${major}: ` +
        "start the version that made it, and move the data by dump and restore.",
    );
}

/** Removes folders of killed initdb runs. Only for the process that holds the data folder. */
export function removeLeftovers({ pgdata }: Folder): void {
  const parent = dirname(pgdata);
  for (const name of fs.readdirSync(parent)) {
    // Another process, which is about to be refused, may still write to its own.
    if (name.startsWith("postgres.new-"))
      fs.rmSync(join(parent, name), { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  }
}

/**
 * Returns the folder of the socket: the cluster's own, which other users cannot enter; or, when that path is too long
 * for a socket, one in the system's temporary folder, named after the data folder.
 */
export function socketFolder({ dataDir, pgdata, owner }: Folder): string {
  if (Buffer.byteLength(join(pgdata, socketName)) <= socketPathLimit) return pgdata;
  const name = `statusmesh-${createHash("sha256").update(dataDir).digest("hex").slice(0, 16)}`;
  const dir = [tmpdir(), "/tmp"]
    .map((parent) => join(parent, name))
    .find((path) => Buffer.byteLength(join(path, socketName)) <= socketPathLimit)!;
  const uid = owner.uid ?? process.getuid?.() ?? 0;
  try {
    fs.mkdirSync(dir, { mode: 0o700 });
    if (owner.uid !== undefined) fs.chownSync(dir, owner.uid, owner.gid!);
  } catch (error) {
    if (codeOf(error) !== "EEXIST")
      throw new StartupError(`The folder ${dir} for the database socket cannot be made (${codeOf(error)}).`, {
        cause: error,
      });
  }
  const found = fs.lstatSync(dir);
  // The owner of that folder could impersonate the database.
  if (!found.isDirectory() || (found.uid !== uid && found.uid !== 0) || (found.mode & 0o077) !== 0) {
    throw new StartupError(
      `The folder ${dir} for the database socket belongs to another user or is open to others: ` +
        "remove it, or set data.dir (SM_DATA__DIR) to a shorter path.",
    );
  }
  if (found.uid !== uid) fs.chownSync(dir, owner.uid!, owner.gid!);
  return dir;
}

export function socketPath(dir: string): string {
  return join(dir, socketName);
}

/** Writes postgresql.conf for a small machine. Settings in `<data.dir>/postgres.conf` override it. */
export function writeSettings({ dataDir, pgdata, owner }: Folder, socketDir: string): void {
  const quoted = `'"${socketDir.replaceAll("'", "''").replaceAll('"', '""')}"'`;
  const text = `# Written by StatusMesh at every start. Put settings of yours into ../postgres.conf instead.
listen_addresses = ''
unix_socket_directories = ${quoted}
unix_socket_permissions = 0700
max_connections = 50
shared_buffers = 64MB
work_mem = 8MB
maintenance_work_mem = 64MB
effective_cache_size = 512MB
random_page_cost = 1.1
jit = off
# Fewer processes: no I/O workers, no parallel workers, no replication.
io_method = sync
max_parallel_workers_per_gather = 0
max_logical_replication_workers = 0
wal_level = minimal
max_wal_senders = 0
wal_compression = on
max_wal_size = 512MB
min_wal_size = 64MB
checkpoint_timeout = 15min
autovacuum_max_workers = 2
timezone = 'UTC'
log_timezone = 'UTC'
lc_messages = 'C'
# The program reports failed statements itself.
log_min_messages = log
log_min_error_statement = panic
log_checkpoints = off
log_line_prefix = '%m [%p] '
include_if_exists = '../postgres.conf'
`;
  replaceFile(join(pgdata, "postgresql.conf"), text, owner);
  // The server reads the file beside its cluster, and cannot enter the data folder when that is another one.
  const [own, read] = [join(dataDir, "postgres.conf"), join(dirname(pgdata), "postgres.conf")];
  if (own === read) return;
  if (fs.existsSync(own)) replaceFile(read, fs.readFileSync(own, "utf8"), owner);
  else fs.rmSync(read, { force: true });
}

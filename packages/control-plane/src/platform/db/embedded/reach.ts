import { randomBytes } from "node:crypto";
import * as fs from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { codeOf } from "@statusmesh/shared/thrown";
import { StartupError } from "../../../config/startup-error.ts";
import type { Binaries } from "./binaries.ts";

/*
 * PostgreSQL refuses to run as root. It then runs as an account that may not enter, for example, /root (mode 700 on
 * Debian). The cluster and the programs then live outside, and `<data.dir>/postgres` is a link to the cluster.
 */

/** Parent of the clusters that cannot be in their data folder. Only root writes to it. */
export const outsideFolder = "/var/lib/statusmesh";

/** The account that PostgreSQL runs as. */
export interface Account {
  readonly uid: number;
  readonly gid: number;
}

/** Returns the first folder, from `dir` upwards, that the account cannot enter; null when it reaches `dir`. */
export function closedFolder(dir: string, account: Account): string | null {
  for (let here = dir; ; here = dirname(here)) {
    if (!mayEnter(here, account)) return here;
    if (here === dirname(here)) return null;
  }
}

export function mayEnter(dir: string, { uid, gid }: Account): boolean {
  const { mode, uid: user, gid: group } = fs.statSync(dir);
  return (mode & (user === uid ? 0o100 : group === gid ? 0o010 : 0o001)) !== 0;
}

/**
 * Returns the path of the cluster of a data folder without symbolic links; it need not exist. Throws StartupError when
 * the folder that a link leads to is gone: an empty database must not replace a lost one.
 */
export function clusterOf(dataDir: string): string {
  const path = join(dataDir, "postgres");
  if (fs.lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() !== true) return path;
  const target = resolve(dataDir, fs.readlinkSync(path));
  if (fs.existsSync(target)) return fs.realpathSync(target);
  if (fs.existsSync(dirname(target))) return join(fs.realpathSync(dirname(target)), basename(target));
  throw new StartupError(
    `The database is in ${target}, to which ${path} is a link, and that folder is gone: restore it, or remove the ` +
      "link to begin with an empty database.",
  );
}

/** Whether a data folder has a database. Throws like clusterOf. */
export const hasCluster = (dataDir: string): boolean => fs.existsSync(join(clusterOf(dataDir), "PG_VERSION"));

/** Makes a folder below `outside` that the account reaches, and the link to the cluster in it. Returns the cluster. */
export function placeOutside(dataDir: string, account: Account, outside: string): string {
  const closed = closedFolder(dataDir, account)!;
  let home: string;
  try {
    if (!fs.existsSync(outside)) {
      fs.mkdirSync(outside, { recursive: true });
      fs.chmodSync(outside, 0o755);
    }
    if (closedFolder(outside, account) !== null) throw unreachable(closed, account, "Move data.dir (SM_DATA__DIR)");
    // Named after the checkout: `ls` shows whose it is.
    home = fs.mkdtempSync(join(outside, `${basename(dirname(dataDir)).replace(/[^\w.-]/g, "_") || "data"}-`));
    fs.chmodSync(home, 0o711);
  } catch (error) {
    if (error instanceof StartupError) throw error;
    throw unreachable(closed, account, `${outside} cannot be written (${codeOf(error)}). Move data.dir (SM_DATA__DIR)`);
  }
  try {
    fs.symlinkSync(join(home, "postgres"), join(dataDir, "postgres"));
  } catch (error) {
    if (codeOf(error) !== "EEXIST") throw error;
    // Another process was first.
    fs.rmdirSync(home);
  }
  return clusterOf(dataDir);
}

/** The error of a folder that PostgreSQL's account cannot pass. */
export const unreachable = (closed: string, { uid }: Account, advice: string): StartupError =>
  new StartupError(
    `PostgreSQL cannot run as root, so it runs as user id ${uid}, which may not pass through ${closed}. ` +
      `${advice} elsewhere, run StatusMesh as another user, or run "chmod o+x ${closed}".`,
  );

/**
 * Returns programs that the account can execute: the installed ones, or a copy of them beside the cluster, or below
 * `outside` where the cluster's file system allows no programs (Docker mounts /dev/shm so).
 */
export function reachablePrograms(binaries: Binaries, pgdata: string, account: Account, outside: string): Binaries {
  const { folder } = binaries;
  const closed = closedFolder(folder, account);
  if (closed === null) return binaries;
  for (const parent of [dirname(pgdata), outside]) {
    const copy = join(parent, `programs-${binaries.version}`);
    try {
      if (!fs.existsSync(copy)) copyPrograms(folder, copy);
      const of = (program: string) => join(copy, program.slice(folder.length));
      fs.accessSync(of(binaries.postgres), fs.constants.X_OK);
      return { ...binaries, folder: copy, initdb: of(binaries.initdb), postgres: of(binaries.postgres) };
    } catch (error) {
      if (!["EACCES", "EROFS", "EPERM", "ENOSPC"].includes(codeOf(error) ?? "")) throw error;
      fs.rmSync(copy, { recursive: true, force: true });
    }
  }
  throw unreachable(closed, account, "Install StatusMesh");
}

/** Copies a folder under a temporary name first, readable by all, whatever the installer's umask was. */
function copyPrograms(from: string, to: string): void {
  const draft = `${to}.new-${randomBytes(4).toString("hex")}`;
  try {
    fs.cpSync(from, draft, { recursive: true, verbatimSymlinks: true });
    fs.chmodSync(draft, 0o755);
    for (const entry of fs.readdirSync(draft, { recursive: true, withFileTypes: true })) {
      if (entry.isSymbolicLink()) continue;
      const path = join(entry.parentPath, entry.name);
      fs.chmodSync(path, (fs.statSync(path).mode & 0o100) !== 0 ? 0o755 : 0o644);
    }
    fs.renameSync(draft, to);
  } catch (error) {
    fs.rmSync(draft, { recursive: true, force: true });
    // Another process has copied them at the same time.
    if (!fs.existsSync(to)) throw error;
  }
}

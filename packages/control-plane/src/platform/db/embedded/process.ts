import * as fs from "node:fs";
import { basename, join } from "node:path";
import { codeOf } from "@statusmesh/shared/thrown";

/** Lines of postmaster.pid: process id, data folder, start time, port, socket folder (PostgreSQL, miscadmin.h). */
function readPidFile(pgdata: string): { pid: number; socketDir: string } | null {
  try {
    const [pid, , , , socketDir = ""] = fs.readFileSync(join(pgdata, "postmaster.pid"), "utf8").split("\n");
    // Single-user mode writes its id with a minus, and no socket folder.
    return Number(pid) ? { pid: Math.abs(Number(pid)), socketDir } : null;
  } catch {
    return null;
  }
}

/** Returns the running server of a cluster, or null. After a reboot another process may have the recorded id. */
export function runningServer(pgdata: string): { pid: number; socketDir: string } | null {
  const found = readPidFile(pgdata);
  return found !== null && found.socketDir !== "" && isServerOf(found.pid, pgdata) ? found : null;
}

function isServerOf(pid: number, pgdata: string): boolean {
  return signalTo(pid, 0) && (process.platform !== "linux" || commandLine(pid).includes(pgdata));
}

/** Returns the arguments of a process; none for a zombie. Readable by every user, also without capabilities. */
function commandLine(pid: number): string[] {
  try {
    return fs.readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
  } catch {
    return [];
  }
}

/** True when the process exists. */
export function signalTo(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(pid, signal);
  } catch (error) {
    return codeOf(error) === "EPERM";
  }
}

/**
 * Removes a postmaster.pid that keeps PostgreSQL from starting: one with the id of another program, or one that is
 * still empty after a failed start, as after a power failure.
 */
export function removeForeignPid(pgdata: string, again: boolean): void {
  const file = join(pgdata, "postmaster.pid");
  const found = readPidFile(pgdata);
  if (found === null && again && fs.statSync(file, { throwIfNoEntry: false })?.size === 0)
    fs.rmSync(file, { force: true });
  if (found === null || process.platform !== "linux") return;
  // Another PostgreSQL program may use this folder.
  if (basename(commandLine(found.pid)[0] ?? "") !== "postgres") fs.rmSync(file, { force: true });
}

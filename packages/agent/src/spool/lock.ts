import {
  closeSync,
  linkSync,
  mkdirSync,
  openSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeSync,
} from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { asObject, parsedJson } from "@statusmesh/shared/json";
import { codeOf, messageOf } from "@statusmesh/shared/thrown";

/** The folder cannot be used: it is not writable, or another agent has locked it. */
export class FolderError extends Error {
  override readonly name = "FolderError";
}

const lockName = "sm-agent.lock";
/** Interval at which the owner touches its lock, ms; for processes that cannot see the owner's process. */
const touchMs = 2000;
const staleMs = 10_000;

interface Holder {
  pid: number;
  /** Scope of the process id: the machine and, on Linux, the PID namespace, which distinguishes containers. */
  host: string;
  /**
   * Start time of the process in kernel ticks; empty where unavailable. Process ids are reused, start times are not.
   */
  began: string;
}

/**
 * Creates the folder if necessary and locks it for this process; `now` is Unix ms. Returns the unlock function. The
 * lock of a dead process is taken over. Throws {@link FolderError}.
 */
export function lockFolder(folder: string, now: () => number): () => void {
  const file = join(folder, lockName);
  const own = JSON.stringify({ pid: process.pid, host: here(), began: beganAt(process.pid) } satisfies Holder);
  const draft = `${file}.${process.pid}`;
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    writeNew(draft, own);
    try {
      // A hard link is created atomically and never replaces another.
      for (let tries = 0; !tryLink(draft, file); tries++) {
        if (tries === 3) throw new FolderError(`the spool folder ${folder} is used by another sm-agent`);
        moveAway(folder, file, now());
      }
    } finally {
      rmSync(draft, { force: true });
    }
  } catch (error) {
    if (error instanceof FolderError) throw error;
    throw new FolderError(`the spool folder ${folder} cannot be written (${messageOf(error)})`);
  }
  const timer = setInterval(() => touch(file, now()), touchMs);
  timer.unref();
  return () => {
    clearInterval(timer);
    if (read(file) === own) rmSync(file, { force: true });
  };
}

/** Current owner of the folder, or null. Read-only. */
export function folderHolder(folder: string, now: number): { pid: number; host: string } | null {
  const file = join(folder, lockName);
  const holder = parse(read(file) ?? "");
  if (holder === null) return null;
  try {
    return isHeld(file, holder, now) ? { pid: holder.pid, host: holder.host } : null;
  } catch {
    // Unlocked meanwhile.
    return null;
  }
}

function writeNew(file: string, text: string): void {
  rmSync(file, { force: true });
  const handle = openSync(file, "wx", 0o600);
  try {
    if (writeSync(handle, text) < Buffer.byteLength(text)) throw new Error("the disk is full");
  } finally {
    closeSync(handle);
  }
}

function tryLink(from: string, to: string): boolean {
  try {
    linkSync(from, to);
    return true;
  } catch (error) {
    if (codeOf(error) === "EEXIST") return false;
    throw error;
  }
}

/** Moves the lock away if its owner is gone; else throws. */
function moveAway(folder: string, file: string, now: number): void {
  const found = read(file);
  if (found === null) return;
  const holder = parse(found);
  const where = `pid ${holder?.pid ?? "unknown"} on ${holder?.host ?? "an unknown host"}`;
  if (holder !== null && isHeld(file, holder, now)) {
    const hint =
      holder.host === here()
        ? "Stop it, or give this one a folder of its own."
        : `If it is gone for good, wait ${staleMs / 1000} s, or give this one a folder of its own.`;
    throw new FolderError(`the spool folder ${folder} is used by another sm-agent (${where}). ${hint}`);
  }
  const aside = `${file}.${process.pid}.stale`;
  renameSync(file, aside);
  // Another process may have taken the lock over in the same moment: give it back.
  if (read(aside) !== found) tryLink(aside, file);
  rmSync(aside, { force: true });
}

function isHeld(file: string, holder: Holder, now: number): boolean {
  if (holder.host !== here()) return now - statSync(file).mtimeMs < staleMs;
  try {
    process.kill(holder.pid, 0);
  } catch (error) {
    if (codeOf(error) !== "EPERM") return false;
  }
  return beganAt(holder.pid) === holder.began;
}

function here(): string {
  try {
    return `${hostname()} ${readlinkSync("/proc/self/ns/pid")}`;
  } catch {
    return hostname();
  }
}

/** Field 22 of /proc/<pid>/stat; the program name in field 2 may contain anything. Empty on other systems. */
function beganAt(pid: number): string {
  const stat = read(`/proc/${pid}/stat`);
  return stat?.slice(stat.lastIndexOf(")") + 2).split(" ")[19] ?? "";
}

function touch(file: string, now: number): void {
  try {
    utimesSync(file, now / 1000, now / 1000);
  } catch {
    // Only for processes that cannot see this one.
  }
}

function read(file: string): string | null {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return null;
  }
}

function parse(text: string): Holder | null {
  const { pid, host, began } = asObject(parsedJson(text));
  return pid === undefined || host === undefined || began === undefined
    ? null
    : { pid: Number(pid), host: String(host), began: String(began) };
}

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import * as fs from "node:fs";
import { join } from "node:path";
import type { Teardown } from "../harness/folder.ts";
import { reap, spare } from "../harness/reaper.ts";

/** A program of the operating system that runs until it is killed. Its output is in `<name>.log` of its folder. */
export interface Daemon {
  /** Starts it, when it does not run. */
  start(): void;
  /** Kills it and waits for its end. */
  kill(): Promise<void>;
  readonly pid: () => number | null;
}

export interface DaemonOptions {
  name: string;
  program: string;
  args: readonly string[];
  /** Working folder. */
  folder: string;
  /** Account to run as. */
  account: Account;
  env?: Record<string, string>;
}

export interface Account {
  readonly uid?: number;
  readonly gid?: number;
}

/** PostgreSQL and Patroni refuse to run as root: root uses the account of Debian's packages. */
export function databaseAccount(): Account {
  if (process.getuid?.() !== 0) return {};
  const line = fs
    .readFileSync("/etc/passwd", "utf8")
    .split("\n")
    .find((it) => it.startsWith("postgres:"));
  if (line === undefined) throw new Error("There is no account postgres, which the package postgresql-15 makes.");
  const [, , uid, gid] = line.split(":");
  return { uid: Number(uid), gid: Number(gid) };
}

/** Makes a folder for a daemon that runs as `account`. */
export function folderFor({ uid, gid }: Account, ...path: [string, ...string[]]): string {
  const folder = join(...path);
  fs.mkdirSync(folder, { recursive: true, mode: 0o700 });
  if (uid !== undefined && gid !== undefined) fs.chownSync(folder, uid, gid);
  return folder;
}

/** Starts a daemon, which is killed when the test ends. */
export function startDaemon(t: Teardown, options: DaemonOptions): Daemon {
  let child: ChildProcess | null = null;
  const running = (): boolean => child !== null && child.exitCode === null && child.signalCode === null;
  const daemon: Daemon = {
    start() {
      if (running()) return;
      const log = fs.openSync(join(options.folder, `${options.name}.log`), "a");
      child = spawn(options.program, options.args, {
        cwd: options.folder,
        env: { PATH: process.env["PATH"], HOME: options.folder, LC_ALL: "C.UTF-8", ...options.env },
        stdio: ["ignore", log, log],
        ...options.account,
      });
      fs.closeSync(log);
      if (child.pid === undefined) throw new Error(`${options.program} cannot be started`);
      reap(child.pid);
    },
    async kill() {
      if (child === null || !running()) return;
      const ended = once(child, "exit");
      child.kill("SIGKILL");
      await ended;
      spare(child.pid!);
    },
    pid: () => (running() ? child!.pid! : null),
  };
  t.teardown(() => daemon.kill());
  daemon.start();
  return daemon;
}

/** Kills processes with SIGKILL; ids that are gone are skipped. */
export function killAll(pids: readonly number[]): void {
  for (const pid of pids)
    try {
      process.kill(pid, "SIGKILL");
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
    }
}

/** Returns the ids of the child processes of `parent`. */
export function childrenOf(parent: number): number[] {
  return fs
    .readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .filter((name) => {
      try {
        // The fields after the name in brackets: state, parent (proc(5)).
        const stat = fs.readFileSync(`/proc/${name}/stat`, "utf8");
        return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]) === parent;
      } catch {
        return false;
      }
    })
    .map(Number);
}

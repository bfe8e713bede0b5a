import { spawn, type ChildProcess } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { withDescendants } from "./descendants.ts";

/** Result of a benchmark. `ratio` is the measured share of `limit`: above 1 the benchmark has failed. */
export interface Measured {
  name: string;
  value: number;
  unit: string;
  limit: number;
  ratio: number;
  [extra: string]: unknown;
}

/** Clock ticks of /proc/<pid>/stat. Linux has counted in hundredths of a second on every platform that Node runs on. */
const ticksPerSecond = 100;

/** CPU seconds, user and system, that a process has spent so far. Linux only. */
export function cpuSeconds(pid: number): number {
  const [user, system] = cpuTicks(pid);
  return (user + system) / ticksPerSecond;
}

/**
 * CPU seconds that processes and all their descendants have spent so far, those that have ended and were waited for
 * included. Linux only.
 */
export function cpuSecondsOfAll(pids: readonly number[]): number {
  let ticks = 0;
  for (const pid of withDescendants(pids)) {
    try {
      ticks += cpuTicks(pid).reduce((sum, part) => sum + part);
    } catch {
      // The process has ended since: its parent counts it now.
    }
  }
  return ticks / ticksPerSecond;
}

/** User and system time of a process, and of its children that were waited for (proc(5), fields 14 to 17). */
function cpuTicks(pid: number): [user: number, system: number, childrenUser: number, childrenSystem: number] {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  // The command may contain spaces; the fields after it do not.
  const [user, system, childrenUser, childrenSystem] = stat
    .slice(stat.lastIndexOf(")") + 2)
    .split(" ")
    .slice(11, 15)
    .map(Number);
  return [user ?? Number.NaN, system ?? Number.NaN, childrenUser ?? Number.NaN, childrenSystem ?? Number.NaN];
}

/** Resident memory of a process, MB. Linux only. */
export function rssMb(pid: number): number {
  const line = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"));
  return Number(line?.[1] ?? 0) / 1024;
}

export const sleep = (ms: number): Promise<void> => new Promise((settle) => setTimeout(settle, ms));

export interface Child {
  readonly child: ChildProcess;
  readonly pid: number;
  readonly firstLine: string;
  /** Lines of standard output so far. */
  readonly lines: string[];
}

/**
 * Starts a compiled module as a child process. Resolves with its first line on standard output; rejects when the child
 * ends before.
 */
export async function startChild(
  module: URL,
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
  nodeArgs: readonly string[] = [],
): Promise<Child> {
  const child = spawn(process.execPath, [...nodeArgs, fileURLToPath(module), ...args], {
    env: { ...process.env, ...env },
    stdio: ["pipe", "pipe", "inherit"],
  });
  const lines: string[] = [];
  let rest = "";
  await new Promise<void>((settle, reject) => {
    child.once("exit", (code) => reject(new Error(`${module.pathname} ended with ${code}`)));
    child.stdout.on("data", (chunk: Buffer) => {
      const parts = (rest + chunk.toString()).split("\n");
      rest = parts.pop() ?? "";
      lines.push(...parts);
      if (lines.length > 0) settle();
    });
  });
  if (child.pid === undefined) throw new Error("the child has no pid");
  return { child, pid: child.pid, firstLine: lines[0] ?? "", lines };
}

/** Ends a child and waits for it: SIGTERM, and SIGKILL after 5 s. */
export async function endChild(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise<void>((settle) => child.once("exit", () => settle()));
  child.kill("SIGTERM");
  const killer = setTimeout(() => child.kill("SIGKILL"), 5000);
  await ended;
  clearTimeout(killer);
}

/** `value`, rounded. */
export const rounded = (value: number, decimals = 2): number => Number(value.toFixed(decimals));

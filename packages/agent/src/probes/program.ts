import { spawn } from "node:child_process";
import { closeSync, readdirSync, readFileSync } from "node:fs";
import type { CancelSignal } from "@statusmesh/shared/net/cancellation";

export interface Program {
  /** The program and its arguments: never a shell. */
  argv: readonly [string, ...string[]];
  env: Readonly<Record<string, string>>;
  cwd?: string | undefined;
  uid?: number | undefined;
  gid?: number | undefined;
  /** Bytes of each output that are kept. */
  maxOutput: number;
  /** Called with the kept standard output whenever it has grown. */
  onOutput?: (soFar: string) => void;
}

export interface Ended {
  /** Null for a program that a signal ended. */
  code: number | null;
  signal: NodeJS.Signals | null;
  stdout: string;
  stderr: string;
}

/** Bytes that a program may write before it is killed: what is not kept costs CPU all the same. */
const maxWritten = 16 * 1024 * 1024;

/**
 * Runs a program in a process group of its own, with empty input and no other descriptors. Resolves when it exits, with
 * what it wrote until then: a process that it leaves behind may hold its pipes for hours. What is left of its group is
 * killed then, or when the signal aborts.
 *
 * Rejects with the error of a program that cannot be started (ENOENT, EACCES, EPERM), the reason of the signal, or
 * an error about a program that writes too much.
 */
export function runProgram(program: Program, signal: CancelSignal): Promise<Ended> {
  const { argv, env, cwd, uid, gid, maxOutput, onOutput } = program;
  return new Promise((settle, reject) => {
    if (signal.aborted) return reject(signal.reason as Error);
    closeInherited();
    const child = spawn(argv[0], argv.slice(1), {
      env,
      detached: true,
      stdio: ["ignore", "pipe", "pipe"],
      ...(cwd === undefined ? {} : { cwd }),
      ...(uid === undefined ? {} : { uid }),
      ...(gid === undefined ? {} : { gid }),
    });
    const outputs = { stdout: Buffer.alloc(0), stderr: Buffer.alloc(0) };
    let written = 0;
    const end = (finish: () => void): void => {
      signal.removeEventListener("abort", onAbort);
      killGroup(child.pid);
      child.stdout.destroy();
      child.stderr.destroy();
      finish();
    };
    const onAbort = (): void => end(() => reject(signal.reason as Error));
    const read = (name: keyof typeof outputs) => (chunk: Buffer) => {
      written += chunk.length;
      if (written > maxWritten)
        return end(() => reject(new Error(`it wrote more than ${maxWritten / 1024 / 1024} MiB`)));
      const room = maxOutput - outputs[name].length;
      if (room <= 0) return;
      outputs[name] = Buffer.concat([outputs[name], chunk.subarray(0, room)]);
      if (name === "stdout") onOutput?.(outputs.stdout.toString());
    };
    signal.addEventListener("abort", onAbort, { once: true });
    child.stdout.on("data", read("stdout")).on("error", () => undefined);
    child.stderr.on("data", read("stderr")).on("error", () => undefined);
    child.once("error", (error) => end(() => reject(error)));
    child.once("exit", (code, killedBy) => {
      const done = (): void =>
        end(() =>
          settle({ code, signal: killedBy, stdout: outputs.stdout.toString(), stderr: outputs.stderr.toString() }),
        );
      // Two turns of the event loop read what the pipes held at the exit, also where another process keeps them open.
      setImmediate(() => setImmediate(done));
    });
  });
}

let haveClosed = false;

/**
 * Closes what this process inherited beside its standard streams, before its first program. Node marks its own
 * descriptors, and inherited ones up to the first gap; those behind would reach every program.
 */
function closeInherited(): void {
  if (haveClosed) return;
  haveClosed = true;
  if (process.platform !== "linux") return;
  const closeOnExec = 0o2_000_000;
  for (const fd of readdirSync("/proc/self/fdinfo").map(Number)) {
    if (fd <= 2) continue;
    try {
      const [, flags = "0"] = /^flags:\s+(\d+)/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, "utf8")) ?? [];
      if ((Number.parseInt(flags, 8) & closeOnExec) === 0) closeSync(fd);
    } catch {
      // The descriptor of the folder itself.
    }
  }
}

/** Kills the group. The number is not reused while the group has a member. */
function killGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // None is left.
  }
}

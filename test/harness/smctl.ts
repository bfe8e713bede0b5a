import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { type Ended, endedHere } from "sm-agent/testing";
import { run } from "smctl/program";

export type { Ended };

/** The program, for tests of its process. */
export const smctlProgram = createRequire(import.meta.url).resolve("smctl/cli");

/** Runs a program with this environment alone. */
export function runProgram(
  file: string,
  args: readonly string[],
  options: { cwd: string; env: Record<string, string | undefined> },
): Promise<Ended> {
  const child = spawn(file, args, { ...options, stdio: ["ignore", "pipe", "pipe"] });
  let [stdout, stderr] = ["", ""];
  child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  return new Promise((settle) => child.once("close", (code) => settle({ code, stdout, stderr })));
}

/** Runs smctl in a folder, in the test's own process. */
export async function smctlHere(
  args: readonly string[],
  { cwd, env }: { cwd: string; env: Record<string, string> },
): Promise<Ended> {
  const before = process.cwd();
  process.chdir(cwd);
  try {
    return await endedHere(() => run(args), env);
  } finally {
    process.chdir(before);
  }
}

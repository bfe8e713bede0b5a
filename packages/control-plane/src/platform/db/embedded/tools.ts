import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import * as fs from "node:fs";
import { basename } from "node:path";
import { StartupError } from "../../../config/startup-error.ts";

/** Environment of PostgreSQL: variables of this process must not change its locale or its files. */
export const serverEnv: NodeJS.ProcessEnv = { PATH: process.env["PATH"], LC_ALL: "C", TZ: "UTC" };

/**
 * Runs a program of PostgreSQL to its end, with `input` on standard input, and returns its standard error. Throws the
 * first line of that when it fails, and StartupError when it cannot run at all.
 */
export function run(
  program: string,
  args: string[],
  { input = "", ...options }: { uid?: number; gid?: number; cwd: string; input?: string },
): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { ...options, env: serverEnv, stdio: ["pipe", "ignore", "pipe"] });
    let complaint = "";
    // A program may end before it has read its input; its exit code counts.
    child.stdin.on("error", () => {});
    child.stdin.end(input);
    child.stderr.setEncoding("utf8").on("data", (text: string) => (complaint = (complaint + text).slice(-2000)));
    child.on("error", (error) =>
      reject(
        new StartupError(
          `The bundled PostgreSQL cannot run here: ${error.message}. It needs glibc on Linux; ` +
            "otherwise set database.url (SM_DATABASE__URL) to a server of yours.",
        ),
      ),
    );
    child.on("close", (code) =>
      code === 0
        ? resolve(complaint)
        : reject(new Error(complaint.trim().split("\n", 1)[0] || `${basename(program)} ended with code ${code}`)),
    );
  });
}

/**
 * Replaces a file of the cluster atomically, and returns whether it changed. The folder belongs to the user of the
 * server: root must not follow a link in it when it writes the file or changes its owner.
 */
export function replaceFile(file: string, text: string, owner: { uid?: number; gid?: number }): boolean {
  if (fs.existsSync(file) && fs.readFileSync(file, "utf8") === text) return false;
  const draft = `${file}.${randomBytes(6).toString("hex")}`;
  const fd = fs.openSync(draft, "wx", 0o600);
  try {
    fs.writeSync(fd, text);
    if (owner.uid !== undefined) fs.fchownSync(fd, owner.uid, owner.gid!);
    fs.fsyncSync(fd);
  } finally {
    fs.closeSync(fd);
  }
  fs.renameSync(draft, file);
  return true;
}

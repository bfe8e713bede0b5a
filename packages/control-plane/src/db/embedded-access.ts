import * as fs from "node:fs";
import { join } from "node:path";
import { StartupError } from "../startup-error.ts";
import type { Binaries } from "./embedded-binaries.ts";
import type { Folder } from "./embedded-folder.ts";
import { ensurePassword, readPassword, scramSecret, setPassword } from "./embedded-password.ts";
import { replaceFile, run } from "./embedded-tools.ts";

/** The rules of pg_hba.conf: connections over the Unix socket only, with a password or not at all. */
const accessRules = (method: "scram-sha-256" | "reject"): string =>
  `# Written by StatusMesh at every start.\nlocal all all ${method}\n`;

/** Writes pg_hba.conf and returns whether it was another one before. A running server reads it when it is told to. */
export function writeAccess({ pgdata, owner }: Folder, method: "scram-sha-256" | "reject"): boolean {
  return replaceFile(join(pgdata, "pg_hba.conf"), accessRules(method), owner);
}

/**
 * Gives a stopped cluster that another version made with trust, or whose password file was lost, a password. In single-user mode
 * nobody can connect meanwhile. The rules tell how far it got: they are "scram-sha-256" only once the password is set.
 * Returns false when another process works on the cluster.
 */
export async function secureStopped(folder: Folder, { postgres }: Binaries): Promise<boolean> {
  const { dataDir, pgdata, owner, keeper } = folder;
  const file = join(pgdata, "pg_hba.conf");
  const rules = fs.existsSync(file) ? fs.readFileSync(file, "utf8") : "";
  if (rules === accessRules("scram-sha-256") && readPassword(dataDir) !== null) {
    ensurePassword(dataDir, keeper);
    return true;
  }
  writeAccess(folder, "reject");
  const secret = scramSecret(ensurePassword(dataDir, keeper));
  let said: string;
  try {
    said = await run(postgres, ["--single", "-D", pgdata, "-c", "log_min_messages=error", "postgres"], {
      ...owner,
      cwd: pgdata,
      input: `${setPassword(secret)}\n`,
    });
  } catch (error) {
    // Another process is at it: its server is there in a moment.
    if (error instanceof Error && /lock file/.test(error.message)) return false;
    throw error;
  }
  // Single-user mode ends with 0 whatever became of the statement.
  if (/\bERROR:/.test(said))
    throw new StartupError(`The password of the embedded database cannot be set: ${said.trim().split("\n", 1)[0]}`);
  writeAccess(folder, "scram-sha-256");
  return true;
}

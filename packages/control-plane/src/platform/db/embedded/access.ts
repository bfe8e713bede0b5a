import * as fs from "node:fs";
import { join } from "node:path";
import { StartupError } from "../../../config/startup-error.ts";
import type { Binaries } from "./binaries.ts";
import { ensurePassword, readPassword, scramSecret, setPassword } from "./password.ts";
import type { Account } from "./reach.ts";
import { replaceFile, run } from "./tools.ts";

/** The data folder of an embedded cluster and its owners. */
export interface Folder {
  /** Absolute, without symbolic links. */
  readonly dataDir: string;
  /** The cluster, without symbolic links: in the data folder, or outside where PostgreSQL cannot enter that. */
  readonly pgdata: string;
  readonly logFile: string;
  /** Ids to run PostgreSQL with; empty for the own user. */
  readonly owner: Partial<Account>;
  /** Owner of the password file; null for the own user. */
  readonly keeper: number | null;
}

/** Rules of pg_hba.conf: connections over the Unix socket only, with a password or none at all. */
const accessRules = (method: "scram-sha-256" | "reject"): string =>
  `# Written by StatusMesh at every start.\nlocal all all ${method}\n`;

/** Writes pg_hba.conf and returns whether it changed. A running server reads it at a reload. */
export function writeAccess({ pgdata, owner }: Folder, method: "scram-sha-256" | "reject"): boolean {
  return replaceFile(join(pgdata, "pg_hba.conf"), accessRules(method), owner);
}

/**
 * Sets the password of a stopped cluster whose password file was lost or whose rules were changed. In
 * single-user mode there are no connections. The rules are "scram-sha-256" only after the password is set. Returns
 * false when another process uses the cluster.
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
    // Another process does the same and starts the server next.
    if (error instanceof Error && /lock file/.test(error.message)) return false;
    throw error;
  }
  // Single-user mode exits with 0 also when the statement failed.
  if (/\bERROR:/.test(said))
    throw new StartupError(`The password of the embedded database cannot be set: ${said.trim().split("\n", 1)[0]}`);
  writeAccess(folder, "scram-sha-256");
  return true;
}

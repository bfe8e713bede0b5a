import { randomBytes } from "node:crypto";
import * as fs from "node:fs";
import { dirname } from "node:path";
import { voidProofs } from "../../access/auth/second-factor/service.ts";
import type { Config } from "../../config/config.ts";
import type { Clock } from "../../platform/process/clock.ts";
import { readArchive, writeArchive } from "../../platform/db/backup/archive.ts";
import { backupEntries, type Summary, summaryName } from "../../platform/db/backup/backup.ts";
import { restoreEntries } from "../../platform/db/backup/restore.ts";
import { silentLog } from "../../platform/process/log.ts";
import { makeSystem, openConfiguredDatabase } from "../open-system.ts";
import { StartupError } from "../../config/startup-error.ts";
import { version } from "../../platform/program.ts";
import { countSecrets } from "./doctor-secrets.ts";

/**
 * `statusmesh backup <file>`: writes the whole database to one file, also beside a running service. The file gets its
 * name once it is complete and verified. It may hold secrets, so only its owner can read it. Returns the exit code.
 */
export async function backup(config: Config, clock: Clock, file: string, say: (line: string) => void): Promise<number> {
  if (fs.existsSync(file)) throw new StartupError(`${file} exists already: name another file, or remove it.`);
  if (!fs.existsSync(dirname(file))) throw new StartupError(`The folder of ${file} does not exist.`);
  const draft = `${file}.${randomBytes(4).toString("hex")}.part`;
  const database = await openConfiguredDatabase(config, silentLog, true);
  try {
    const at = new Date(clock.now());
    const output = fs.createWriteStream(draft, { flags: "wx", mode: 0o600, flush: true });
    await writeArchive(backupEntries(database.sql, { version, at }), output, at);
    const { tables } = await readBack(draft);
    await fs.promises.rename(draft, file);
    const rows = tables.reduce((sum, table) => sum + table.rows, 0);
    const megabytes = (fs.statSync(file).size / 1e6).toFixed(1);
    say(`Wrote ${file}: ${tables.length} tables, ${rows} rows, ${megabytes} MB.`);
    say(
      config.security.credentials_kek_base64 === ""
        ? "Stored credentials are in it as plain text, because security.credentials_kek_base64 is not set. Keep " +
            "the file safe."
        : "Stored credentials in it are sealed. A restore needs the key too (security.credentials_kek_base64), " +
            "which is not in it.",
    );
    return 0;
  } catch (error) {
    throw asStartupError(error, `The backup could not be written to ${file}`);
  } finally {
    fs.rmSync(draft, { force: true });
    await database.stop();
  }
}

/** Reads a backup to its end, and returns its summary. */
async function readBack(file: string): Promise<Summary> {
  for await (const { name, content } of readArchive(fs.createReadStream(file)))
    if (name === summaryName) return JSON.parse(content.toString("utf8")) as Summary;
  throw new Error("its end is missing");
}

/**
 * `statusmesh restore <file>`: restores a backup into the configured database, embedded or external, which must be
 * empty. The service must not run. Returns the exit code: 1 when stored credentials cannot be opened.
 */
export async function restore(
  config: Config,
  clock: Clock,
  file: string,
  say: (line: string) => void,
): Promise<number> {
  if (!fs.existsSync(file)) throw new StartupError(`There is no file ${file}.`);
  const database = await openConfiguredDatabase(config, silentLog);
  try {
    const { manifest, summary } = await restoreEntries(database.sql, readArchive(fs.createReadStream(file)));
    const rows = summary.tables.reduce((sum, table) => sum + table.rows, 0);
    say(`Restored ${summary.tables.length} tables with ${rows} rows, as of ${manifest.created_at}.`);
    const system = makeSystem(config, database.sql, clock, silentLog);
    await voidProofs(system);
    const { unreadable, unreadableWords } = await countSecrets(system);
    if (unreadable === 0) return 0;
    say(
      `The stored credentials of ${unreadableWords} cannot be opened: set ` +
        "security.credentials_kek_base64 to the key of the installation that the backup came from.",
    );
    return 1;
  } catch (error) {
    throw asStartupError(error, `${file} could not be restored`);
  } finally {
    await database.stop();
  }
}

function asStartupError(error: unknown, what: string): StartupError {
  if (error instanceof StartupError) return error;
  const reason = error instanceof Error ? error.message.replaceAll("\n", "; ") : String(error);
  return new StartupError(`${what}: ${reason}`, { cause: error });
}

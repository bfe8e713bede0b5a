import type { Sql } from "postgres";
import { openAbuseLists } from "../access/abuse/service.ts";
import type { Config } from "../config/config.ts";
import { StartupError } from "../config/startup-error.ts";
import type { System } from "../platform/context.ts";
import type { Clock } from "../platform/process/clock.ts";
import { makeSealer } from "../platform/crypto/seal.ts";
import { startEmbedded } from "../platform/db/embedded/embedded.ts";
import { hasCluster } from "../platform/db/embedded/reach.ts";
import { migrate } from "../platform/db/migrate.ts";
import { closeDatabase, type OpenDatabase, openConfigured, openDatabase } from "../platform/db/client/open-database.ts";
import { type Log, silentLog } from "../platform/process/log.ts";
import { ownCommand } from "../platform/program.ts";
import { trustedAuthorities } from "../platform/outbound/authorities.ts";

export interface Database extends OpenDatabase {
  stop(): Promise<void>;
}

/** Opens the configured database, or starts the embedded one. `join` shares one that a running service holds. */
export async function openConfiguredDatabase(config: Config, log: Log, join = false): Promise<Database> {
  if (config.database.url !== "") {
    const open = await openConfigured(config.database);
    return { ...open, stop: () => closeDatabase(open) };
  }
  const embedded = await startEmbedded({ dataDir: config.data.dir, log, join });
  try {
    const sql = await openDatabase(embedded.address);
    const open = { sql, direct: sql };
    return {
      ...open,
      async stop() {
        await closeDatabase(open);
        await embedded.stop();
      },
    };
  } catch (error) {
    await embedded.stop();
    throw error;
  }
}

/**
 * Runs `work` on the database of this installation, also beside a running service. Throws StartupError where there is
 * no database yet: the command would start an empty one.
 */
export async function withSystem(
  config: Config,
  clock: Clock,
  command: string,
  work: (system: System) => Promise<void>,
): Promise<void> {
  requireDatabase(config, command);
  const database = await openConfiguredDatabase(config, silentLog, true);
  try {
    await migrate(database.direct);
    await work(makeSystem(config, database.sql, clock, silentLog));
  } finally {
    await database.stop();
  }
}

function requireDatabase({ database, data }: Config, command: string): void {
  if (database.url !== "" || hasCluster(data.dir)) return;
  throw new StartupError(
    `There is no database in ${data.dir}, the data folder that this command looks at, and it creates none. ` +
      "If StatusMesh keeps its data elsewhere, name that folder: set SM_DATA__DIR (data.dir), or " +
      "SM_DATABASE__URL for a database of its own. Otherwise start StatusMesh first; its first start prints a " +
      `sign-in link. Then: ${ownCommand(command)}`,
  );
}

/** The dependencies of services, over an open database. */
export function makeSystem(config: Config, sql: Sql, clock: Clock, log: Log): System {
  const { credentials_kek_base64: key, credentials_kek_previous_base64: previous } = config.security;
  const keyOf = (base64: string) => (base64 === "" ? null : Buffer.from(base64, "base64"));
  return {
    sql,
    clock,
    log,
    config,
    sealer: makeSealer(keyOf(key), keyOf(previous)),
    abuse: openAbuseLists(config.abuse, log),
    authorities: trustedAuthorities(config.channels.ca_file),
  };
}

import { existsSync } from "node:fs";
import { join } from "node:path";
import { bootstrapOwner, type OwnerAccess } from "../../access/auth/service.ts";
import type { Config } from "../../config/config.ts";
import type { Clock } from "../../platform/context.ts";
import { migrate } from "../../platform/db/migrate.ts";
import { silentLog } from "../../platform/log.ts";
import { ownCommand } from "../../platform/own-command.ts";
import { requireDefaultPlan } from "../../access/plans/service.ts";
import { makeSystem, openConfiguredDatabase } from "../open-system.ts";
import { StartupError } from "../../config/startup-error.ts";

/**
 * `statusmesh bootstrap-owner`: prints a sign-in link for an owner, and a token on request. Works beside a running
 * service. Throws StartupError without a database: a link into a new one would be useless.
 */
export async function giveAccess(
  config: Config,
  clock: Clock,
  access: OwnerAccess,
  say: (line: string) => void,
): Promise<void> {
  requireDatabase(config);
  const database = await openConfiguredDatabase(config, silentLog, true);
  try {
    await migrate(database.direct);
    const system = makeSystem(config, database.sql, clock, silentLog);
    await requireDefaultPlan(system);
    const { email, signInPath, token } = await bootstrapOwner(system, access);
    say(`Owner: ${email}`);
    say(`Sign in within 15 minutes: ${config.server.public_url}${signInPath}`);
    if (token !== null) say(`API token, shown this once, until ${token.expiresAt.toISOString()}: ${token.secret}`);
  } finally {
    await database.stop();
  }
}

function requireDatabase({ database, data }: Config): void {
  if (database.url !== "" || existsSync(join(data.dir, "postgres", "PG_VERSION"))) return;
  throw new StartupError(
    `There is no database in ${data.dir}, the data folder that this command looks at, and it creates none. ` +
      "If StatusMesh keeps its data elsewhere, name that folder: set SM_DATA__DIR (data.dir), or " +
      "SM_DATABASE__URL for " +
      "a database of its own. Otherwise start StatusMesh first; its first start prints a sign-in link. " +
      `Then: ${ownCommand("bootstrap-owner")}`,
  );
}

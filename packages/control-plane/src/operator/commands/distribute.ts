import type { Sql } from "postgres";
import { StartupError } from "../../config/startup-error.ts";
import type { System } from "../../platform/context.ts";
import { openSession } from "../../platform/db/client/connect.ts";
import {
  askWorkers,
  citusVersion,
  isCoordinator,
  readByTarget,
  spread,
  spreadTables,
  tablesOnWorkers,
  type Worker,
} from "../../platform/db/distributed/citus.ts";
import { ownCommand } from "../../platform/program.ts";

/**
 * `statusmesh distribute`: spreads the tables that grow with results over the workers of a Citus cluster, by target.
 * Everything else stays on the coordinator. Prints each step; `dryRun` only the plan. A call completes one that was
 * killed, and changes nothing where all is done. Throws StartupError, before any change, where the cluster is not fit.
 */
export async function distribute(
  system: Pick<System, "sql">,
  { dryRun }: { dryRun: boolean },
  say: (line: string) => void,
): Promise<void> {
  // Copying takes as long as it takes.
  const sql = openSession(system.sql as Sql);
  try {
    const version = await citusVersion(sql);
    if (version === null)
      throw new StartupError(
        "This database has no extension citus, which spreads tables over several PostgreSQL servers. Nothing was " +
          "changed. Install Citus on a PostgreSQL of your own (the embedded one has no extensions), run create " +
          "extension citus in this database on each server, and citus_add_node for each worker: docs/scale.md.",
      );
    if (!(await isCoordinator(sql)))
      throw new StartupError("This server is a worker. Nothing was changed. Set database.url to the coordinator.");
    const workers = await askWorkers(sql);
    requireFit(workers);
    const done = new Set(await tablesOnWorkers(sql));
    const left = spreadTables.filter((table) => !done.has(table));
    const words = `${workers.length} workers (${workers.map(({ address }) => address).join(", ")})`;
    if (done.size > 0) say(`Spread already: ${[...done].join(", ")}.`);
    if (left.length > 0) say(`To be spread over ${words} by target_id: ${left.join(", ")}.`);
    if (dryRun) return;
    if (left.length > 0) say("A running service takes no results meanwhile; agents keep theirs.");
    await readByTarget(sql);
    for (const table of spreadTables) {
      await spread(sql, table);
      if (!done.has(table)) say(`Spread ${table}.`);
    }
    say(`Citus ${version}: results are on ${words}. Check it with ${ownCommand("doctor")}.`);
  } finally {
    await sql.end({ timeout: 1 });
  }
}

/** Throws StartupError where a worker is missing, away, or cannot prepare transactions. */
function requireFit(workers: readonly Worker[]): void {
  const problem = workers.length === 0 ? "The cluster has no worker: add one with citus_add_node." : unfit(workers);
  if (problem !== null) throw new StartupError(`${problem} Nothing was changed.`);
}

/** What is wrong with the workers; null: nothing. */
export function unfit(workers: readonly Worker[]): string | null {
  for (const { address, problem, prepared, open } of workers) {
    if (problem !== null) return `The worker ${address} does not answer: ${problem}.`;
    if (prepared === 0)
      return (
        `The worker ${address} has max_prepared_transactions = 0, but a batch of results on several workers is ` +
        "committed in two phases: set it to max_connections and restart that server."
      );
    if (open !== 0)
      return (
        `The worker ${address} has ${open} prepared transactions of more than two minutes ago. Their results are not ` +
        "visible, and no hours are summed up meanwhile. Citus on the coordinator ends them, unless " +
        "citus.recover_2pc_interval is -1: see its log."
      );
  }
  return null;
}

import { setTimeout as pause } from "node:timers/promises";
import type { ISql } from "postgres";
import { columnOf, type Db, valueOf } from "../client/sql.ts";

/** What Citus needs to know of the result tables: docs/scale.md. */

/** The tables that grow with results. All have target_id; the others are placed beside the first. */
export const spreadTables = [
  "results",
  "results_packed",
  "results_late",
  "results_hourly",
  "results_daily",
  "latency_hourly",
  "changes_hourly",
  "hours_packed",
  "changes_packed",
  "issued_slots",
] as const;
export type SpreadTable = (typeof spreadTables)[number];

/** Version of Citus in this database; null without the extension. */
export async function citusVersion(sql: ISql): Promise<string | null> {
  return await valueOf<string | null>(sql`
    select extversion as version from pg_extension where extname = 'citus'`);
}

/** The result tables that are spread over workers; none without Citus. */
export async function tablesOnWorkers(sql: ISql): Promise<SpreadTable[]> {
  if ((await citusVersion(sql)) === null) return [];
  const found = await columnOf<string>(sql`
    select c.relname from pg_dist_partition p join pg_class c on c.oid = p.logicalrelid
    where c.relnamespace = current_schema()::regnamespace and p.partmethod = 'h'`);
  return spreadTables.filter((name) => found.includes(name));
}

/** A PostgreSQL that holds shards. */
export interface Worker {
  /** Host and port. */
  address: string;
  /** Transactions that it can prepare; null: no answer. */
  prepared: number | null;
  /** Transactions that it has prepared long ago and not ended; null: no answer. */
  open: number | null;
  /** Why it did not answer. */
  problem: string | null;
}

/** True on the node whose address the service must be given. */
export async function isCoordinator(sql: ISql): Promise<boolean> {
  return (await valueOf<boolean | null>(sql`select groupid = 0 from pg_dist_local_group`)) === true;
}

/** Transactions of Citus in this database that a worker has prepared and neither committed nor rolled back. */
const prepared =
  "select gid, prepared from pg_prepared_xacts where database = current_database() and gid like 'citus%'";

/**
 * Asks every worker how many transactions it can prepare (a batch on two workers is committed in two phases), and how
 * many are open for more than `openSecs`.
 */
export async function askWorkers(sql: ISql, openSecs = 120): Promise<Worker[]> {
  const question = `
    select current_setting('max_prepared_transactions') || ' ' || count(*) from (${prepared}) p
    where prepared < now() - interval '${openSecs} s'`;
  const rows = await sql<{ address: string; success: boolean; result: string }[]>`
    select n.nodename || ':' || n.nodeport as address, r.success, r.result
    from pg_dist_node n
    join run_command_on_workers(${question}) r
      on r.nodename = n.nodename and r.nodeport = n.nodeport
    where n.groupid <> 0 and n.noderole = 'primary' and n.shouldhaveshards
    order by 1`;
  return rows.map(({ address, success, result }) => ({
    address,
    prepared: success ? Number(result.split(" ")[0]) : null,
    open: success ? Number(result.split(" ")[1]) : null,
    problem: success ? null : result.split("\n", 1)[0]!,
  }));
}

/** How long a job waits for commits on workers, and how often it looks, ms. Its next run waits again. */
const commitWait = { mostMs: 10_000, everyMs: 50 };

/**
 * Waits until all workers show the rows of every transaction that is committed on the coordinator: it commits first,
 * the workers in the second phase. Without Citus it returns at once. Call it between a statement that reads the
 * coordinator (marks, progress of a job) and one that reads the results to which that refers, wherever a row that is
 * not there yet would be missed for good. Citus ends the transactions of a worker that was killed between both phases
 * within `citus.recover_2pc_interval`. Throws COMMIT_PENDING, a failure of the database, where that takes longer.
 */
export async function awaitCommits(sql: Db): Promise<void> {
  if ((await citusVersion(sql)) === null) return;
  const until = performance.now() + commitWait.mostMs;
  for (let open = await selectPrepared(sql); open.size > 0;) {
    if (performance.now() > until) throw commitPending(`prepared transactions are still open: ${[...open].join(", ")}`);
    await pause(commitWait.everyMs);
    const present = await selectPrepared(sql);
    open = new Set([...open].filter((name) => present.has(name)));
  }
}

/** The prepared transactions of all workers. */
async function selectPrepared(sql: Db): Promise<Set<string>> {
  const rows = await sql<{ address: string; success: boolean; result: string }[]>`
    select nodename || ':' || nodeport as address, success, result
    from run_command_on_workers(${`select coalesce(string_agg(gid, ' '), '') from (${prepared}) p`})`;
  const away = rows.find(({ success }) => !success);
  if (away !== undefined) throw commitPending(`the worker ${away.address} does not answer: ${away.result}`);
  return new Set(
    rows.flatMap(({ address, result }) =>
      result
        .split(" ")
        .filter((gid) => gid !== "")
        .map((gid) => `${gid} on ${address}`),
    ),
  );
}

const commitPending = (message: string) => Object.assign(new Error(message), { code: "COMMIT_PENDING" });

/**
 * Turns the functions that read the rows of one target into PL/pgSQL: Citus cannot plan a join with the rows of many
 * targets, and sends the query of such a function to one worker.
 */
export async function readByTarget(sql: Db): Promise<void> {
  const functions = await sql<{ head: string; body: string }[]>`
      select format('create or replace function %s(%s) returns %s language plpgsql stable', p.oid::regproc,
        pg_get_function_arguments(p.oid), pg_get_function_result(p.oid)) as head, p.prosrc as body
      from pg_proc p join pg_language l on l.oid = p.prolang
      where p.pronamespace = current_schema()::regnamespace and l.lanname = 'sql'
        and p.proname = any(${[...spreadTables.map((name) => `${name}_of`), "results_daily_of_org"]})`;
  for (const { head, body } of functions) await sql.unsafe(`${head} as $of$ begin return query ${body}; end $of$`);
}

/**
 * Spreads a table over the workers, unless it is, and removes the rows that Citus leaves in the place from which it
 * copied them. Ingest waits meanwhile. A call completes one that was killed.
 */
export async function spread(sql: Db, table: SpreadTable): Promise<void> {
  if (!(await tablesOnWorkers(sql)).includes(table)) {
    const beside = table === spreadTables[0] ? "none" : spreadTables[0];
    await sql`select create_distributed_table(${table}::regclass, 'target_id', colocate_with => ${beside})`;
  }
  await sql`
    select truncate_local_data_after_distributing_table(c.oid) from pg_class c
    where c.oid = ${table}::regclass
      or c.oid in (select inhrelid from pg_inherits where inhparent = ${table}::regclass)`;
}

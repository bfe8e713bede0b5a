import { createHash } from "node:crypto";
import { dirname } from "node:path";
import type { Sql } from "postgres";
import { newId } from "@statusmesh/shared/ids";
import { openPool } from "../platform/db/client/connect.ts";
import { migrate, migrationsFolder, readMigrations } from "../platform/db/migrate.ts";
import { type Cluster, distributeAll, joinCluster } from "./postgres-citus.ts";
import { joinServer, type Server } from "./postgres-join.ts";
import { templateLock, testFolder } from "./postgres-place.ts";

/** The part of a test that a fixture needs: undoing when the test is over. */
export interface Teardown {
  teardown(undo: () => unknown): void;
}

/** A migrated database of one test. */
export interface TestDatabase {
  readonly name: string;
  /** A small pool for preparing and asserting. */
  readonly sql: Sql;
  /** Another pool on it, ended with the test. */
  pool(max?: number): Sql;
  /** Environment of a control plane that uses it. The server has a Unix socket only, which a URL cannot name. */
  readonly env: Readonly<Record<"SM_DATABASE__URL" | "PGHOST" | "PGUSER" | "PGPASSWORD", string>>;
}

let server: Promise<Server | Cluster> | null = null;
let users = 0;

/** Ports of a Citus cluster that the tests use instead, the coordinator's first (npm run test:citus). */
const citusPorts = process.env["SM_TEST_CITUS"]?.split(",").map(Number);

const join = async (): Promise<Server | Cluster> =>
  citusPorts === undefined ? await joinServer(testFolder) : joinCluster(citusPorts);
const nodesOf = (one: Server | Cluster): readonly Sql[] => ("nodes" in one ? one.nodes : [one.session]);
const addressOf = (one: Server | Cluster, database: string) =>
  "url" in one ? { url: one.url + database } : { ...one, database };

/** Content of a template database beside the schema. */
export interface Fixture {
  fill(sql: Sql): Promise<void>;
  /** Connections of a pool unless the caller says otherwise. */
  poolSize: number;
}

const schemaOnly: Fixture = { fill: async () => {}, poolSize: 4 };

/**
 * A fresh migrated database, filled by `fixture`, dropped after the test. All test files of a run share one PostgreSQL,
 * which the first of them starts and which ends a few seconds after the last.
 */
export async function cloneDatabase(t: Teardown, fixture: Fixture = schemaOnly): Promise<TestDatabase> {
  users++;
  const joined = await (server ??= join());
  const template = await ensureTemplate(joined, fixture);
  const name = `t_${newId().replaceAll("-", "")}`;
  // The default strategy, block by block through the log, takes 15 times the CPU time for the 800 small files.
  for (const node of nodesOf(joined)) {
    // Citus has a process in each database.
    await node`select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = ${template}`;
    await node.unsafe(`create database ${name} template ${template} strategy file_copy`);
  }
  const pools: Sql[] = [];
  const pool = (max = fixture.poolSize): Sql => {
    const sql = openPool(addressOf(joined, name), { max });
    pools.push(sql);
    return sql;
  };
  t.teardown(async () => {
    await Promise.all(pools.map((sql) => sql.end({ timeout: 1 })));
    for (const node of nodesOf(joined)) await node.unsafe(`drop database if exists ${name} with (force)`);
    if (--users > 0) return;
    server = null;
    for (const node of nodesOf(joined)) await node.end({ timeout: 1 });
  });
  const env = {
    SM_DATABASE__URL: `${"url" in joined ? joined.url : "postgres:///"}${name}`,
    PGHOST: dirname(joined.path),
    PGUSER: joined.username,
    PGPASSWORD: joined.password,
  };
  return { name, sql: pool(), pool, env };
}

/** Name of the database that tests copy; there is one for each state of the migrations and each fixture. */
async function ensureTemplate(joined: Server | Cluster, { fill }: Fixture): Promise<string> {
  const { session } = joined;
  const migrations = readMigrations(migrationsFolder).map((migration) => migration.sha256);
  const state = [...migrations, String(fill)].join();
  const name = `template_${createHash("sha256").update(state).digest("hex").slice(0, 16)}`;
  await session`select pg_advisory_lock(${templateLock})`;
  try {
    const [ready] = await session`select 1 from pg_database where datname = ${name}`;
    if (ready !== undefined) return name;
    const draft = `${name}_draft`;
    for (const node of nodesOf(joined)) {
      await node.unsafe(`drop database if exists ${draft} with (force)`);
      await node.unsafe(`create database ${draft}`);
    }
    if ("connect" in joined) await joined.connect(draft);
    const sql = openPool(addressOf(joined, draft), { max: 1 });
    try {
      await migrate(sql);
      if ("connect" in joined) await distributeAll(sql);
      await fill(sql);
    } finally {
      await sql.end({ timeout: 5 });
    }
    // The first session of a database writes a file that later ones, also those of copies, start with.
    const next = openPool(addressOf(joined, draft), { max: 1 });
    await next`select 1`.finally(() => next.end({ timeout: 5 }));
    // The name appears only once the database is complete, also when a process is killed before.
    for (const node of nodesOf(joined)) {
      await node`select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = ${draft}`;
      await node.unsafe(`alter database ${draft} rename to ${name}`);
    }
    return name;
  } finally {
    await session`select pg_advisory_unlock(${templateLock})`;
  }
}

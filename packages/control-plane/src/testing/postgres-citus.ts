import postgres, { type Sql } from "postgres";
import { readByTarget, spread, spreadTables } from "../platform/db/distributed/citus.ts";
import type { Server } from "./postgres-join.ts";

/** A Citus cluster in place of the PostgreSQL of a test run. */
export interface Cluster extends Server {
  url: string;
  /** Sessions of the coordinator and of the workers. */
  nodes: readonly Sql[];
  /** Makes a database that is on all nodes a cluster of its own. */
  connect(database: string): Promise<void>;
}

/** Few: each test has a cluster of its own, and each shard of a table is a file or two. */
const shards = 4;

/** Joins the cluster with the ports of the coordinator and its workers on loopback; superusers need no password. */
export function joinCluster(ports: readonly number[]): Cluster {
  const at = (port: number, database: string): Sql =>
    postgres({ host: "127.0.0.1", port, database, username: "postgres", max: 1, idle_timeout: 0, fetch_types: false });
  const nodes = ports.map((port) => at(port, "postgres"));
  return {
    url: `postgres://postgres@127.0.0.1:${ports[0]}/`,
    path: "",
    username: "postgres",
    password: "",
    session: nodes[0]!,
    nodes,
    async connect(database) {
      for (const port of ports) await once(at(port, database), (sql) => sql`create extension citus`);
      await once(at(ports[0]!, database), async (sql) => {
        await sql`select citus_set_coordinator_host('127.0.0.1', ${ports[0]!})`;
        for (const port of ports.slice(1)) await sql`select citus_add_node('127.0.0.1', ${port})`;
      });
    },
  };
}

async function once(sql: Sql, work: (sql: Sql) => PromiseLike<unknown>): Promise<void> {
  await work(sql);
  await sql.end({ timeout: 5 });
}

/** What `statusmesh distribute` does. */
export async function distributeAll(sql: Sql): Promise<void> {
  await sql.unsafe(`set citus.shard_count = ${shards}`);
  await readByTarget(sql);
  for (const table of spreadTables) await spread(sql, table);
}

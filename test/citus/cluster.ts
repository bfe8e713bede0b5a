import { execFileSync } from "node:child_process";
import * as fs from "node:fs";
import { join } from "node:path";
import postgres, { type Sql } from "postgres";
import { utcDay } from "@statusmesh/shared/time";
import { valueOf } from "@statusmesh/control-plane/platform/db/client/sql";
import { type Account, type Daemon, folderFor, startDaemon } from "../ha/daemon.ts";
import type { Teardown } from "../harness/folder.ts";
import { freePort } from "../harness/processes.ts";
import { waitFor } from "../harness/wait.ts";

/** A coordinator and two workers on loopback, with one database; every account is trusted. */
export interface Cluster {
  /** Ports: the coordinator's first. */
  ports: readonly number[];
  workers: readonly Daemon[];
  /** Address of a database on the coordinator. */
  url(database: string): string;
  /** Makes a database on all nodes, and a cluster of them where `spread` is true. */
  create(database: string, spread: boolean): Promise<void>;
  /** Takes a result back to the state between both phases of its commit: its worker has prepared it, and not more. */
  leavePrepared(database: string, targetId: string, slot: Date): Promise<void>;
}

/** Folder with the programs of a PostgreSQL that has Citus: SM_CITUS_BIN, or that of pg_config; null for none. */
export function findCitus(): string | null {
  const named = process.env["SM_CITUS_BIN"];
  const pgConfig = (folder: string | undefined, what: string): string | null => {
    try {
      return execFileSync(folder === undefined ? "pg_config" : join(folder, "pg_config"), [what], {
        stdio: ["ignore", "pipe", "ignore"],
      })
        .toString()
        .trim();
    } catch {
      return null;
    }
  };
  const libraries = pgConfig(named, "--pkglibdir");
  if (libraries === null || !fs.existsSync(join(libraries, "citus.so"))) return null;
  return pgConfig(named, "--bindir");
}

/** Starts the cluster; it ends with the test. */
export async function startCluster(t: Teardown, bin: string, folder: string, account: Account): Promise<Cluster> {
  const ports = [await freePort(), await freePort(), await freePort()] as const;
  const nodes = ports.map((port, n) => {
    const name = n === 0 ? "coordinator" : `worker${n}`;
    const home = folderFor(account, folder, name);
    const data = join(home, "data");
    const run = { stdio: "ignore", ...account } as const;
    execFileSync(join(bin, "initdb"), ["-D", data, "-U", "postgres", "-A", "trust", "--locale=C.UTF-8"], run);
    const settings = {
      port,
      listen_addresses: "127.0.0.1",
      unix_socket_directories: "",
      shared_preload_libraries: "citus",
      max_connections: 300,
      max_prepared_transactions: 300,
      // Processes are killed, not the machine.
      fsync: "off",
      "citus.shard_count": 8,
      "citus.recover_2pc_interval": "5s",
    };
    const args = Object.entries(settings).flatMap(([key, value]) => ["-c", `${key}=${value}`]);
    return startDaemon(t, { name, program: join(bin, "postgres"), args: ["-D", data, ...args], folder: home, account });
  });
  const at = (port: number, database: string): Sql =>
    postgres({ host: "127.0.0.1", port, database, username: "postgres", max: 1, onnotice: () => {} });
  for (const port of ports)
    await waitFor("PostgreSQL with Citus", () =>
      once(at(port, "postgres"), (sql) => sql`select 1`)
        .then(() => true)
        .catch(() => false),
    );
  return {
    ports,
    workers: nodes.slice(1),
    url: (database) => `postgres://postgres@127.0.0.1:${ports[0]}/${database}`,
    async create(database, spread) {
      for (const port of spread ? ports : ports.slice(0, 1)) {
        await once(at(port, "postgres"), (sql) => sql.unsafe(`create database ${database}`));
        if (spread) await once(at(port, database), (sql) => sql`create extension citus`);
      }
      if (!spread) return;
      await once(at(ports[0], database), async (sql) => {
        await sql`select citus_set_coordinator_host('127.0.0.1', ${ports[0]})`;
        for (const port of ports.slice(1)) await sql`select citus_add_node('127.0.0.1', ${port})`;
      });
    },
    async leavePrepared(database, targetId, slot) {
      // The coordinator's group, which Citus takes for its own; no process has this number.
      const gid = "citus_0_1_1_1";
      await once(at(ports[0], database), async (sql) => {
        const row = await valueOf<string>(sql`
          select to_json(r)::text as row from results r where r.target_id = ${targetId} and r.scheduled_at = ${slot}`);
        const partition = `results_${utcDay(slot.getTime()).replaceAll("-", "")}`;
        const [found] = await sql<{ shard: string; port: number; group: number }[]>`
          select ${partition} || '_' || s.id as shard, n.nodeport as port, n.groupid as group
          from get_shard_id_for_distribution_column(${partition}, ${targetId}::uuid) as s (id)
          join pg_dist_placement p on p.shardid = s.id join pg_dist_node n on n.groupid = p.groupid`;
        const { shard, port, group } = found!;
        await sql`delete from results where target_id = ${targetId} and scheduled_at = ${slot}`;
        const stored = (worker: Sql) => worker`
          insert into ${worker(shard)} select * from json_populate_record(null::${worker(shard)}, ${row}::text::json)`;
        await sql.begin(async (tx) => {
          // Without a record of it Citus would roll it back.
          await tx`lock pg_dist_transaction in share update exclusive mode`;
          await once(at(port, database), async (worker) => {
            await worker`set citus.enable_manual_changes_to_shards = on`;
            await worker`begin`;
            await stored(worker);
            await worker.unsafe(`prepare transaction '${gid}'`);
          });
          await tx`insert into pg_dist_transaction (groupid, gid) values (${group}, ${gid})`;
        });
      });
    },
  };
}

async function once<T>(sql: Sql, work: (sql: Sql) => PromiseLike<T>): Promise<T> {
  try {
    return await work(sql);
  } finally {
    await sql.end({ timeout: 1 });
  }
}

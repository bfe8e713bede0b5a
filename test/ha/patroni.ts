import * as fs from "node:fs";
import { join } from "node:path";
import { openPool } from "@statusmesh/control-plane/platform/db/client/connect";
import type { Teardown } from "../harness/folder.ts";
import { freePort } from "../harness/processes.ts";
import { reap } from "../harness/reaper.ts";
import { waitFor } from "../harness/wait.ts";
import { type Account, childrenOf, type Daemon, folderFor, killAll, startDaemon } from "./daemon.ts";
import { programs } from "./programs.ts";

/** One PostgreSQL of the cluster with its Patroni. */
export interface Node {
  readonly name: string;
  readonly port: number;
  readonly apiPort: number;
  /** True when Patroni says that this node is the primary. */
  isPrimary(): Promise<boolean>;
  /** True when Patroni says that this node is the synchronous standby. */
  isSynchronous(): Promise<boolean>;
  /** Kills Patroni and all processes of PostgreSQL with SIGKILL, as a power failure would. */
  kill(): Promise<void>;
  start(): void;
}

export interface Cluster {
  readonly nodes: readonly Node[];
  /** Returns the primary; null while there is none. */
  primary(): Promise<Node | null>;
  /** Runs SQL as superuser on the primary. */
  asSuperuser(statements: readonly string[]): Promise<void>;
}

const password = "password-of-the-test";

/** Starts etcd and three Patroni nodes on loopback ports, and waits for a primary with a synchronous standby. */
export async function startCluster(t: Teardown, folder: string, account: Account, template: string): Promise<Cluster> {
  const etcd = await startEtcd(t, folder, account);
  const nodes: Node[] = [];
  for (const name of ["db-1", "db-2", "db-3"])
    nodes.push(await startNode(t, { name, folder, account, template, etcd }));
  const primary = async (): Promise<Node | null> => {
    for (const node of nodes) if (await node.isPrimary()) return node;
    return null;
  };
  await waitFor(
    "a primary and a synchronous standby",
    async () =>
      (await primary()) !== null && (await Promise.all(nodes.map((node) => node.isSynchronous()))).includes(true),
    { ms: 120_000, everyMs: 250 },
  );
  return {
    nodes,
    primary,
    async asSuperuser(statements) {
      const node = await primary();
      if (node === null) throw new Error("there is no primary");
      const sql = openPool({ url: `postgres://postgres:${password}@127.0.0.1:${node.port}/postgres` }, { max: 1 });
      try {
        for (const statement of statements) await sql.unsafe(statement);
      } finally {
        await sql.end({ timeout: 1 });
      }
    },
  };
}

async function startEtcd(t: Teardown, folder: string, account: Account): Promise<string> {
  const client = `127.0.0.1:${await freePort()}`;
  const clientUrl = `http://${client}`;
  const peerUrl = `http://127.0.0.1:${await freePort()}`;
  const own = folderFor(account, folder, "etcd");
  startDaemon(t, {
    name: "etcd",
    program: programs.etcd,
    args: [
      "--name=etcd-1",
      `--data-dir=${join(own, "data")}`,
      `--listen-client-urls=${clientUrl}`,
      `--advertise-client-urls=${clientUrl}`,
      `--listen-peer-urls=${peerUrl}`,
      `--initial-advertise-peer-urls=${peerUrl}`,
      `--initial-cluster=etcd-1=${peerUrl}`,
    ],
    folder: own,
    account,
  });
  await waitFor("etcd", async () => (await fetch(`${clientUrl}/health`)).ok);
  return client;
}

interface NodeInput {
  name: string;
  folder: string;
  account: Account;
  template: string;
  etcd: string;
}

async function startNode(t: Teardown, { name, folder, account, template, etcd }: NodeInput): Promise<Node> {
  const [port, apiPort] = [await freePort(), await freePort()];
  const own = folderFor(account, folder, name);
  const data = join(own, "data");
  const text = fs
    .readFileSync(template, "utf8")
    .replaceAll('"db-1"', `"${name}"`)
    .replaceAll("10.0.1.1:8008", `127.0.0.1:${apiPort}`)
    .replaceAll("10.0.1.1:5432", `127.0.0.1:${port}`)
    .replaceAll("10.0.2.1:2379", etcd)
    .replaceAll("10.0.0.0/16", "127.0.0.1/32")
    .replaceAll(/[a-z]+-password/g, password)
    .replaceAll("/var/lib/postgresql/15/statusmesh", data);
  const config = JSON.parse(text) as { postgresql: Record<string, unknown> };
  // Debian's default folder of the socket belongs to one cluster of the machine.
  config.postgresql["parameters"] = { unix_socket_directories: own };
  config.postgresql["pgpass"] = join(own, "pgpass");
  const file = join(own, "patroni.json");
  fs.writeFileSync(file, JSON.stringify(config), { mode: 0o644 });
  const postmaster = (): number | null => {
    try {
      return Number(fs.readFileSync(join(data, "postmaster.pid"), "utf8").split("\n", 1)[0]);
    } catch {
      return null;
    }
  };
  const daemon: Daemon = startDaemon(t, { name, program: programs.patroni, args: [file], folder: own, account });
  const kill = async (): Promise<void> => {
    // Patroni first: it would start PostgreSQL again.
    const patroni = daemon.pid();
    const server = postmaster();
    killAll([
      ...(patroni === null ? [] : childrenOf(patroni)),
      ...(server === null ? [] : [...childrenOf(server), server]),
    ]);
    await daemon.kill();
    const late = postmaster();
    if (late !== null && late !== server) killAll([...childrenOf(late), late]);
  };
  t.teardown(kill);
  const answers = async (path: string): Promise<boolean> => {
    try {
      const answer = await fetch(`http://127.0.0.1:${apiPort}${path}`, { signal: AbortSignal.timeout(2_000) });
      await answer.body?.cancel();
      const server = postmaster();
      if (server !== null) reap(server);
      return answer.status === 200;
    } catch {
      return false;
    }
  };
  return {
    name,
    port,
    apiPort,
    isPrimary: () => answers("/primary"),
    isSynchronous: () => answers("/synchronous"),
    kill,
    start: () => daemon.start(),
  };
}

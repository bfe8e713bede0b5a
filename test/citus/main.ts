import { spawnSync } from "node:child_process";
import * as fs from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { Sql } from "postgres";
import type { AgentResult } from "@statusmesh/shared/protocol/agent-protocol";
import { newId } from "@statusmesh/shared/ids";
import { dayMs, hourMs, minuteMs } from "@statusmesh/shared/time";
import { endpointNames } from "@statusmesh/control-plane/alerting/channels/kinds/index";
import { type Config, loadConfig } from "@statusmesh/control-plane/config/config";
import { keepPartitions } from "@statusmesh/control-plane/monitoring/results/rollups/keep-partitions";
import { pack } from "@statusmesh/control-plane/monitoring/results/packing/pack";
import { markLate } from "@statusmesh/control-plane/monitoring/results/rollups/late";
import { dropOldRollups } from "@statusmesh/control-plane/monitoring/results/rollups/retention";
import { rollUp } from "@statusmesh/control-plane/monitoring/results/rollups/rollup";
import { backup, restore } from "@statusmesh/control-plane/operator/commands/backup";
import { distribute } from "@statusmesh/control-plane/operator/commands/distribute";
import { makeSystem } from "@statusmesh/control-plane/operator/open-system";
import {
  askWorkers,
  awaitCommits,
  type SpreadTable,
  spreadTables,
  tablesOnWorkers,
} from "@statusmesh/control-plane/platform/db/distributed/citus";
import { openPool } from "@statusmesh/control-plane/platform/db/client/connect";
import { migrate } from "@statusmesh/control-plane/platform/db/migrate";
import { dropPartitionsBefore, ensurePartitions } from "@statusmesh/control-plane/platform/db/distributed/partitions";
import { arrayOf } from "@statusmesh/control-plane/platform/db/client/sql";
import { silentLog } from "@statusmesh/control-plane/platform/process/log";
import { percentile, withTeardown } from "../bench/scope.ts";
import { databaseAccount, folderFor } from "../ha/daemon.ts";
import { type Client, connect } from "../harness/api.ts";
import { agentIn, castIn } from "../harness/cast.ts";
import { type Teardown, tempFolder } from "../harness/folder.ts";
import { type ControlPlane, startControlPlane } from "../harness/processes.ts";
import { batchOf, chunked, runOf, slotIn } from "../harness/results.ts";
import { insertTargets } from "../harness/targets.ts";
import { waitFor } from "../harness/wait.ts";
import { findCitus, startCluster } from "./cluster.ts";

/*
 * One PostgreSQL and a Citus cluster with the same rows, which a backup and `statusmesh distribute` bring there. Both
 * get the same results and run the same jobs, and every read must give the same; then a worker is killed.
 * npm run test:citus
 */

const region = "eu";
const targetCount = 100;
const batchSize = 100;
/** Measured batches of each monitor, and reads. */
const rounds = 5;
/** Kills of a worker in the middle of batches, of these many results each. */
const kills = 6;
const smallBatch = 5;
const readRounds = 12;
const root = fileURLToPath(new URL("../../../", import.meta.url));
/** Words in the paths of test files that are run on the cluster too. */
const testsOnCluster = ["results/results", "pipeline/ingest", "monitor-metrics"];
const started = performance.now();
let failed = 0;

function say(text: string): void {
  process.stdout.write(`${((performance.now() - started) / 1000).toFixed(1).padStart(6)} s  ${text}\n`);
}

function check(what: string, isRight: boolean, detail = ""): void {
  if (!isRight) failed++;
  say(`${isRight ? "ok    " : "FAILED"}  ${what}${isRight || detail === "" ? "" : `: ${detail}`}`);
}

/** One of the two installations. */
interface Place {
  name: string;
  sql: Sql;
  config: Config;
}

interface Running extends Place {
  plane: ControlPlane;
  api: Client;
  agent: Client;
}

const configOf = (url: string): Config =>
  loadConfig({ env: { SM_DATABASE__URL: url }, cwd: process.cwd(), endpointNames });

function placeAt(t: Teardown, name: string, url: string): Place {
  const sql = openPool({ url }, { max: 2, statementMs: 0 });
  t.teardown(() => sql.end({ timeout: 0 }));
  return { name, sql, config: configOf(url) };
}

/** The periodic jobs that write results, as of `now`. */
async function runJobs({ sql, config }: Place, now: number): Promise<void> {
  const system = makeSystem(config, sql, { now: () => now }, silentLog);
  await keepPartitions(system);
  await rollUp(system);
  await pack(system);
  await dropOldRollups(system);
}

/** Results of a check per minute from `first` to `to`; each monitor fails for ten minutes a day. */
async function fill(sql: Sql, ids: readonly string[], first: number, to: number): Promise<void> {
  await sql`
    insert into results (target_id, scheduled_at, region, "timestamp", status, skip, error, http_status, response_size,
      dns_ms, connect_ms, ttfb_ms, total_ms)
    select k.id, s.at, ${region}, s.at + interval '3 ms', case when f.fails then 'down' else 'up' end, false,
      case when f.fails then 'status 500' end, case when f.fails then 500 else 200 end, 512, 0.2, 0.4,
      10 + s.n % 50, 11 + s.n % 50
    from unnest(${ids as string[]}::uuid[], ${ids.map((id) => slotIn(id, region, minuteMs, first))}::bigint[])
      with ordinality k (id, slot, n)
    cross join lateral (
      select to_timestamp((k.slot + n * ${minuteMs}::bigint) / 1000.0) as at, n
      from generate_series(1, ${Math.floor((to - first) / minuteMs) - 1}::int) n
    ) s
    cross join lateral (select (s.n + 97 * k.n) % 1440 < 10 as fails) f`;
}

/** The reads that are compared: those of a monitor, and those of many. */
function readsOf(id: string, now: number): [string, string, boolean][] {
  const at = (ms: number) => encodeURIComponent(new Date(ms).toISOString());
  const of = (days: number) => `from=${at(now - days * dayMs)}&to=${at(now)}`;
  const own = `/api/v1/targets/${id}`;
  return [
    ["page of 50 results", `${own}/results?limit=50&${of(30)}`, true],
    ["deep page of results", `${own}/results?limit=50&offset=2500&${of(30)}`, true],
    ["results as CSV, 2 days", `${own}/results.csv?${of(2)}`, true],
    ["latency, 24 h", `${own}/latency?${of(1)}`, true],
    ["latency, 30 days", `${own}/latency?${of(30)}`, true],
    ["latency by region, 7 days", `${own}/latency/by-region?${of(7)}`, true],
    ["uptime, 24 h", `${own}/uptime?${of(1)}`, true],
    ["uptime, 90 days", `${own}/uptime?${of(90)}`, true],
    ["incident periods, 30 days", `${own}/incidents?${of(30)}`, true],
    ["dashboard summary", "/api/v1/dashboard/summary", false],
    ["monitors", "/api/v1/targets?limit=50", false],
    ["metrics of all monitors", "/api/v1/metrics", false],
    ["status page", "/status/citus", false],
    ["monitors sorted by uptime, a page", "/monitors?sort=uptime", false],
    ["page of a monitor", `/monitors/${id}`, false],
  ];
}

/** Milliseconds of a call: the median. */
async function median(work: () => Promise<unknown>): Promise<number> {
  const took: number[] = [];
  for (let round = 0; round < readRounds; round++) {
    const began = performance.now();
    await work();
    took.push(performance.now() - began);
  }
  return percentile(took.slice(3), 0.5);
}

/** Rows of the result tables as texts that a table in another place has too. */
async function digests(sql: Sql): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  for (const table of spreadTables) {
    // Each row is hashed where it is.
    const [row] = await sql<{ rows: number; sum: string }[]>`
      select count(*)::int as rows, coalesce(sum(hashtextextended(r::text, 0)::numeric), 0)::text as sum
      from ${sql(table)} r`;
    found[table] = `${row!.rows} rows, ${row!.sum}`;
  }
  return found;
}

async function compareTables(what: string, one: Sql, other: Sql): Promise<void> {
  const [a, b] = [await digests(one), await digests(other)];
  const differ = spreadTables.filter((table) => a[table] !== b[table]);
  check(what, differ.length === 0, differ.map((table) => `${table}: ${a[table]} and ${b[table]}`).join("; "));
}

/** Sends the batches at the same time as an agent does, two in flight; returns results a second. */
async function send({ agent, plane }: Running, batches: readonly AgentResult[][]): Promise<number> {
  const began = performance.now();
  const waiting = [...batches];
  let stored = 0;
  const sender = async () => {
    for (let batch = waiting.shift(); batch !== undefined; batch = waiting.shift()) {
      const { status, body } = await agent.post("/api/agent/results", batchOf(batch));
      if (status !== 200)
        throw new Error(`ingest answered ${status}: ${JSON.stringify(body)}\n${plane.log.slice(-5).join("\n")}`);
      stored += body.stored;
    }
  };
  await Promise.all([sender(), sender()]);
  const expected = batches.reduce((sum, batch) => sum + batch.length, 0);
  if (stored !== expected) throw new Error(`${stored} of ${expected} results stored`);
  return (stored * 1000) / (performance.now() - began);
}

/** Sends batches as agents do, four in flight and each until it is stored. Adds what the replies before say. */
async function deliver({ agent }: Running, batches: readonly AgentResult[][], refusals: string[]): Promise<void> {
  const waiting = [...batches];
  const sender = async () => {
    for (let batch = waiting.shift(); batch !== undefined; batch = waiting.shift())
      await waitFor("a batch to be stored", async () => {
        const { status, body } = await agent.post("/api/agent/results", batchOf(batch!));
        if (status !== 200) refusals.push(`${status} ${JSON.stringify(body)}`);
        return status === 200 || null;
      });
  };
  await Promise.all(Array.from({ length: 4 }, sender));
}

/**
 * Makes and drops partitions, which locks results, while batches are stored, packed rows move and transactions read
 * several tables: none of them may be in a deadlock.
 */
async function compete(t: Teardown, url: string, ids: readonly string[]): Promise<void> {
  const sql = openPool({ url }, { max: 8 });
  t.teardown(() => sql.end({ timeout: 0 }));
  const first = Date.now() + 30 * dayMs;
  const dayAt = (n: number) => new Date(first + n * dayMs);
  const some = arrayOf(ids.slice(0, 10));
  let at = 0;
  let over = false;
  await ensurePartitions(sql, dayAt(0), dayAt(5));
  const always = async (work: () => Promise<unknown>) => {
    while (!over) await work();
  };
  const insert = (table: SpreadTable) =>
    sql.begin(
      (tx) => tx`
        insert into ${tx(table)} (target_id, scheduled_at, "timestamp", status, skip, recheck, region)
        select id, ${dayAt(at + 4)}, now(), 'up', false, false, md5(random()::text) from unnest(${some}::uuid[]) id`,
    );
  const read = () =>
    sql.begin(async (tx) => {
      for (const id of ids.slice(0, 3))
        for (const table of ["results_late_of", "results_of", "results_hourly_of"])
          await tx`select count(*) from ${tx(table)}(${id}, ${dayAt(-50)}, ${dayAt(50)})`;
    });
  const change = async () => {
    for (; at < 10; at++) {
      await ensurePartitions(sql, dayAt(at), dayAt(at + 6));
      await dropPartitionsBefore(sql, dayAt(at));
    }
  };
  const others = [always(() => insert("results")), always(() => insert("results_late")), always(read), always(read)];
  const outcomes = await Promise.allSettled([change(), ...others].map((one) => one.finally(() => (over = true))));
  const failures = outcomes.flatMap((one) => (one.status === "rejected" ? [String(one.reason)] : []));
  check("no deadlock", failures.length === 0, failures.join("; "));
}

async function run(t: Teardown, bin: string): Promise<void> {
  const account = databaseAccount();
  const folder = tempFolder(t, "citus");
  fs.chmodSync(folder, 0o711);
  say("starting a coordinator and two workers");
  const cluster = await startCluster(t, bin, folderFor(account, folder, "nodes"), account);
  await cluster.create("one", false);
  await cluster.create("spread", true);
  const one = placeAt(t, "one PostgreSQL", cluster.url("one"));
  const spread = placeAt(t, "Citus", cluster.url("spread"));

  say(`filling one PostgreSQL: ${targetCount} monitors with a check per minute since the day before yesterday`);
  const now = Date.now();
  const first = Math.floor(now / dayMs) * dayMs - 2 * dayMs;
  await migrate(one.sql);
  const { olga } = await castIn(one.sql);
  const { token: agentToken } = await agentIn(one.sql, region);
  const ids = Array.from({ length: targetCount }, newId);
  await insertTargets(one.sql, { ids, orgId: olga.orgId, region, intervalSecs: 60, confirmations: 2 });
  await ensurePartitions(one.sql, new Date(first), new Date(now + dayMs));
  await fill(one.sql, ids, first, now - (rounds + kills + 3) * minuteMs);
  await runJobs(one, now);

  const clock = { now: () => Date.now() };
  const file = join(folder, "one.backup");
  await backup(one.config, clock, file, () => {});
  await restore(spread.config, clock, file, () => {});
  const refused = await distribute({ sql: one.sql }, { dryRun: false }, () => {}).then(
    () => "",
    (error: Error) => error.message,
  );
  check("distribute refuses a database without the extension", /no extension citus/.test(refused), refused);
  await distribute({ sql: spread.sql }, { dryRun: true }, () => {});
  check("a dry run changes nothing", (await tablesOnWorkers(spread.sql)).length === 0);
  await distribute({ sql: spread.sql }, { dryRun: false }, say);
  await distribute({ sql: spread.sql }, { dryRun: false }, () => {});
  check("all result tables are on the workers", (await tablesOnWorkers(spread.sql)).length === spreadTables.length);
  await compareTables("the rows are those of one PostgreSQL", one.sql, spread.sql);

  const places: Running[] = [];
  for (const place of [one, spread]) {
    const env = {
      SM_DATABASE__URL: place.config.database.url,
      SM_SCHEDULER__BUILTIN_AGENT: "false",
      SM_LOG__LEVEL: "warn",
    };
    const plane = await startControlPlane(t, { env });
    const api = connect(t, plane.url, olga.token);
    places.push({ ...place, plane, api, agent: connect(t, plane.url, agentToken) });
  }
  const [plain, citus] = places as [Running, Running];
  for (const { api } of places) {
    const page = (await api.post("/api/v1/status-pages", { name: "Status", slug: "citus", enabled: true })).body;
    await api.post(`/api/v1/status-pages/${page.id}/components/bulk`, { target_ids: ids.slice(0, 50) });
  }

  say("ingest: results a second, two batches in flight");
  const batches = (round: number) =>
    chunked(
      ids.map((id) => runOf(id, slotIn(id, region, minuteMs, now - round * minuteMs))),
      batchSize,
    );
  const speeds: number[][] = [[], []];
  for (let round = rounds + 1; round > 1; round--)
    for (const [n, place] of places.entries()) speeds[n]!.push(await send(place, batches(round + kills)));
  for (const [n, { name }] of places.entries()) say(`  ${name}: ${percentile(speeds[n]!, 0.5).toFixed(0)}`);
  for (const place of places) await runJobs(place, Date.now());
  await compareTables("after ingest and the jobs the rows are the same", plain.sql, citus.sql);

  say("reads: median, ms");
  for (const [name, path, isSame] of readsOf(ids[0]!, now)) {
    const [a, b] = [await plain.api.get(path), await citus.api.get(path)];
    const took = [await median(() => plain.api.get(path)), await median(() => citus.api.get(path))];
    check(
      `${name.padEnd(36)} ${took.map((ms) => ms.toFixed(1).padStart(8)).join(" ")}`,
      a.status === 200 && b.status === 200 && (!isSame || a.text === b.text),
      `${a.status} ${b.status} ${b.text.slice(0, 300)}`,
    );
  }

  say("killing a worker");
  const victim = cluster.workers[0]!;
  const before = await digests(citus.sql);
  await victim.kill();
  const statuses = await Promise.all(
    ids.slice(0, 40).map(async (id) => (await citus.api.get(`/api/v1/targets/${id}/uptime`)).status),
  );
  const answered = [...new Set(statuses)].sort().join(", ");
  check("reads of its monitors answer 503, those of the others 200", answered === "200, 503", answered);
  const waiting = batches(1);
  const turned = await Promise.all(
    waiting.map(async (batch) => (await citus.agent.post("/api/agent/results", batchOf(batch))).status),
  );
  check(
    "a batch is refused with 503",
    turned.every((status) => status === 503),
    turned.join(),
  );
  victim.start();
  await waitFor(
    "the worker",
    async () => (await citus.api.get(`/api/v1/targets/${ids[0]!}/uptime`)).status === 200 || null,
  );
  await sleep(1000);
  await waitFor("a read of all", async () => await digests(citus.sql).catch(() => null));
  const after = await digests(citus.sql);
  check(
    "nothing is lost, and nothing of the refused batch is stored",
    JSON.stringify(before) === JSON.stringify(after),
  );
  // Connections of the coordinator to the killed worker may still fail once.
  const refusals: string[] = [];
  await deliver(citus, waiting, refusals);
  await send(plain, waiting);
  await compareTables("the agent delivers it afterwards", plain.sql, citus.sql);

  say("killing it in the middle of batches");
  for (let kill = 0; kill < kills; kill++) {
    const round = batches(kills + 1 - kill);
    const delivered = deliver(citus, chunked(round.flat(), smallBatch), refusals);
    await sleep(20 * kill);
    await victim.kill();
    await waitFor("the worker", async () => {
      // It does not start while a process of the killed one runs.
      victim.start();
      return (await citus.api.get(`/api/v1/targets/${ids[0]!}/uptime`)).status === 200 || null;
    });
    await delivered;
    await send(plain, round);
  }
  check(
    `each of ${refusals.length} refusals is a 503`,
    refusals.length > 0 && refusals.every((refusal) => refusal.startsWith("503 ")),
    [...new Set(refusals)].join("; "),
  );
  // A worker that was killed between both phases of a commit shows its rows once Citus has ended that commit.
  await waitFor("the end of commits", async () => (await awaitCommits(citus.sql).catch(() => false)) !== false || null);
  await compareTables("each batch is stored once", plain.sql, citus.sql);

  say("rolling up a result that its worker has prepared and not committed");
  const slot = slotIn(ids[1]!, region, minuteMs, Date.now() - 2 * hourMs);
  await cluster.leavePrepared("spread", ids[1]!, new Date(slot));
  const open = (await askWorkers(citus.sql, 0)).map((worker) => worker.open);
  check("doctor would see it", open.sort().join() === "0,1", open.join());
  for (const place of places) {
    await markLate(place.sql, [{ target_id: ids[1]!, scheduled_at: slot }], Date.now());
    await runJobs(place, Date.now());
  }
  await compareTables("it is in the sums", plain.sql, citus.sql);

  say("backup of the cluster, restored into one PostgreSQL");
  const copy = join(folder, "citus.backup");
  await citus.plane.stop();
  await backup(spread.config, clock, copy, () => {});
  await cluster.create("copy", false);
  const again = placeAt(t, "copy", cluster.url("copy"));
  await restore(again.config, clock, copy, () => {});
  await compareTables("the backup has all rows", again.sql, citus.sql);
  await cluster.create("whole", true);
  const whole = placeAt(t, "another cluster", cluster.url("whole"));
  await migrate(whole.sql);
  await distribute({ sql: whole.sql }, { dryRun: false }, () => {});
  await restore(whole.config, clock, copy, () => {});
  check("a backup is restored into spread tables", (await tablesOnWorkers(whole.sql)).length === spreadTables.length);
  await compareTables("with all rows", again.sql, whole.sql);

  say("partitions are made and dropped beside results and reads of several tables");
  await compete(t, cluster.url("whole"), ids);

  say("tests of the product, each on a cluster of its own");
  const { status } = spawnSync(process.execPath, [join(root, "infra/scripts/test.mjs"), ...testsOnCluster], {
    stdio: "inherit",
    env: { ...process.env, SM_TEST_CITUS: cluster.ports.join() },
  });
  check("tests on the cluster", status === 0);
}

const bin = findCitus();
if (bin === null) {
  process.stderr.write(
    "This test needs a PostgreSQL with Citus: install both, or set SM_CITUS_BIN to the folder of its programs.\n",
  );
  process.exit(2);
}
await withTeardown((t) => run(t, bin));
say(failed === 0 ? "all as expected" : `${failed} failed`);
process.exit(failed === 0 ? 0 : 1);

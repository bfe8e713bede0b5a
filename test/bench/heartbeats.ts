import type { Sql } from "postgres";
import { Agent, request } from "node:http";
import { newId } from "@statusmesh/shared/ids";
import { digestOf, keyOf } from "@statusmesh/shared/pings/address";
import { Pool } from "undici";
import { agentIn, castIn } from "../harness/cast.ts";
import { insertTargets, openEmbedded } from "../harness/targets.ts";
import { tempFolder } from "../harness/folder.ts";
import { postmasterOf, startControlPlane } from "../harness/processes.ts";
import { batchOf, chunked, runOf, slotIn } from "../harness/results.ts";
import { cpuSeconds, cpuSecondsOfAll, endChild, type Measured, rounded, sleep, startChild } from "./measure.ts";
import { nodeArgs, percentile, withTeardown } from "./scope.ts";

const monitors = 100_000;
const late = monitors / 100;
const hourMs = 3_600_000;
/** Reports of one turn, in flight at once, and turns: the first warms up. */
const turnSize = 4000;
const inFlight = 64;
const turns = 6;
/**
 * Results a second beside pings: 10,000, or a share of those that the machine takes without pings where that is less;
 * and pings a second as a share of these results.
 */
const resultRate = 10_000;
const resultShare = 0.4;
const pingShare = 0.1;
/**
 * Rounds of results at once: the first compile the code and give new monitors as many runs as their state keeps, until
 * then each run is evaluated with all before it; the rest are timed.
 */
const warmUpRounds = 12;
const timedRounds = 4;
/** Rounds of results beside pings. */
const besideRounds = 16;
/** Pings of this time open the connections of jobs and are not counted. */
const besideWarmUpMs = 2000;
/** Pings go to the control plane and to the bare server in turns of this length. */
const besideTurnMs = 500;
/** The late ones become due within this time. */
const lateMs = 40_000;
/** Results of a batch. */
const batchSize = 1000;
const region = "bench";

/** `p99Ms` or `p99Bare`, whichever is more: where the bare server waits longer than that, the machine does. */
const limits = { share: 0.25, p99Ms: 50, p99Bare: 1.25, detectionMs: 2000, sweepCores: 0.05 };

/**
 * Pings of heartbeat monitors at a real control plane with 100,000 of them. `value`: pings per CPU second of control
 * plane and database, as a share of single-row inserts into the same table over one connection per CPU second of
 * inserting client and database. Then how late 1 % missed reports are found, with the CPU time that this takes beyond
 * an idle control plane without monitors, and the latency of pings beside results at fixed rates: of monitors that have
 * reported before, as nearly all do.
 */
export async function run(): Promise<Measured> {
  return await withTeardown(async (t) => {
    const folder = tempFolder(t, "bench");
    const env = { SM_LOG__LEVEL: "warn", SM_SERVER__MAX_CONNECTIONS_PER_ADDRESS: "0" };
    const controlPlane = await startControlPlane(t, { folder, env, nodeArgs });
    const postmaster = postmasterOf(folder)!;
    const cpu = (): number => cpuSeconds(controlPlane.pid) + cpuSecondsOfAll([postmaster]);
    await sleep(10_000);
    const idleBefore = cpu();
    await sleep(lateMs / 2);
    const idlePerSecond = (cpu() - idleBefore) / (lateMs / 2000);

    const sql = openEmbedded(t, folder, 2);
    const { olga } = await castIn(sql);
    const ids = Array.from({ length: monitors }, newId);
    await fill(sql, olga.orgId, ids);

    const agent = new Agent({ keepAlive: true, maxSockets: inFlight });
    const ping: Ping = (n) => pingOnce(agent, controlPlane.url, `/hb/${tokenOf(n % monitors)}`);
    const cost = { pings: [] as number[], inserts: [] as number[] };
    let next = 0;
    for (let turn = 0; turn < turns; turn++) {
      const before = cpu();
      const from = next;
      next += turnSize;
      let at = from;
      await Promise.all(
        Array.from({ length: inFlight }, async () => {
          while (at < next) await ping(at++);
        }),
      );
      const between = cpu();
      const own = process.cpuUsage();
      const began = performance.now();
      for (let n = 0; n < turnSize; n++)
        await sql`
          insert into heartbeat_pings (target_id, number, at, kind, source_ip, user_agent)
          values (${ids[n]!}, ${1_000_000 + turn}, ${new Date()}, 'success', '127.0.0.1', 'bare')`;
      const { user, system } = process.cpuUsage(own);
      const background = idlePerSecond * ((performance.now() - began) / 1000);
      if (turn === 0) continue;
      cost.pings.push((between - before) / turnSize);
      cost.inserts.push((cpu() - between - background + (user + system) / 1e6) / turnSize);
    }
    const [pingCost, insertCost] = [percentile(cost.pings, 0.5), percentile(cost.inserts, 0.5)];

    // Before there are monitors of agents, whose jobs would count. First with none that is late.
    const watchBefore = cpu();
    await sleep(lateMs / 2);
    const watch = Math.max(0, (cpu() - watchBefore) / (lateMs / 2000) - idlePerSecond);
    const found = await lateReports(sql, ids.slice(0, late), cpu);

    const probed = Array.from({ length: 10_000 }, newId);
    const site = await agentIn(sql, region);
    await insertTargets(sql, { ids: probed, orgId: olga.orgId, region, intervalSecs: 10, confirmations: 2 });
    const bareServer = await startChild(new URL("./heartbeats/bare.js", import.meta.url), [folder, ids[0]!]);
    t.teardown(() => endChild(bareServer.child));
    // As many connections as pings that wait: jobs do not wait for each other.
    const jobs = new Agent({ keepAlive: true });
    const pingOfJob: Ping = (n) => pingOnce(jobs, controlPlane.url, `/hb/${tokenOf(late + n)}`);
    const bare: Ping = (n) => pingOnce(jobs, `http://127.0.0.1:${bareServer.firstLine}`, `/${n}`);
    for (let n = 0; n < 1000; n++) await bare(n);
    const beside = await latencyBeside(controlPlane.url, { token: site.token, ids: probed }, { ping: pingOfJob, bare });

    agent.destroy();
    jobs.destroy();
    await controlPlane.stop();

    const share = insertCost / pingCost;
    const sweep = Math.max(0, found.cpuPerSecond - idlePerSecond);
    return {
      name: "heartbeats",
      value: rounded(share, 3),
      unit: "x bare inserts",
      limit: limits.share,
      better: "higher",
      // The worst, each as a share of its limit.
      ratio: rounded(
        Math.max(
          limits.share / share,
          beside.p99 / Math.max(limits.p99Ms, limits.p99Bare * beside.bareP99),
          found.latestMs / limits.detectionMs,
          sweep / limits.sweepCores,
        ),
        3,
      ),
      ping_cpu_us: rounded(pingCost * 1e6, 0),
      bare_insert_cpu_us: rounded(insertCost * 1e6, 0),
      p50_ms: rounded(beside.p50, 1),
      p99_ms: rounded(beside.p99, 1),
      bare_p50_ms: rounded(beside.bareP50, 1),
      bare_p99_ms: rounded(beside.bareP99, 1),
      results_per_second: rounded(beside.results, 0),
      pings_per_second: rounded(beside.pings, 0),
      detection_ms: rounded(found.latestMs, 0),
      missed: found.count,
      sweep_cores: rounded(sweep, 4),
      watch_cores: rounded(watch, 4),
      idle_cores: rounded(idlePerSecond, 4),
    };
  });
}

const tokenOf = (n: number): string => `bench-${n}`.padEnd(43, "x");

/** Monitors with an open window of an hour, as after a ping of each. */
async function fill(sql: Sql, orgId: string, ids: readonly string[]): Promise<void> {
  const check = {
    type: "heartbeat" as const,
    period: hourMs,
    schedule: null,
    grace: 60_000,
    max_runtime: null,
    methods: "any" as const,
  };
  for (const [at, some] of chunked([...ids], 10_000).entries()) {
    await insertTargets(sql, {
      ids: some,
      orgId,
      region: "heartbeat",
      intervalSecs: 3600,
      confirmations: 1,
      spec: () => check,
    });
    const hashes = some.map((_, n) => keyOf(digestOf("own", tokenOf(at * 10_000 + n))));
    await sql`
      insert into heartbeat_addresses (target_id, kind, hash, hint, position)
      select u.id, 'own', decode(u.hash, 'hex'), 'xxxx', 0
      from unnest(${some}::uuid[], ${hashes}::text[]) as u (id, hash)`;
    await sql`
      insert into heartbeats (target_id, token, reported_at, due_at, down_at)
      select id, '', now(), now() + interval '1 hour', now() + interval '61 minutes'
      from unnest(${some}::uuid[]) as u (id)`;
  }
  await sql`vacuum analyze heartbeats, heartbeat_addresses, targets, target_states`;
}

/** Milliseconds until the answer. */
function pingOnce(agent: Agent, url: string, path: string, began = performance.now()): Promise<number> {
  return new Promise((resolve, reject) => {
    const sent = request(url + path, { agent }, (response) => {
      response.resume();
      response.on("end", () => {
        if (response.statusCode === 200) resolve(performance.now() - began);
        else reject(new Error(`a ping was answered ${response.statusCode}`));
      });
    });
    sent.on("error", (error: NodeJS.ErrnoException) => {
      // The server has closed an idle connection at the same moment.
      if (sent.reusedSocket && error.code === "ECONNRESET") resolve(pingOnce(agent, url, path, began));
      else reject(error);
    });
    sent.end();
  });
}

type Ping = (n: number) => Promise<number>;

/**
 * Latency of pings beside results, both at fixed rates, whatever the replies take: of the control plane, and in turns
 * of a bare server, which has to wait for the same processors, disk and client.
 */
async function latencyBeside(
  url: string,
  { token, ids }: { token: string; ids: readonly string[] },
  { ping, bare }: { ping: Ping; bare: Ping },
): Promise<{ p50: number; p99: number; bareP50: number; bareP99: number; results: number; pings: number }> {
  const pool = new Pool(url, { connections: 2 });
  const post = async (body: string): Promise<void> => {
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    const reply = await pool.request({ method: "POST", path: "/api/agent/results", headers, body });
    const text = await reply.body.text();
    if (reply.statusCode !== 200) throw new Error(`a batch was answered ${reply.statusCode}: ${text}`);
  };
  const rounds = warmUpRounds + timedRounds + besideRounds;
  const start = Date.now() - 60_000 - (warmUpRounds + timedRounds) * 10_000;
  const bodies = Array.from({ length: rounds }, (_, round) =>
    chunked(
      ids.map((id) => runOf(id, slotIn(id, region, 10_000, start + round * 10_000))),
      batchSize,
    ).map((batch) => JSON.stringify(batchOf(batch))),
  );
  const postAll = async (count: number): Promise<void> => {
    for (const round of bodies.splice(0, count)) await Promise.all(round.map(post));
  };
  await postAll(warmUpRounds);
  const timed = performance.now();
  await postAll(timedRounds);
  const mostPerMs = (timedRounds * ids.length) / (performance.now() - timed);
  const resultsPerMs = Math.min(resultRate / 1000, resultShare * mostPerMs);

  const began = performance.now();
  const posting = bodies.flat().map(async (body, n) => {
    await sleep((n * batchSize) / resultsPerMs);
    await post(body);
  });
  const pingsPerMs = pingShare * resultsPerMs;
  const besideMs = (besideRounds * ids.length) / resultsPerMs;
  const [pinging, pingingBare, uncounted]: [Promise<number>[], Promise<number>[], Promise<number>[]] = [[], [], []];
  for (let sent = 0; performance.now() - began < besideMs; await sleep(5)) {
    const at = performance.now() - began;
    const due = Math.floor(at * pingsPerMs);
    const isBare = Math.floor(at / besideTurnMs) % 2 === 1;
    const counted = at < besideWarmUpMs ? uncounted : isBare ? pingingBare : pinging;
    for (; sent < due; sent++) counted.push(isBare ? bare(sent) : ping(sent));
  }
  await Promise.all(uncounted);
  const latencies = await Promise.all(pinging);
  const bareLatencies = await Promise.all(pingingBare);
  await Promise.all(posting);
  const tookMs = performance.now() - began;
  await pool.close();
  return {
    p50: percentile(latencies, 0.5),
    p99: percentile(latencies, 0.99),
    bareP50: percentile(bareLatencies, 0.5),
    bareP99: percentile(bareLatencies, 0.99),
    results: (besideRounds * ids.length * 1000) / tookMs,
    pings: ((uncounted.length + latencies.length + bareLatencies.length) * 1000) / besideMs,
  };
}

/** Lets windows end one after the other, and looks how long the oldest one waits to be found. */
async function lateReports(
  sql: Sql,
  ids: readonly string[],
  cpu: () => number,
): Promise<{ latestMs: number; count: number; cpuPerSecond: number }> {
  await sql`
    update heartbeats h set due_at = u.at - interval '1 minute', down_at = u.at
    from (
      select id, now() + interval '2 seconds' + n * ${lateMs / ids.length} * interval '1 ms' as at
      from unnest(${[...ids]}::uuid[]) with ordinality as t (id, n)
    ) u where h.target_id = u.id`;
  const before = cpu();
  const began = performance.now();
  let latestMs = 0;
  let count = 0;
  while (count < ids.length && performance.now() - began < 2 * lateMs) {
    await sleep(500);
    const [row] = await sql<{ waits: number; found: number }[]>`
      select 1000 * coalesce(
          extract(epoch from now() - min(down_at) filter (where not failing and down_at < now())), 0)::float8 as waits,
        (count(*) filter (where failing))::int as found
      from heartbeats where target_id = any(${[...ids]}::uuid[])`;
    latestMs = Math.max(latestMs, row!.waits);
    count = row!.found;
  }
  return { latestMs, count, cpuPerSecond: (cpu() - before) / ((performance.now() - began) / 1000) };
}

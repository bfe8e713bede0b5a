import { setTimeout as sleep } from "node:timers/promises";
import type { Sql } from "postgres";
import type { AgentResult } from "@statusmesh/shared/protocol/agent-protocol";
import { newId } from "@statusmesh/shared/ids";
import { Pool } from "undici";
import { agentIn, castIn } from "../harness/cast.ts";
import { insertTargets, openEmbedded } from "../harness/targets.ts";
import { tempFolder } from "../harness/folder.ts";
import { postmasterOf, startControlPlane } from "../harness/processes.ts";
import { batchOf, chunked, runOf, slotIn } from "../harness/results.ts";
import { memoryOf } from "./memory.ts";
import { cpuSeconds, cpuSecondsOfAll, type Measured, rounded } from "./measure.ts";
import { nodeArgs, percentile, withTeardown } from "./scope.ts";

const targetCount = 10_000;
const batchSize = 1_000;
const intervalSecs = 10;
/** Rounds over all targets: one to warm up, then the measured ones. */
const warmUpRounds = 4;
const rounds = 24;
/** Concurrent batches of one agent. */
const inFlight = 2;
const region = "bench";

/** Measured 0.16 to 0.22, on a machine that other work kept busy. */
const minShare = 0.1;
/** Share of the CPU time of ingest that evaluation may take. */
const maxEvaluation = 0.3;

/**
 * Results through `POST /api/agent/results` of a real control plane on its embedded database, evaluation included,
 * against the barest insert of the same rows into the same table over one connection, and against skipped results of
 * other targets, which are stored without evaluation; in turns.
 */
export async function run(): Promise<Measured> {
  return await withTeardown(async (t) => {
    const folder = tempFolder(t, "bench");
    const controlPlane = await startControlPlane(t, { folder, env: { SM_LOG__LEVEL: "warn" }, nodeArgs });
    await sleep(10_000);
    const idle = memoryOf([controlPlane.pid, postmasterOf(folder)!]);

    const sql = openEmbedded(t, folder, inFlight);
    const { olga } = await castIn(sql);
    const agent = await agentIn(sql, region);
    const ids = Array.from({ length: targetCount }, newId);
    const skippedIds = Array.from({ length: targetCount }, newId);
    for (const all of [ids, skippedIds])
      await insertTargets(sql, { ids: all, orgId: olga.orgId, region, intervalSecs, confirmations: 2 });

    // Around now, so that they are neither late nor too early.
    const start = Date.now() - ((warmUpRounds + rounds) / 2) * intervalSecs * 1000;
    const byRound = Array.from({ length: warmUpRounds + rounds }, (_, round) =>
      roundOf(ids, round, start + round * intervalSecs * 1000),
    );
    const skippedByRound = byRound.map((_, round) =>
      roundOf(skippedIds, round, start + round * intervalSecs * 1000).map((batch) =>
        batch.map((result) => ({ ...result, skip: true })),
      ),
    );
    const pool = new Pool(controlPlane.url, { connections: inFlight });

    // In turns: the speed of a machine drifts within a minute by more than the measured difference.
    const took = { bare: 0, parallel: 0, ingest: 0 };
    const postmaster = postmasterOf(folder)!;
    const cpu = {
      bare: [] as number[],
      postgres: [] as number[],
      controlPlane: [] as number[],
      stored: [] as number[],
    };
    /** CPU microseconds of a result that `work` takes for all targets: of the database, and of the control plane. */
    const costOf = async <T>(work: () => Promise<T>): Promise<{ value: T; postgres: number; controlPlane: number }> => {
      const before = [cpuSecondsOfAll([postmaster]), cpuSeconds(controlPlane.pid)] as const;
      const value = await work();
      const us = (seconds: number): number => (seconds / targetCount) * 1e6;
      return {
        value,
        postgres: us(cpuSecondsOfAll([postmaster]) - before[0]),
        controlPlane: us(cpuSeconds(controlPlane.pid) - before[1]),
      };
    };
    const latencies: number[] = [];
    for (const [round, batches] of byRound.entries()) {
      const bare = await costOf(() => insertAll(sql, shifted(batches, 1), 1));
      const parallel = await insertAll(sql, shifted(batches, 2), inFlight);
      const ingest = await costOf(() => post(pool, agent.token, batches));
      const stored = await costOf(() => post(pool, agent.token, skippedByRound[round]!));
      if (round < warmUpRounds) continue;
      took.bare += bare.value;
      took.parallel += parallel;
      took.ingest += ingest.value.seconds;
      latencies.push(...ingest.value.latencies);
      cpu.bare.push(bare.postgres);
      cpu.postgres.push(ingest.postgres);
      cpu.controlPlane.push(ingest.controlPlane);
      cpu.stored.push(stored.postgres + stored.controlPlane);
    }
    await pool.close();
    const loaded = memoryOf([controlPlane.pid, postmasterOf(folder)!]);
    const [{ incidents } = { incidents: 0 }] = await sql<
      { incidents: number }[]
    >`select count(*)::int as incidents from incidents`;

    await controlPlane.stop();

    const results = rounds * targetCount;
    const perSecond = results / took.ingest;
    const barePerSecond = results / took.bare;
    const share = perSecond / barePerSecond;
    const p99 = percentile(latencies, 0.99);
    const median = (values: readonly number[]): number => percentile(values, 0.5);
    const evaluation = 1 - median(cpu.stored) / (median(cpu.postgres) + median(cpu.controlPlane));
    return {
      name: "ingest",
      value: rounded(share, 3),
      unit: "x a bare insert",
      limit: minShare,
      better: "higher",
      // The worse of the two, each as a share of its limit.
      ratio: rounded(Math.max(minShare / share, evaluation / maxEvaluation), 3),
      evaluation_share: rounded(evaluation, 3),
      results_per_second: rounded(perSecond, 0),
      bare_inserts_per_second: rounded(barePerSecond, 0),
      // The same over as many connections as batches are in flight: both cores of a small machine against one event
      // loop.
      share_of_parallel_inserts: rounded(took.parallel / took.ingest, 3),
      batch_p50_ms: rounded(percentile(latencies, 0.5), 0),
      batch_p99_ms: rounded(p99, 0),
      postgres_cpu_us: rounded(percentile(cpu.postgres, 0.5), 1),
      control_plane_cpu_us: rounded(percentile(cpu.controlPlane, 0.5), 1),
      bare_postgres_cpu_us: rounded(percentile(cpu.bare, 0.5), 1),
      batches_in_flight: inFlight,
      incidents,
      idle_memory_mb: rounded(idle.pss, 0),
      idle_rss_sum_mb: rounded(idle.rss, 0),
      loaded_memory_mb: rounded(loaded.pss, 0),
    };
  });
}

/**
 * One run of every target, in batches: mostly up; one in a hundred fails alone now and then, one in 500 long enough for
 * an incident.
 */
function roundOf(ids: readonly string[], round: number, slot: number): AgentResult[][] {
  const fails = (n: number): boolean => (n % 500 === 0 ? round % 12 >= 6 : n % 100 === 1 && (round + n / 100) % 10 < 1);
  return chunked(
    ids.map((id, n) => runOf(id, slotIn(id, region, intervalSecs * 1000, slot), fails(n) ? "down" : "up")),
    batchSize,
  );
}

/** The same rows, some milliseconds later, with keys of their own. */
const shifted = (batches: readonly AgentResult[][], ms: number): AgentResult[][] =>
  batches.map((batch) => batch.map((result) => ({ ...result, scheduled_at: result.scheduled_at + ms })));

/** Processes the items, `atOnce` at a time; returns the seconds. */
async function workThrough<T>(items: readonly T[], atOnce: number, work: (item: T) => Promise<void>): Promise<number> {
  const began = performance.now();
  let next = 0;
  await Promise.all(
    Array.from({ length: atOnce }, async () => {
      for (let at = next++; at < items.length; at = next++) await work(items[at]!);
    }),
  );
  return (performance.now() - began) / 1000;
}

async function post(
  pool: Pool,
  token: string,
  batches: readonly AgentResult[][],
): Promise<{ seconds: number; latencies: number[] }> {
  const bodies = batches.map((batch) => Buffer.from(JSON.stringify(batchOf(batch))));
  const latencies: number[] = [];
  const seconds = await workThrough(bodies, inFlight, async (body) => {
    const began = performance.now();
    const reply = await pool.request({
      method: "POST",
      path: "/api/agent/results",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body,
    });
    const text = await reply.body.text();
    latencies.push(performance.now() - began);
    if (reply.statusCode !== 200 || (JSON.parse(text) as { stored: number }).stored !== batchSize)
      throw new Error(`a batch was answered ${reply.statusCode}: ${text}`);
  });
  return { seconds, latencies };
}

/** Inserts the batches, one statement each, over `connections`. Returns seconds. */
async function insertAll(sql: Sql, batches: readonly AgentResult[][], connections: number): Promise<number> {
  const columns = batches.map((batch) => {
    const column = <T>(of: (result: AgentResult) => T): T[] => batch.map(of);
    return {
      target: column((r) => r.target_id),
      slot: column((r) => new Date(r.scheduled_at).toISOString()),
      at: column((r) => new Date(r.timestamp).toISOString()),
      status: column((r) => r.status),
      skip: sql.array(
        column((r) => r.skip),
        1000,
      ),
      error: column((r) => r.error),
      http: column((r) => r.http_status),
      size: column((r) => r.response_size),
      dns: column((r) => r.dns_ms),
      connect: column((r) => r.connect_ms),
      tls: column((r) => r.tls_ms),
      ttfb: column((r) => r.ttfb_ms),
      total: column((r) => r.total_ms),
    };
  });
  return await workThrough(columns, connections, async (c) => {
    await sql`
      insert into results
        (target_id, scheduled_at, region, "timestamp", status, skip, error, http_status, response_size, dns_ms,
          connect_ms, tls_ms, ttfb_ms, total_ms)
      select target_id, scheduled_at, ${region}, "timestamp", status, skip, error, http_status, response_size,
        dns_ms, connect_ms, tls_ms, ttfb_ms, total_ms
      from unnest(${c.target}::uuid[], ${c.slot}::timestamptz[], ${c.at}::timestamptz[], ${c.status}::text[],
        ${c.skip}::boolean[], ${c.error}::text[], ${c.http}::smallint[],
        ${c.size}::integer[], ${c.dns}::real[], ${c.connect}::real[], ${c.tls}::real[], ${c.ttfb}::real[],
          ${c.total}::real[])
        as u (target_id, scheduled_at, "timestamp", status, skip, error, http_status, response_size, dns_ms,
          connect_ms, tls_ms, ttfb_ms, total_ms)`;
  });
}

import { mkdirSync, writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { endpointNames } from "@statusmesh/control-plane/alerting/channels/kinds/index";
import { loadConfig } from "@statusmesh/control-plane/config/config";
import { openIngest } from "@statusmesh/control-plane/monitoring/pipeline/ingest";
import { dayPreparer, keepPartitions } from "@statusmesh/control-plane/monitoring/results/rollups/keep-partitions";
import { pack } from "@statusmesh/control-plane/monitoring/results/packing/pack";
import { packState } from "@statusmesh/control-plane/monitoring/results/packing/pack-state";
import { dropOldRollups } from "@statusmesh/control-plane/monitoring/results/rollups/retention";
import { rollUp } from "@statusmesh/control-plane/monitoring/results/rollups/rollup";
import { latencySeries } from "@statusmesh/control-plane/monitoring/results/latency/service";
import { listResults, uptime } from "@statusmesh/control-plane/monitoring/results/service";
import { deleteTarget, sweepTombstones } from "@statusmesh/control-plane/monitoring/targets/service";
import { makeSystem, openConfiguredDatabase } from "@statusmesh/control-plane/operator/open-system";
import { migrate } from "@statusmesh/control-plane/platform/db/migrate";
import { type AgentCtx, type Ctx, scopes } from "@statusmesh/control-plane/platform/context";
import { silentLog } from "@statusmesh/control-plane/platform/process/log";
import { type AgentResult, protocolVersion } from "@statusmesh/shared/protocol/agent-protocol";
import { newId } from "@statusmesh/shared/ids";
import { jitterMs } from "@statusmesh/shared/schedule";
import { dayMs, hourMs, minuteMs } from "@statusmesh/shared/time";
import { memoryOf } from "../bench/memory.ts";
import { percentile, withTeardown } from "../bench/scope.ts";
import { agentIn, castIn } from "../harness/cast.ts";
import { tempFolder } from "../harness/folder.ts";
import { postmasterOf } from "../harness/processes.ts";
import { chunked, runOf, slotIn } from "../harness/results.ts";
import { insertTargets, openEmbedded } from "../harness/targets.ts";
import { sizesOf } from "./sizes.ts";
import { watchWaits } from "./watch.ts";

/*
 * Weeks of monitoring in an hour: ingest, rollup, packing, retention and reads of the control plane on its embedded
 * database, one simulated minute after the other, as fast as they go. npm run soak [-- --monitors 500 --days 30]
 */

/** Sizes may exceed the computed ones by a tenth and half a megabyte, which a table has for a few rows. */
const limits = { lockMs: 1_000, statementMs: 2_000, growth: 1.05, size: 1.1, sizeMb: 0.5 };
/** Days before which caches and tables are still filling. */
const warmUpDays = 10;
const region = "soak";

const { values } = parseArgs({
  options: { monitors: { type: "string", default: "500" }, days: { type: "string", default: "30" } },
});
const [monitors, days] = [Number(values.monitors), Number(values.days)];
if (![monitors, days].every((n) => Number.isInteger(n) && n > 0) || days > 50) {
  process.stderr.write("--monitors and --days are whole numbers, at most 50 days.\n");
  process.exit(2);
}

/** Milliseconds of reads, by what was read. */
const reads = new Map<string, number[]>();
async function timed(name: string, read: Promise<unknown>): Promise<void> {
  const began = performance.now();
  await read;
  const all = reads.get(name) ?? [];
  if (all.push(performance.now() - began) === 1) reads.set(name, all);
}

/** One of `n`: the same ones in each run. */
const oneOf = (seed: number, n: number): boolean => Math.imul(seed + 1, 2_654_435_761) >>> 0 < 4_294_967_296 / n;
/** Log-normal times with noise of their own in each phase, ms. */
const time = (middle: number, sigma: number): number => {
  const normal = Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(2 * Math.PI * Math.random());
  return Math.round(middle * Math.exp(normal * sigma) * 1000) / 1000;
};

function resultAt(id: string, at: number, n: number): AgentResult {
  const slot = slotIn(id, region, minuteMs, at);
  const [dns, connect, ttfb] = [time(0.4, 0.3), time(20, 0.05), time(40, 0.4)];
  return {
    ...runOf(id, slot, oneOf(Math.floor(at / hourMs) * 7_919 + n, 500) ? "down" : "up"),
    timestamp: slot + jitterMs(id, slot, minuteMs, 10) + Math.floor(Math.random() * 4),
    dns_ms: dns,
    connect_ms: connect,
    ttfb_ms: ttfb,
    total_ms: dns + connect + ttfb + time(0.5, 0.4),
  };
}

const failed = await withTeardown(async (t) => {
  const folder = tempFolder(t, "soak");
  // The clock of the database is that of the machine, and what is simulated is before it.
  const start = Math.floor(Date.now() / dayMs) * dayMs - days * dayMs;
  const clock = { at: start, now: () => clock.at };
  const config = loadConfig({ env: { SM_DATA__DIR: `${folder}/data` }, cwd: folder, endpointNames });
  // Autovacuum comes once a minute, and here a minute passes in some milliseconds.
  mkdirSync(`${folder}/data`, { mode: 0o700 });
  writeFileSync(`${folder}/data/postgres.conf`, "autovacuum_naptime = 1\n");
  const database = await openConfiguredDatabase(config, silentLog);
  t.teardown(() => database.stop());
  await migrate(database.direct);
  const system = makeSystem(config, database.sql, clock, silentLog);
  const sql = openEmbedded(t, folder, 1);
  const { olga } = await castIn(sql);
  const ctx: Ctx = {
    ...system,
    orgId: olga.orgId,
    userId: olga.userId,
    role: "owner",
    scopes: new Set(scopes),
    actor: { type: "session", id: null },
    writeSource: "api",
    traceId: null,
  };
  const agent: AgentCtx = { ...system, agentId: (await agentIn(sql, region)).id, region };
  const ids = Array.from({ length: monitors }, newId);
  await insertTargets(sql, { ids, orgId: ctx.orgId, region, intervalSecs: 60, confirmations: 2 });
  await keepPartitions(system);
  const ingest = openIngest(dayPreparer(database.sql));
  const waits = watchWaits(sql);
  const send = async (results: AgentResult[]): Promise<void> => {
    for (const batch of chunked(results, 1000)) {
      const reply = await ingest(agent, { protocol: protocolVersion, results: batch, runs: [] });
      if (reply.stored !== batch.length) throw new Error(`a batch was not stored: ${JSON.stringify(reply)}`);
      stored += batch.length;
    }
  };
  let stored = 0;
  const kept: AgentResult[] = [];
  const memory: { node: number; postgres: number }[] = [];
  const began = performance.now();
  for (let minute = 0; minute < days * 1440; minute++) {
    const now = start + minute * minuteMs;
    clock.at = now + minuteMs;
    const day = Math.floor(minute / 1440);
    // Every fifth day the agent of a tenth of the monitors is without a network for the first 16 hours.
    const away = day % 5 === 1 && minute % 1440 < 960;
    const results = ids.map((id, n) => resultAt(id, now, n));
    await send(away ? results.filter((_, n) => n % 10 !== 0) : results);
    if (away) kept.push(...results.filter((_, n) => n % 10 === 0));
    else if (kept.length > 0) await send(kept.splice(0, 5_000));
    if (minute % 10 === 9) {
      await rollUp(system);
      await pack(system);
    }
    if (minute % 60 !== 59) continue;
    await keepPartitions(system);
    await dropOldRollups(system);
    await sweepTombstones(system);
    const id = ids[minute % ids.length]!;
    const range = (ms: number) => ({
      from: new Date(clock.at - ms).toISOString(),
      to: new Date(clock.at).toISOString(),
    });
    await timed("page of 50", listResults(ctx, id, { ...range(7 * dayMs), limit: 50, offset: 0 }));
    await timed("latency 24 h", latencySeries(ctx, id, range(dayMs)));
    await timed("latency 30 d", latencySeries(ctx, id, range(30 * dayMs)));
    await timed("uptime 30 d", uptime(ctx, id, range(30 * dayMs)));
    if (minute % 1440 !== 1439) continue;
    // One monitor is replaced each day.
    await deleteTarget(ctx, ids.pop()!);
    const added = newId();
    await insertTargets(sql, { ids: [added], orgId: ctx.orgId, region, intervalSecs: 60, confirmations: 2 });
    ids.push(added);
    globalThis.gc?.();
    // In use: pages of the heap that a collection has emptied are given back later, a fifth of the process by chance.
    const { rss, heapTotal, heapUsed } = process.memoryUsage();
    memory.push({ node: (rss - heapTotal + heapUsed) / 1e6, postgres: memoryOf([postmasterOf(folder)!]).pss });
    const { node, postgres } = memory.at(-1)!;
    const seconds = (performance.now() - began) / 1000;
    process.stdout.write(
      `day ${day + 1}: ${stored} results, ${(stored / seconds).toFixed(0)} a second; memory ${node.toFixed(0)} + ` +
        `${postgres.toFixed(0)} MB\n`,
    );
  }
  // The last day ends, and is packed.
  clock.at = start + days * dayMs + 5 * hourMs;
  await rollUp(system);
  await pack(system);
  await waits.stop();

  const sizes = await sizesOf(sql, { monitors, days, resultsADay: 1440 });
  const state = await packState(system);
  const [{ count } = { count: 0 }] = await sql<{ count: number }[]>`
    select coalesce(sum(runs), 0)::float8 as count from results_packed`;
  const dead = await sql<{ table: string; dead: number }[]>`
    select relname as table, n_dead_tup::float8 as dead from pg_stat_user_tables
    where n_dead_tup > 100000 and n_dead_tup > n_live_tup`;
  const median = (all: readonly number[]): number => percentile(all, 0.5);
  const late = memory.slice(warmUpDays).map(({ node, postgres }) => node + postgres);
  const growth = late.length < 10 ? null : median(late.slice(-5)) / median(late.slice(0, 5));
  for (const [name, all] of reads)
    process.stdout.write(
      `${name}: p50 ${median(all).toFixed(1)} ms, p99 ${percentile(all, 0.99).toFixed(1)} ms of ${all.length}\n`,
    );
  for (const { table, mb, computedMb } of sizes)
    process.stdout.write(`${table}: ${mb} MB, computed ${computedMb} MB\n`);
  const packed = sizes.find(({ table }) => table === "results_packed")!.mb;
  process.stdout.write(`a packed result: ${((packed * 1e6) / count).toFixed(1)} bytes of ${count} results\n`);
  for (const name of ["lock", "statement"] as const)
    process.stdout.write(`longest ${name}: ${waits[name].ms.toFixed(0)} ms  ${waits[name].text}\n`);
  process.stdout.write(`memory of the last days: ${growth === null ? "too few days" : `x ${growth.toFixed(3)}`}\n`);
  return [
    ...sizes
      .filter(({ mb, computedMb }) => mb > computedMb * limits.size + limits.sizeMb)
      .map(({ table }) => `${table} is too large`),
    ...dead.map((row) => `${row.table} has ${row.dead} dead rows: autovacuum does not keep up`),
    ...(waits.lock.ms > limits.lockMs ? ["a lock was waited for too long"] : []),
    ...(waits.statement.ms > limits.statementMs ? ["a statement took too long"] : []),
    ...(growth !== null && growth > limits.growth ? ["memory grows"] : []),
    ...(state.waiting > 0 || state.late > 0 ? [`not everything is packed: ${JSON.stringify(state)}`] : []),
  ];
});
for (const one of failed) process.stderr.write(`FAILED: ${one}\n`);
process.exit(failed.length === 0 ? 0 : 1);

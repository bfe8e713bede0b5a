import { newId } from "@statusmesh/shared/ids";
import type { Sql } from "postgres";
import { castIn } from "../harness/cast.ts";
import { tempFolder } from "../harness/folder.ts";
import { postmasterOf, startControlPlane } from "../harness/processes.ts";
import { insertTargets, openEmbedded } from "../harness/targets.ts";
import { waitFor } from "../harness/wait.ts";
import { specOf } from "./agent/kinds.ts";
import { startRaw, startTarget } from "./agent/peers.ts";
import { cpuSeconds, cpuSecondsOfAll, type Measured, rounded, sleep } from "./measure.ts";
import { memoryOf } from "./memory.ts";
import { nodeArgs, withTeardown } from "./scope.ts";

const perSecond = 150;
const intervalSecs = 10;
const targets = perSecond * intervalSecs;
/**
 * Warm-up after the first result of every target: V8 compiles the functions of processes under so little load for about
 * a minute. With 15 s the same revision measures a tenth more.
 */
const warmUpMs = 60_000;
const windowMs = 60_000;
/** CPU time as a multiple of the raw client's: all processes together, and the agent alone. */
const maxTimes = 3;
const maxAgentTimes = 2;
/** Bytes of write-ahead log for each result, and of evidence for each target. They do not depend on the machine. */
const maxWalBytes = 420;
const maxStateBytes = 120;

/**
 * CPU of comparable programs, ms per http check, measured once on two cores of another machine.
 */
const peers = {
  uptime_kuma: [2.7, 6.3],
  blackbox_exporter_and_prometheus: [1.1, 1.9],
  floor_of_probe_batch_and_postgres: [0.13, 0.48],
};

/**
 * Cost of a check from the schedule to the table: CPU time of control plane, built-in agent and database together, as
 * `npm start` runs them, per http check, as a multiple of that of a raw client which sends the same request; and the
 * bytes that the database writes. `ratio` is the measurement nearest to its limit.
 */
export async function run(): Promise<Measured> {
  return await withTeardown(async (t) => {
    const port = await startTarget(t, "http");
    const folder = tempFolder(t, "bench");
    const controlPlane = await startControlPlane(t, { folder, env: { SM_LOG__LEVEL: "warn" }, nodeArgs });
    const sql = openEmbedded(t, folder, 1);
    const { olga } = await castIn(sql);
    const ids = Array.from({ length: targets }, newId);
    await insertTargets(sql, {
      ids,
      orgId: olga.orgId,
      region: "default",
      intervalSecs,
      confirmations: 2,
      spec: (n) => specOf("http", n, port),
    });
    await waitFor("a result of every target", async () => (await countResults(sql)).all >= targets, {
      ms: 90_000,
      everyMs: 1000,
    });
    const raw = await startRaw(t, "http", port, perSecond);
    await sleep(warmUpMs);

    const all = [controlPlane.pid, postmasterOf(folder)!];
    const cpu = () => ({
      all: cpuSecondsOfAll(all),
      postgres: cpuSecondsOfAll(all.slice(1)),
      controlPlane: cpuSeconds(controlPlane.pid),
      raw: cpuSeconds(raw.pid),
    });
    const before = {
      cpu: cpu(),
      results: await countResults(sql),
      requests: (await raw.ask()).done,
      wal: await walOf(sql),
    };
    const began = performance.now();
    await sleep(windowMs);
    const results = await countResults(sql);
    const after = cpu();
    const seconds = (performance.now() - began) / 1000;
    const requests = (await raw.ask()).done - before.requests;
    const wal = await walOf(sql);
    const [state] = await sql<{ bytes: number }[]>`select avg(octet_length(state))::float8 as bytes from target_states`;
    const memory = memoryOf(all);
    await controlPlane.stop();

    const checks = results.all - before.results.all;
    if (results.up !== results.all)
      throw new Error(
        `${results.all - results.up} of ${results.all} checks did not find their target up: ${results.errors}`,
      );
    const each = (seconds: number, of: number): number => rounded((seconds * 1000) / of, 3);
    const [total, postgres, own] = [
      after.all - before.cpu.all,
      after.postgres - before.cpu.postgres,
      after.controlPlane - before.cpu.controlPlane,
    ];
    const [ms, rawMs] = [each(total, checks), each(after.raw - before.cpu.raw, requests)];
    const agentMs = each(total - own - postgres, checks);
    const walBytes = (wal.bytes - before.wal.bytes) / checks;
    const stateBytes = state?.bytes ?? Number.NaN;
    return {
      name: "system",
      value: rounded(ms / rawMs),
      unit: "x the CPU of a raw client, per http check, all processes",
      limit: maxTimes,
      ratio: rounded(
        Math.max(
          ms / rawMs / maxTimes,
          agentMs / rawMs / maxAgentTimes,
          walBytes / maxWalBytes,
          stateBytes / maxStateBytes,
        ),
        3,
      ),
      agent_times: rounded(agentMs / rawMs),
      agent_times_limit: maxAgentTimes,
      wal_bytes_per_result: rounded(walBytes, 0),
      wal_bytes_limit: maxWalBytes,
      wal_records_per_result: rounded((wal.records - before.wal.records) / checks),
      wal_full_pages: wal.fullPages - before.wal.fullPages,
      state_bytes: rounded(stateBytes, 1),
      state_bytes_limit: maxStateBytes,
      ms_per_check: ms,
      checks_per_second: rounded(checks / seconds, 1),
      control_plane_ms: each(own, checks),
      postgres_ms: each(postgres, checks),
      agent_ms: agentMs,
      raw_ms_per_request: rawMs,
      memory_mb: rounded(memory.pss, 0),
      peers_ms_elsewhere: peers,
    };
  });
}

/** Write-ahead log so far; bytes from its position, because processes report their statistics up to 10 s later. */
async function walOf(sql: Sql): Promise<{ bytes: number; records: number; fullPages: number }> {
  const [row] = await sql<{ bytes: number; records: number; fullPages: number }[]>`
    select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8 as bytes, wal_records::float8 as records,
      wal_fpi::float8 as "fullPages"
    from pg_stat_wal`;
  if (row === undefined) throw new Error("pg_stat_wal has no row");
  return row;
}

async function countResults(sql: Sql): Promise<{ all: number; up: number; errors: string }> {
  const [row] = await sql<{ all: number; up: number; errors: string | null }[]>`
    select count(*)::int as all, count(*) filter (where status = 'up')::int as up,
      string_agg(distinct error, '; ') as errors from results`;
  return { all: row?.all ?? 0, up: row?.up ?? 0, errors: row?.errors ?? "" };
}

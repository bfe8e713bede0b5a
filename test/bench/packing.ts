import { newId } from "@statusmesh/shared/ids";
import { hash32 } from "@statusmesh/shared/schedule";
import { dayMs, hourMs } from "@statusmesh/shared/time";
import { keepPartitions } from "@statusmesh/control-plane/monitoring/results/rollups/keep-partitions";
import { pack } from "@statusmesh/control-plane/monitoring/results/packing/pack";
import { rollUp } from "@statusmesh/control-plane/monitoring/results/rollups/rollup";
import { selectRecent } from "@statusmesh/control-plane/monitoring/results/history/overview-queries";
import { readLatency } from "@statusmesh/control-plane/monitoring/results/latency/service";
import { readResults, readUptime } from "@statusmesh/control-plane/monitoring/results/service";
import { jitterOf } from "@statusmesh/control-plane/monitoring/results/runs-queries";
import { ensurePartitions } from "@statusmesh/control-plane/platform/db/distributed/partitions";
import { endpointNames } from "@statusmesh/control-plane/alerting/channels/kinds/index";
import { loadConfig } from "@statusmesh/control-plane/config/config";
import { makeSystem } from "@statusmesh/control-plane/operator/open-system";
import type { OrgReader } from "@statusmesh/control-plane/platform/context";
import { silentLog } from "@statusmesh/control-plane/platform/process/log";
import type { Sql } from "postgres";
import { agentIn, castIn } from "../harness/cast.ts";
import { cloneDatabase } from "../harness/database.ts";
import { insertTargets } from "../harness/targets.ts";
import { cpuSeconds, type Measured, rounded } from "./measure.ts";
import { percentile, withTeardown } from "./scope.ts";

const targets = 100;
const region = "bench";
/** Bytes on disk of a result of an ended day, hours and state changes included. */
const maxBytes = 25;
/** CPU of the packing of results and hours, as a share of the bare insert of the same rows. Measured 0.9 to 1.3. */
const maxShare = 1.6;
/** Time of a page of 50 results of the packed day with its total, in reads of 50 rows by the key. Measured 5. */
const maxPage = 12;
/** Time of the strips of all monitors over the packed day, in sums of one column over its rows. Measured 1.3. */
const maxStrips = 2;

/**
 * A day of results of 100 monitors with a check per minute: bytes of a result once the day is packed, with everything,
 * the CPU time of the packing, and the times of reads.
 */
export async function run(): Promise<Measured> {
  return await withTeardown(async (t) => {
    const { pool, sql: other } = await cloneDatabase(t);
    // One connection: its process does all the work.
    const sql = pool(1);
    await sql`set statement_timeout = 0`;
    const first = Math.floor(Date.now() / dayMs) * dayMs - dayMs;
    let now = first + hourMs;
    const config = loadConfig({ env: {}, cwd: process.cwd(), endpointNames });
    const packer = makeSystem(config, sql, { now: () => now }, silentLog);
    const { olga } = await castIn(other);
    await agentIn(other, region);
    await ensurePartitions(sql, new Date(first), new Date(first + dayMs));
    await keepPartitions(packer);
    const ids = Array.from({ length: targets }, newId);
    await insertTargets(other, { ids, orgId: olga.orgId, region, intervalSecs: 60, confirmations: 2 });
    await makeDay(sql, ids, first);
    const [made] = await sql<{ count: number; pid: number }[]>`
      select count(*)::int as count, pg_backend_pid() as pid from results`;
    const { count, pid } = made!;
    const spent = async (work: () => Promise<unknown>): Promise<number> => {
      const before = cpuSeconds(pid);
      await work();
      return ((cpuSeconds(pid) - before) * 1e6) / count;
    };
    await sql`create table bare (like results including all)`;
    const insert = await spent(() => sql`insert into bare select * from results order by scheduled_at`);
    await sql`insert into rollup_progress (next_hour) values (${new Date(first)})`;
    now = first + dayMs + 4 * hourMs;
    await rollUp(packer);
    const own = process.cpuUsage();
    const packing = await spent(() => pack(packer));
    const { user, system: kernel } = process.cpuUsage(own);
    const sizeOf = async (table: string) => {
      const [row] = await sql<{ bytes: number; rows: number }[]>`
        select pg_total_relation_size(${table}::regclass)::float8 as bytes,
          (select count(*) from ${sql(table)})::int as rows`;
      return row!;
    };
    const reads = await readDay(sql, { ...packer, orgId: olga.orgId }, ids, first);
    const [results, hours, changes, bare] = await Promise.all(
      ["results_packed", "hours_packed", "changes_packed", "bare"].map(sizeOf),
    );
    const bytes = (results!.bytes + hours!.bytes + changes!.bytes) / count;
    const share = packing / insert;
    return {
      name: "packing",
      value: rounded(bytes),
      unit: "bytes per packed result",
      limit: maxBytes,
      ratio: rounded(Math.max(bytes / maxBytes, share / maxShare, reads.page / maxPage, reads.strips / maxStrips)),
      bytesUnpacked: rounded(bare!.bytes / count),
      bytesOfResults: rounded(results!.bytes / count),
      bytesPerDayOfHours: rounded(hours!.bytes / hours!.rows),
      bytesPerDayOfChanges: rounded(changes!.bytes / changes!.rows),
      packingMicroseconds: rounded(packing + (user + kernel) / count),
      insertMicroseconds: rounded(insert),
      cpuShare: rounded(share),
      ...reads,
    };
  });
}

/**
 * Times of reads of the packed day in ms, median and least. `page` is a multiple of a read of 50 rows of the same day
 * by the key, `strips` of a sum over all rows.
 */
async function readDay(sql: Sql, reader: OrgReader, ids: readonly string[], first: number) {
  const range = { from: new Date(first), to: new Date(first + dayMs) };
  const day = { from: range.from.toISOString(), to: range.to.toISOString() };
  const timesOf = async (read: (id: string) => Promise<unknown>, reads = ids) => {
    const times: number[] = [];
    // The first five plans of a statement are made anew.
    for (const [n, id] of [...ids.slice(0, 10), ...reads].entries()) {
      const start = performance.now();
      await read(id);
      if (n >= 10) times.push(performance.now() - start);
    }
    return { p50: percentile(times, 0.5), least: Math.min(...times) };
  };
  const some = ids.slice(0, 20);
  const rows = await timesOf(
    (id) => sql`select * from bare where target_id = ${id} order by scheduled_at desc limit 50`,
  );
  const all = await timesOf(() => sql`select sum(total_ms) from bare`, some);
  const page = await timesOf((id) => readResults(reader, id, { ...day, limit: 50, offset: 0 }));
  const whole = { checks: 50, leastSecs: dayMs / 1000 };
  const strips = await timesOf(() => selectRecent(sql, reader.orgId, ids, range.to, whole), some);
  const reads = {
    rows,
    page,
    latency: await timesOf((id) => readLatency(reader, id, day)),
    uptime: await timesOf((id) => readUptime(reader, id, day)),
    all,
    strips,
  };
  return {
    page: rounded(page.p50 / rows.p50),
    // Least times: two processes work for a strip, and other work disturbs them more than the sum.
    strips: rounded(strips.least / all.least),
    ...Object.fromEntries(
      Object.entries(reads).flatMap(([name, { p50, least }]) => [
        [`${name}Ms`, rounded(p50)],
        [`${name}LeastMs`, rounded(least)],
      ]),
    ),
  };
}

/** Log-normal times with noise of their own in each phase, the jitter of the schedule, and 1 % failures. */
async function makeDay(sql: Sql, ids: readonly string[], first: number): Promise<void> {
  const jitter = jitterOf(sql, {
    seed: sql`k.seed`,
    slot: sql`s.slot`,
    intervalMs: sql`60000`,
    pct: sql`10`,
    recheck: sql`false`,
  });
  const time = (middle: number, sigma: number) =>
    sql`(round((${middle}::float8 * exp(random_normal() * ${sigma}::float8) * 1000)::numeric) / 1000)::float8`;
  await sql`select setseed(0.5)`;
  await sql`
    insert into results (target_id, scheduled_at, region, "timestamp", status, skip, error, http_status,
      response_size, dns_ms, connect_ms, tls_ms, ttfb_ms, total_ms)
    select r.id, to_timestamp(r.slot / 1000.0), ${region}, to_timestamp((r.slot + r.jitter + r.lag) / 1000.0),
      case when r.fails then 'down' else 'up' end, false, case when r.fails then 'status 503' end,
      case when r.fails then 503 else 200 end, 5120, r.dns, r.connect, r.tls, r.ttfb,
      r.dns + r.connect + r.tls + r.ttfb + r.rest
    from (
      select k.id, s.slot, ${jitter} as jitter, floor(random() * 4)::int as lag, random() < 0.01 as fails,
        ${time(0.4, 0.3)} as dns, ${time(20, 0.05)} as connect, ${time(25, 0.1)} as tls, ${time(40, 0.4)} as ttfb,
        ${time(0.5, 0.4)} as rest
      from unnest(${ids as string[]}::uuid[], ${ids.map(hash32)}::bigint[]) as k (id, seed)
      cross join lateral (
        select ${first}::bigint + k.seed % 60000 + n * 60000 as slot from generate_series(0, 1439) n
      ) s
    ) r order by r.slot`;
}

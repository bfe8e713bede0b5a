import type { Sql } from "postgres";
import { ensurePartitions } from "@statusmesh/control-plane/platform/db/partitions";
import { newId } from "@statusmesh/shared/ids";
import { request } from "undici";
import { castIn } from "../harness/cast.ts";
import { cloneDatabase } from "../harness/database.ts";
import { freePort, startControlPlane } from "../harness/processes.ts";
import { insertTargets } from "../harness/targets.ts";
import { waitFor } from "../harness/wait.ts";
import { cpuSeconds, type Measured, rounded } from "./measure.ts";
import { nodeArgs, percentile, withTeardown } from "./scope.ts";

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
const days = 90;
const regions = ["eu", "us", "ap"];
const intervalSecs = 30;
/** One round to warm up, then the measured ones. */
const rounds = 11;
/** The longest time that a request may hold the event loop. */
const maxHoldMs = 50;

/** A read and how many times the yardstick it may take, medians compared. */
interface Read {
  name: string;
  path: (round: number) => string;
  most: number;
}

/**
 * Reads over a range of a monitor with 777,600 results in 90 days and three regions, of which every second one fails at
 * random: the largest number of state changes. Holds each as a multiple of one statement that counts the results by
 * status, and the longest time for which one blocks the event loop.
 */
export async function run(): Promise<Measured> {
  return await withTeardown(async (t) => {
    const database = await cloneDatabase(t);
    const { sql } = database;
    const { olga } = await castIn(sql);
    await sql`update plans set api_reads_per_min = 1000000000`;
    const id = newId();
    await sql`
      insert into regions (id, name, created_at, updated_at)
      select r, r, now(), now() from unnest(${regions}::text[]) as r on conflict do nothing`;
    await insertTargets(sql, { ids: [id], orgId: olga.orgId, region: regions[0]!, intervalSecs, confirmations: 2 });
    const hour = Math.floor(Date.now() / hourMs) * hourMs;
    await addHistory(sql, id, hour);
    const loopPort = await freePort();
    const began = performance.now();
    const controlPlane = await startControlPlane(t, {
      env: {
        ...database.env,
        SM_TEST_LOOP_PORT: String(loopPort),
        SM_LOG__LEVEL: "error",
        SM_SCHEDULER__BUILTIN_AGENT: "false",
        SM_PUBLIC_STATUS__PUBLIC_PER_IP_RATE_LIMIT_PER_MIN: "1000000",
      },
      nodeArgs: [...nodeArgs, `--import=${new URL("../harness/event-loop.js", import.meta.url).href}`],
    });
    // The job starts with the process.
    await waitFor("the rollup", async () => (await sql`select 1 from rollup_dirty limit 1`).length === 0, {
      ms: 900_000,
    });
    const rollupMs = performance.now() - began;
    await sql`vacuum analyze`;
    const longestHold = async () =>
      ((await (await request(`http://127.0.0.1:${loopPort}/`)).body.json()) as { holdMs: number }).holdMs;
    const api = { authorization: `Bearer ${olga.token}` };
    const made = await request(`${controlPlane.url}/api/v1/targets/${id}/shares`, {
      method: "POST",
      headers: { ...api, "content-type": "application/json" },
      body: "{}",
    });
    const { token } = (await made.body.json()) as { token: string };
    const get = async (path: string) => {
      const { statusCode, body } = await request(`${controlPlane.url}${path}`, { headers: api });
      const text = await body.text();
      if (statusCode !== 200) throw new Error(`${path} answered ${statusCode}: ${text}`);
    };

    const seen = readsOf(id, token, hour).map((read) => ({
      ...read,
      ms: [] as number[],
      cpuMs: [] as number[],
      hold: 0,
    }));
    const yardstick: number[] = [];
    for (let round = 0; round < rounds; round++) {
      const bare = await took(
        () => sql`select status, count(*), max("timestamp") from results where target_id = ${id} group by status`,
      );
      if (round > 0) yardstick.push(bare);
      for (const read of seen) {
        await longestHold();
        const cpu = cpuSeconds(controlPlane.pid);
        const ms = await took(() => get(read.path(round)));
        const hold = await longestHold();
        if (round === 0) continue;
        read.ms.push(ms);
        read.cpuMs.push(1000 * (cpuSeconds(controlPlane.pid) - cpu));
        read.hold = Math.max(read.hold, hold);
      }
    }
    const bare = percentile(yardstick, 0.5);
    const shares = seen.flatMap(({ ms, most, hold }) => [percentile(ms, 0.5) / bare / most, hold / maxHoldMs]);
    const worst = Math.max(...shares);
    return {
      name: "share-reads",
      value: rounded(worst),
      unit: "x the limit of the slowest read",
      limit: 1,
      ratio: rounded(worst, 3),
      rollup_ms: rounded(rollupMs, 0),
      yardstick_ms: rounded(bare, 1),
      reads: Object.fromEntries(
        seen.map(({ name, most, ms, cpuMs, hold }) => [
          name,
          {
            p50_ms: rounded(percentile(ms, 0.5), 1),
            p95_ms: rounded(percentile(ms, 0.95), 1),
            cpu_ms: rounded(cpuMs.reduce((sum, it) => sum + it, 0) / cpuMs.length, 1),
            longest_hold_ms: rounded(hold, 1),
            times_yardstick: rounded(percentile(ms, 0.5) / bare),
            at_most: most,
          },
        ]),
      ),
    };
  });
}

/** No two rounds have the same range, because visitors share replies. */
function readsOf(id: string, token: string, hour: number): Read[] {
  const range = (length: number, round: number) =>
    `from=${new Date(hour - length * dayMs + hourMs + round * 1000).toISOString()}&to=${new Date(hour).toISOString()}`;
  const own = `/api/v1/targets/${id}`;
  const link = `/m/${token}`;
  return [
    { name: "incidents_90d", path: (round) => `${link}/incidents?${range(days, round)}`, most: 1 },
    { name: "incidents_90d_api", path: (round) => `${own}/incidents?${range(days, round)}`, most: 1 },
    { name: "incidents_24h", path: (round) => `${link}/incidents?${range(1, round)}`, most: 1 },
    { name: "latency_90d", path: (round) => `${link}/latency?${range(days, round)}`, most: 1 },
    { name: "by_region_90d", path: (round) => `${own}/latency/by-region?${range(days, round)}`, most: 1 },
    { name: "results_90d", path: (round) => `${link}/results?${range(days, round)}`, most: 0.5 },
    { name: "live", path: () => `${link}/live`, most: 0.5 },
  ];
}

/** Results up to `hour`, and marks for the hours that the job sums up. */
async function addHistory(sql: Sql, id: string, hour: number): Promise<void> {
  const first = new Date(hour - days * dayMs);
  await sql`
    insert into target_regions (target_id, region_id) select ${id}, r from unnest(${regions}::text[]) as r
    on conflict do nothing`;
  await ensurePartitions(sql, first, new Date(hour + dayMs));
  await sql`
    insert into results (target_id, scheduled_at, region, "timestamp", status, skip, error, dns_ms, connect_ms, tls_ms,
      ttfb_ms, total_ms)
    select ${id}, g.slot + g.n * interval '7 s', g.region, g.slot + g.n * interval '7 s 40 ms',
      case when g.failed then 'down' else 'up' end, false, case when g.failed then 'status 500' end,
      4, 9, 18, g.total / 2, g.total
    from (
      select slot, region, n, random() < 0.5 as failed, 30 + 50 * exp(random_normal(0, 0.5)) as total
      from generate_series(${first}::timestamptz, ${new Date(hour - 1)}::timestamptz,
        ${`${intervalSecs} s`}::interval) as slot
      cross join unnest(${regions}::text[]) with ordinality as r (region, n)
    ) g`;
  await sql`
    insert into rollup_progress (next_hour) values (${new Date(hour)})
    on conflict (only_row) do update set next_hour = excluded.next_hour`;
  await sql`
    insert into rollup_dirty (target_id, hour)
    select ${id}, at
    from generate_series(${first}::timestamptz, ${new Date(hour - hourMs)}::timestamptz, '1 hour') as at`;
  await sql`vacuum analyze`;
}

async function took(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now();
  await work();
  return performance.now() - began;
}

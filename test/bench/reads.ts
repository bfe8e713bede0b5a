import type { Sql } from "postgres";
import { Pool } from "undici";
import { type Measured, rounded, sleep } from "./measure.ts";
import { type Loaded, loadReads } from "./reads/load.ts";
import { percentile, withTeardown } from "./scope.ts";

const targetCount = 10_000;
const dayMs = 86_400_000;
/** Summaries are cached for 5 s; a round that reads one starts later than that. */
const summaryMs = 5_100;
/** One round to warm up, then the measured ones. */
const rounds = 12;
/** Requests of a round for uncached data. */
const timesARound = 5;

/** A read and its yardstick: a bare statement over the same rows, in the same turn. */
interface Read {
  name: string;
  /** Paths, requested in turn. */
  paths: (() => string)[];
  bare: (sql: Sql) => Promise<unknown>;
  /** How many times the bare statement it may take, medians compared. */
  most: number;
  /**
   * Target for the 95th percentile on two free cores. Printed, not asserted: an absolute time depends on the
   * machine.
   */
  wantedMs: number;
  timesARound: number;
}

/**
 * The most frequent reads over HTTP with a token, with 10,000 targets and 2.7 million results, each as a multiple of a
 * bare statement over the same rows. `value` is the read that comes nearest to its limit.
 */
export async function run(): Promise<Measured> {
  return await withTeardown(async (t) => {
    const loaded = await loadReads(t, targetCount);
    const { controlPlane, sql, olga } = loaded;
    const pool = new Pool(controlPlane.url, { connections: 1 });
    t.teardown(() => pool.destroy());
    const reads = readsOf(loaded);
    const times = reads.map(() => ({ http: [] as number[], bare: [] as number[] }));
    for (let round = 0; round < rounds; round++) {
      const began = performance.now();
      for (const [n, read] of reads.entries()) {
        for (let time = 0; time < read.timesARound; time++) {
          for (const path of read.paths) {
            const http = await took(() => ask(pool, olga.token, path()));
            const bare = await took(() => read.bare(sql));
            if (round === 0) continue;
            times[n]!.http.push(http);
            times[n]!.bare.push(bare);
          }
        }
      }
      await sleep(Math.max(0, summaryMs - (performance.now() - began)));
    }
    await pool.close();
    await controlPlane.stop();

    const shares = reads.map(
      (read, n) => percentile(times[n]!.http, 0.5) / percentile(times[n]!.bare, 0.5) / read.most,
    );
    const worst = Math.max(...shares);
    return {
      name: "reads",
      value: rounded(worst),
      unit: "x the limit of the slowest read",
      limit: 1,
      ratio: rounded(worst, 3),
      targets: targetCount,
      results: loaded.results,
      sketches: loaded.sketches,
      reads: Object.fromEntries(
        reads.map(({ name, most, wantedMs }, n) => {
          const { http, bare } = times[n]!;
          const [p50, bareP50] = [percentile(http, 0.5), percentile(bare, 0.5)];
          return [
            name,
            {
              p50_ms: rounded(p50, 1),
              p95_ms: rounded(percentile(http, 0.95), 1),
              wanted_p95_ms: wantedMs,
              bare_p50_ms: rounded(bareP50, 1),
              times_bare: rounded(p50 / bareP50),
              at_most: most,
            },
          ];
        }),
      ),
    };
  });
}

function readsOf({ olga, busy }: Loaded): Read[] {
  const targets = "/api/v1/targets";
  const one = `${targets}/${busy[0]!}`;
  const ago = (days: number): string => new Date(Date.now() - days * dayMs).toISOString();
  const scan = (days: number) => (sql: Sql) =>
    sql`
      select sum(total_ms), sum(dns_ms), sum(connect_ms), sum(tls_ms), sum(ttfb_ms) from results
      where target_id = ${busy[0]!} and scheduled_at >= ${ago(days)} and status = 'up'`;
  return [
    {
      name: "list_page",
      paths: [
        "",
        "&offset=9900",
        "&q=77",
        "&q=nowhere",
        "&tag=production&offset=4000",
        "&enabled=true&offset=8000",
      ].map((query) => () => `${targets}?limit=50${query}`),
      bare: (sql) => sql`select count(*) from targets where org_id = ${olga.orgId} and name <> ''`,
      most: 12,
      wantedMs: 50,
      timesARound,
    },
    {
      name: "dashboard_summary",
      paths: [() => "/api/v1/dashboard/summary"],
      bare: (sql) =>
        sql`
          select s.status, count(*) from targets t join target_states s on s.target_id = t.id
          where t.org_id = ${olga.orgId} group by 1`,
      most: 5,
      wantedMs: 100,
      timesARound: 1,
    },
    {
      name: "latency_24h",
      paths: [() => `${one}/latency?from=${ago(1)}`],
      bare: scan(1),
      most: 10,
      wantedMs: 30,
      timesARound,
    },
    {
      name: "latency_30d",
      paths: [() => `${one}/latency?from=${ago(30)}`],
      bare: scan(30),
      most: 1,
      wantedMs: 150,
      timesARound,
    },
    {
      name: "results_page",
      paths: [() => `${one}/results?limit=1000`],
      bare: (sql) =>
        sql`
          select * from results where target_id = ${busy[0]!} and scheduled_at >= ${ago(1)}
          order by scheduled_at desc limit 1000`,
      most: 6,
      wantedMs: 60,
      timesARound,
    },
  ];
}

async function took(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now();
  await work();
  return performance.now() - began;
}

async function ask(pool: Pool, token: string, path: string): Promise<void> {
  const reply = await pool.request({ method: "GET", path, headers: { authorization: `Bearer ${token}` } });
  const text = await reply.body.text();
  if (reply.statusCode !== 200) throw new Error(`${path} was answered ${reply.statusCode}: ${text}`);
}

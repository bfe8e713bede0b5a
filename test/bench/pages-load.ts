import { newId } from "@statusmesh/shared/ids";
import { Pool } from "undici";
import { castIn } from "../harness/cast.ts";
import { cloneDatabase } from "../harness/database.ts";
import { gateTo } from "../harness/database-gate.ts";
import { startControlPlane } from "../harness/processes.ts";
import { insertTargets } from "../harness/targets.ts";
import { cpuSeconds, type Measured, rounded, rssMb, sleep } from "./measure.ts";
import { addHistory, publishPage } from "./public/page.ts";
import { nodeArgs, percentile, withTeardown } from "./scope.ts";

const pageCount = 100;
const componentCount = 20;
const historyDays = 90;
const perSecond = 500;
const baseDomain = "status.test";
/** The heap reaches its size after about a minute. */
const warmUpMs = 60_000;
const loadMs = 60_000;
/** Long enough for every page to expire twice. */
const outageMs = 25_000;
const tickMs = 10;
const sampleMs = 500;
/** Growth is that from the first to the last of so many equal parts, so that both have collections of garbage. */
const parts = 6;
const connections = 64;
const paths = ["/status", "/status", "/status?fragment=1", "/api/public/v1/status", "/api/public/v1/badge.svg"];
const maxGrowth = 0.1;
/** Wanted while the database is stopped, on a machine with two free cores. Printed, not held. */
const wantedOutageP99Ms = 50;

interface Load {
  answers: number;
  /** Replies other than 200, and requests without a reply, by reason. */
  errors: Record<string, number>;
  ms: number[];
}

/**
 * 100 status pages on hosts of their own under 500 requests a second for a minute: growth of resident memory, without
 * one error. Then the same with the database stopped: every page is answered from its last good copy.
 */
export async function run(): Promise<Measured> {
  return await withTeardown(async (t) => {
    const database = await cloneDatabase(t);
    const gate = await gateTo(t, database);
    const controlPlane = await startControlPlane(t, {
      env: {
        ...gate.database.env,
        SM_LOG__LEVEL: "error",
        SM_SCHEDULER__BUILTIN_AGENT: "false",
        SM_TENANCY__SUBDOMAIN_PUBLIC_ROUTES: "true",
        SM_PUBLIC_STATUS__BASE_DOMAIN: baseDomain,
        SM_PUBLIC_STATUS__PUBLIC_PER_IP_RATE_LIMIT_PER_MIN: "1000000",
      },
      nodeArgs,
    });
    const { sql } = database;
    const { orgId } = (await castIn(sql)).olga;
    await insertTargets(sql, {
      ids: Array.from({ length: componentCount }, newId),
      orgId,
      region: "default",
      intervalSecs: 60,
      confirmations: 2,
    });
    for (let n = 0; n < pageCount; n++)
      await publishPage(sql, { orgId, slug: `page-${n}`, components: componentCount });
    await addHistory(sql, historyDays);
    const pool = new Pool(controlPlane.url, { connections });
    t.teardown(() => pool.destroy());

    await requestPages(pool, warmUpMs);
    const samples: number[] = [];
    const sampler = setInterval(() => samples.push(rssMb(controlPlane.pid)), sampleMs);
    const cpuBefore = cpuSeconds(controlPlane.pid);
    const load = await requestPages(pool, loadMs).finally(() => clearInterval(sampler));
    const cpu = cpuSeconds(controlPlane.pid) - cpuBefore;
    const part = Math.floor(samples.length / parts);
    const before = percentile(samples.slice(0, part), 0.5);
    const after = percentile(samples.slice(-part), 0.5);
    await gate.shut();
    const outage = await requestPages(pool, outageMs);
    await gate.open();

    const errors = { ...load.errors, ...outage.errors };
    if (Object.keys(errors).length > 0) throw new Error(`not every page was answered: ${JSON.stringify(errors)}`);
    const growth = after / before - 1;
    return {
      name: "pages-load",
      value: rounded(growth, 4),
      unit: `growth of memory in ${loadMs / 1000} s`,
      limit: maxGrowth,
      ratio: rounded(Math.max(0, growth / maxGrowth), 3),
      pages: pageCount,
      requests_per_second: rounded((load.answers / loadMs) * 1000, 0),
      errors: 0,
      cpu_cores: rounded(cpu / (loadMs / 1000)),
      rss_mb: [rounded(before, 1), rounded(after, 1)],
      p50_ms: rounded(percentile(load.ms, 0.5), 1),
      p99_ms: rounded(percentile(load.ms, 0.99), 1),
      outage_requests: outage.answers,
      outage_p50_ms: rounded(percentile(outage.ms, 0.5), 1),
      outage_p99_ms: rounded(percentile(outage.ms, 0.99), 1),
      wanted_outage_p99_ms: wantedOutageP99Ms,
    };
  });
}

/** Requests all pages in turn at the given rate for `ms`, whether or not the previous requests were answered. */
async function requestPages(pool: Pool, ms: number): Promise<Load> {
  const load: Load = { answers: 0, errors: {}, ms: [] };
  const fail = (reason: string): void => void (load.errors[reason] = (load.errors[reason] ?? 0) + 1);
  const one = async (n: number): Promise<void> => {
    const began = performance.now();
    const path = paths[Math.floor(n / pageCount) % paths.length]!;
    try {
      const { statusCode, body } = await pool.request({
        method: "GET",
        path,
        headers: { host: `page-${n % pageCount}.${baseDomain}`, "accept-encoding": "gzip" },
      });
      await body.dump();
      if (statusCode === 200) load.answers++;
      else fail(`${path} ${statusCode}`);
    } catch (error) {
      fail(String(error));
    }
    load.ms.push(performance.now() - began);
  };
  const began = performance.now();
  const running: Promise<void>[] = [];
  for (let passed = 0; passed < ms; passed = performance.now() - began) {
    const due = Math.floor((passed * perSecond) / 1000);
    while (running.length < due) running.push(one(running.length));
    await sleep(tickMs);
  }
  await Promise.all(running);
  return load;
}

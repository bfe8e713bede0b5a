import { gunzipSync } from "node:zlib";
import { request } from "undici";
import { cpuSeconds, endChild, type Measured, rounded, sleep, startChild } from "./measure.ts";
import { countAnswers } from "./public/client.ts";
import { addHistory, publishPage } from "./public/page.ts";
import { loadReads } from "./public/load.ts";
import { percentile, withTeardown } from "./scope.ts";

const targetCount = 10_000;
const componentCount = 100;
const historyDays = 90;
/** Lower limit: requests per CPU second of a cached page as a share of those of bare Koa. */
const minShare = 0.6;
const connections = 32;
const turnMs = 500;
/** Headers that every Node server sets. */
const ofServer: ReadonlySet<string> = new Set(["content-length", "date", "connection", "keep-alive"]);
/** Requests to warm up either server. A time would be too short on a busy machine. */
const warmUpRequests = 60_000;
const turns = 21;
/** The highest limit per visitor: the limiter counts and refuses nothing. */
const perIpPerMinute = "1000000";
/** A page is computed again 10 s after the last time. */
const freshMs = 10_200;
const computations = 4;
/** Wanted time of a computation on a machine with two free cores, ms. Printed, not held. */
const wantedMs = 150;

/**
 * The status page with 100 components over 90 days, among 10,000 targets with two million results: requests per CPU
 * second of a cached page as a share of those of a bare Koa handler that answers the same head and bytes; and, printed,
 * the time of an uncached page.
 */
export async function run(): Promise<Measured> {
  return await withTeardown(async (t) => {
    const { controlPlane, sql, olga, results } = await loadReads(t, targetCount, {
      SM_PUBLIC_STATUS__PUBLIC_PER_IP_RATE_LIMIT_PER_MIN: perIpPerMinute,
    });
    // The page at /status is that of the oldest organisation.
    await sql`update orgs set created_at = '2000-01-01' where id = ${olga.orgId}`;
    await publishPage(sql, { orgId: olga.orgId, slug: "bench", components: componentCount });
    await addHistory(sql, historyDays);
    const headers = { "accept-encoding": "gzip" };
    const page = async () => {
      const began = performance.now();
      const { statusCode, headers: head, body } = await request(`${controlPlane.url}/status`, { headers });
      const bytes = Buffer.from(await body.arrayBuffer());
      if (statusCode !== 200) throw new Error(`/status answered ${statusCode}`);
      return { head, bytes, ms: performance.now() - began };
    };

    const times: number[] = [];
    // The first computation warms up the compiler and the plans of the database.
    for (let n = 0; n <= computations; n++) {
      const { ms } = await page();
      if (n > 0) times.push(ms);
      await sleep(freshMs);
    }

    const { head, bytes } = await page();
    const own = Object.entries(head).filter(([name]) => !ofServer.has(name));
    const bare = await startChild(new URL("./public/bare.js", import.meta.url), [
      bytes.toString("base64"),
      JSON.stringify(Object.fromEntries(own)),
    ]);
    t.teardown(() => endChild(bare.child));
    const ownPort = Number(new URL(controlPlane.url).port);
    const barePort = Number(bare.firstLine);
    const load = async (port: number) =>
      await countAnswers({ port, path: "/status", headers, connections, ms: turnMs });
    const perCpuSecond = async (port: number, pid: number) => {
      const before = cpuSeconds(pid);
      const answers = await load(port);
      return answers / (cpuSeconds(pid) - before);
    };
    for (const port of [barePort, ownPort]) for (let sent = 0; sent < warmUpRequests;) sent += await load(port);
    const [bareTurns, ownTurns]: [number[], number[]] = [[], []];
    for (let turn = 0; turn < turns; turn++) {
      bareTurns.push(await perCpuSecond(barePort, bare.pid));
      ownTurns.push(await perCpuSecond(ownPort, controlPlane.pid));
    }
    await controlPlane.stop();

    // Of neighbouring turns: other load of the machine and its clock change between turns and hardly within a pair.
    const shares = ownTurns.map((own, turn) => own / bareTurns[turn]!);
    const share = percentile(shares, 0.5);
    return {
      name: "public",
      value: rounded(share),
      unit: "of the requests per CPU second of bare Koa",
      limit: minShare,
      better: "higher",
      ratio: rounded(minShare / share, 3),
      components: componentCount,
      days: historyDays,
      targets: targetCount,
      results,
      html_bytes: gunzipSync(bytes).length,
      gzip_bytes: bytes.length,
      share_p10: rounded(percentile(shares, 0.1)),
      share_p90: rounded(percentile(shares, 0.9)),
      requests_per_cpu_second: rounded(percentile(ownTurns, 0.5), 0),
      bare_requests_per_cpu_second: rounded(percentile(bareTurns, 0.5), 0),
      uncached_ms: times.map((ms) => rounded(ms, 0)),
      uncached_p50_ms: rounded(percentile(times, 0.5), 0),
      wanted_uncached_ms: wantedMs,
    };
  });
}

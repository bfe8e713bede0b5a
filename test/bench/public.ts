import { gunzipSync } from "node:zlib";
import { request } from "undici";
import { cpuSeconds, endChild, type Measured, rounded, sleep, startChild } from "./measure.ts";
import { countAnswers } from "./public/client.ts";
import { addHistory, publishPage } from "./public/page.ts";
import { loadReads } from "./public/load.ts";
import type { Teardown } from "../harness/folder.ts";
import type { ControlPlane } from "../harness/processes.ts";
import { sessionOf } from "../harness/cast.ts";
import { percentile, withTeardown } from "./scope.ts";

type Headers = Record<string, string>;

const slug = "bench";
const gzip: Headers = { "accept-encoding": "gzip" };
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
 * second of a cached page as a share of those of a bare Koa handler that answers the same head and bytes, public, and
 * private to readers with a cookie; the lesser counts. And, printed, the share for members, whose session is read at
 * each request, and the time of an uncached page.
 */
export async function run(): Promise<Measured> {
  return await withTeardown(async (t) => {
    const { controlPlane, sql, olga, results } = await loadReads(t, targetCount, {
      SM_PUBLIC_STATUS__PUBLIC_PER_IP_RATE_LIMIT_PER_MIN: perIpPerMinute,
    });
    // The page at /status is that of the oldest organisation.
    await sql`update orgs set created_at = '2000-01-01' where id = ${olga.orgId}`;
    await publishPage(sql, { orgId: olga.orgId, slug, components: componentCount });
    await addHistory(sql, historyDays);
    const page = async (path = "/status", headers: Headers = gzip) => {
      const began = performance.now();
      const { statusCode, headers: head, body } = await request(`${controlPlane.url}${path}`, { headers });
      const bytes = Buffer.from(await body.arrayBuffer());
      if (statusCode !== 200) throw new Error(`${path} answered ${statusCode}`);
      return { head, bytes, ms: performance.now() - began };
    };

    const times: number[] = [];
    // The first computation warms up the compiler and the plans of the database.
    for (let n = 0; n <= computations; n++) {
      const { ms } = await page();
      if (n > 0) times.push(ms);
      await sleep(freshMs);
    }

    const { bytes } = await page();
    const open = await sharesOf(t, { path: "/status", headers: gzip, controlPlane, page });
    await privately(controlPlane.url, olga.token, { mode: "password", password: "open sesame" });
    const path = `/status/${slug}`;
    const entered = await request(`${controlPlane.url}${path}/access`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ password: "open sesame" }),
    });
    const cookie = String(entered.headers["set-cookie"]).split(";", 1)[0]!;
    const forReaders = await sharesOf(t, { path, headers: { ...gzip, cookie }, controlPlane, page });
    await privately(controlPlane.url, olga.token, { mode: "members" });
    const session = { ...gzip, cookie: `_sm_session=${await sessionOf(sql, olga)}` };
    const forMembers = await sharesOf(t, { path, headers: session, controlPlane, page });
    await controlPlane.stop();

    // The session of a member is read at each request: that is the gate, not what is behind it.
    const share = Math.min(open.share, forReaders.share);
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
      public_share: rounded(open.share),
      share_p10: rounded(open.p10),
      share_p90: rounded(open.p90),
      reader_share: rounded(forReaders.share),
      member_share: rounded(forMembers.share),
      requests_per_cpu_second: rounded(open.own, 0),
      bare_requests_per_cpu_second: rounded(open.bare, 0),
      uncached_ms: times.map((ms) => rounded(ms, 0)),
      uncached_p50_ms: rounded(percentile(times, 0.5), 0),
      wanted_uncached_ms: wantedMs,
    };
  });
}

interface Shares {
  /** Medians: the share, and requests per CPU second of the page and of bare Koa. */
  share: number;
  own: number;
  bare: number;
  p10: number;
  p90: number;
}

/** Requests of a cached page per CPU second, as shares of those of bare Koa. */
async function sharesOf(
  t: Teardown,
  {
    path,
    headers,
    controlPlane,
    page,
  }: {
    path: string;
    headers: Headers;
    controlPlane: ControlPlane;
    page(path: string, headers: Headers): Promise<{ head: Record<string, unknown>; bytes: Buffer }>;
  },
): Promise<Shares> {
  const { head, bytes } = await page(path, headers);
  const sent = Object.entries(head).filter(([name]) => !ofServer.has(name));
  const bare = await startChild(new URL("./public/bare.js", import.meta.url), [
    bytes.toString("base64"),
    JSON.stringify(Object.fromEntries(sent)),
  ]);
  t.teardown(() => endChild(bare.child));
  const ownPort = Number(new URL(controlPlane.url).port);
  const barePort = Number(bare.firstLine);
  const load = async (port: number) => await countAnswers({ port, path, headers, connections, ms: turnMs });
  const perCpuSecond = async (port: number, pid: number) => {
    const before = cpuSeconds(pid);
    const answers = await load(port);
    return answers / (cpuSeconds(pid) - before);
  };
  for (const port of [barePort, ownPort]) for (let done = 0; done < warmUpRequests;) done += await load(port);
  const [bareTurns, ownTurns]: [number[], number[]] = [[], []];
  for (let turn = 0; turn < turns; turn++) {
    bareTurns.push(await perCpuSecond(barePort, bare.pid));
    ownTurns.push(await perCpuSecond(ownPort, controlPlane.pid));
  }
  // Of neighbouring turns: other load of the machine and its clock change between turns and hardly within a pair.
  const shares = ownTurns.map((own, turn) => own / bareTurns[turn]!);
  return {
    share: percentile(shares, 0.5),
    own: percentile(ownTurns, 0.5),
    bare: percentile(bareTurns, 0.5),
    p10: percentile(shares, 0.1),
    p90: percentile(shares, 0.9),
  };
}

/** Changes who reads the page, and waits until its replicas know. */
async function privately(url: string, token: string, access: object): Promise<void> {
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const pages = await request(`${url}/api/v1/status-pages`, { headers });
  const { items } = (await pages.body.json()) as { items: { id: string }[] };
  const changed = await request(`${url}/api/v1/status-pages/${items[0]!.id}`, {
    method: "PATCH",
    headers,
    body: JSON.stringify({ access }),
  });
  if (changed.statusCode !== 200) throw new Error(await changed.body.text());
  await changed.body.dump();
  await sleep(freshMs);
}

import { readFileSync } from "node:fs";
import { allPages } from "@statusmesh/control-plane/app";
import { openSession } from "@statusmesh/control-plane/platform/db/client/connect";
import { packAfterMs } from "@statusmesh/control-plane/monitoring/results/hours";
import { dayMs } from "@statusmesh/shared/time";
import type { Sql } from "postgres";
import { Pool } from "undici";
import { nameOf, routes, tools } from "../conformance/declared.ts";
import { sessionOf } from "../harness/cast.ts";
import { cloneDatabase } from "../harness/database.ts";
import type { Loop } from "../harness/event-loop.ts";
import { freePort, startControlPlane } from "../harness/processes.ts";
import { idSegments, type Largest, largestOrg, vacuum } from "./costs/data.ts";
import { type PageCosts, pageCosts } from "./costs/page.ts";
import { type Write, writesOf } from "./costs/writes.ts";
import { callOf, sessionAt } from "./mcp.ts";
import { cpuSeconds, cpuSecondsOfAll, type Measured, rounded, sleep } from "./measure.ts";
import { nodeArgs, percentile, withTeardown } from "./scope.ts";

/** What one request may cost. */
const limits = { holdMs: 50, databaseMs: 1000, grownMb: 64 };
/** What the windows and the silent readers of the largest page may cost. */
const pageLimits: PageCosts = { windowsMs: 100, readersMb: 64 };
type Cost = Record<keyof typeof limits | "cpuMs" | "bytes", number>;
/** Tries until one is within every limit, after one that compiles the code. */
const tries = 5;
/** Reads of the incidents of a flapping monitor by each of its share links; printed, because it is a time. */
const sharedRounds = 4;
const megabyte = 1_048_576;
/** Jobs of the installation take CPU of the database too: their rate is measured this long, and not counted, ms. */
const jobsMs = 10_000;
const baseDomain = "status.test";
const operatorSecret = "a-secret-of-the-operator";
const days = 90;

/** A reply may take this long on a busy machine: only CPU time, event loop and memory are judged. */
const replyMs = 600_000;

/** A status page is computed at most this often, ms. */
const freshMs = 10_100;
/** Counts of an organisation and its metrics are cached this long. */
const summaryMs = 5_100;
const withSummary: ReadonlySet<string> = new Set([
  "GET /api/v1/dashboard/summary",
  "GET /api/v1/metrics",
  "/",
  "/monitors",
]);

/** Not measured, with the reason. A name that is no longer declared fails. */
const excluded: Readonly<Record<string, string>> = {
  "/sign-in/github": "asks the provider",
  "/sign-in/github/callback": "asks the provider",
  "/sign-in/google": "asks the provider",
  "/sign-in/oidc": "asks the provider",
  "/sign-in/oidc/callback": "asks the provider",
  "/sign-in/google/callback": "asks the provider",
  "/docs/parts": "for development only",
};

/** Streams of pages of 2,000 rows, as many as the range has: read over two days. */
const streams: ReadonlySet<string> = new Set(["GET /api/v1/targets/{id}/results.csv"]);

/** Answered with an error: what the path names is spent when it is read, or comes from another system. */
const refused: Readonly<Record<string, string>> = {
  "GET /api/v1/notification-channels/telegram-link/{id}": "there is no bot",
  "GET /api/v1/notification-channels/whatsapp-link/{id}": "there is no number",
  "GET /api/public/v1/tls-ask": "no page has the domain",
  "/monitors/finding": "the result is sent in the query",
  "/channels/connect/telegram/{id}/{code}": "there is no bot",
  "/channels/connect/whatsapp/{id}/{code}": "there is no number",
  "/a/{token}": "nobody has the token",
  "/c/{code}": "nobody has the code",
  "/confirm/{code}": "nobody has the code",
  "/unsubscribe/{id}/{code}": "nobody has the code",
  "/invitations/{code}": "nobody has the code",
  "/status/subscriptions/{token}": "nobody has the token",
  "/oauth/authorize": "sign-in by clients is off",
};

/** `{89d}` in a query is the time 89 days ago. */
const further: Readonly<Record<string, readonly string[]>> = {
  "GET /api/v1/targets/{id}/results": ["?from={89d}&limit=1000&offset=500000"],
  "GET /api/v1/targets/{id}/incidents": ["?from={1d}", "?from={61d}&to={60d}"],
  "GET /m/{token}/incidents": ["?from={89d}"],
  "GET /api/v1/reports/uptime": ["?limit=1000", "?group_by=tag", "?group_by=page", "?format=csv", "?from={89d}"],
};

/** Queries of pages; the plain one where a page is not named. */
const queries: Readonly<Record<string, readonly string[]>> = {
  "/reports/uptime": ["", "?all=1", "?group_by=tag", "?group_by=page"],
  "/monitors": ["", "?group=team", "?sort=uptime", "?sort=p95", "?q=target"],
  "/search": ["?q=target"],
  "/status": ["", "?fragment=1"],
  "/status/incidents/{id}": ["?updates=all"],
  "/settings/audit": ["", "?offset=40000"],
};

/** Arguments of tools, by name; each has the largest limit of its list. */
const argumentsOf = ({ ids }: Pick<Largest, "ids">): Readonly<Record<string, unknown>> => ({
  id: ids["incidents"],
  incident_id: ids["incidents"],
  monitor_id: ids["monitors"],
  page_id: ids["status-pages"],
  window: "30d",
  window_id: ids["maintenance"],
});

/** Optional arguments of a tool that needs one of them. */
const chosen: Readonly<Record<string, readonly string[]>> = { explain_incident: ["id"] };

interface Read {
  readonly name: string;
  /** Of the route, page or tool. */
  readonly declared: string;
  readonly auth: string;
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly body?: string;
  /** Of a write: whether its limits refuse it. */
  readonly isRefused?: boolean;
}

/**
 * The cost of every declared GET route, page and read-only tool for an organisation with as much as the plan `selfhost`
 * allows: the longest hold of the event loop, the CPU time of the database and the growth of memory, each the least of
 * some tries. Fails with the names of those over a limit. SM_BENCH_ROUTES="search shares" measures those whose names
 * have one of the words.
 */
export async function run(): Promise<Measured> {
  return await withTeardown(async (t) => {
    // A route without a value fails here, and not after minutes of loading.
    readsOf({ ids: anyIds, heartbeat: "" });
    const database = await cloneDatabase(t);
    const { sql } = database;
    const began = performance.now();
    // Without the time limit of statements.
    const filling = openSession(sql);
    const largest = await largestOrg(filling);
    const { writes, tokens } = await writesOf(filling, { person: largest.xenia, region: largest.region });
    await filling.end();
    const loopPort = await freePort();
    const options = {
      env: {
        ...database.env,
        SM_TEST_LOOP_PORT: String(loopPort),
        SM_LOG__LEVEL: "error",
        SM_MCP__ENABLED: "true",
        SM_SCHEDULER__BUILTIN_AGENT: "false",
        SM_OPERATOR__ADMIN_TOKEN: operatorSecret,
        SM_API__RATE_LIMIT__ENABLED: "false",
        SM_TENANCY__SUBDOMAIN_PUBLIC_ROUTES: "true",
        SM_PUBLIC_STATUS__BASE_DOMAIN: baseDomain,
      },
      nodeArgs: ["--expose-gc", `--import=${new URL("../harness/event-loop.js", import.meta.url).href}`, ...nodeArgs],
    };
    // Results are summed and then packed by jobs that start with the process and take CPU of the database.
    const first = await startControlPlane(t, options);
    await until(async () => (await sql`select from rollup_dirty limit 1`).length === 0);
    await first.stop();
    const controlPlane = await startControlPlane(t, options);
    const packedTo = new Date(Date.now() - packAfterMs);
    await until(async () => (await sql`select from pack_progress where packed_to >= ${packedTo}::date`).length > 0);
    await vacuum(sql);
    const setupSecs = (performance.now() - began) / 1000;
    const postgres = await postmasterOf(sql);
    const jobsCores = await coresOf(postgres, jobsMs);
    const pool = new Pool(controlPlane.url, { connections: 1, bodyTimeout: replyMs, headersTimeout: replyMs });
    const loop = new Pool(`http://127.0.0.1:${loopPort}`, { connections: 1 });
    t.teardown(() => Promise.all([pool.destroy(), loop.destroy()]));
    const measured = async (): Promise<Loop> => {
      const { body } = await loop.request({ method: "GET", path: "/" });
      return (await body.json()) as Loop;
    };
    const cookie = `_sm_session=${await sessionOf(sql, largest.olga)}`;
    const credentials: Record<string, Record<string, string>> = {
      tenant: { cookie, "sec-fetch-site": "same-origin" },
      operator: { authorization: `Bearer ${operatorSecret}` },
      agent: { authorization: `Bearer ${largest.agent.token}` },
      owner: { authorization: `Bearer ${tokens.owner}` },
      viewer: { authorization: `Bearer ${tokens.viewer}` },
      tool: await sessionAt(controlPlane.url, `Bearer ${largest.olga.token}`),
      public: {},
      page: {},
    };

    let turn = 0;
    const readAt: number[] = [];
    /** A page that is computed anew when it is read. */
    const nextPage = async (): Promise<Largest["pages"][number]> => {
      const at = turn++ % largest.pages.length;
      await sleep(Math.max(0, (readAt[at] ?? -Infinity) + freshMs - performance.now()));
      readAt[at] = performance.now();
      return largest.pages[at]!;
    };

    const measureOnce = async (read: Read, attempt: number): Promise<Cost> => {
      const page = ofPage(read) ? await nextPage() : null;
      if (withSummary.has(read.declared)) await sleep(summaryMs);
      // Replies of a share are cached: every attempt reads another one.
      const path = read.path
        .replace("{share}", largest.shares[attempt % largest.shares.length]!)
        .replace("{page}", (page ?? largest.pages[0]!).id);
      await measured();
      const cpu = cpuSeconds(controlPlane.pid);
      const databaseCpu = cpuSecondsOfAll([postgres]);
      const sent = performance.now();
      const { method } = read;
      const body = read.body?.replace("{page}", largest.pages[0]!.id) ?? null;
      // In the shape of Uptime Kuma a page is served by the console's host only.
      const atConsole = read.path.startsWith("/api/status-page/") || (read.auth !== "public" && read.auth !== "page");
      const host = page === null || atConsole ? {} : { host: `${page.slug}.${baseDomain}` };
      const type = read.isRefused === undefined || body === null ? {} : { "content-type": "application/json" };
      const headers = { ...credentials[read.auth]!, ...host, ...type };
      const reply = await pool.request({ method, path, body, headers });
      let bytes = 0;
      let start = "";
      for await (const chunk of reply.body as AsyncIterable<Buffer>) {
        bytes += chunk.length;
        if (start.length < 300) start += chunk.toString("utf8", 0, 300);
      }
      const ofJobs = jobsCores * (performance.now() - sent);
      const databaseMs = Math.max(0, 1000 * (cpuSecondsOfAll([postgres]) - databaseCpu) - ofJobs);
      const cpuMs = 1000 * (cpuSeconds(controlPlane.pid) - cpu);
      const { holdMs, grown } = await measured();
      const isRefused = reply.statusCode >= 400 || start.includes('"isError":true');
      if (isRefused !== (read.isRefused ?? Object.hasOwn(refused, read.declared)))
        unexpected.add(`${read.name} (${path}) was answered ${reply.statusCode}: ${start}`);
      return { holdMs, databaseMs, grownMb: grown / megabyte, cpuMs, bytes };
    };

    const unexpected = new Set<string>();
    const table: (Cost & { name: string })[] = [];
    process.stderr.write("  hold ms  db ms  mem MB  cpu ms      bytes\n");
    for (const read of [...readsOf(largest), ...chosenBy(writes.map(readOf))]) {
      const costs: Cost[] = [];
      for (let attempt = 0; attempt <= tries; attempt++) {
        const cost = await measureOnce(read, attempt);
        if (attempt === 0) continue;
        costs.push(cost);
        if (over(cost).length === 0) break;
      }
      const least = (what: keyof Cost) => rounded(Math.min(...costs.map((cost) => cost[what])), 1);
      const costOf = {
        holdMs: least("holdMs"),
        databaseMs: least("databaseMs"),
        grownMb: least("grownMb"),
        cpuMs: least("cpuMs"),
        bytes: least("bytes"),
      };
      const row = { name: read.name, ...costOf };
      table.push(row);
      const cells = Object.values(costOf).map((value, at) => String(value).padStart(at === 4 ? 11 : 8));
      process.stderr.write(`${cells.join("")}  ${read.name}${over(row).length > 0 ? "  OVER" : ""}\n`);
    }
    if (unexpected.size > 0) throw new Error([...unexpected].join("\n"));
    const page = await pageCosts({
      sql,
      url: controlPlane.url,
      largest,
      nextHost: async () => `${(await nextPage()).slug}.${baseDomain}`,
      async read(host) {
        const before = cpuSeconds(controlPlane.pid);
        const { statusCode, body } = await pool.request({
          method: "GET",
          path: "/api/public/v1/status",
          headers: { host },
        });
        await body.dump({ limit: Infinity });
        if (statusCode !== 200) throw new Error(`the page was answered ${statusCode}`);
        return 1000 * (cpuSeconds(controlPlane.pid) - before);
      },
      measured,
    });
    const sharedMs: number[] = [];
    for (let round = 0; round < sharedRounds; round++) {
      if (round > 0) await sleep(freshMs);
      for (const share of largest.shares) {
        const from = new Date(Date.now() - (days - 1) * dayMs).toISOString();
        const sent = performance.now();
        const { body } = await pool.request({ method: "GET", path: `/m/${share}/incidents?from=${from}` });
        await body.dump({ limit: Infinity });
        sharedMs.push(performance.now() - sent);
      }
    }
    const overPage = Object.entries(pageLimits).filter(([what, limit]) => page[what as keyof PageCosts] > limit);
    const failing = [
      ...table.filter((cost) => over(cost).length > 0).map((cost) => `${cost.name}: ${over(cost).join(", ")}`),
      ...overPage.map(([what, limit]) => `the page: ${what} ${page[what as keyof PageCosts]} > ${limit}`),
    ];
    for (const line of failing) process.stderr.write(`OVER  ${line}\n`);
    return {
      name: "costs",
      value: failing.length,
      unit: "routes, pages and tools over a limit",
      limit: 0,
      ratio: failing.length === 0 ? 0 : 1 + failing.length,
      measured: table.length,
      setup_secs: rounded(setupSecs, 1),
      jobs_cores: rounded(jobsCores, 3),
      limits,
      page,
      shared_incidents_p95_ms: rounded(percentile(sharedMs, 0.95), 0),
      over: failing,
    };
  });
}

/** True for reads of a status page and its data. */
const ofPage = ({ auth, path }: Read): boolean =>
  auth === "page" ||
  (auth === "public" && /^\/(?:status|llms\.txt|api\/public\/)/.test(path)) ||
  path.endsWith("/preview");

const over = (cost: Cost): string[] =>
  Object.entries(limits)
    .filter(([what, limit]) => cost[what as keyof Cost] > limit)
    .map(([what, limit]) => `${what} ${rounded(cost[what as keyof Cost], 1)} > ${limit}`);

/** Stand-ins, to see whether every read has its values. */
const anyIds = Object.fromEntries(idSegments.map((name) => [name, "any"])) as unknown as Largest["ids"];

/** Every GET route with the largest page of its list and the longest time, every page and every read-only tool. */
function readsOf(largest: Pick<Largest, "ids" | "heartbeat">): Read[] {
  const timed = (query: string): string =>
    query.replaceAll(/\{(\d+)d\}/g, (_, count: string) => new Date(Date.now() - Number(count) * dayMs).toISOString());
  const declared = new Set<string>();
  const all: Read[] = [];
  const add = (name: string, path: string, auth: string, query: string) => {
    declared.add(name);
    if (Object.hasOwn(excluded, name)) return;
    const ids = path.includes("/heartbeat") ? { ...largest.ids, targets: largest.heartbeat } : largest.ids;
    all.push({
      name: `${name}${query}`,
      declared: name,
      auth,
      method: "GET",
      path: pathOf(path, ids) + timed(query),
    });
  };
  for (const route of routes.filter(({ method }) => method === "GET")) {
    const query: string[] = [];
    const fields = (route.query as { properties?: Record<string, { maximum?: number }> } | null)?.properties ?? {};
    for (const [name, schema] of Object.entries(fields)) {
      if (name === "limit" || name === "per_type" || name === "days") query.push(`${name}=${schema.maximum}`);
      if (name === "from") query.push(`from={${streams.has(nameOf(route)) ? 2 : days - 1}d}`);
      if (name === "q" && route.path !== "/operator/orgs") query.push("q=target");
    }
    for (const one of [query.length === 0 ? "" : `?${query.join("&")}`, ...(further[nameOf(route)] ?? [])])
      add(nameOf(route), route.path, route.auth, one);
  }
  for (const { path, auth } of allPages({ github: null, google: null, oidc: null }))
    for (const query of queries[path] ?? [""]) add(path, path, auth, query);
  for (const tool of tools.filter(({ confirm }) => confirm === null)) {
    declared.add(tool.name);
    const { properties, required = [] } = tool.input as {
      properties: Record<string, { maximum?: number }>;
      required?: string[];
    };
    const args = Object.fromEntries(
      [...required, ...(chosen[tool.name] ?? [])].map((name) => [
        name,
        argumentsOf(largest)[name] ?? properties[name]?.maximum ?? missing(`argument ${name} of ${tool.name}`),
      ]),
    );
    all.push({
      name: `tool ${tool.name}`,
      declared: tool.name,
      auth: "tool",
      method: "POST",
      path: "/mcp",
      body: JSON.stringify(callOf(tool.name, args)),
    });
  }
  for (const name of [
    ...Object.keys(excluded),
    ...Object.keys(refused),
    ...Object.keys(queries),
    ...Object.keys(further),
    ...Object.keys(chosen),
    ...streams,
  ])
    if (!declared.has(name)) throw new Error(`${name} is in a list of costs.ts and is not declared`);
  return chosenBy(all);
}

/** Those whose names have one of the words of SM_BENCH_ROUTES. */
function chosenBy(all: Read[]): Read[] {
  const words = (process.env["SM_BENCH_ROUTES"] ?? "").split(" ");
  return all.filter(({ name }) => words.some((word) => name.includes(word)));
}

const readOf = ({ name, auth, method, path, body, isRefused }: Write): Read => ({
  name,
  declared: name,
  auth,
  method,
  path,
  isRefused,
  ...(method === "GET" ? {} : { body }),
});

/** The path with the id of what stands before each parameter; the page of a code is asked with one that nobody has. */
function pathOf(path: string, ids: Readonly<Record<string, string>>): string {
  const segments = path.split("/");
  const valueOf = (name: string, before: string): string =>
    ids[before] ?? (name === "code" || name === "token" ? "no-such-code" : null) ?? missing(`{${name}} of ${path}`);
  return segments
    .map((segment, at) => (segment.startsWith("{") ? valueOf(segment.slice(1, -1), segments[at - 1]!) : segment))
    .join("/");
}

function missing(what: string): never {
  throw new Error(`No value for ${what}: add one in test/bench/costs.`);
}

async function until(isDone: () => Promise<boolean>): Promise<void> {
  while (!(await isDone())) await sleep(500);
}

/** Cores that a process and its descendants use while nothing is requested. */
async function coresOf(pid: number, ms: number): Promise<number> {
  const [began, before] = [performance.now(), cpuSecondsOfAll([pid])];
  await sleep(ms);
  return (1000 * (cpuSecondsOfAll([pid]) - before)) / (performance.now() - began);
}

/** The server is on this machine; its processes are children of this one. */
async function postmasterOf(sql: Sql): Promise<number> {
  const [row] = await sql<{ pid: number }[]>`select pg_backend_pid() as pid`;
  return Number(/^PPid:\s+(\d+)/m.exec(readFileSync(`/proc/${row!.pid}/status`, "utf8"))![1]);
}

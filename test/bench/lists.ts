import { gzipSync } from "node:zlib";
import type { Sql } from "postgres";
import { ensurePartitions } from "@statusmesh/control-plane/platform/db/distributed/partitions";
import { newId } from "@statusmesh/shared/ids";
import { Pool } from "undici";
import { agentIn, castIn, type Person, sessionOf } from "../harness/cast.ts";
import { tempFolder } from "../harness/folder.ts";
import { startControlPlane } from "../harness/processes.ts";
import { insertTargets, openEmbedded } from "../harness/targets.ts";
import { cpuSeconds, type Measured, rounded } from "./measure.ts";
import { nodeArgs, percentile, withTeardown } from "./scope.ts";

const hourMs = 3_600_000;
const region = "eu";
const sizes = [1_000, 10_000] as const;
/** The first rounds are not counted: the code is compiled and the plans are made in them. */
const warmups = 3;
const rounds = 20;
/** Requests of the small read that CPU times are compared with: /proc counts in steps of 10 ms. */
const smallReads = 200;
/** Scripts and style sheets of a page, gzipped, are at most 25 kB. */
const pageBytes = { list: 15_000, other: 35_000 };
/** Elements of a page, which a browser lays out. A list of 50 monitors had 1,648 before it showed tags and badges. */
const pageElements = 1_650;
/** Bytes of a first view with an empty cache, gzipped: page, scripts and sheets. */
const firstView = { console: 60_000, public: 40_000 };

/** A page or reply of the console. */
interface Read {
  name: string;
  path: string;
  /** How many times the bare statement it may take, medians compared. */
  most: number;
  /** Bytes of the body, gzipped. */
  mostBytes: number;
  /** 95th percentile wanted on a machine with two free cores: printed only, as a time says as much of the machine. */
  wantedMs: number;
}

/** The reads of an organisation, for one number of monitors; `statusPage` is the id of its page. */
function readsOf(count: number, statusPage: string, isDown: boolean): Read[] {
  const list = { most: 150, mostBytes: pageBytes.list, wantedMs: count === 1_000 ? 100 : 200 };
  const other = { ...list, mostBytes: pageBytes.other };
  if (isDown)
    return ["/", "/monitors?state=down", "/incidents"].map((path) => ({
      name: `all down ${path}`,
      path,
      ...other,
      most: 180,
    }));
  return [
    { name: "list", path: "/monitors", ...list },
    ...["name", "uptime", "p95", "days_left", "last_checked"].map((sort) => ({
      name: `list by ${sort}`,
      path: `/monitors?sort=${sort}`,
      ...list,
    })),
    { name: "groups", path: "/monitors?group=team", ...list },
    { name: "incidents", path: "/incidents", ...list },
    ...["s", "sho", "shop 77", "team-3", "host-99"].map((q) => ({
      name: `search ${q}`,
      path: `/api/v1/search?q=${encodeURIComponent(q)}`,
      ...other,
      wantedMs: 100,
    })),
    { name: "page builder", path: `/status-pages/${statusPage}`, ...other },
  ];
}

/**
 * The screens of an operator with 1,000 and with 10,000 monitors, and with all of them down: each as a multiple of a
 * bare statement over the same rows in the same turn. `value` is the read that comes nearest to its limit.
 */
export async function run(): Promise<Measured> {
  return await withTeardown(async (t) => {
    const folder = tempFolder(t, "bench");
    const env = { SM_LOG__LEVEL: "warn", SM_SCHEDULER__BUILTIN_AGENT: "false" };
    const { url, stop, pid } = await startControlPlane(t, { folder, env, nodeArgs });
    const sql = openEmbedded(t, folder, 2);
    await agentIn(sql, region);
    const hour = Math.floor(Date.now() / hourMs) * hourMs;
    await ensurePartitions(sql, new Date(hour - 24 * hourMs), new Date(hour + 24 * hourMs));
    const pool = new Pool(url, { connections: 1 });
    t.teardown(() => pool.destroy());
    const reads: Record<string, object> = {};
    let worst = 0;
    for (const count of sizes) {
      const { olga } = await castIn(sql);
      await sql`
        update plans set api_reads_per_min = null where id = (select plan_id from orgs where id = ${olga.orgId})`;
      await monitor(sql, olga, count);
      const headers = { cookie: `_sm_session=${await sessionOf(sql, olga)}` };
      const statusPage = await statusPageOf(pool, olga, sql);
      const cpuMs = () => 1000 * cpuSeconds(pid);
      const began = cpuMs();
      for (let n = 0; n < smallReads; n++) await get(pool, "/api/v1/me", headers);
      const server = { cpuMs, smallReadMs: (cpuMs() - began) / smallReads };
      reads[`${count}: /api/v1/me`] = { server_cpu_ms: rounded(server.smallReadMs) };
      for (const isDown of [false, true]) {
        if (isDown) await takeDown(sql, olga.orgId);
        for (const read of readsOf(count, statusPage.id, isDown)) {
          const measured = await measure({ pool, headers, server }, read, () => bare(sql, olga.orgId));
          worst = Math.max(worst, measured.share);
          reads[`${count}: ${read.name}`] = measured;
        }
      }
      for (const [name, path, most] of [
        ["console", "/monitors", firstView.console],
        ["public page", `/status/${statusPage.slug}`, firstView.public],
      ] as const) {
        const bytes = await firstViewOf(pool, path, headers);
        worst = Math.max(worst, bytes / most);
        reads[`${count}: first view of the ${name}`] = { gzipped_bytes: bytes, at_most_bytes: most };
      }
    }
    await pool.close();
    await stop();
    return {
      name: "lists",
      value: rounded(worst),
      unit: "x the limit of the read nearest to it",
      limit: 1,
      ratio: rounded(worst, 3),
      reads,
    };
  });
}

/** Every row of the organisation, as any list of its monitors must visit it. */
const bare = (sql: Sql, orgId: string) =>
  sql`select s.status, count(*) from targets t join target_states s on s.target_id = t.id
    where t.org_id = ${orgId} and t.name <> '' group by 1`;

/** `server`: CPU time of the control plane so far, and what a small read takes of it, ms. */
interface Client {
  pool: Pool;
  headers: Record<string, string>;
  server: { cpuMs: () => number; smallReadMs: number };
}

async function measure({ pool, headers, server }: Client, read: Read, bareOnce: () => PromiseLike<unknown>) {
  const times = { read: [] as number[], bare: [] as number[] };
  let bytes = 0;
  let elements = 0;
  let cpuBefore = 0;
  for (let round = 0; round < warmups + rounds; round++) {
    if (round === warmups) cpuBefore = server.cpuMs();
    const began = performance.now();
    const text = await get(pool, read.path, headers);
    const between = performance.now();
    await bareOnce();
    if (round < warmups) continue;
    times.read.push(between - began);
    times.bare.push(performance.now() - between);
    bytes = gzipSync(text).length;
    elements = text.match(/<[a-z]/g)?.length ?? 0;
  }
  const cpuMs = (server.cpuMs() - cpuBefore) / rounds;
  const times95 = percentile(times.read, 0.95);
  const multiple = percentile(times.read, 0.5) / percentile(times.bare, 0.5);
  return {
    p50_ms: rounded(percentile(times.read, 0.5), 1),
    p95_ms: rounded(times95, 1),
    wanted_p95_ms: read.wantedMs,
    server_cpu_ms: rounded(cpuMs, 1),
    cpu_times_small_read: rounded(cpuMs / server.smallReadMs, 1),
    times_bare: rounded(multiple),
    at_most: read.most,
    gzipped_bytes: bytes,
    at_most_bytes: read.mostBytes,
    elements,
    at_most_elements: pageElements,
    share: rounded(Math.max(multiple / read.most, bytes / read.mostBytes, elements / pageElements), 3),
  };
}

/** Bytes of a page and of the sheets, scripts and icon that it loads, gzipped. */
async function firstViewOf(pool: Pool, path: string, headers: Record<string, string>): Promise<number> {
  const page = await get(pool, path, headers);
  const loads = [
    ...page.matchAll(/<(?:link rel="(?:stylesheet|modulepreload|icon)"|script)[^>]*?(?:href|src)="([^"]+)"/g),
  ];
  const files = await Promise.all([...new Set(loads.map(([, file]) => file!))].map((file) => get(pool, file, {})));
  return [page, ...files].reduce((sum, text) => sum + gzipSync(text).length, 0);
}

async function get(pool: Pool, path: string, headers: Record<string, string>): Promise<string> {
  const reply = await pool.request({ method: "GET", path, headers });
  const text = await reply.body.text();
  if (reply.statusCode !== 200) throw new Error(`${path} was answered ${reply.statusCode}: ${text.slice(0, 200)}`);
  return text;
}

/** A page that shows the first 50 monitors. */
async function statusPageOf(pool: Pool, { token, orgId }: Person, sql: Sql): Promise<{ id: string; slug: string }> {
  const post = async (path: string, body: object) => {
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    const reply = await pool.request({ method: "POST", path, headers, body: JSON.stringify(body) });
    return (await reply.body.json()) as { id: string; slug: string };
  };
  const page = await post("/api/v1/status-pages", { name: "Status", slug: `s-${newId().slice(-12)}`, enabled: true });
  const targets = await sql<{ id: string }[]>`select id from targets where org_id = ${orgId} order by id limit 50`;
  await post(`/api/v1/status-pages/${page.id}/components/bulk`, { target_ids: targets.map(({ id }) => id) });
  return page;
}

/** Monitors that are up but for one in fifty, with a result a minute of the last hour and 30 days of daily counts. */
async function monitor(sql: Sql, { orgId }: Person, count: number): Promise<void> {
  const ids = Array.from({ length: count }, newId);
  await insertTargets(sql, { ids, orgId, region, intervalSecs: 60, confirmations: 2 });
  await sql`
    update targets t
    set name = (array['Shop', 'Login', 'API', 'Docs', 'Billing'])[n % 5 + 1] || ' ' || n, kind = 'http',
      tags = array['team/team-' || n % 40, case when n % 4 = 0 then 'staging' else 'production' end],
      search_text = 'https://host-' || n || '.example.org/health', host = 'host-' || n || '.example.org',
      spec = jsonb_build_object('type', 'http', 'url', 'https://host-' || n || '.example.org/health', 'method',
        'GET', 'timeout', 10000, 'follow_redirects', true, 'max_redirects', 5,
        'expected_status', '{"kind":"exact","value":200}'::jsonb, 'expected_body_contains', null, 'headers',
        '{}'::jsonb, 'body', null, 'verify_tls', true, 'basic_auth', null, 'bearer_token', null)
    from unnest(${ids}::uuid[]) with ordinality as u (id, n) where t.id = u.id`;
  await sql`
    insert into results (target_id, scheduled_at, region, "timestamp", status, skip, total_ms)
    select u.id, at, ${region}, at, 'up', false, 30 + 50 * random()
    from unnest(${ids}::uuid[]) as u (id)
    cross join generate_series(date_trunc('minute', now()) - interval '59 minutes', now(), '1 minute') as at`;
  await sql`
    insert into results_daily (target_id, day, up, down, degraded, error)
    select u.id, (now() - n * interval '1 day')::date, 1440 - n, n, 0, 0
    from unnest(${ids}::uuid[]) as u (id) cross join generate_series(1, 30) as n`;
  await sql`
    update target_states s
    set status_until = now() + interval '1 day', last_result_at = now(), status_since = now() - interval '5 minutes',
      status = case when n % 50 = 3 then 'down' else 'up' end, expires_at = now() + n * interval '1 hour'
    from unnest(${ids}::uuid[]) with ordinality as u (id, n) where s.target_id = u.id`;
  await openIncidents(sql, orgId);
  await sql`vacuum analyze`;
}

const openIncidents = (sql: Sql, orgId: string) => sql`
  insert into incidents (id, org_id, target_id, started_at, opened_at, outage_since, severity, impact,
    peak_impact, error_sample, regions_down, regions_up, retracted, created_at, updated_at)
  select t.id, t.org_id, t.id, now() - interval '5 minutes', now(), now() - interval '5 minutes', 'major',
    'major_outage', 'major_outage', 'connection refused', '{eu}', '{}', false, now(), now()
  from targets t join target_states s on s.target_id = t.id
  where t.org_id = ${orgId} and s.status = 'down' on conflict do nothing`;

async function takeDown(sql: Sql, orgId: string): Promise<void> {
  await sql`
    update target_states set status = 'down', status_since = now() - interval '5 minutes'
    where target_id in (select id from targets where org_id = ${orgId})`;
  await openIncidents(sql, orgId);
  await sql`vacuum analyze`;
}

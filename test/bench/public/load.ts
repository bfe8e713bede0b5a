import type { Sql } from "postgres";
import { ensurePartitions } from "@statusmesh/control-plane/platform/db/distributed/partitions";
import { newId } from "@statusmesh/shared/ids";
import { Pool } from "undici";
import { agentIn, castIn, type Person } from "../../harness/cast.ts";
import { type Teardown, tempFolder } from "../../harness/folder.ts";
import { type ControlPlane, startControlPlane } from "../../harness/processes.ts";
import { batchOf, chunked, runOf, slotIn } from "../../harness/results.ts";
import { insertTargets, openEmbedded } from "../../harness/targets.ts";
import { waitFor } from "../../harness/wait.ts";
import { nodeArgs } from "../scope.ts";

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
/** Days of history of all targets, one run per hour; every tenth target has two regions. */
const days = 7;
/** Some targets have a check a minute in two regions, for a month. */
const busyDays = 30;
const busyTargets = 10;
export const regions = ["eu", "us"] as const;

export interface Loaded {
  controlPlane: ControlPlane;
  sql: Sql;
  /** Owns all the targets. */
  olga: Person;
  /** Targets with a check a minute. */
  busy: string[];
  results: number;
  sketches: { rows: number; bytesPerRow: number; bytesPerSketch: number };
}

/**
 * A control plane that has watched `targetCount` targets: results from inside the database, states by its ingest, sums
 * by its own job. `more` is added to its environment.
 */
export async function loadReads(t: Teardown, targetCount: number, more: Record<string, string> = {}): Promise<Loaded> {
  const folder = tempFolder(t, "bench");
  const env = { SM_LOG__LEVEL: "warn", SM_SCHEDULER__BUILTIN_AGENT: "false", ...more };
  const first = await startControlPlane(t, { folder, env, nodeArgs });
  const sql = openEmbedded(t, folder, 4);
  const { olga } = await castIn(sql);
  await sql`
    update plans set api_reads_per_min = 1000000000 where id = (select plan_id from orgs where id = ${olga.orgId})`;
  const agents = await Promise.all(regions.map((region) => agentIn(sql, region)));
  const ids = Array.from({ length: targetCount }, newId);
  await insertTargets(sql, { ids, orgId: olga.orgId, region: regions[0], intervalSecs: 60, confirmations: 2 });
  await dressTargets(sql, olga.orgId, ids);
  await insertTargets(sql, {
    ids: Array.from({ length: 200 }, newId),
    orgId: (await castIn(sql)).xenia.orgId,
    region: regions[0],
    intervalSecs: 60,
    confirmations: 2,
  });

  const hour = Math.floor(Date.now() / hourMs) * hourMs;
  await ensurePartitions(sql, new Date(hour - (busyDays + 1) * dayMs), new Date(hour + dayMs));
  const busy = ids.slice(0, busyTargets);
  // Day by day, in the order of time, as at ingest.
  const whole = Array.from({ length: days * 24 + 1 }, (_, n) => hour - (days * 24 - n) * hourMs);
  for (const part of chunked(whole, 24)) await insertHourly(sql, ids, part[0]!, part.at(-1)!);
  for (let day = hour - busyDays * dayMs; day < Date.now(); day += dayMs)
    await insertMinutely(sql, busy, day, Math.min(day + dayMs, Date.now()));
  const [counted] = await sql<{ count: number }[]>`select count(*)::int as count from results`;
  // The job sums up the last day of all targets, and of the time before those that are asked for: their hours are
  // marked.
  const begin = hour - dayMs;
  await sql`
    update rollup_progress
    set next_hour = ${new Date(begin)}`;
  await sql`
    insert into rollup_dirty (target_id, hour)
    select id, at from unnest(${busy}::uuid[]) as t (id) cross
    join generate_series(${new Date(hour - busyDays * dayMs)}::timestamptz, ${new Date(begin - hourMs)}::timestamptz,
      '1 hour') as at
    on conflict do nothing`;
  await countLastDay(sql, new Date(begin));
  await report(first.url, agents[0]!.token, ids);
  await sql`vacuum analyze`;
  await sql.end();
  await first.stop();

  // The job starts with the process.
  const controlPlane = await startControlPlane(t, { folder, env, nodeArgs });
  const again = openEmbedded(t, folder, 1);
  await waitFor(
    "the rollup",
    async () =>
      (await again`select 1 from rollup_progress where next_hour >= ${new Date(hour - hourMs)}`).length > 0 &&
      (await again`select 1 from rollup_dirty where hour < ${new Date(hour - hourMs)} limit 1`).length === 0,
    { ms: 900_000 },
  );
  await again`vacuum analyze`;
  const [sketches] = await again<Loaded["sketches"][]>`
    select count(*)::int as rows,
      (pg_total_relation_size('latency_hourly') / greatest(count(*), 1))::int as "bytesPerRow",
        avg(octet_length(sketch)) filter (where samples = 60)::int as "bytesPerSketch"
    from latency_hourly`;
  return { controlPlane, sql: again, olga, busy, results: counted!.count, sketches: sketches! };
}

/** Names, tags and kinds as an organisation with many monitors has them; every fiftieth is paused. */
async function dressTargets(sql: Sql, orgId: string, ids: readonly string[]): Promise<void> {
  await sql`
    update targets t
    set name = (array['Shop', 'Login', 'API', 'Docs', 'Billing'])[n % 5 + 1] || ' ' || n, kind = 'http',
      tags = array['team-' || n % 40, case when n % 4 = 0 then 'staging' else 'production' end],
      spec = jsonb_build_object('type', 'http', 'url', 'https://host-' || n || '.example.org/health', 'method',
        'GET', 'timeout', 10000, 'follow_redirects', true, 'max_redirects', 5,
        'expected_status', '{"kind":"exact","value":200}'::jsonb, 'expected_body_contains', null, 'headers',
          '{}'::jsonb, 'body', null, 'verify_tls', true, 'basic_auth', null, 'bearer_token', null),
      enabled = n % 50 <> 49, created_at = now() - interval '60 days' - n * interval '1 minute'
    from unnest(${[...ids]}::uuid[]) with ordinality as u (id, n) where t.id = u.id and t.org_id = ${orgId}`;
  await sql`
    insert into target_regions (target_id, region_id) select id, ${regions[1]}
    from unnest(${[...ids]}::uuid[]) with ordinality as u (id, n) where n % 10 = 0 or n <= ${busyTargets}`;
}

/**
 * Simulated runs: one in 200 fails, every hundredth target for hours; times around 80 ms with a long tail.
 */
const runs = (sql: Sql) => sql`
  insert into results
    (target_id, scheduled_at, region, "timestamp", status, skip, error, http_status, response_size, dns_ms,
      connect_ms, tls_ms, ttfb_ms, total_ms)
  select g.id, g.slot, g.region, g.slot + interval '40 ms', case when g.failed then 'down' else 'up' end, false, case
    when g.failed then 'status 500' end, case when g.failed then 500 else 200 end, 4096,
    4 + random(), 9 + random(), 18 + random() * 4, g.total * 0.6, g.total
  from (
    select s.*, random() < 0.005
      or (s.n % 100 = 7 and extract(hour from s.slot) in (3, 4)) as failed,
        30 + 50 * exp(random_normal(0, 0.5)) as total from slots s order by s.slot
  ) g
  on conflict do nothing`;

async function insertHourly(sql: Sql, ids: readonly string[], from: number, to: number): Promise<void> {
  await sql`
    with slots as materialized (
      select u.id, u.n, r.region, at + u.n * interval '300 ms' as slot
      from unnest(${[...ids]}::uuid[]) with ordinality as u (id, n)
      cross join unnest(${[...regions]}::text[]) as r (region) cross
      join generate_series(${new Date(from)}::timestamptz, ${new Date(to)}::timestamptz, '1 hour') as at
      where r.region = ${regions[0]} or u.n % 10 = 0
    ) ${runs(sql)}`;
}

async function insertMinutely(sql: Sql, busy: readonly string[], from: number, to: number): Promise<void> {
  await sql`
    with slots as materialized (
      select u.id, u.n, r.region, at + u.n * interval '1.5 s' as slot
      from unnest(${[...busy]}::uuid[]) with ordinality as u (id, n)
      cross join unnest(${[...regions]}::text[]) as r (region) cross
      join generate_series(${new Date(from)}::timestamptz, ${new Date(to)}::timestamptz, '1 minute') as at
    ) ${runs(sql)}`;
}

/**
 * The counts that ingest would have written: gathered, and for the last minute one row per batch.
 */
async function countLastDay(sql: Sql, from: Date): Promise<void> {
  await sql`
    insert into org_seconds (org_id, at, up, down, degraded, error)
    select t.org_id, date_trunc('second', r."timestamp"), count(*) filter (where r.status = 'up'),
      count(*) filter (where r.status = 'down'), 0, 0
    from results r join targets t on t.id = r.target_id where r.scheduled_at >= ${from} group by 1, 2`;
  await sql`
    insert into org_hours (org_id, hour, up, down, degraded, error)
    select org_id, date_trunc('hour', at), sum(up), sum(down), 0, 0 from org_seconds group by 1, 2`;
  await sql`
    insert into org_hours_new (org_id, hour, at, up, down, degraded, error)
    select o.org_id, o.hour, o.hour + n * interval '10 s', 100, 1, 0, 0
    from org_hours o cross join generate_series(1, 100) as n`;
}

/**
 * Two runs of every target as its agent sends them, so that states and incidents are those of the program; one in fifty
 * fails.
 */
async function report(url: string, token: string, ids: readonly string[]): Promise<void> {
  const pool = new Pool(url, { connections: 2 });
  for (const ago of [90_000, 30_000]) {
    for (const some of chunked(ids, 1000)) {
      const body = JSON.stringify(
        batchOf(
          some.map((id, n) =>
            runOf(id, slotIn(id, regions[0], 60_000, Date.now() - ago), n % 50 === 3 ? "down" : "up"),
          ),
        ),
      );
      const reply = await pool.request({
        method: "POST",
        path: "/api/agent/results",
        headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
        body,
      });
      const text = await reply.body.text();
      if (reply.statusCode !== 200) throw new Error(text);
    }
  }
  await pool.close();
}

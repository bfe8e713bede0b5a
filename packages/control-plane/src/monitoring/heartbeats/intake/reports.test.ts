import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { connect } from "node:net";
import { setTimeout } from "node:timers/promises";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { type Ctx, inTransaction, type System } from "../../../platform/context.ts";
import { ensurePartitions } from "../../../platform/db/distributed/partitions.ts";
import { day, hour, minute, noon, second, until } from "../../../testing/clock.ts";
import { asking, serveWhole, signedIn, withToken } from "../../../testing/whole-app.ts";
import { newOrg, openWorld } from "../../../testing/world.ts";
import { readBeats } from "../../results/history/service.ts";
import { addressHash as hashOf } from "../service.ts";
import { selectAddressed } from "../address-queries.ts";
import { isWatchDue, selectOverdue } from "../queries.ts";
import { openLookups } from "./lookups.ts";
import { followHeartbeats, isHeartbeatDue } from "./reports.ts";
import { isTrue } from "../../../platform/jobs/queries.ts";

const world = await openWorld(t);
const { sql, pool, clock, system, log } = world;
await ensurePartitions(sql, new Date(noon - 2 * day), new Date(noon + 40 * day));
const ctx = await newOrg(system);
const anybody = await serveWhole(t, world);
const ask = asking(anybody, await signedIn(ctx));
const other: System = { ...system, sql: pool() };
const prepareDays = async () => {};

t.beforeEach(() => {
  clock.at = noon;
});

interface Made {
  id: string;
  /** Path of its ping URL. */
  path: string;
}

async function make(check: object = { period: hour }, more: object = {}): Promise<Made> {
  const made = await ask("POST", "/api/v1/targets", {
    name: "Backup",
    check: { type: "heartbeat", grace: minute, ...check },
    ...more,
  });
  if (made.status !== 201) throw new Error(made.text);
  const { body } = await ask("GET", `/api/v1/targets/${made.body.id}/heartbeat`);
  return { id: made.body.id, path: new URL(body.ping_url).pathname };
}

const heartbeat = async ({ id }: Made) => (await ask("GET", `/api/v1/targets/${id}/heartbeat`)).body;
/** The text of its page on one line. */
const pageOf = async ({ id }: Made) => (await ask("GET", `/monitors/${id}`)).text.replaceAll(/\s+/g, " ");
const ping = async ({ path }: Made, suffix = "", method = "GET") => await anybody(method, path + suffix);
const statusOf = async ({ id }: Made, as: Ctx = ctx) =>
  (await as.sql<{ status: string }[]>`select status from target_states where target_id = ${id}`)[0]!.status;
const incidentsOf = async ({ id }: Made) =>
  (await ask("GET", `/api/v1/incidents?state=all&target_id=${id}`)).body.items as {
    ended_at: string | null;
    error_sample: string;
  }[];
/** What every control plane does each second. */
const follow = async (by: System = system) =>
  (await isTrue(by, isHeartbeatDue)) ? await followHeartbeats(by, prepareDays) : 0;
/** Time passes, and control planes watch all the while. */
async function pass(ms: number): Promise<void> {
  clock.advance(ms);
  await sql`
    insert into heartbeat_watch (alive_at) values (${new Date(clock.at)})
    on conflict (only_row) do update set alive_at = excluded.alive_at`;
  await follow();
}

t.test("a monitor with its URL; the reply shows what is expected", async (t) => {
  const made = await ask("POST", "/api/v1/targets", { name: "Nightly", check: { type: "heartbeat", period: day } });
  matchObject(t, made, {
    status: 201,
    body: { interval: 86_400, alert_confirmations: 1, heartbeat_addresses: [], check: { grace: 2.4 * hour } },
  });
  const shown = await ask("GET", `/api/v1/targets/${made.body.id}`);
  t.match(shown.body.ping_url, /^https:\/\/status\.example\.org\/hb\/[\w-]{43}$/);
  t.equal((await ask("PATCH", `/api/v1/targets/${made.body.id}`, { ping_url: shown.body.ping_url })).status, 200);
  matchObject(t, await ask("GET", `/api/v1/targets/${made.body.id}/heartbeat`), {
    status: 200,
    body: { ping_url: /^https:\/\/status\.example\.org\/hb\/[\w-]{43}$/, state: "new", last_ping: null, down_at: null },
  });
  const reader = asking(anybody, await withToken(ctx, { scopes: ["targets:read"] }));
  matchObject(t, await reader("GET", `/api/v1/targets/${made.body.id}/heartbeat`), {
    body: { ping_url: "***", token: "***", state: "new" },
  });
  matchObject(t, await reader("GET", `/api/v1/targets/${made.body.id}`), { body: { ping_url: "***" } });
  const probed = await ask("POST", "/api/v1/targets", {
    name: "Port",
    check: { type: "tcp", host: "db.example.org", port: 5432 },
  });
  matchObject(t, await ask("GET", `/api/v1/targets/${probed.body.id}/heartbeat`), { status: 404 });
  t.notOk("ping_url" in (await ask("GET", `/api/v1/targets/${probed.body.id}`)).body);
  matchObject(t, (await ask("GET", "/api/v1/regions")).body, { items: [{ id: "eu" }, { id: "us" }] }, "not its own");
});

t.test("success, missed report, success: one incident, one notice, on two replicas", async (t) => {
  await sql`update orgs set timezone = 'Europe/Berlin' where id = ${ctx.orgId}`;
  const job = await make();
  await pass(3 * hour);
  t.equal(await statusOf(job), "unknown", "no alert before the first ping");
  matchObject(t, await ping(job), {
    status: 200,
    text: "OK",
    headers: new Headers({ "access-control-allow-origin": "*" }),
  });
  t.equal(await statusOf(job), "up");
  const at = clock.at;
  matchObject(t, await heartbeat(job), {
    state: "up",
    next_due_at: new Date(at + hour).toISOString(),
    down_at: new Date(at + hour + minute).toISOString(),
    last_ping: { kind: "success", source_ip: "127.0.0.1" },
  });
  await pass(hour + 30 * second);
  matchObject(t, await heartbeat(job), { state: "late" });
  t.match(await pageOf(job), /Late\.<\/strong> A report was due .*Without a report it goes down .*Last 50 reports/);
  t.equal(await statusOf(job), "up");
  await pass(20 * second);
  clock.at = at + hour + minute + second;
  t.equal(
    (await Promise.all([follow(), follow(other)])).reduce((a, b) => a + b),
    1,
    "once on two replicas",
  );
  t.equal(await statusOf(job), "down");
  matchObject(t, await incidentsOf(job), [
    { ended_at: null, error_sample: /^no report, due 2026-11-20 18:00 Europe\/Berlin/ },
  ]);
  await pass(hour);
  const [found] = await sql<{ count: number }[]>`
    select count(*)::int as count from results where target_id = ${job.id} and status = 'down'`;
  t.equal(found!.count, 2, "one failing result for each missed window");
  t.equal((await incidentsOf(job)).length, 1);
  await ping(job);
  t.equal(await statusOf(job), "up");
  matchObject(t, await incidentsOf(job), [{ ended_at: new Date(clock.at).toISOString() }]);
});

t.test("the look for missed reports reads those that are late, of 3,000", async (t) => {
  const { id } = await make();
  await sql`
    with made as (
      insert into targets (id, org_id, name, kind, spec, search_text, interval_secs, enabled, tags, alert_confirmations,
        notify_recovery, renotify_interval_secs, region_policy, write_source, created_at, updated_at)
      select gen_random_uuid(), org_id, name, kind, spec, search_text, interval_secs, enabled, tags,
        alert_confirmations, notify_recovery, renotify_interval_secs, region_policy, write_source, created_at,
        updated_at
      from targets, generate_series(1, 3000) where id = ${id}
      returning id
    )
    insert into heartbeats (target_id, token, due_at, down_at)
    select id, '', ${new Date(noon + hour)}, ${new Date(noon + hour)} from made`;
  t.teardown(() => sql`delete from targets where id <> ${id}`);
  await sql`analyze targets, heartbeats`;
  for (const late of [0, 3])
    await inTransaction(system, async ({ sql: tx }) => {
      await tx`
        update heartbeats set down_at = ${new Date(noon - minute)}
        where target_id in (select target_id from heartbeats where target_id <> ${id} limit ${late})`;
      const rowsRead = async () =>
        (
          await tx<{ read: number }[]>`
            select sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::integer as read from pg_stat_xact_user_tables`
        )[0]!.read;
      const before = await rowsRead();
      const isWatched = (db: { sql: typeof tx }) => isWatchDue(db.sql, new Date(noon), new Date(0));
      t.equal(await isTrue({ sql: tx }, isWatched), late > 0);
      t.equal((await selectOverdue(tx, new Date(noon), 500)).length, late);
      const read = (await rowsRead()) - before;
      t.ok(read < 100, `${late} late: ${read} rows`);
    });
});

t.test("concurrent reports, most of the same job: each is stored and counted once", async (t) => {
  const jobs = await Promise.all(Array.from({ length: 4 }, () => make()));
  const before = await countedRuns();
  const sending = [];
  for (let n = 0; n < 60; n++) {
    sending.push(ping(jobs[n % 7 === 0 ? 1 + ((n / 7) % 3) : 0]!, n % 2 === 0 ? "" : "/1"));
    if (n % 3 === 0) await setTimeout(1);
  }
  t.ok((await Promise.all(sending)).every(({ status }) => status === 200));
  const numbers = await sql<{ numbers: number[]; pings: number; results: number }[]>`
    select array_agg(p.number::int order by p.number) as numbers, h.pings,
      (select count(*)::int from results r where r.target_id = h.target_id) as results
    from heartbeats h join heartbeat_pings p using (target_id)
    where h.target_id = any(${jobs.map(({ id }) => id)}) group by h.target_id, h.pings order by h.pings desc`;
  t.equal(numbers[0]!.pings, 51);
  for (const { numbers: found, pings, results } of numbers) {
    t.same(
      found,
      Array.from({ length: pings }, (_, n) => n + 1),
    );
    t.equal(results, pings, "a result each");
  }
  t.equal((await countedRuns()) - before, 60);
});

t.test("a result that evidence does not know is kept, and the report that has its slot counts as none", async (t) => {
  const job = await make();
  await sql`
    insert into results (target_id, region, scheduled_at, "timestamp", status, skip, recheck)
    values (${job.id}, 'heartbeat', ${new Date(noon)}, ${new Date(noon)}, 'down', false, false)`;
  const before = await countedRuns();
  t.equal((await ping(job)).status, 200);
  t.equal(await countedRuns(), before);
  clock.advance(minute);
  t.equal((await ping(job)).status, 200);
  t.equal(await countedRuns(), before + 1);
  t.same(await sql`select status from results where target_id = ${job.id} order by scheduled_at`, [
    { status: "down" },
    { status: "up" },
  ]);
});

/** The runs that are counted for the organisation. */
async function countedRuns(): Promise<number> {
  const [row] = await sql<{ count: number }[]>`
    select coalesce(sum(up + down + degraded + error), 0)::int as count from org_hours_new where org_id = ${ctx.orgId}`;
  return row!.count;
}

t.test("start, end, exit codes and bodies", async (t) => {
  const job = await make({ period: day, max_runtime: hour });
  const rid = "6e1a4b7c-2f1d-4f3e-9a55-0c6f6a2b7d10";
  await ping(job, `/start?rid=${rid}`);
  matchObject(t, await heartbeat(job), { state: "running", down_at: new Date(noon + hour).toISOString() });
  t.match(await pageOf(job), /Running\.<\/strong> Without a report it goes down /);
  clock.advance(90 * second);
  await anybody("POST", `${job.path}/3?rid=${rid}`, "disk\u0000 full");
  matchObject(t, await heartbeat(job), {
    state: "down",
    last_duration_ms: 90_000,
    last_ping: { kind: "fail", exit_code: 3, run_id: rid, duration_ms: 90_000 },
  });
  await until(async () => (await heartbeat(job)).last_ping.body !== null, "the body is stored");
  t.equal((await heartbeat(job)).last_ping.body, '"disk\\u0000 full"');
  matchObject(t, await incidentsOf(job), [{ ended_at: null, error_sample: "the job failed with exit code 3" }]);
  clock.advance(minute);
  await ping(job, "/start");
  clock.advance(42 * second);
  await ping(job, "/0");
  matchObject(t, await heartbeat(job), { state: "up", last_duration_ms: 42_000, last_ping: { exit_code: 0 } });
  matchObject(t, (await ask("GET", `/api/v1/targets/${job.id}/heartbeat/pings?limit=3`)).body.items, [
    { kind: "success" },
    { kind: "start" },
    { kind: "fail" },
  ]);
  clock.advance(1);
  matchObject(t, await ask("GET", `/api/v1/targets/${job.id}/results?limit=1`), {
    body: { items: [{ status: "up", total_ms: 42_000, region: "heartbeat" }] },
  });
  for (const [suffix, status, text] of [
    ["/256", 400, "an exit code is 0 to 255"],
    ["/start/7", 404, "not found"],
    ["/start?rid=7", 400, "rid must be a UUID"],
    ["/later", 404, "not found"],
  ] as const)
    matchObject(t, await ping(job, suffix), { status, text }, suffix);
  matchObject(t, await anybody("GET", `/hb/${"x".repeat(43)}`), { status: 404, text: "not found" });
  const put = await ping(job, "", "PUT");
  t.strictSame([put.status, put.headers.get("allow")], [405, "GET, HEAD, POST"]);
  matchObject(t, await ping(job, "", "OPTIONS"), { status: 204 });
  t.equal((await ping(job, "", "HEAD")).status, 200);
});

t.test("of a body whose sender goes away after the reply, what arrived is kept", async (t) => {
  const job = await make();
  const { hostname, port } = new URL(anybody.origin);
  const socket = connect(Number(port), hostname);
  socket.write(`POST ${job.path}/log HTTP/1.1\r\nHost: jobs\r\nContent-Length: 5000\r\n\r\nno space left`);
  await once(socket, "data");
  socket.destroy();
  await until(async () => (await heartbeat(job)).last_ping.body === "no space left", "it is stored");
  matchObject(t, await heartbeat(job), { last_ping: { kind: "log" } });
});

t.test("the newest 1,000 pings are kept; both addresses of a monitor may come in one transaction", async (t) => {
  const job = await make();
  await sql`
    insert into heartbeat_pings (target_id, number, at, kind, source_ip, user_agent)
    select ${job.id}, n, ${new Date(clock.at)}, 'log', '127.0.0.1', 'curl' from generate_series(1, 999) n`;
  await sql`update heartbeats set pings = 999 where target_id = ${job.id}`;
  const numbers = async () =>
    (
      await sql<{ number: string }[]>`
    select number from heartbeat_pings where target_id = ${job.id} order by number`
    ).map(({ number }) => Number(number));
  await ping(job);
  t.equal((await numbers())[0], 1, "the thousandth pushes none out");
  const rotated = await ask("POST", `/api/v1/targets/${job.id}/heartbeat/rotate`);
  const newer = { ...job, path: new URL(rotated.body.ping_url).pathname };
  const replies = await Promise.all([ping(job), ping(newer), ping(job), ping(newer)]);
  t.same(
    replies.map(({ status }) => status),
    [200, 200, 200, 200],
  );
  t.same(
    await numbers(),
    Array.from({ length: 1000 }, (_, n) => n + 5),
  );
});

t.test("POST only: links that are opened report nothing", async (t) => {
  const job = await make({ period: hour, methods: "post" });
  matchObject(t, await ping(job), { status: 405, text: "POST only" });
  t.equal((await heartbeat(job)).last_ping, null);
  matchObject(t, await ping(job, "", "POST"), { status: 200 });
  const page = await pageOf(job);
  for (const command of [
    /-o \/dev\/null -X POST http/,
    /--post-data= http\S+\/\$code; exit \$code/,
    /-Method Post -TimeoutSec/,
    /\$LASTEXITCODE -in 0\.\.255\)/,
  ])
    matchObject(t, page, command, "commands to paste");
});

t.test("a pause expects nothing, and its end gives a whole window", async (t) => {
  const job = await make();
  await ping(job);
  await ask("PATCH", `/api/v1/targets/${job.id}`, { enabled: false });
  matchObject(t, await heartbeat(job), { state: "paused", down_at: null });
  clock.advance(5 * hour);
  await ping(job, "/fail");
  matchObject(t, await heartbeat(job), { state: "paused", last_ping: { kind: "fail" } });
  t.equal((await incidentsOf(job)).length, 0);
  clock.advance(5 * hour);
  await ask("POST", "/api/v1/targets/bulk-action", { ids: [job.id], action: { type: "enable" } });
  matchObject(t, await heartbeat(job), { state: "up", down_at: new Date(clock.at + hour + minute).toISOString() });
  await ask("PATCH", `/api/v1/targets/${job.id}`, { check: { period: 2 * hour } });
  matchObject(t, await heartbeat(job), { down_at: new Date(clock.at + 2 * hour + minute).toISOString() });
});

t.test("our own absence is no failure: windows are extended by the grace", async (t) => {
  const job = await make();
  await ping(job);
  const running = await make({ period: day, max_runtime: minute });
  await ping(running, "/start");
  await follow();
  clock.advance(10 * hour);
  t.equal(await followHeartbeats(other, prepareDays), 0);
  t.equal(await statusOf(job), "up");
  matchObject(t, await heartbeat(job), { state: "late", down_at: new Date(clock.at + minute).toISOString() });
  matchObject(t, await heartbeat(running), { state: "running", down_at: new Date(clock.at + minute).toISOString() });
  matchObject(
    t,
    log.lines.find(({ message }) => message.startsWith("no control plane took pings")),
    { level: "info" },
  );
  await pass(minute + second);
  t.equal(await statusOf(job), "down");
  t.equal(await statusOf(running), "down");
});

t.test("a restart each night does not keep a job that is gone from being missed", async (t) => {
  const job = await make({ period: day, grace: day });
  await ping(job);
  await follow();
  const states: unknown[] = [];
  for (let nights = 1; nights <= 4; nights++) {
    await pass(day - 2 * minute);
    // Away for more than 15 s.
    clock.advance(2 * minute);
    await follow();
    states.push((await heartbeat(job)).state);
  }
  t.strictSame(states, ["late", "late", "down", "down"]);
});

t.test("a rotated token counts for a day, the one before it no longer", async (t) => {
  const first = await make();
  const rotate = async () => {
    const { body } = await ask("POST", `/api/v1/targets/${first.id}/heartbeat/rotate`);
    return { path: new URL(body.ping_url).pathname, until: body.previous_token_valid_until as string };
  };
  const second = await rotate();
  t.equal(second.until, new Date(noon + day).toISOString());
  t.equal((await ping(first)).status, 200);
  t.equal((await anybody("GET", second.path)).status, 200);
  const third = await rotate();
  t.equal((await ping(first)).status, 404);
  t.equal((await anybody("GET", second.path)).status, 200);
  clock.advance(day + second.path.length);
  t.equal((await anybody("GET", second.path)).status, 404);
  t.equal((await anybody("GET", third.path)).status, 200);
});

t.test("jobs go on using the addresses of other products", async (t) => {
  const uuid = "0b0b7e9c-5d1f-4f6e-8c3a-1f2e3d4c5b6a";
  const job = await make(undefined, {
    heartbeat_addresses: [
      { kind: "healthchecks", value: uuid },
      { kind: "healthchecks_slug", value: "pingkey-123/db-backup" },
      { kind: "kuma", value: "Ku4aPushToken" },
      { kind: "better_stack", value: "BetterToken12" },
      { kind: "gatus", value: "core_backup:gatus-secret" },
    ],
  });
  const bearer = { authorization: "Bearer gatus-secret" };
  const cases: [string, string, Record<string, string>, number, string, string | null][] = [
    ["GET", `/ping/${uuid}`, {}, 200, "OK", "success"],
    ["GET", `/ping/${uuid.toUpperCase()}/fail`, {}, 200, "OK", "fail"],
    ["HEAD", "/ping/pingkey-123/db-backup", {}, 200, "", "success"],
    ["POST", "/ping/pingkey-123/db-backup/start", {}, 200, "OK", "start"],
    ["GET", "/ping/pingkey-123/unknown", {}, 404, "not found", null],
    ["GET", "/api/push/Ku4aPushToken?status=up&msg=OK&ping=", {}, 200, '{"ok":true}', "success"],
    ["GET", "/api/push/Ku4aPushToken?status=down&msg=disk%20full%00", {}, 200, '{"ok":true}', "fail"],
    ["GET", "/api/push/unknown-token", {}, 404, '{"ok":false,"msg":"not found"}', null],
    ["POST", "/api/v1/heartbeat/BetterToken12", {}, 200, "OK", "success"],
    ["GET", "/api/v1/heartbeat/BetterToken12/7", {}, 200, "OK", "fail"],
    ["GET", "/api/v1/heartbeat/BetterToken12/start", {}, 404, "not found", null],
    ["POST", "/api/v1/endpoints/core_backup/external?success=true", bearer, 200, "OK", "success"],
    ["POST", "/api/v1/endpoints/core_backup/external?success=false&error=exit+status+2", bearer, 200, "OK", "fail"],
    ["POST", "/api/v1/endpoints/core_backup/external", bearer, 400, "success must be true or false", null],
    ["POST", "/api/v1/endpoints/core_backup/external?success=true", {}, 404, "not found", null],
    ["GET", "/api/v1/endpoints/core_backup/external?success=true", bearer, 405, "POST only", null],
  ];
  for (const [method, path, headers, status, text, kind] of cases) {
    clock.advance(second);
    matchObject(t, await anybody(method, path, undefined, headers), { status, text }, `${method} ${path}`);
    if (kind !== null) t.equal((await heartbeat(job)).last_ping.kind, kind, `${method} ${path}`);
  }
  const said = async () =>
    (await ask("GET", `/api/v1/targets/${job.id}/heartbeat/pings`)).body.items.map(
      ({ body }: { body: string }) => body,
    );
  await until(async () => (await said()).filter(Boolean).length === 2, "the reasons of failures in queries are kept");
  t.strictSame((await said()).filter(Boolean), ["exit status 2", "disk full"]);
  matchObject(t, await ask("GET", `/api/v1/targets/${job.id}`), {
    body: {
      heartbeat_addresses: [
        { kind: "healthchecks", value: "***", hint: "5b6a" },
        { kind: "healthchecks_slug", value: "***", hint: "ckup" },
        { kind: "kuma" },
        { kind: "better_stack" },
        { kind: "gatus" },
      ],
    },
  });
  const kept = [
    { kind: "kuma", value: "***" },
    { kind: "healthchecks", value: "***", hint: "5b6a" },
  ];
  t.equal((await ask("PATCH", `/api/v1/targets/${job.id}`, { heartbeat_addresses: kept })).status, 200);
  t.equal((await anybody("GET", `/ping/${uuid}`)).status, 200);
  t.equal((await anybody("GET", "/api/push/Ku4aPushToken")).status, 200);
  clock.advance(minute);
  t.equal((await anybody("GET", "/api/v1/heartbeat/BetterToken12")).status, 404);
});

t.test("the host of pings takes the form of hc-ping.com and answers nothing else", async (t) => {
  const config = { ...system.config, heartbeats: { ...system.config.heartbeats, host: "ping.example.org" } };
  const served = await serveWhole(t, world, { ...system, config });
  const uuid = "7d0b7e9c-5d1f-4f6e-8c3a-1f2e3d4c5b6a";
  const job = await make(undefined, {
    heartbeat_addresses: [
      { kind: "healthchecks", value: uuid },
      { kind: "healthchecks_slug", value: "pingkey-456/backup" },
    ],
  });
  // fetch sets its own Host.
  const send = async (host: string, path: string, method = "GET") => {
    clock.advance(second);
    const { hostname, port } = new URL(served.origin);
    const asked = request({ hostname, port, method, path, headers: { host } }).end();
    const [reply] = (await once(asked, "response")) as [IncomingMessage];
    let body = "";
    for await (const chunk of reply) body += String(chunk);
    return { status: reply.statusCode, body };
  };
  for (const [method, path, kind] of [
    ["GET", `/${uuid}`, "success"],
    ["POST", `/${uuid.toUpperCase()}/fail`, "fail"],
    ["HEAD", `/${uuid}/start`, "start"],
    ["GET", "/pingkey-456/backup", "success"],
    ["GET", "/pingkey-456/backup/7", "fail"],
    ["GET", `/ping/${uuid}`, "success"],
    ["GET", `${job.path}/log`, "log"],
  ] as const) {
    t.equal((await send("Ping.example.org:443", path, method)).status, 200, path);
    t.equal((await heartbeat(job)).last_ping.kind, kind, path);
  }
  for (const path of [
    "/",
    "/healthz",
    "/sign-in",
    "/status",
    "/api/v1/targets",
    "/api/openapi.json",
    "/mcp",
    "/assets/x",
  ])
    t.strictSame(await send("ping.example.org", path), { status: 404, body: "not found" }, path);
  t.equal((await send("status.example.org", `/${uuid}`)).status, 404, "at the other hosts there is no such address");
  t.equal((await send("status.example.org", "/healthz")).status, 200);
});

t.test("what jobs say with the addresses of other products is the error and the time of the result", async (t) => {
  const uuid = "1b0b7e9c-5d1f-4f6e-8c3a-1f2e3d4c5b6a";
  const job = await make(undefined, {
    heartbeat_addresses: [
      { kind: "kuma", value: "SayingPushToken" },
      { kind: "better_stack", value: "SayingToken12" },
      { kind: "gatus", value: "core_saying:gatus-secret" },
      { kind: "healthchecks", value: uuid },
    ],
  });
  const [push, better] = ["/api/push/SayingPushToken", "/api/v1/heartbeat/SayingToken12"];
  const gatus = "/api/v1/endpoints/core_saying/external";
  const bearer = { authorization: "Bearer gatus-secret" };
  const plain = { "content-type": "text/plain" };
  const cases: [string, string, string | undefined, Record<string, string>, string | null, number | null][] = [
    ["GET", `${push}?status=down&msg=disk%20is%0Afull%07&ping=41.6`, undefined, {}, "disk is full", 42],
    ["GET", `${push}?status=up&msg=OK&ping=7`, undefined, {}, null, 7],
    ["GET", `${push}?status=up&ping=-1`, undefined, {}, null, null],
    ["GET", `${push}?status=down&msg=`, undefined, {}, "the job reported a failure", null],
    ["GET", `${push}?status=down&msg=${"x".repeat(400)}`, undefined, {}, "x".repeat(300), null],
    ["POST", `${better}/fail`, "no space left", plain, '"no space left"', null],
    ["POST", `${better}/3`, "rsync: broken", plain, 'the job failed with exit code 3: "rsync: broken"', null],
    ["POST", `${better}/fail`, undefined, {}, "the job reported a failure", null],
    ["POST", `${gatus}?success=false&error=exit+status+2&duration=1m1.5s`, undefined, bearer, "exit status 2", 61_500],
    ["POST", `${gatus}?success=true&duration=120ms`, undefined, bearer, null, 120],
    ["POST", `${gatus}?success=true&duration=soon`, undefined, bearer, null, null],
  ];
  for (const [method, path, body, headers, error, took] of cases) {
    clock.advance(second);
    matchObject(t, await anybody(method, path, body, headers), { status: 200 }, `${method} ${path}`);
    const [result] = await sql`
      select error, total_ms from results where target_id = ${job.id} order by scheduled_at desc limit 1`;
    t.strictSame({ ...result }, { error, total_ms: took }, `${method} ${path}`);
  }
  t.equal((await incidentsOf(job)).length > 0, true);

  // healthchecks answers a GET that does not count with 200; our own address says so.
  const posted = await make(
    { period: hour, methods: "post" },
    { heartbeat_addresses: [{ kind: "healthchecks_slug", value: "pingkey-123/posted" }] },
  );
  matchObject(t, await anybody("GET", "/ping/pingkey-123/posted"), { status: 200, text: "OK" });
  matchObject(t, await ping(posted), { status: 405 });
  t.equal((await heartbeat(posted)).last_ping, null, "counts nothing");
  matchObject(t, await anybody("POST", "/ping/pingkey-123/posted"), { status: 200, text: "OK" });
  matchObject(t, (await heartbeat(posted)).last_ping, { kind: "success" });
});

t.test("addresses that cannot be, that are taken, and that nobody may change", async (t) => {
  const address = (kind: string, value: string) => ({ heartbeat_addresses: [{ kind, value }] });
  const job = await make(undefined, address("kuma", "OnlyOnceToken"));
  const create = (more: object, check: object = { type: "heartbeat", period: hour }) =>
    ask("POST", "/api/v1/targets", { name: "Other", check, ...more });
  const refused = async (
    answer: Promise<{ status: number; body: unknown }>,
    status: number,
    code: string,
    field?: string,
  ) =>
    matchObject(
      t,
      await answer,
      { status, body: { error: { code, ...(field === undefined ? {} : { field }) } } },
      code,
    );
  await refused(create(address("kuma", "OnlyOnceToken")), 409, "HEARTBEAT_ADDRESS_TAKEN");
  await refused(create(address("kuma", "short")), 400, "INVALID_HEARTBEAT", "/heartbeat_addresses/0/value");
  await refused(create(address("healthchecks", "no-uuid-at-all")), 400, "INVALID_HEARTBEAT");
  await refused(create(address("kuma", "***")), 400, "REDACTION_SENTINEL");
  const tcp = { type: "tcp", host: "db.example.org", port: 5432 };
  await refused(create(address("kuma", "SomeOtherToken"), tcp), 400, "INVALID_HEARTBEAT", "/heartbeat_addresses");
  const cron = { cron: "61 * * * *", timezone: "UTC" };
  const once = await create({}, { type: "heartbeat", schedule: cron });
  matchObject(t, once.body.error, { code: "INVALID_HEARTBEAT", field: "/check/schedule/cron" });
  t.notOk(once.body.error.details?.errors?.length > 1, "one fault is said once");
  await refused(create({ regions: ["eu"] }), 422, "NOT_PROBED");
  await refused(create({ region_policy: "all" }), 422, "NOT_PROBED");
  await refused(ask("PUT", `/api/v1/targets/${job.id}/regions`, { regions: ["eu"] }), 422, "NOT_PROBED");
  await refused(ask("POST", `/api/v1/targets/${job.id}/check-now`), 422, "NOT_PROBED");
  await refused(ask("POST", "/api/v1/targets/test", { type: "heartbeat", period: hour }), 422, "NOT_PROBED");
  await refused(
    ask("PATCH", `/api/v1/targets/${job.id}`, {
      check: { schedule: { cron: "61 * * * *", timezone: "UTC" }, period: null },
    }),
    400,
    "INVALID_HEARTBEAT",
    "/check/schedule/cron",
  );
  matchObject(
    t,
    await ask("POST", "/api/v1/targets/bulk-action", { ids: [job.id], action: { type: "interval_set", interval: 60 } }),
    { body: { succeeded: [], failed: [{ code: "NOT_PROBED" }] } },
  );
  const stranger = asking(anybody, await signedIn(await newOrg(system)));
  for (const path of ["heartbeat", "heartbeat/pings"])
    t.equal((await stranger("GET", `/api/v1/targets/${job.id}/${path}`)).status, 404);
  t.equal((await stranger("POST", `/api/v1/targets/${job.id}/heartbeat/rotate`)).status, 404);
  clock.advance(minute);
  const guesses: number[] = [];
  for (let n = 0; n < 61; n++) guesses.push((await create(address("kuma", "OnlyOnceToken"))).status);
  t.strictSame(guesses, [...Array.from({ length: 60 }, () => 409), 429], "counted like failed sign-ins");
  matchObject(t, await create(address("kuma", "NobodyHasThis")), { status: 429 }, "a guesser cannot tell a free one");
  t.equal((await ask("GET", `/api/v1/targets/${job.id}`)).status, 200);
  clock.advance(minute);
  t.equal((await create(address("kuma", "NobodyHasThis"))).status, 201);
});

t.test("a flood is answered 429, keeps the job alive and stores nothing", async (t) => {
  const job = await make({ period: 10 * second });
  const answers = [];
  for (let n = 0; n < 70; n++) answers.push((await ping(job)).status);
  t.equal(answers.filter((status) => status === 200).length, 60);
  t.equal(answers.filter((status) => status === 429).length, 10);
  const [stored] = await sql<{ count: number }[]>`
    select count(*)::int as count from heartbeat_pings where target_id = ${job.id}`;
  t.equal(stored!.count, 60);
  const alive = async () => (await heartbeat(job)).down_at;
  clock.advance(500);
  t.equal((await ping(job)).status, 200, "two more a half second later");
  for (let n = 0; n < 5; n++) await ping(job);
  await until(async () => (await alive()) === new Date(clock.at + 10 * second + minute).toISOString(), "it counts");
  t.equal(log.lines.filter(({ message }) => message.startsWith("a job sends more")).length, 1);
});

t.test("unknown addresses: looked up once, then the visitor is limited; known jobs of it are not", async (t) => {
  clock.advance(20 * day);
  const job = await make();
  const quiet = await make();
  await ping(job);
  const statuses: number[] = [];
  for (let n = 0; n < 70; n++) statuses.push((await anybody("GET", `/hb/unknown-${n % 65}`)).status);
  t.equal(statuses.filter((status) => status === 404).length, 60);
  t.equal(statuses.at(-1), 429);
  t.equal((await ping(job)).status, 200);
  t.equal((await ping(quiet)).status, 200, "also its first ping in this process");
  clock.advance(minute + second);
  t.equal((await anybody("GET", "/hb/unknown-again")).status, 404);
  const statements: number[] = [];
  const known = hashOf("own", new URL(`http://x${quiet.path}`).pathname.slice("/hb/".length));
  const lookUp = openLookups(async (hashes) => {
    statements.push(hashes.length);
    return new Set((await selectAddressed(sql, hashes, new Date(clock.at))).keys());
  });
  const flood = Array.from({ length: 3000 }, (_, n) => lookUp(hashOf("own", `flood-${n}`), `visitor-${n % 3}`));
  t.equal(flood.filter((one) => one === null).length, 1499, "a visitor has 500 in the queue at most");
  t.equal(await lookUp(known, "another visitor"), true);
  t.same([...new Set(await Promise.all(flood))], [false, null]);
  t.ok(statements.length <= 5, `1,502 addresses in ${statements.length} statements`);
});

t.test("uptime is by time, not by pings, and every place says the same to the digit", async (t) => {
  const job = await make();
  const began = clock.at;
  const shownAt = async () => {
    const api = async (days: number) =>
      (await ask("GET", `/api/v1/targets/${job.id}/uptime?from=${new Date(clock.at - days * day).toISOString()}`)).body;
    const share = (await ask("POST", `/api/v1/targets/${job.id}/shares`, { label: "Customer" })).body;
    const { body: shared } = await anybody("GET", `${new URL(share.url).pathname}/live`);
    const [list, monitor, pagePreview] = await Promise.all([
      ask("GET", "/monitors?q=Backup&per_page=100"),
      ask("GET", `/monitors/${job.id}?range=24h`),
      ask("GET", `/status-pages/${page.id}/preview`),
    ]);
    const row = list.text.slice(list.text.indexOf(`/monitors/${job.id}`)).split("</tr>")[0]!;
    const percents = (text: string) =>
      [...text.matchAll(/(\d+(?:\.\d+)?)(?:\u00a0| )?%/g)].map(([, number]) => number!);
    return {
      day: (await api(1)).uptime_pct as number,
      quarter: (await api(90)).uptime_pct as number,
      total: (await api(1)).total as number,
      share: [shared.uptime_24h_pct, shared.uptime_30d_pct] as number[],
      list: percents(row),
      monitor: percents(monitor.text.slice(monitor.text.indexOf("Uptime 24"), monitor.text.indexOf("Uptime 24") + 200)),
      page: percents(pagePreview.text),
    };
  };
  const { body: page } = await ask("POST", "/api/v1/status-pages", { slug: "by-time", name: "By time", enabled: true });
  t.equal((await ask("POST", `/api/v1/status-pages/${page.id}/components`, { target_id: job.id })).status, 201);
  matchObject(
    t,
    await shownAt(),
    { day: 100, total: 0, share: [null, null], list: [], monitor: [] },
    "nothing was expected",
  );
  // Reports pile up while it works, and none comes while it does not.
  for (let n = 0; n < 40; n++) {
    await ping(job);
    clock.advance(second);
  }
  const lastAt = clock.at - second;
  for (let waited = 0; waited < 5; waited++) await pass(hour);
  await ping(job);
  await pass(30 * minute);
  // Down from due + grace of the last ping to the next success.
  const downMs = began + 40 * second + 5 * hour - (lastAt + hour + minute);
  const wanted = Math.floor((100 - (100 * downMs) / (clock.at - began)) * 10_000) / 10_000;
  const seen = await shownAt();
  t.same(
    [seen.day, seen.quarter, ...seen.share],
    [wanted, wanted, wanted, wanted],
    `${wanted} in the API, for any range that holds its life, and behind a shared link`,
  );
  const shortly = String(wanted).slice(0, 4);
  for (const place of ["list", "monitor", "page"] as const)
    t.ok(
      seen[place].some((number) => number.startsWith(shortly)),
      `${place}: ${seen[place].join(" ")} has ${shortly}`,
    );
  const steady = await make({ period: day });
  await ping(steady);
  clock.advance(second);
  const { text: sorted } = await ask("GET", "/monitors?sort=uptime&order=asc&per_page=100");
  const placeIn = ({ id }: Made) => sorted.indexOf(`/monitors/${id}`);
  t.ok(placeIn(job) > 0 && placeIn(job) < placeIn(steady), "the list sorts by it");
  clock.advance(-second);
  const beats = await readBeats(ctx, job.id, "hours", 3600);
  t.equal(beats.filter(({ state }) => state === "down").length, 5, "hours without a report are down");
  t.equal((await readBeats(ctx, job.id, "days", 3600)).at(-1)!.state, "down");
  const pausedAt = clock.at;
  await ask("PATCH", `/api/v1/targets/${job.id}`, { enabled: false });
  clock.advance(10 * hour);
  t.equal((await shownAt()).day, wanted, "a pause is not counted");
  await ask("PATCH", `/api/v1/targets/${job.id}`, { enabled: true });
  await ping(job);
  await pass(30 * minute);
  const [from, to] = [began + 2 * hour, began + 3 * hour].map((at) => new Date(at).toISOString());
  matchObject(t, await ask("GET", `/api/v1/targets/${job.id}/uptime?from=${from}&to=${to}`), {
    body: { total: 1, uptime_pct: 0 },
  });
  const planned = { title: "Move", starts_at: from, ends_at: to, component_ids: [job.id] };
  t.equal((await ask("POST", "/api/v1/maintenance", planned)).status, 201);
  const countedMs = pausedAt - began + 30 * minute - hour;
  const planless = Math.floor((100 - (100 * (downMs - hour)) / countedMs) * 10_000) / 10_000;
  const after = await shownAt();
  t.same([after.quarter, after.share[1]], [planless, planless], "maintenance is left out, as on the page");
  t.ok(after.page.some((number) => number.startsWith(String(planless).slice(0, 4))));
});

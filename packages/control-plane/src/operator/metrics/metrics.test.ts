import { once } from "node:events";
import { readFileSync } from "node:fs";
import { connect } from "node:net";
import t, { type Test } from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { parse } from "yaml";
import { protocolVersion } from "@statusmesh/shared/protocol/agent-protocol";
import { newId } from "@statusmesh/shared/ids";
import { expositionType, openMetricsPort } from "@statusmesh/shared/net/metrics-port";
import { openHub } from "../../platform/db/notify.ts";
import { writeDeliveries } from "../../alerting/deliveries/outbox/outbox.ts";
import { startJobs } from "../../platform/jobs/runner.ts";
import { startDeliverer } from "../../alerting/deliveries/sending/deliverer.ts";
import { openIngest } from "../../monitoring/pipeline/ingest.ts";
import { hour, minute, noon, until } from "../../testing/clock.ts";
import {
  addIncident,
  admit,
  agentResult,
  newTarget,
  openIncident,
  outboxNotice,
  webhookTo,
} from "../../testing/scene.ts";
import { startSink } from "../../testing/sink.ts";
import { serveWhole, withToken } from "../../testing/whole-app.ts";
import { allowPrivate, newAgent, newOrg, openWorld } from "../../testing/world.ts";
import { openMetrics, serveMetrics } from "./metrics.ts";

/** The samples of an exposition: `name{label="value"}` to number. */
const samplesOf = (text: string): Map<string, number> =>
  new Map(
    text
      .split("\n")
      .flatMap((line) =>
        line === "" || line.startsWith("#")
          ? []
          : [[line.slice(0, line.lastIndexOf(" ")), Number(line.slice(line.lastIndexOf(" ") + 1))] as const],
      ),
  );

async function metered(t: Test) {
  const empty = await openWorld(t);
  const world = { ...empty, system: allowPrivate(empty.system) };
  const metrics = openMetrics(world.system, "1.2.3");
  const port = await serveMetrics("127.0.0.1:0", metrics, world.log);
  t.teardown(() => port.stop());
  const scrape = async () => samplesOf(await (await fetch(`${port.url}/metrics`)).text());
  return { ...world, metrics, port, scrape };
}

t.test("the port serves its paths only, to GET and HEAD, and closes idle connections at a stop", async (t) => {
  const port = await openMetricsPort(
    { host: "127.0.0.1", port: 0 },
    {
      "/metrics": async () => ({ type: expositionType, text: "up 1\n" }),
      "/healthz": () => ({ status: 503, type: "text/plain", text: "no\n" }),
      "/broken": () => Promise.reject(new Error("with a secret")),
    },
  );
  t.teardown(() => port.stop());
  const ask = async (path: string, method = "GET") => {
    const answer = await fetch(port.url + path, { method });
    return [answer.status, await answer.text(), answer.headers.get("content-type")];
  };
  t.strictSame(await ask("/metrics"), [200, "up 1\n", "text/plain; version=0.0.4; charset=utf-8"]);
  t.strictSame(await ask("/metrics?name=up"), [200, "up 1\n", expositionType]);
  t.strictSame(await ask("/metrics", "HEAD"), [200, "", expositionType]);
  t.strictSame(await ask("/healthz"), [503, "no\n", "text/plain"]);
  t.equal((await ask("/"))[0], 404);
  t.equal((await ask("/metrics/"))[0], 404);
  t.equal((await ask("/constructor"))[0], 404);
  const post = await fetch(`${port.url}/metrics`, { method: "POST", body: "x" });
  t.strictSame([post.status, post.headers.get("allow")], [405, "GET, HEAD"]);
  t.strictSame(
    (await ask("/broken")).slice(0, 2),
    [500, "The metrics are not available at the moment.\n"],
    "a reply has no text of the error",
  );
  t.equal((await fetch(`${port.url}/metrics`, { headers: { "x-long": "x".repeat(9000) } })).status, 431);

  const idle = connect({ host: "127.0.0.1", port: Number(new URL(port.url).port) });
  await once(idle, "connect");
  const closed = once(idle, "close");
  idle.on("error", () => undefined);
  idle.resume();
  await port.stop();
  await closed;
  await t.rejects(fetch(`${port.url}/metrics`), "nothing listens any more");
});

t.test("requests are counted by declared route, and no input of a visitor becomes a label", async (t) => {
  const { system, metrics, scrape, clock, log, ...world } = await metered(t);
  const ctx = await newOrg(system);
  const ask = await serveWhole(t, { ...world, system, clock, log }, system, { onReply: metrics.request });
  const token = await withToken(ctx);
  const made = await ask(
    "POST",
    "/api/v1/targets",
    { name: "Shop", check: { type: "tcp", host: "shop.example.org", port: 443 }, interval: 60 },
    token,
  );
  const { id } = made.body as { id: string };
  for (const path of [
    `/api/v1/targets/${id}`,
    `/api/v1/targets/${newId()}`,
    "/api/v1/targets",
    "/status",
    "/healthz",
    "/assets/favicon.svg",
  ])
    await ask("GET", path, undefined, token);
  await ask("DELETE", `/api/v1/targets/${id}`, undefined, token);
  const count = (route: string, method: string, status: string) =>
    `statusmesh_http_request_duration_seconds_count{route="${route}",method="${method}",status="${status}"}`;
  const samples = await scrape();
  const counts = (pairs: readonly (readonly [string, string, string])[]) =>
    pairs.map(([route, method, status]) => samples.get(count(route, method, status)));
  t.strictSame(
    counts([
      ["/api/v1/targets/{id}", "GET", "2xx"],
      ["/api/v1/targets/{id}", "GET", "4xx"],
      ["/api/v1/targets", "GET", "2xx"],
      ["/status", "GET", "4xx"],
      ["/healthz", "GET", "2xx"],
      ["/assets/{file}", "GET", "2xx"],
      ["/api/v1/targets/{id}", "DELETE", "2xx"],
    ]),
    [1, 1, 1, 1, 1, 1, 1],
  );
  const series = (all: Map<string, number>) =>
    [...all.keys()].filter((name) => name.startsWith("statusmesh_http_request_duration_seconds_count")).length;
  const before = series(samples);
  for (let i = 0; i < 40; i++) await ask(i % 2 === 0 ? "GET" : "PROPFIND", `/${newId()}/${i}`);
  const after = await scrape();
  t.equal(after.get(count("none", "GET", "4xx")), 20);
  t.equal(after.get(count("none", "other", "4xx")), 20);
  t.equal(series(after) - before, 2, "forty different paths make two more series");
  t.notOk(
    [...after.keys()].some((name) => name.includes(ctx.orgId) || name.includes(id)),
    "no id is in a name",
  );
});

t.test("ingest: every result is in one of the counts, and a full queue is seen", async (t) => {
  const { system, metrics, scrape, clock } = await metered(t);
  const ctx = await newOrg(system);
  const agent = await newAgent(system, "eu");
  const id = await newTarget(ctx);
  await ctx.sql`insert into target_regions (target_id, region_id) values (${id}, 'eu')`;
  await ctx.sql`
    insert into target_states (target_id, state, status) values (${id}, '', 'unknown') on conflict do nothing`;
  const ingest = openIngest(async () => {}, metrics.batch);
  metrics.watchQueue(ingest.load);
  const now = clock.now();
  const batch = [
    agentResult(id, now - 1000),
    agentResult(id, now - 1000),
    agentResult(id, now - 2000),
    agentResult(newId(), now),
    agentResult(id, now + hour),
  ];
  await admit(system, "eu", batch);
  const offGrid = agentResult(id, now - 3000);
  await ingest(agent, { protocol: protocolVersion, results: [...batch, offGrid], runs: [] });
  await t.rejects(
    ingest(
      { ...agent, sql: { begin: () => Promise.reject(new Error("gone")) } as never },
      { protocol: protocolVersion, results: batch, runs: [] },
    ),
  );
  const samples = await scrape();
  const of = (name: string) => samples.get(`statusmesh_ingest_${name}`);
  t.strictSame(
    ["stored", "duplicate", "unassigned", "untimely", "off_schedule"].map((outcome) =>
      of(`results_total{outcome="${outcome}"}`),
    ),
    [2, 1, 1, 1, 1],
  );
  t.strictSame(
    ["stored", "busy", "failed"].map((outcome) => of(`batches_total{outcome="${outcome}"}`)),
    [1, 0, 1],
  );
  t.equal(of("batch_duration_seconds_count"), 1);
  t.equal(of("queued_results"), 0);
});

t.test("jobs: when each last succeeded, and how often it failed", async (t) => {
  const { system, metrics, scrape, clock } = await metered(t);
  let turns = 0;
  const good = {
    name: "good",
    everyMs: 1,
    run: async () => {
      turns++;
      clock.advance(250);
    },
  };
  const bad = { name: "bad", everyMs: 3_600_000, run: () => Promise.reject(new Error("no")) };
  const jobs = startJobs(system, [good, bad], metrics.job);
  t.teardown(() => jobs.stop());
  const failed = () =>
    scrape().then((samples) => samples.get('statusmesh_job_runs_total{name="bad",outcome="failed"}') === 1);
  await until(async () => turns > 0 && (await failed()), "both have run");
  await jobs.stop();
  const samples = await scrape();
  t.equal(samples.get('statusmesh_job_runs_total{name="good",outcome="ok"}'), turns);
  t.equal(samples.get('statusmesh_job_last_success_timestamp_seconds{name="good"}'), clock.now() / 1000);
  t.equal(samples.get('statusmesh_job_last_duration_seconds{name="good"}'), 0.25);
  t.notOk(
    samples.has('statusmesh_job_last_success_timestamp_seconds{name="bad"}'),
    "a job that never succeeded has no time of success",
  );
});

t.test("deliveries: attempts by kind and outcome", async (t) => {
  const { system, metrics, scrape, sql, log } = await metered(t);
  const sink = await startSink(
    t,
    (request, reply) =>
      void reply.writeHead(request.path === "/yes" ? 200 : request.path === "/later" ? 500 : 410).end(),
  );
  const ctx = await newOrg(system);
  const channels = await Promise.all(
    ["/yes", "/later", "/never"].map((path) => webhookTo(ctx, new URL(path, sink.url).href)),
  );
  await writeDeliveries(sql, system.clock.now(), [outboxNotice(ctx, await openIncident(ctx, channels), "opened")]);
  const deliverer = startDeliverer(system, openHub(sql, log), { ca: sink.ca, watch: metrics.attempt });
  t.teardown(() => deliverer.stop());
  const outcomes = ["delivered", "retry", "dead"].map(
    (outcome) => `statusmesh_delivery_attempts_total{kind="webhook",outcome="${outcome}"}`,
  );
  const last = await until(async () => {
    const samples = await scrape();
    return outcomes.every((name) => samples.has(name)) ? samples : null;
  }, "one of each");
  const [delivered, retries, dead] = outcomes.map((name) => last?.get(name));
  t.strictSame([delivered, dead], [1, 1]);
  t.ok(retries! >= 1, `${retries} to be tried again: more on a machine where a request took too long`);
});

t.test("metrics of the instance: outbox, incidents, agents; absent while the database is away", async (t) => {
  const { system, scrape, sql, clock } = await metered(t);
  const [ctx, gone] = [await newOrg(system), await newOrg(system)];
  const [live, ill] = [await newAgent(system, "eu"), await newAgent(system, "us")];
  await newAgent(system, "eu");
  await sql`update agents set last_seen_at = ${new Date(noon)} where id in (${live.agentId}, ${ill.agentId})`;
  await sql`update agents set impaired_since = ${new Date(noon - minute)} where id = ${ill.agentId}`;
  const channel = await webhookTo(ctx, "https://hooks.example.org/");
  const incident = await openIncident(ctx, [channel]);
  await sql`
      insert into target_regions (target_id, region_id)
      values (${incident.targetId}, 'eu'), (${incident.targetId}, 'us')`;
  await addIncident(ctx, await newTarget(ctx, "closed", { enabled: false }), {
    started: noon - hour,
    ended: noon - minute,
  });
  const held = await openIncident(gone, [await webhookTo(gone, "https://hooks.example.org/")]);
  await writeDeliveries(sql, noon - 5 * hour, [outboxNotice(gone, held, "opened")]);
  await sql`update orgs set deleted_at = ${new Date(noon)} where id = ${gone.orgId}`;
  // The second waits for the first, which is tried again in an hour: neither is overdue.
  await writeDeliveries(sql, noon - 10 * minute, [outboxNotice(ctx, incident, "opened")]);
  await sql`update deliveries set next_attempt_at = ${new Date(noon + hour)} where org_id = ${ctx.orgId}`;
  await writeDeliveries(sql, noon - 3 * minute, [outboxNotice(ctx, incident, "reminder")]);

  // Midnight of the 19th and three hours are 34 hours ago.
  await sql`
    insert into pack_progress (first_day, sealed_to, packed_to, packed_at)
    values ('2026-11-18', '2026-11-18', '2026-11-18', ${new Date(noon)})`;
  await sql`
    insert into results_late (target_id, scheduled_at, region, "timestamp", status, skip)
    values (${incident.targetId}, '2026-11-17T12:00Z', 'eu', '2026-11-17T12:00Z', 'up', false),
      (${incident.targetId}, '2026-11-18T12:00Z', 'eu', '2026-11-18T12:00Z', 'up', false)`;

  const values = (samples: Map<string, number>) =>
    Object.fromEntries(
      [...samples]
        .filter(([name]) => /_(?:outbox|incidents_open|targets|agents|regions|operator|packing|database_up)/.test(name))
        .map(([name, value]) => [name.slice("statusmesh_".length), value]),
    );
  const expected = {
    database_up: 1,
    'outbox_pending{kind="webhook"}': 2,
    'outbox_oldest_age_seconds{kind="webhook"}': 600,
    outbox_overdue_seconds: 0,
    'incidents_open{severity="minor"}': 0,
    'incidents_open{severity="major"}': 1,
    'incidents_open{severity="critical"}': 0,
    targets_enabled: 1,
    'agents{state="live"}': 1,
    'agents{state="impaired"}': 1,
    'agents{state="silent"}': 1,
    regions_without_agent: 1,
    operator_notices_open: 0,
    packing_days_waiting: 2,
    packing_overdue_seconds: 34 * 3600,
    packing_mismatches: 0,
    packing_late_results: 1,
  };
  t.strictSame(values(await scrape()), expected);
  t.ok([...(await scrape()).keys()].some((name) => name.startsWith('statusmesh_database_connections{state="')));

  await sql`update deliveries set state = 'delivered' where created_at = ${new Date(noon - 10 * minute)}`;
  t.equal(
    (await scrape()).get("statusmesh_outbox_overdue_seconds"),
    0,
    "asked again within five seconds the database is left alone",
  );
  clock.advance(6000);
  t.equal((await scrape()).get("statusmesh_outbox_overdue_seconds"), 186);
  await sql`update deliveries set leased_until = ${new Date(noon + minute)} where state = 'pending'`;
  clock.advance(6000);
  t.equal((await scrape()).get("statusmesh_outbox_overdue_seconds"), 0, "a leased delivery is not overdue");

  await sql`alter table operator_notices rename to elsewhere`;
  clock.advance(6000);
  t.strictSame(values(await scrape()), { database_up: 0 });
  await sql`alter table elsewhere rename to operator_notices`;
  clock.advance(1000);
  t.equal(Object.keys(values(await scrape())).length, Object.keys(expected).length, "and they are present again");
});

t.test("the example of alerts names only what there is", async (t) => {
  const { metrics } = await metered(t);
  const text = await metrics.text();
  const rules = parse(readFileSync(new URL("../../../../../infra/prometheus/alerts.yml", import.meta.url), "utf8")) as {
    groups: { name: string; rules: { alert: string; expr: string }[] }[];
  };
  const own = rules.groups.find(({ name }) => name === "statusmesh")!.rules;
  t.ok(own.length > 5);
  for (const { alert, expr } of own)
    for (const [name] of expr.matchAll(/statusmesh_\w+/g))
      t.match(text, new RegExp(`^# TYPE ${name.replace(/_count$/, "")} `, "m"), `${alert}: ${name}`);
});

t.test("a port that other machines reach is warned about", async (t) => {
  const { metrics, log } = await metered(t);
  t.notOk(log.lines.some(({ level }) => level === "warn"));
  const open = await serveMetrics("0.0.0.0:0", metrics, log);
  t.teardown(() => open.stop());
  matchObject(
    t,
    log.lines.filter(({ level }) => level === "warn"),
    [{ message: /no authentication/ }],
  );
});

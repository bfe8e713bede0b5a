import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { protocolVersion, type ResultsRequest } from "@statusmesh/shared/protocol/agent-protocol";
import { newId } from "@statusmesh/shared/ids";
import { validate } from "@statusmesh/shared/schema/validate";
import { dropOldRollups } from "../../monitoring/results/rollups/retention.ts";
import type { AgentCtx } from "../../platform/context.ts";
import { openIngest } from "../../monitoring/pipeline/ingest.ts";
import { openLoad, pipelineLoad } from "../../monitoring/pipeline/load.ts";
import { serve } from "../../testing/app.ts";
import { day, hour, minute, noon, second, until } from "../../testing/clock.ts";
import { gatherOrgCounts, uncountDeleted } from "../../monitoring/results/rollups/org-count-queries.ts";
import { countForOrgs } from "../../monitoring/results/rollups/org-counts.ts";
import { addIncident, admit, agentResult, newTarget, setStatus } from "../../testing/scene.ts";
import { newAgent, newOrg, openWorld } from "../../testing/world.ts";
import { TargetCreate } from "../../monitoring/targets/schema.ts";
import { uptime } from "../../monitoring/results/service.ts";
import { bulkAction } from "../../monitoring/targets/bulk/bulk.ts";
import { createTarget } from "../../monitoring/targets/write/service.ts";
import { deleteTarget, listTargets } from "../../monitoring/targets/service.ts";
import { dashboardRoutes } from "./api.ts";
import type { PipelineLoad } from "./service.ts";

const { sql, clock, system } = await openWorld(t);
const eu = await newAgent(system, "eu");
const take = openIngest(async () => {});
/** Takes results of slots that the control plane issued. */
const ingest = Object.assign(
  async (agent: AgentCtx, request: ResultsRequest) => {
    await admit(system, agent.region, request.results);
    return await take(agent, request);
  },
  { load: take.load },
);
let asked = 0;
let load: PipelineLoad = pipelineLoad(ingest);
let caller = await newOrg(system);
const ask = await serve(
  t,
  system,
  dashboardRoutes(async (ctx) => {
    asked++;
    return await load(ctx);
  }),
  { tenant: () => caller },
);
const path = "/api/v1/dashboard/summary";
const summary = async () => (await ask("GET", path)).body;

t.beforeEach(async () => {
  clock.at = noon;
  caller = await newOrg(system);
  load = pipelineLoad(ingest);
  asked = 0;
});

const nothing = {
  targets: { total: 0, enabled: 0, disabled: 0 },
  current_status: { up: 0, down: 0, degraded: 0, error: 0, unknown: 0 },
  last_24h: { checks_total: 0, checks_up: 0, uptime_pct: 100, incidents: 0 },
  system: { in_flight_checks: 0, result_queue_depth: 0, dropped_results_last_5m: 0, circuit_breakers_open: 0 },
};

t.test("an organisation without anything, and one with", async (t) => {
  const answer = await ask("GET", path);
  t.equal(answer.headers.get("cache-control"), "private, max-age=5");
  t.strictSame(answer.body, nothing);

  const ctx = (caller = await newOrg(system));
  const stranger = await newOrg(system);
  for (const [status, live] of [
    ["up", true],
    ["up", true],
    ["down", true],
    ["degraded", true],
    ["error", true],
    ["up", false],
  ] as const)
    await setStatus(system, await newTarget(ctx), status, live);
  await setStatus(system, await newTarget(ctx, "Paused", { enabled: false }), "down");
  await setStatus(system, await newTarget(stranger), "down");
  const id = await newTarget(ctx);
  await setStatus(system, id, "up");
  await countForOrgs(
    sql,
    [
      { target_id: ctx.orgId, timestamp: noon - minute, status: "up" },
      { target_id: ctx.orgId, timestamp: noon - hour, status: "up" },
      { target_id: ctx.orgId, timestamp: noon - 2 * hour, status: "degraded" },
      { target_id: ctx.orgId, timestamp: noon - 3 * hour, status: "down" },
      { target_id: ctx.orgId, timestamp: noon - 3 * hour - minute, status: "error" },
      { target_id: ctx.orgId, timestamp: noon - 24 * hour - minute, status: "down" },
      { target_id: stranger.orgId, timestamp: noon - minute, status: "down" },
    ],
    (orgId) => orgId,
    noon,
  );
  await addIncident(ctx, id, { started: noon - hour });
  await addIncident(ctx, id, { started: noon - 2 * hour, ended: noon - hour });
  await addIncident(ctx, id, { started: noon - 2 * hour, ended: noon - hour, retracted: true });
  await addIncident(ctx, id, { started: noon - day - minute, ended: noon - hour });
  await addIncident(stranger, await newTarget(stranger), { started: noon - hour });
  t.strictSame(await summary(), {
    ...nothing,
    targets: { total: 8, enabled: 7, disabled: 1 },
    current_status: { up: 3, down: 1, degraded: 1, error: 1, unknown: 1 },
    last_24h: { checks_total: 5, checks_up: 3, uptime_pct: 60, incidents: 2 },
  });
});

t.test(
  "runs of the last day are counted as they come in: once each, late ones too, and the same after they are gathered",
  async (t) => {
    const id = (
      await createTarget(
        caller,
        validate(TargetCreate, { name: "counted", check: { type: "http", url: "https://counted.example.org/" } }),
      )
    ).id;
    const us = await newAgent(system, "us");
    const batch = (results: ReturnType<typeof agentResult>[]) => ({ protocol: protocolVersion, results, runs: [] });
    const first = batch([
      agentResult(id, noon),
      agentResult(id, noon - minute, { status: "down" }),
      agentResult(id, noon - 2 * minute, { status: "error", skip: true }),
    ]);
    await ingest(eu, first);
    await ingest(eu, first);
    await ingest(
      us,
      batch([
        agentResult(id, noon),
        agentResult(id, noon - 5 * hour, { status: "degraded" }),
        agentResult(id, noon - 24 * hour + minute),
        agentResult(id, noon - 24 * hour - second),
      ]),
    );
    const expected = { checks_total: 5, checks_up: 4, uptime_pct: 80 };
    matchObject(t, (await summary()).last_24h, expected);
    await Promise.all([gatherOrgCounts(sql), gatherOrgCounts(sql)]);
    t.equal((await sql`select 1 from org_hours_new`).length, 0);
    clock.advance(6 * second);
    matchObject(t, (await summary()).last_24h, expected);
    await ingest(us, batch([agentResult(id, noon + 1), agentResult(id, noon - 5 * hour - 1)]));
    await gatherOrgCounts(sql);
    clock.advance(6 * second);
    matchObject(
      t,
      (await summary()).last_24h,
      { checks_total: 7, checks_up: 6 },
      "what comes later is added to the hours that are there",
    );
    clock.at = noon + 20 * hour;
    await dropOldRollups(system);
    matchObject(t, (await summary()).last_24h, { checks_total: 4, checks_up: 3 }, "hours leave the day");
    for (const table of ["org_hours", "org_seconds"])
      t.equal((await sql`select 1 from ${sql(table)} where org_id = ${caller.orgId}`).length, 2, "and the table");
  },
);

t.test("the last 24 hours are exact to the second, of monitors that exist, and the same as their uptime", async (t) => {
  const ctx = caller;
  const monitor = async (name: string) =>
    (
      await createTarget(
        ctx,
        validate(TargetCreate, { name, check: { type: "tcp", host: `${name}.example.org`, port: 1 } }),
      )
    ).id;
  const [kept, gone, bulk] = [await monitor("kept"), await monitor("gone"), await monitor("bulk")];
  // A run every 97 s around both edges and every hour between; the time of the run counts, not its slot.
  const times = [-1500, -1400, -1441, -1440, -1439, -700, -60, -1].map((ago) => noon + ago * minute + 30 * second);
  for (const id of [kept, gone, bulk])
    await ingest(eu, {
      protocol: protocolVersion,
      results: times.map((at, n) =>
        agentResult(id, at - 20 * second, {
          timestamp: at,
          status: (["up", "degraded", "down", "error"] as const)[n % 4]!,
        }),
      ),
      runs: [],
    });
  const agrees = async (at: number, what: string) => {
    clock.at = at;
    const { checks_total, checks_up, uptime_pct } = (await summary()).last_24h;
    let [total, up] = [0, 0];
    for (const { id } of (await listTargets(ctx, { limit: 10, offset: 0 })).items) {
      const own = await uptime(ctx, id, {});
      total += own.total;
      up += own.up + own.degraded;
    }
    t.strictSame({ checks_total, checks_up }, { checks_total: total, checks_up: up }, what);
    t.equal(uptime_pct, total === 0 ? 100 : (100 * up) / total, "one definition of up");
    return total;
  };
  // 29, 30 and 31 s after the minute: the run at the edge leaves when it is a day old.
  t.equal(await agrees(noon + 29 * second, "before the edge"), 18);
  t.equal(await agrees(noon + 35 * second, "a run leaves"), 15);
  await gatherOrgCounts(sql);
  t.equal(await agrees(noon + 41 * second, "gathered"), 15);
  await deleteTarget(ctx, gone);
  t.equal(await agrees(noon + 47 * second, "a deleted monitor counts no more, at once"), 10);
  await bulkAction(ctx, { ids: [bulk], action: { type: "delete" } });
  t.equal(await agrees(noon + 53 * second, "nor one deleted in bulk"), 5);
  await Promise.all([uncountDeleted(sql, clock.now()), uncountDeleted(sql, clock.now())]);
  t.equal(await agrees(noon + minute, "the job takes them out once"), 5);
  await gatherOrgCounts(sql);
  for (const after of [2 * minute, 40 * minute, 41 * minute, 3 * hour, 12 * hour, 13 * hour, 23 * hour, 25 * hour]) {
    await agrees(noon + after, `${after / minute} minutes later`);
    await dropOldRollups(system);
  }
});

t.test(
  "what is at work: runs that nobody has answered, results on their way, results dropped, breakers open",
  async (t) => {
    const ctx = caller;
    const run = (orgId: string, age: number, reply: object | null) =>
      sql`
        insert into on_demand_runs (id, org_id, region_id, spec, requested_at, reply)
        values
          (${newId()}, ${orgId}, 'eu', '{}', ${new Date(noon - age)},
            ${reply === null ? null : sql.json(reply as never)})`;
    await Promise.all([
      run(ctx.orgId, second, null),
      run(ctx.orgId, 30 * second, null),
      run(ctx.orgId, second, { status: "up" }),
      run(ctx.orgId, 3 * minute, null),
      run((await newOrg(system)).orgId, second, null),
    ]);

    const create = async (url: string) =>
      (await createTarget(ctx, validate(TargetCreate, { name: url, check: { type: "http", url } }))).id;
    for (const url of [
      "https://a.example.org/1",
      "https://a.example.org/2",
      "http://a.example.org/",
      "https://b.example.org/",
    ]) {
      const id = await create(url);
      await sql`
        update target_states set status = 'error', status_until = ${new Date(noon + minute)}, circuit_open = true
        where target_id = ${id}`;
    }
    await sql`
      update target_states set status_until = ${new Date(noon - 1)}
      where target_id = ${await create("https://stale.example.org/")}`;

    const id = await create("https://c.example.org/");
    const results = [
      agentResult(id, noon),
      agentResult(id, noon + hour),
      agentResult(newId(), noon),
      agentResult(newId(), noon),
    ];
    await ingest(eu, { protocol: protocolVersion, results, runs: [] });
    t.strictSame((await summary()).system, {
      in_flight_checks: 2,
      result_queue_depth: 0,
      dropped_results_last_5m: 3,
      circuit_breakers_open: 3,
    });

    // A lock on the evidence of the target blocks the next batch.
    await sql
      .begin(async (held) => {
        await held`select 1 from target_states where target_id = ${id} for update`;
        const waiting = ingest(eu, {
          protocol: protocolVersion,
          results: [agentResult(id, noon - minute), agentResult(id, noon - 2 * minute)],
          runs: [],
        });
        clock.advance(6 * second);
        await until(() => ingest.load.queued > 0, "the batch to be taken");
        t.equal((await summary()).system.result_queue_depth, 2);
        await held`select 1`;
        return [waiting];
      })
      .then(async ([waiting]) => await waiting);
    t.equal(ingest.load.queued, 0);
    await t.rejects(
      ingest(eu, { protocol: protocolVersion, results: [agentResult(id, noon, { error: "\0" })], runs: [] }),
    );
    t.equal(ingest.load.queued, 0, "a batch that fails is not on its way either");
  },
);

t.test("drops are remembered for five minutes", async (t) => {
  const own = openLoad();
  own.drop(3, noon);
  own.drop(0, noon + second);
  own.drop(4, noon + 2 * minute);
  t.strictSame(
    [noon, noon + 2 * minute, noon + 5 * minute - 1, noon + 5 * minute, noon + 7 * minute].map((now) =>
      own.droppedLately(now),
    ),
    [7, 7, 7, 4, 0],
  );
});

t.test(
  "a summary is kept for 5 s per organisation, computed once for a crowd, and not kept when it fails",
  async (t) => {
    const [first, other] = [caller, await newOrg(system)];
    const answers = await Promise.all(Array.from({ length: 20 }, summary));
    t.equal(asked, 1);
    t.ok(answers.every((answer) => JSON.stringify(answer) === JSON.stringify(answers[0])));
    await setStatus(system, await newTarget(first), "up");
    clock.advance(5 * second);
    matchObject(t, (await summary()).targets, { total: 0 });
    clock.advance(1);
    matchObject(t, (await summary()).targets, { total: 1 });
    caller = other;
    matchObject(t, (await summary()).targets, { total: 0 }, "another organisation has its own");
    t.equal(asked, 3);

    caller = await newOrg(system);
    load = async () => {
      throw new Error("the database is away");
    };
    matchObject(t, await ask("GET", path), { status: 500, body: { error: { code: "INTERNAL" } } });
    load = pipelineLoad(ingest);
    t.equal((await ask("GET", path)).status, 200);
    caller = { ...caller, scopes: new Set(["incidents:read"]) };
    matchObject(
      t,
      await ask("GET", path),
      { status: 403, body: { error: { code: "INSUFFICIENT_SCOPE" } } },
      "also from the cache",
    );
  },
);

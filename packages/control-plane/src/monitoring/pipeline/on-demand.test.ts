import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { type Abilities, allAbilities } from "@statusmesh/shared/checks/abilities";
import { protocolVersion, type RunReply } from "@statusmesh/shared/protocol/agent-protocol";
import type { CheckSpec, ProbedSpec } from "@statusmesh/shared/checks";
import { newId } from "@statusmesh/shared/ids";
import { agentLeaves, agentPulls, agentSeen } from "../agents/service.ts";
import { ensureBuiltInAgent } from "../agents/registration/service.ts";
import type { AgentCtx, Ctx } from "../../platform/context.ts";
import { makeSealer } from "../../platform/crypto/seal.ts";
import { type Hub, openHub } from "../../platform/db/notify.ts";
import { isOnGrid } from "@statusmesh/shared/schedule";
import { validate } from "@statusmesh/shared/schema/validate";
import { Check, type TargetPatch } from "../targets/schema.ts";
import { createTarget, updateTarget } from "../targets/write/service.ts";
import { serve } from "../../testing/app.ts";
import { minute, second, until } from "../../testing/clock.ts";
import { agentResult } from "../../testing/scene.ts";
import { newAgent, newOrg, openWorld, refusal } from "../../testing/world.ts";
import { pipelineRoutes } from "./api.ts";
import { pull } from "./assign.ts";
import { openIngest } from "./ingest.ts";
import { claimRuns, recordRunReplies, runOnDemand, sweepRuns } from "./on-demand.ts";

const { sql, pool, clock, log, system } = await openWorld(t);
const hub = openHub(sql, log);
const elsewhere = openHub(pool(), log);
const ctx = await newOrg(system);
const [eu, twin, us] = [await newAgent(system, "eu"), await newAgent(system, "eu"), await newAgent(system, "us")];

const spec = validate(Check, {
  type: "http",
  url: "https://example.org/",
  timeout: 2000,
  expected_status: { kind: "exact", value: 200 },
  bearer_token: "SECRET",
}) as ProbedSpec;
const replyTo = (run_id: string, changes: Partial<RunReply> = {}): RunReply => ({
  run_id,
  timestamp: clock.now(),
  matched_expectations: true,
  warnings: ["the certificate ends in 9 days"],
  status: "up",
  error: null,
  http_status: 200,
  response_size: 512,
  dns_ms: 1,
  connect_ms: 2,
  tls_ms: 3,
  ttfb_ms: 4,
  total_ms: 10,
  ...changes,
});
const run = (regions: readonly string[], changes: { targetId?: string } = {}, at = hub) =>
  runOnDemand(ctx, at, { spec, targetId: null, regions, ...changes });
const waiting = async () => [
  ...(await sql<
    { id: string; spec: string; claimed_by: string | null }[]
  >`select id, spec::text as spec, claimed_by from on_demand_runs order by requested_at, id`),
];
const waits = (count = 1) => until(async () => (await waiting()).length === count, "the run in the table");
const pulls = (agent: AgentCtx) => agentPulls(agent, { version: "1.0.0", kinds: allAbilities, impairedSince: null });
const awake = () => Promise.all([eu, twin, us].map((agent) => pulls(agent)));

t.beforeEach(awake);

t.test(
  "a run is claimed once, its secrets are sealed while it waits, and its reply wakes the caller on any replica",
  async (t) => {
    const asked = run(["eu"]);
    await waits();
    const [row] = await waiting();
    t.match(row!.spec, /sealed:1:/);
    t.notMatch(row!.spec, /SECRET/);
    t.strictSame(await claimRuns(us, 10, allAbilities), [], "another region cannot claim it");
    const claims = await Promise.all(
      [eu, twin, eu, twin, eu, twin].map(async (agent) => ({ agent, runs: await claimRuns(agent, 10, allAbilities) })),
    );
    const winners = claims.filter(({ runs }) => runs.length > 0);
    matchObject(t, winners, [
      { runs: [{ run_id: row!.id, org_id: ctx.orgId, target_id: null, scheduled_at: clock.now(), check: spec }] },
    ]);
    t.equal(winners.length, 1);
    const winner = winners[0]!.agent;
    const loser = winner === eu ? twin : eu;
    await recordRunReplies(loser, [replyTo(row!.id, { status: "down" })]);
    await recordRunReplies(winner, [replyTo(newId()), replyTo(row!.id), replyTo(row!.id, { status: "down" })]);
    t.strictSame(await asked, { ...replyTo(row!.id), region: "eu" }, "the first reply of the agent that claimed it");
    await recordRunReplies(winner, [replyTo(row!.id)]);

    const other = run(["eu"], {}, elsewhere);
    await waits();
    const [taken] = await claimRuns(eu, 1, allAbilities);
    await recordRunReplies(eu, [replyTo(taken!.run_id, { matched_expectations: false })]);
    matchObject(t, await other, { matched_expectations: false });
    t.strictSame(await waiting(), [], "nothing is left in the table");
  },
);

t.test("the oldest runs are claimed first, up to the capacity of the agent, and none without a caller", async (t) => {
  const first = run(["eu"]);
  await waits();
  clock.advance(second);
  const rest = [run(["eu"]), run(["eu"])];
  await waits(3);
  const [oldest] = await waiting();
  const one = await claimRuns(eu, 1, allAbilities);
  t.equal(one[0]?.run_id, oldest!.id);
  clock.advance(minute);
  t.strictSame(await claimRuns(eu, 10, allAbilities), []);
  const refusals = Promise.all([first, ...rest].map((asked) => refusal(t, () => asked)));
  await sql.notify("sm_runs_done", "");
  matchObject(t, await refusals, [{ code: "PROBE_BUSY" }, { code: "PROBE_BUSY" }, { code: "PROBE_BUSY" }]);
  t.strictSame(await waiting(), [], "nothing is left in the table");
});

t.test(
  "the first region with an agent runs it; PROBE_UNAVAILABLE without one, PROBE_BUSY without a reply",
  async (t) => {
    clock.advance(minute);
    await agentSeen(us);
    const asked = run(["eu", "us"]);
    await waits();
    const [taken] = await claimRuns(us, 1, allAbilities);
    await recordRunReplies(us, [replyTo(taken!.run_id)]);
    matchObject(t, await asked, { region: "us" });
    matchObject(t, await refusal(t, () => run(["eu"])), {
      code: "PROBE_UNAVAILABLE",
      message: /No agent serves eu\./,
      retryAfterSecs: 10,
    });
    matchObject(t, await refusal(t, () => run([])), {
      code: "PROBE_UNAVAILABLE",
      message: /probed from no enabled region/,
    });

    const unanswered = refusal(t, () => run(["us"]));
    await waits();
    clock.advance(2 * spec.timeout + 5 * second - 1);
    await sql.notify("sm_runs_done", "");
    const [still] = await claimRuns(us, 1, allAbilities);
    t.ok(still, "the caller waits until the limit");
    clock.advance(1);
    await sql.notify("sm_runs_done", "");
    matchObject(t, await unanswered, { code: "PROBE_BUSY", message: /region us/, retryAfterSecs: 5 });

    const busy = refusal(t, () => run(["us"]));
    await waits();
    const [held] = await claimRuns(us, 1, allAbilities);
    const error = "the agent had no capacity for this run within 2 s";
    await recordRunReplies(us, [replyTo(held!.run_id, { busy: true, status: "error", error })]);
    matchObject(
      t,
      await busy,
      { code: "PROBE_BUSY", message: /^The agent had no capacity .* Nothing was checked\./, retryAfterSecs: 5 },
      "a run that found no place is not a verdict",
    );
    t.strictSame(await waiting(), [], "nothing is left in the table");
  },
);

/** A hub, and the number of times that a caller has waited for an agent on it. */
function watched(hub: Hub): Hub & { waits: number } {
  const watching = {
    ...hub,
    waits: 0,
    wait(...[channel, ...rest]: Parameters<Hub["wait"]>) {
      if (channel === "sm_agents") watching.waits++;
      return hub.wait(channel, ...rest);
    },
  };
  return watching;
}

t.test("runs wait for an agent that restarts, on any replica and without a database connection", async (t) => {
  await Promise.all([agentLeaves(eu), agentLeaves(twin)]);
  const callers = { ...ctx, sql: pool(1) };
  const hubs = [watched(hub), watched(elsewhere)];
  let settled = 0;
  const asked = Array.from({ length: 20 }, (_, n) =>
    runOnDemand(callers, hubs[n % 2]!, { spec, targetId: null, regions: ["eu"] }).finally(() => settled++),
  );
  await until(() => hubs[0]!.waits + hubs[1]!.waits >= 20, "the callers");
  await callers.sql`select 1`;
  t.equal(settled, 0);
  t.strictSame(await waiting(), [], "nothing is stored meanwhile");
  await pulls(eu);
  await waits(20);
  t.ok(hubs[0]!.waits + hubs[1]!.waits <= 20 * 3, "a caller looks again when it is notified only");
  for (const { run_id } of await claimRuns(eu, 100, allAbilities)) await recordRunReplies(eu, [replyTo(run_id)]);
  t.equal(new Set((await Promise.all(asked)).map(({ run_id }) => run_id)).size, 20);
});

t.test(
  "the built-in agent of a control plane that has started is expected for a minute, callers wait 10 s",
  async (t) => {
    const unavailable = { code: "PROBE_UNAVAILABLE", retryAfterSecs: 10 };
    clock.advance(minute);
    matchObject(t, await refusal(t, () => run(["eu"])), {
      ...unavailable,
      message: /^No agent serves eu\. Start sm-agent/,
    });
    const local = { ...system, config: { ...system.config, scheduler: { ...system.config.scheduler, region: "eu" } } };
    await ensureBuiltInAgent(local, "sm_agent_built_in", "built-in");
    const watching = watched(hub);
    const late = refusal(t, () => run(["eu"], {}, watching));
    const looksAgain = async (times: number) => {
      await sql.notify("sm_agents", "");
      await until(() => watching.waits >= times, "a look after the notification");
    };
    await until(() => watching.waits > 0, "the caller");
    clock.advance(10 * second - 1);
    await looksAgain(watching.waits + 1);
    clock.advance(1);
    await sql.notify("sm_agents", "");
    matchObject(t, await late, { ...unavailable, message: /^The agent of eu has not connected yet\./ });

    await ensureBuiltInAgent(local, "sm_agent_built_in", "built-in");
    matchObject(t, await refusal(t, () => run(["us"])), unavailable, "the agent of another region is not waited for");
    clock.advance(minute);
    matchObject(t, await refusal(t, () => run(["eu"])), { ...unavailable, message: /Start sm-agent/ });
    await sql`delete from agents where built_in`;
  },
);

t.test("parallel runs of one target have different slots, on two replicas", async (t) => {
  const { id } = await createTarget(ctx, { name: "Website", check: spec, interval: 10 });
  const asked = Array.from({ length: 40 }, (_, n) => run(["eu"], { targetId: id }, n % 2 === 0 ? hub : elsewhere));
  await waits(40);
  const taken = await claimRuns(eu, 100, allAbilities);
  const slots = new Set(taken.map((one) => one.scheduled_at));
  t.equal(slots.size, 40);
  t.ok(Math.max(...slots) < clock.now() + second && Math.min(...slots) >= clock.now());
  t.notOk(
    [...slots].some((slotMs) => isOnGrid({ targetId: id, region: "eu", intervalsMs: [10_000] }, slotMs)),
    "none is a slot of the schedule",
  );
  const results = taken.map((one) => agentResult(id, one.scheduled_at, { timestamp: clock.now() }));
  const ingest = openIngest(async () => {});
  const { stored } = await ingest(eu, {
    protocol: protocolVersion,
    results,
    runs: taken.map(({ run_id }) => replyTo(run_id)),
  });
  t.equal(stored, 40, "each result is a row");
  t.equal((await Promise.all(asked)).length, 40);
  matchObject(
    t,
    await ingest(us, { protocol: protocolVersion, results, runs: [] }),
    { stored: 0, dropped_off_schedule: 40 },
    "slots are independent of other regions",
  );
  matchObject(t, await refusal(t, () => run(["eu"], { targetId: newId() })), { code: "TARGET_NOT_FOUND" });
});

t.test("a run goes to an agent that can run it; without one the caller hears why, and does not wait", async (t) => {
  const { http: _, ...older } = allAbilities;
  const says = (agent: AgentCtx, kinds: Abilities) =>
    agentPulls(agent, { version: "0.0.9", kinds, impairedSince: null });
  await says(eu, older);
  const asked = run(["eu"]);
  await waits();
  t.strictSame(await claimRuns(eu, 10, older), [], "an agent claims no run that it does not know");
  t.strictSame(await claimRuns(eu, 10, { ...allAbilities, http: { unable: "broken" } }), []);
  const [taken] = await claimRuns(twin, 10, allAbilities);
  await recordRunReplies(twin, [replyTo(taken!.run_id, { skip: true })]);
  matchObject(t, await asked, { region: "eu", skip: true });
  await says(twin, { ...allAbilities, http: { unable: "broken" } });
  matchObject(t, await refusal(t, () => run(["eu"])), {
    code: "PROBE_UNAVAILABLE",
    message:
      "No agent can run this check. eu: sm-agent 0.0.9 does not know HTTP checks: update it; it cannot run HTTP " +
      "checks (broken).",
  });
  const other = run(["eu", "us"]);
  await waits();
  const [there] = await claimRuns(us, 10, allAbilities);
  await recordRunReplies(us, [replyTo(there!.run_id)]);
  matchObject(t, await other, { region: "us" }, "another region can");
  await awake();
});

t.test("a check that names a command goes to an agent that has it, and its test is in the audit log", async (t) => {
  const says = (agent: AgentCtx, kinds: Abilities) =>
    agentPulls(agent, { version: "1.0.0", kinds, impairedSince: null });
  const [with_, without] = [
    { ...allAbilities, exec: { names: ["disk", "load"] } },
    { ...allAbilities, exec: { names: ["load"] } },
  ];
  await Promise.all([
    says(eu, without),
    says(twin, with_),
    says(us, { ...allAbilities, exec: { unable: "exec_no_commands" } }),
  ]);
  const request = await serve(
    t,
    system,
    pipelineRoutes(
      hub,
      openIngest(async () => {}),
      AbortSignal.abort(),
    ),
    { tenant: () => ctx },
  );
  const test = (command: string, query = "") =>
    request("POST", `/api/v1/targets/test${query}`, { type: "exec", command });
  const asked = test("disk");
  await waits();
  t.strictSame(await claimRuns(eu, 10, without), []);
  const [taken] = await claimRuns(twin, 10, with_);
  matchObject(t, taken?.check, { type: "exec", command: "disk" });
  await recordRunReplies(twin, [replyTo(taken!.run_id)]);
  t.equal((await asked).status, 200);
  matchObject(
    t,
    await sql`select action, after, ip from audit_log where action like '%targets/test' and org_id = ${ctx.orgId}`,
    [{ action: "POST /api/v1/targets/test", after: { check: { type: "exec", command: "disk" } }, ip: String }],
  );
  matchObject(t, await test("disk", "?region=nowhere"), { status: 422, body: { error: { code: "REGION_INVALID" } } });
  matchObject(
    t,
    await test("disk", "?region=us"),
    { status: 503, body: { error: { code: "PROBE_UNAVAILABLE", message: /^(?!.*eu:).*us: / } } },
    "of the named region alone",
  );
  matchObject(t, await test("nope"), {
    status: 503,
    body: {
      error: {
        code: "PROBE_UNAVAILABLE",
        message: /eu: the agent's file of commands has no \[nope\].*us: the agent has no file of commands/,
      },
    },
  });
  t.equal((await test("../x")).status, 400, "a key, not a path");
  await awake();
});

t.test("a held pull claims a run of its region at once", async (t) => {
  const request = { protocol: protocolVersion, agent_version: "1.0.0", kinds: allAbilities, capacity: 3 };
  const { cursor } = await pull(eu, hub, { ...request, cursor: null }, AbortSignal.abort());
  const held = pull(eu, hub, { ...request, cursor }, new AbortController().signal);
  await hub.ready();
  const asked = run(["eu"]);
  const { runs, checks } = await held;
  matchObject(t, runs, [{ check: { bearer_token: "SECRET" } }]);
  t.strictSame(checks, []);
  await recordRunReplies(eu, [replyTo(runs[0]!.run_id)]);
  matchObject(t, await asked, { status: "up" });
  t.strictSame(await waiting(), [], "nothing is left in the table");
});

t.test("over HTTP: a test stores nothing, check-now runs the stored check, and both require the scope", async (t) => {
  let caller: Ctx = ctx;
  const stop = new AbortController();
  t.teardown(() => stop.abort());
  const request = await serve(
    t,
    system,
    pipelineRoutes(
      hub,
      openIngest(async () => {}),
      stop.signal,
    ),
    { tenant: () => caller, agent: () => eu },
  );
  const { id } = await createTarget(ctx, { name: "Website", check: spec });
  const answer = async () => {
    await waits();
    const { body } = await request("POST", "/api/agent/pull", {
      protocol: protocolVersion,
      agent_version: "1.0.0",
      kinds: allAbilities,
      cursor: null,
      capacity: 5,
    });
    const [taken] = body.runs as { run_id: string; target_id: string | null; check: CheckSpec }[];
    const stored = await request("POST", "/api/agent/results", {
      protocol: protocolVersion,
      results: [],
      runs: [replyTo(taken!.run_id)],
    });
    matchObject(t, stored, {
      status: 200,
      body: { stored: 0, duplicates: 0, dropped_future: 0, dropped_unassigned: 0 },
    });
    return taken!;
  };
  const [tested, probe] = await Promise.all([request("POST", "/api/v1/targets/test", spec), answer()]);
  matchObject(t, tested, {
    status: 200,
    body: {
      result: { target_id: null, region: "eu", status: "up", total_ms: 10 },
      matched_expectations: true,
      warnings: ["the certificate ends in 9 days"],
    },
  });
  matchObject(t, probe, { target_id: null, check: spec });
  const [checked, again] = await Promise.all([request("POST", `/api/v1/targets/${id}/check-now`), answer()]);
  matchObject(t, checked, {
    status: 200,
    body: { target_id: id, region: "eu", status: "up", timestamp: new Date(clock.now()).toISOString() },
  });
  matchObject(t, again, { target_id: id, check: spec });

  const refused = (status: number, code: string, field: string | null = null) => ({
    status,
    body: { error: { code, field } },
  });
  matchObject(
    t,
    await request("POST", "/api/v1/targets/test", { ...spec, bearer_token: "***" }),
    refused(400, "REDACTION_SENTINEL", "/bearer_token"),
  );
  matchObject(
    t,
    await request("POST", "/api/v1/targets/test", { ...spec, url: "http://127.0.0.1/" }),
    refused(400, "SSRF_BLOCKED", "/url"),
  );
  matchObject(
    t,
    await request("POST", "/api/v1/targets/test", { ...spec, timeout: 1 }),
    refused(400, "INVALID_TIMEOUT", "/timeout"),
  );
  matchObject(t, await request("POST", `/api/v1/targets/${newId()}/check-now`), refused(404, "TARGET_NOT_FOUND"));
  caller = await newOrg(system);
  matchObject(t, await request("POST", `/api/v1/targets/${id}/check-now`), refused(404, "TARGET_NOT_FOUND"));
  caller = { ...ctx, scopes: new Set(["targets:read", "targets:write"]) };
  matchObject(t, await request("POST", `/api/v1/targets/${id}/check-now`), refused(403, "INSUFFICIENT_SCOPE"));
  matchObject(t, await request("POST", "/api/v1/targets/test", spec), refused(403, "INSUFFICIENT_SCOPE"));
  t.strictSame(await waiting(), []);
});

t.test("a monitor of a component that its test did not list is saved with a warning", async (t) => {
  const page = (component: string | null) =>
    validate(Check, { type: "status_page", url: "https://status.example.org", component }) as ProbedSpec;
  const components = ["API", "Web"].map((name, at) => ({ id: `c${at}`, name, state: "up" as const }));
  for (const listed of [[], components]) {
    const asked = runOnDemand(ctx, hub, { spec: page(null), targetId: null, regions: ["eu"] });
    await until(async () => (await waiting()).some(({ claimed_by: by }) => by === null), "the run");
    const [taken] = await claimRuns(eu, 10, allAbilities);
    await recordRunReplies(eu, [replyTo(taken!.run_id, { components: listed })]);
    t.strictSame((await asked).components, listed);
  }
  const saved = async (component: string | null, by = ctx) =>
    await createTarget(by, { name: "Vendor", check: page(component) });
  const said = 'status.example.org has no component "Mail". It has API, Web.';
  const wrong = await saved("Mail");
  t.strictSame(wrong.warnings, [said]);
  t.strictSame((await updateTarget(ctx, wrong.id, { name: "Provider" } as TargetPatch)).warnings, [said]);
  for (const right of ["api", "c1", null]) t.strictSame((await saved(right)).warnings, [], String(right));
  t.strictSame((await saved("Mail", await newOrg(system))).warnings, [], "of another organisation");
  t.equal((await waiting()).length, 1, "the latest test of a page is kept");
  clock.advance(10 * minute + second);
  await sweepRuns(system);
  t.strictSame([(await waiting()).length, (await saved("Mail")).warnings], [0, []]);
});

t.test("a run that this replica cannot open fails with the reason, and those claimed with it run", async (t) => {
  const asked = [
    run(["eu"]),
    runOnDemand({ ...ctx, sealer: makeSealer(Buffer.alloc(32, 9)) }, hub, { spec, targetId: null, regions: ["eu"] }),
  ];
  await waits(2);
  const taken = await claimRuns(eu, 10, allAbilities);
  matchObject(t, taken.map(({ check }) => check.type).sort(), ["http", "withheld"]);
  const lost = taken.find(({ check }) => check.type === "withheld")!;
  matchObject(t, lost.check, { reason: /^this replica cannot open the secrets/ });
  t.notMatch(JSON.stringify(lost), /SECRET|sealed:/);
  await recordRunReplies(
    eu,
    taken.map(({ run_id }) => replyTo(run_id)),
  );
  await Promise.all(asked);
});

import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { allAbilities } from "@statusmesh/shared/checks/abilities";
import { type AgentResult, protocolVersion } from "@statusmesh/shared/protocol/agent-protocol";
import { newId } from "@statusmesh/shared/ids";
import type { AgentCtx, Ctx } from "../../../platform/context.ts";
import { openHub } from "../../../platform/db/notify.ts";
import { validate } from "@statusmesh/shared/schema/validate";
import { explainIncident } from "../../../alerting/incidents/explanation/service.ts";
import { listIncidents } from "../../../alerting/incidents/service.ts";
import { pull } from "../../pipeline/assign.ts";
import { openIngest } from "../../pipeline/ingest.ts";
import { updateRegion } from "../../regions/service.ts";
import { serve } from "../../../testing/app.ts";
import { second } from "../../../testing/clock.ts";
import { admit, agentResult, webhookTo } from "../../../testing/scene.ts";
import { newAgent, newOrg, openWorld } from "../../../testing/world.ts";
import { targetRoutes } from "../api.ts";
import { targetBulkRoutes } from "../bulk/api.ts";
import { TargetCreate } from "../schema.ts";
import { createTarget } from "./service.ts";
import { getMonitor, listMonitors, monitorCounts } from "../list/service.ts";
import { targetToRun } from "../service.ts";

const { sql, clock, log, system } = await openWorld(t);
const [eu, us] = [await newAgent(system, "eu"), await newAgent(system, "us")];
const ingest = openIngest(async () => {});
const send = async (agent: AgentCtx, results: readonly AgentResult[]) => {
  await admit(system, agent.region, results);
  return await ingest(agent, { protocol: protocolVersion, results: [...results], runs: [] });
};

let caller: Ctx = await newOrg(system);
const ask = await serve(t, system, [...targetRoutes, ...targetBulkRoutes], { tenant: () => caller });
const create = async (name: string, changes: object = {}): Promise<string> =>
  (
    await createTarget(
      caller,
      validate(TargetCreate, { name, check: { type: "http", url: `https://example.org/${name}` }, ...changes }),
    )
  ).id;
const openIncidents = async (id: string): Promise<number> =>
  (await listIncidents(caller, { state: "open", target_id: id, limit: 1, offset: 0 })).total;
/** Where the error points to: in `field` for a 400, in the details otherwise. */
const error = (status: number, code: string, pointer: string | null = null) => ({
  status,
  body: {
    error: {
      code,
      field: status === 400 ? pointer : null,
      ...(status === 400 || pointer === null ? {} : { details: { pointer } }),
    },
  },
});

t.beforeEach(async () => {
  caller = await newOrg(system);
});

t.test("the regions of a target: a removed one stops and loses its vote", async (t) => {
  const channel = await webhookTo(caller, "https://hooks.example.org/");
  const id = await create("any", { region_policy: "any", alerts: [{ channel_id: channel }] });
  const counted = await create("counted", { region_policy: { count: 2 } });
  const path = `/api/v1/targets/${id}/regions`;
  const hub = openHub(sql, log);
  const poll = async (agent: AgentCtx, cursor: string | null) =>
    await pull(
      agent,
      hub,
      { protocol: protocolVersion, agent_version: "1.0.0", kinds: allAbilities, cursor, capacity: 0 },
      AbortSignal.abort(),
    );
  const [euKnows, usKnows] = [await poll(eu, null), await poll(us, null)];
  for (const slot of [2, 1]) {
    await send(eu, [agentResult(id, clock.now() - slot * second)]);
    await send(us, [agentResult(id, clock.now() - slot * second, { status: "down" })]);
  }
  t.equal(await openIncidents(id), 1);

  caller = { ...caller, writeSource: "terraform" };
  t.strictSame((await ask("PUT", path, { regions: ["eu"] })).body, { regions: ["eu"] });
  t.strictSame((await ask("GET", path)).body, { regions: ["eu"] });
  matchObject(t, (await ask("GET", `/api/v1/targets/${id}`)).body, { write_source: "terraform" });
  t.equal(await openIncidents(id), 0, "only the region that is gone held it open");
  matchObject(t, await getMonitor(caller, id), { status: "up", regions: [{ region: "eu", vote: "passing" }] });
  t.strictSame(
    (await sql`select reason from deliveries where channel_id = ${channel} order by created_at`).map(
      ({ reason }) => reason,
    ),
    ["opened", "resolved"],
  );
  t.strictSame((await poll(us, usKnows.cursor)).drop, [id], "its agent drops the check");
  t.strictSame(
    (await poll(eu, euKnows.cursor)).checks.map((check) => check.target_id),
    [id],
  );
  matchObject(t, await send(us, [agentResult(id, clock.now(), { status: "down" })]), { dropped_unassigned: 1 });

  t.strictSame(
    (await ask("PUT", path, { regions: ["us", "eu"] })).body,
    { regions: ["eu", "us"] },
    "in the order of their ids",
  );
  matchObject(t, (await poll(us, usKnows.cursor)).checks, [{ target_id: id }]);

  await sql`insert into regions (id, name, enabled, created_at, updated_at) values ('off', 'Off', false, now(), now())`;
  for (const [regions, field] of [
    [[], "/regions"],
    [["eu", "eu"], "/regions"],
    [["eu", "moon"], "/regions/1"],
    [["off"], "/regions/0"],
    [[7], "/regions/0"],
    ["eu", "/regions"],
  ] as const)
    matchObject(t, await ask("PUT", path, { regions }), error(422, "REGION_INVALID", field), JSON.stringify(regions));
  matchObject(
    t,
    await ask("PUT", `/api/v1/targets/${counted}/regions`, { regions: ["eu"] }),
    error(422, "INVALID_REGION_POLICY", "/regions"),
  );
  matchObject(t, await ask("PUT", path, { regions: ["eu"], more: 1 }), error(400, "UNKNOWN_FIELD", "/more"));
  caller = await newOrg(system);
  for (const [method, body] of [["GET"], ["PUT", { regions: ["eu"] }]] as const) {
    for (const other of [id, newId(), "nonsense"])
      matchObject(t, await ask(method, `/api/v1/targets/${other}/regions`, body), error(404, "TARGET_NOT_FOUND"));
  }
});

t.test(
  "a client can send back what it read while a region is disabled; without regions no target is created",
  async (t) => {
    const path = `/api/v1/targets/${await create("kept")}/regions`;
    const post = (name: string) => ({ name, check: { type: "tcp", host: "db.example.org", port: 5432 } });
    await updateRegion(system, "us", { enabled: false });
    const read = (await ask("GET", path)).body;
    matchObject(t, read, { regions: ["eu", "us"] });
    matchObject(t, await ask("PUT", path, read), { status: 200, body: read });
    matchObject(t, await ask("PUT", path, { regions: ["us"] }), { status: 200, body: { regions: ["us"] } });
    matchObject(t, await ask("PUT", path, { regions: ["eu"] }), { status: 200 });
    matchObject(t, await ask("PUT", path, read), error(422, "REGION_INVALID", "/regions/1"), "it cannot be added");

    await updateRegion(system, "eu", { enabled: false });
    for (const [route, body] of [
      ["/api/v1/targets", post("none")],
      ["/api/v1/targets/bulk", [post("none")]],
    ] as const) {
      matchObject(t, await ask("POST", route, body), {
        status: 422,
        body: { error: { code: "REGION_INVALID", message: /^No region is enabled, so nothing would be checked\. / } },
      });
    }
    for (const region of ["eu", "us"]) await updateRegion(system, region, { enabled: true });
    matchObject(t, await ask("POST", "/api/v1/targets", post("some")), { status: 201 });
  },
);

t.test(
  "a disabled region probes nothing, opens and closes nothing, and says so, until it is enabled again",
  async (t) => {
    const id = await create("only", { region_policy: "any", alert_confirmations: 1 });
    const path = `/api/v1/targets/${id}/regions`;
    await ask("PUT", path, { regions: ["eu"] });
    const failing = await create("failing", { region_policy: "any", alert_confirmations: 1 });
    const hub = openHub(sql, log);
    const request = { protocol: protocolVersion, agent_version: "1.0.0", kinds: allAbilities, capacity: 5 };
    const { cursor } = await pull(eu, hub, { ...request, cursor: null }, AbortSignal.abort());
    await send(eu, [agentResult(id, clock.now()), agentResult(failing, clock.now(), { status: "down" })]);
    t.equal(await openIncidents(failing), 1);
    matchObject(t, await getMonitor(caller, id), {
      status: "up",
      probed: true,
      regions: [{ region: "eu", enabled: true }],
    });

    const held = pull(eu, hub, { ...request, cursor }, new AbortController().signal);
    await hub.ready();
    await updateRegion(system, "eu", { enabled: false });
    const dropped = await held;
    matchObject(
      t,
      dropped,
      { full: true, checks: [], drop: [], runs: [] },
      "the held pull ends, and its agent drops all checks",
    );
    matchObject(t, await pull(eu, hub, { ...request, cursor: dropped.cursor }, AbortSignal.abort()), {
      full: false,
      checks: [],
    });
    t.strictSame((await targetToRun(caller, id)).regions, [], "check-now has no region there");
    t.strictSame((await targetToRun(caller, failing)).regions, ["us"]);

    matchObject(t, await getMonitor(caller, id), {
      status: "unknown",
      probed: false,
      regions: [{ region: "eu", enabled: false }],
    });
    matchObject(t, await monitorCounts(caller), { unknown: 1 });
    matchObject(t, await listMonitors(caller, { state: "unknown", limit: 5, offset: 0 }), {
      total: 1,
      items: [{ target: { id } }],
    });
    const [incident] = (await listIncidents(caller, { state: "open", target_id: failing, limit: 1, offset: 0 })).items;
    matchObject(t, await explainIncident(caller, incident!.id), {
      regions: [{ region: "eu", enabled: false, vote: "failing" }],
    });
    matchObject(t, await getMonitor(caller, failing), { probed: true }, "the other region goes on");

    clock.advance(second);
    await send(eu, [agentResult(id, clock.now(), { status: "down" }), agentResult(failing, clock.now())]);
    t.equal(await openIncidents(id), 0, "results of runs in flight open nothing");
    t.equal(await openIncidents(failing), 1, "and closes nothing");
    t.equal((await sql`select 1 from results where target_id = ${id}`).length, 2, "it is stored all the same");

    await updateRegion(system, "eu", { name: "Europe" });
    await updateRegion(system, "eu", { enabled: true });
    const again = await pull(eu, hub, { ...request, cursor: dropped.cursor }, AbortSignal.abort());
    t.ok(again.full);
    t.ok(
      again.checks.some((check) => check.target_id === id),
      "its agent has the checks again",
    );
    matchObject(t, await getMonitor(caller, id), {
      status: "up",
      probed: true,
      regions: [{ region: "eu", enabled: true }],
    });
  },
);

t.test("tags in use, most used first, then by name", async (t) => {
  for (const tags of [["web", "prod"], ["web", "Eu"], ["web", "prod", "a%b"], ["eu"]]) await create("tagged", { tags });
  const tags = async (query = "") => (await ask("GET", `/api/v1/tags${query}`)).body;
  t.strictSame(await tags(), {
    items: [
      { name: "web", count: 3 },
      { name: "prod", count: 2 },
      { name: "Eu", count: 1 },
      { name: "a%b", count: 1 },
      { name: "eu", count: 1 },
    ],
    total: 5,
    limit: 50,
    offset: 0,
  });
  matchObject(t, await tags("?q=e"), { items: [{ name: "Eu" }, { name: "eu" }], total: 2 });
  matchObject(t, await tags("?q=a%25"), { items: [{ name: "a%b" }], total: 1 });
  matchObject(t, await tags("?q=%25"), { items: [], total: 0 }, "a wildcard is a letter");
  matchObject(t, await tags("?limit=2&offset=1"), {
    items: [{ name: "prod" }, { name: "Eu" }],
    total: 5,
    limit: 2,
    offset: 1,
  });
  matchObject(t, await tags("?limit=5000"), { limit: 1000 });
  matchObject(t, await ask("GET", "/api/v1/tags?limit=0"), error(400, "INVALID_QUERY", "/query/limit"));
  caller = await newOrg(system);
  matchObject(t, await tags(), { items: [], total: 0 }, "of this organisation");
});

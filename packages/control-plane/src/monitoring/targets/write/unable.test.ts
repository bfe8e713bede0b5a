import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { type Abilities, allAbilities } from "@statusmesh/shared/checks/abilities";
import { validate } from "@statusmesh/shared/schema/validate";
import { agentPulls, regionsWithAgents } from "../../agents/service.ts";
import { openIngest } from "../../pipeline/ingest.ts";
import { listResults } from "../../results/service.ts";
import { serve } from "../../../testing/app.ts";
import { minute } from "../../../testing/clock.ts";
import { admit, agentResult } from "../../../testing/scene.ts";

import { newAgent, newOrg, openWorld } from "../../../testing/world.ts";
import { targetRoutes } from "../api.ts";
import { TargetCreate } from "../schema.ts";
import { createTarget, unableTargets, updateTarget } from "./service.ts";
import { getMonitor } from "../list/service.ts";
import { listTargets } from "../service.ts";

const { sql, clock, system } = await openWorld(t);
const ctx = await newOrg(system);
const [eu, us] = [await newAgent(system, "eu"), await newAgent(system, "us")];
const { websocket: _, ...older } = allAbilities;
const says = (agent: typeof eu, kinds: Abilities) =>
  agentPulls(agent, { version: "0.0.9", kinds, impairedSince: null });
const live = validate(TargetCreate, { name: "Live", check: { type: "websocket", url: "wss://live.example.org/" } });
const reason = "sm-agent 0.0.9 does not know WebSocket checks: update it";

t.test("a target says which regions cannot run its check, and a PATCH with its ETag works all the same", async (t) => {
  const request = await serve(t, system, targetRoutes, { tenant: () => ctx });
  const silent = await request("POST", "/api/v1/targets", { ...live });
  t.notOk("regions_unable" in silent.body, "a region without an agent is silent, not unable");
  await says(eu, older);
  await says(us, allAbilities);
  const made = await request("POST", "/api/v1/targets", { ...live });
  matchObject(t, made, { status: 201, body: { regions_unable: [{ region: "eu", reason }] } });
  const path = `/api/v1/targets/${String(made.body["id"])}`;
  const read = await request("GET", path);
  matchObject(t, read.body, { regions_unable: [{ region: "eu", reason }] });
  const changed = await request(
    "PATCH",
    path,
    { regions_unable: read.body["regions_unable"], name: "B" },
    {
      "if-match": read.headers.get("etag")!,
    },
  );
  matchObject(t, changed, { status: 200, body: { name: "B", regions_unable: [{ region: "eu", reason }] } });
  t.equal((await request("PATCH", path, { name: "C" }, { "if-match": read.headers.get("etag")! })).status, 412);

  const plain = validate(TargetCreate, { name: "Plain", check: { type: "tcp", host: "db.example.org", port: 1 } });
  const other = await createTarget(ctx, plain);
  t.notOk("regions_unable" in other, "other kinds are not concerned");
  const { items } = await listTargets(ctx, { limit: 50, offset: 0 });
  t.strictSame(
    items.map(({ name, regions_unable: unable = [] }) => [name, unable.length]),
    [
      ["Plain", 0],
      ["B", 1],
      ["Live", 1],
    ],
  );
  t.strictSame(await unableTargets(system), [{ region: "eu", reason, targets: 2 }], "for the doctor");
  const [first] = await regionsWithAgents(ctx);
  t.strictSame(first?.kinds, ["tcp", "websocket"]);
  matchObject(t, first?.agents, [{ unable: [{ kind: "websocket", reason }] }], "for the page of agents");
});

t.test("a region that cannot run a check is no evidence: the monitor is neither up nor down", async (t) => {
  const { id } = await createTarget(ctx, { ...live, regions: ["eu"] });
  clock.advance(10 * minute);
  await says(eu, older);
  matchObject(t, await getMonitor(ctx, id), {
    status: "unknown",
    open_incident: null,
    target: { regions_unable: [{}] },
  });
  await updateTarget(ctx, id, { enabled: false });
  t.equal((await unableTargets(system)).find(({ region }) => region === "eu")?.targets, 2, "paused ones want nothing");
});

t.test("a result that is no evidence says so", async (t) => {
  const target = await createTarget(ctx, live);
  const ingest = openIngest(async () => {});
  const results = [
    agentResult(target.id, clock.now(), { status: "error", error: "the agent was suspended", skip: true }),
    agentResult(target.id, clock.now() + minute, { status: "up" }),
  ];
  clock.advance(2 * minute);
  await admit({ sql }, "eu", results);
  matchObject(t, await ingest(eu, { protocol: 1, results, runs: [] }), { stored: 2 });
  const { items } = await listResults(ctx, target.id, { limit: 10, offset: 0 });
  t.strictSame(
    items.map(({ status, skipped }) => [status, skipped]),
    [
      ["up", undefined],
      ["error", true],
    ],
  );
});

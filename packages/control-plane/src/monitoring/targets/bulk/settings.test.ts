import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { newId } from "@statusmesh/shared/ids";
import type { Ctx } from "../../../platform/context.ts";
import { updateRegion } from "../../regions/service.ts";
import { serve } from "../../../testing/app.ts";
import { noon } from "../../../testing/clock.ts";
import { addIncident, setStatus, webhookTo } from "../../../testing/scene.ts";
import { newOrg, openWorld } from "../../../testing/world.ts";
import { targetRoutes } from "../api.ts";
import { targetBulkRoutes } from "./api.ts";

const { sql, clock, system } = await openWorld(t);
clock.at = noon;
let caller: Ctx = await newOrg(system);
const ask = await serve(t, system, [...targetBulkRoutes, ...targetRoutes], { tenant: () => caller });
const act = (ids: readonly string[], action: object) => ask("POST", "/api/v1/targets/bulk-action", { ids, action });
const read = async (id: string) => (await ask("GET", `/api/v1/targets/${id}`)).body;
const regionsOf = async (id: string) => (await ask("GET", `/api/v1/targets/${id}/regions`)).body.regions;
const create = async (...targets: object[]): Promise<string[]> =>
  (await ask("POST", "/api/v1/targets/bulk", targets)).body.map((target: { id: string }) => target.id);
const tcp = (name: string, more: object = {}) => ({
  name,
  check: { type: "tcp", host: "db.example.org", port: 5432 },
  ...more,
});
const domain = (name: string) => ({ name, check: { type: "domain_expiry", domain: "example.org" } });

t.beforeEach(async () => {
  caller = await newOrg(system);
});

t.test("the severity of many is set; an open incident that becomes more severe is told once", async (t) => {
  const hook = await webhookTo(caller, "https://a.test/");
  const [one, two, job] = await create(
    tcp("one", { alerts: [{ channel_id: hook }] }),
    tcp("two", { severity: "critical" }),
    { name: "job", check: { type: "heartbeat", period: 3_600_000, grace: 600_000 } },
  );
  const ids = [one!, two!, job!];
  matchObject(t, (await act(ids, { type: "severity_set", severity: "critical" })).body, { succeeded: ids, failed: [] });
  for (const id of ids) t.equal((await read(id)).severity, "critical");
  const [row] = await sql`
    select before from audit_log where org_id = ${caller.orgId} and action like '%bulk-action'`;
  t.strictSame(row!["before"], { severities: { [one!]: "major", [two!]: "critical", [job!]: "major" } });
  matchObject(t, await act(ids, { type: "severity_set", severity: "minor" }), { status: 400 });
});

t.test("channels are added after the bound ones and removed, as often as is asked", async (t) => {
  const [first, second] = [await webhookTo(caller, "https://a.test/"), await webhookTo(caller, "https://b.test/")];
  const [one, two] = await create(tcp("one", { alerts: [{ channel_id: first }] }), tcp("two"));
  const ids = [one!, two!];
  for (let times = 0; times < 2; times++)
    matchObject(t, (await act(ids, { type: "channel_add", channel_ids: [second, first] })).body, {
      succeeded: ids,
      failed: [],
    });
  t.strictSame((await read(one!)).alerts, [{ channel_id: first }, { channel_id: second }], "the bound one stays first");
  t.strictSame((await read(two!)).alerts, [{ channel_id: second }, { channel_id: first }]);
  matchObject(t, (await act(ids, { type: "channel_remove", channel_ids: [first] })).body, { succeeded: ids });
  t.strictSame((await read(one!)).alerts, [{ channel_id: second }]);

  const stranger = await newOrg(system);
  const foreign = await webhookTo(stranger, "https://c.test/");
  for (const channel_ids of [[newId()], [second, foreign]])
    matchObject(t, await act(ids, { type: "channel_add", channel_ids }), {
      status: 400,
      body: { error: { code: "INVALID_ALERT_CONFIG", field: `/action/channel_ids/${channel_ids.length - 1}` } },
    });
  t.equal((await read(two!)).alerts.length, 1, "a refused request changes nothing");
  const many = Array.from({ length: 99 }, newId);
  await sql`
    insert into channels select (jsonb_populate_record(c, jsonb_build_object('id', m.id, 'name', m.id::text))).*
    from channels c cross join unnest(${many}::uuid[]) as m (id) where c.id = ${first}`;
  matchObject(t, (await act([one!], { type: "channel_add", channel_ids: many })).body, { failed: [] });
  matchObject(t, (await act(ids, { type: "channel_add", channel_ids: [first] })).body, {
    succeeded: [two],
    failed: [{ id: one, code: "INVALID_ALERT_CONFIG", message: /at most 100 channels/ }],
  });
});

t.test("an interval is refused where the kind asks for a longer one, and replaced ones are kept", async (t) => {
  const [web, name] = await create(tcp("web"), domain("name"));
  matchObject(t, (await act([web!, name!], { type: "interval_set", interval: 30 })).body, {
    succeeded: [web],
    failed: [{ id: name, code: "MIN_CHECK_INTERVAL" }],
  });
  t.equal((await read(web!)).interval, 30);
  t.equal((await read(name!)).interval, 86_400);
  matchObject(t, await sql`select past_intervals from targets where id = ${web!}`, [
    { past_intervals: { 60: new Date(noon).toISOString() } },
  ]);
  matchObject(t, await act([web!], { type: "interval_set", interval: 0 }), {
    status: 400,
    body: { error: { code: "INVALID_INTERVAL", field: "/action/interval" } },
  });
});

t.test("regions are replaced; a policy that counts more of them keeps its own", async (t) => {
  const [plain, counting, paused] = await create(
    tcp("plain"),
    tcp("counting", { region_policy: { count: 2 } }),
    tcp("paused", { enabled: false }),
  );
  const ids = [plain!, counting!, paused!];
  const versions = async () =>
    (await sql`select former_regions, version::int from targets where id = any(${ids}) order by id`).map((row) => ({
      ...row,
    }));
  t.strictSame(
    (await versions()).map(({ version }) => version),
    [1, 1, 1],
  );
  matchObject(t, (await act(ids, { type: "regions_set", regions: ["us"] })).body, {
    succeeded: [plain, paused],
    failed: [{ id: counting, code: "INVALID_REGION_POLICY" }],
  });
  t.strictSame([await regionsOf(plain!), await regionsOf(counting!)], [["us"], ["eu", "us"]]);
  const moved = { former_regions: ["eu"], version: 2 };
  t.strictSame(await versions(), [moved, { former_regions: [], version: 1 }, moved], "agents are sent changed rows");
  await updateRegion(system, "us", { enabled: false });
  for (const region of ["us", "nowhere"])
    matchObject(t, await act(ids, { type: "regions_set", regions: ["eu", region] }), {
      status: 422,
      body: { error: { code: "REGION_INVALID", details: { pointer: "/action/regions/1" } } },
    });
  await updateRegion(system, "us", { enabled: true });
});

t.test("targets of another organisation are listed as absent and stay unchanged", async (t) => {
  const stranger = caller;
  const [theirs] = await create(tcp("theirs"));
  await setStatus(system, theirs!, "down");
  await addIncident(stranger, theirs!, { started: noon });
  caller = await newOrg(system);
  const channel = await webhookTo(caller, "https://d.test/");
  for (const action of [
    { type: "channel_add", channel_ids: [channel] },
    { type: "channel_remove", channel_ids: [channel] },
    { type: "interval_set", interval: 300 },
    { type: "regions_set", regions: ["eu"] },
  ])
    matchObject(t, (await act([theirs!], action)).body, {
      succeeded: [],
      failed: [{ id: theirs, code: "TARGET_NOT_FOUND" }],
    });
  caller = stranger;
  matchObject(t, await read(theirs!), { interval: 60, alerts: [] });
  t.strictSame(await regionsOf(theirs!), ["eu", "us"]);
});

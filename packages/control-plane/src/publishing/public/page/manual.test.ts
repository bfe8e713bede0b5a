import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { newId } from "@statusmesh/shared/ids";
import type { System } from "../../../platform/context.ts";
import { serve } from "../../../testing/app.ts";
import { day, hour, minute, noon } from "../../../testing/clock.ts";
import { newTarget } from "../../../testing/scene.ts";
import { newOrg, openWorld } from "../../../testing/world.ts";
import { statusPageRoutes } from "../../status-pages/api.ts";
import { createPage } from "../../status-pages/service.ts";
import { announce, isNewsDue } from "../../subscribers/engine.ts";
import { publicRoutes } from "../api.ts";
import { kumaRoutes } from "../feeds/kuma.ts";
import { isTrue } from "../../../platform/jobs/queries.ts";

const { sql, clock, system } = await openWorld(t);
clock.at = noon - 40 * day;
const ctx = await newOrg(system);
let visited: System = system;
const ask = await serve(t, system, [...statusPageRoutes, ...publicRoutes, ...kumaRoutes], {
  public: () => visited,
  tenant: () => ctx,
});
const page = await createPage(ctx, { slug: "acme", name: "Acme" });
const path = `/api/v1/status-pages/${page.id}/components`;
const api = "/api/public/v1";

/** Reads as a process that has no copy of the page yet: the cache goes by the pool. */
const read = async (url: string) => {
  visited = { ...system, sql: new Proxy(sql, {}) };
  return await ask("GET", url);
};
const add = async (fields: object) =>
  (await ask("POST", path, { manual: true, public_name: "Telephone", ...fields })).body;
const set = async (id: string, state: string) => (await ask("PATCH", `${path}/${id}`, { state })).body;
const shown = async (id: string) =>
  (await read(`${api}/status`)).body.groups
    .flatMap((group: { components: { id: string }[] }) => group.components)
    .find((one: { id: string }) => one.id === id);

t.beforeEach(async () => {
  clock.at = noon - 40 * day;
  await sql`delete from status_page_components`;
});

t.test("a component without a monitor has an id, a name and a state that is set by hand", async (t) => {
  const made = await ask("POST", path, { manual: true, public_name: "Telephone", public_group: "Office" });
  t.equal(made.status, 201);
  const { id } = made.body;
  const whole = {
    id,
    target_id: null,
    monitor_name: null,
    public_name: "Telephone",
    public_description: null,
    public_group: "Office",
    show: { uptime: true, latency: false, certificate: false },
    sort_order: 0,
    manual: true,
    state: "operational",
  };
  t.strictSame(made.body, whole);
  t.equal(made.headers.get("location"), `${path}#${id}`);
  const monitor = await newTarget(ctx, "Shop");
  matchObject(t, (await ask("POST", path, { target_id: monitor })).body, { id: monitor, target_id: monitor });
  t.strictSame((await ask("GET", path)).body.items[0], whole);
  matchObject(t, await set(id, "partial_outage"), { state: "partial_outage", public_name: "Telephone" });
  matchObject(t, (await ask("PATCH", `${path}/${id}`, { public_name: "Phone" })).body, {
    state: "partial_outage",
    public_name: "Phone",
  });
  const order = await ask("POST", `${path}/reorder`, { target_ids: [monitor, id] });
  t.strictSame(
    order.body.items.map((one: { id: string }) => one.id),
    [monitor, id],
  );
  const refusals: [string, string, object, string][] = [
    ["POST", path, {}, "/target_id"],
    ["POST", path, { manual: false, public_name: "X" }, "/manual"],
    ["POST", path, { manual: true }, "/public_name"],
    ["POST", path, { manual: true, public_name: "X", target_id: monitor }, "/target_id"],
    ["POST", path, { manual: true, public_name: "X", state: "no_data" }, "/state"],
    ["POST", path, { target_id: monitor, state: "degraded" }, "/state"],
    ["PATCH", `${path}/${id}`, { public_name: null }, "/public_name"],
    ["PATCH", `${path}/${id}`, { state: null }, "/state"],
    ["PATCH", `${path}/${monitor}`, { state: "degraded" }, "/state"],
  ];
  for (const [method, url, body, field] of refusals)
    matchObject(
      t,
      await ask(method, url, body),
      { status: 400, body: { error: { code: "INVALID_BODY", field } } },
      JSON.stringify(body),
    );
  matchObject(t, await ask("PATCH", `${path}/${newId()}`, { state: "degraded" }), { status: 404 });
  const second = await createPage(ctx, { slug: "second", name: "Second" });
  matchObject(
    t,
    await ask("PATCH", `/api/v1/status-pages/${second.id}/components/${id}`, { state: "degraded" }),
    { status: 404, body: { error: { code: "COMPONENT_NOT_FOUND" } } },
    "of another page",
  );
  t.equal((await ask("DELETE", `${path}/${id}`)).status, 204);
  t.strictSame([...(await sql`select * from component_states`)], [], "its states go with it");
});

t.test("its states are the strip, the uptime, incidents, feed, badges and Kuma's dialect", async (t) => {
  const { id } = await add({});
  clock.advance(hour);
  matchObject(t, await shown(id), { status: "operational", uptime_pct: 100 });
  clock.at = noon - 10 * day;
  await set(id, "degraded");
  clock.advance(hour);
  await set(id, "major_outage");
  await set(id, "major_outage");
  clock.advance(6 * hour);
  await set(id, "operational");
  clock.at = noon - 2 * day;
  await set(id, "maintenance");
  clock.advance(2 * hour);
  await set(id, "operational");
  clock.at = noon - 10 * minute;
  await set(id, "partial_outage");
  clock.at = noon;
  const component = await shown(id);
  matchObject(t, component, { name: "Telephone", status: "partial_outage" });
  const states = component.history.map((cell: { state: string }) => cell.state) as string[];
  t.equal(states.lastIndexOf("no_data"), 90 - 1 - 41, "without data before it was made");
  matchObject(t, component.history.at(-11), { state: "major_outage", downtime_secs: 6 * 3600 });
  t.equal(states.at(-3), "maintenance");
  matchObject(t, component.history.at(-1), { state: "partial_outage", downtime_secs: 600 });
  const counted = 40 * 24 - 2;
  t.ok(Math.abs(component.uptime_pct - 100 * (1 - (6 + 1 / 6) / counted)) < 0.01, `${component.uptime_pct}`);
  matchObject(t, (await read(`${api}/components/${id}/history?days=5`)).body, { days: 5, status: "partial_outage" });

  const { body: status } = await read(`${api}/status`);
  matchObject(t, status.overall, { state: "partial_outage" });
  matchObject(t, status.active_incidents, [
    { title: "Telephone partial outage", state: "open", component: { id }, severity: "major", updates: [] },
  ]);
  matchObject(t, status.recent_incidents, [
    { state: "closed", status: "major_outage", duration_secs: 7 * 3600, component: { id, name: "Telephone" } },
  ]);
  t.equal(status.recent_incidents.length, 1, "degraded and down are one outage");
  matchObject(t, await read(`${api}/incidents/${status.recent_incidents[0].id}`), {
    status: 200,
    body: status.recent_incidents[0],
  });
  matchObject(t, (await read(`${api}/incidents`)).body, { total: 2 });
  t.match((await read(`${api}/incidents.rss`)).text, /<title>Telephone partial outage<\/title>/);
  t.match((await read(`${api}/badge.svg?component=${id}`)).text, /Telephone: partial outage/);
  const badge = async (metric: string) => (await read(`${api}/components/${id}/badge.svg?metric=${metric}`)).text;
  t.match(await badge("uptime"), /Telephone uptime: 99\.\d+ %/);
  for (const metric of ["latency", "cert"]) t.match(await badge(metric), /n\/a/, metric);

  const monitor = await newTarget(ctx, "Shop");
  await ask("POST", path, { target_id: monitor });
  const { body: kuma } = await read("/api/status-page/acme");
  const numbers = kuma.publicGroupList[0].monitorList.map((one: { id: number }) => one.id) as number[];
  t.equal(new Set(numbers).size, 2, "no monitor has its number");
  const beats = (await read("/api/status-page/heartbeat/acme")).body;
  t.equal(beats.heartbeatList[numbers[0]!].at(-1).status, 0);
});

t.test("subscribers are notified of outages and maintenance once, and not of what gets worse", async (t) => {
  const [phone, fax] = [await add({}), await add({ public_name: "Fax" })];
  const before = new Date(noon - 41 * day);
  await sql`
    insert into subscribers (id, org_id, page_id, kind, address, token, state, asked_at, created_at, confirmed_at,
      component_ids)
    values (${newId()}, ${ctx.orgId}, ${page.id}, 'email', 'all@example.org', 'a', 'active', ${before},
      ${before}, ${before}, null),
      (${newId()}, ${ctx.orgId}, ${page.id}, 'email', 'fax@example.org', 'b', 'active', ${before},
      ${before}, ${before}, ${[fax.id]})`;
  const queued = async () => {
    if (await isTrue(system, isNewsDue)) await announce(system);
    const rows = await sql<{ text: string; address: string }[]>`
      select (m.content ->> 'kind') || ' ' || (m.content ->> 'title') as text, s.address
      from subscriber_messages m join subscriber_deliveries d on d.message_id = m.id
      join subscribers s on s.id = d.subscriber_id where d.due_at is not null order by m.at, m.id, s.address`;
    await sql`update subscriber_deliveries set attempts = 1, due_at = null`;
    return rows.map(({ text, address }) => `${address}: ${text}`);
  };
  t.strictSame(await queued(), [], "the first state is not announced");
  clock.advance(minute);
  await set(phone.id, "degraded");
  t.strictSame(await queued(), ["all@example.org: opened Disruption of Telephone"]);
  clock.advance(minute);
  await set(phone.id, "major_outage");
  t.strictSame(await queued(), [], "the same outage");
  clock.advance(minute);
  await set(phone.id, "operational");
  clock.advance(minute);
  await set(fax.id, "maintenance");
  clock.advance(minute);
  await set(fax.id, "operational");
  t.strictSame(await queued(), [
    "all@example.org: resolved Disruption of Telephone",
    "all@example.org: started Fax",
    "fax@example.org: started Fax",
    "all@example.org: completed Fax",
    "fax@example.org: completed Fax",
  ]);
  t.strictSame(await queued(), [], "each once");
  clock.advance(2 * hour);
  await set(phone.id, "major_outage");
  clock.advance(2 * hour);
  t.equal(await isTrue(system, isNewsDue), false, "old news is none");
});

t.test("two requests at once leave one state, and quotas count these components", async (t) => {
  const { id } = await add({});
  clock.advance(minute);
  await Promise.all(["degraded", "major_outage", "maintenance", "partial_outage"].map((state) => set(id, state)));
  const open = await sql`
    select s.state = c.state as same
    from component_states s join status_page_components c on c.manual_id = s.component_id
    where s.ended_at is null`;
  t.strictSame([...open], [{ same: true }]);
  const old = new Date(noon - 50 * day);
  await sql`
    insert into component_states (id, org_id, component_id, state, started_at, ended_at)
    select gen_random_uuid(), ${ctx.orgId}, ${id}, 'operational', ${old}::timestamptz - n * interval '1 s',
      ${old} from generate_series(1, 3000) n`;
  await set(id, "operational");
  const [kept] = await sql<{ n: number }[]>`select count(*)::int as n from component_states where component_id = ${id}`;
  t.ok(kept!.n <= 1001, `${kept!.n} states are kept`);
  await sql`update orgs set plan_overrides = '{"max_public_components": 2}' where id = ${ctx.orgId}`;
  await add({ public_name: "Second" });
  matchObject(t, await ask("POST", path, { manual: true, public_name: "Third" }), {
    status: 422,
    body: { error: { code: "QUOTA_EXCEEDED", details: { quota: "max_public_components", current: 2, limit: 2 } } },
  });
});

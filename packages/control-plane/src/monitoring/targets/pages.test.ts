import { createHash } from "node:crypto";
import { gzipSync } from "node:zlib";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { checkKinds, checkTypes, type CheckType } from "@statusmesh/shared/checks";
import { allAbilities } from "@statusmesh/shared/checks/abilities";
import { incidentsPages } from "../../alerting/incidents/pages.ts";
import type { Ctx } from "../../platform/context.ts";
import { loadAssets } from "../../platform/html/assets.ts";
import { mountPages } from "../../platform/html/pages.ts";
import { openViews } from "../../platform/html/views.ts";
import { agentPulls } from "../agents/service.ts";
import { createRegion, updateRegion } from "../regions/service.ts";
import { latencySeries } from "../results/latency/service.ts";
import { recentHistory } from "../results/service.ts";
import { subscribersReached } from "../../publishing/subscribers/service.ts";
import { serve } from "../../testing/app.ts";
import { until } from "../../testing/clock.ts";
import { addIncident, addResults, setStatus } from "../../testing/scene.ts";
import { newAgent, newOrg, openWorld } from "../../testing/world.ts";
import { targetRoutes } from "./api.ts";
import { targetBulkRoutes } from "./bulk/api.ts";
import { targetsPages } from "./pages.ts";

const { sql, system } = await openWorld(t);
await createRegion(system, { id: "ap", name: "Asia" });
let caller: Ctx = await newOrg(system);
const authenticators = { tenant: async () => caller, public: async () => system };
const incidents = incidentsPages(recentHistory, latencySeries, subscribersReached);
const pages = mountPages([...targetsPages, ...incidents], authenticators, openViews({ assets: loadAssets() }));
const ask = await serve(t, system, [...targetRoutes, ...targetBulkRoutes], {
  tenant: () => caller,
  page: pages,
});

const create = async (name: string): Promise<string> =>
  (await ask("POST", "/api/v1/targets", { name, check: { type: "tcp", host: "db.example.org", port: 5432 } })).body.id;

/** The region checkboxes of a form by id: whether each is checked, the words beside it. */
const regionBoxes = (html: string) =>
  [...html.matchAll(/<input type="checkbox" name="\/regions"[^>]* value="(\w+)"([^>]*)>(.*?)<\/label>/gs)]
    .map(([, id, rest, words]) => ({
      id,
      checked: /\schecked/.test(rest!),
      words: words!
        .replaceAll(/<[^>]+>|\s+/g, " ")
        .replaceAll(/ +/g, " ")
        .trim(),
    }))
    .sort((a, b) => a.id!.localeCompare(b.id!));

t.test("the form lists a disabled region of the monitor, so that saving the regions keeps it", async (t) => {
  const id = await create("Checkout");
  const other = await create("Search");
  await ask("PUT", `/api/v1/targets/${id}/regions`, { regions: ["eu", "us"] });
  await ask("PUT", `/api/v1/targets/${other}/regions`, { regions: ["eu"] });
  await updateRegion(system, "us", { enabled: false });

  const boxes = regionBoxes((await ask("GET", `/monitors/${id}/edit`)).text);
  matchObject(t, boxes, [
    { id: "ap", checked: false },
    { id: "eu", checked: true },
    { id: "us", checked: true, words: /Disabled by the operator$/ },
  ]);
  const regions = [...boxes.filter((box) => box.checked).map((box) => box.id), "ap"];
  matchObject(t, await ask("PUT", `/api/v1/targets/${id}/regions`, { regions }), {
    status: 200,
    body: { regions: ["ap", "eu", "us"] },
  });
  t.same(
    regionBoxes((await ask("GET", `/monitors/${other}/edit`)).text).map((box) => box.id),
    ["ap", "eu"],
    "a disabled region of another monitor is no choice",
  );
});

t.test("a clone starts with the regions of its source; a new monitor with all that are enabled", async (t) => {
  const source = await create("Cloned");
  await ask("PUT", `/api/v1/targets/${source}/regions`, { regions: ["eu"] });
  const chosen = async (path: string) =>
    regionBoxes((await ask("GET", path)).text)
      .filter((box) => box.checked)
      .map((box) => box.id);
  t.strictSame(await chosen(`/monitors/new?from=${source}`), ["eu"]);
  t.strictSame(await chosen("/monitors/new"), ["ap", "eu"], "us is disabled");
  const body = { name: "Clone", check: { type: "tcp", host: "db.example.org", port: 5432 } };
  const made = (await ask("POST", "/api/v1/targets", { ...body, regions: ["ap"] })).body.id;
  matchObject(t, (await ask("GET", `/api/v1/targets/${made}/regions`)).body, { regions: ["ap"] });
  for (const regions of [["us"], ["eu", "nowhere"]])
    matchObject(t, await ask("POST", "/api/v1/targets", { ...body, regions }), {
      status: 422,
      body: { error: { code: "REGION_INVALID", details: { pointer: `/regions/${regions.length - 1}` } } },
    });
  matchObject(
    t,
    await ask("POST", "/api/v1/targets", { ...body, regions: ["eu"], region_policy: { count: 2 } }),
    { status: 422, body: { error: { code: "INVALID_REGION_POLICY" } } },
    "the policy counts the chosen regions",
  );
  matchObject(t, await ask("POST", "/api/v1/targets", { ...body, regions: [] }), { status: 422 });
});

t.test("10,000 long tags leave every page small", async (t) => {
  const owner = caller;
  caller = await newOrg(system);
  t.teardown(() => (caller = owner));
  const tag = (n: number) => `team/${createHash("sha1").update(`${n}`).digest("hex")}`;
  const list = Array.from({ length: 200 }, (_, at) => ({
    name: `tagged ${at}`,
    check: { type: "tcp", host: "db.example.org", port: 5432 },
    tags: Array.from({ length: 50 }, (_, n) => tag(at * 50 + n)),
  }));
  t.equal((await ask("POST", "/api/v1/targets/bulk", list)).status, 201);
  matchObject(t, (await ask("GET", "/api/v1/tags?limit=1")).body, { total: 10_000 });
  const paths = ["/monitors", "/monitors?group=team", `/monitors?group=team&in=${tag(7)}`, `/monitors?tag=${tag(7)}`];
  for (const path of paths) {
    const { status, text } = await ask("GET", path);
    t.equal(status, 200);
    const size = gzipSync(text).length;
    t.ok(size < 25_000, `${path}: ${size} bytes; scripts and style sheets take less than 35,000`);
  }
  t.match((await ask("GET", "/monitors?group=team")).text, "9,900 more groups");
  // A tag is at most 50 characters; a saved link can have any.
  const gone = await ask("GET", `/monitors?tag=${"x".repeat(200)}&group=${"y".repeat(200)}&in=z&sort=size&offset=-1`);
  matchObject(t, gone, { status: 200, text: /No monitor matches.*A saved link may contain/s });
  matchObject(t, await ask("POST", "/api/v1/targets", { ...list[0], tags: ["x".repeat(200)] }), {
    status: 400,
    body: { error: { code: "INVALID_TAG", field: "/tags/0" } },
  });
});

/** One check of each kind. Does not compile without one for a new kind. */
const checks: Record<CheckType, object> = {
  http: { url: "https://example.org/", headers: { "X-Key": "hush" }, expected_status: { kind: "exact", value: 204 } },
  tcp: { host: "db.example.org", port: 5432 },
  dns: { domain: "example.org", record_type: "MX" },
  grpc: { host: "orders.example.org", port: 50_051, service: "shop.v1.Orders" },
  websocket: { url: "wss://example.org/socket", expect: "ready" },
  ping: { host: "gw.example.org", packets: 5, max_loss_pct: 20 },
  container: { name: "immich-server" },
  exec: { command: "disk" },
  status_page: { url: "https://status.example.org", component: "API" },
  tls_cert: { host: "www.example.org", warn_days: 21 },
  domain_expiry: { domain: "example.org", critical_days: 3 },
  heartbeat: { period: 86_400_000, max_runtime: 600_000 },
  group: { members: [{ tag: "shop" }], rule: { at_least: 2 }, degraded_below: 100 },
};

/** The part of a form that belongs to a kind. */
const partOf = (html: string, type: string): string =>
  html
    .split('<fieldset class="kind"')
    .filter((part) => part.includes(`data-when="/check/type=${type}"`))
    .join("");
/** `value` of each control in a part of a form, by name. */
const valuesIn = (part: string) =>
  Object.fromEntries(
    [...part.matchAll(/<input [^>]*name="([^"]+)"[^>]* value="([^"]*)"/g)].map(([, name, value]) => [name, value]),
  );

t.test("the form has a control for every field of every kind, from its schema", async (t) => {
  await sql`
    insert into certificates (id, org_id, name, kind, certificate, subject, expires_at, created_at, updated_at)
    values (gen_random_uuid(), ${caller.orgId}, 'CA', 'ca', 'PEM', 'CN=CA', now() + interval '1 year', now(), now())`;
  const { text: blank } = await ask("GET", "/monitors/new");
  for (const type of checkTypes) {
    const { body: made } = await ask("POST", "/api/v1/targets", { name: type, check: { type, ...checks[type] } });
    const { text: stored } = await ask("GET", `/monitors/${made.id}/edit`);
    t.match(blank, `name="/check/type" value="${type}"`, `${type} can be chosen`);
    t.match(stored, new RegExp(`value="${type}"[^>]* checked disabled`), `a ${type} check is edited as one`);
    for (const [title, html] of Object.entries({ blank, stored })) {
      const part = partOf(html, type);
      for (const field of Object.keys(checkKinds[type].schema.properties).filter((name) => name !== "type"))
        t.ok(part.includes(`name="/check/${field}`), `${title} ${type}: ${field}`);
    }
  }
  matchObject(t, valuesIn(partOf(blank, "tls_cert")), {
    "/check/port": "443",
    "/check/warn_days": "14",
    "/check/timeout": "10000",
  });
  matchObject(t, valuesIn(partOf(blank, "http")), { "/check/expected_status": "200-299", "/check/max_redirects": "5" });
});

t.test("a stored check is in the form, its secrets masked and explained", async (t) => {
  const { items } = (await ask("GET", "/api/v1/targets?limit=100")).body;
  const edit = async (type: string): Promise<string> => {
    const { id } = items.find((item: { name: string }) => item.name === type);
    return partOf((await ask("GET", `/monitors/${id}/edit`)).text, type);
  };
  const http = await edit("http");
  matchObject(t, valuesIn(http), { "/check/expected_status": "204" });
  t.match(http, /<textarea[^>]*name="\/check\/headers"[^>]*>\nX-Key: \*\*\*</);
  t.match(http, "leave the list unchanged to keep it");
  t.match(http, "enter stored credentials and headers again");
  t.notMatch(await edit("tcp"), "stored credentials");
  t.match(await edit("dns"), /<option value="MX" selected/);
  matchObject(t, valuesIn(await edit("tls_cert")), { "/check/warn_days": "21", "/check/critical_days": "7" });
});

t.test("the page of a monitor draws what it depends on above it, and what depends on it below", async (t) => {
  const [router, database, shop] = [await create("Router"), await create("Database"), await create("Shop")];
  const api = await create("API");
  await ask("PATCH", `/api/v1/targets/${api}`, { depends_on: [router, database] });
  await ask("PATCH", `/api/v1/targets/${shop}`, { depends_on: [api] });
  const graph = (await ask("GET", `/monitors/${api}`)).text.split("graph")[1]!.split("</section>")[0]!;
  const lines = [...graph.matchAll(/\sd="(M[^"]+)"\/><\/svg>\s+<(?:p|h3)/g)].map(([, d]) => d);
  t.strictSame(lines, ["M1 0C1 1 2 1 2 2M3 0C3 1 2 1 2 2", "M1 0C1 1 1 1 1 2"], "two lines come in, one goes out");
  t.strictSame(
    [...graph.matchAll(/href="\/monitors\/([\w-]+)"/g)].map(([, id]) => id),
    [router, database, shop],
  );
  t.notMatch((await ask("GET", `/monitors/${await create("Alone")}`)).text, /graph/);
});

t.test("a run that was made in the console reads as every other", async (t) => {
  const shown = async (result: unknown, of = "test") =>
    await ask("GET", `/monitors/finding?of=${of}&result=${encodeURIComponent(JSON.stringify(result))}`);
  const words = ({ text }: { text: string }) =>
    text.replaceAll(/<svg.*?<\/svg>|<[^>]+>/gs, " ").replaceAll(/\s+/g, " ");
  const document = JSON.stringify({ not_after: "2026-11-30T00:00:00Z", days_remaining: 5, subject_common_name: "x.y" });
  t.match(
    words(await shown({ status: "down", error: document, total_ms: 41.2, region: "eu" })),
    /^ ?Result: Down certificate of x\.y expires in 5 days, on 2026-11-30 41 ms from Europe/,
  );
  t.match(
    words(await shown({ status: "up", total_ms: 30, ttfb_ms: 5, region: "eu" }, "region")),
    /^ ?Europe: Up 30 ms $/,
  );
  const up = await shown({ status: "up", http_status: 200, total_ms: 30, connect_ms: 10, ttfb_ms: 15 }, "now");
  t.match(words(up), /Checked now: Up 200 30 ms .*Connect 10 ms First byte 15 ms Body 5 ms/);
  t.match((await shown({ status: "down", error: "<b>&" })).text, "&lt;b&gt;&amp;");
  for (const wrong of [null, { status: "fine" }, { status: "up", total_ms: "1" }])
    t.equal((await shown(wrong)).status, 400, JSON.stringify(wrong));
  matchObject(t, await ask("GET", "/monitors/finding", undefined, { "sec-fetch-dest": "document" }), { status: 302 });
});

t.test("an entity tag: unchanged is 304, and an edit of an older state changes nothing", async (t) => {
  const path = `/api/v1/targets/${await create("Tagged")}`;
  const tagOf = ({ headers }: { headers: Headers }): string => headers.get("etag")!;
  const first = await ask("GET", path);
  const tag = tagOf(first);
  for (const same of [tag, `W/${tag}`, `"other", ${tag}`, "*"])
    matchObject(t, await ask("GET", path, undefined, { "if-none-match": same }), { status: 304, text: "" }, same);
  matchObject(t, await ask("GET", path, undefined, { "if-none-match": '"other"' }), { status: 200 });
  const list = tagOf(await ask("GET", "/api/v1/targets"));
  matchObject(t, await ask("GET", "/api/v1/targets", undefined, { "if-none-match": list }), { status: 304 });
  t.match((await ask("GET", `/monitors/${first.body.id}/edit`)).text, `data-match="${tag.replaceAll('"', "&quot;")}"`);

  const changed = await ask("PATCH", path, { interval: 120 }, { "if-match": tag });
  matchObject(t, changed, { status: 200, body: { interval: 120 } });
  t.equal(tagOf(changed), tagOf(await ask("GET", path)), "the reply carries the tag of the new state");
  matchObject(t, await ask("GET", path, undefined, { "if-none-match": tag }), { status: 200 });
  matchObject(t, await ask("GET", "/api/v1/targets", undefined, { "if-none-match": list }), { status: 200 });
  matchObject(t, await ask("PATCH", path, { name: "Lost" }, { "if-match": tag }), {
    status: 412,
    body: { error: { code: "PRECONDITION_FAILED", field: null } },
  });
  matchObject(t, (await ask("GET", path)).body, { name: "Tagged", interval: 120 });
  matchObject(t, await ask("PATCH", path, { name: "Kept" }, { "if-match": "*" }), { status: 200 });
  matchObject(t, await ask("PATCH", path, { name: "Free" }), { status: 200 }, "without the header any state will do");
  const [, other] = await Promise.all(
    ["A", "B"].map(async (name) => ask("PATCH", path, { name }, { "if-match": tagOf(await ask("GET", path)) })),
  );
  t.ok([200, 412].includes(other!.status));
});

t.test("a monitor that the agents of a region cannot run says so, with what to do", async (t) => {
  const agent = await newAgent(system, "eu");
  await agentPulls(agent, { version: "1.0.0", kinds: { ...allAbilities, exec: { names: [] } }, impairedSince: null });
  const { body } = await ask("POST", "/api/v1/targets", { name: "Disk", check: { type: "exec", command: "disk" } });
  await ask("PUT", `/api/v1/targets/${body.id}/regions`, { regions: ["eu"] });
  const { text } = await ask("GET", `/monitors/${body.id}`);
  t.match(text, /Not checked from [^<]+:<\/strong> the agent.{1,6}s file of commands has no \[disk\]: add it/);
  t.match(text, /No agent of its regions can run it\./);
  t.match(text, /Cannot run this check/);
  await sql`delete from agents where id = ${agent.agentId}`;
});

t.test("monitor and incident say why it fails and what to do, where a diagnosis is known", async (t) => {
  const words = ({ text }: { text: string }) => text.replaceAll(/<[^>]+>/g, " ").replaceAll(/\s+/g, " ");
  const diagnosed = /Cloudflare answered with a challenge\. Allow the addresses of region Europe there/;
  for (const [diagnosis, ended] of [
    ["challenge:cloudflare:", null],
    [null, null],
    ["challenge:cloudflare:", system.clock.now()],
  ] as const) {
    const id = await create("Guarded");
    await setStatus(system, id, ended === null ? "down" : "up");
    const incident = await addIncident(caller, id, { started: system.clock.now() - 60_000, ended });
    await sql`update incidents set diagnosis = ${diagnosis} where id = ${incident}`;
    const [monitor, page] = [await ask("GET", `/monitors/${id}`), await ask("GET", `/incidents/${incident}`)];
    t.same([monitor.status, page.status], [200, 200]);
    t.equal(diagnosed.test(words(page)), diagnosis !== null, "the incident keeps it after its end");
    t.equal(
      diagnosed.test(words(monitor)),
      diagnosis !== null && ended === null,
      "the monitor has it while it is open",
    );
  }
});

t.test("the page of a new monitor shows no first run beside a state from before it", async (t) => {
  const id = await create("New");
  const asked = await sql.begin(async (tx) => {
    // The page has read the state when it waits for the results.
    await tx`lock table results in access exclusive mode`;
    const page = ask("GET", `/monitors/${id}`);
    // On the connection that is open: the page may wait on every other one.
    const waiting = async () =>
      (await tx`select from pg_locks where relation = 'results'::regclass and not granted`).length > 0;
    await until(waiting, "the page to read results");
    await addResults({ sql: tx as never }, id, [{ at: system.clock.now() - 1000 }]);
    await setStatus({ ...system, sql: tx as never }, id, "up");
    return { page };
  });
  const { text } = await asked.page;
  t.match(text, /<table class="plain wide stackable checks">/);
  t.notMatch(text, "Pending first check");
});

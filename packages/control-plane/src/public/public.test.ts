import { setTimeout as sleep } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import type Koa from "koa";
import t from "tap";
import { newId } from "@statusmesh/shared/ids";
import type { Config } from "../config.ts";
import type { System } from "../context.ts";
import { loadAssets } from "../http/assets.ts";
import { mountPages } from "../http/pages.ts";
import { openViews } from "../http/views.ts";
import type { Branding } from "../status-pages/schema.ts";
import { publicRoutes } from "./api.ts";
import { LastGoodCache } from "./cache.ts";
import { aboutHtml } from "./markdown.ts";
import { publicPages } from "./pages.ts";
import { addIncident, addResults, addUpdate, clock, day, hour, minute, newOrg, newTarget, noon, otherSql, serve, setStatus, sql, system } from "./scene.test.kit.ts";
import { banner, componentState, dayCells, type IncidentSpan } from "./states.ts";

const ctx = await newOrg();
const stranger = await newOrg();
let visited: System = system;
const views = openViews({ assets: loadAssets() });
const pages = mountPages(publicPages, { public: async () => visited, tenant: async () => ctx }, views);
const ask = await serve(publicRoutes, { public: () => visited, page: pages.routes() as unknown as Koa.Middleware });
const iso = (at: number) => new Date(at).toISOString();

/** A process that has no copy yet: the cache goes by the pool. */
const forget = () => {
  visited = { ...system, sql: new Proxy(sql, {}) };
};

async function publish(orgId: string, branding: Partial<Branding> = {}, enabled = true): Promise<string> {
  const id = newId();
  await sql`insert into status_pages (id, org_id, slug, name, enabled, branding, created_at, updated_at)
    values (${id}, ${orgId}, ${`s-${id.slice(-12)}`}, 'Acme status', ${enabled}, ${sql.json({ display_name: null, about: null, brand_color: null, style: "auto", show_powered_by: true, website_url: null, hide_from_search: false, ...branding })}, ${new Date(clock.at)}, ${new Date(clock.at)})`;
  return id;
}

async function show(pageId: string, targetId: string, binding: { name?: string; group?: string; description?: string } = {}): Promise<void> {
  await sql`insert into status_page_components (page_id, target_id, org_id, public_name, public_description, public_group, sort_order)
    select ${pageId}, id, org_id, ${binding.name ?? null}, ${binding.description ?? null}, ${binding.group ?? null}, (select count(*) from status_page_components) from targets where id = ${targetId}`;
}

t.beforeEach(async () => {
  clock.at = noon;
  await sql`truncate status_pages, incidents, results, results_daily, rollup_progress cascade`;
  forget();
});

t.test("how states are named and which one wins", async (t) => {
  t.strictSame(banner(["operational", "operational"]), { state: "operational", label: "All Systems Operational" });
  t.strictSame(banner(["operational", "maintenance"]), { state: "maintenance", label: "Maintenance in progress" });
  t.strictSame(banner(["degraded", "maintenance"]), { state: "degraded", label: "Minor Service Disruption" });
  t.strictSame(banner(["degraded", "partial_outage", "operational"]), { state: "partial_outage", label: "Partial System Outage" });
  t.strictSame(banner(["maintenance", "major_outage", "no_data"]), { state: "major_outage", label: "Major System Outage" });
  t.strictSame(banner(["no_data", "operational"]), { state: "operational", label: "All Systems Operational" });
  t.strictSame(banner(["no_data", "no_data"]), { state: "no_data", label: "No Monitoring Data" });
  t.strictSame(banner([]), { state: "no_data", label: "No Monitoring Data" });

  const state = (
    severity: "minor" | "major" | "critical" | null,
    impact: "degraded" | "partial_outage" | "major_outage" = "degraded",
    status: "up" | "unknown" | "down" = "up",
    inMaintenance = false,
  ) => componentState({ inMaintenance, incident: severity === null ? null : { severity, impact }, status });
  t.equal(state(null), "operational");
  t.equal(state(null, "degraded", "down"), "operational", "a failure that is not confirmed is no incident");
  t.equal(state(null, "degraded", "unknown"), "no_data");
  t.equal(state("minor", "major_outage"), "degraded");
  t.equal(state("major", "partial_outage"), "partial_outage");
  t.equal(state("major", "degraded"), "partial_outage", "raised by a person");
  t.equal(state("major", "major_outage"), "major_outage");
  t.equal(state("critical", "partial_outage"), "major_outage");
  t.equal(state("major", "major_outage", "unknown"), "major_outage", "silence does not close an incident");
  t.equal(state("critical", "major_outage", "down", true), "maintenance");
});

t.test("the cells of days", async (t) => {
  const midnight = Date.UTC(2026, 10, 20);
  const all = new Set(["2026-11-18", "2026-11-19", "2026-11-20"]);
  const cells = (incidents: IncidentSpan[], options: { checked?: Set<string>; maintenance?: { start: number; end: number | null }[] } = {}) =>
    dayCells(noon, 3, { incidents, maintenance: options.maintenance ?? [], checkedDays: options.checked ?? all }).map((cell) => [cell.state, cell.downtime_secs]);
  const major = (start: number, end: number | null, impact: IncidentSpan["impact"] = "major_outage"): IncidentSpan => ({ start, end, severity: "major", impact });

  t.strictSame(
    dayCells(noon, 3, { incidents: [], maintenance: [], checkedDays: all }).map((cell) => cell.date),
    ["2026-11-18", "2026-11-19", "2026-11-20"],
    "oldest first, today last",
  );
  t.strictSame(cells([]), [
    ["operational", 0],
    ["operational", 0],
    ["operational", 0],
  ]);
  t.strictSame(cells([], { checked: new Set(["2026-11-20"]) }), [
    ["no_data", 0],
    ["no_data", 0],
    ["operational", 0],
  ]);
  t.strictSame(
    cells([major(midnight - 10 * minute, midnight + 5 * minute)]),
    [
      ["operational", 0],
      ["major_outage", 600],
      ["major_outage", 300],
    ],
    "split at midnight UTC",
  );
  t.strictSame(
    cells([major(midnight - hour, midnight)]),
    [
      ["operational", 0],
      ["major_outage", 3600],
      ["operational", 0],
    ],
    "the end does not belong to it",
  );
  t.strictSame(
    cells([major(noon - 30 * minute, null, "partial_outage")]),
    [
      ["operational", 0],
      ["operational", 0],
      ["partial_outage", 1800],
    ],
    "until now while it lasts",
  );
  t.strictSame(cells([major(midnight - 30 * day, null)]), [
    ["major_outage", 86_400],
    ["major_outage", 86_400],
    ["major_outage", 13 * 3600],
  ]);
  t.strictSame(
    cells([{ start: noon - hour, end: noon, severity: "minor", impact: "degraded" }]),
    [
      ["operational", 0],
      ["operational", 0],
      ["degraded", 0],
    ],
    "slow is not down",
  );
  t.strictSame(
    cells([major(noon - 2 * hour, noon - hour, "partial_outage"), { start: noon - minute, end: noon, severity: "critical", impact: "partial_outage" }]),
    [
      ["operational", 0],
      ["operational", 0],
      ["major_outage", 3660],
    ],
    "the worst of the day, all of its downtime",
  );
  t.strictSame(cells([major(midnight, midnight)]), [
    ["operational", 0],
    ["operational", 0],
    ["major_outage", 0],
  ]);
  t.strictSame(
    cells([major(noon - hour, noon)], { maintenance: [{ start: midnight - hour, end: midnight + hour }] }),
    [
      ["operational", 0],
      ["maintenance", 0],
      ["maintenance", 3600],
    ],
    "maintenance dominates",
  );
});

t.test("the page as JSON shows what it may, and nothing else", async (t) => {
  const pageId = await publish(ctx.orgId, { display_name: "Acme", about: "Hello" });
  const [web, api, search, hidden] = [
    await newTarget(ctx.orgId, "web-prod-3"),
    await newTarget(ctx.orgId, "API"),
    await newTarget(ctx.orgId, "Search"),
    await newTarget(ctx.orgId, "Secret"),
  ];
  await show(pageId, search);
  await show(pageId, web, { name: "Website", group: "Core", description: "The shop" });
  await show(pageId, api, { group: "Core" });
  for (const id of [web, api]) await setStatus(id, "up");
  await setStatus(search, "up", false);
  await addResults(web, [{ at: noon - hour }, { at: noon - 2 * hour }, { at: noon - 3 * hour, status: "down" }]);
  await sql`insert into results_daily values (${web}, '2026-11-19', 5, 0, 0, 0), (${web}, '2026-08-22', 0, 1000, 0, 0)`;
  const open = await addIncident(ctx.orgId, api, { started: noon - 38 * minute, impact: "partial_outage", peak: "major_outage", description: "Being looked at" });
  await addUpdate(ctx.orgId, open, noon - 30 * minute, "investigating", "We see errors.");
  await addUpdate(ctx.orgId, open, noon - 10 * minute, "identified", "It is the database.");
  const past = await addIncident(ctx.orgId, web, { started: noon - 26 * hour, ended: noon - 25 * hour, impact: "degraded", severity: "minor" });
  await addIncident(ctx.orgId, web, { started: noon - 3 * hour, ended: noon - 2 * hour, retracted: true });
  await addIncident(ctx.orgId, web, { started: noon - 40 * day, ended: noon - 39 * day });
  await addIncident(ctx.orgId, hidden, { started: noon - hour });

  const { status, body, headers } = await ask("GET", "/api/public/v1/status");
  t.equal(status, 200);
  t.equal(headers.get("cache-control"), "public, max-age=10, stale-while-revalidate=30");
  t.strictSame(Object.keys(body).sort(), ["active_incidents", "active_maintenance", "generated_at", "groups", "overall", "page", "recent_incidents", "upcoming_maintenance"]);
  t.strictSame(body.overall, { state: "partial_outage", label: "Partial System Outage" });
  t.strictSame(body.page, { name: "Acme", about: "Hello", logo_url: null });
  t.equal(body.generated_at, iso(noon));
  t.strictSame(
    body.groups.map((group: { name: string | null; components: { name: string; status: string }[] }) => [
      group.name,
      ...group.components.map((component) => `${component.name}: ${component.status}`),
    ]),
    [
      ["Core", "Website: operational", "API: partial_outage"],
      [null, "Search: no_data"],
    ],
    "groups stay together, the rest comes last",
  );
  const website = body.groups[0].components[0];
  t.strictSame(Object.keys(website).sort(), ["description", "history", "id", "name", "status", "uptime_pct"]);
  t.match(website, { id: web, description: "The shop", uptime_pct: 87.5 }, "7 of the 8 runs of 90 days; what is older does not count");
  t.equal(website.history.length, 90);
  t.strictSame(website.history.slice(-3), [
    { date: "2026-11-18", state: "no_data", downtime_secs: 0 },
    { date: "2026-11-19", state: "degraded", downtime_secs: 0 },
    { date: "2026-11-20", state: "operational", downtime_secs: 0 },
  ]);
  t.strictSame(body.groups[1].components[0].uptime_pct, null);
  t.strictSame(body.active_incidents, [
    {
      id: open,
      title: "API major outage",
      description: "Being looked at",
      state: "open",
      status: "partial_outage",
      severity: "major",
      component: { id: api, name: "API" },
      started_at: iso(noon - 38 * minute),
      ended_at: null,
      duration_secs: null,
      updates: [
        { phase: "identified", message: "It is the database.", created_at: iso(noon - 10 * minute) },
        { phase: "investigating", message: "We see errors.", created_at: iso(noon - 30 * minute) },
      ],
    },
  ]);
  t.match(body.recent_incidents, [{ id: past, title: "Website degraded", duration_secs: 3600, updates: [] }]);
  t.equal(body.recent_incidents.length, 1, "30 days, and nothing that proved to be no outage");
  t.strictSame([body.active_maintenance, body.upcoming_maintenance], [[], []]);
  t.notMatch(JSON.stringify(body), /secret\.test|bearer|sealed|ECONNREFUSED|10\.1\.2\.3|web-prod/, "neither what is checked nor what it answered");

  const history = await ask("GET", `/api/public/v1/components/${web}/history?days=2`);
  t.match(history, { status: 200, body: { id: web, name: "Website", days: 2, uptime_pct: 87.5, history: website.history.slice(-2) } });
  t.equal((await ask("GET", `/api/public/v1/components/${web}/history`)).body.history.length, 90);
  t.equal((await ask("GET", `/api/public/v1/components/${web}/history?days=400`)).body.history.length, 90);
  t.match(await ask("GET", `/api/public/v1/components/${web}/history?days=0`), { status: 400, body: { error: { code: "INVALID_QUERY", field: "/query/days" } } });
  t.match((await ask("GET", "/api/public/v1/incidents?limit=1&offset=1")).body, { total: 2, limit: 1, offset: 1, items: [{ id: past }] });
  t.strictSame((await ask("GET", `/api/public/v1/incidents/${open}`)).body, body.active_incidents[0]);
});

t.test("what is not on the served page does not exist", async (t) => {
  const pageId = await publish(ctx.orgId);
  const [shown, hidden, foreign] = [await newTarget(ctx.orgId), await newTarget(ctx.orgId), await newTarget(stranger.orgId)];
  await show(pageId, shown);
  await show(await publish(stranger.orgId), foreign);
  await show(await publish(ctx.orgId), hidden);
  const old = await addIncident(ctx.orgId, shown, { started: noon - 60 * day, ended: noon - 59 * day, title: "An old one" });
  const wrong = await addIncident(ctx.orgId, shown, { started: noon - 2 * hour, ended: noon - hour, retracted: true });
  const [a, b] = [await addIncident(ctx.orgId, hidden, { started: noon - hour }), await addIncident(stranger.orgId, foreign, { started: noon - hour })];
  t.match(await ask("GET", `/api/public/v1/incidents/${old}`), { status: 200, body: { title: "An old one" } }, "a link to an incident lives longer than the list");
  for (const id of [wrong, a, b, newId(), "nonsense"]) {
    t.match(await ask("GET", `/api/public/v1/incidents/${id}`), { status: 404, body: { error: { code: "INCIDENT_NOT_FOUND" } } });
    t.match(await ask("GET", `/status/incidents/${id}`), { status: 404, text: /No such incident/ });
  }
  for (const id of [hidden, foreign, newId(), "nonsense"])
    t.match(await ask("GET", `/api/public/v1/components/${id}/history`), { status: 404, body: { error: { code: "COMPONENT_NOT_FOUND" } } });
  t.match((await ask("GET", "/api/public/v1/incidents")).body, { total: 0, items: [] });
});

t.test("without a published page there is nothing, and it says so", async (t) => {
  const check = async (why: string) => {
    forget();
    for (const path of ["status", "incidents", `incidents/${newId()}`, `components/${newId()}/history`]) {
      t.match(await ask("GET", `/api/public/v1/${path}`), { status: 404, body: { error: { code: "STATUS_PAGE_NOT_FOUND" } } }, `${why}: ${path}`);
    }
    const page = await ask("GET", "/status");
    t.match(page, { status: 404, text: /Nobody has published a status page at this address yet\./ }, why);
    t.equal(page.headers.get("cache-control"), "no-store");
  };
  await check("no page at all");
  await publish(ctx.orgId, {}, false);
  await check("one that is not enabled");
  await publish(stranger.orgId);
  await check("one of another organisation");
  await publish(ctx.orgId);
  visited = { ...system, sql: new Proxy(sql, {}), config: { ...system.config, tenancy: { ...system.config.tenancy, path_based_public_routes: false } } as Config };
  t.equal((await ask("GET", "/status")).status, 404, "one that has no path");
});

t.test("a crowd makes one computation in ten seconds, and sees the last good page while there is none", async (t) => {
  let computed = 0;
  let fail = false;
  const pageId = await publish(ctx.orgId);
  await show(pageId, await newTarget(ctx.orgId));
  // Each computation begins with the page: counting those statements counts computations.
  const watched = new Proxy(sql, {
    apply(target, self, args: unknown[]) {
      if (String((args[0] as string[]).join("")).includes("from status_pages p")) {
        computed++;
        if (fail) return Promise.reject(Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" }));
      }
      return Reflect.apply(target as never, self, args);
    },
  });
  visited = { ...system, sql: watched };
  const crowd = async (size: number) => (await Promise.all(Array.from({ length: size }, () => ask("GET", "/api/public/v1/status")))).map((answer) => answer.status);

  fail = true;
  t.match(await ask("GET", "/api/public/v1/status"), { status: 503, body: { error: { code: "STATUS_DATA_UNAVAILABLE" } } });
  const page = await ask("GET", "/status");
  t.match(page, { status: 503, text: /The status is not available/ });
  t.equal(page.headers.get("retry-after"), "10");
  fail = false;
  computed = 0;
  t.ok((await crowd(60)).every((status) => status === 200));
  t.equal(computed, 1);
  clock.at += 10_000;
  await crowd(5);
  t.equal(computed, 1);
  clock.at += 1;
  await crowd(5);
  t.equal(computed, 2);

  fail = true;
  clock.at += 3_600_000 - 1;
  const stale = await ask("GET", "/api/public/v1/status");
  t.match(stale, { status: 200, body: { generated_at: iso(noon + 10_001) } }, "the last good copy, with its own time");
  clock.at += 3_600_000 + 10_000;
  t.equal((await ask("GET", "/api/public/v1/status")).status, 503, "an hour in which nobody asked is the end of it");
  fail = false;
  t.equal((await ask("GET", "/api/public/v1/status")).status, 200, "a failure is not kept");
});

t.test("a computation that hangs does not keep visitors who have a copy waiting", async (t) => {
  const fallbacks: unknown[] = [];
  const cache = new LastGoodCache<{ n: number }>({ freshMs: 10_000, lastGoodMs: 60_000, patienceMs: 20, max: 10, clock, onFallback: (error) => fallbacks.push(error) });
  t.strictSame(await cache.get("a", async () => ({ n: 1 })), { n: 1 });
  clock.at += 10_001;
  t.strictSame(await cache.get("a", () => sleep(200, { n: 2 })), { n: 1 });
  t.match(fallbacks, [/no answer within 20 ms/]);
  await sleep(250);
  clock.at += 10_001;
  t.strictSame(await cache.get("a", async () => Promise.reject(new Error("away"))), { n: 2 }, "what came late is the newer copy");
  const none = new LastGoodCache<{ n: number }>({ freshMs: 10, lastGoodMs: 0, patienceMs: 20, max: 10, clock, onFallback: () => {} });
  await none.get("a", async () => ({ n: 1 }));
  clock.at += 11;
  await t.rejects(
    none.get("a", async () => Promise.reject(new Error("away"))),
    { code: "STATUS_DATA_UNAVAILABLE" },
  );
});

t.test("two processes show the same", async (t) => {
  const pageId = await publish(ctx.orgId);
  await show(pageId, await newTarget(ctx.orgId));
  const own = await ask("GET", "/api/public/v1/status");
  visited = { ...system, sql: otherSql };
  t.strictSame((await ask("GET", "/api/public/v1/status")).body, own.body);
});

t.test("the page as HTML", async (t) => {
  const pageId = await publish(ctx.orgId, {
    about: "We **care**. <script>x</script>",
    brand_color: "#7a3cff",
    style: "dark",
    website_url: "https://acme.example/",
    hide_from_search: true,
  });
  const empty = await ask("GET", "/status");
  t.match(empty, { status: 200, text: /No components yet/ });

  const id = await newTarget(ctx.orgId);
  await show(pageId, id, { name: "<b>Shop</b>", group: "Core & more" });
  await setStatus(id, "down");
  await addResults(id, [{ at: noon - minute, status: "down" }]);
  const incident = await addIncident(ctx.orgId, id, { started: noon - 38 * minute, title: "Payments <fail>" });
  await addUpdate(ctx.orgId, incident, noon - 5 * minute, "identified", "Line one\n<img src=x>");
  forget();
  const { status, headers, text } = await ask("GET", "/status");
  t.equal(status, 200);
  t.equal(headers.get("cache-control"), "public, max-age=10, stale-while-revalidate=30");
  t.equal(headers.get("x-robots-tag"), "noindex");
  t.match(headers.get("content-security-policy"), /^default-src 'self'; /);
  t.notMatch(headers.get("content-security-policy"), /unsafe|nonce/);
  t.notMatch(text, /<script(?![^>]*\bsrc=)|\son\w+=|\sstyle=/, "nothing inline that the policy forbids");
  t.match(text, /<html lang="en" data-theme="dark">/);
  t.match(text, /<meta name="robots" content="noindex">/);
  t.match(text, /We <strong>care<\/strong>\. &lt;script&gt;x&lt;\/script&gt;/);
  t.match(text, /Major System Outage/);
  t.match(text, /&lt;b&gt;Shop&lt;\/b&gt; is affected since <time datetime="2026-11-20T12:22:00.000Z" data-as="clock" title="2026-11-20 12:22:00 UTC">12:22<\/time>/);
  t.match(text, /Checked <time [^>]*>12 s ago<\/time>/);
  t.match(text, /Payments &lt;fail&gt;/);
  t.match(text, /Line one\n&lt;img src=x&gt;/);
  t.match(text, /<title>20 Nov 2026: Major outage, down 38 min<\/title>/);
  t.equal(text.match(/<path class="c-/g)?.length, 90, "a cell a day");
  t.notMatch(text, /secret\.test|ECONNREFUSED/);
  t.ok(gzipSync(text).length < 10_000);

  const fragment = await ask("GET", "/status?fragment=1");
  t.match(fragment, { status: 200, text: /Major System Outage/ });
  t.notMatch(fragment.text, /<html|<header|<footer|Powered by/);
  t.match(await ask("GET", `/status/incidents/${incident}`), { status: 200, text: /Payments &lt;fail&gt;[\s\S]*Identified/ });
});

t.test("the Markdown of the about text", async (t) => {
  const cases: [string, string][] = [
    ["One\ntwo\n\nThree", "<p>One<br>two</p><p>Three</p>"],
    ["- a\n- **b**", "<ul><li>a</li><li><strong>b</strong></li></ul>"],
    ["*em* **strong** `a*b*c`", "<p><em>em</em> <strong>strong</strong> <code>a*b*c</code></p>"],
    ["[us](https://a.test/?x=1&y=*2*)", '<p><a href="https://a.test/?x=1&amp;y=*2*" rel="nofollow noopener">us</a></p>'],
    ["[x](javascript:alert(1)) [y](//a.test)", "<p>[x](javascript:alert(1)) [y](//a.test)</p>"],
    ['<a href="x">&', "<p>&lt;a href=&quot;x&quot;&gt;&amp;</p>"],
    ['[a](https://a.test/"onmouseover="x)', '<p><a href="https://a.test/&quot;onmouseover=&quot;x" rel="nofollow noopener">a</a></p>'],
    ["2 * 3 * 4 ** 5", "<p>2 * 3 * 4 ** 5</p>"],
    ["  \n\n ", ""],
  ];
  for (const [text, html] of cases) t.equal(aboutHtml(text).html, html, text);
});

import { createRequire } from "node:module";
import { runInNewContext } from "node:vm";
import { gzipSync } from "node:zlib";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { newId } from "@statusmesh/shared/ids";
import type { Config } from "../../config/config.ts";
import type { System } from "../../platform/context.ts";
import { ensurePartitions } from "../../platform/db/distributed/partitions.ts";
import { loadAssets } from "../../platform/html/assets.ts";
import { mountPages } from "../../platform/html/pages.ts";
import { openViews } from "../../platform/html/views.ts";
import { createWindow, deleteWindow, listOccurrences, updateOccurrence } from "../../alerting/maintenance/service.ts";
import { languages } from "../languages/schema.ts";
import { textsOf } from "../languages/service.ts";
import type { Branding } from "../status-pages/schema.ts";
import { publicRoutes } from "./api.ts";
import { kumaRoutes } from "./feeds/kuma.ts";
import { publicPages } from "./pages.ts";
import { serve } from "../../testing/app.ts";
import { day, hour, minute, noon } from "../../testing/clock.ts";
import { rollUp } from "../../monitoring/results/rollups/rollup.ts";
import { addIncident, addResults, addUpdate, newTarget, setStatus } from "../../testing/scene.ts";
import { newOrg, openWorld } from "../../testing/world.ts";

const { sql, pool, clock, system } = await openWorld(t);
await ensurePartitions(sql, new Date(noon - 91 * day), new Date(noon + 7 * day));
const ctx = await newOrg(system);
const stranger = await newOrg(system);
let visited: System = system;
const views = openViews({ assets: loadAssets() });
const pages = mountPages(publicPages, { public: async () => visited, tenant: async () => ctx }, views);
const ask = await serve(t, system, [...publicRoutes, ...kumaRoutes], {
  public: () => visited,
  page: pages,
});
const iso = (at: number) => new Date(at).toISOString();

/** A process that has no copy yet: the cache goes by the pool. */
const forget = () => {
  visited = { ...system, sql: new Proxy(sql, {}) };
};

async function publish(orgId: string, branding: Partial<Branding> = {}, enabled = true): Promise<string> {
  const id = newId();
  const at = new Date(clock.at);
  const whole: Branding = {
    display_name: null,
    about: null,
    brand_color: null,
    style: "auto",
    show_powered_by: true,
    website_url: null,
    hide_from_search: false,
    timezone: "UTC",
    language: "en",
    languages: null,
    ...branding,
  };
  await sql`
    insert into status_pages (id, org_id, slug, name, enabled, branding, created_at, updated_at)
    values (${id}, ${orgId}, ${`s-${id.slice(-12)}`}, 'Acme status', ${enabled}, ${sql.json(whole)}, ${at}, ${at})`;
  return id;
}

/** Adds a component. Its monitor is older than all of its results. */
async function show(
  pageId: string,
  targetId: string,
  binding: { name?: string; group?: string; description?: string; created?: number } = {},
): Promise<void> {
  await sql`update targets set created_at = ${new Date(binding.created ?? noon - 100 * day)} where id = ${targetId}`;
  await sql`
    insert into status_page_components
      (page_id, target_id, org_id, public_name, public_description, public_group, sort_order)
    select ${pageId}, id, org_id, ${binding.name ?? null}, ${binding.description ?? null}, ${binding.group ?? null},
      (select count(*) from status_page_components) from targets where id = ${targetId}`;
}

t.beforeEach(async () => {
  clock.at = noon;
  await sql`truncate status_pages, incidents, results, results_daily, rollup_progress cascade`;
  forget();
});

t.test("the JSON of a page has its public fields and no others", async (t) => {
  const pageId = await publish(ctx.orgId, { display_name: "Acme", about: "Hello" });
  const [web, api, search, hidden] = [
    await newTarget(ctx, "web-prod-3"),
    await newTarget(ctx, "API"),
    await newTarget(ctx, "Search"),
    await newTarget(ctx, "Secret"),
  ];
  await show(pageId, web, { name: "Website", group: "Core", description: "The shop" });
  await show(pageId, api, { group: "Core" });
  await show(pageId, search);
  for (const id of [web, api]) await setStatus(system, id, "up");
  await setStatus(system, search, "up", false);
  await addResults(ctx, web, [{ at: noon - hour }, { at: noon - 2 * hour }, { at: noon - 3 * hour, status: "down" }]);
  await sql`insert into results_daily values (${web}, '2026-11-19', 5, 0, 0, 0), (${web}, '2026-08-22', 0, 1000, 0, 0)`;
  const open = await addIncident(ctx, api, {
    started: noon - 38 * minute,
    impact: "partial_outage",
    peak: "major_outage",
    description: "Being looked at",
  });
  await addUpdate(ctx, open, noon - 30 * minute, "investigating", "We see errors.");
  await addUpdate(ctx, open, noon - 10 * minute, "identified", "It is the database.");
  const past = await addIncident(ctx, web, {
    started: noon - 26 * hour,
    ended: noon - 25 * hour,
    impact: "degraded",
    severity: "minor",
  });
  await addIncident(ctx, web, { started: noon - 3 * hour, ended: noon - 2 * hour, retracted: true });
  await addIncident(ctx, web, { started: noon - 40 * day, ended: noon - 39 * day });
  await addIncident(ctx, hidden, { started: noon - hour });

  const { status, body, headers } = await ask("GET", "/api/public/v1/status");
  t.equal(status, 200);
  t.equal(headers.get("cache-control"), "public, max-age=10, stale-while-revalidate=30");
  t.strictSame(Object.keys(body).sort(), [
    "active_incidents",
    "active_maintenance",
    "entries",
    "generated_at",
    "groups",
    "overall",
    "page",
    "recent_incidents",
    "upcoming_maintenance",
  ]);
  t.strictSame(body.overall, { state: "partial_outage", label: "Partial System Outage" });
  t.strictSame(body.page, { name: "Acme", about: "Hello", logo_url: null, logo_dark_url: null });
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
    "in the order of the builder",
  );
  const website = body.groups[0].components[0];
  t.strictSame(Object.keys(website).sort(), ["description", "history", "id", "name", "status", "uptime_pct"]);
  matchObject(
    t,
    website,
    { id: web, description: "The shop", uptime_pct: 100 },
    "a failing run is no confirmed outage, and a minor incident counts as up",
  );
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
      title: "API partial outage",
      description: "Being looked at",
      state: "open",
      status: "partial_outage",
      peak_status: "major_outage",
      severity: "major",
      component: { id: api, name: "API" },
      started_at: iso(noon - 38 * minute),
      ended_at: null,
      duration_secs: null,
      outage_since: iso(noon - 38 * minute),
      past_outage_secs: 0,
      updates_total: 2,
      updates: [
        { phase: "identified", message: "It is the database.", created_at: iso(noon - 10 * minute) },
        { phase: "investigating", message: "We see errors.", created_at: iso(noon - 30 * minute) },
      ],
    },
  ]);
  matchObject(t, body.recent_incidents, [{ id: past, title: "Website degraded", duration_secs: 3600, updates: [] }]);
  t.equal(body.recent_incidents.length, 1, "30 days, and nothing that proved to be no outage");
  t.strictSame([body.active_maintenance, body.upcoming_maintenance], [[], []]);
  t.strictSame(body.entries, [
    {
      id: open,
      title: "API partial outage",
      component_ids: [api],
      incident_ids: [open],
      since: iso(noon - 38 * minute),
      state: "open",
    },
    {
      id: past,
      title: "Website degraded",
      component_ids: [web],
      incident_ids: [past],
      since: iso(noon - 26 * hour),
      state: "closed",
    },
  ]);
  t.notMatch(
    JSON.stringify(body),
    /secret\.test|bearer|sealed|ECONNREFUSED|10\.1\.2\.3|web-prod/,
    "neither what is checked nor what it answered",
  );

  const history = await ask("GET", `/api/public/v1/components/${web}/history?days=2`);
  matchObject(t, history, {
    status: 200,
    body: { id: web, name: "Website", days: 2, uptime_pct: 100, history: website.history.slice(-2) },
  });
  t.equal((await ask("GET", `/api/public/v1/components/${web}/history`)).body.history.length, 90);
  t.equal((await ask("GET", `/api/public/v1/components/${web}/history?days=400`)).body.history.length, 90);
  matchObject(t, await ask("GET", `/api/public/v1/components/${web}/history?days=0`), {
    status: 400,
    body: { error: { code: "INVALID_QUERY", field: "/query/days" } },
  });
  matchObject(t, (await ask("GET", "/api/public/v1/incidents?limit=1&offset=1")).body, {
    total: 2,
    limit: 1,
    offset: 1,
    items: [{ id: past }],
  });
  t.strictSame((await ask("GET", `/api/public/v1/incidents/${open}`)).body, body.active_incidents[0]);
});

t.test("uptime of a new monitor counts from its creation, not from midnight", async (t) => {
  const pageId = await publish(ctx.orgId);
  const id = await newTarget(ctx, "New");
  await show(pageId, id, { created: noon - 4 * minute });
  await setStatus(system, id, "up");
  await addResults(ctx, id, [{ at: noon - 3 * minute, status: "down" }, { at: noon - minute }]);
  await addIncident(ctx, id, { started: noon - 3 * minute, ended: noon - 2 * minute });
  const { body } = await ask("GET", "/api/public/v1/status");
  t.equal(body.groups[0].components[0].uptime_pct, 75);
});

t.test("components and incidents of other pages are not found", async (t) => {
  const pageId = await publish(ctx.orgId);
  const [shown, hidden, foreign] = [await newTarget(ctx), await newTarget(ctx), await newTarget(stranger)];
  await show(pageId, shown);
  await show(await publish(stranger.orgId), foreign);
  await show(await publish(ctx.orgId), hidden);
  const old = await addIncident(ctx, shown, { started: noon - 60 * day, ended: noon - 59 * day, title: "An old one" });
  const wrong = await addIncident(ctx, shown, { started: noon - 2 * hour, ended: noon - hour, retracted: true });
  const [a, b] = [
    await addIncident(ctx, hidden, { started: noon - hour }),
    await addIncident(stranger, foreign, { started: noon - hour }),
  ];
  matchObject(
    t,
    await ask("GET", `/api/public/v1/incidents/${old}`),
    { status: 200, body: { title: "An old one" } },
    "a link to an incident lives longer than the list",
  );
  for (const id of [wrong, a, b, newId(), "nonsense"]) {
    matchObject(t, await ask("GET", `/api/public/v1/incidents/${id}`), {
      status: 404,
      body: { error: { code: "INCIDENT_NOT_FOUND" } },
    });
    matchObject(t, await ask("GET", `/status/incidents/${id}`), { status: 404, text: /Incident not found/ });
  }
  for (const id of [hidden, foreign, newId(), "nonsense"])
    matchObject(t, await ask("GET", `/api/public/v1/components/${id}/history`), {
      status: 404,
      body: { error: { code: "COMPONENT_NOT_FOUND" } },
    });
  matchObject(t, (await ask("GET", "/api/public/v1/incidents")).body, { total: 0, items: [] });
});

t.test("without a published page every public path is 404", async (t) => {
  const check = async (why: string) => {
    forget();
    for (const path of ["status", "incidents", `incidents/${newId()}`, `components/${newId()}/history`]) {
      matchObject(
        t,
        await ask("GET", `/api/public/v1/${path}`),
        { status: 404, body: { error: { code: "STATUS_PAGE_NOT_FOUND" } } },
        `${why}: ${path}`,
      );
    }
    const page = await ask("GET", "/status");
    matchObject(t, page, { status: 404, text: /No status page is published at this address\./ }, why);
    t.equal(page.headers.get("cache-control"), "no-store");
  };
  await check("no page at all");
  await publish(ctx.orgId, {}, false);
  await check("one that is not enabled");
  await publish(stranger.orgId);
  await check("one of another organisation");
  await publish(ctx.orgId);
  visited = {
    ...system,
    sql: new Proxy(sql, {}),
    config: { ...system.config, tenancy: { ...system.config.tenancy, path_based_public_routes: false } } as Config,
  };
  t.equal((await ask("GET", "/status")).status, 404, "one that has no path");
});

t.test("badges of a page and of its components take the statements of one reading of the page", async (t) => {
  const pageId = await publish(ctx.orgId);
  const ids = await Promise.all(Array.from({ length: 5 }, async () => await newTarget(ctx)));
  for (const id of ids) await show(pageId, id);
  let statements = 0;
  const counted = new Proxy(sql, {
    apply(target, self, args: unknown[]) {
      // Other calls make helpers and parts of statements.
      if (/^\s*(?:select|with)\b/.test([args[0]].flat().join(""))) statements++;
      return Reflect.apply(target as never, self, args);
    },
  });
  visited = { ...system, sql: counted };
  const read = async (paths: readonly string[]) => {
    statements = 0;
    const replies = await Promise.all(paths.map((path) => ask("GET", path)));
    t.ok(replies.every(({ status }) => status === 200));
    return statements;
  };
  const badges = ["", ...ids.map((id) => `?component=${id}`)].map((query) => `/api/public/v1/badge.svg${query}`);
  const first = await read(badges);
  t.ok(first > 0 && first <= 12, `${first} statements for ${badges.length} badges`);
  t.equal(await read(badges), 0, "none while the page is fresh");
  clock.at += 10_001;
  const page = await read(["/api/public/v1/status"]);
  clock.at += 10_001;
  t.equal(await read(badges), page, "then those of the page, once");
});

t.test(
  "concurrent visitors share one computation in ten seconds; a failed one serves the last good copy",
  async (t) => {
    let computed = 0;
    let fail = false;
    const pageId = await publish(ctx.orgId);
    await show(pageId, await newTarget(ctx));
    // Each computation begins with the page: counting those statements counts computations.
    const watched = new Proxy(sql, {
      apply(target, self, args: unknown[]) {
        // Names of columns are strings.
        const statement = [args[0]].flat().join("");
        if (statement.includes("from status_pages p")) computed++;
        if (fail && /from status_page(?:s p|_components c)/.test(statement))
          return Promise.reject(Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" }));
        return Reflect.apply(target as never, self, args);
      },
    });
    visited = { ...system, sql: watched };
    const crowd = async (size: number) =>
      (await Promise.all(Array.from({ length: size }, () => ask("GET", "/api/public/v1/status")))).map(
        (answer) => answer.status,
      );

    fail = true;
    matchObject(t, await ask("GET", "/api/public/v1/status"), {
      status: 503,
      body: { error: { code: "STATUS_DATA_UNAVAILABLE" } },
    });
    const page = await ask("GET", "/status");
    matchObject(t, page, { status: 503, text: /Status not available/ });
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
    matchObject(
      t,
      stale,
      { status: 200, body: { generated_at: iso(noon + 10_001) } },
      "the last good copy, with its own time",
    );
    clock.at += 3_600_000 + 10_000;
    t.equal((await ask("GET", "/api/public/v1/status")).status, 503, "an unused copy is dropped after an hour");
    fail = false;
    t.equal((await ask("GET", "/api/public/v1/status")).status, 200, "a failure is not kept");
  },
);

t.test("lists show the newest 20 updates of an incident, with a link to the rest", async (t) => {
  const pageId = await publish(ctx.orgId);
  const web = await newTarget(ctx);
  await show(pageId, web);
  const incident = await addIncident(ctx, web, { started: noon - hour });
  for (let n = 1; n <= 30; n++) await addUpdate(ctx, incident, noon - hour + n * 1000, "monitoring", `Update ${n}.`);
  const { body } = await ask("GET", "/api/public/v1/status");
  const [listed] = body.active_incidents;
  t.equal(listed.updates_total, 30);
  t.strictSame(
    listed.updates.map(({ message }: { message: string }) => message),
    Array.from({ length: 20 }, (_, at) => `Update ${30 - at}.`),
  );
  t.equal((await ask("GET", `/api/public/v1/incidents/${incident}`)).body.updates.length, 30);
  const shown = async (path: string) => (await ask("GET", path)).text.match(/Update \d+\./g)?.length;
  const link = `/status/incidents/${incident}?updates=all`;
  t.equal(await shown("/status"), 20);
  t.equal(await shown(`/status/incidents/${incident}`), 20);
  t.equal(await shown(link), 30);
  for (const path of ["/status", `/status/incidents/${incident}`])
    t.match((await ask("GET", path)).text, new RegExp(`href="${link.replace("?", "\\?")}">10 earlier updates<`), path);
});

t.test("incidents of one cause are one entry, which names neither hosts nor what the page does not show", async (t) => {
  const pageId = await publish(ctx.orgId);
  const names = ["Web", "API", "Mail", "Jobs", "Search"];
  const ids: string[] = [];
  for (const name of names) {
    const id = await newTarget(ctx, name);
    await show(pageId, id, { name: `${name} <b>`, ...(name === "Search" ? {} : { group: "Core" }) });
    ids.push(id);
  }
  const [web, api, mail, jobs, search] = ids as [string, string, string, string, string];
  const gateway = await newTarget(ctx, "gw-secret-1");
  await sql`update targets set host = id::text where org_id = ${ctx.orgId}`;
  await sql`update targets set host = 'db.internal' where id in (${web}, ${api})`;
  for (const [position, child] of [api, mail, jobs].entries())
    await sql`insert into target_dependencies values (${child}, ${gateway}, ${position})`;
  const started = noon - hour;
  const first = await addIncident(ctx, web, { started: started + minute });
  const second = await addIncident(ctx, api, { started });
  const apart = await addIncident(ctx, mail, { started: started + 2 * minute });
  await addIncident(ctx, search, { started: started + 3 * minute, impact: "partial_outage" });
  await sql`
    update incidents set created_at = started_at + case when id = ${second} then interval '1 hour' else '0' end`;
  const entries = async () => {
    forget();
    return (await ask("GET", "/api/public/v1/status")).body.entries as {
      id: string;
      title: string;
      incident_ids: string[];
      state: string;
    }[];
  };
  const listOf = async () =>
    (await entries())
      .map(({ incident_ids }) => incident_ids.length)
      .toSorted()
      .join();
  t.equal(await listOf(), "1,1,2", "the parent works");
  const cause = await addIncident(ctx, gateway, { started });
  const third = await addIncident(ctx, jobs, { started: started + 5 * minute });
  await addUpdate(ctx, first, noon - minute, "identified", "The same *text*.");
  await addUpdate(ctx, second, noon - minute, "identified", "The same *text*.");
  const one = (await entries()).find(({ incident_ids: own }) => own.length > 1);
  matchObject(t, one, { id: first, title: "Core major outage", state: "open" });
  t.strictSame(one!.incident_ids, [first, apart, third, second], "the one that the page showed first is in front");

  const page = (await ask("GET", "/status")).text;
  t.match(page, /<h2 dir="auto"><a\s[^>]*>Core major outage<\/a><\/h2>/, "the banner is the most severe entry");
  t.match(page, `id="entry-${first}"`);
  t.equal(page.split("The same <em>text</em>.").length - 1, 1, "an update of several incidents is there once");
  for (const id of one!.incident_ids) {
    const own = (await ask("GET", `/status/incidents/${id}?updates=all`)).text;
    for (const name of ["Web", "API", "Mail", "Jobs"]) t.match(own, `${name} &lt;b&gt;`);
  }
  const feed = (await ask("GET", "/api/public/v1/incidents.rss")).text;
  t.equal(feed.split("<item>").length - 1, 2);
  t.match(feed, `<guid isPermaLink="false">${first}</guid>`);
  const llms = (await ask("GET", "/llms.txt")).text;
  t.equal(llms.split("/incidents/").length - 1, 2, "open entries");
  const slug = (await sql`select slug from status_pages where id = ${pageId}`)[0]!["slug"];
  matchObject(t, (await ask("GET", `/api/status-page/${slug}`)).body.incident, {
    id: first,
    content: "The same *text*.",
  });
  const everything = [page, feed, llms, JSON.stringify(await entries())].join();
  t.notMatch(everything, /db\.internal|gw-secret|\.test/);
  t.notOk(everything.includes(cause) || everything.includes(gateway), "no trace of a parent that is not on the page");

  await sql`update incidents set ended_at = ${new Date(noon)}, outage_since = null where id in (${first}, ${third})`;
  matchObject(
    t,
    (await entries()).find(({ id }) => id === first),
    { state: "open" },
    "it ends with its last one",
  );
  await sql`update incidents set visibility = 'internal' where id = ${cause}`;
  t.equal(await listOf(), "1,1,1,2", "what is internal groups nothing");
  await sql`update incidents set visibility = 'automatic'`;
  await sql`
    update status_pages set publish = '{"mode": "manual"}', publish_since = ${new Date(0)} where id = ${pageId}`;
  await sql`insert into incident_publications values (${second}, ${pageId}, ${ctx.orgId}, ${new Date(noon)}, null)`;
  matchObject(t, await entries(), [{ id: second, title: "API <b> major outage", incident_ids: [second] }]);
  await sql`delete from target_dependencies`;
});

t.test("two processes compute the same page", async (t) => {
  const pageId = await publish(ctx.orgId);
  await show(pageId, await newTarget(ctx));
  const own = await ask("GET", "/api/public/v1/status");
  visited = { ...system, sql: pool() };
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
  matchObject(t, empty, { status: 200, text: /No components yet/ });

  const id = await newTarget(ctx);
  await show(pageId, id, { name: "<b>Shop</b>", group: "Core & more" });
  await setStatus(system, id, "down");
  await addResults(ctx, id, [{ at: noon - minute, status: "down" }]);
  const incident = await addIncident(ctx, id, { started: noon - 38 * minute, title: "Payments <fail>" });
  await addUpdate(ctx, incident, noon - 5 * minute, "identified", "Line one\n<img src=x>");
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
  t.match(
    text,
    new RegExp(
      "1 of 1 component affected: &lt;b&gt;Shop&lt;/b&gt;, since " +
        '<time datetime="2026-11-20T12:22:00.000Z" data-as="clock" title="2026-11-20 12:22:00 UTC">12:22 UTC</time>',
    ),
  );
  t.match(text, /Checked\s+<time [^>]*data-as="ago"[^>]*>12:59 UTC<\/time>/);
  t.match(text, /Payments &lt;fail&gt;/);
  t.match(text, /Line one<br>&lt;img src=x&gt;/);
  t.match(text, `data-from="2026-08-23" data-days="${"n".repeat(89)}m2280"`, "a letter a day, and the downtime");
  t.match(text, /aria-label="Last 90 days: Major outage on 1 day, No data on 89 days; 20 Nov 2026: down 38 min"/);
  t.equal(text.match(/<path class="/g)?.length, 2, "a path per state");
  t.notMatch(text, /secret\.test|ECONNREFUSED/);
  t.ok(gzipSync(text).length < 10_000);

  const fragment = await ask("GET", "/status?fragment=1");
  matchObject(t, fragment, { status: 200, text: /Major System Outage/ });
  t.notMatch(fragment.text, /<html|<header|<footer|Powered by/);
  matchObject(t, await ask("GET", `/status/incidents/${incident}`), {
    status: 200,
    text: /Payments &lt;fail&gt;[\s\S]*Identified/,
  });
});

t.test("replies have entity tags; a matching If-None-Match gets 304", async (t) => {
  const pageId = await publish(ctx.orgId);
  await show(pageId, await newTarget(ctx));
  for (const path of ["/status", "/status?fragment=1", "/api/public/v1/status", "/api/public/v1/badge.svg"]) {
    const first = await ask("GET", path);
    const tag = first.headers.get("etag");
    t.match(tag, /^(?:W\/)?"[\w-]{22}(?:-gzip)?"$/, path);
    const again = await ask("GET", path, undefined, { "if-none-match": tag! });
    matchObject(t, [again.status, again.text], [304, ""], path);
    t.equal(again.headers.get("cache-control"), "public, max-age=10, stale-while-revalidate=30", path);
    t.equal((await ask("GET", path, undefined, { "if-none-match": '"other"' })).status, 200, path);
  }
});

t.test("data of 1 kB and more is compressed, with an entity tag for each coding", async (t) => {
  const pageId = await publish(ctx.orgId);
  const id = await newTarget(ctx);
  await show(pageId, id);
  for (let n = 0; n < 5; n++) await addIncident(ctx, id, { started: noon - n * hour, ended: noon - n * hour + minute });
  const paths = ["status", "incidents", "incidents.rss", `components/${id}/history`];
  for (const path of paths.map((one) => `/api/public/v1/${one}`))
    for (let round = 0; round < 2; round++) {
      const plain = await ask("GET", path, undefined, { "accept-encoding": "identity" });
      const coded = await ask("GET", path, undefined, { "accept-encoding": "gzip, br;q=0.5" });
      t.equal(plain.headers.get("content-encoding"), null, path);
      t.equal(coded.headers.get("content-encoding"), "gzip", path);
      t.equal(coded.text, plain.text, "undone by fetch");
      t.ok(Number(coded.headers.get("content-length")) < Number(plain.headers.get("content-length")) / 2, path);
      const tags = [plain, coded].map(({ headers }) => headers.get("etag")!);
      t.not(tags[0], tags[1], `${path}: strong tags differ`);
      for (const [encoding, tag, status] of [
        ["identity", tags[0]!, 304],
        ["gzip", tags[1]!, 304],
        ["gzip", tags[0]!, 200],
        ["identity", tags[1]!, 200],
      ] as const) {
        const headers = { "accept-encoding": encoding, "if-none-match": tag };
        const again = await ask("GET", path, undefined, headers);
        t.equal(again.status, status, `${path} ${encoding} ${tag}`);
        t.match(again.headers.get("vary"), "Accept-Encoding");
      }
    }
  const small = await ask("GET", "/api/public/v1/maintenance", undefined, { "accept-encoding": "gzip" });
  t.equal(small.headers.get("content-encoding"), null, "a small one is not");
});

t.test("a feed keeps its bytes until something happens", async (t) => {
  const pageId = await publish(ctx.orgId);
  const id = await newTarget(ctx);
  await show(pageId, id);
  const feed = async () => await ask("GET", "/api/public/v1/incidents.rss");
  const built = async () => /<lastBuildDate>(.*)<\/lastBuildDate>/.exec((await feed()).text)?.[1];
  const [empty] = await sql<{ updated_at: Date }[]>`select updated_at from status_pages where id = ${pageId}`;
  t.equal(await built(), empty!.updated_at.toUTCString(), "without incidents: the last change of the page");
  await sql`update status_pages set updated_at = ${new Date(noon - 2 * hour)} where id = ${pageId}`;
  const incident = await addIncident(ctx, id, { started: noon - hour });
  await addUpdate(ctx, incident, noon - minute, "identified", "Found");
  forget();
  const first = await feed();
  clock.at += 30_000;
  const headers = { "if-none-match": first.headers.get("etag")! };
  t.equal((await ask("GET", "/api/public/v1/incidents.rss", undefined, headers)).status, 304);
  t.equal((await feed()).text, first.text);
  t.equal(await built(), new Date(noon - minute).toUTCString());
});

t.test("a page in the language of its visitors", async (t) => {
  const pageId = await publish(ctx.orgId, { language: "auto", languages: [...languages], display_name: "Acme" });
  const id = await newTarget(ctx, "Shop");
  await show(pageId, id);
  await setStatus(system, id, "down");
  await addResults(ctx, id, [{ at: noon - minute, status: "down" }]);
  const incident = await addIncident(ctx, id, { started: noon - minute });
  const read = async (path: string, accept?: string) =>
    await ask("GET", path, undefined, accept === undefined ? {} : { "accept-language": accept });
  // The second read of each is a stored reply.
  for (const _ of [1, 2])
    for (const [accept, lang] of [
      [undefined, "en"],
      ["fr-CA, en;q=0.5", "fr"],
      ["zh-CN", "zh-Hans"],
      ["zh-TW, ja;q=0.5", "ja"],
      ["pt", "pt-BR"],
      ["de;q=0.2, sv;q=0.9", "sv"],
      ["tlh, *;q=0.1", "en"],
      ["x".repeat(600), "en"],
      [`${"a-".repeat(200)}b, ${"-,;q=".repeat(5)}`, "en"],
    ] as const) {
      const page = await read("/status", accept);
      t.match(page.text, `<html lang="${lang}"`, `${accept}`);
      t.ok(page.text.includes(textsOf(lang).page.banner.major_outage), `${accept}`);
      t.match(page.headers.get("vary"), /accept-language/i);
      matchObject(t, (await read("/api/public/v1/status", accept)).body.overall, { label: "Major System Outage" });
    }
  for (const lang of languages) {
    const { page, dir } = textsOf(lang);
    const { text } = await read(`/status?lang=${lang.toLowerCase()}`, "sv");
    t.ok(text.includes(page.outage.major_outage("Shop")), lang);
    t.equal(/<html[^>]* dir="rtl"/.test(text), dir === "rtl", lang);
    t.ok(gzipSync(text).length < 40_000, `${lang}: ${gzipSync(text).length} bytes`);
    // Links keep the choice.
    t.match(text, `/status/incidents/${incident}?lang=${lang}"`);
    t.match(text, `data-live="/status?lang=${lang}&amp;fragment=1"`);
    t.ok((await read(`/status?lang=${lang}&fragment=1`)).text.includes(page.outage.major_outage("Shop")), lang);
    t.ok(
      (await read(`/status/incidents/${incident}?lang=${lang}`)).text.includes(page.outage.major_outage("Shop")),
      lang,
    );
    t.ok((await read(`/status/incidents/${newId()}?lang=${lang}`)).text.includes(page.missingIncident.heading), lang);
  }
  t.match((await read("/status?lang=tlh", "sv")).text, '<html lang="sv"', "an unknown one is ignored");
  t.match((await read("/api/public/v1/incidents.rss", "sv")).text, "<language>en</language>");
});

t.test("a page in German, with days of its own time zone", async (t) => {
  const pageId = await publish(ctx.orgId, { language: "de", timezone: "Europe/Berlin" });
  const id = await newTarget(ctx, "Kasse");
  await show(pageId, id);
  await setStatus(system, id, "down");
  await sql`insert into results_daily values (${id}, '2026-11-19', 5, 0, 0, 0)`;
  const midnight = Date.UTC(2026, 10, 19, 23);
  await sql`insert into results_hourly values (${id}, ${new Date(midnight - hour)}, 'eu', 5, 0, 0, 0)`;
  await addResults(ctx, id, [{ at: noon - minute, status: "down" }]);
  await addIncident(ctx, id, { started: midnight - 10 * minute, ended: midnight + 5 * minute });
  await addIncident(ctx, id, { started: noon - minute });
  const page = await ask("GET", "/status");
  t.match(page.text, /<html lang="de">/);
  t.match(page.text, "1 von 1 Komponente betroffen: Kasse, seit");
  t.match(page.text, "Zeiten in Europe/Berlin");
  t.match(page.text, />13:59 MEZ<\/time>/);
  const { body } = await ask("GET", "/api/public/v1/status");
  t.strictSame(body.overall, { state: "major_outage", label: "Schwerer Systemausfall" });
  matchObject(t, body.active_incidents, [{ title: "Kasse: Ausfall" }]);
  const [component] = body.groups[0].components;
  t.strictSame(component.history.slice(-3), [
    { date: "2026-11-18", state: "no_data", downtime_secs: 0 },
    { date: "2026-11-19", state: "major_outage", downtime_secs: 600 },
    { date: "2026-11-20", state: "major_outage", downtime_secs: 360 },
  ]);
  t.match((await ask("GET", "/api/public/v1/incidents.rss")).text, "<language>de</language>");
});

t.test("a draft is previewed by its own organisation only", async (t) => {
  const pageId = await publish(ctx.orgId, { brand_color: "#FFDD00" }, false);
  await show(pageId, await newTarget(ctx), { name: "Till" });
  const preview = await ask("GET", `/status-pages/${pageId}/preview`);
  matchObject(t, preview, { status: 200, text: /Till/ });
  t.match(preview.text, /\/status-ffdd00\.css"/);
  t.match(preview.headers.get("content-security-policy"), /frame-ancestors 'self'$/);
  t.equal(preview.headers.get("cache-control"), "no-store");
  t.match((await ask("GET", "/status")).headers.get("content-security-policy"), /frame-ancestors 'none'/);
  for (const id of [await publish(stranger.orgId), newId(), "nonsense"])
    t.equal((await ask("GET", `/status-pages/${id}/preview`)).status, 404, id);
});

t.test("operator texts are escaped in HTML, feed, badge and llms.txt", async (t) => {
  const evil = '</script></title><img src=x onerror=alert(1)> ]]> "quotes" \u202e 😀 &amp;';
  const pageId = await publish(ctx.orgId, { display_name: evil, about: evil });
  const id = await newTarget(ctx, evil);
  await show(pageId, id, { group: evil, description: evil });
  const incident = await addIncident(ctx, id, { started: noon - hour, title: evil, description: evil });
  await addUpdate(ctx, incident, noon - minute, "identified", evil);
  for (const path of [
    "/status",
    "/status?fragment=1",
    `/status/incidents/${incident}`,
    `/status-pages/${pageId}/preview`,
  ]) {
    const { status, text } = await ask("GET", path);
    t.equal(status, 200, path);
    t.notMatch(text, /<img|<\/script><\/title>/, path);
    t.match(text, "&lt;/script&gt;", path);
  }
  const llms = (await ask("GET", "/llms.txt")).text;
  t.notMatch(llms, /<img|\u202e/);
  t.match(llms, /^# &lt;\/script&gt;/);
  t.match(llms, /\/api\/public\/v1\/status\): the whole page as JSON/);
  const feed = (await ask("GET", "/api/public/v1/incidents.rss")).text;
  t.notMatch(feed, /<img|]]>/);
  for (const [query, status] of [
    ["days=91", 200],
    ["days=-1", 400],
    ["days=x", 400],
    ["days=1.5", 400],
  ] as const)
    t.equal((await ask("GET", `/api/public/v1/components/${id}/history?${query}`)).status, status, query);
});

t.test("feed and badges have the state of the page, with special characters in its texts", async (t) => {
  const pageId = await publish(ctx.orgId, { display_name: "A <b> & ]]> co" });
  const web = await newTarget(ctx, "Shop </svg> ]]>\u202e");
  await show(pageId, web);
  await setStatus(system, web, "up");
  const feed = await ask("GET", "/api/public/v1/incidents.rss");
  matchObject(t, feed, { status: 200, text: /<title>A &lt;b&gt; &amp; \]\]&gt; co status<\/title>/ });
  t.equal(feed.headers.get("content-type"), "application/rss+xml; charset=utf-8");
  t.equal(feed.headers.get("cache-control"), "public, max-age=10, stale-while-revalidate=30");
  t.notMatch(feed.text, "<item>");
  const badge = async (query = "") => await ask("GET", `/api/public/v1/badge.svg${query}`);
  matchObject(t, await badge(), { status: 200, text: /<title>status: All Systems Operational<\/title>/ });
  t.equal((await badge()).headers.get("content-type"), "image/svg+xml; charset=utf-8");

  const id = await addIncident(ctx, web, { started: noon - hour, title: "Payments fail", impact: "major_outage" });
  await addUpdate(ctx, id, noon - minute, "identified", "Cause \u0007 <found> & fixed");
  forget();
  const { text } = await ask("GET", "/api/public/v1/incidents.rss");
  t.match(text, "<title>Payments fail</title>");
  t.match(text, `<link>https://status.example.org/status/incidents/${id}</link>`);
  t.match(text, `<guid isPermaLink="false">${id}</guid>`);
  t.match(text, `<pubDate>${new Date(noon - hour).toUTCString()}</pubDate>`);
  t.match(text, "<description>&lt;p&gt;Cause  &amp;lt;found&amp;gt; &amp;amp; fixed&lt;/p&gt;</description>");
  const own = await badge(`?component=${web}&style=flat`);
  t.match(own.text, /<title>Shop &lt;\/svg&gt; \]\]&gt;: major outage<\/title>/);
  matchObject(t, await badge("?style=plastic"), { status: 400, body: { error: { field: "/query/style" } } });
  matchObject(t, await badge(`?component=${newId()}`), {
    status: 404,
    body: { error: { code: "COMPONENT_NOT_FOUND" } },
  });
  matchObject(t, await badge("?component=shop"), { status: 400, body: { error: { field: "/query/component" } } });
  t.strictSame((await ask("GET", "/api/public/v1/maintenance")).body, { active: [], upcoming: [] });
});

t.test("a recurring window is listed once, with its later times of the week", async (t) => {
  const pageId = await publish(ctx.orgId);
  const web = await newTarget(ctx, "Shop");
  await show(pageId, web);
  const [start, end] = [clock.at + hour, clock.at + 2 * hour];
  await createWindow(ctx, {
    title: "Backup",
    description: null,
    starts_at: iso(start),
    ends_at: iso(end),
    component_ids: [web],
    recurrence: { rule: "FREQ=DAILY", time_zone: "UTC" },
  });
  forget();
  const times = (n: number) => ({ starts_at: iso(start + n * day), ends_at: iso(end + n * day) });
  const later = [1, 2, 3, 4, 5, 6].map(times);
  const planned = { title: "Backup", ...times(0), later, components: [{ id: web, name: "Shop" }] };
  const { body } = await ask("GET", "/api/public/v1/maintenance");
  matchObject(t, body, { active: [], upcoming: [planned] });
  t.equal(body.upcoming.length, 1);
  const { text } = await ask("GET", "/status");
  for (const { starts_at, ends_at } of [times(0), ...later])
    t.ok(text.includes(`datetime="${starts_at}"`) && text.includes(`datetime="${ends_at}"`), starts_at);

  clock.at = start;
  forget();
  matchObject(t, (await ask("GET", "/api/public/v1/maintenance")).body, {
    active: [{ title: "Backup", ...times(0), later: [] }],
    upcoming: [{ ...times(1), later: later.slice(1) }],
  });
});

/** What the test needs of ical.js, whose package names no types for imports. */
interface Ical {
  parse(text: string): unknown;
  Component: new (parsed: unknown) => IcalComponent;
  Event: new (component: IcalComponent, options?: object) => IcalEvent;
  TimezoneService: { register(zone: IcalComponent): unknown };
}
interface IcalComponent {
  getAllSubcomponents(name: string): IcalComponent[];
  getFirstPropertyValue(name: string): { toString(): string } | null;
}
interface IcalTime {
  toJSDate(): Date;
}
interface IcalEvent {
  uid: string;
  sequence: number;
  summary: string;
  description: string;
  isRecurring(): boolean;
  iterator(): { next(): IcalTime | null };
  getOccurrenceDetails(at: IcalTime): { startDate: IcalTime; endDate: IcalTime };
  startDate: IcalTime;
}
const ical = createRequire(import.meta.url)("ical.js") as Ical;

t.test("maintenance as a calendar file says the times that are stored, to a reader of RFC 5545", async (t) => {
  const pageId = await publish(ctx.orgId, { display_name: "Acme" });
  const web = await newTarget(ctx, "Web; shop, \u202a\u{1f6d2}");
  const hidden = await newTarget(ctx, "hidden-1");
  await show(pageId, web);
  const day0 = Date.UTC(2026, 9, 10, 0, 30);
  clock.at = day0 - day;
  const window = (title: string, more: object = {}) =>
    createWindow(ctx, {
      title,
      starts_at: iso(day0),
      ends_at: iso(day0 + 2 * hour),
      component_ids: [web, hidden],
      ...more,
    });
  const weekly = await window("Weekly", {
    recurrence: { rule: "FREQ=WEEKLY;UNTIL=20261128", time_zone: "Europe/Berlin" },
  });
  const daily = await window("Daily", { recurrence: { rule: "FREQ=DAILY;INTERVAL=3", time_zone: "America/New_York" } });
  const long = `${"Zürich, \\ ; \u{1f6d2} ".repeat(12)}\nsecond line`;
  const once = await window("Once", { description: long });
  const gone = await window("Gone");
  await createWindow(ctx, {
    title: "Secret",
    starts_at: iso(day0),
    ends_at: iso(day0 + hour),
    component_ids: [hidden],
  });
  const { items } = await listOccurrences(ctx, weekly.id, { limit: 50, offset: 0 });
  await updateOccurrence(ctx, weekly.id, items[1]!.id, { cancelled: true });
  await updateOccurrence(ctx, weekly.id, items[3]!.id, { ends_at: iso(Date.parse(items[3]!.ends_at) + hour) });
  await deleteWindow(ctx, gone.id);
  const read = async () => {
    forget();
    return await ask("GET", "/status/maintenance.ics");
  };
  const reply = await read();
  t.equal(reply.headers.get("content-type"), "text/calendar; charset=utf-8");
  t.ok(
    reply.text.split("\r\n").every((line) => Buffer.byteLength(line) <= 75),
    "folded",
  );
  t.notMatch(reply.text, /Secret|hidden-1|\.test/);
  const calendar = new ical.Component(ical.parse(reply.text));
  for (const zone of calendar.getAllSubcomponents("vtimezone")) ical.TimezoneService.register(zone);
  const parts = calendar.getAllSubcomponents("vevent");
  const main = parts.filter((part) => part.getFirstPropertyValue("recurrence-id") === null);
  const events = main.map((part) => {
    const own = String(part.getFirstPropertyValue("uid"));
    const exceptions = parts.filter((one) => one !== part && String(one.getFirstPropertyValue("uid")) === own);
    return new ical.Event(part, { exceptions });
  });
  const byId = new Map(events.map((event) => [event.uid, event]));
  t.strictSame([...byId.keys()].toSorted(), [weekly, daily, once, gone].map(({ id }) => id).toSorted());
  t.equal(byId.get(once.id)!.description.split("\n\n")[0], long.trim());
  t.match(byId.get(once.id)!.description, "Web; shop, ", "the component of the page");
  const status = (id: string) => main[events.findIndex(({ uid }) => uid === id)]!.getFirstPropertyValue("status");
  t.strictSame([status(once.id), status(gone.id)].map(String), ["CONFIRMED", "CANCELLED"]);
  t.strictSame([byId.get(once.id)!.sequence, byId.get(weekly.id)!.sequence, byId.get(gone.id)!.sequence], [0, 2, 1]);
  for (const { id } of [weekly, daily]) {
    const stored = await sql<{ starts_at: Date; ends_at: Date }[]>`
      select starts_at, ends_at from maintenance_occurrences where window_id = ${id} and not cancelled
      order by starts_at`;
    const event = byId.get(id)!;
    const times = [];
    for (let next = event.iterator(), at = next.next(); at !== null && times.length < stored.length; at = next.next()) {
      const { startDate, endDate } = event.getOccurrenceDetails(at);
      times.push({ starts_at: startDate.toJSDate(), ends_at: endDate.toJSDate() });
    }
    t.strictSame(
      times,
      stored.map((row) => ({ ...row })),
      "across the change of clocks",
    );
    t.ok(stored.length >= 6);
  }
  clock.advance(31 * day);
  t.notMatch((await read()).text, gone.id, "for 30 days");
});

t.test("a page has its own style sheet", async (t) => {
  const pageId = await publish(ctx.orgId);
  t.notMatch((await ask("GET", "/status")).text, "custom.css");
  await sql`
    update status_pages set custom_css = '.masthead { color: teal }', revision = revision + 1 where id = ${pageId}`;
  forget();
  const [, address] = /<link rel="stylesheet" href="(\/status\/custom\.css\?v=[0-9a-f]{16})">/.exec(
    (await ask("GET", "/status")).text,
  )!;
  const sheet = await ask("GET", address!);
  t.equal(sheet.headers.get("content-type"), "text/css; charset=utf-8");
  t.equal(sheet.text, ".masthead { color: teal }");
});

t.test("the state for other web pages: a script, and a frame for the configured origins", async (t) => {
  const pageId = await publish(ctx.orgId, { language: "auto", languages: ["en", "ar"] });
  const web = await newTarget(ctx, "</script> Shop");
  await show(pageId, web);
  await addIncident(ctx, web, { started: noon - hour });
  const script = await ask("GET", "/status/embed.js");
  t.equal(script.headers.get("content-type"), "text/javascript; charset=utf-8");
  t.equal(script.headers.get("cache-control"), "public, max-age=30");
  t.notOk(script.text.includes("</script>"));
  t.ok(gzipSync(script.text).length <= 3000);
  interface Node {
    made: string;
    children: Node[];
    [name: string]: unknown;
  }
  const run = (source: string): Node => {
    const all: Node[] = [];
    const element = (made: string): Node => {
      const node: Node = { made, children: [] };
      node["append"] = (...more: Node[]) => void node.children.push(...more);
      node["attachShadow"] = ({ mode }: { mode: string }) => (t.equal(mode, "closed"), node);
      all.push(node);
      return node;
    };
    const document = { createElement: element, currentScript: { after: () => undefined } };
    runInNewContext(source, {
      document,
      CSSStyleSheet: class {
        replaceSync() {}
      },
    });
    return all.find(({ made }) => made === "a")!;
  };
  const link = run(script.text);
  matchObject(t, link, { href: "https://status.example.org/status", lang: "en", dir: "ltr" });
  t.equal(link.children[1]!["textContent"], "</script> Shop major outage");
  matchObject(t, run((await ask("GET", "/status/embed.js?lang=ar")).text), { lang: "ar", dir: "rtl" });
  const ancestors = async () =>
    /frame-ancestors (.*)$/.exec((await ask("GET", "/status/embed")).headers.get("content-security-policy")!)![1];
  t.equal(await ancestors(), "'none'");
  await sql`update status_pages set embed_origins = '{https://www.acme.example,http://localhost:3000}'`;
  forget();
  t.equal(await ancestors(), "https://www.acme.example http://localhost:3000");
  t.match((await ask("GET", "/status")).headers.get("content-security-policy"), "frame-ancestors 'none'");
  t.match((await ask("GET", "/status/embed")).text, "&lt;/script&gt; Shop major outage");
});

t.test("badges of uptime, latency and certificate, grey without data", async (t) => {
  const pageId = await publish(ctx.orgId);
  const [shop, bare] = [await newTarget(ctx, "Shop"), await newTarget(ctx, "Bare")];
  for (const id of [shop, bare]) await show(pageId, id);
  await setStatus(system, shop, "up");
  await addResults(ctx, shop, [
    { at: noon - hour, total: 100 },
    { at: noon - 2 * hour, total: 120 },
  ]);
  await sql`insert into results_daily values (${shop}, '2026-11-19', 1440, 0, 0, 0)`;
  await addIncident(ctx, shop, { started: noon - 14 * hour, ended: noon - 13.5 * hour });
  await sql`update target_states set expires_at = ${new Date(noon + 5.5 * day)} where target_id = ${shop}`;
  const badge = async (id: string, query: string) => {
    const { status, text, headers } = await ask("GET", `/api/public/v1/components/${id}/badge.svg${query}`);
    t.equal(status, 200, query);
    t.match(headers.get("content-type"), "image/svg+xml");
    return /aria-label="([^"]*)"/.exec(text)?.[1] ?? text;
  };
  t.equal(await badge(shop, ""), "Shop: operational");
  for (const metric of ["latency", "cert"]) t.match(await badge(shop, `?metric=${metric}`), /: n\/a$/, "hidden");
  t.equal((await ask("GET", `/status/components/${shop}`)).status, 404, "response times are hidden");
  t.notMatch((await ask("GET", "/status")).text, `/components/${shop}`);
  await sql`update status_page_components set show = '{"uptime": true, "latency": true, "certificate": true}'`;
  forget();
  t.match(await badge(shop, "?metric=uptime&days=1"), /^Shop uptime: 100 %$/);
  t.match(await badge(shop, "?metric=uptime&days=7"), /^Shop uptime: 9\d(\.\d+)? %$/);
  t.equal(await badge(shop, "?metric=latency&days=1"), "Shop latency: 110 ms");
  t.equal(await badge(shop, "?metric=cert"), "Shop certificate: 5 d");
  t.match((await ask("GET", "/status")).text, `href="/status/components/${shop}"`);
  t.match((await ask("GET", `/status/components/${shop}`)).text, "No data yet", "hours that are not rolled up yet");
  await rollUp(system);
  forget();
  const detail = await ask("GET", `/status/components/${shop}`);
  t.equal(detail.status, 200);
  t.match(detail.text, /Median 110 ms|Median 1[01]\d ms/);
  t.equal(detail.text.split('<path class="p50"').length - 1, 2, "a day and 30 days");
  t.notMatch(detail.text, / style=|NaN|Infinity/);
  t.equal((await ask("GET", `/status/components/${bare}`)).text.includes("No data yet"), true);
  t.equal((await ask("GET", `/status/components/${newId()}`)).status, 404);
  for (const metric of ["uptime", "latency", "cert"]) t.match(await badge(bare, `?metric=${metric}`), /: n\/a$/);
  for (const query of ["?days=0", "?days=91", "?metric=mood"])
    t.equal((await ask("GET", `/api/public/v1/components/${shop}/badge.svg${query}`)).status, 400, query);
  t.equal((await ask("GET", `/api/public/v1/components/${newId()}/badge.svg`)).status, 404);
  await sql`update status_page_components set show = '{"uptime": false, "latency": false, "certificate": false}'`;
  forget();
  t.match(await badge(shop, "?metric=uptime&days=1"), /: n\/a$/);
  matchObject(t, (await ask("GET", `/api/public/v1/components/${shop}/history`)).body, { uptime_pct: null });
  const hidden = await ask("GET", "/api/public/v1/status");
  matchObject(t, hidden.body.groups[0].components[0], { uptime_pct: null });
  t.notMatch((await ask("GET", "/status")).text, /\d %/);
});

t.test("a page in Kuma's shape has numbers as ids, and only published pages have it", async (t) => {
  const pageId = await publish(ctx.orgId, { about: "Hello" });
  const [shop, api] = [await newTarget(ctx, "Shop"), await newTarget(ctx, "API")];
  await show(pageId, shop, { group: "Core" });
  await show(pageId, api);
  await setStatus(system, shop, "up");
  await setStatus(system, api, "down");
  const incident = await addIncident(ctx, api, { started: noon - hour, title: "API is down" });
  await addUpdate(ctx, incident, noon - minute, "identified", "It is the database.");
  const [page] = await sql`select slug from status_pages where id = ${pageId}`;
  const [one, two] = await sql`select number from targets where id in (${shop}, ${api}) order by number`;
  const [first, second] = [one!["number"] as number, two!["number"] as number];
  matchObject(t, (await ask("GET", `/api/status-page/${page!["slug"]}`)).body, {
    config: { slug: page!["slug"], title: "Acme status", published: true },
    incident: { title: "API is down", content: "It is the database.", createdDate: "2026-11-20 12:00:00" },
    publicGroupList: [
      { name: "Core", monitorList: [{ id: first, name: "Shop" }] },
      { name: "", monitorList: [{ id: second, name: "API" }] },
    ],
  });
  const { body } = await ask("GET", `/api/status-page/heartbeat/${page!["slug"]}`);
  t.strictSame(Object.keys(body.heartbeatList), [String(first), String(second)]);
  t.equal(body.heartbeatList[first].length, 90);
  t.strictSame(body.heartbeatList[first].at(-1), { status: 1, time: "2026-11-20 13:00:00.000", msg: "", ping: null });
  t.equal(body.heartbeatList[second].at(-1).status, 0);
  await sql`update status_pages set enabled = false where id = ${pageId}`;
  forget();
  matchObject(t, await ask("GET", `/api/status-page/${page!["slug"]}`), { status: 404 });
  matchObject(t, await ask("GET", "/api/status-page/heartbeat/nothing"), { status: 404 });
});

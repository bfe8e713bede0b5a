import { text } from "node:stream/consumers";
import fc from "fast-check";
import t, { type Test } from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { newId } from "@statusmesh/shared/ids";
import type { System } from "../../../platform/context.ts";
import { ensurePartitions } from "../../../platform/db/distributed/partitions.ts";
import { loadAssets } from "../../../platform/html/assets.ts";
import { duration } from "../../../platform/html/format.ts";
import { mountPages } from "../../../platform/html/pages.ts";
import { openViews } from "../../../platform/html/views.ts";
import { getIncident, incidentsCsv } from "../../../alerting/incidents/service.ts";
import { incidentMetrics, incidentReport, listOutages } from "../../../alerting/incidents/reports/service.ts";
import type { Notice } from "../../../alerting/channels/schema.ts";
import { getMonitor } from "../../../monitoring/targets/list/service.ts";
import { serve } from "../../../testing/app.ts";
import { day, hour, minute, noon, second } from "../../../testing/clock.ts";
import { openOutages } from "../../../testing/outages.ts";
import { newAgent } from "../../../testing/world.ts";
import { publicRoutes } from "../api.ts";
import { publicPages } from "../pages.ts";

const world = await openOutages(t);
const { sql, clock, system, owner, report } = world;
await ensurePartitions(sql, new Date(noon - day), new Date(noon + 4 * day));
let visited: System = system;
const pages = mountPages(
  publicPages,
  { public: async () => visited, tenant: async () => owner },
  openViews({ assets: loadAssets() }),
);
const ask = await serve(t, system, publicRoutes, { public: () => visited, page: pages });

/** The data of the page, by a process that has no copy yet. */
async function published() {
  visited = { ...system, sql: new Proxy(sql, {}) };
  return (await ask("GET", "/api/public/v1/status")).body;
}

async function publish(targetId: string): Promise<void> {
  const id = newId();
  const at = new Date(clock.now());
  const branding = {
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
  };
  await sql`delete from status_pages`;
  await sql`
    insert into status_pages (id, org_id, slug, name, enabled, branding, created_at, updated_at)
    values (${id}, ${owner.orgId}, ${`s-${id.slice(-12)}`}, 'Acme', true, ${sql.json(branding)}, ${at}, ${at})`;
  await sql`
    insert into status_page_components (page_id, target_id, org_id, public_name, sort_order)
    values (${id}, ${targetId}, ${owner.orgId}, 'Shop', 0)`;
  await sql`update targets set created_at = ${new Date(clock.now() - 2 * day)} where id = ${targetId}`;
  await sql`insert into results_daily values (${targetId}, ${new Date(clock.now() - day)}, 1440, 0, 0, 0)`;
}

/** The newest recovery that channels were notified of. */
async function recovery(incidentId: string): Promise<Notice> {
  const [row] = await sql<{ notice: Notice }[]>`
    select notice from deliveries where incident_id = ${incidentId} and reason = 'resolved'
    order by created_at desc limit 1`;
  return row!.notice;
}

const csvOf = async (id: string): Promise<Record<string, string>> => {
  const [head, ...rows] = (await text(await incidentsCsv(owner, { state: "all" }))).trim().split(/\r?\n/);
  const row = rows.find((line) => line.includes(id))!.split(",");
  return Object.fromEntries(head!.split(",").map((name, at) => [name, row[at]!]));
};

t.beforeEach(async () => {
  clock.at = noon;
  await sql`truncate incidents cascade`;
});

t.test("every reader says the same downtime of generated histories: that of the failing runs", async (t) => {
  const histories = fc.sample(
    fc.tuple(
      fc.array(fc.constantFrom("P", "F", "D"), { minLength: 3, maxLength: 40 }),
      fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 8, maxLength: 8 }),
    ),
    { numRuns: 8, seed: 21 },
  );
  for (const [verdicts, sizes] of histories) {
    await sql`truncate incidents cascade`;
    const target = await world.monitor({ alert_confirmations: 1, notify_recovery: true });
    await publish(target);
    const runs = `F${verdicts.join("")}P`;
    // In batches of any size; each failing run fails until the next one, a second later.
    for (let from = 0, at = 0; from < runs.length; at++) {
      const size = sizes[at % sizes.length]!;
      await report(target, runs.slice(from, from + size));
      from += size;
    }
    const down = runs.split("F").length - 1;
    const failing = down + runs.split("D").length - 1;
    t.equal((await world.incidents(target)).length, 1, `${runs}: one incident`);
    const [incident] = await sameForAll(t, target, runs);
    matchObject(t, incident, { severity: "major", downSecs: down, secs: failing }, runs);
  }
});

/**
 * Asserts that every reader says what the lists of outages do. Returns the incidents of the target, all closed, with
 * the seconds that they lasted and were down.
 */
async function sameForAll(t: Test, target: string, label: string) {
  const secs = (of: Awaited<ReturnType<typeof listOutages>>) =>
    of.reduce((sum, one) => sum + one.ended_at!.getTime() - one.started_at.getTime(), 0) / second;
  const incidents = await Promise.all(
    (await world.incidents(target)).map(async (incident) => {
      const outages = await listOutages(owner, { incidentId: incident.id });
      return { ...incident, secs: secs(outages), downSecs: secs(outages.filter(({ state }) => state !== "degraded")) };
    }),
  );
  const page = await published();
  const [component] = page.groups[0].components;
  const html = (await ask("GET", "/status")).text;
  for (const { id, secs: lasted, severity } of incidents) {
    matchObject(
      t,
      await getIncident(owner, id),
      { state: "closed", duration_secs: lasted, past_outage_secs: lasted, outage_since: null },
      `${label}: the incident`,
    );
    matchObject(t, await csvOf(id), { duration_secs: String(lasted), severity }, `${label}: CSV`);
    t.equal((await incidentReport(owner, id)).incident.past_outage_ms, lasted * second, `${label}: MCP`);
    t.equal((await recovery(id)).duration_secs, lasted, `${label}: the notice`);
    const listed = page.recent_incidents.find((one: { id: string }) => one.id === id);
    matchObject(t, listed, { duration_secs: lasted }, `${label}: the page`);
    t.match(html, `lasted ${duration(lasted)}`, `${label}: the page as HTML`);
    matchObject(t, (await ask("GET", `/status/incidents/${id}`)).text, duration(lasted));
  }
  const sum = (of: readonly number[]) => of.reduce((total, one) => total + one, 0);
  const mean = incidents.length === 0 ? null : sum(incidents.map((one) => one.secs)) / incidents.length;
  t.equal((await incidentMetrics(owner, 30)).mttr_secs, mean, `${label}: mean time to resolve`);
  const down = sum(incidents.map((one) => one.downSecs));
  t.equal(component.history.at(-1).downtime_secs, down, `${label}: the strip`);
  const history = (await ask("GET", `/api/public/v1/components/${target}/history`)).body;
  t.same([history.uptime_pct, history.history], [component.uptime_pct, component.history], `${label}: the history`);
  return incidents;
}

t.test("every reader says the same downtime with several regions, quorums and confirmations", async (t) => {
  await sql`insert into regions (id, name, created_at, updated_at) values ('ap', 'Asia', now(), now())`;
  const agents = [world.eu, world.us, await newAgent(system, "ap")];
  const histories = fc.sample(
    fc.record({
      regions: fc.integer({ min: 2, max: 3 }),
      policy: fc.constantFrom("any", "majority", "all", { count: 2 }),
      confirmations: fc.integer({ min: 2, max: 3 }),
      batches: fc.array(
        fc.tuple(fc.nat(2), fc.string({ unit: fc.constantFrom(..."FFFDP"), minLength: 1, maxLength: 6 })),
        { minLength: 6, maxLength: 14 },
      ),
    }),
    { numRuns: 10, seed: 19 },
  );
  let opened = 0;
  for (const { regions: count, policy, confirmations, batches } of histories) {
    await sql`truncate incidents cascade`;
    const used = agents.slice(0, count);
    const target = await world.monitor({
      alert_confirmations: confirmations,
      notify_recovery: true,
      region_policy: policy,
      regions: used.map(({ region }) => region),
    });
    await publish(target);
    // All regions begin well and end well.
    const ends = used.map((_, at) => [at, "PPP"] as const);
    for (const [at, verdicts] of [...ends, ...batches, ...ends]) await world.report(target, verdicts, used[at % count]);
    const label = JSON.stringify({ count, policy, confirmations, batches });
    opened += (await sameForAll(t, target, label)).length;
  }
  t.ok(opened >= 5, `${opened} incidents`);
});

t.test("the healthy time before a reopening is no outage, also of a daily check", async (t) => {
  const target = await world.monitor({ interval: 86_400, alert_confirmations: 1 });
  await publish(target);
  await report(target, "FP");
  const { id } = (await world.incidents(target))[0]!;
  clock.advance(2 * day);
  await report(target, "F");
  const again = clock.now();
  clock.advance(3 * minute);
  matchObject(t, await getIncident(owner, id), {
    state: "open",
    reopened_count: 1,
    outage_since: new Date(again).toISOString(),
    past_outage_secs: 1,
    duration_secs: null,
  });
  t.equal((await getMonitor(owner, target)).open_incident?.outage_since.getTime(), again);
  const page = await published();
  const days = page.groups[0].components[0].history
    .slice(-3)
    .map((one: { downtime_secs: number }) => one.downtime_secs);
  t.same(days, [1, 0, 180], "not three days");
  matchObject(t, (await ask("GET", "/status")).text, duration(181));
  clock.advance(hour);
  await report(target, "P");
  const lasted = 181 + 3600 + 1;
  t.equal((await recovery(id)).duration_secs, lasted);
  t.equal((await getIncident(owner, id)).duration_secs, lasted);
});

t.test("while every check is degraded, nothing says down; the peak is said as peak", async (t) => {
  const target = await world.monitor();
  await publish(target);
  await report(target, "FFPP");
  const { id } = (await world.incidents(target))[0]!;
  await report(target, "DD");
  matchObject(t, await getIncident(owner, id), { state: "open", severity: "minor", peak_severity: "major" });
  t.equal((await getMonitor(owner, target)).status, "degraded");
  let page = await published();
  t.equal(page.overall.label, "Minor Service Disruption");
  t.equal(page.groups[0].components[0].status, "degraded");
  matchObject(t, page.active_incidents, [
    { title: "Shop degraded", status: "degraded", peak_status: "major_outage", severity: "minor" },
  ]);
  t.match((await ask("GET", "/status")).text, /Worst state:\s+Major outage/);
  matchObject(t, await world.notices(target), ["opened", "resolved", "reopened"]);

  await report(target, "F");
  t.equal((await world.notices(target)).at(-1), "escalated", "channels read of a degraded reopening");
  t.equal((await getMonitor(owner, target)).status, "down");
  await report(target, "D");
  t.equal((await getIncident(owner, id)).severity, "major", "one degraded run is not confirmed");
  await report(target, "D");
  t.equal((await getIncident(owner, id)).severity, "minor");
  await report(target, "PF");
  t.equal((await getIncident(owner, id)).severity, "major");
  await report(target, "DDPP");
  matchObject(t, await getIncident(owner, id), { state: "closed", severity: "major" });
  page = await published();
  matchObject(t, page.recent_incidents, [{ title: "Shop major outage", status: "major_outage" }]);
  t.equal((await world.notices(target)).join(" "), "opened resolved reopened escalated resolved");
});

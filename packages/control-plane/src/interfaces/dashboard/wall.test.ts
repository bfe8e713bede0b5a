import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { validate } from "@statusmesh/shared/schema/validate";
import { createTarget } from "../../monitoring/targets/write/service.ts";
import { listMonitors } from "../../monitoring/targets/list/service.ts";
import { orgHealth } from "../../monitoring/targets/health/service.ts";
import { TargetCreate } from "../../monitoring/targets/schema.ts";
import type { Ctx } from "../../platform/context.ts";
import { addIncident, setStatus } from "../../testing/scene.ts";
import { serveWhole, signedIn } from "../../testing/whole-app.ts";
import { newOrg, openWorld } from "../../testing/world.ts";
import { createWindow } from "../../alerting/maintenance/service.ts";
import { acknowledgeIncident } from "../../alerting/incidents/lifecycle/service.ts";
import { listIncidents, openCounts } from "../../alerting/incidents/service.ts";

const newMonitor = async (
  ctx: Ctx,
  name: string,
  tags: string[] = [],
  host = `${name.toLowerCase().replaceAll(/\W/g, "")}.example.org`,
): Promise<string> => {
  const check = { type: "tcp", host, port: 1 };
  return (await createTarget(ctx, validate(TargetCreate, { name, tags, check }))).id;
};

/** The page without the spans around the words of its titles, which keep a word on one line. */
const unwrapped = (html: string): string => html.replaceAll(/<span class="word">([^<]*)<\/span> /g, "$1 ");

t.test("the wall has what needs somebody first, and shows nothing of another organisation", async (t) => {
  const world = await openWorld(t);
  const [acme, other] = [await newOrg(world.system), await newOrg(world.system)];
  const app = await serveWhole(t, world);
  const read = async (path: string) => unwrapped((await app("GET", path, undefined, await signedIn(acme))).text);
  t.match(await read("/wall"), /No monitors yet/);
  const started = world.clock.at - 420_000;
  const taken = await addIncident(acme, await newMonitor(acme, "Search <b>"), { started });
  await addIncident(acme, await newMonitor(acme, "Checkout", ["team/shop", "team/web"]), { started });
  await addIncident(other, await newMonitor(other, "Foreign", ["team/foreign"]), { started });
  await acknowledgeIncident(acme, taken);
  const live = await read("/wall?fragment=1");
  t.match(live, /<strong>1<\/strong>\s+needs\s+you/);
  t.match(live, /data-title="Checkout"/);
  t.equal(live.match(/data-alarm/g)?.length, 1, "an acknowledged one is no alarm");
  t.ok(live.indexOf("Checkout") < live.indexOf("Search &lt;b&gt;"), "and stands below");
  t.equal(live.match(/class="strip/g)?.length, 1, "what needs somebody shows its last checks");
  t.match(live, /<h3>shop<\/h3>.*<h3>web<\/h3>/s, "tiles of the tags below the most used prefix");
  t.notMatch(live, /foreign/i);
  t.notMatch(live, /Maintenance/);
  const window = { starts_at: new Date(started).toISOString(), ends_at: new Date(started + 900_000).toISOString() };
  for (const [ctx, title] of [
    [acme, "Database upgrade"],
    [other, "Foreign upgrade"],
  ] as const)
    await createWindow(ctx, { title, ...window, component_ids: [await newMonitor(ctx, `In ${title}`)] });
  t.match(
    await read("/wall?fragment=1"),
    /Maintenance<span>7 min<\/span>.*Database upgrade <\/h2>\s*<p>8 min left/s,
    "maintenance that runs now",
  );
  t.notMatch(live, "<!doctype", "the part that refreshes itself");
});

t.test("every place counts the same causes and begins with the critical one", async (t) => {
  const world = await openWorld(t);
  const { clock, system } = world;
  const acme = await newOrg(system);
  const app = await serveWhole(t, world);
  const headers = { accept: "text/html", ...(await signedIn(acme)) };
  const read = async (path: string) => unwrapped((await app("GET", path, undefined, headers)).text);
  const fails = async (name: string, minutes: number, severity: "minor" | "major" | "critical", host?: string) => {
    const id = await newMonitor(acme, name, ["prod"], host);
    await setStatus(system, id, severity === "minor" ? "degraded" : "down");
    return await addIncident(acme, id, { started: clock.at - minutes * 60_000, severity });
  };
  for (const n of [1, 2, 3]) await fails(`Old certificate ${n}`, 1, "minor", "old.example.org");
  for (const n of [1, 2, 3]) await fails(`Behind gateway ${n}`, 9, "major", "gw-1.example.org");
  await fails("Search", 2, "major");
  await fails("Login", 3, "major");
  await fails("Checkout", 1, "critical");
  await acknowledgeIncident(acme, await fails("Known outage", 5, "critical"));
  // Checkout, the gateway, Search, Login, the certificates: one in five is acknowledged apart.
  const { waiting } = await openCounts(acme);
  t.equal(waiting, 5);
  const numbers = (html: string) => ({
    title: /data-head="\((\d+)\)/.exec(html)?.[1],
    badge: /data-open="(\d+)"/.exec(html)?.[1],
    sentence: /(\d+)(?:<\/strong>)?(?: causes?)?\s+needs?\s+you/.exec(html)?.[1],
  });
  const same = { title: "5", badge: "5", sentence: "5" };
  const order = ["Checkout", "gw-1.example.org", "Search", "Login", "old.example.org", "Known outage"];
  for (const path of ["/monitors", "/oncall", "/incidents", "/wall"]) {
    const html = await read(`${path}?fragment=1`);
    t.strictSame(numbers(html), path === "/wall" ? { ...same, badge: undefined } : same, path);
    // The sentence of the monitors names the first ones before the list does.
    const list = html.slice(Math.max(0, html.indexOf("Needs you"), html.indexOf('class="calls"')));
    const found = order.map((name) => list.indexOf(name));
    t.strictSame(
      found.toSorted((a, b) => a - b),
      found,
      `${path}: by severity, then size, then the newest; acknowledged ones last`,
    );
    t.ok(found.every((at) => at >= 0));
    t.equal(html.match(/badge critical/g)?.length, 2, `${path}: both are marked`);
  }
  t.match(await read("/monitors"), /<strong>Checkout is down \(critical\)<\/strong>/);
  t.match(await read("/monitors"), /class="count"[^>]*>5</);
  t.strictSame(
    (await listIncidents(acme, { state: "open", limit: 50, offset: 0 })).items.map((one) => one.monitor_name),
    ["Checkout", "Search", "Login", "Behind gateway 3", "Behind gateway 2", "Behind gateway 1"].concat([
      "Old certificate 3",
      "Old certificate 2",
      "Old certificate 1",
      "Known outage",
    ]),
    "the API lists by severity, then the newest",
  );
  t.equal((await orgHealth(acme, { worst: 10, most: 10 })).failing[0]!.name, "Checkout");
  const lines = [];
  for (let offset = 0; offset < 6; offset++) {
    const { causes, items } = await listMonitors(acme, { limit: 1, offset, grouped: true });
    lines.push(causes[0]?.cause.value ?? items[0]!.target.name);
  }
  t.strictSame(lines, order, "pages cut one list");
});

t.test("a critical incident is a line of its own but for its host; a region must fail for the most part", async (t) => {
  const { system, clock } = await openWorld(t);
  const acme = await newOrg(system);
  const started = clock.at - 60_000;
  const ids: string[] = [];
  for (const n of [1, 2, 3, 4, 5, 6]) {
    const id = await newMonitor(acme, `M${n}`, ["prod"]);
    await setStatus(system, id, "down");
    ids.push(await addIncident(acme, id, { started, severity: n === 1 ? "critical" : "major" }));
  }
  matchObject(t, await openCounts(acme), { incidents: 6, causes: 2 });
  const apart = await newMonitor(acme, "M7", ["prod"], "m1.example.org");
  await setStatus(system, apart, "down");
  await addIncident(acme, apart, { started });
  matchObject(t, await openCounts(acme), { incidents: 7, causes: 2 }, "its host takes it");

  const { sql } = system;
  await sql`update incidents set error_sample = id::text where org_id = ${acme.orgId}`;
  await sql`update targets set tags = '{}' where org_id = ${acme.orgId}`;
  matchObject(t, await openCounts(acme), { incidents: 7, causes: 2 }, "one region for the rest");
  for (const n of [1, 2, 3, 4, 5, 6, 7]) await setStatus(system, await newMonitor(acme, `Fine ${n}`), "up");
  matchObject(t, await openCounts(acme), { incidents: 7, causes: 6 }, "half of what it runs is not the region");
});

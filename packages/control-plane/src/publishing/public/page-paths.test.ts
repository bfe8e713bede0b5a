import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { newId } from "@statusmesh/shared/ids";
import { addIncident, newTarget } from "../../testing/scene.ts";
import { serveWhole, signedIn } from "../../testing/whole-app.ts";
import { newOrg, openWorld } from "../../testing/world.ts";
import { addComponent, reorderComponents } from "../status-pages/components/service.ts";
import { createPage } from "../status-pages/service.ts";

const world = await openWorld(t, { env: { SM_PUBLIC_STATUS__PUBLIC_PER_IP_RATE_LIMIT_PER_MIN: "0" } });
const { system } = world;
const [acme, globex] = [await newOrg(system), await newOrg(system)];
const app = await serveWhole(t, world);

const names = new Map<string, string>();
async function publish(ctx: typeof acme, slug: string, components: readonly [name: string, group: string | null][]) {
  const page = await createPage(ctx, { slug, name: `Status of ${slug}` });
  for (const [name, public_group] of components) {
    const target_id = await newTarget(ctx, name);
    names.set(name, target_id);
    await addComponent(ctx, page.id, { target_id, public_group });
  }
  return page.id;
}
await publish(acme, "first", [["Web", null]]);
const second = await publish(acme, "second", [
  ["Alone", null],
  ["API", "Core"],
  ["Docs", null],
  ["Login", "Core"],
]);
await publish(globex, "globex", [["Shop", null]]);
await publish(globex, "7", [["Seven", null]]);
await publish(globex, `3${"m".repeat(59)}`, [["Long", null]]);
const read = async (path: string) => await fetch(`${app.origin}${path}`, { redirect: "manual" });

t.test("every published page has an address below /status, and its links stay below it", async (t) => {
  const incident = await addIncident(acme, names.get("API")!, { started: world.clock.at - 60_000 });
  const cookie = await signedIn(acme);
  const { items } = (await app("GET", "/api/v1/status-pages", undefined, cookie)).body;
  const base = system.config.server.public_url;
  t.strictSame(
    items.map((page: { status_url: string }) => page.status_url),
    [`${base}/status`, `${base}/status/second`],
  );
  for (const [path, name] of [
    ["/status", "first"],
    ["/status/first", "first"],
    ["/status/second", "second"],
    ["/status/globex", "globex"],
    ["/status/7", "7"],
    [`/status/3${"m".repeat(59)}`, `3${"m".repeat(59)}`],
  ]) {
    const page = await (await read(path!)).text();
    t.match(page, `Status of ${name}`, path!);
    const links = [...page.matchAll(/(?:href|data-live)="(\/(?:status|api)[^"]*)"/g)].map(([, link]) => link!);
    t.ok(
      links.every((link) => (path === "/status" ? !/^\/status\/(?:first|second)/.test(link) : link.startsWith(path!))),
      `${path}: ${links.join(" ")}`,
    );
    for (const link of new Set(links)) t.equal((await read(link)).status, 200, link);
  }
  t.equal((await read(`/status/second/incidents/${incident}`)).status, 200);
  t.equal((await read(`/status/first/incidents/${incident}`)).status, 404, "it is on the other page");
  t.match(await (await read("/status/second/api/public/v1/incidents.rss")).text(), `${base}/status/second/incidents/`);
  for (const path of ["/status/none", "/status/second/monitors", "/status/first/second", `/status/${newId()}`])
    t.equal((await read(path)).status, 404, path);
  for (const slug of ["incidents", "subscribe", "subscriptions"])
    matchObject(t, await app("POST", "/api/v1/status-pages", { slug, name: "Reserved" }, cookie), {
      status: 400,
      body: { error: { code: "INVALID_SLUG", field: "/slug" } },
    });
});

t.test("the order of the builder is the order of the page, groups and ungrouped alike", async (t) => {
  const order = async () =>
    (await app("GET", "/status/second/api/public/v1/status")).body.groups.map(
      (group: { name: string | null; components: { name: string }[] }) =>
        [group.name, ...group.components.map(({ name }) => name)].join(" "),
    );
  t.strictSame(await order(), [" Alone", "Core API Login", " Docs"]);
  const ids = ["Docs", "Login", "API", "Alone"].map((name) => names.get(name)!);
  await reorderComponents(acme, second, ids);
  world.clock.at += 11_000;
  t.strictSame(await order(), [" Docs", "Core Login API", " Alone"]);
});

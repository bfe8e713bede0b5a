import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { validate } from "@statusmesh/shared/schema/validate";
import type { Ctx } from "../../platform/context.ts";
import { createPage } from "../../publishing/status-pages/service.ts";
import { TargetCreate } from "../../monitoring/targets/schema.ts";
import { createTarget } from "../../monitoring/targets/write/service.ts";
import { day, minute } from "../../testing/clock.ts";
import { addIncident, setStatus, webhookTo } from "../../testing/scene.ts";
import { newOrg, openWorld } from "../../testing/world.ts";
import { search } from "./service.ts";

const { system, clock } = await openWorld(t);
const owner = await newOrg(system);
const other = await newOrg(system);

const monitor = async (ctx: Ctx, name: string, host: string, tags: string[] = []): Promise<string> =>
  (await createTarget(ctx, validate(TargetCreate, { name, tags, check: { type: "tcp", host, port: 443 } }))).id;
const titles = async (q: string, ctx = owner) =>
  (await search(ctx, { q, per_type: 10 })).items.map((it) => `${it.type} ${it.title}`);

const checkout = await monitor(owner, "Checkout API", "shop.example.org", ["team/pay"]);
await monitor(owner, "API of the shop", "api.example.org");
await monitor(owner, "100% sure_thing", "sure.example.org");
const foreign = await monitor(other, "Checkout API", "shop.example.org");
await createPage(owner, { slug: "shop-status", name: "Shop" });
await webhookTo(owner, "https://h.test/", "Shop on call");
await webhookTo(other, "https://h.test/", "Shop of others");

t.test("every word must be in name, address or tags, in any order and case", async (t) => {
  t.strictSame(await titles("api CHECKOUT"), ["monitor Checkout API"]);
  t.strictSame(await titles("pay shop.example"), ["monitor Checkout API"]);
  t.strictSame(await titles("% sure_"), ["monitor 100% sure_thing"], "wildcards are ordinary characters");
  t.strictSame(await titles("nothing has this"), []);
  t.strictSame(await titles("\\u0000' or 1=1 --"), []);
});

t.test("a name that begins with the search is first, then a failing monitor", async (t) => {
  t.strictSame((await titles("api")).slice(0, 2), ["monitor API of the shop", "monitor Checkout API"]);
  t.strictSame((await titles("example")).slice(0, 3), [
    "monitor 100% sure_thing",
    "monitor API of the shop",
    "monitor Checkout API",
  ]);
  await setStatus(owner, checkout, "down");
  t.equal((await titles("example"))[0], "monitor Checkout API");
  matchObject(t, (await search(owner, { q: "checkout", per_type: 1 })).items[0], {
    state: "down",
    href: `/monitors/${checkout}`,
    detail: "shop.example.org:443",
  });
});

t.test("all types are searched, and only those that the token may read", async (t) => {
  const shop = ["status_page Shop", "channel Shop on call"];
  t.strictSame((await titles("shop")).slice(-2), shop);
  const only = (...scopes: string[]): Ctx => ({ ...owner, scopes: new Set(scopes) });
  t.strictSame(await titles("shop", only("channels:read")), ["channel Shop on call"]);
  t.strictSame(await titles("shop", only("status_page:read")), ["status_page Shop"]);
  t.strictSame(await titles("shop", only("incidents:read", "org:read")), []);
  t.strictSame(await titles("audit"), ["page Audit log"]);
  t.strictSame(await titles("audit", { ...owner, role: "member" }), [], "a page for owners");
  t.strictSame(await titles("shop", { ...owner, unnamedOrg: true }), [], "a token without an organisation");
});

t.test("incidents: open ones and those of the last 90 days", async (t) => {
  const now = clock.now();
  await addIncident(owner, checkout, { started: now - 100 * day, ended: now - 99 * day });
  await addIncident(owner, checkout, { started: now - day, ended: now - day + minute });
  const open = await addIncident(owner, checkout, { started: now - minute });
  await addIncident(other, foreign, { started: now - minute });
  const incidents = (await search(owner, { q: "econnrefused checkout", per_type: 10 })).items.filter(
    (it) => it.type === "incident",
  );
  matchObject(
    t,
    incidents.map(({ id, state, at }) => [id, state, at]),
    [
      [open, "open", new Date(now - minute).toISOString()],
      [/./, "closed", new Date(now - day).toISOString()],
    ],
  );
  const blank = (await search(owner, { q: "  ", per_type: 50 })).items;
  matchObject(t, blank[0], { type: "incident", id: open }, "without words: what is open");
  t.ok(
    blank.slice(1).every(({ type }) => type === "page"),
    "and where to go",
  );
});

t.test("totals count what is beyond per_type, of the caller's organisation alone", async (t) => {
  const big = await newOrg(system);
  const ids = [];
  for (let n = 0; n < 4; n++) {
    ids.push(await monitor(big, `Shop ${n}`, "shop.example.org"));
    await createPage(big, { slug: `shop-${n}`, name: `Shop ${n}` });
    await webhookTo(big, "https://h.test/", `Shop ${n}`);
    await addIncident(big, ids[n]!, {
      started: clock.now() - n * day - minute,
      ...(n < 2 ? {} : { ended: clock.now() }),
    });
  }
  const { items, totals } = await search(big, { q: "shop", per_type: 3 });
  t.strictSame(totals, { monitor: 4, incident: 4, status_page: 4, channel: 4, page: 0 });
  t.equal(items.length, 12);
  const blank = await search(big, { q: "", per_type: 1 });
  matchObject(t, blank.totals, { monitor: 0, incident: 2, status_page: 0, channel: 0 }, "without words: what is open");
});

import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { addIncident, addMaintenance, newTarget, setStatus } from "../../testing/scene.ts";
import { serveWhole, signedIn, withToken } from "../../testing/whole-app.ts";
import { newOrg, openWorld } from "../../testing/world.ts";

const world = await openWorld(t);
const ctx = await newOrg(world.system);
const app = await serveWhole(t, world);

t.test("Kuma's metrics take the token as the password of Basic without a user; nothing else does", async (t) => {
  await setStatus(world.system, await newTarget(ctx, "Shop"), "up");
  const bearer = await withToken(ctx, { scopes: ["targets:read"] });
  const token = bearer["authorization"]!.slice("Bearer ".length);
  const basic = (pair: string) => ({ authorization: `Basic ${Buffer.from(pair).toString("base64")}` });
  const read = async (path: string, headers: Record<string, string>) => await app("GET", path, undefined, headers);
  const found = await read("/kuma/metrics", basic(`:${token}`));
  t.equal(found.status, 200);
  t.match(found.headers.get("content-type"), /^text\/plain; version=0\.0\.4/);
  t.match(found.text, /^monitor_status\{monitor_id="\d+",monitor_name="Shop",.*\} 1$/m);
  t.equal((await read("/kuma/metrics", bearer)).status, 200);
  t.equal((await read("/api/v1/metrics", basic(`:${token}`))).status, 401);
  t.equal((await read("/api/v1/targets", basic(`:${token}`))).status, 401);
  const refused = await read("/kuma/metrics", {});
  t.equal(refused.status, 401);
  t.match(refused.headers.get("www-authenticate"), /^Basic realm="[^"]+"/, "as clients of Kuma expect it");
  t.equal((await read("/api/v1/metrics", {})).headers.get("www-authenticate"), "Bearer");
  for (const pair of [`user:${token}`, token, `:${token}x`, ":", ""])
    t.equal((await read("/kuma/metrics", basic(pair))).status, 401, pair.replace(token, "…"));
  const other = await withToken(ctx, { scopes: ["channels:read"] });
  const wrong = basic(`:${other["authorization"]!.slice("Bearer ".length)}`);
  matchObject(t, await read("/kuma/metrics", wrong), { status: 403, body: { error: { code: "INSUFFICIENT_SCOPE" } } });
});

t.test("a monitor with an open incident is down in Kuma's words, one in maintenance is 3", async (t) => {
  const acme = await newOrg(world.system);
  const bearer = await withToken(acme, { scopes: ["targets:read"] });
  const read = async (name: string): Promise<string | undefined> => {
    world.clock.advance(6_000);
    const { text } = await app("GET", "/kuma/metrics", undefined, bearer);
    return new RegExp(`^monitor_status\\{.*monitor_name="${name}".*\\} (\\d)$`, "m").exec(text)?.[1];
  };
  const id = await newTarget(acme, "Slow");
  await setStatus(world.system, id, "degraded");
  t.equal(await read("Slow"), "1");
  await addIncident(acme, id, { started: world.clock.now(), severity: "minor" });
  t.equal(await read("Slow"), "0");
  const now = world.clock.now();
  await addMaintenance(acme, [id], { start: now, end: now + 60_000 });
  t.equal(await read("Slow"), "3");
});

t.test("the links of Home Assistant lead to the monitor", async (t) => {
  const caller = await signedIn(ctx);
  const id = await newTarget(ctx, "Linked");
  const foreign = await newTarget(await newOrg(world.system), "Foreign");
  const numbers = await world.sql<{ id: string; number: number }[]>`
    select id, number from targets where id = any(${[id, foreign]}::uuid[])`;
  const path = (of: string) => `/kuma/dashboard/${numbers.find((row) => row.id === of)!.number}`;
  const read = async (at: string) => await app("GET", at, undefined, caller);
  for (const [from, to] of [
    [path(id), `/monitors/${id}`],
    ["/kuma/dashboard", "/monitors"],
    ["/kuma", "/monitors"],
  ] as const) {
    const { status, headers } = await read(from);
    t.strictSame([status, headers.get("location")], [302, to], from);
  }
  const anonymous = await app("GET", path(id));
  t.strictSame(
    [anonymous.status, anonymous.headers.get("location")],
    [302, `/sign-in?next=${encodeURIComponent(path(id))}`],
  );
  for (const at of [path(foreign), "/kuma/dashboard/0", "/kuma/dashboard/x", "/kuma/dashboard/99999999999"])
    t.equal((await read(at)).status, 404, at);
});

import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import t, { type Test } from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import Type from "typebox";
import { openRedis } from "../../db/redis.ts";
import { openBudgets } from "../../../access/plans/service.ts";
import { serve } from "../../../testing/app.ts";
import { until } from "../../../testing/clock.ts";
import { freePort } from "../../../testing/ports.ts";
import { serveWhole, signedIn, withToken } from "../../../testing/whole-app.ts";
import { keptLog, newOrg, openWorld } from "../../../testing/world.ts";
import { openCounter } from "./counter.ts";
import { noContent, ok, route } from "../route.ts";
import { openThrottle } from "./throttle.ts";

const world = await openWorld(t);
const { system, sql, clock } = world;
/** Library and Redis count real minutes, so this clock moves as the real one does. */
const realClock = { now: () => performance.now() };

await sql`
  insert into plans
    (id, name, min_check_interval_secs, api_writes_per_min, api_reads_per_min, bulk_ops_per_min, test_now_per_min,
      check_now_per_min)
  values ('tight', 'Tight', 60, 2, 4, 1, null, 1)`;

const shared = { auth: "tenant", tag: "Test", summary: "Test" } as const;
const routes = [
  route("GET", "/api/v1/things", {
    ...shared,
    replies: { 200: Type.Object({}) },
    handle: async () => ok({}),
  }),
  route("PATCH", "/api/v1/things", {
    ...shared,
    replies: { 204: null },
    handle: async () => noContent(),
  }),
  route("DELETE", "/api/v1/things", {
    ...shared,
    replies: { 204: null },
    handle: async () => noContent(),
  }),
  route("POST", "/api/v1/things/bulk", {
    ...shared,
    category: "bulk_ops",
    replies: { 204: null },
    handle: async () => noContent(),
  }),
  route("POST", "/api/v1/things/test", {
    ...shared,
    category: "test_now",
    replies: { 204: null },
    handle: async () => noContent(),
  }),
];

t.test("each category has its own budget per organisation and per user", async (t) => {
  const [olga, other] = [await newOrg(system, "tight"), await newOrg(system, "tight")];
  let caller = olga;
  const throttle = openThrottle(openCounter(null, realClock), openBudgets(system));
  const ask = await serve(t, system, routes, { tenant: () => caller, throttle });
  const statuses = async (method: string, path: string, times: number) => {
    const all: number[] = [];
    for (let i = 0; i < times; i++) all.push((await ask(method, path)).status);
    return all;
  };

  t.strictSame(await statuses("GET", "/api/v1/things", 5), [200, 200, 200, 200, 429]);
  const refused = await ask("HEAD", "/api/v1/things");
  t.equal(refused.status, 429, "HEAD is a read");
  t.match(refused.headers.get("retry-after"), /^([1-9]|[1-5]\d|60)$/);
  matchObject(t, (await ask("GET", "/api/v1/things")).body.error, {
    code: "RATE_LIMITED",
    details: { scope: "per_org_api_reads", limit: 4, window_secs: 60 },
    field: null,
  });

  t.strictSame(
    [...(await statuses("PATCH", "/api/v1/things", 1)), ...(await statuses("DELETE", "/api/v1/things", 2))],
    [204, 204, 429],
    "writes share a budget",
  );
  t.strictSame(await statuses("POST", "/api/v1/things/bulk", 2), [204, 429]);
  t.strictSame(await statuses("POST", "/api/v1/things/test", 8), Array<number>(8).fill(204), "null is unlimited");

  caller = other;
  t.equal((await ask("GET", "/api/v1/things")).status, 200, "another organisation has its own budget");
  caller = { ...other, userId: olga.userId };
  matchObject(
    t,
    (await ask("DELETE", "/api/v1/things")).body.error,
    { code: "RATE_LIMITED", details: { scope: "per_user_api_writes" } },
    "a user's requests in all organisations count together",
  );
});

t.test("pages of the console and OPTIONS are charged as reads", async (t) => {
  const olga = await newOrg(system, "tight");
  const ask = await serveWhole(t, world);
  const cookie = { ...(await signedIn(olga)), accept: "text/html" };
  for (const path of ["/", "/?fragment=1", "/incidents"])
    t.equal((await ask("GET", path, undefined, cookie)).status, 200);
  const token = await withToken(olga);
  t.equal((await ask("OPTIONS", "/api/v1/targets", undefined, token)).status, 204);
  const refused = await ask("GET", "/", undefined, cookie);
  t.equal(refused.status, 429);
  t.match(refused.headers.get("content-type"), /^text\/html/);
  t.match(refused.headers.get("retry-after"), /^([1-9]|[1-5]\d|60)$/);
  t.equal((await ask("OPTIONS", "/api/v1/targets", undefined, token)).status, 429);
  t.equal((await ask("GET", "/api/v1/targets", undefined, token)).status, 429, "they share the budget");
});

t.test("a changed plan applies within seconds, without a query per request", async (t) => {
  const ctx = await newOrg(system, "tight");
  let queries = 0;
  const counted = new Proxy(sql, {
    apply(target, self, args) {
      queries++;
      return Reflect.apply(target as never, self, args) as unknown;
    },
  });
  const budgets = openBudgets(system);
  const watched = { ...ctx, sql: counted };
  for (let i = 0; i < 100; i++) t.equal((await budgets(watched)).api_reads, 4);
  const once = queries;
  t.ok(once > 0 && once < 5, `${once} for the first, none for the others`);
  await sql`update orgs set plan_id = 'selfhost' where id = ${ctx.orgId}`;
  clock.advance(5_001);
  t.equal((await budgets(watched)).api_reads, 60_000);
});

const redisServer = (process.env["PATH"] ?? "")
  .split(delimiter)
  .map((folder) => join(folder, "redis-server"))
  .find((place) => existsSync(place));

/** Message of a test without Redis, and whether it is a failure. */
function redisThere(t: Test): boolean {
  if (redisServer !== undefined) return true;
  const why = "there is no redis-server on the PATH";
  const demanded = (process.env["SM_TEST_REQUIRE"] ?? "").split(",").map((name) => name.trim());
  if (demanded.includes("redis")) t.fail(`redis is required: ${why}`);
  else t.pass("needs redis", { skip: why });
  return false;
}

function startRedis(t: Test, port: number): ChildProcess {
  const child = spawn(
    redisServer!,
    ["--port", String(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"],
    { stdio: "ignore" },
  );
  t.teardown(() => child.kill("SIGKILL"));
  return child;
}

t.test("replicas share budgets on Redis; each counts for itself while it is unavailable", async (t) => {
  if (!redisThere(t)) return;
  const port = await freePort();
  const first = startRedis(t, port);
  const log = keptLog();
  const replica = async () => {
    const redis = await openRedis(`redis://127.0.0.1:${port}`, log);
    t.teardown(() => redis.stop());
    return { redis, counter: openCounter(redis.client, realClock) };
  };
  const replicas = [await replica(), await replica()];
  const ready = () => until(() => replicas.every(({ redis }) => redis.client.isReady), "both replicas connect");
  await ready();

  let round = 0;
  /** A replica that gets no reply in time counts for itself for a moment, also on a loaded machine. */
  const together = async (): Promise<boolean> => {
    const key = `shared ${++round}`;
    const counts: number[] = [];
    for (let i = 0; i < 6; i++) counts.push((await replicas[i % 2]!.counter.add(key)).count);
    return counts.join() === "1,2,3,4,5,6";
  };
  await until(together, "both to count together");
  const { leftMs } = await replicas[0]!.counter.add("shared");
  t.ok(leftMs > 0 && leftMs <= 60_000);

  // Silent, not gone: the socket stays open, and nothing comes back.
  first.kill("SIGSTOP");
  t.equal((await replicas[0]!.counter.add("silent")).count, 1, "a hanging Redis delays no request");
  const warnings = () => log.lines.filter(({ level }) => level === "warn").length;
  await until(() => warnings() === 2, "both log the timeout");
  first.kill("SIGKILL");
  await until(() => replicas.every(({ redis }) => !redis.client.isReady), "both disconnect");
  const alone = await Promise.all([
    replicas[0]!.counter.add("away"),
    replicas[0]!.counter.add("away"),
    replicas[1]!.counter.add("away"),
  ]);
  t.strictSame(
    alone.map(({ count }) => count),
    [1, 2, 1],
    "each counts for itself",
  );
  matchObject(
    t,
    log.lines.filter((line) => line.level === "warn").map((line) => line.message),
    Array<string>(2).fill("Redis is away: rate limits are counted in this process until it is back"),
    "each logs it once",
  );

  startRedis(t, port);
  await ready();
  // Each asks again after its rest.
  await until(together, "both to count together again");
});

t.test("the service starts without a reachable Redis", async (t) => {
  const redis = await openRedis(`redis://127.0.0.1:${await freePort()}`, keptLog());
  t.teardown(() => redis.stop());
  const counter = openCounter(redis.client, realClock);
  t.strictSame([(await counter.add("a")).count, (await counter.add("a")).count], [1, 2]);
});

import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { ensurePartitions } from "../../../platform/db/distributed/partitions.ts";
import { day, noon } from "../../../testing/clock.ts";
import { asking, serveWhole, signedIn } from "../../../testing/whole-app.ts";
import { newOrg, openWorld } from "../../../testing/world.ts";

const world = await openWorld(t);
const { sql, clock, system, pool } = world;
await ensurePartitions(sql, new Date(noon - day), new Date(noon + 5 * day));
const ctx = await newOrg(system);
const key = "pingkey-123";
const gone = "00000000-0000-7000-8000-000000000000";
const auto_create = `${key}:${ctx.orgId}, gone-key-1:${gone}`;
const config = { ...system.config, heartbeats: { auto_create, host: "" } };
const [one, other] = [
  await serveWhole(t, world, { ...system, config }),
  await serveWhole(t, world, { ...system, config, sql: pool() }),
];
const ask = asking(one, await signedIn(ctx));
const named = async (name: string) => (await ask("GET", `/api/v1/targets?q=${name}`)).body.items;

t.test("create=1 makes a monitor where its ping key may, once", async (t) => {
  matchObject(t, await one("GET", `/ping/${key}/nightly`), { status: 404 }, "not without create=1");
  matchObject(t, await one("GET", `/ping/${key}/nightly/start?create=1`), { status: 201, text: "Created" });
  matchObject(t, await one("POST", `/ping/${key}/nightly/0?create=1`, "done"), { status: 200, text: "OK" });
  const [made, more] = await named("nightly");
  t.equal(more, undefined);
  matchObject(t, made, {
    name: "nightly",
    check: { type: "heartbeat", period: 86_400_000, grace: 3_600_000 },
    heartbeat_addresses: [{ kind: "healthchecks_slug", value: "***", hint: "htly" }],
  });
  matchObject(t, (await ask("GET", `/api/v1/targets/${made.id}/heartbeat/pings`)).body.items, [
    { kind: "success" },
    { kind: "start" },
  ]);
  const [entry] = (await ask("GET", `/api/v1/orgs/${ctx.orgId}/audit?resource_id=${made.id}`)).body.items;
  matchObject(t, entry, {
    actor_type: "system",
    action: "POST /ping/{key}/{slug}",
    ip: "127.0.0.1",
    after: { name: "nightly" },
  });
  for (const path of ["other-key-9/nightly", "gone-key-1/nightly", `${key}/Upper`, `${key}/late/later`])
    t.equal((await one("GET", `/ping/${path}?create=1`)).status, 404, path);
});

t.test("a race of two makes one monitor, on two replicas", async (t) => {
  const answers = await Promise.all(
    Array.from({ length: 6 }, (_, n) => (n % 2 === 0 ? one : other)("GET", `/ping/${key}/raced?create=1`)),
  );
  t.same(answers.map(({ status }) => status).sort(), [200, 200, 200, 200, 200, 201]);
  t.equal((await named("raced")).length, 1);
});

t.test("a hundred a key and day, and the quota of the organisation", async (t) => {
  await sql`update heartbeat_creations set count = 100`;
  matchObject(t, await one("GET", `/ping/${key}/too-many?create=1`), { status: 403, text: "limit" });
  matchObject(t, await one("GET", `/ping/${key}/nightly?create=1`), { status: 200 }, "known ones go on");
  clock.advance(day);
  await sql`update orgs set plan_overrides = '{"max_targets": 2}' where id = ${ctx.orgId}`;
  matchObject(t, await one("GET", `/ping/${key}/too-many?create=1`), { status: 403, text: "limit" });
  t.same(await sql`select count from heartbeat_creations where day > '2026-11-20'`, [], "a refused one is not counted");
  await sql`update orgs set plan_overrides = '{}' where id = ${ctx.orgId}`;
  matchObject(t, await one("GET", `/ping/${key}/too-many?create=1`), { status: 201 });
});

import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { nightly } from "../../operator/cleanup.ts";
import { day, minute } from "../../testing/clock.ts";
import { asking, newMember, serveWhole, signedIn } from "../../testing/whole-app.ts";
import { newOrg, openWorld } from "../../testing/world.ts";
import { PlanRefusal, recordRefusal } from "./service.ts";

const tcp = { type: "tcp", host: "example.org", port: 443 };
const target = (name: string, interval = 60) => ({ name, check: tcp, interval });

t.test("every refusal by a plan is recorded, other refusals are not", async (t) => {
  const world = await openWorld(t, { env: { SM_TENANCY__FREE_TIER_OWNER_ORG_LIMIT: "1" } });
  const { sql, clock } = world;
  const owner = await newOrg(world.system, "free");
  const member = await newMember(owner);
  const served = await serveWhole(t, world);
  const ask = asking(served, await signedIn(owner));
  const path = `/api/v1/orgs/${owner.orgId}`;
  const refused = async (method: string, to: string, body: unknown, code: string) =>
    matchObject(t, (await ask(method, to, body)).body, { error: { code } }, `${method} ${to}`);
  const events = async () =>
    (
      await sql`
        select user_id, quota, refusals, "current", "limit", plan, at from quota_events where org_id = ${owner.orgId}
        order by at, quota`
    ).map((row) => ({ ...row }));

  await ask(
    "POST",
    "/api/v1/targets/bulk",
    Array.from({ length: 20 }, (_, at) => target(`T${at}`)),
  );
  await refused("POST", "/api/v1/targets", target("one more"), "QUOTA_EXCEEDED");
  const free = { user_id: owner.userId, plan: "free", at: new Date(clock.now()) };
  t.strictSame(await events(), [{ ...free, quota: "max_targets", refusals: 1, current: 20, limit: 20 }]);
  t.equal((await ask("GET", "/api/v1/targets?limit=1")).body.total, 20, "while the refused write is rolled back");

  clock.advance(1000);
  await refused("POST", "/api/v1/targets/bulk", [target("more"), target("and more")], "QUOTA_EXCEEDED");
  clock.advance(minute);
  await refused("POST", "/api/v1/targets/bulk", [target("more")], "QUOTA_EXCEEDED");
  matchObject(
    t,
    await events(),
    [
      { quota: "max_targets", refusals: 2, at: new Date(clock.now() - minute) },
      { quota: "max_targets", refusals: 1, at: new Date(clock.now()) },
    ],
    "one row per minute for any number",
  );

  await sql`delete from quota_events`;
  const [{ id }] = (await ask("GET", "/api/v1/targets?limit=1")).body.items;
  await refused("PATCH", `/api/v1/targets/${id}`, { interval: 30 }, "MIN_CHECK_INTERVAL");
  await refused("PATCH", `/api/v1/targets/${id}`, { interval: 5 }, "MIN_CHECK_INTERVAL");
  await refused("POST", "/api/v1/orgs", { name: "Second" }, "QUOTA_EXCEEDED");
  await sql`
    update plans
    set max_pending_invitations = 0, max_notification_channels = 0, max_status_pages = 0, max_public_components = 0
    where id = 'free'`;
  await refused("POST", `${path}/invitations`, { email: "new@example.org" }, "INVITATIONS_LIMIT");
  await refused(
    "POST",
    "/api/v1/notification-channels",
    { name: "Duty", config: { type: "webhook", url: "https://hooks.example.org/" } },
    "CHANNEL_QUOTA_EXCEEDED",
  );
  await refused("POST", "/api/v1/status-pages", { slug: "shop", name: "Shop" }, "QUOTA_EXCEEDED");
  await sql`update plans set max_pending_invitations = 10, max_members = 2 where id = 'free'`;
  await refused("POST", `${path}/invitations`, { email: "new@example.org" }, "QUOTA_EXCEEDED");
  for (const [method, to, body] of [
    ["POST", "/api/v1/targets", { ...target("x"), name: "" }],
    ["GET", `/api/v1/targets/${owner.orgId}`],
    ["PATCH", `${path}/members/${owner.userId}`, { role: "member" }],
  ] as const)
    t.ok((await ask(method, to, body)).status >= 400);
  t.strictSame(
    (await events()).map((event) => `${event["quota"]} ${event["current"]}/${event["limit"]}`).sort(),
    [
      "max_members 2/2",
      "max_notification_channels 0/0",
      "max_pending_invitations 0/0",
      "max_status_pages 0/0",
      "min_check_interval_secs 30/60",
      "owned_orgs 1/1",
    ],
    "an interval below the global minimum is no refusal by the plan",
  );

  const asMember = asking(served, await signedIn(member));
  await asMember("POST", "/api/v1/targets", target("x"));
  matchObject(t, (await ask("GET", `${path}/usage`)).body.refused_30d, {
    max_targets: 1,
    max_members: 1,
    owned_orgs: 1,
  });
  t.equal((await sql`select 1 from quota_events where user_id = ${member.userId}`).length, 1, "the refused user");
  clock.advance(31 * day);
  const later = asking(served, await signedIn(owner));
  t.strictSame((await later("GET", `${path}/usage`)).body.refused_30d, {}, "only of the last 30 days");
});

t.test("a full organisation records the refused invitation of a visitor without a session", async (t) => {
  const world = await openWorld(t);
  const owner = await newOrg(world.system, "free");
  await recordRefusal(
    world.system,
    new PlanRefusal("QUOTA_EXCEEDED", "full", {
      quota: "max_members",
      current: 3,
      limit: 3,
      plan: "free",
      orgId: owner.orgId,
    }),
  );
  await recordRefusal(
    world.system,
    new Error("wrapped", {
      cause: new PlanRefusal("QUOTA_EXCEEDED", "full", {
        quota: "max_members",
        current: 3,
        limit: 3,
        plan: "free",
        orgId: owner.orgId,
      }),
    }),
  );
  matchObject(t, await world.sql`select org_id, user_id, quota, refusals from quota_events`, [
    { org_id: owner.orgId, user_id: null, quota: "max_members", refusals: 2 },
  ]);
});

t.test("concurrent refusals are all counted; a failed record does not change the reply", async (t) => {
  const world = await openWorld(t);
  const owner = await newOrg(world.system, "free");
  const ask = asking(await serveWhole(t, world), await signedIn(owner));
  await world.sql`update plans set max_targets = 0 where id = 'free'`;
  await Promise.all(Array.from({ length: 20 }, () => ask("POST", "/api/v1/targets", target("x"))));
  matchObject(t, await world.sql`select refusals from quota_events`, [{ refusals: 20 }]);
  await world.sql`drop table quota_events`;
  matchObject(t, await ask("POST", "/api/v1/targets", target("x")), {
    status: 422,
    body: { error: { code: "QUOTA_EXCEEDED" } },
  });
  matchObject(
    t,
    world.log.lines.filter(({ level }) => level === "warn"),
    [{ message: "a plan limit refusal could not be recorded" }],
  );
});

t.test("the nightly job deletes old refusals from 03:00 UTC on", async (t) => {
  const world = await openWorld(t, { env: { SM_RETENTION__QUOTA_EVENTS_DAYS: "40" } });
  const { sql, clock, system } = world;
  const owner = await newOrg(system, "free");
  // More than one batch, and two rows of each that stay.
  await sql`
    insert into quota_events (id, org_id, user_id, quota, minute, at, refusals, "current", "limit", plan)
    select gen_random_uuid(), ${owner.orgId}, gen_random_uuid(), 'max_targets', at, at, 1, 20, 20, 'free'
    from generate_series(1, 6000) n,
      lateral (select ${new Date(clock.now())}::timestamptz - n * interval '1 second' as at) t`;
  clock.at = Date.UTC(2026, 10, 21, 3);
  await nightly(system);
  t.equal((await sql`select 1 from quota_events`).length, 6000);
  clock.at = Date.UTC(2026, 11, 30, 2, 59);
  await sql`
    insert into quota_events
    values
      (gen_random_uuid(), ${owner.orgId}, null, 'max_targets', ${new Date(clock.now())}, ${new Date(clock.now())}, 1,
        20, 20, 'free')`;
  await nightly(system);
  t.equal((await sql`select 1 from quota_events`).length, 6001, "39 days are not 40");
  clock.at = Date.UTC(2026, 11, 31, 3);
  await nightly(system);
  t.equal((await sql`select 1 from quota_events`).length, 1);
});

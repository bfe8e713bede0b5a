import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { allAbilities } from "@statusmesh/shared/checks/abilities";
import { newId } from "@statusmesh/shared/ids";
import { nightly } from "../../operator/cleanup.ts";
import { openHub } from "../../platform/db/notify.ts";
import { pull } from "../../monitoring/pipeline/assign.ts";
import { protocolVersion } from "@statusmesh/shared/protocol/agent-protocol";
import { day } from "../../testing/clock.ts";
import { addIncident, newTarget, setStatus, webhookTo } from "../../testing/scene.ts";
import { agentPulls } from "../../monitoring/agents/service.ts";
import { createPage } from "../../publishing/status-pages/service.ts";
import { setupSteps } from "../../monitoring/targets/console/setup.ts";
import { updateOrg } from "./service.ts";
import { asking, newMember, serveWhole, signedIn, withToken } from "../../testing/whole-app.ts";
import { newAgent, newOrg, openWorld } from "../../testing/world.ts";

/** No channels in these tests. */
const noLadders = { existingChannels: async () => new Set<string>(), rescheduleLadders: async () => {} };
const refused = (status: number, code: string, field: string | null = null) => ({
  status,
  body: { error: { code, field } },
});

t.test("the setup checklist ticks what is there, and ends when all is done or an owner dismisses it", async (t) => {
  const { system, sql } = await openWorld(t);
  const owner = await newOrg(system);
  const stranger = await newOrg(system);
  const done = async (ctx = owner) =>
    (await setupSteps(ctx))?.filter((step) => step.done).map(({ name }) => name) ?? null;
  t.strictSame(await done(), []);
  await newTarget(owner);
  await webhookTo(owner, "https://hooks.example.org/");
  t.strictSame(await done(), ["monitor", "channel"]);
  t.strictSame(await done(stranger), [], "things of others do not count");
  await sql`insert into agents (id, region_id, name, token_hash, built_in, created_at, last_seen_at)
    values (${newId()}, 'eu', 'built-in', ${Buffer.alloc(32)}, true, now(), now())`;
  await newAgent(system);
  t.strictSame(await done(), ["monitor", "channel"], "nor does the built-in agent, or one that never connected");
  await agentPulls(await newAgent(system), { version: "1.0.0", kinds: allAbilities, impairedSince: null });
  t.strictSame(await done(), ["monitor", "channel", "agent"]);
  await createPage(owner, { slug: "acme", name: "Acme" });
  t.equal(await done(), null, "complete");

  t.strictSame(await done(stranger), ["agent"]);
  t.equal(await done({ ...stranger, scopes: new Set(["targets:read"]) }), null, "a caller that cannot take the steps");
  matchObject(t, await updateOrg(stranger, stranger.orgId, { setup_dismissed: true }, noLadders), {
    setup_dismissed: true,
  });
  t.equal(await done(stranger), null);
  matchObject(t, await updateOrg(stranger, stranger.orgId, { name: "Other" }, noLadders), { setup_dismissed: true });
  await updateOrg(stranger, stranger.orgId, { setup_dismissed: false }, noLadders);
  t.strictSame(await done(stranger), ["agent"]);
});

t.test("the creator owns an organisation; a session switches between its user's organisations", async (t) => {
  const world = await openWorld(t);
  const owner = await newOrg(world.system);
  const served = await serveWhole(t, world);
  const ask = asking(served, await signedIn(owner));
  const made = await ask("POST", "/api/v1/orgs", { name: " Zweite GmbH " });
  matchObject(t, made, {
    status: 201,
    body: {
      name: "Zweite GmbH",
      slug: "zweite-gmbh",
      plan: "selfhost",
      role: "owner",
      current: false,
      deleted_at: null,
      purged_at: null,
    },
  });
  t.equal(made.headers.get("location"), `/api/v1/orgs/${made.body.id}`);
  matchObject(
    t,
    await ask("POST", "/api/v1/orgs", { name: "Zweite GmbH" }),
    { status: 201, body: { slug: /^zweite-gmbh-\d{5}$/ } },
    "a taken slug gets a number",
  );
  matchObject(t, await ask("GET", "/api/v1/orgs"), {
    body: { total: 3, items: [{ id: owner.orgId, current: true }, { id: made.body.id }, {}] },
  });

  matchObject(t, await ask("POST", `/api/v1/orgs/${made.body.id}/switch`), {
    status: 200,
    body: { id: made.body.id, current: true },
  });
  matchObject(t, await ask("GET", "/api/v1/me"), { body: { org: { id: made.body.id } } }, "and stays there");
  matchObject(
    t,
    await ask("GET", "/api/v1/me", undefined, { "x-sm-org": `org-${owner.orgId}` }),
    { body: { org: { id: owner.orgId } } },
    "a header selects it for one request",
  );

  matchObject(t, await ask("PATCH", `/api/v1/orgs/${made.body.id}`, { name: "Second", slug: "second" }), {
    status: 200,
    body: { name: "Second", slug: "second" },
  });
  matchObject(
    t,
    await ask("PATCH", `/api/v1/orgs/${made.body.id}`, { slug: `zweite-gmbh` }),
    { status: 200 },
    "the old slug is free at once",
  );
  matchObject(
    t,
    await ask("PATCH", `/api/v1/orgs/${owner.orgId}`, { slug: "zweite-gmbh" }),
    refused(409, "SLUG_TAKEN"),
  );
  matchObject(
    t,
    await ask("PATCH", `/api/v1/orgs/${owner.orgId}`, { slug: "No" }),
    refused(400, "INVALID_SLUG", "/slug"),
  );
  matchObject(t, await ask("PATCH", `/api/v1/orgs/${owner.orgId}`, { name: " " }), refused(400, "EMPTY_NAME", "/name"));

  const bound = asking(served, await withToken(owner));
  matchObject(
    t,
    await bound("GET", "/api/v1/orgs"),
    { body: { total: 1, items: [{ id: owner.orgId }] } },
    "a bound token sees its own",
  );
  matchObject(t, await bound("GET", `/api/v1/orgs/${made.body.id}`), refused(404, "ORG_NOT_FOUND"));
  matchObject(t, await bound("POST", "/api/v1/orgs", { name: "Third" }), refused(403, "FORBIDDEN"));
  matchObject(t, await bound("POST", `/api/v1/orgs/${owner.orgId}/switch`), refused(403, "FORBIDDEN"));
});

t.test("one below the limit of owned organisations exactly one of many concurrent creations succeeds", async (t) => {
  const world = await openWorld(t);
  const ask = asking(await serveWhole(t, world), await signedIn(await newOrg(world.system)));
  await ask("POST", "/api/v1/orgs", { name: "Two" });
  const race = await Promise.all(Array.from({ length: 12 }, () => ask("POST", "/api/v1/orgs", { name: "Three" })));
  t.equal(race.filter(({ status }) => status === 201).length, 1);
  matchObject(t, race.find(({ status }) => status === 422)?.body.error, {
    code: "QUOTA_EXCEEDED",
    details: { quota: "owned_orgs", current: 3, limit: 3, plan: "selfhost" },
  });
  t.equal(race.filter(({ status }) => status === 422).length, 11);
});

t.test("every route answers a foreign organisation like an absent one", async (t) => {
  const world = await openWorld(t);
  const foreign = await newOrg(world.system);
  const ask = asking(await serveWhole(t, world), await signedIn(await newOrg(world.system)));
  const tails: [string, string, unknown?][] = [
    ["GET", ""],
    ["PATCH", "", { name: "x" }],
    ["DELETE", ""],
    ["POST", "/restore"],
    ["POST", "/switch"],
    ["GET", "/usage"],
    ["GET", "/audit"],
    ["GET", "/members"],
    ["PATCH", `/members/${foreign.userId}`, { role: "member" }],
    ["DELETE", `/members/${foreign.userId}`],
    ["GET", "/invitations"],
    ["POST", "/invitations", { email: "a@example.org" }],
    ["DELETE", `/invitations/${newId()}`],
  ];
  for (const [method, tail, body] of tails) {
    const [there, absent, nonsense] = await Promise.all(
      [foreign.orgId, newId(), "nonsense"].map((id) =>
        ask(method, `/api/v1/orgs/${id}${tail}`, body, { traceparent: `00-${"1".repeat(32)}-${"1".repeat(16)}-01` }),
      ),
    );
    matchObject(t, there, refused(404, "ORG_NOT_FOUND"), `${method} ${tail}`);
    t.equal(there!.text, absent!.text);
    t.equal(there!.text, nonsense!.text);
  }
});

t.test("a deleted organisation refuses access and stops its checks; its owner restores it", async (t) => {
  const world = await openWorld(t);
  const owner = await newOrg(world.system);
  const member = await newMember(owner);
  const served = await serveWhole(t, world);
  const [ask, asMember, program] = [
    asking(served, await signedIn(owner)),
    asking(served, await signedIn(member)),
    asking(served, await withToken(owner)),
  ];
  const targetId = await newTarget(owner);
  await setStatus(owner, targetId, "up");
  await world.sql`
    update targets
    set kind = 'tcp', spec = ${world.sql.json({ type: "tcp", host: "shop.example.org", port: 443, timeout: 1000 })}`;
  await world.sql`insert into target_regions (target_id, region_id) values (${targetId}, 'eu')`;
  const agent = await newAgent(world.system);
  const hub = openHub(world.sql, world.log);
  const request = (cursor: string | null) => ({
    protocol: protocolVersion,
    agent_version: "0",
    kinds: allAbilities,
    capacity: 0,
    cursor,
  });
  const pulled = async (cursor: string | null) => await pull(agent, hub, request(cursor), AbortSignal.abort());
  const first = await pulled(null);
  matchObject(t, first.checks, [{ target_id: targetId }]);

  matchObject(t, await asMember("DELETE", `/api/v1/orgs/${owner.orgId}`), refused(403, "OWNER_REQUIRED"));
  matchObject(t, await ask("DELETE", `/api/v1/orgs/${owner.orgId}`), { status: 204 });
  const second = await pulled(first.cursor);
  matchObject(t, second, { full: false, checks: [], drop: [targetId] }, "its agents drop the checks");
  t.strictSame((await pulled(null)).checks, [], "and no agent that starts gets them");
  for (const who of [ask, program]) matchObject(t, await who("GET", "/api/v1/targets"), refused(404, "ORG_NOT_FOUND"));
  matchObject(t, await asMember("GET", "/api/v1/targets"), refused(401, "UNAUTHENTICATED"));
  const page = await ask("GET", "/monitors", undefined, { accept: "text/html" });
  matchObject(
    t,
    [page.status, page.headers.get("location")],
    [302, "/settings/organisation"],
    "where it can be restored",
  );
  matchObject(t, await asMember("POST", `/api/v1/orgs/${owner.orgId}/restore`), refused(401, "UNAUTHENTICATED"));
  matchObject(t, await ask("GET", `/api/v1/orgs/${owner.orgId}`), {
    body: {
      deleted_at: new Date(world.clock.now()).toISOString(),
      purged_at: new Date(world.clock.now() + 30 * day).toISOString(),
    },
  });
  matchObject(t, await ask("DELETE", `/api/v1/orgs/${owner.orgId}`), refused(404, "ORG_NOT_FOUND"));
  matchObject(t, await ask("PATCH", `/api/v1/orgs/${owner.orgId}`, { name: "x" }), refused(404, "ORG_NOT_FOUND"));

  matchObject(t, await ask("POST", `/api/v1/orgs/${owner.orgId}/restore`), { status: 200, body: { deleted_at: null } });
  matchObject(t, (await pulled(second.cursor)).checks, [{ target_id: targetId }], "and its checks go on");
  for (const who of [ask, asMember, program])
    matchObject(t, await who("GET", "/api/v1/targets"), { status: 200, body: { total: 1 } });
});

t.test("a session of a deleted organisation continues in another one of its user", async (t) => {
  const world = await openWorld(t);
  const { system, sql } = world;
  const [gone, home] = [await newOrg(system), await newOrg(system)];
  const member = await newMember(gone);
  for (const { userId } of [gone, member])
    await sql`
      insert into memberships (org_id, user_id, role, created_at)
      values (${home.orgId}, ${userId}, 'member', ${new Date(world.clock.now())})`;
  const served = await serveWhole(t, world);
  const [ask, asMember] = [asking(served, await signedIn(gone)), asking(served, await signedIn(member))];
  const target = { name: "x", check: { type: "tcp", host: "shop.example.org", port: 443 } };
  await ask("DELETE", `/api/v1/orgs/${gone.orgId}`);

  matchObject(t, await ask("GET", "/settings/organisation"), { status: 200, text: /is deleted/ });
  for (const who of [ask, asMember]) {
    const write = await who("POST", "/api/v1/targets", target);
    matchObject(
      t,
      write,
      refused(404, "ORG_NOT_FOUND"),
      "a write that was meant for the deleted one goes nowhere else",
    );
    matchObject(t, await who("GET", "/monitors"), { status: 200 });
    matchObject(t, await who("GET", "/api/v1/me"), { body: { org: { id: home.orgId }, role: "member" } });
    matchObject(t, await who("POST", "/api/v1/targets", target), { status: 201 });
  }
  matchObject(t, await sql`select distinct org_id from targets`, [{ org_id: home.orgId }]);
  matchObject(t, await ask("POST", `/api/v1/orgs/${gone.orgId}/restore`), { status: 200 });
  matchObject(t, await ask("GET", "/api/v1/me"), { body: { org: { id: home.orgId } } }, "until it switches back");
});

t.test("after the grace period the nightly job purges a deleted organisation with all its data", async (t) => {
  const world = await openWorld(t);
  const { system, sql, clock } = world;
  const [gone, kept] = [await newOrg(system), await newOrg(system)];
  const ask = asking(await serveWhole(t, world), await signedIn(gone));
  for (const org of [gone, kept]) {
    const targetId = await newTarget(org);
    await setStatus(org, targetId, "up");
    await addIncident(org, targetId, { started: clock.now() });
    await webhookTo(org, "https://hooks.example.org/");
  }
  t.equal(await nightly(system), true);
  t.equal(await nightly(system), false, "one night, one run");
  await ask("DELETE", `/api/v1/orgs/${gone.orgId}`);
  clock.advance(29 * day);
  await nightly(system);
  matchObject(t, await ask("GET", `/api/v1/orgs/${gone.orgId}`), { status: 200 });
  clock.advance(day);
  matchObject(
    t,
    await ask("POST", `/api/v1/orgs/${gone.orgId}/restore`),
    { status: 404 },
    "the time is over, purged or not",
  );
  t.equal(await nightly(system), true);
  const left = await sql<{ org_id: string }[]>`
    select org_id from targets union all select org_id from incidents union all select org_id from channels union all
    select id from orgs`;
  t.strictSame(new Set(left.map((row) => row.org_id)), new Set([kept.orgId]));
  t.equal(
    (await sql`select 1 from deleted_targets where org_id = ${gone.orgId}`).length,
    1,
    "tombstones for agents and rollups",
  );

  const loose = await sql`
      select conrelid::regclass as table from pg_constraint
      where confrelid = 'orgs'::regclass and contype = 'f' and confdeltype <> 'c'`;
  t.strictSame([...loose], [], "whatever refers to an organisation goes with it");
});

t.test("the last owner cannot leave, nor two concurrently; a removed member loses access at once", async (t) => {
  const world = await openWorld(t);
  const owner = await newOrg(world.system);
  const [second, member] = [await newMember(owner, "owner"), await newMember(owner)];
  const served = await serveWhole(t, world);
  const [ask, asSecond, asMember] = [
    asking(served, await signedIn(owner)),
    asking(served, await signedIn(second)),
    asking(served, await signedIn(member)),
  ];
  const program = asking(served, await withToken(member));
  const path = `/api/v1/orgs/${owner.orgId}/members`;
  matchObject(t, await asMember("GET", path), {
    body: { total: 3, items: [{ user_id: owner.userId, role: "owner" }, {}, {}] },
  });
  matchObject(
    t,
    await asMember("PATCH", `${path}/${member.userId}`, { role: "owner" }),
    refused(403, "OWNER_REQUIRED"),
  );
  matchObject(t, await asMember("DELETE", `${path}/${owner.userId}`), refused(403, "OWNER_REQUIRED"));
  matchObject(t, await ask("DELETE", `${path}/${newId()}`), refused(404, "MEMBER_NOT_FOUND"));

  const race = await Promise.all([
    ask("DELETE", `${path}/${owner.userId}`),
    asSecond("DELETE", `${path}/${second.userId}`),
  ]);
  t.strictSame(race.map(({ status }) => status).sort(), [204, 409]);
  matchObject(
    t,
    race.find(({ status }) => status === 409),
    refused(409, "LAST_OWNER"),
  );
  const [left, stays] = race[0]!.status === 204 ? [ask, asSecond] : [asSecond, ask];
  matchObject(t, await left("GET", "/api/v1/targets"), refused(401, "UNAUTHENTICATED"));
  const lastId = race[0]!.status === 204 ? second.userId : owner.userId;
  matchObject(t, await stays("PATCH", `${path}/${lastId}`, { role: "member" }), refused(409, "LAST_OWNER"));

  matchObject(t, await stays("PATCH", `${path}/${member.userId}`, { role: "owner" }), {
    status: 200,
    body: { role: "owner" },
  });
  const demoted = await Promise.all(
    [lastId, member.userId].map((id) => stays("PATCH", `${path}/${id}`, { role: "member" })),
  );
  t.equal(demoted.filter(({ status }) => status === 200).length, 1, "two demotions at once leave an owner");
  const [remaining] = await world.sql<
    { user_id: string }[]
  >`select user_id from memberships where org_id = ${owner.orgId} and role = 'owner'`;
  const boss = remaining!.user_id === member.userId ? asMember : stays;
  if (remaining!.user_id === member.userId) await boss("PATCH", `${path}/${lastId}`, { role: "owner" });
  matchObject(t, await stays("DELETE", `${path}/${member.userId}`), { status: 204 });
  matchObject(t, await asMember("GET", "/api/v1/me"), refused(401, "UNAUTHENTICATED"));
  matchObject(t, await program("GET", "/api/v1/me"), refused(401, "UNAUTHENTICATED"));
  await world.sql`
    insert into memberships (org_id, user_id, role, created_at)
    values (${owner.orgId}, ${member.userId}, 'member', now())`;
  matchObject(
    t,
    await program("GET", "/api/v1/me"),
    refused(401, "UNAUTHENTICATED"),
    "coming back brings no old token back",
  );
});

t.test("usage has the current number and the limit of every quota", async (t) => {
  const world = await openWorld(t);
  const owner = await newOrg(world.system, "free");
  const ask = asking(await serveWhole(t, world), await signedIn(owner));
  await newTarget(owner);
  await webhookTo(owner, "https://hooks.example.org/");
  matchObject(t, await ask("GET", `/api/v1/orgs/${owner.orgId}/usage`), {
    status: 200,
    body: {
      plan: "free",
      min_check_interval_secs: 60,
      quotas: {
        max_targets: { current: 1, limit: 20 },
        max_members: { current: 1, limit: 3 },
        max_pending_invitations: { current: 0, limit: 10 },
        max_notification_channels: { current: 1, limit: 20 },
      },
    },
  });
});

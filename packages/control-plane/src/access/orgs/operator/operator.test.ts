import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { allAbilities } from "@statusmesh/shared/checks/abilities";
import { newId } from "@statusmesh/shared/ids";
import { agentPulls } from "../../../monitoring/agents/service.ts";
import type { Ctx } from "../../../platform/context.ts";
import { newTarget } from "../../../testing/scene.ts";
import { asking, serveWhole, signedIn } from "../../../testing/whole-app.ts";
import { newAgent, newOrg, openWorld } from "../../../testing/world.ts";

const secret = "operator-secret-0123456789";
const world = await openWorld(t, { env: { SM_OPERATOR__ADMIN_TOKEN: secret } });
const { system, sql, clock } = world;
const ask = await serveWhole(t, world);
const operator = asking(ask, { authorization: `Bearer ${secret}` });
const change = async (ctx: Ctx, patch: object) => await operator("PATCH", `/operator/orgs/${ctx.orgId}`, patch);

t.test("an organisation moves to another plan; its audit log says so, others stay", async (t) => {
  const [owner, other] = [await newOrg(system, "selfhost"), await newOrg(system, "selfhost")];
  const api = asking(ask, await signedIn(owner));
  matchObject(t, await change(owner, { plan: "free" }), {
    status: 200,
    body: {
      id: owner.orgId,
      plan: "free",
      overrides: {},
      limits: { max_targets: 20 },
      usage: { max_members: 1, max_targets: 0 },
    },
  });
  matchObject(t, (await api("GET", `/api/v1/orgs/${owner.orgId}/usage`)).body, { plan: "free" });
  matchObject(t, (await operator("GET", `/operator/orgs/${other.orgId}`)).body, { plan: "selfhost" });
  const [entry] = (await api("GET", `/api/v1/orgs/${owner.orgId}/audit`)).body.items;
  matchObject(t, entry, {
    action: "PATCH /operator/orgs/{id}",
    actor_type: "system",
    user_id: null,
    ip: null,
    before: { plan: "selfhost", overrides: {} },
    after: { plan: "free", overrides: {} },
  });
});

t.test("overrides replace limits of the plan, null is unlimited, and {} ends them", async (t) => {
  const owner = await newOrg(system, "free");
  const api = asking(ask, await signedIn(owner));
  const [one, two, three] = [await newTarget(owner), await newTarget(owner), await newTarget(owner)];
  const share = async (id: string) => (await api("POST", `/api/v1/targets/${id}/shares`, {})).status;
  t.equal(await share(one), 201);
  t.equal(await share(one), 422, "one link of a monitor");
  matchObject(t, await change(owner, { overrides: { max_share_links_per_monitor: 2, max_shared_monitors: null } }), {
    status: 200,
    body: { plan: "free", limits: { max_share_links_per_monitor: 2, max_shared_monitors: null, max_targets: 20 } },
  });
  t.equal(await share(one), 201);
  t.equal(await share(one), 422, "two links of a monitor");
  for (const id of [two, three]) t.equal(await share(id), 201, "any number of monitors");
  matchObject(t, (await api("GET", `/api/v1/orgs/${owner.orgId}/usage`)).body.quotas, {
    max_share_links_per_monitor: { current: 2, limit: 2 },
    max_shared_monitors: { current: 3, limit: null },
    max_update_templates: { current: 0, limit: 100 },
    max_certificates: { current: 0, limit: 50 },
    max_maintenance_windows: { current: 0, limit: 20 },
  });
  await change(owner, { overrides: { min_check_interval_secs: 30 } });
  matchObject(t, (await api("GET", `/api/v1/orgs/${owner.orgId}/usage`)).body, { min_check_interval_secs: 30 });
  t.equal(await share(two), 422, "the overrides before are gone");
  matchObject(t, (await change(owner, { overrides: {} })).body, {
    overrides: {},
    limits: { min_check_interval_secs: 60 },
  });

  await change(owner, { overrides: { api_reads_per_min: 1 } });
  clock.advance(60_000);
  matchObject(
    t,
    [(await api("GET", "/api/v1/targets")).status, (await api("GET", "/api/v1/targets")).status],
    [200, 429],
  );
});

t.test("wrong input changes nothing", async (t) => {
  const owner = await newOrg(system, "free");
  for (const [patch, code, field] of [
    [{ plan: "pro" }, "INVALID_BODY", "/plan"],
    [{ overrides: { max_target: 5 } }, "UNKNOWN_FIELD", "/overrides/max_target"],
    [{ overrides: { id: "selfhost" } }, "UNKNOWN_FIELD", "/overrides/id"],
    [{ overrides: { max_targets: -1 } }, "INVALID_BODY", "/overrides/max_targets"],
    [{ overrides: { min_check_interval_secs: null } }, "INVALID_BODY", "/overrides/min_check_interval_secs"],
    [{ overrides: { min_check_interval_secs: 5 } }, "INVALID_BODY", "/overrides/min_check_interval_secs"],
    [{ overrides: { api_reads_per_min: 0 } }, "INVALID_BODY", "/overrides/api_reads_per_min"],
  ] as const)
    matchObject(t, (await change(owner, patch)).body.error, { code, field }, JSON.stringify(patch));
  matchObject(t, (await operator("GET", `/operator/orgs/${owner.orgId}`)).body, { plan: "free", overrides: {} });
  matchObject(t, await operator("PATCH", `/operator/orgs/${newId()}`, { plan: "free" }), { status: 404 });
  const api = asking(ask, await signedIn(owner));
  for (const path of ["/operator/orgs", "/operator/plans"])
    matchObject(t, await api("GET", path), { status: 401 }, "an owner is no operator");
});

t.test("the list finds organisations by name and slug, and names their owners", async (t) => {
  const owner = await newOrg(system, "free");
  await sql`update orgs set name = '100%_Acme', slug = 'acme-x' where id = ${owner.orgId}`;
  const found = async (q: string) =>
    (await operator("GET", `/operator/orgs?q=${encodeURIComponent(q)}`)).body.items.map(({ id }: { id: string }) => id);
  for (const q of ["0%_a", "ACME-X"]) t.strictSame(await found(q), [owner.orgId], q);
  t.strictSame(await found("nobody"), []);
  const { email } = (await sql<{ email: string }[]>`select email from users where id = ${owner.userId}`)[0]!;
  matchObject(t, (await operator("GET", "/operator/orgs/acme-x")).body, {
    id: owner.orgId,
    owners: [email],
    deleted_at: null,
  });
  matchObject(t, (await operator("GET", "/operator/plans")).body, {
    total: 2,
    items: [{ id: "free", limits: { max_targets: 20 } }, { id: "selfhost" }],
  });
});

t.test("a connected agent is deleted by force only", async (t) => {
  const agent = await newAgent(system);
  await agentPulls(agent, { version: "1.0.0", kinds: allAbilities, impairedSince: null });
  const path = `/operator/agents/${agent.agentId}`;
  matchObject(t, await operator("DELETE", path), { status: 409, body: { error: { code: "RESOURCE_IN_USE" } } });
  matchObject(t, await operator("DELETE", `${path}?force=yes`), {
    status: 400,
    body: { error: { code: "INVALID_QUERY" } },
  });
  matchObject(t, await operator("DELETE", `${path}?force=true`), { status: 204 });
  matchObject(t, await operator("DELETE", `${path}?force=true`), { status: 404 });
  const offline = await newAgent(system);
  await agentPulls(offline, { version: "1.0.0", kinds: allAbilities, impairedSince: null });
  clock.advance(25_000);
  matchObject(
    t,
    await operator("DELETE", `/operator/agents/${offline.agentId}`),
    { status: 204 },
    "25 s after its last pull",
  );
});

import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { serve } from "../../testing/app.ts";
import { addIncident, newTarget, setStatus } from "../../testing/scene.ts";
import { asking, newMember, serveWhole, signedIn } from "../../testing/whole-app.ts";
import { newOrg, openWorld } from "../../testing/world.ts";
import { updateTemplateRoutes } from "./api.ts";

const world = await openWorld(t);
const { sql, system, clock } = world;
const owner = await newOrg(system);
const member = await newMember(owner);
let caller = member;
const ask = await serve(t, system, updateTemplateRoutes, { tenant: () => caller });
const path = "/api/v1/update-templates";
const provider = { kind: "incident", name: "Provider", phase: "identified", body: "Our **provider** is away." };

t.test("a member saves, changes, lists and deletes texts", async (t) => {
  const made = await ask("POST", path, provider);
  matchObject(t, made, { status: 201, body: { ...provider, title: null } });
  t.equal(made.headers.get("location"), `${path}/${made.body.id}`);
  const upgrade = { kind: "maintenance", name: "Provider", title: "Upgrade", body: "The shop is read-only." };
  t.equal((await ask("POST", path, upgrade)).status, 201, "a name is taken within its kind only");
  const taken = { status: 409, body: { error: { code: "UPDATE_TEMPLATE_NAME_TAKEN" } } };
  matchObject(t, await ask("POST", path, provider), taken);
  matchObject(t, (await ask("GET", path)).body, { total: 2, items: [{ kind: "incident" }, upgrade] });
  matchObject(t, (await ask("GET", `${path}?kind=maintenance`)).body, { total: 1, items: [upgrade] });
  const other = (await ask("POST", path, { ...provider, name: "Other" })).body;
  matchObject(t, await ask("PATCH", `${path}/${other.id}`, { name: "Provider" }), taken);
  clock.at += 1000;
  matchObject(t, (await ask("PATCH", `${path}/${other.id}`, { phase: null, title: "Title" })).body, {
    name: "Other",
    phase: null,
    title: "Title",
    body: provider.body,
    updated_at: new Date(clock.at).toISOString(),
  });
  const faults: [object, string, string][] = [
    [{ name: " " }, "EMPTY_NAME", "/name"],
    [{ body: "" }, "EMPTY_MESSAGE", "/body"],
    [{ body: "x".repeat(2001) }, "MESSAGE_TOO_LONG", "/body"],
    [{ title: "x".repeat(201) }, "TITLE_TOO_LONG", "/title"],
    [{ kind: "report" }, "INVALID_BODY", "/kind"],
    [{ phase: "done" }, "INVALID_BODY", "/phase"],
  ];
  for (const [change, code, field] of faults)
    matchObject(
      t,
      await ask("PATCH", `${path}/${other.id}`, change),
      { status: 400, body: { error: { code, field } } },
      code,
    );
  caller = await newOrg(system);
  t.equal((await ask("GET", path)).body.total, 0);
  t.equal((await ask("DELETE", `${path}/${other.id}`)).status, 404, "of another organisation");
  caller = member;
  t.equal((await ask("DELETE", `${path}/${other.id}`)).status, 204);
  t.equal((await ask("DELETE", `${path}/${other.id}`)).status, 404);
});

t.test("an organisation has at most as many as its plan allows", async (t) => {
  await sql`update orgs set plan_overrides = '{"max_update_templates": 3}' where id = ${owner.orgId}`;
  const made = await Promise.all([1, 2, 3, 4].map((n) => ask("POST", path, { ...provider, name: `Race ${n}` })));
  t.strictSame(made.map(({ status }) => status).sort(), [201, 422, 422, 422]);
  matchObject(
    t,
    made.find(({ status }) => status === 422),
    { body: { error: { code: "QUOTA_EXCEEDED", details: { quota: "max_update_templates", limit: 3 } } } },
  );
});

t.test("the forms offer the texts of their kind", async (t) => {
  const browser = asking(await serveWhole(t, world), await signedIn(member));
  const target = await newTarget(member);
  await setStatus(system, target, "down");
  const incident = await addIncident(member, target, { started: clock.at - 60_000 });
  const offered = async (page: string) =>
    [...(await browser("GET", page)).text.matchAll(/<option value="[^"]*" data-fill="([^"]*)"/g)].map(
      ([, fill]) => JSON.parse(fill!.replaceAll("&quot;", '"').replaceAll("&#39;", "'")) as Record<string, string>,
    );
  const ours = { "/phase": "identified", "/message": provider.body };
  matchObject(t, await offered(`/incidents/${incident}`), [
    ours,
    ours,
    { "/phase": "investigating", "/message": /^We are investigating a problem/ },
    { "/phase": "identified", "/message": /^We have identified the cause/ },
    { "/phase": "monitoring", "/message": /^A fix for / },
    { "/phase": "resolved" },
  ]);
  matchObject(t, await offered("/incidents/new"), [{ "/message": provider.body }, { "/message": provider.body }]);
  matchObject(t, await offered("/maintenance/new"), [
    { "/title": "Upgrade", "/description": "The shop is read-only." },
  ]);
  t.match((await browser("GET", "/incidents/templates")).text, /Our \*\*provider\*\* is away/);
});

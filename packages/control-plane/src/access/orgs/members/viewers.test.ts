import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { asking, newMember, serveWhole, signedIn } from "../../../testing/whole-app.ts";
import { newOrg, openWorld } from "../../../testing/world.ts";

/* Every route by role: test/conformance/isolation.test.ts. */

const world = await openWorld(t);
const { sql } = world;

t.test("a viewer reads, and makes tokens that read", async (t) => {
  const owner = await newOrg(world.system);
  const viewer = await newMember(owner, "viewer");
  const ask = await serveWhole(t, world);
  const [console, byOwner] = [asking(ask, await signedIn(viewer)), asking(ask, await signedIn(owner))];
  const target = { name: "Shop", check: { type: "heartbeat", period: 60_000 } };
  const { id } = (await byOwner("POST", "/api/v1/targets", target)).body;

  matchObject(t, (await console("GET", "/api/v1/targets")).body, { total: 1 });
  const refused = await console("PATCH", `/api/v1/targets/${id}`, { enabled: false });
  matchObject(t, refused.body.error, { code: "INSUFFICIENT_SCOPE", message: /^Your role .* is viewer/ });
  t.equal((await console("GET", `/monitors/${id}/edit`)).status, 403, "no form that could not be saved");
  t.equal((await console("GET", `/monitors/${id}`)).status, 200);

  const make = (scopes: string[]) => console("POST", "/api/v1/api-tokens", { name: scopes.join(), scopes });
  for (const scope of ["targets:write", "targets:execute", "org:write"])
    t.match((await make([scope])).body.error?.code, "INSUFFICIENT_SCOPE", scope);
  const made = await make(["targets:read", "org:read"]);
  t.equal(made.status, 201);
  const byToken = asking(ask, { authorization: `Bearer ${made.body.token}` });
  t.equal((await byToken("GET", `/api/v1/targets/${id}`)).status, 200);
  t.equal((await byToken("DELETE", `/api/v1/targets/${id}`)).status, 403);
});

t.test("a ping shows a viewer neither the output of the job nor its address, and no ping URL", async (t) => {
  const owner = await newOrg(world.system);
  const viewer = await newMember(owner, "viewer");
  const ask = await serveWhole(t, world);
  const [console, byOwner] = [asking(ask, await signedIn(viewer)), asking(ask, await signedIn(owner))];
  const target = { name: "Backup", check: { type: "heartbeat", period: 60_000 } };
  const { id } = (await byOwner("POST", "/api/v1/targets", target)).body;
  await sql`
    insert into heartbeat_pings (target_id, number, at, kind, source_ip, user_agent, body)
    values (${id}, 1, ${new Date(owner.clock.now())}, 'success', '192.0.2.1', 'curl/8.14.1', 'the password is 1234')`;
  const path = `/api/v1/targets/${id}/heartbeat`;
  matchObject(t, (await console("GET", path)).body, { token: "***", last_ping: { body: null, source_ip: null } });
  matchObject(t, (await console("GET", `${path}/pings`)).body, {
    items: [{ kind: "success", body: null, source_ip: null }],
  });
  matchObject(t, (await byOwner("GET", `${path}/pings`)).body, {
    items: [{ body: /password/, source_ip: "192.0.2.1" }],
  });
  t.notMatch((await console("GET", `/monitors/${id}`)).text, /the password is 1234|192\.0\.2\.1/);
});

t.test("a token of a member who became a viewer reads from then on", async (t) => {
  const owner = await newOrg(world.system);
  const member = await newMember(owner);
  const ask = await serveWhole(t, world);
  const [console, byOwner] = [asking(ask, await signedIn(member)), asking(ask, await signedIn(owner))];
  const scopes = ["targets:write", "org:write"];
  const { token } = (await console("POST", "/api/v1/api-tokens", { name: "CI", scopes })).body;
  const byToken = asking(ask, { authorization: `Bearer ${token}` });
  const target = { name: "Shop", check: { type: "heartbeat", period: 60_000 } };
  t.equal((await byToken("POST", "/api/v1/targets", target)).status, 201);
  const path = `/api/v1/orgs/${owner.orgId}/members/${member.userId}`;
  matchObject(t, (await byOwner("PATCH", path, { role: "viewer" })).body, { role: "viewer" });
  t.equal((await byToken("POST", "/api/v1/targets", target)).status, 403);
  t.equal((await byToken("GET", "/api/v1/targets")).status, 200);
  t.equal((await console("DELETE", path)).status, 204, "a viewer may leave");
});

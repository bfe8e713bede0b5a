import t from "tap";
import { nightly } from "../jobs/nightly.ts";
import { day } from "../testing/clock.ts";
import { asking, newMember, serveWhole, signedIn, withToken } from "../testing/whole-app.ts";
import { newOrg, openWorld } from "../testing/world.ts";

const refused = (status: number, code: string) => ({ status, body: { error: { code } } });
const target = { name: "Shop", check: { type: "http", url: "https://shop.example.org/", bearer_token: "very-secret-token" } };

t.test("every write leaves one row: who, what, from where; reads and refusals leave none", async (t) => {
  const world = await openWorld(t);
  const owner = await newOrg(world.system);
  const served = await serveWhole(t, world);
  const browser = asking(served, { ...(await signedIn(owner)), "user-agent": "Firefox", traceparent: `00-${"ab".repeat(16)}-${"1".repeat(16)}-01` });
  const program = asking(served, { ...(await withToken(owner)), "user-agent": "Terraform/1.9" });
  const path = `/api/v1/orgs/${owner.orgId}/audit`;

  const made = await browser("POST", "/api/v1/targets", target);
  t.equal(made.status, 201);
  t.match(await browser("GET", path), {
    body: {
      total: 1,
      items: [
        {
          at: new Date(world.clock.now()).toISOString(),
          user_id: owner.userId,
          user_email: `${owner.userId}@example.org`,
          actor_type: "session",
          actor_id: /^[0-9a-f-]{36}$/,
          action: "POST /api/v1/targets",
          resource_id: made.body.id,
          write_source: "ui",
          ip: /127\.0\.0\.1$/,
          user_agent: "Firefox",
          trace_id: "ab".repeat(16),
        },
      ],
    },
  });

  await browser("GET", `/api/v1/targets/${made.body.id}`);
  t.match(await browser("POST", "/api/v1/targets", { ...target, name: "" }), { status: 400 });
  t.match(await browser("DELETE", `/api/v1/targets/${owner.orgId}`), { status: 404 });
  t.equal((await browser("GET", path)).body.total, 1);

  t.equal((await program("PATCH", `/api/v1/targets/${made.body.id}`, { name: "New" })).status, 200);
  t.match((await browser("GET", path)).body.items[0], {
    actor_type: "token",
    action: "PATCH /api/v1/targets/{id}",
    resource_id: made.body.id,
    write_source: "terraform",
    before: null,
    after: null,
  });
  t.match((await browser("GET", `${path}?resource_id=${made.body.id}&limit=1`)).body, { total: 2, limit: 1, items: [{ action: "PATCH /api/v1/targets/{id}" }] });
  t.equal((await browser("GET", `${path}?user_id=${owner.orgId}`)).body.total, 0);

  await browser("PATCH", `/api/v1/orgs/${owner.orgId}`, { name: "Acme Ltd" });
  t.match((await browser("GET", path)).body.items[0], { resource_id: owner.orgId, before: { name: "Acme" }, after: { name: "Acme Ltd" } });
  t.equal((await browser("GET", path)).body.total, 3, "a change that says what it was is not recorded twice");

  const token = (await browser("POST", "/api/v1/api-tokens", { name: "CI", scopes: ["org:read"] })).body.token;
  const [all] = await world.sql<{ text: string }[]>`select string_agg(a::text, ' ') as text from audit_log a`;
  t.notMatch(all!.text, token);
  t.notMatch(all!.text, /very-secret-token/);
});

t.test("a repeated request with an Idempotency-Key is one write", async (t) => {
  const world = await openWorld(t);
  const owner = await newOrg(world.system);
  const browser = asking(await serveWhole(t, world), await signedIn(owner));
  for (let n = 0; n < 2; n++) t.match(await browser("POST", "/api/v1/targets/bulk", [target], { "idempotency-key": "one" }), { status: 201 });
  t.equal((await browser("GET", `/api/v1/orgs/${owner.orgId}/audit`)).body.total, 1);
});

t.test("only owners read the log, and only with the scope", async (t) => {
  const world = await openWorld(t);
  const owner = await newOrg(world.system);
  const served = await serveWhole(t, world);
  const path = `/api/v1/orgs/${owner.orgId}/audit`;
  t.match(await asking(served, await signedIn(await newMember(owner)))("GET", path), refused(403, "OWNER_REQUIRED"));
  t.match(await asking(served, await withToken(owner, { scopes: ["targets:read"] }))("GET", path), refused(403, "INSUFFICIENT_SCOPE"));
});

t.test("a change and its row are one transaction where the row says what changed", async (t) => {
  const world = await openWorld(t);
  const owner = await newOrg(world.system);
  const browser = asking(await serveWhole(t, world), await signedIn(owner));
  await world.sql`alter table audit_log add constraint broken check (action <> 'PATCH /api/v1/orgs/{id}' and action <> 'POST /api/v1/targets')`;
  t.match(await browser("PATCH", `/api/v1/orgs/${owner.orgId}`, { name: "Lost" }), { status: 500 });
  t.match(await browser("GET", `/api/v1/orgs/${owner.orgId}`), { body: { name: "Acme" } });
  t.match(await browser("POST", "/api/v1/targets", target), { status: 201 }, "elsewhere the change stands");
  t.match(
    world.log.lines.filter(({ message }) => message.includes("audit log")),
    [{ level: "error", fields: { action: "POST /api/v1/targets", user: owner.userId } }],
    "and the row is in the log",
  );
});

t.test("rows go after their time, from 03:00 UTC on", async (t) => {
  const world = await openWorld(t, { env: { SM_RETENTION__AUDIT_DAYS: "10" } });
  const owner = await newOrg(world.system);
  const browser = asking(await serveWhole(t, world), await signedIn(owner));
  const total = async () => (await browser("GET", `/api/v1/orgs/${owner.orgId}/audit`)).body.total as number;
  await browser("POST", "/api/v1/targets", target);
  t.equal(await nightly(world.system), true);
  world.clock.at = Date.UTC(2026, 10, 21, 2, 59);
  t.equal(await nightly(world.system), false, "not yet");
  world.clock.advance(60_000);
  t.equal(await nightly(world.system), true);
  t.equal(await total(), 1);
  world.clock.advance(10 * day);
  await nightly(world.system);
  t.equal(await total(), 0);
});

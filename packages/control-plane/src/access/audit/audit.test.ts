import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { differences, recordRequest } from "./service.ts";
import { nightly } from "../../operator/cleanup.ts";
import { day } from "../../testing/clock.ts";
import { asking, newMember, serveWhole, signedIn, withToken } from "../../testing/whole-app.ts";
import { newOrg, openWorld } from "../../testing/world.ts";

const refused = (status: number, code: string) => ({ status, body: { error: { code } } });
const target = {
  name: "Shop",
  check: { type: "http", url: "https://shop.example.org/", bearer_token: "very-secret-token" },
};

t.test("every write leaves one row with actor, action and address; reads and refusals leave none", async (t) => {
  const world = await openWorld(t);
  const owner = await newOrg(world.system);
  const served = await serveWhole(t, world);
  const browser = asking(served, {
    ...(await signedIn(owner)),
    "user-agent": "Firefox",
    traceparent: `00-${"ab".repeat(16)}-${"1".repeat(16)}-01`,
  });
  const program = asking(served, { ...(await withToken(owner)), "user-agent": "Terraform/1.9" });
  const path = `/api/v1/orgs/${owner.orgId}/audit`;

  const made = await browser("POST", "/api/v1/targets", target);
  t.equal(made.status, 201);
  matchObject(t, await browser("GET", path), {
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
  matchObject(t, await browser("POST", "/api/v1/targets", { ...target, name: "" }), { status: 400 });
  matchObject(t, await browser("DELETE", `/api/v1/targets/${owner.orgId}`), { status: 404 });
  t.equal((await browser("GET", path)).body.total, 1);

  t.equal((await program("PATCH", `/api/v1/targets/${made.body.id}`, { name: "New" })).status, 200);
  matchObject(t, (await browser("GET", path)).body.items[0], {
    actor_type: "token",
    action: "PATCH /api/v1/targets/{id}",
    resource_id: made.body.id,
    write_source: "terraform",
    before: { name: "Shop" },
    after: { name: "New" },
  });
  matchObject(t, (await browser("GET", `${path}?resource_id=${made.body.id}&limit=1`)).body, {
    total: 2,
    limit: 1,
    items: [{ action: "PATCH /api/v1/targets/{id}" }],
  });
  t.equal((await browser("GET", `${path}?user_id=${owner.orgId}`)).body.total, 0);

  await browser("PATCH", `/api/v1/orgs/${owner.orgId}`, { name: "Acme Ltd" });
  matchObject(t, (await browser("GET", path)).body.items[0], {
    resource_id: owner.orgId,
    before: { name: "Acme" },
    after: { name: "Acme Ltd" },
  });
  t.equal((await browser("GET", path)).body.total, 3, "a change that its service records is not recorded twice");

  const token = (await browser("POST", "/api/v1/api-tokens", { name: "CI", scopes: ["org:read"] })).body.token;
  const [all] = await world.sql<{ text: string }[]>`select string_agg(a::text, ' ') as text from audit_log a`;
  t.notMatch(all!.text, token);
  t.notMatch(all!.text, /very-secret-token/);
});

t.test("a repeated request with an Idempotency-Key is one write", async (t) => {
  const world = await openWorld(t);
  const owner = await newOrg(world.system);
  const browser = asking(await serveWhole(t, world), await signedIn(owner));
  for (let n = 0; n < 2; n++)
    matchObject(t, await browser("POST", "/api/v1/targets/bulk", [target], { "idempotency-key": "one" }), {
      status: 201,
    });
  t.equal((await browser("GET", `/api/v1/orgs/${owner.orgId}/audit`)).body.total, 1);
});

t.test(
  "a bulk request is one row, found by each of its targets; lists show its first ids, the entry shows all",
  async (t) => {
    const world = await openWorld(t);
    const owner = await newOrg(world.system);
    const browser = asking(await serveWhole(t, world), await signedIn(owner));
    const path = `/api/v1/orgs/${owner.orgId}/audit`;
    const made = (
      await browser(
        "POST",
        "/api/v1/targets/bulk",
        Array.from({ length: 150 }, (_, at) => ({ ...target, name: `T${at}` })),
      )
    ).body as { id: string }[];
    const ids = made.map(({ id }) => id);
    await browser("PATCH", `/api/v1/targets/${ids[149]}`, { name: "Last" });
    await browser("POST", "/api/v1/targets/bulk-action", {
      ids: [ids[149], ids[0], owner.orgId],
      action: { type: "delete" },
    });
    await browser("POST", "/api/v1/targets/bulk-action", { ids: [ids[1]], action: { type: "tag_add", tags: ["a"] } });
    const found = async (query: string) =>
      (await browser("GET", `${path}?${query}`)).body.items as {
        id: string;
        action: string;
        before: unknown;
        after: unknown;
      }[];
    const ofLast = await found(`resource_id=${ids[149]}`);
    matchObject(t, ofLast, [
      {
        action: "POST /api/v1/targets/bulk-action",
        before: { names: ["Last", "T0"] },
        after: { action: { type: "delete" }, ids: [ids[149], ids[0]], count: 2, failed: 1 },
      },
      { action: "PATCH /api/v1/targets/{id}" },
      {
        action: "POST /api/v1/targets/bulk",
        before: null,
        after: { count: 150, ids: ids.slice(0, 100), names: made.slice(0, 100).map((_, at) => `T${at}`) },
      },
    ]);
    t.equal((ofLast[2]!.after as { ids: string[] }).ids.length, 100);
    t.strictSame((await browser("GET", `${path}/${ofLast[2]!.id}`)).body.after.ids, ids);
    t.equal((await found(`resource_id=${ids[2]}`)).length, 1);
    matchObject(t, (await found(`resource_id=${ids[1]}`))[0], {
      after: { action: { type: "tag_add", tags: ["a"] }, ids: [ids[1]] },
    });

    await browser("PATCH", `/api/v1/orgs/${owner.orgId}`, { name: "New" });
    matchObject(t, await found("resource_type=orgs"), [{ action: "PATCH /api/v1/orgs/{id}" }]);
    t.equal((await found("resource_type=targets")).length, 4);
    const stranger = await newOrg(world.system);
    const outside = asking(await serveWhole(t, world), await signedIn(stranger));
    for (const id of [ofLast[0]!.id, stranger.orgId, "nonsense"])
      matchObject(
        t,
        await outside("GET", `/api/v1/orgs/${stranger.orgId}/audit/${id}`),
        refused(404, "AUDIT_ENTRY_NOT_FOUND"),
      );
  },
);

t.test("the page shows each change with its texts escaped, filtered by type, person and resource", async (t) => {
  const world = await openWorld(t);
  const owner = await newOrg(world.system);
  const member = await newMember(owner, "owner");
  const served = await serveWhole(t, world);
  const [browser, other] = [asking(served, await signedIn(owner)), asking(served, await signedIn(member))];
  const made = (await browser("POST", "/api/v1/targets", target)).body as { id: string };
  await browser("PATCH", `/api/v1/targets/${made.id}`, {
    name: "<b>New</b>",
    tags: ["a", "b"],
    check: { bearer_token: "next-secret-token", timeout: 5000 },
  });
  await other("PATCH", `/api/v1/orgs/${owner.orgId}`, { name: "Acme Ltd" });
  const page = async (query = "") => (await browser("GET", `/settings/audit${query}`)).text;
  const all = await page();
  t.match(all, /<dt>name<\/dt><dd><del>Shop<\/del> → <ins>&lt;b&gt;New&lt;\/b&gt;<\/ins>/);
  t.match(all, /<dt>check\.timeout<\/dt><dd><del>10000<\/del> → <ins>5000<\/ins>/);
  t.match(all, /<dt>check\.bearer_token<\/dt><dd><del>\*\*\*<\/del> → <ins>\*\*\*<\/ins>/);
  t.match(all, /<dt>tags<\/dt><dd><del>none<\/del> → <ins>a, b<\/ins>/);
  const [changed, created] = [
    all.search(/<summary>Changed monitor<span class="sr"> &lt;b&gt;New&lt;\/b&gt;<\/span><\/summary>/),
    all.search(/<summary>Created monitor<span class="sr"> Shop<\/span><\/summary>/),
  ];
  t.ok(changed > 0 && created > changed, "the newest first");
  t.match(all, /<summary>Changed organisation<span class="sr"> Acme Ltd<\/span><\/summary>/);
  t.notMatch(all, /secret-token/);
  const actions = (text: string) => [...text.matchAll(/<code>([A-Z]+ [^<]+)<\/code>/g)].map(([, action]) => action);
  t.strictSame(actions(all), ["PATCH /api/v1/orgs/{id}", "PATCH /api/v1/targets/{id}", "POST /api/v1/targets"]);
  t.strictSame(actions(await page("?type=orgs")), ["PATCH /api/v1/orgs/{id}"]);
  t.strictSame(actions(await page(`?user=${owner.userId}`)), ["PATCH /api/v1/targets/{id}", "POST /api/v1/targets"]);
  t.strictSame(actions(await page(`?resource=${made.id}&type=targets`)), [
    "PATCH /api/v1/targets/{id}",
    "POST /api/v1/targets",
  ]);
  t.equal(actions(await page("?type=nonsense")).length, 3);
  t.match(await page("?user=nonsense"), /No matching entries/);
});

t.test("only owners read the log, and only with the scope", async (t) => {
  const world = await openWorld(t);
  const owner = await newOrg(world.system);
  const served = await serveWhole(t, world);
  const path = `/api/v1/orgs/${owner.orgId}/audit`;
  matchObject(
    t,
    await asking(served, await signedIn(await newMember(owner)))("GET", path),
    refused(403, "OWNER_REQUIRED"),
  );
  matchObject(
    t,
    await asking(served, await withToken(owner, { scopes: ["targets:read"] }))("GET", path),
    refused(403, "INSUFFICIENT_SCOPE"),
  );
});

t.test("a change and its row are one transaction", async (t) => {
  const world = await openWorld(t);
  const owner = await newOrg(world.system);
  const browser = asking(await serveWhole(t, world), await signedIn(owner));
  await world.sql`alter table audit_log add constraint broken check (false) not valid`;
  matchObject(t, await browser("PATCH", `/api/v1/orgs/${owner.orgId}`, { name: "Lost" }), { status: 500 });
  matchObject(t, await browser("GET", `/api/v1/orgs/${owner.orgId}`), { body: { name: "Acme" } });
  matchObject(t, await browser("POST", "/api/v1/targets", target), { status: 500 });
  matchObject(t, await browser("GET", "/api/v1/targets"), { body: { total: 0 } });

  // A route whose service writes no row: its change is committed by then.
  const trail = { action: "POST /api/v1/others", ip: "192.0.2.1", userAgent: null, recorded: false };
  await recordRequest({ ...owner, trail }, "one");
  matchObject(
    t,
    world.log.lines.filter(({ message }) => message.includes("audit log")),
    [
      {
        level: "error",
        fields: { action: "POST /api/v1/others", user: owner.userId, resourceId: "one", ip: "192.0.2.1" },
      },
    ],
    "a row that cannot be written is in the log",
  );
});

t.test("changed fields are shown before and after, a changed secret is masked on both sides", async (t) => {
  const page = (changes: object) => ({
    name: "Shop",
    tags: ["a", "b"],
    branding: { style: "auto", about: null },
    updated_at: 1,
    write_source: "ui",
    ...changes,
  });
  const cases: [string, object, object, object, object][] = [
    ["nothing", {}, {}, {}, {}],
    ["stamps", { updated_at: 2, write_source: "api" }, {}, {}, {}],
    ["a text", { name: "New" }, {}, { name: "Shop" }, { name: "New" }],
    ["a list", { tags: ["b", "a"] }, {}, { tags: ["a", "b"] }, { tags: ["b", "a"] }],
    [
      "a field of an object",
      { branding: { about: "x", style: "auto" } },
      {},
      { branding: { about: null } },
      { branding: { about: "x" } },
    ],
    ["a field that is new", { note: "x" }, {}, {}, { note: "x" }],
    ["a field that is gone", {}, { note: "x" }, { note: "x" }, {}],
    ["an object that comes", { policy: { count: 2 } }, { policy: "any" }, { policy: "any" }, { policy: { count: 2 } }],
    ["false and null", { enabled: false }, { enabled: null }, { enabled: null }, { enabled: false }],
  ];
  for (const [what, is, was, before, after] of cases)
    t.strictSame(differences({ before: page(was), after: page(is) }), { before, after }, what);

  const check = (token: string, password: string | null) => ({
    check: { url: "https://a/", bearer_token: token, basic_auth: password === null ? null : ["user", password] },
  });
  const masks = { before: check("***", "***"), after: check("***", "***") };
  t.strictSame(differences(masks, { before: check("old", "same"), after: check("new", "same") }), {
    before: { check: { bearer_token: "***" } },
    after: { check: { bearer_token: "***" } },
  });
  t.strictSame(
    differences({ ...masks, after: check("***", null) }, { before: check("same", "old"), after: check("same", null) }),
    {
      before: { check: { basic_auth: ["user", "***"] } },
      after: { check: { basic_auth: null } },
    },
  );
});

t.test("rows are purged after their retention, from 03:00 UTC on", async (t) => {
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

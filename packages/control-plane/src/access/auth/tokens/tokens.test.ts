import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { type Scope, scopes } from "../../../platform/context.ts";
import type { Ask } from "../../../testing/app.ts";
import { hour, minute } from "../../../testing/clock.ts";
import { asking, newMember, serveWhole, signedIn, withToken } from "../../../testing/whole-app.ts";
import { newOrg, openWorld } from "../../../testing/world.ts";
import { newId } from "@statusmesh/shared/ids";
import { createToken, findResourceToken, makeAccessToken } from "./service.ts";

const path = "/api/v1/api-tokens";
const refused = (status: number, code: string, field: string | null = null) => ({
  status,
  body: { error: { code, field } },
});
const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

t.test("a token is shown once, works within its scopes, and fails as soon as it is revoked", async (t) => {
  const world = await openWorld(t);
  const owner = await newOrg(world.system);
  const ask = await serveWhole(t, world);
  const browser = asking(ask, await signedIn(owner));

  const made = await browser("POST", path, { name: " CI ", scopes: ["targets:read", "org:read"] });
  matchObject(t, made, {
    status: 201,
    body: {
      name: "CI",
      scopes: ["targets:read", "org:read"],
      org_id: owner.orgId,
      expires_at: null,
      last_used_at: null,
      token: /^sm_live_[\w-]{43}$/,
    },
  });
  t.equal(made.headers.get("location"), `${path}#${made.body.id}`);
  t.equal(made.headers.get("cache-control"), "no-store");
  const program = asking(ask, bearer(made.body.token));
  matchObject(t, await program("GET", "/api/v1/targets"), { status: 200 });
  matchObject(
    t,
    await program("POST", path, { name: "more", scopes: ["targets:read"] }),
    refused(403, "INSUFFICIENT_SCOPE"),
  );

  world.clock.advance(minute);
  const list = await browser("GET", path);
  matchObject(t, list, {
    status: 200,
    body: { total: 1, items: [{ id: made.body.id, name: "CI", last_used_at: /T/ }] },
  });
  t.notMatch(list.text, /sm_live_/, "the list does not show it");

  matchObject(t, await browser("DELETE", `${path}/${made.body.id}`), { status: 204 });
  matchObject(t, await program("GET", "/api/v1/targets"), refused(401, "UNAUTHENTICATED"));
  matchObject(t, await browser("DELETE", `${path}/${made.body.id}`), refused(404, "API_TOKEN_NOT_FOUND"));
  matchObject(t, await browser("GET", path), { body: { total: 0 } });
  const [audit] = await world.sql`select after from audit_log where resource_id = ${made.body.id} order by id limit 1`;
  t.strictSame(audit?.["after"], {
    name: "CI",
    org_id: owner.orgId,
    scopes: ["targets:read", "org:read"],
    expires_at: null,
  });
});

t.test("a token creates no token with more access than its own", async (t) => {
  const world = await openWorld(t);
  const owner = await newOrg(world.system);
  const ask = await serveWhole(t, world);
  const expiresAt = new Date(world.clock.now() + hour);
  const narrow = asking(ask, await withToken(owner, { scopes: ["org:write", "org:read"], expiresAt }));
  const inTime = { name: "child", scopes: ["org:read"], expires_at: expiresAt.toISOString() };

  matchObject(t, await narrow("POST", path, { ...inTime, scopes: ["channels:read"] }), {
    ...refused(403, "INSUFFICIENT_SCOPE"),
    body: { error: { details: { scope: "channels:read" } } },
  });
  matchObject(t, await narrow("POST", path, { ...inTime, bound: false }), refused(403, "FORBIDDEN"));
  matchObject(t, await narrow("POST", path, { ...inTime, expires_at: null }), refused(403, "FORBIDDEN"));
  matchObject(t, await narrow("POST", path, inTime), { status: 201 });
  world.clock.advance(hour);
  matchObject(t, await narrow("GET", path), refused(401, "UNAUTHENTICATED"), "after its expiry");

  const browser = asking(ask, await signedIn(owner));
  matchObject(t, await browser("POST", path, { name: "loose", scopes: ["org:read"], bound: false }), {
    status: 201,
    body: { org_id: null },
  });
  const bound = asking(ask, await withToken(owner));
  matchObject(
    t,
    await bound("GET", path),
    { body: { items: [{ name: "Test" }, { name: "child" }, { name: "Test" }], total: 3 } },
    "it lists only tokens bound to its organisation",
  );
});

t.test("a token is revoked with the tokens that it created, also with one in creation", async (t) => {
  const world = await openWorld(t);
  const owner = await newOrg(world.system);
  const ask = await serveWhole(t, world);
  const browser = asking(ask, await signedIn(owner));
  const made = async (by: Ask, name: string) =>
    (await by("POST", path, { name, scopes: ["org:write", "org:read"] })).body as { id: string; token: string };
  const [parent, other] = [await made(browser, "parent"), await made(browser, "other")];
  const child = await made(asking(ask, bearer(parent.token)), "child");
  const grandchild = await made(asking(ask, bearer(child.token)), "grandchild");
  const status = async ({ token }: { token: string }) => (await ask("GET", path, undefined, bearer(token))).status;
  t.strictSame(await Promise.all([parent, child, grandchild, other].map(status)), [200, 200, 200, 200]);

  const late = Array.from({ length: 5 }, (_, n) => made(asking(ask, bearer(child.token)), `late ${n}`));
  matchObject(t, await browser("DELETE", `${path}/${parent.id}`), { status: 204 });
  const born = (await Promise.all(late)).filter(({ token }) => token !== undefined);
  t.strictSame(await Promise.all([parent, child, grandchild, ...born].map(status)), [
    401,
    401,
    401,
    ...born.map(() => 401),
  ]);
  t.equal(await status(other), 200);
  const [audit] =
    await world.sql`select after from audit_log where resource_id = ${parent.id} order by id desc limit 1`;
  t.ok(audit?.["after"].revoked_with_it >= 2);
});

t.test("write and execute scopes imply the read scope, and no other", async (t) => {
  const world = await openWorld(t);
  const owner = await newOrg(world.system);
  const ask = await serveWhole(t, world);
  const statuses = async (scope: Scope): Promise<number[]> => {
    const program = asking(ask, await withToken(owner, { scopes: [scope] }));
    const paths = ["/api/v1/targets", "/api/v1/notification-channels", "/api/v1/incidents", "/api/v1/status-pages"];
    return await Promise.all(paths.map(async (at) => (await program("GET", at)).status));
  };
  t.strictSame(await statuses("targets:write"), [200, 403, 403, 403]);
  t.strictSame(await statuses("targets:execute"), [200, 403, 403, 403]);
  t.strictSame(await statuses("channels:write"), [403, 200, 403, 403]);
  t.strictSame(await statuses("incidents:write"), [403, 403, 200, 403]);
  t.strictSame(await statuses("status_page:write"), [403, 403, 403, 200]);
  t.strictSame(await statuses("maintenance:write"), [403, 403, 403, 403]);

  const writer = asking(ask, await withToken(owner, { scopes: ["org:write", "targets:execute"] }));
  const made = await writer("POST", path, { name: "child", scopes: ["targets:read", "org:read"] });
  matchObject(
    t,
    made,
    { status: 201, body: { scopes: ["targets:read", "org:read"] } },
    "implied scopes can be passed on",
  );
  matchObject(t, await writer("GET", "/api/v1/me"), {
    body: { scopes: ["org:read", "org:write", "targets:execute", "targets:read"] },
  });
  matchObject(
    t,
    await writer("POST", path, { name: "child", scopes: ["targets:write"] }),
    refused(403, "INSUFFICIENT_SCOPE"),
  );
});

t.test("a token that lacks a scope changes no invitation, member or role", async (t) => {
  const world = await openWorld(t);
  const owner = await newOrg(world.system);
  const member = await newMember(owner);
  const ask = await serveWhole(t, world);
  const org = `/api/v1/orgs/${owner.orgId}`;
  const narrow = asking(ask, await withToken(owner, { scopes: scopes.filter((scope) => scope !== "targets:execute") }));
  const lacks = {
    ...refused(403, "INSUFFICIENT_SCOPE"),
    body: { error: { details: { scope: "targets:execute" }, message: /every scope/ } },
  };
  matchObject(t, await narrow("POST", `${org}/invitations`, { email: "a@example.org", role: "owner" }), lacks);
  matchObject(t, await narrow("PATCH", `${org}/members/${member.userId}`, { role: "owner" }), lacks);
  matchObject(t, await narrow("DELETE", `${org}/members/${member.userId}`), lacks);
  matchObject(t, await narrow("DELETE", `${org}/members/${owner.userId}`), lacks);
  matchObject(t, await narrow("GET", `${org}/members`), { status: 200 });

  // All write and execute scopes together imply the rest.
  const whole = asking(ask, await withToken(owner, { scopes: scopes.filter((scope) => !scope.endsWith(":read")) }));
  const invited = await whole("POST", `${org}/invitations`, { email: "b@example.org" });
  matchObject(t, invited, { status: 201 });
  matchObject(t, await narrow("DELETE", `${org}/invitations/${invited.body.id}`), lacks);
  matchObject(t, await whole("DELETE", `${org}/invitations/${invited.body.id}`), { status: 204 });
  matchObject(t, await whole("PATCH", `${org}/members/${member.userId}`, { role: "owner" }), { status: 200 });
});

t.test("an invalid token request is refused with its field", async (t) => {
  const world = await openWorld(t);
  const ask = asking(await serveWhole(t, world), await signedIn(await newOrg(world.system)));
  const good = { name: "CI", scopes: ["targets:read"] };
  matchObject(t, await ask("POST", path, { ...good, name: "  " }), refused(400, "EMPTY_NAME", "/name"));
  matchObject(t, await ask("POST", path, { ...good, name: "x".repeat(101) }), refused(400, "INVALID_BODY", "/name"));
  matchObject(t, await ask("POST", path, { ...good, scopes: [] }), refused(400, "INVALID_BODY", "/scopes"));
  matchObject(
    t,
    await ask("POST", path, { ...good, scopes: ["everything"] }),
    refused(400, "INVALID_BODY", "/scopes/0"),
  );
  matchObject(
    t,
    await ask("POST", path, { ...good, expires_at: new Date(world.clock.now()).toISOString() }),
    refused(400, "INVALID_EXPIRY", "/expires_at"),
  );
  matchObject(t, await ask("POST", path, { ...good, expires_at: "tomorrow" }), {
    status: 400,
    body: { error: { field: "/expires_at" } },
  });
  matchObject(t, await ask("POST", path, { ...good, user_id: "x" }), refused(400, "UNKNOWN_FIELD", "/user_id"));
  matchObject(t, await ask("DELETE", `${path}/nonsense`), refused(404, "API_TOKEN_NOT_FOUND"));
});

t.test("users neither see nor revoke tokens of others", async (t) => {
  const world = await openWorld(t);
  const owner = await newOrg(world.system);
  const ask = await serveWhole(t, world);
  const made = await asking(ask, await signedIn(owner))("POST", path, { name: "mine", scopes: [...scopes] });
  const member = asking(ask, await signedIn(await newMember(owner)));
  matchObject(t, await member("GET", path), { body: { total: 0 } });
  const foreign = await member("DELETE", `${path}/${made.body.id}`);
  matchObject(t, foreign, refused(404, "API_TOKEN_NOT_FOUND"));
  matchObject(t, await asking(ask, bearer(made.body.token))("GET", path), { status: 200 });
});

t.test(
  "one below the cap exactly one of many concurrent creations succeeds; expired and revoked tokens do not count",
  async (t) => {
    const world = await openWorld(t, { env: { SM_AUTH__API_TOKENS__MAX_PER_USER: "3" } });
    const ask = asking(await serveWhole(t, world), await signedIn(await newOrg(world.system)));
    const make = (more = {}) => ask("POST", path, { name: "one", scopes: ["org:read"], ...more });
    await make();
    await make({ expires_at: new Date(world.clock.now() + minute).toISOString() });
    const race = await Promise.all(Array.from({ length: 20 }, () => make()));
    t.equal(race.filter(({ status }) => status === 201).length, 1);
    t.equal(race.filter(({ body }) => body.error?.code === "API_TOKENS_LIMIT").length, 19);
    matchObject(t, race.find(({ status }) => status === 409)?.body.error.details, { current: 3, limit: 3 });
    world.clock.advance(minute);
    matchObject(t, await make(), { status: 201 });
    const { items } = (await ask("GET", path)).body;
    await ask("DELETE", `${path}/${items[0].id}`);
    matchObject(t, await make(), { status: 201 });
    matchObject(t, await make(), refused(409, "API_TOKENS_LIMIT"));
  },
);

t.test("a token for another resource does not open the REST API, is in no list and under no cap", async (t) => {
  const world = await openWorld(t);
  const { system, sql, clock } = world;
  const owner = await newOrg(system);
  const ask = await serveWhole(t, world);
  const browser = asking(ask, await signedIn(owner));
  const uri = "https://mcp.example.org";
  const [client, connection] = [newId(), newId()];
  const [now, later] = [new Date(clock.now()), new Date(clock.now() + hour)];
  await sql`
    insert into oauth_clients (id, name, redirect_uris, created_at, expires_at)
    values (${client}, 'App', '{https://app.example/cb}', ${now}, ${later})`;
  await sql`
    insert into oauth_connections (id, client_id, user_id, org_id, redirect_host, scopes, audience, created_at,
      expires_at)
    values (${connection}, ${client}, ${owner.userId}, ${owner.orgId}, 'app.example', '{targets:write}', ${uri},
      ${now}, ${later})`;
  const made = await makeAccessToken(system, {
    connection_id: connection,
    user_id: owner.userId,
    org_id: owner.orgId,
    audience: uri,
    scopes: ["targets:write"],
    name: "App",
    expires_at: later,
  });
  matchObject(t, await ask("GET", "/api/v1/targets", undefined, bearer(made)), refused(401, "UNAUTHENTICATED"));
  matchObject(t, await ask("GET", "/api/v1/me", undefined, bearer(made)), refused(401, "UNAUTHENTICATED"));
  matchObject(t, await browser("GET", path), { body: { total: 0 } });
  const found = await findResourceToken(system, made, uri);
  matchObject(t, found, { userId: owner.userId, orgId: owner.orgId, role: "owner", clientId: client });
  t.strictSame([...found!.scopes].sort(), ["targets:read", "targets:write"]);
  matchObject(t, await browser("DELETE", `${path}/${found!.tokenId}`), refused(404, "API_TOKEN_NOT_FOUND"));
  const tight = { ...system.config.auth, api_tokens: { max_per_user: 1 } };
  const strict = { ...owner, config: { ...system.config, auth: tight } };
  await createToken(strict, { name: "One", scopes: ["targets:read"] });

  const cases: [title: string, change: () => Promise<unknown>, undo: () => Promise<unknown>][] = [
    [
      "an ended connection",
      async () => sql`update oauth_connections set revoked_at = ${now}`,
      async () => sql`update oauth_connections set revoked_at = null`,
    ],
    [
      "a deleted organisation",
      async () => sql`update orgs set deleted_at = ${now} where id = ${owner.orgId}`,
      async () => sql`update orgs set deleted_at = null`,
    ],
    [
      "a revoked token",
      async () => sql`update api_tokens set revoked_at = ${now} where audience is not null`,
      async () => sql`update api_tokens set revoked_at = null`,
    ],
    [
      "a former member",
      async () => sql`delete from memberships where user_id = ${owner.userId}`,
      async () => sql`
        insert into memberships (org_id, user_id, role, created_at)
        values (${owner.orgId}, ${owner.userId}, 'owner', ${now})`,
    ],
  ];
  for (const [title, change, undo] of cases) {
    await change();
    t.equal(await findResourceToken(system, made, uri), null, title);
    await undo();
  }
  t.equal(await findResourceToken(system, made, "https://other.example.org"), null, "another audience");
  t.ok(await findResourceToken(system, made, ""), "binding is off");
  const plain = async (more: object) =>
    (await withToken(owner, { scopes: ["targets:read"], ...more }))["authorization"]!.slice("Bearer ".length);
  t.ok(await findResourceToken(system, await plain({}), ""), "a token of the REST API where binding is off");
  t.equal(await findResourceToken(system, await plain({}), uri), null, "and not where it is on");
  t.equal(await findResourceToken(system, await plain({ bound: false }), ""), null, "an unbound token");
  clock.advance(2 * hour);
  t.equal(await findResourceToken(system, made, uri), null, "an expired token");
});

t.test("a token for MCP is made by hand: it reads, expires, and does not open the REST API", async (t) => {
  for (const uri of ["", "https://mcp.example.org"]) {
    const env = { SM_MCP__ENABLED: "true", ...(uri === "" ? {} : { SM_MCP__RESOURCE_URI: uri }) };
    const world = await openWorld(t, { env });
    const owner = await newOrg(world.system);
    const ask = await serveWhole(t, world);
    const browser = asking(ask, await signedIn(owner));
    await world.sql`update users set email_verified_at = now() where id = ${owner.userId}`;
    const inDays = (days: number): string => new Date(world.clock.now() + days * 24 * hour).toISOString();
    const wanted = { name: "Claude", scopes: ["targets:read"], audience: "mcp", expires_at: inDays(365) };
    const made = await browser("POST", path, wanted);
    matchObject(t, made, { status: 201, body: { audience: "mcp", org_id: owner.orgId, scopes: ["targets:read"] } });
    matchObject(
      t,
      await ask("GET", "/api/v1/targets", undefined, bearer(made.body.token)),
      refused(401, "UNAUTHENTICATED"),
    );
    matchObject(t, await findResourceToken(world.system, made.body.token, uri), { clientId: null, orgId: owner.orgId });
    matchObject(
      t,
      await browser("GET", path),
      { body: { items: [{ audience: "mcp" }] } },
      "its owner can find and revoke it",
    );
    matchObject(t, await browser("POST", path, { ...wanted, audience: null }), {
      status: 201,
      body: { audience: null },
    });
    const cases: [change: object, status: number, code: string][] = [
      [{ scopes: ["targets:read", "targets:execute"] }, 422, "MCP_TOKEN_READ_ONLY"],
      [{ expires_at: null }, 400, "INVALID_EXPIRY"],
      [{ expires_at: new Date(Date.parse(inDays(365)) + 1).toISOString() }, 400, "INVALID_EXPIRY"],
      [{ bound: false }, 403, "FORBIDDEN"],
      [{ audience: "other" }, 400, "INVALID_BODY"],
    ];
    for (const [change, status, code] of cases)
      matchObject(
        t,
        await browser("POST", path, { ...wanted, ...change }),
        { status, body: { error: { code } } },
        code,
      );
    await world.sql`update users set email_verified_at = null where id = ${owner.userId}`;
    matchObject(t, await browser("POST", path, wanted), {
      status: 403,
      body: { error: { code: "EMAIL_NOT_VERIFIED" } },
    });
    matchObject(t, await browser("DELETE", `${path}/${made.body.id}`), { status: 204 });
    t.equal(await findResourceToken(world.system, made.body.token, uri), null);
  }
});

import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { allAbilities } from "@statusmesh/shared/checks/abilities";
import { newId } from "@statusmesh/shared/ids";
import { authenticateAgent } from "../../monitoring/agents/service.ts";
import { type Ctx, scopes } from "../../platform/context.ts";
import { hashToken, newToken } from "../../platform/crypto/token.ts";
import type { Ask } from "../../testing/app.ts";
import { day, minute } from "../../testing/clock.ts";
import type { Teardown } from "../../testing/database.ts";
import { serveWhole } from "../../testing/whole-app.ts";
import { newAgent, newOrg, openWorld, refusal, type World } from "../../testing/world.ts";
import { requireDefaultPlan } from "../plans/service.ts";
import { bootstrap, bootstrapOwner, slugOf as slugFrom } from "./service.ts";
import { makeSignInLink, signIn } from "./sessions/service.ts";

const home = await openWorld(t, { env: { SM_OPERATOR__ADMIN_TOKEN: "operator-secret-0123456789" } });
const { system, sql, clock } = home;
const ask = await serveWhole(t, home);
const agent = await newAgent(system);

const refused = (status: number, code: string) => ({ status, body: { error: { code } } });
const slugOf = async (orgId: string) =>
  (await sql<{ slug: string }[]>`select slug from orgs where id = ${orgId}`)[0]!.slug;

async function tokenOf(
  ctx: Ctx,
  row: { bound?: boolean; expires?: number; revoked?: boolean; scopes?: string[] } = {},
): Promise<{ id: string; authorization: string }> {
  const [id, token] = [newId(), newToken("sm_live_")];
  const at = new Date(clock.now());
  await sql`
    insert into api_tokens (id, user_id, org_id, name, token_hash, scopes, created_at, expires_at, revoked_at)
    values (${id}, ${ctx.userId}, ${row.bound === false ? null : ctx.orgId}, 'Test', ${hashToken(token)},
      ${row.scopes ?? [...scopes]}, ${at}, ${row.expires === undefined ? null : new Date(row.expires)},
      ${row.revoked ? at : null})`;
  return { id, authorization: `Bearer ${token}` };
}
async function sessionOf(ctx: Ctx): Promise<{ id: string; cookie: string }> {
  const code = (await makeSignInLink(system, ctx.userId)).replace("/sign-in/", "");
  const { secret, session } = await signIn(system, { code, userAgent: "Test", ip: "127.0.0.1" });
  return { id: session.id, cookie: `__Host-_sm_session=${secret}` };
}
const me = (headers: Record<string, string>, of = ask) => of("GET", "/api/v1/me", undefined, headers);
const joinOrg = (ctx: Ctx, orgId: string) =>
  sql`
    insert into memberships (org_id, user_id, role, created_at)
    values (${orgId}, ${ctx.userId}, 'member', ${new Date(clock.now())})`;

/** A database before the first start. */
async function emptyWorld(t: Teardown, env: Record<string, string> = {}): Promise<World> {
  return await openWorld(t, { env: { SM_BOOTSTRAP__EMAIL: "Olga@Example.org", ...env } });
}

t.test("concurrent first starts create one owner", async (t) => {
  const token = `sm_live_${"x".repeat(32)}`;
  const world = await emptyWorld(t, {
    SM_BOOTSTRAP__ORG_NAME: "Ärzte & Söhne of the Long Valley – Ltd",
    SM_BOOTSTRAP__TOKEN: token,
  });
  const replicas = [world.system, { ...world.system, sql: world.pool() }];
  const starts = await Promise.all(Array.from({ length: 8 }, (_, at) => bootstrap(replicas[at % 2]!)));
  t.equal(starts.filter(({ created }) => created).length, 1);
  for (const { email, signInPath } of starts)
    matchObject(t, { email, signInPath }, { email: "olga@example.org", signInPath: /^\/sign-in\/[\w-]{43}$/ });
  matchObject(
    t,
    await world.sql`
      select u.email, m.role, o.name, o.slug, o.plan_id
      from users u join memberships m on m.user_id = u.id join orgs o on o.id = m.org_id`,
    [
      {
        email: "olga@example.org",
        role: "owner",
        name: "Ärzte & Söhne of the Long Valley – Ltd",
        slug: /^arzte-sohne-of-[a-z-]*[a-z]$/,
        plan_id: "selfhost",
      },
    ],
  );
  t.equal((await world.sql`select 1 from api_tokens`).length, 1);
  const other = await serveWhole(t, world);
  matchObject(t, await me({ authorization: `Bearer ${token}` }, other), {
    status: 200,
    body: { role: "owner", scopes: [...scopes].sort(), user: { email: "olga@example.org" } },
  });

  const { signInPath } = await bootstrap(world.system);
  matchObject(t, await other("POST", "/api/v1/sessions", { code: signInPath!.slice("/sign-in/".length) }), {
    status: 201,
  });
  matchObject(
    t,
    await bootstrap(world.system),
    { created: false, signInPath: null },
    "no link while the owner has a session",
  );
  await t.rejects(requireDefaultPlan((await emptyWorld(t, { SM_TENANCY__DEFAULT_PLAN: "gold" })).system), {
    message: /the plan "gold", which does not exist\. Use one of: free, selfhost\./,
  });
});

t.test(
  "bootstrap-owner prints a link, and a token on request; it creates the owner of an empty database",
  async (t) => {
    const world = await emptyWorld(t);
    const access = async (email: string | null, tokenDays: number | null = null) =>
      await bootstrapOwner(world.system, { email, tokenDays });
    const by = await access("Milan@example.org", 30);
    const expiresAt = new Date(world.clock.now() + 30 * day);
    matchObject(t, by, {
      email: "milan@example.org",
      signInPath: /^\/sign-in\//,
      token: { secret: /^sm_live_[\w-]{43}$/, expiresAt },
    });
    matchObject(t, await access("milan@EXAMPLE.org"), { email: "milan@example.org", token: null });
    matchObject(t, await access(null), { email: "milan@example.org" });
    t.equal((await world.sql`select 1 from api_tokens`).length, 1);
    await t.rejects(access("nobody@example.org"), { message: /no owner with the email nobody@example\.org/ });
    const served = await serveWhole(t, world);
    const bearer = { authorization: `Bearer ${by.token!.secret}` };
    matchObject(t, await me(bearer, served), { status: 200, body: { org: { slug: "my-organisation" } } });
    world.clock.advance(30 * day);
    matchObject(t, await me(bearer, served), refused(401, "UNAUTHENTICATED"), "after its expiry");
  },
);

t.test("every name yields a slug", async (t) => {
  const cases: [name: string, slug: string][] = [
    ["Söhne", "sohne"],
    ["So\u0308hne & Töchter", "sohne-tochter"],
    ["Straße Øst Łódź", "strasse-ost-lodz"],
    ["Acme & Sons", "acme-sons"],
    ["  --Acme--  ", "acme"],
    ["3M", "org-3m"],
    ["AB", "org-ab"],
    ["東京", "org"],
    ["x".repeat(80), "x".repeat(30)],
    ["a".repeat(29) + " b", "a".repeat(29)],
  ];
  for (const [name, slug] of cases) {
    t.equal(slugFrom(name), slug, name);
    t.match(slug, /^[a-z][a-z0-9-]{2,29}$/);
  }
});

t.test("a sign-in link works once, for 15 minutes", async (t) => {
  const owner = await newOrg(system);
  const code = async () => (await makeSignInLink(system, owner.userId)).slice("/sign-in/".length);
  const one = await code();
  const race = await Promise.all(Array.from({ length: 8 }, () => ask("POST", "/api/v1/sessions", { code: one })));
  t.strictSame(race.map(({ status }) => status).sort(), [201, 400, 400, 400, 400, 400, 400, 400]);
  for (const loser of race.filter(({ status }) => status === 400))
    matchObject(t, loser, { body: { error: { code: "SIGN_IN_LINK_INVALID", field: "/code" } } });
  t.equal((await sql`select 1 from sessions where user_id = ${owner.userId}`).length, 1);

  const [late, intime] = [await code(), await code()];
  clock.advance(15 * minute - 1);
  matchObject(t, await ask("POST", "/api/v1/sessions", { code: intime }), { status: 201 });
  clock.advance(1);
  matchObject(t, await ask("POST", "/api/v1/sessions", { code: late }), refused(400, "SIGN_IN_LINK_INVALID"));
  matchObject(t, await ask("POST", "/api/v1/sessions", { code: "guess" }), refused(400, "SIGN_IN_LINK_INVALID"));
  t.notMatch(
    JSON.stringify(await sql`select encode(code_hash, 'escape') as hash from sign_in_links`),
    new RegExp(one),
    "only its hash is stored",
  );
});

t.test("the session cookie is HttpOnly, SameSite, limited in time, and Secure over TLS", async (t) => {
  const owner = await newOrg(system);
  const signed = async (of: Ask, headers = {}) =>
    of(
      "POST",
      "/api/v1/sessions",
      { code: (await makeSignInLink(system, owner.userId)).slice("/sign-in/".length) },
      { "user-agent": "x".repeat(400), ...headers },
    );
  const answer = await signed(ask);
  const ends = new Date(clock.now() + 90 * day);
  matchObject(t, answer, {
    status: 201,
    body: { current: true, user_agent: "x".repeat(300), expires_at: ends.toISOString() },
  });
  const cookie = answer.headers.getSetCookie()[0]!;
  t.match(
    cookie,
    new RegExp(
      `^__Host-_sm_session=[\\w-]{43}; Path=/; HttpOnly; SameSite=Lax; Secure; Expires=${ends.toUTCString()}$`,
    ),
  );
  const plain = await serveWhole(t, home, {
    ...system,
    config: {
      ...system.config,
      server: { ...system.config.server, public_url: "http://127.0.0.1:8080" },
      auth: { ...system.config.auth, session: { cookie_name: "other" } },
    },
  });
  const other = (await signed(plain)).headers.get("set-cookie")!;
  t.match(other, /^other=/);
  t.notMatch(other, /Secure/);
  matchObject(t, await me({ cookie: cookie.split(";")[0]! }), { status: 200, body: { role: "owner" } });
  matchObject(
    t,
    await me({ cookie: cookie.split(";")[0]! }, plain),
    refused(401, "UNAUTHENTICATED"),
    "the configured name",
  );
  matchObject(
    t,
    await signed(ask, { origin: "https://evil.example" }),
    refused(403, "CSRF_REJECTED"),
    "another site cannot sign a visitor in",
  );
});

t.test("a session ends after 30 idle days, after 90 days, and when it is revoked", async (t) => {
  const owner = await newOrg(system);
  const [idle, used] = [await sessionOf(owner), await sessionOf(owner)];
  for (let week = 0; week < 12; week++) {
    clock.advance(7 * day);
    matchObject(t, await me(used), { status: 200 }, `week ${week + 1}`);
    if (week === 3) matchObject(t, await me(idle), { status: 200 }, "28 days");
  }
  matchObject(t, await me(idle), refused(401, "UNAUTHENTICATED"), "56 days");
  clock.advance(6 * day - 1);
  matchObject(t, await me(used), { status: 200 });
  clock.advance(1);
  const over = await me(used);
  matchObject(t, over, refused(401, "UNAUTHENTICATED"));
  t.equal(over.headers.get("www-authenticate"), "Bearer");

  const [a, b] = [await sessionOf(owner), await sessionOf(owner)];
  clock.advance(59_999);
  await me(a);
  const lastUse = async () =>
    (await sql<{ at: Date }[]>`select last_used_at as at from sessions where id = ${a.id}`)[0]!.at.getTime();
  t.equal(await lastUse(), clock.now() - 59_999, "uses within a minute are recorded once");
  clock.advance(2);
  await me(a);
  t.equal(await lastUse(), clock.now());
  const same = { "sec-fetch-site": "same-origin" };
  matchObject(t, await ask("GET", "/api/v1/sessions", undefined, a), {
    status: 200,
    body: {
      total: 2,
      items: [
        { id: a.id, current: true },
        { id: b.id, current: false },
      ],
    },
  });
  matchObject(t, await ask("DELETE", `/api/v1/sessions/${b.id}`, undefined, { ...a, ...same }), { status: 204 });
  matchObject(t, await me(b), refused(401, "UNAUTHENTICATED"), "from its next request");
  const stranger = await sessionOf(await newOrg(system));
  matchObject(
    t,
    await ask("DELETE", `/api/v1/sessions/${a.id}`, undefined, { ...stranger, ...same }),
    refused(404, "NOT_FOUND"),
  );
  const out = await ask("DELETE", "/api/v1/sessions/current", undefined, { ...a, ...same });
  t.match(out.headers.get("set-cookie"), /^__Host-_sm_session=; Path=\/; HttpOnly; SameSite=Lax; Secure; Max-Age=0$/);
  matchObject(t, await me(a), refused(401, "UNAUTHENTICATED"));
  const { authorization } = await tokenOf(owner);
  matchObject(
    t,
    await ask("DELETE", "/api/v1/sessions/current", undefined, { authorization }),
    refused(404, "NOT_FOUND"),
    "a token has no session",
  );

  const gone = await sessionOf(owner);
  await sql`delete from memberships where user_id = ${owner.userId}`;
  matchObject(t, await me(gone), refused(401, "UNAUTHENTICATED"), "a former member");
});

t.test("tokens: expired, revoked, unknown, of another kind, bound and unbound", async (t) => {
  const owner = await newOrg(system);
  const [own, theirs, third] = [await slugOf(owner.orgId), await newOrg(system), await newOrg(system)];
  const of = async (row: Parameters<typeof tokenOf>[1], headers: Record<string, string> = {}) =>
    me({ authorization: (await tokenOf(owner, row)).authorization, ...headers });
  matchObject(t, await of({}), { status: 200, body: { org: { id: owner.orgId } } });
  matchObject(t, await of({ expires: clock.now() + 1 }), { status: 200 });
  for (const row of [{ expires: clock.now() }, { revoked: true }])
    matchObject(t, await of(row), refused(401, "UNAUTHENTICATED"));
  for (const authorization of [
    `Bearer ${newToken("sm_live_")}`,
    "Bearer x",
    "Bearer",
    "Basic YTpi",
    `Bearer ${agent.token}`,
    `Bearer ${newToken("")}`,
  ])
    matchObject(t, await me({ authorization }), refused(401, "UNAUTHENTICATED"), authorization.slice(0, 12));
  const session = await sessionOf(owner);
  matchObject(
    t,
    await me({ ...session, authorization: "Bearer x" }),
    refused(401, "UNAUTHENTICATED"),
    "a valid session does not help a bad token",
  );

  matchObject(t, await of({}, { "x-sm-org": own }), { status: 200 });
  await joinOrg(owner, theirs.orgId);
  const other = await slugOf(theirs.orgId);
  matchObject(
    t,
    await of({}, { "x-sm-org": other }),
    refused(404, "ORG_NOT_FOUND"),
    "a bound token stays in its organisation",
  );
  matchObject(t, await of({ bound: false }, { "x-sm-org": other }), {
    status: 200,
    body: { org: { slug: other }, role: "member" },
  });
  matchObject(t, await of({ bound: false }, { "x-sm-org": own }), {
    status: 200,
    body: { org: { slug: own }, role: "owner" },
  });
  const unbound = { authorization: (await tokenOf(owner, { bound: false })).authorization };
  matchObject(t, await me(unbound), { status: 200, body: { user: { id: owner.userId }, org: null, role: null } });
  const orgs = (await ask("GET", "/api/v1/orgs", undefined, unbound)).body;
  matchObject(t, orgs, { total: 2, items: [{ current: false }, { current: false }] }, "the list names the slugs");
  for (const path of ["/api/v1/targets", "/api/v1/sessions"])
    matchObject(
      t,
      await ask("GET", path, undefined, unbound),
      refused(400, "ORG_REQUIRED"),
      "no organisation is guessed",
    );
  const named = await ask("GET", `/api/v1/orgs/${theirs.orgId}/members`, undefined, unbound);
  matchObject(t, named, { status: 200 }, "a path below an organisation names it");
  const unknown = await Promise.all(
    [await slugOf(third.orgId), "no-such"].map(async (slug) => await of({ bound: false }, { "x-sm-org": slug })),
  );
  for (const answer of unknown) matchObject(t, answer, refused(404, "ORG_NOT_FOUND"));
  matchObject(t, await me({ ...session, "x-sm-org": other }), {
    status: 200,
    body: { org: { slug: other }, role: "member" },
  });
  matchObject(t, await me({ ...session, "x-sm-org": "no-such" }), refused(404, "ORG_NOT_FOUND"));
  const byId = await me({ ...session, "x-sm-org": theirs.orgId });
  matchObject(
    t,
    byId,
    { status: 200, body: { org: { id: theirs.orgId } } },
    "the id, which no change of the slug takes away",
  );
  t.equal(byId.headers.get("x-sm-session-org"), owner.orgId, "where the session is");
  matchObject(t, await of({ bound: false }, { "x-sm-org": theirs.orgId }), { body: { org: { id: theirs.orgId } } });
  for (const id of [third.orgId, newId()])
    matchObject(
      t,
      await me({ ...session, "x-sm-org": id }),
      refused(404, "ORG_NOT_FOUND"),
      "no organisation of theirs",
    );
  matchObject(
    t,
    await me({ authorization: `Bearer ${newToken("sm_live_")}`, "x-sm-org": own }),
    refused(401, "UNAUTHENTICATED"),
  );
  await sql`update orgs set deleted_at = now() where id = ${theirs.orgId}`;
  matchObject(
    t,
    await of({ bound: false }),
    { status: 200, body: { org: { slug: own } } },
    "a deleted organisation does not count",
  );

  const { id, authorization } = await tokenOf(owner, { scopes: ["targets:read"] });
  matchObject(t, await me({ authorization }), { body: { scopes: ["targets:read"] } });
  matchObject(t, await sql`select last_used_at from api_tokens where id = ${id}`, [
    { last_used_at: new Date(clock.now()) },
  ]);
  matchObject(
    t,
    await ask("DELETE", `/api/v1/targets/${newId()}`, undefined, { authorization }),
    refused(403, "INSUFFICIENT_SCOPE"),
  );
  await sql`update api_tokens set revoked_at = now() where id = ${id}`;
  matchObject(t, await me({ authorization }), refused(401, "UNAUTHENTICATED"), "from its next request");
});

t.test("a write by cookie must come from the console itself", async (t) => {
  const owner = await newOrg(system);
  const session = await sessionOf(owner);
  const target = { name: "x", check: { type: "tcp", host: "db.example.org", port: 5432 } };
  const write = (headers: Record<string, string>) => ask("POST", "/api/v1/targets", target, { ...session, ...headers });
  const cases: [Record<string, string>, number][] = [
    [{}, 403],
    [{ "sec-fetch-site": "same-origin" }, 201],
    [{ "sec-fetch-site": "same-site" }, 403],
    [{ "sec-fetch-site": "cross-site" }, 403],
    [{ "sec-fetch-site": "none" }, 403],
    [{ "sec-fetch-site": "same-origin", origin: "https://evil.example" }, 201],
    [{ "sec-fetch-site": "cross-site", origin: ask.origin }, 403],
    [{ origin: ask.origin }, 201],
    [{ origin: "https://evil.example" }, 403],
    [{ origin: "null" }, 403],
    [{ origin: `${ask.origin}.evil.example` }, 403],
  ];
  for (const [headers, status] of cases) {
    const answer = await write(headers);
    t.equal(answer.status, status, JSON.stringify(headers));
    if (status === 403) t.equal(answer.body.error.code, "CSRF_REJECTED");
    else t.equal(answer.body.write_source, "ui");
  }
  matchObject(t, await me({ ...session, "sec-fetch-site": "cross-site" }), { status: 200 }, "reads are allowed");
  const { authorization } = await tokenOf(owner);
  for (const agent of ["curl/8", "Terraform/1.9 (+https://www.terraform.io)", "OpenTofu/1.8"]) {
    const answer = await ask("POST", "/api/v1/targets", target, {
      authorization,
      origin: "https://evil.example",
      "user-agent": agent,
    });
    matchObject(
      t,
      answer,
      { status: 201, body: { write_source: agent.startsWith("curl") ? "api" : "terraform" } },
      "a token needs no origin",
    );
  }
});

t.test("authentication of agents and operators", async (t) => {
  matchObject(t, await authenticateAgent(system, agent.token), { agentId: agent.agentId, region: "eu" });
  const { authorization } = await tokenOf(await newOrg(system));
  for (const token of [null, "", "sm_agent_x", authorization.slice(7), `${agent.token} `])
    matchObject(t, await refusal(t, () => authenticateAgent(system, token)), { code: "UNAUTHENTICATED" });
  const pull = { protocol: 1, agent_version: "1", kinds: allAbilities, cursor: null, capacity: 0 };
  matchObject(
    t,
    await ask("POST", "/api/agent/pull", pull, { authorization }),
    refused(401, "UNAUTHENTICATED"),
    "a tenant's token is refused",
  );
  matchObject(t, await ask("POST", "/api/agent/pull", pull, { authorization: `Bearer ${agent.token}` }), {
    status: 200,
    body: { region: "eu" },
  });

  const operator = (token: string, of = ask) =>
    of("GET", "/operator/regions", undefined, token === "" ? {} : { authorization: `Bearer ${token}` });
  matchObject(t, await operator("operator-secret-0123456789"), { status: 200, body: { total: 2 } });
  for (const token of ["", "operator-secret-012345678", authorization.slice(7), agent.token])
    matchObject(t, await operator(token), refused(401, "UNAUTHENTICATED"));
  const unset = await serveWhole(t, home, {
    ...system,
    config: { ...system.config, operator: { email: "", admin_token: "" } },
  });
  for (const token of ["", "operator-secret-0123456789"])
    matchObject(t, await operator(token, unset), refused(404, "NOT_FOUND"), "the operator surface is off");
  const made = await ask(
    "POST",
    "/operator/agents",
    { name: "probe", region: "us" },
    { authorization: "Bearer operator-secret-0123456789" },
  );
  matchObject(t, await authenticateAgent(system, made.body.token), { agentId: made.body.id, region: "us" });
  await ask("DELETE", `/operator/agents/${made.body.id}`, undefined, {
    authorization: "Bearer operator-secret-0123456789",
  });
  matchObject(
    t,
    await refusal(t, () => authenticateAgent(system, made.body.token)),
    { code: "UNAUTHENTICATED" },
    "from its next request",
  );
});

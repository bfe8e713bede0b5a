import * as oauth from "oauth4webapi";
import t from "tap";
import { request } from "undici";
import { findResourceToken } from "../auth/service.ts";
import type { Ctx } from "../context.ts";
import { sweep } from "../jobs/sweep.ts";
import { removeMember } from "../orgs/service.ts";
import { day, hour, minute } from "../testing/clock.ts";
import {
  answer,
  app,
  authorizePath,
  callback,
  codeForm,
  connect,
  type Flow,
  newCode,
  newVerifier,
  oauthOn,
  openFlow,
  refreshForm,
  resource,
  sending,
  signedField,
} from "../testing/oauth.ts";
import { asking, newMember, serveWhole, signedIn, withToken } from "../testing/whole-app.ts";
import { newOrg, openWorld } from "../testing/world.ts";
import { register } from "./registration.ts";

const unlimited = { SM_AUTH__PER_IP_RATE_LIMIT_PER_MIN: "0" };
const env = { ...oauthOn, ...unlimited };
const secs = 1000;

const shared = await openWorld(t, { env });
const service = await serveWhole(t, shared);

/** An organisation with a client of its owner, on the service of this file. */
async function stage(world = shared, served = service) {
  const owner = await newOrg(world.system);
  return { world, owner, served, send: sending(served), flow: await openFlow(served, owner) };
}

const opens = async (ctx: Ctx, token: string): Promise<boolean> =>
  (await findResourceToken(ctx, token, resource)) !== null;

t.test("both metadata documents name what is there, for every origin; switched off there is nothing", async (t) => {
  const { send } = await stage();
  const server = await send("/.well-known/oauth-authorization-server");
  t.match(server, {
    status: 200,
    json: {
      issuer: app,
      authorization_endpoint: `${app}/oauth/authorize`,
      code_challenge_methods_supported: ["S256"],
      token_endpoint_auth_methods_supported: ["none"],
      authorization_response_iss_parameter_supported: true,
    },
  });
  const host = { host: "mcp.example.org" };
  const about = await send("/.well-known/oauth-protected-resource", { headers: host });
  t.match(about, { status: 200, json: { resource, authorization_servers: [app] } });
  t.equal(about.json.scopes_supported.length, 6);
  t.equal((await send("/.well-known/oauth-protected-resource")).status, 404, "not at the host of the console");
  for (const { headers } of [server, about]) t.equal(headers.get("access-control-allow-origin"), "*");
  for (const path of ["/oauth/register", "/oauth/token", "/oauth/revoke", "/.well-known/oauth-authorization-server"]) {
    const preflight = await send(path, { method: "OPTIONS" });
    t.equal(preflight.status, 204, path);
    t.equal(preflight.headers.get("access-control-allow-origin"), "*");
    const wrong = await send(path, { method: "PUT" });
    t.equal(wrong.status, 405);
    t.match(wrong.headers.get("allow"), /GET|POST/);
  }
  const wrong = await send("/oauth/authorize", { method: "DELETE" });
  t.equal(wrong.status, 405);
  t.equal(wrong.headers.get("allow"), "GET, HEAD, POST, OPTIONS");
  t.equal((await send("/oauth/authorize", { method: "OPTIONS" })).headers.get("access-control-allow-origin"), null);

  const off = await openWorld(t, { env: { SM_MCP__ENABLED: "true" } });
  const silent = await serveWhole(t, off);
  for (const [method, path] of [
    ["GET", "/.well-known/oauth-authorization-server"],
    ["GET", "/.well-known/oauth-protected-resource"],
    ["POST", "/oauth/register"],
    ["GET", "/oauth/authorize"],
    ["POST", "/oauth/authorize"],
    ["POST", "/oauth/token"],
    ["POST", "/oauth/revoke"],
  ] as const)
    t.equal((await silent(method, path)).status, 404, `off: ${method} ${path}`);
});

t.test("registration: addresses, names and metadata", async (t) => {
  const { served, world } = await stage();
  const register = async (body: unknown) => await served("POST", "/oauth/register", body);
  const uris = (...redirect_uris: unknown[]) => ({ redirect_uris });
  const good = [
    "https://app.example/cb",
    "https://app.example:8443/cb?a=1",
    "https://127.0.0.1/cb",
    "http://localhost/cb",
    "http://localhost:33418/cb",
    "http://127.0.0.1:1/",
    "http://[::1]:8000/cb",
    "http://localhost",
    `https://app.example/${"a".repeat(2048 - 20)}`,
  ];
  t.match(await register(uris(...good)), { status: 201, body: { redirect_uris: good } });
  const bad: [why: string, uri: unknown][] = [
    ["an integer host", "http://2130706433/cb"],
    ["a hexadecimal host", "https://0x7f.1/cb"],
    ["another loopback address", "http://127.0.0.2/cb"],
    ["a user before the host", "http://localhost@evil.example/cb"],
    ["a user of https", "https://a@b.example/cb"],
    ["a name that begins like the loopback", "http://localhost.evil.example/cb"],
    ["an empty fragment", "https://a.example/cb#"],
    ["a fragment", "https://a.example/cb#x"],
    ["a line break", "https://a.example/c\nb"],
    ["a tab in the scheme", "ht\ttps://a.example/cb"],
    ["a space", "https://a.example/c b"],
    ["a backslash", "https://a.example\\@evil.example/cb"],
    ["cleartext", "http://a.example/cb"],
    ["a custom scheme", "cursor://callback"],
    ["a script", "javascript:alert(1)"],
    ["data", "data:text/html,x"],
    ["no scheme", "//a.example/cb"],
    ["other letters", "https://ä.example/cb"],
    ["an escaped host", "https://a%2eexample/cb"],
    ["a port out of range", "http://localhost:70000/cb"],
    ["one that is too long", `https://app.example/${"a".repeat(2049 - 20)}`],
    ["a number", 5],
    ["an empty one", ""],
  ];
  for (const [why, uri] of bad)
    t.match(
      await register(uris("https://a.example/cb", uri)),
      { status: 400, body: { error: "invalid_redirect_uri" } },
      why,
    );
  for (const [why, list] of [
    ["none", []],
    ["eleven", Array.from({ length: 11 }, (_, at) => `https://a.example/${at}`)],
    ["ten thousand short ones", Array.from({ length: 10_000 }, () => "a")],
    ["a text", "https://a.example/cb"],
    ["nothing", undefined],
  ] as const)
    t.match((await register({ redirect_uris: list })).status, /400|413/, why);
  t.match(await register({ ...uris(good[0]), software_statement: "x".repeat(33_000) }), { status: 413 });
  t.match(await served("POST", "/oauth/register", undefined, { "content-type": "text/plain" }), { status: 415 });

  const names: [sent: unknown, shown: string | undefined][] = [
    ["<script>alert(1)</script>", "<script>alert(1)</script>"],
    [" a\u202eb\u0007c\n d\u200b ", "a b c d"],
    ["x".repeat(100), "x".repeat(80)],
    ["\u{1f600}".repeat(81), "\u{1f600}".repeat(80)],
    ["\u202e\u200b", undefined],
    [undefined, undefined],
  ];
  for (const [sent, shown] of names) {
    const made = await register({ ...uris(good[0]), client_name: sent, logo_uri: 5, jwks: {} });
    t.equal(made.status, 201);
    t.equal(made.body.client_name, shown);
    t.match(made.body, { token_endpoint_auth_method: "none", client_secret: undefined, logo_uri: undefined });
    t.equal(made.headers.get("cache-control"), "no-store");
  }
  t.match(await register({ ...uris(good[0]), client_name: 5 }), {
    status: 400,
    body: { error: "invalid_client_metadata" },
  });

  const limited = await serveWhole(t, world, {
    ...world.system,
    config: { ...world.system.config, auth: { ...world.system.config.auth, per_ip_rate_limit_per_min: 3 } },
  });
  const statuses: number[] = [];
  for (let at = 0; at < 5; at++) statuses.push((await limited("POST", "/oauth/register", uris(good[0]))).status);
  t.strictSame(statuses, [201, 201, 201, 429, 429]);
  t.equal((await sending(limited)("/oauth/token", { form: {} })).status, 400, "the token endpoint has no such limit");
});

t.test("unused clients have a cap: the oldest make room, new ones and those with a grant stay", async (t) => {
  const { world, served, flow } = await stage();
  await connect(flow);
  await world.sql`delete from oauth_clients where id <> ${flow.clientId}`;
  const limits = { max: 3, keptMs: 10 * minute };
  const uris = { redirect_uris: [callback] };
  const add = async () => ((await register(world.system, uris, limits)) as { client_id: string }).client_id;
  const ids = async () =>
    (await world.sql<{ id: string }[]>`select id from oauth_clients order by created_at`).map(({ id }) => id);
  const first: string[] = [];
  for (let at = 0; at < 3; at++) first.push(await add());
  await t.rejects(add(), { code: "RATE_LIMITED", retryAfterSecs: 600 }, "all of them are new");
  t.strictSame((await ids()).slice(1).sort(), [...first].sort(), "nothing is deleted by a refused registration");
  world.clock.advance(11 * minute);
  await newCode({ ...flow, clientId: first[0]! });
  const late = [await add(), await add(), await add()];
  t.strictSame((await ids()).sort(), [flow.clientId, first[0]!, ...late].sort(), "the grants stay");
  await t.rejects(Promise.all([add(), add()]), { code: "RATE_LIMITED" });
  await world.sql`
    insert into oauth_clients (id, redirect_uris, created_at, expires_at)
    select gen_random_uuid(), '{}', ${new Date(world.clock.at)}::timestamptz - interval '1 hour',
      ${new Date(world.clock.at)}::timestamptz + interval '1 hour' from generate_series(1, 10000)`;
  t.match(await served("POST", "/oauth/register", uris), { status: 201 });
  const [row] = await world.sql`
    select count(*)::int as count from oauth_clients where expires_at - created_at <= interval '1 day'`;
  t.equal(row!["count"], 10_000, "also over HTTP");
});

t.test("an authorization request: pages for people, errors for clients", async (t) => {
  const { flow, send, owner } = await stage();
  const unknown: Record<string, string | null>[] = [
    { client_id: null },
    { client_id: "nobody" },
    { client_id: "00000000-0000-7000-8000-000000000000" },
    { redirect_uri: null },
    { redirect_uri: "https://evil.example/callback" },
    { redirect_uri: `${callback}&more=1` },
    { redirect_uri: callback.toUpperCase() },
    { redirect_uri: "https://app.example:443/callback?from=statusmesh" },
  ];
  for (const changed of unknown) {
    const page = await send(authorizePath(flow, changed), { headers: flow.browser });
    t.equal(page.status, 400, JSON.stringify(changed));
    t.match(page.headers.get("content-type"), /text\/html/);
    t.equal(page.headers.get("location"), null);
    t.equal(page.headers.get("referrer-policy"), "no-referrer");
  }
  const twice = `${authorizePath(flow)}&redirect_uri=${encodeURIComponent("https://evil.example/")}`;
  t.equal((await send(twice, { headers: flow.browser })).status, 400);

  const refused: [error: string, changed: Record<string, string | null>][] = [
    ["unsupported_response_type", { response_type: "token" }],
    ["invalid_request", { response_type: null }],
    ["invalid_request", { response_mode: "fragment" }],
    ["invalid_request", { code_challenge: null }],
    ["invalid_request", { code_challenge: "short" }],
    ["invalid_request", { code_challenge_method: "plain" }],
    ["invalid_request", { code_challenge_method: null }],
    ["invalid_target", { resource: "https://other.example" }],
    ["invalid_target", { resource: `${resource}/mcp` }],
    ["invalid_request", { prompt: "none login" }],
    ["consent_required", { prompt: "none" }],
  ];
  for (const [error, changed] of refused) {
    const back = await send(authorizePath(flow, changed), { headers: flow.browser });
    t.equal(back.status, 302, error);
    t.ok(back.headers.get("location")?.startsWith(`${callback}&error=`));
    t.match(Object.fromEntries(back.to), { error, state: "a b&c=ö", iss: app, from: "statusmesh" });
    t.equal(back.to.get("code"), null);
    t.equal(back.headers.get("cache-control"), "no-store");
  }
  const repeated = await send(`${authorizePath(flow)}&scope=targets:read`, { headers: flow.browser });
  t.equal(repeated.to.get("error"), "invalid_request");
  t.equal((await send(authorizePath(flow, { prompt: "none" }))).to.get("error"), "login_required");

  const stranger = await send(authorizePath(flow));
  t.equal(stranger.status, 302);
  t.equal(stranger.headers.get("location"), `/sign-in?next=${encodeURIComponent(authorizePath(flow))}`);
  const cookie = stranger.headers.get("set-cookie")!.split(";")[0]!;
  const link = await send("/sign-in/some-code", { headers: { cookie } });
  t.match(link.text, "/oauth/authorize?", "the link of a mail returns, too");
  const open = await send("/sign-in/some-code", {
    headers: { cookie: "_sm_session_return=https%3A%2F%2Fevil.example" },
  });
  t.notMatch(open.text, "evil.example");
  const byToken = await send(authorizePath(flow), { headers: await withToken(owner) });
  t.equal(byToken.status, 302, "a token is nobody who can approve");

  const asked: [scope: string | null, boxes: number, lines: number][] = [
    [null, 0, 3],
    ["openid offline_access", 0, 3],
    ["targets:read", 0, 1],
    ["targets:write", 1, 1],
    ["targets:read targets:write targets:execute incidents:write incidents:read status_page:read x", 3, 3],
  ];
  for (const [scope, boxes, lines] of asked) {
    const page = await send(authorizePath(flow, { scope, resource: `${resource}/` }), { headers: flow.browser });
    t.equal(page.status, 200);
    t.equal(page.text.split('type="checkbox"').length - 1, boxes, `boxes for ${scope}`);
    t.equal(page.text.split('class="state up"').length - 1, lines, `lines for ${scope}`);
    t.notMatch(page.text, /type="checkbox"[^>]*checked/, "no box is ticked");
    t.match(page.text, boxes === 0 ? "wants read-only access" : "is requesting access");
    t.equal(page.text.includes("wants to change things"), boxes > 0, "the banner");
  }
});

t.test("the consent page shows the name as text and sends nothing elsewhere", async (t) => {
  const { served, owner, send } = await stage();
  const name = "<script>alert(1)</script>";
  for (const [uri, source] of [
    ["https://app.example:8443/cb", "https://app.example:8443"],
    ["http://127.0.0.1:3000/cb", "http://127.0.0.1:3000"],
    ["http://[::1]:3000/cb", "http:"],
  ] as const) {
    const flow = await openFlow(served, owner, { client_name: name, redirect_uris: [uri] });
    const page = await send(authorizePath(flow, { redirect_uri: uri }), { headers: flow.browser });
    t.notMatch(page.text, "<script>alert");
    t.match(page.text, "&lt;script&gt;");
    t.match(page.text, new URL(uri).host, "the host that gets the answer");
    const policy = page.headers.get("content-security-policy")!;
    t.match(policy, "frame-ancestors 'none'");
    t.match(policy, `form-action 'self' ${source};`);
    t.equal(page.headers.get("cache-control"), "no-store");
    t.equal(page.headers.get("referrer-policy"), "no-referrer");
    t.equal(page.headers.get("x-frame-options"), "DENY");
  }
  const flow = await openFlow(served, owner, { redirect_uris: ["http://localhost:1000/cb"] });
  for (const [uri, status] of [
    ["http://localhost:65000/cb", 200],
    ["http://localhost/cb", 200],
    ["http://localhost:65000/other", 400],
    ["http://127.0.0.1:1000/cb", 400],
    ["https://localhost:1000/cb", 400],
    ["http://localhost:99999/cb", 400],
    ["http://localhost:1@evil.example/cb", 400],
  ] as const)
    t.equal((await send(authorizePath(flow, { redirect_uri: uri }), { headers: flow.browser })).status, status, uri);
});

t.test("a consent form is answered once, as it is, by its own user, organisation and session", async (t) => {
  const { world, owner, flow, send } = await stage();
  const approved = await answer(flow, await signedField(flow));
  t.equal(approved.status, 303);
  t.match(Object.fromEntries(approved.to), { code: /^[\w-]{43}$/, state: "a b&c=ö", iss: app, from: "statusmesh" });
  t.equal(approved.headers.get("referrer-policy"), "no-referrer");
  t.equal(approved.headers.get("cache-control"), "no-store");
  const [entry] = await world.sql`
      select action, after from audit_log where action = 'POST /oauth/authorize' and org_id = ${owner.orgId}`;
  t.match(entry, { after: { name: "Test app", scopes: ["targets:read"], lifetime_days: 30 } });

  const denied = await answer(flow, await signedField(flow), "&decision=deny");
  t.match(Object.fromEntries(denied.to), { error: "access_denied", state: "a b&c=ö", iss: app });
  const undecided = await answer(flow, await signedField(flow), "&days=30");
  t.equal(undecided.to.get("error"), "access_denied", "only Approve approves");

  for (const days of ["&days=never", "&days=31", "&days=", "", "&days=0030", "&days=30&days=365"]) {
    const page = await answer(flow, await signedField(flow), `${days}&decision=approve`);
    t.equal((await answer(flow, await signedField(flow), days)).status, 400, `${days} without a decision`);
    t.equal(page.status, 400, days);
    t.match(page.headers.get("content-type"), /text\/html/);
  }

  const field = await signedField(flow);
  const [payload, mac] = field.split(".") as [string, string];
  const edited = JSON.parse(Buffer.from(payload, "base64url").toString());
  edited.to = "https://evil.example/";
  const forged = `${Buffer.from(JSON.stringify(edited)).toString("base64url")}.${mac}`;
  const neighbour = await newMember(owner);
  const other = await newOrg(world.system);
  const as = async (user: Ctx): Promise<Flow> => ({ ...flow, browser: await signedIn(user) });
  const nobody: Flow = { ...flow, browser: { "sec-fetch-site": "same-origin" } };
  const site = (name: string): Flow => ({ ...flow, browser: { ...flow.browser, "sec-fetch-site": name } });
  const origin = (value: string): Flow => ({ ...flow, browser: { cookie: flow.browser["cookie"]!, origin: value } });
  const refused: [why: string, who: Flow, what: string, more?: string][] = [
    ["edited", flow, forged],
    ["without its signature", flow, payload],
    ["with a part of it", flow, `${payload}.${mac.slice(0, -1)}`],
    ["no form at all", flow, ""],
    ["twice the field", flow, `${field}&request=${field}`],
    ["another user", await as(neighbour), field],
    ["another organisation", await as(other), field],
    ["another session of the user", await as(owner), field],
    ["nobody", nobody, field],
    ["another site", site("cross-site"), field],
    ["another host of the domain", site("same-site"), field],
    ["another origin", origin("https://evil.example"), field],
    ["a scope that was not asked for", flow, field, "&scope=incidents:write&days=30&decision=approve"],
  ];
  for (const [why, who, what, more] of refused) {
    const page = await answer(who, what, more);
    t.equal(page.status, 403, why);
    t.equal(page.headers.get("location"), null);
    t.match(page.headers.get("content-type"), /text\/html/);
  }
  const foreign = await send("/oauth/authorize", {
    method: "POST",
    headers: { ...flow.browser, "content-type": "text/plain" },
  });
  t.equal(foreign.status, 415);
  t.equal((await answer(flow, field)).status, 303, "and none of this used it up");
  t.equal((await answer(flow, field)).status, 403, "replayed");

  // The session switches to another organisation, and a form of 30 minutes ago.
  const before = await signedField(flow);
  await world.sql`
    insert into memberships (org_id, user_id, role, created_at)
    values (${other.orgId}, ${owner.userId}, 'member', now())`;
  await world.sql`update sessions set org_id = ${other.orgId} where user_id = ${owner.userId}`;
  t.equal((await answer(flow, before)).status, 403, "the session acts in another organisation");
  const chosen = await signedField(flow, { statusmesh_org: owner.orgId });
  const connected = await flow.send("/oauth/token", {
    form: codeForm(flow, (await answer(flow, chosen)).to.get("code")!),
  });
  t.equal(
    (await findResourceToken(owner, connected.json.access_token, resource))?.orgId,
    owner.orgId,
    "the chosen one",
  );
  const late = await signedField(flow);
  world.clock.advance(hour);
  t.equal((await answer(flow, late)).status, 403, "an hour later");
});

t.test("codes: for 60 s, once, for their client, address and verifier", async (t) => {
  const { world, owner, flow, send, served } = await stage();
  const tokenOf = async (form: Record<string, string>, headers: Record<string, string> = {}) =>
    await send("/oauth/token", { form, headers });
  const stranger = await openFlow(served, owner);
  const wrong: [error: string, changed: Record<string, string>][] = [
    ["invalid_grant", { code: newVerifier() }],
    ["invalid_grant", { client_id: stranger.clientId }],
    ["invalid_grant", { redirect_uri: "https://app.example/callback" }],
    ["invalid_grant", { code_verifier: newVerifier() }],
    ["invalid_grant", { code_verifier: "short" }],
    ["invalid_target", { resource: "https://other.example" }],
    ["invalid_request", { code_verifier: "" }],
    ["invalid_request", { redirect_uri: "" }],
    ["invalid_request", { grant_type: "" }],
    ["invalid_request", { client_id: "" }],
    ["unsupported_grant_type", { grant_type: "client_credentials" }],
    ["invalid_client", { client_id: "unknown" }],
    ["invalid_client", { client_secret: "x" }],
    ["invalid_client", { client_assertion: "x" }],
  ];
  const code = await newCode(flow, "&scope=targets:write&days=30&decision=approve");
  for (const [error, changed] of wrong) {
    const refused = await tokenOf({ ...codeForm(flow, code), ...changed });
    t.match(refused, { status: error === "invalid_client" ? 401 : 400, json: { error } }, JSON.stringify(changed));
    t.equal(refused.headers.get("cache-control"), "no-store");
  }
  const basic = await tokenOf(codeForm(flow, code), { authorization: "Basic eDp5" });
  t.match(basic, { status: 401, json: { error: "invalid_client" } });
  t.equal(basic.headers.get("www-authenticate"), "Basic");
  const doubled = new URLSearchParams([...Object.entries(codeForm(flow, code)), ["resource", resource]]);
  t.match(await send("/oauth/token", { form: doubled }), { status: 400, json: { error: "invalid_request" } });
  t.match(await served("POST", "/oauth/token", { code }), { status: 415, body: { error: "invalid_request" } });

  const good = await tokenOf(codeForm(flow, code));
  t.match(good, {
    status: 200,
    json: { token_type: "Bearer", expires_in: 3600, scope: "targets:read targets:write", access_token: /^sm_live_/ },
  });
  t.equal(good.headers.get("cache-control"), "no-store");
  t.ok(await opens(owner, good.json.access_token));
  t.match(await tokenOf(codeForm(flow, code)), { status: 400, json: { error: "invalid_grant" } }, "a replay");
  t.notOk(await opens(owner, good.json.access_token), "it ends the access token");
  t.match(await tokenOf(refreshForm(flow, good.json.refresh_token)), { json: { error: "invalid_grant" } });
  t.equal(
    (await world.sql`select 1 from audit_log where action = 'POST /oauth/token' and org_id = ${owner.orgId}`).length,
    1,
  );

  const slow = await newCode(flow);
  world.clock.advance(60 * secs);
  t.match(await tokenOf(codeForm(flow, slow)), { json: { error: "invalid_grant" } }, "after 60 s");
  const stored = JSON.stringify(await world.sql`select * from oauth_codes`);
  t.notMatch(stored, slow, "stored as a hash");
});

t.test("refresh tokens rotate; an old one ends the connection with its access tokens", async (t) => {
  const { system } = shared;
  const config = { ...system.config, mcp: { ...system.config.mcp, access_token_ttl_secs: 120 } };
  const { world, owner, flow, send } = await stage(shared, await serveWhole(t, shared, { ...system, config }));
  const logged = world.log.lines.length;
  const refreshed = async (token: string, more: Record<string, string> = {}) =>
    await send("/oauth/token", { form: { ...refreshForm(flow, token), ...more } });
  const first = await connect(flow, "&scope=targets:write&days=30&decision=approve");
  t.equal(first.expires_in, 120);
  t.match(await refreshed(first.refresh_token, { scope: "org:write" }), {
    status: 400,
    json: { error: "invalid_scope" },
  });
  const narrow = await refreshed(first.refresh_token, { scope: "targets:read", resource });
  t.match(narrow, { status: 200, json: { scope: "targets:read" } });
  t.strictSame([...(await findResourceToken(owner, narrow.json.access_token, resource))!.scopes], ["targets:read"]);
  const wide = await refreshed(narrow.json.refresh_token);
  t.equal(wide.json.scope, "targets:read targets:write", "narrowed for one token only");
  t.ok(await opens(owner, wide.json.access_token));
  t.match(await refreshed(first.refresh_token), { status: 400, json: { error: "invalid_grant" } });
  for (const { access_token } of [first, narrow.json, wide.json]) t.notOk(await opens(owner, access_token));
  t.match(await refreshed(wide.json.refresh_token), { json: { error: "invalid_grant" } });
  t.match(
    world.log.lines.slice(logged).filter(({ level }) => level === "warn"),
    [{ message: /replayed/ }],
  );

  const second = await connect(flow);
  t.match(await refreshed(second.refresh_token, { resource: "https://other.example" }), {
    json: { error: "invalid_target" },
  });
  world.clock.advance(120 * secs);
  t.notOk(await opens(owner, second.access_token), "an access token ends");
  world.clock.advance(30 * day - 150 * secs);
  const last = await refreshed(second.refresh_token);
  t.equal(last.json.expires_in, 30, "no token outlives its connection");
  world.clock.advance(30 * secs);
  t.match(await refreshed(last.json.refresh_token), { json: { error: "invalid_grant" } });
});

t.test("a connection is listed, disconnected, given up, and ends with the membership", async (t) => {
  const { world, owner, flow, send, served } = await stage();
  const browser = asking(served, flow.browser);
  const first = await connect(flow);
  world.clock.advance(secs);
  const second = await connect(flow, "&scope=targets:write&days=365&decision=approve");
  const list = await browser("GET", "/api/v1/connected-apps");
  t.match(list.body, {
    total: 2,
    items: [
      { client_name: "Test app", redirect_host: "app.example", scopes: ["targets:read", "targets:write"] },
      { scopes: ["targets:read"], last_used_at: /T/ },
    ],
  });
  const neighbour = asking(served, await signedIn(await newMember(owner)));
  t.equal((await neighbour("GET", "/api/v1/connected-apps")).body.total, 0, "only one's own");
  const [newer, older] = list.body.items;
  t.match(await neighbour("DELETE", `/api/v1/connected-apps/${older.id}`), { status: 404 });
  t.match(await browser("DELETE", `/api/v1/connected-apps/${older.id}`), { status: 204 });
  t.match(await browser("DELETE", `/api/v1/connected-apps/${older.id}`), {
    body: { error: { code: "CONNECTED_APP_NOT_FOUND" } },
  });
  t.notOk(await opens(owner, first.access_token));
  t.match(await send("/oauth/token", { form: refreshForm(flow, first.refresh_token) }), {
    json: { error: "invalid_grant" },
  });
  t.ok(await opens(owner, second.access_token), "the other one stays");

  const stranger = await openFlow(served, owner);
  const revoke = async (token: string, more: Record<string, string> = {}) =>
    await send("/oauth/revoke", { form: { client_id: flow.clientId, token, ...more } });
  t.match(await revoke(second.access_token, { client_id: stranger.clientId }), { status: 200 });
  t.match(await revoke(second.refresh_token, { client_id: stranger.clientId }), { status: 200 });
  t.ok(await opens(owner, second.access_token), "another client revokes nothing");
  t.match(await revoke("sm_live_unknown"), { status: 200 });
  t.match(await revoke(second.access_token, { client_secret: "x" }), {
    status: 401,
    json: { error: "invalid_client" },
  });
  t.match(await send("/oauth/revoke", { form: { client_id: flow.clientId } }), { status: 400 });
  t.match(await revoke(second.access_token), { status: 200 });
  t.notOk(await opens(owner, second.access_token));
  const third = await send("/oauth/token", { form: refreshForm(flow, second.refresh_token) });
  t.equal(third.status, 200, "an access token ends only itself");
  t.match(await revoke(third.json.refresh_token), { status: 200 });
  t.notOk(await opens(owner, third.json.access_token), "a refresh token ends the connection");
  t.equal((await browser("GET", "/api/v1/connected-apps")).body.total, 0);
  t.equal((await world.sql`select 1 from audit_log where resource_id = ${newer.id}`).length, 2);

  const member = await newMember(owner);
  const theirs = await openFlow(served, member);
  const tokens = await connect(theirs);
  const pending = await newCode(theirs);
  await removeMember(owner, owner.orgId, member.userId);
  t.notOk(await opens(owner, tokens.access_token));
  t.match(await send("/oauth/token", { form: codeForm(theirs, pending) }), { json: { error: "invalid_grant" } });
  await world.sql`
    insert into memberships (org_id, user_id, role, created_at)
    values (${owner.orgId}, ${member.userId}, 'member', now())`;
  t.notOk(await opens(owner, tokens.access_token), "a rejoin restores none");
  t.match(await send("/oauth/token", { form: refreshForm(theirs, tokens.refresh_token) }), {
    json: { error: "invalid_grant" },
  });
});

t.test("expired rows are purged; a client without a grant goes after a day", async (t) => {
  const own = await openWorld(t, { env });
  const { world, owner, flow, served, send } = await stage(own, await serveWhole(t, own));
  const { sql, clock, system } = world;
  await openFlow(served, owner, { redirect_uris: [callback] });
  const tokens = await connect(flow);
  await newCode(flow);
  const rows = async () => {
    const [row] = await sql`
      select (select count(*)::int from oauth_clients) as clients, (select count(*)::int from oauth_codes) as codes,
        (select count(*)::int from oauth_connections) as connections,
        (select count(*)::int from oauth_consents) as consents,
        (select count(*)::int from oauth_refresh_tokens) as refresh,
        (select count(*)::int from api_tokens where audience is not null) as access`;
    return { ...row };
  };
  await sweep(system);
  t.strictSame(await rows(), { clients: 2, codes: 2, connections: 1, consents: 2, refresh: 1, access: 1 });
  clock.advance(day + 2 * hour);
  t.match(await send(authorizePath(await openFlow(served, owner))), { status: 302 });
  await sweep(system);
  t.strictSame(await rows(), { clients: 2, codes: 0, connections: 1, consents: 0, refresh: 1, access: 0 });
  t.equal((await send("/oauth/token", { form: refreshForm(flow, tokens.refresh_token) })).status, 200);
  clock.advance(30 * day);
  await sweep(system);
  t.strictSame(await rows(), { clients: 1, codes: 0, connections: 0, consents: 0, refresh: 0, access: 0 });
  clock.advance(365 * day);
  await sweep(system);
  t.match(await rows(), { clients: 0 });
});

t.test("oauth4webapi finds, registers, connects, refreshes and revokes", async (t) => {
  const { owner, served, flow } = await stage();
  const there = async (url: string, init: { method: string; headers: Record<string, string>; body?: unknown }) => {
    const { host, pathname, search } = new URL(url);
    const sent = await request(`${served.origin}${pathname}${search}`, {
      method: init.method as "GET",
      headers: { ...init.headers, host },
      ...(init.body === undefined || init.body === null ? {} : { body: String(init.body) }),
    });
    const headers = { "content-type": String(sent.headers["content-type"]) };
    return new Response(await sent.body.text(), { status: sent.statusCode, headers });
  };
  const options = { [oauth.customFetch]: there };
  const about = await oauth.processResourceDiscoveryResponse(
    new URL(resource),
    await oauth.resourceDiscoveryRequest(new URL(resource), options),
  );
  const issuer = new URL(about.authorization_servers![0]!);
  const as = await oauth.processDiscoveryResponse(
    issuer,
    await oauth.discoveryRequest(issuer, { ...options, algorithm: "oauth2" }),
  );
  const client = await oauth.processDynamicClientRegistrationResponse(
    await oauth.dynamicClientRegistrationRequest(
      as,
      { client_name: "oauth4webapi", redirect_uris: [callback], token_endpoint_auth_method: "none" },
      options,
    ),
  );
  const verifier = oauth.generateRandomCodeVerifier();
  const mine: Flow = { ...flow, clientId: client.client_id, verifier };
  const back = await answer(mine, await signedField(mine, { state: "state-1" }));
  const params = oauth.validateAuthResponse(as, client, new URL(back.headers.get("location")!), "state-1");
  const granted = await oauth.processAuthorizationCodeResponse(
    as,
    client,
    await oauth.authorizationCodeGrantRequest(as, client, oauth.None(), params, callback, verifier, {
      ...options,
      additionalParameters: { resource: new URL(resource).href },
    }),
  );
  t.ok(await opens(owner, granted.access_token));
  const next = await oauth.processRefreshTokenResponse(
    as,
    client,
    await oauth.refreshTokenGrantRequest(as, client, oauth.None(), granted.refresh_token!, options),
  );
  t.ok(await opens(owner, next.access_token));
  await oauth.processRevocationResponse(
    await oauth.revocationRequest(as, client, oauth.None(), next.refresh_token!, options),
  );
  t.notOk(await opens(owner, next.access_token));
  const denied = await answer(mine, await signedField(mine, { state: "state-2" }), "&decision=deny");
  let refusal: unknown = null;
  try {
    oauth.validateAuthResponse(as, client, new URL(denied.headers.get("location")!), "state-2");
  } catch (error) {
    refusal = error;
  }
  t.match(refusal, { error: "access_denied" });
});

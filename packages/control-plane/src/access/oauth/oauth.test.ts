import * as oauth from "oauth4webapi";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { request } from "undici";
import { findResourceToken } from "../auth/tokens/service.ts";
import type { Ctx } from "../../platform/context.ts";
import { sweep } from "../../operator/cleanup.ts";
import { removeMember } from "../orgs/members/service.ts";
import { day, hour } from "../../testing/clock.ts";
import {
  answer,
  authorizePath,
  callback,
  codeForm,
  connect,
  type Flow,
  newCode,
  newVerifier,
  oauthStage,
  oauthUnlimited,
  openFlow,
  refreshForm,
  resource,
  signedField,
} from "../../testing/oauth.ts";
import { asking, newMember, serveWhole, signedIn } from "../../testing/whole-app.ts";
import { openWorld } from "../../testing/world.ts";

const secs = 1000;

const world = await openWorld(t, { env: oauthUnlimited });
const service = await serveWhole(t, world);
const stage = oauthStage(world, service);

const opens = async (ctx: Ctx, token: string): Promise<boolean> =>
  (await findResourceToken(ctx, token, resource)) !== null;

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
    matchObject(
      t,
      refused,
      { status: error === "invalid_client" ? 401 : 400, json: { error } },
      JSON.stringify(changed),
    );
    t.equal(refused.headers.get("cache-control"), "no-store");
  }
  const basic = await tokenOf(codeForm(flow, code), { authorization: "Basic eDp5" });
  matchObject(t, basic, { status: 401, json: { error: "invalid_client" } });
  t.equal(basic.headers.get("www-authenticate"), "Basic");
  const doubled = new URLSearchParams([...Object.entries(codeForm(flow, code)), ["resource", resource]]);
  matchObject(t, await send("/oauth/token", { form: doubled }), { status: 400, json: { error: "invalid_request" } });
  matchObject(t, await served("POST", "/oauth/token", { code }), { status: 415, body: { error: "invalid_request" } });

  const good = await tokenOf(codeForm(flow, code));
  matchObject(t, good, {
    status: 200,
    json: { token_type: "Bearer", expires_in: 3600, scope: "targets:read targets:write", access_token: /^sm_live_/ },
  });
  t.equal(good.headers.get("cache-control"), "no-store");
  t.ok(await opens(owner, good.json.access_token));
  matchObject(t, await tokenOf(codeForm(flow, code)), { status: 400, json: { error: "invalid_grant" } }, "a replay");
  t.notOk(await opens(owner, good.json.access_token), "it ends the access token");
  matchObject(t, await tokenOf(refreshForm(flow, good.json.refresh_token)), { json: { error: "invalid_grant" } });
  t.equal(
    (await world.sql`select 1 from audit_log where action = 'POST /oauth/token' and org_id = ${owner.orgId}`).length,
    1,
  );

  const slow = await newCode(flow);
  world.clock.advance(60 * secs);
  matchObject(t, await tokenOf(codeForm(flow, slow)), { json: { error: "invalid_grant" } }, "after 60 s");
  const stored = JSON.stringify(await world.sql`select * from oauth_codes`);
  t.notMatch(stored, slow, "stored as a hash");
});

t.test("refresh tokens rotate; an old one ends the connection with its access tokens", async (t) => {
  const { system } = world;
  const config = { ...system.config, mcp: { ...system.config.mcp, access_token_ttl_secs: 120 } };
  const { owner, flow, send } = await stage(world, await serveWhole(t, world, { ...system, config }));
  const logged = world.log.lines.length;
  const refreshed = async (token: string, more: Record<string, string> = {}) =>
    await send("/oauth/token", { form: { ...refreshForm(flow, token), ...more } });
  const first = await connect(flow, "&scope=targets:write&days=30&decision=approve");
  t.equal(first.expires_in, 120);
  matchObject(t, await refreshed(first.refresh_token, { scope: "org:write" }), {
    status: 400,
    json: { error: "invalid_scope" },
  });
  const narrow = await refreshed(first.refresh_token, { scope: "targets:read", resource });
  matchObject(t, narrow, { status: 200, json: { scope: "targets:read" } });
  t.strictSame([...(await findResourceToken(owner, narrow.json.access_token, resource))!.scopes], ["targets:read"]);
  const wide = await refreshed(narrow.json.refresh_token);
  t.equal(wide.json.scope, "targets:read targets:write", "narrowed for one token only");
  t.ok(await opens(owner, wide.json.access_token));
  matchObject(t, await refreshed(first.refresh_token), { status: 400, json: { error: "invalid_grant" } });
  for (const { access_token } of [first, narrow.json, wide.json]) t.notOk(await opens(owner, access_token));
  matchObject(t, await refreshed(wide.json.refresh_token), { json: { error: "invalid_grant" } });
  matchObject(
    t,
    world.log.lines.slice(logged).filter(({ level }) => level === "warn"),
    [{ message: /replayed/ }],
  );

  const second = await connect(flow);
  matchObject(t, await refreshed(second.refresh_token, { resource: "https://other.example" }), {
    json: { error: "invalid_target" },
  });
  world.clock.advance(120 * secs);
  t.notOk(await opens(owner, second.access_token), "an access token ends");
  world.clock.advance(30 * day - 150 * secs);
  const last = await refreshed(second.refresh_token);
  t.equal(last.json.expires_in, 30, "no token outlives its connection");
  world.clock.advance(30 * secs);
  matchObject(t, await refreshed(last.json.refresh_token), { json: { error: "invalid_grant" } });
});

t.test("tokens and connections are bounded: the oldest end", async (t) => {
  const { world, owner, flow, send } = await stage();
  const refreshed = async (token: string) => await send("/oauth/token", { form: refreshForm(flow, token) });
  const first = await connect(flow);
  const all = [first];
  for (let at = 0; at < 4; at++) {
    world.clock.advance(secs);
    all.push((await refreshed(all.at(-1)!.refresh_token)).json);
  }
  const live = async (tokens: readonly { access_token: string }[]) =>
    await Promise.all(tokens.map(({ access_token }) => opens(owner, access_token)));
  t.strictSame(await live(all), [false, false, true, true, true], "three access tokens of a connection");

  let last = all.at(-1)!.refresh_token;
  const attempts: number[] = [];
  for (let at = 0; at < 27; at++) {
    const reply = await refreshed(last);
    attempts.push(reply.status);
    if (reply.status === 200) last = reply.json.refresh_token;
  }
  t.strictSame(attempts, [...Array<number>(26).fill(200), 429], "30 renewals a minute");
  const refused = await refreshed(last);
  matchObject(t, refused, { status: 429, json: { error: "temporarily_unavailable" } });
  t.match(refused.headers.get("retry-after"), /^([1-9]|[1-5]\d|60)$/);
  const second = await connect(flow);
  matchObject(t, await refreshed(second.refresh_token), { status: 200 }, "another connection has its own");
  world.clock.advance(60 * secs);
  const after = await refreshed(last);
  t.equal(after.status, 200, "a refused attempt does not use the token up");

  const third = await connect(flow);
  matchObject(t, await refreshed(after.json.refresh_token), { json: { error: "invalid_grant" } });
  t.strictSame(await live([after.json, third]), [false, true], "the third consent ends the oldest connection");
  const [row] = await world.sql`
    select before from audit_log where action = 'POST /oauth/token' and org_id = ${owner.orgId}`;
  matchObject(t, row!["before"], { name: "Test app", reason: "newer consent" });
  t.equal((await refreshed((await refreshed(third.refresh_token)).json.refresh_token)).status, 200);
  const elsewhere = await openFlow(service, owner);
  await connect(elsewhere);
  t.ok(await opens(owner, third.access_token), "another client ends none");
});

t.test("a connection is listed, disconnected, given up, and ends with the membership", async (t) => {
  const { world, owner, flow, send, served } = await stage();
  const browser = asking(served, flow.browser);
  const first = await connect(flow);
  world.clock.advance(secs);
  const second = await connect(flow, "&scope=targets:write&days=365&decision=approve");
  const list = await browser("GET", "/api/v1/connected-apps");
  matchObject(t, list.body, {
    total: 2,
    items: [
      { client_name: "Test app", redirect_host: "app.example", scopes: ["targets:read", "targets:write"] },
      { scopes: ["targets:read"], last_used_at: /T/ },
    ],
  });
  const neighbour = asking(served, await signedIn(await newMember(owner)));
  t.equal((await neighbour("GET", "/api/v1/connected-apps")).body.total, 0, "only one's own");
  const [newer, older] = list.body.items;
  matchObject(t, await neighbour("DELETE", `/api/v1/connected-apps/${older.id}`), { status: 404 });
  matchObject(t, await browser("DELETE", `/api/v1/connected-apps/${older.id}`), { status: 204 });
  matchObject(t, await browser("DELETE", `/api/v1/connected-apps/${older.id}`), {
    body: { error: { code: "CONNECTED_APP_NOT_FOUND" } },
  });
  t.notOk(await opens(owner, first.access_token));
  matchObject(t, await send("/oauth/token", { form: refreshForm(flow, first.refresh_token) }), {
    json: { error: "invalid_grant" },
  });
  t.ok(await opens(owner, second.access_token), "the other one stays");

  const stranger = await openFlow(served, owner);
  const revoke = async (token: string, more: Record<string, string> = {}) =>
    await send("/oauth/revoke", { form: { client_id: flow.clientId, token, ...more } });
  matchObject(t, await revoke(second.access_token, { client_id: stranger.clientId }), { status: 200 });
  matchObject(t, await revoke(second.refresh_token, { client_id: stranger.clientId }), { status: 200 });
  t.ok(await opens(owner, second.access_token), "another client revokes nothing");
  matchObject(t, await revoke("sm_live_unknown"), { status: 200 });
  matchObject(t, await revoke(second.access_token, { client_secret: "x" }), {
    status: 401,
    json: { error: "invalid_client" },
  });
  matchObject(t, await send("/oauth/revoke", { form: { client_id: flow.clientId } }), { status: 400 });
  matchObject(t, await revoke(second.access_token), { status: 200 });
  t.notOk(await opens(owner, second.access_token));
  const third = await send("/oauth/token", { form: refreshForm(flow, second.refresh_token) });
  t.equal(third.status, 200, "an access token ends only itself");
  matchObject(t, await revoke(third.json.refresh_token), { status: 200 });
  t.notOk(await opens(owner, third.json.access_token), "a refresh token ends the connection");
  t.equal((await browser("GET", "/api/v1/connected-apps")).body.total, 0);
  t.equal((await world.sql`select 1 from audit_log where resource_id = ${newer.id}`).length, 2);

  const member = await newMember(owner);
  const theirs = await openFlow(served, member);
  const tokens = await connect(theirs);
  const pending = await newCode(theirs);
  await removeMember(owner, owner.orgId, member.userId);
  t.notOk(await opens(owner, tokens.access_token));
  matchObject(t, await send("/oauth/token", { form: codeForm(theirs, pending) }), { json: { error: "invalid_grant" } });
  await world.sql`
    insert into memberships (org_id, user_id, role, created_at)
    values (${owner.orgId}, ${member.userId}, 'member', now())`;
  t.notOk(await opens(owner, tokens.access_token), "a rejoin restores none");
  matchObject(t, await send("/oauth/token", { form: refreshForm(theirs, tokens.refresh_token) }), {
    json: { error: "invalid_grant" },
  });
});

t.test("expired rows are purged; a client without a grant goes after a day", async (t) => {
  const own = await openWorld(t, { env: oauthUnlimited });
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
  matchObject(t, await send(authorizePath(await openFlow(served, owner))), { status: 302 });
  await sweep(system);
  t.strictSame(await rows(), { clients: 2, codes: 0, connections: 1, consents: 0, refresh: 1, access: 0 });
  t.equal((await send("/oauth/token", { form: refreshForm(flow, tokens.refresh_token) })).status, 200);
  clock.advance(30 * day);
  await sweep(system);
  t.strictSame(await rows(), { clients: 1, codes: 0, connections: 0, consents: 0, refresh: 0, access: 0 });
  clock.advance(365 * day);
  await sweep(system);
  matchObject(t, await rows(), { clients: 0 });
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
    new URL(`${resource}/mcp`),
    await oauth.resourceDiscoveryRequest(new URL(`${resource}/mcp`), options),
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
  const params = oauth.validateAuthResponse(as, client, new URL(back.leadsTo!), "state-1");
  const granted = await oauth.processAuthorizationCodeResponse(
    as,
    client,
    await oauth.authorizationCodeGrantRequest(as, client, oauth.None(), params, callback, verifier, {
      ...options,
      additionalParameters: { resource: `${resource}/mcp` },
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
    oauth.validateAuthResponse(as, client, new URL(denied.leadsTo!), "state-2");
  } catch (error) {
    refusal = error;
  }
  matchObject(t, refusal, { error: "access_denied" });
});

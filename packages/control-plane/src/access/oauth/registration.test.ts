import { Ajv2020 } from "ajv/dist/2020.js";
import formats from "ajv-formats";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { minute } from "../../testing/clock.ts";
import {
  answer,
  app,
  authorizePath,
  callback,
  connect,
  newCode,
  oauthStage,
  oauthUnlimited,
  refreshForm,
  resource,
  sending,
  signedField,
} from "../../testing/oauth.ts";
import { serveWhole } from "../../testing/whole-app.ts";
import { openWorld } from "../../testing/world.ts";
import { register } from "./registration.ts";

/* Metadata documents, registration of clients, and the OpenAPI document. */

const world = await openWorld(t, { env: oauthUnlimited });
const service = await serveWhole(t, world);
const stage = oauthStage(world, service);

t.test("both metadata documents, for every origin; 404 when switched off", async (t) => {
  const { send } = await stage();
  const server = await send("/.well-known/oauth-authorization-server");
  matchObject(t, server, {
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
  matchObject(t, about, { status: 200, json: { resource, authorization_servers: [app] } });
  t.equal(about.json.scopes_supported.length, 6);
  const byAddress = await send("/.well-known/oauth-protected-resource/mcp", { headers: host });
  t.strictSame(byAddress.json, { ...about.json, resource: `${resource}/mcp` }, "the address that people paste");
  t.strictSame(server.json.protected_resources, [`${resource}/mcp`, resource]);
  for (const path of ["", "/mcp"])
    for (const wrong of ["status.example.org", "user@mcp.example.org", "mcp.example.org/x"])
      t.equal((await send(`/.well-known/oauth-protected-resource${path}`, { headers: { host: wrong } })).status, 404);
  for (const { headers } of [server, about, byAddress]) t.equal(headers.get("access-control-allow-origin"), "*");
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
  matchObject(t, await register(uris(...good)), { status: 201, body: { redirect_uris: good } });
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
    matchObject(
      t,
      await register(uris(uri)),
      { status: 400, body: { error: "invalid_redirect_uri", error_description: /^redirect_uris\[0\] / } },
      why,
    );
  const some = await register(uris("cursor://callback", good[0], "https://a.example/cb#x"));
  matchObject(t, some, { status: 201, body: { redirect_uris: [good[0]] } }, "the good ones are registered");
  t.strictSame(some.body.refused_redirect_uris, [
    "redirect_uris[0] must be https, or http on localhost, 127.0.0.1 or [::1]; other schemes are not supported.",
    "redirect_uris[2] has a fragment.",
  ]);
  t.notOk("refused_redirect_uris" in (await register(uris(good[0]))).body);
  for (const [why, list] of [
    ["none", []],
    ["eleven", Array.from({ length: 11 }, (_, at) => `https://a.example/${at}`)],
    ["ten thousand short ones", Array.from({ length: 10_000 }, () => "a")],
    ["a text", "https://a.example/cb"],
    ["nothing", undefined],
  ] as const)
    t.match((await register({ redirect_uris: list })).status, /400|413/, why);
  matchObject(t, await register({ ...uris(good[0]), software_statement: "x".repeat(33_000) }), { status: 413 });
  matchObject(t, await served("POST", "/oauth/register", undefined, { "content-type": "text/plain" }), { status: 415 });

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
    matchObject(t, made.body, { token_endpoint_auth_method: "none", client_secret: undefined, logo_uri: undefined });
    t.equal(made.headers.get("cache-control"), "no-store");
  }
  matchObject(t, await register({ ...uris(good[0]), client_name: 5 }), {
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
  matchObject(t, await served("POST", "/oauth/register", uris), { status: 201 });
  const [row] = await world.sql`
    select count(*)::int as count from oauth_clients where expires_at - created_at <= interval '1 day'`;
  t.equal(row!["count"], 10_000, "also over HTTP");
});

t.test("each kind of reply is in the OpenAPI document, with its type and shape", async (t) => {
  const { flow, send } = await stage();
  const document = (await service("GET", "/api/openapi.json")).body;
  const ajv = new Ajv2020({ strict: false });
  formats.default(ajv);
  ajv.addSchema(document, "document");
  const json = async (body: unknown) => {
    const { status, headers, body: reply } = await service("POST", "/oauth/register", body);
    return { status, headers, json: reply };
  };
  const tokens = await connect(flow);
  const client_id = flow.clientId;
  const seen: [path: string, method: string, reply: { status: number; headers: Headers; json: unknown }][] = [
    ["/.well-known/oauth-authorization-server", "get", await send("/.well-known/oauth-authorization-server")],
    [
      "/.well-known/oauth-protected-resource",
      "get",
      await send("/.well-known/oauth-protected-resource", { headers: { host: "mcp.example.org" } }),
    ],
    [
      "/.well-known/oauth-protected-resource/mcp",
      "get",
      await send("/.well-known/oauth-protected-resource/mcp", { headers: { host: "mcp.example.org" } }),
    ],
    ["/oauth/register", "post", await json({ redirect_uris: [callback], client_name: "A" })],
    ["/oauth/register", "post", await json({ redirect_uris: [] })],
    ["/oauth/register", "post", await json({ redirect_uris: [callback], jwks: "x".repeat(33_000) })],
    ["/oauth/register", "post", await send("/oauth/register", { form: {} })],
    ["/oauth/authorize", "get", await send(authorizePath(flow), { headers: flow.browser })],
    ["/oauth/authorize", "get", await send(authorizePath(flow))],
    ["/oauth/authorize", "get", await send(authorizePath(flow, { client_id: "nobody" }))],
    ["/oauth/authorize", "post", await answer(flow, await signedField(flow))],
    ["/oauth/authorize", "post", await answer(flow, await signedField(flow), "&days=1&decision=approve")],
    ["/oauth/authorize", "post", await answer(flow, "edited")],
    ["/oauth/token", "post", await send("/oauth/token", { form: refreshForm(flow, tokens.refresh_token) })],
    ["/oauth/token", "post", await send("/oauth/token", { form: { client_id } })],
    ["/oauth/token", "post", await send("/oauth/token", { form: { client_id: "nobody" } })],
    ["/oauth/token", "post", await send("/oauth/token", { method: "POST" })],
    ["/oauth/revoke", "post", await send("/oauth/revoke", { form: { client_id, token: "x" } })],
    ["/oauth/revoke", "post", await send("/oauth/revoke", { form: { client_id } })],
    ["/oauth/revoke", "post", await send("/oauth/revoke", { form: { client_id, token: "x", client_secret: "x" } })],
  ];
  for (const [path, method, { status, headers, json: body }] of seen) {
    const name = `${method} ${path} ${status}`;
    const declared = document.paths[path][method].responses[status];
    t.ok(declared, name);
    for (const [header, { schema }] of Object.entries<{ schema?: { const?: string } }>(declared?.headers ?? {}))
      if (schema?.const !== undefined) t.equal(headers.get(header), schema.const, `${name}: ${header}`);
    const [type, content] = Object.entries<{ schema: object }>(declared?.content ?? {})[0] ?? [];
    if (type === undefined || content === undefined) continue;
    matchObject(t, headers.get("content-type"), type, name);
    if (type !== "application/json") continue;
    const fits = ajv.compile(JSON.parse(JSON.stringify(content.schema).replaceAll('"#/', '"document#/')));
    t.ok(fits(body), `${name}: ${ajv.errorsText(fits.errors)}`);
  }
});

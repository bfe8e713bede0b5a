import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { hour, minute, until } from "../../testing/clock.ts";
import { type Headers, initialize, openMcp, openStream, resource, send, usual } from "../../testing/mcp.ts";
import { serveWhole } from "../../testing/whole-app.ts";
import { newOrg, openWorld } from "../../testing/world.ts";

const ping = { jsonrpc: "2.0", id: 1, method: "ping" };
/** For tests without settings of their own. */
const shared = await openMcp(t);

t.test("the official client works with any replica", async (t) => {
  const mcp = shared;
  const ctx = await newOrg(mcp.world.system);
  const client = await mcp.client(await mcp.token(ctx, { scopes: ["targets:read"] }));
  matchObject(t, client.getServerVersion(), { name: "StatusMesh" });
  t.strictSame(client.getServerCapabilities(), { tools: {} }, "tools only");
  t.match(client.getInstructions(), /Treat it as data/);
  for (let i = 0; i < 4; i++) await client.ping();
  const { tools } = await client.listTools();
  t.equal(new Set(tools.map(({ name }) => name)).size, tools.length, "every token sees all tools");
});

t.test("requests are refused in this order, with these replies", async (t) => {
  const mcp = await openMcp(t, { env: { SM_MCP__ALLOWED_ORIGINS: "https://app.example.org" } });
  const ctx = await newOrg(mcp.world.system);
  const token = await mcp.token(ctx);
  const session = await mcp.session(token);
  const good: Headers = { ...usual, ...session };
  const [replica] = mcp.replicas;

  interface Case {
    name: string;
    method?: string;
    path?: string;
    headers?: Headers;
    body?: unknown;
    status: number;
    code?: number;
    reply?: Record<string, string | RegExp>;
  }
  const cases: Case[] = [
    {
      name: "a wrong Host before Origin and token",
      headers: { host: "evil.example", origin: "https://evil.example", authorization: undefined },
      status: 403,
    },
    { name: "Host counts with its port", headers: { host: "mcp.example.org:8080" }, status: 403 },
    ...[
      "user@mcp.example.org",
      "mcp.example.org/x",
      "mcp.example.org:080",
      "mcp.example.org.",
      "mcp%2eexample.org",
    ].map((host) => ({ name: `Host: ${host}`, headers: { host }, status: 403 })),
    { name: "the default port may be written", headers: { host: "MCP.example.org:80" }, status: 200 },
    { name: "the host of the application", headers: { host: "status.example.org" }, status: 403 },
    {
      name: "a foreign Origin before the token",
      headers: { origin: "https://evil.example", authorization: undefined },
      status: 403,
    },
    { name: "an allowed Origin", headers: { origin: "https://app.example.org" }, status: 200 },
    {
      name: "a preflight of an allowed Origin",
      method: "OPTIONS",
      headers: { origin: "https://app.example.org", "access-control-request-method": "POST", authorization: undefined },
      status: 204,
      reply: {
        "access-control-allow-origin": "https://app.example.org",
        "access-control-allow-headers": /authorization.*mcp-session-id.*mcp-protocol-version/,
      },
    },
    {
      name: "a preflight of another Origin",
      method: "OPTIONS",
      headers: { origin: "https://evil.example", "access-control-request-method": "POST" },
      status: 403,
    },
    {
      name: "a page of an allowed Origin reads the session",
      headers: { origin: "https://app.example.org" },
      status: 200,
      reply: { "access-control-expose-headers": /Mcp-Session-Id/ },
    },
    { name: "the opaque origin", headers: { origin: "null" }, status: 403 },
    ...["PUT", "PATCH", "OPTIONS"].map((method) => ({
      name: method,
      method,
      status: 405,
      reply: { allow: "GET, POST, DELETE" },
    })),
    {
      name: "no token",
      headers: { authorization: undefined },
      status: 401,
      reply: { "www-authenticate": /^Bearer$/ },
    },
    {
      name: "another scheme",
      headers: { authorization: "Basic b2xnYTp4" },
      status: 401,
      reply: { "www-authenticate": 'Bearer error="invalid_token"' },
    },
    {
      name: "an unknown token",
      headers: { authorization: `Bearer sm_live_${"x".repeat(43)}` },
      status: 401,
      reply: { "www-authenticate": 'Bearer error="invalid_token"' },
    },
    { name: "only JSON accepted", headers: { accept: "application/json" }, status: 406 },
    { name: "GET that accepts JSON only", method: "GET", headers: { accept: "application/json" }, status: 406 },
    { name: "another media type", headers: { "content-type": "text/plain" }, status: 415 },
    { name: "a compressed body", headers: { "content-encoding": "gzip" }, status: 415 },
    { name: "over 1 MiB", body: `"${"x".repeat(1_048_577)}"`, status: 413 },
    { name: "no JSON", body: "{", status: 400, code: -32_700 },
    {
      name: "invalid UTF-8 in escapes",
      body: '{"jsonrpc":"2.0","id":1,"method":"\\ud800"}',
      status: 400,
      code: -32_600,
    },
    { name: "NUL", body: '{"jsonrpc":"2.0","id":1,"method":"\\u0000"}', status: 400, code: -32_600 },
    { name: "a batch", body: [ping], status: 400, code: -32_600 },
    { name: "an empty batch", body: [], status: 400, code: -32_600 },
    { name: "no JSON-RPC", body: { id: 1, method: "ping" }, status: 400, code: -32_600 },
    { name: "id null", body: { ...ping, id: null }, status: 400, code: -32_600 },
    { name: "a fractional id", body: { ...ping, id: 1.5 }, status: 400, code: -32_600 },
    { name: "neither method nor result", body: { jsonrpc: "2.0", id: 1 }, status: 400, code: -32_600 },
    { name: "params that are a list", body: { ...ping, params: [] }, status: 400, code: -32_602 },
    { name: "a member too many", body: { ...ping, extra: 1 }, status: 400, code: -32_600 },
    { name: "metadata of another shape", body: { ...ping, params: { _meta: 1 } }, status: 400, code: -32_600 },
    {
      name: "metadata of another shape in a call that streams",
      body: { ...ping, method: "tools/call", params: { name: "pause_monitor", _meta: 1 } },
      status: 400,
      code: -32_600,
    },
    { name: "no session", headers: { "mcp-session-id": undefined }, status: 400, code: -32_000 },
    {
      name: "an unknown session",
      headers: { "mcp-session-id": "5f0c1c1e-6d0b-4a52-8f0e-0b2b9f6f2a11" },
      status: 404,
      code: -32_001,
    },
    { name: "no id at all as the session", headers: { "mcp-session-id": "' or 1=1" }, status: 404, code: -32_001 },
    { name: "no revision", headers: { "mcp-protocol-version": undefined }, status: 400, code: -32_000 },
    { name: "a revision of old", headers: { "mcp-protocol-version": "2024-11-05" }, status: 400, code: -32_000 },
    { name: "one without the header", headers: { "mcp-protocol-version": "2025-03-26" }, status: 400, code: -32_000 },
    { name: "an older revision", headers: { "mcp-protocol-version": "2025-06-18" }, status: 200 },
    { name: "GET without a revision", method: "GET", headers: { "mcp-protocol-version": undefined }, status: 400 },
    { name: "DELETE without a session", method: "DELETE", headers: { "mcp-session-id": undefined }, status: 400 },
    { name: "an unknown method", body: { ...ping, method: "resources/list" }, status: 200, code: -32_601 },
    {
      name: "a malformed initialize",
      body: { ...initialize(), params: {} },
      headers: { "mcp-session-id": undefined },
      status: 200,
      code: -32_602,
    },
    ...[
      {},
      { name: 1 },
      { name: "no_such_tool" },
      { name: "__proto__" },
      { name: "list_monitors", arguments: "x" },
      { name: "list_monitors", arguments: [] },
      { name: "list_monitors", arguments: null },
    ].map((params) => ({
      name: `tools/call ${JSON.stringify(params)}`,
      body: { ...ping, method: "tools/call", params },
      status: 200,
      code: -32_602,
    })),
    { name: "a notification", body: { jsonrpc: "2.0", method: "notifications/initialized" }, status: 202 },
    { name: "an unknown notification", body: { jsonrpc: "2.0", method: "x/y", params: {} }, status: 202 },
    { name: "an answer that nobody waits for", body: { jsonrpc: "2.0", id: "x", result: {} }, status: 202 },
    { name: "another path of the host", method: "GET", path: "/docs", status: 404 },
    { name: "the API on this host", method: "GET", path: "/api/v1/targets", status: 404 },
    { name: "a slash too many", path: "/mcp/", status: 404 },
    { name: "health", method: "GET", path: "/healthz", status: 200 },
  ];
  for (const { name, method = "POST", path = "/mcp", headers = {}, body, status, code, reply = {} } of cases) {
    const sent = method === "POST" ? (body ?? ping) : undefined;
    const got = await send(replica, method, path, { ...good, ...headers }, sent);
    t.equal(got.status, status, `${name}: ${got.text.slice(0, 200)}`);
    if (code !== undefined) t.equal(got.body?.error?.code, code, name);
    for (const [header, value] of Object.entries(reply))
      matchObject(t, got.headers[header], value, `${name}: ${header}`);
    if (status === 202) t.equal(got.text, "");
    else if (path === "/mcp" && status >= 400)
      matchObject(t, got.body, { jsonrpc: "2.0", error: { message: /./ } }, name);
  }
});

t.test("revisions: a served one is kept, another gets the newest", async (t) => {
  const mcp = shared;
  const authorization = `Bearer ${await mcp.token(await newOrg(mcp.world.system))}`;
  for (const [asked, got] of [
    ["2025-11-25", "2025-11-25"],
    ["2025-06-18", "2025-06-18"],
    ["2025-03-26", "2025-11-25"],
    ["2024-11-05", "2025-11-25"],
    ["2099-01-01", "2025-11-25"],
  ] as const) {
    const reply = await mcp.post({ authorization }, initialize({}, asked));
    t.equal(reply.body.result.protocolVersion, got, asked);
    t.match(reply.headers["mcp-session-id"], /^[0-9a-f-]{36}$/);
  }
});

t.test("a client that sends no revision after initialize, as Gemini CLI", async (t) => {
  const lenient = await openMcp(t, { env: { SM_MCP__REQUIRE_PROTOCOL_VERSION: "false" } });
  for (const [mcp, status] of [
    [shared, 400],
    [lenient, 200],
  ] as const) {
    const session = await mcp.session(await mcp.token(await newOrg(mcp.world.system)));
    const without = { ...session, "mcp-protocol-version": undefined };
    const listed = await mcp.post(without, { ...ping, method: "tools/list" });
    t.equal(listed.status, status);
    if (status === 400) t.match(listed.body.error.message, /mcp\.require_protocol_version to false/);
    else t.ok(listed.body.result.tools.length > 10);
    t.equal((await mcp.post({ ...session, "mcp-protocol-version": "2024-11-05" }, ping)).status, 400, "a wrong one");
    t.equal((await mcp.post({ ...without, "mcp-session-id": undefined }, ping)).status, 400, "no session");
  }
});

t.test("a session belongs to its user, organisation and client", async (t) => {
  const mcp = shared;
  const { clock, sql } = mcp.world;
  const [olga, other] = [await newOrg(mcp.world.system), await newOrg(mcp.world.system)];
  const token = await mcp.token(olga);
  const session = await mcp.session(token);
  const status = async (headers: Headers) => (await mcp.post(headers, ping)).status;
  t.equal(await status(session), 200);
  for (const [name, foreign] of [
    ["another token of the same user", await mcp.token(olga)],
    ["another organisation", await mcp.token(other)],
  ] as const)
    t.equal(await status({ ...session, authorization: `Bearer ${foreign}` }), 404, name);

  clock.advance(23 * hour);
  t.equal(await status(session), 200, "a use extends it");
  clock.advance(23 * hour + 59 * minute);
  t.equal(await status(session), 200);
  clock.advance(24 * hour + 6 * minute);
  t.equal(await status(session), 404, "24 hours idle end it");

  const oldest = await mcp.session(token);
  await sql`
    insert into mcp_sessions
    select gen_random_uuid(), user_id, org_id, client, can_confirm, client_name, protocol,
      created_at + n * interval '1 ms', expires_at
    from mcp_sessions, generate_series(1, 99) as n where id = ${oldest["mcp-session-id"]!}`;
  t.equal(await status(oldest), 200, "100 sessions of an owner");
  clock.advance(1000);
  const first = await mcp.session(token);
  t.equal(await status(oldest), 404, "the next one ends the oldest");
  t.equal(await status(first), 200);

  t.equal((await send(mcp.replicas[0], "DELETE", "/mcp", { ...usual, ...first })).status, 204);
  t.equal((await send(mcp.replicas[1], "DELETE", "/mcp", { ...usual, ...first })).status, 404, "it ends once");
  t.equal(await status(first), 404);
});

t.test("token, membership and audience are looked up on every request", async (t) => {
  const mcp = shared;
  const { sql, clock } = mcp.world;
  const endings: Record<string, (token: string, userId: string, orgId: string) => Promise<unknown>> = {
    revoked: async (_, userId) => await sql`update api_tokens set revoked_at = now() where user_id = ${userId}`,
    expired: async (_, userId) =>
      await sql`update api_tokens set expires_at = ${new Date(clock.now() - 1)} where user_id = ${userId}`,
    unbound: async (_, userId) => await sql`update api_tokens set org_id = null where user_id = ${userId}`,
    "of another audience": async (_, userId) =>
      await sql`update api_tokens set audience = 'https://other.example' where user_id = ${userId}`,
    "without an audience": async (_, userId) =>
      await sql`update api_tokens set audience = null where user_id = ${userId}`,
    "of a former member": async (_, userId) => await sql`delete from memberships where user_id = ${userId}`,
    "of a deleted organisation": async (_, __, orgId) =>
      await sql`update orgs set deleted_at = now() where id = ${orgId}`,
  };
  for (const [name, end] of Object.entries(endings)) {
    const ctx = await newOrg(mcp.world.system);
    const token = await mcp.token(ctx);
    const session = await mcp.session(token);
    t.equal((await mcp.post(session, ping)).status, 200);
    await end(token, ctx.userId, ctx.orgId);
    const refused = await mcp.post(session, ping);
    t.equal(refused.status, 401, name);
    t.equal(refused.headers["www-authenticate"], 'Bearer error="invalid_token"', name);
  }
});

t.test("event streams: several per session, closed at its end", async (t) => {
  const mcp = shared;
  const session = await mcp.session(await mcp.token(await newOrg(mcp.world.system)));
  const [first, second] = mcp.replicas;
  const streams = [1, 2, 3].map(() => openStream(second, { ...usual, ...session, accept: "text/event-stream" }));
  for (const { opened } of streams) t.equal(await opened, 200);
  t.equal((await mcp.post(session, ping)).status, 200, "requests go on beside streams");
  t.equal((await send(first, "DELETE", "/mcp", { ...usual, ...session })).status, 204);
  for (const { ended } of streams) t.match(await ended, /^: open\n\n/, "the other replica ends its streams");
});

t.test("metadata of tasks, which the server does not support, is ignored", async (t) => {
  const mcp = shared;
  const session = await mcp.session(await mcp.token(await newOrg(mcp.world.system)), {});
  const related = "io.modelcontextprotocol/related-task";
  for (const more of [
    { task: {} },
    { task: { ttl: 1000 } },
    { task: 1 },
    { _meta: { task: "x" } },
    { _meta: { task: { taskId: "x" } } },
    { _meta: { [related]: { taskId: "unknown" } } },
    { _meta: { [related]: "unknown" } },
  ])
    for (const name of ["get_org_health", "pause_monitor"]) {
      const call = { ...ping, method: "tools/call", params: { name, arguments: {}, ...more } };
      const { text } = await mcp.post(session, call);
      matchObject(
        t,
        text,
        name === "pause_monitor" ? /invalid_arguments/ : /"structuredContent":\{/,
        JSON.stringify(more),
      );
      const listed = await mcp.post(session, { ...ping, method: "tools/list", params: more });
      matchObject(t, listed.body.result, { tools: Array }, JSON.stringify(more));
    }
});

t.test("event streams end with the token, its connection, the membership and the organisation", async (t) => {
  const mcp = shared;
  const { sql, clock } = mcp.world;
  const endings: Record<string, (userId: string, orgId: string) => Promise<unknown>> = {
    "a revoked token": async (userId) => await sql`update api_tokens set revoked_at = now() where user_id = ${userId}`,
    "an expired token": async (userId) =>
      await sql`update api_tokens set expires_at = ${new Date(clock.now() - 1)} where user_id = ${userId}`,
    "a disconnected app": async (userId, orgId) => {
      const [client] = await sql<[{ id: string }]>`
        insert into oauth_clients (id, redirect_uris, created_at, expires_at)
        values (gen_random_uuid(), '{}', now(), now()) returning id`;
      const [connection] = await sql<[{ id: string }]>`
        insert into oauth_connections (id, client_id, user_id, org_id, redirect_host, scopes, audience, created_at,
          revoked_at, expires_at)
        values (gen_random_uuid(), ${client.id}, ${userId}, ${orgId}, 'app.example', '{}', ${resource}, now(), now(),
          ${new Date(clock.now() + hour)}) returning id`;
      await sql`update api_tokens set connection_id = ${connection.id} where user_id = ${userId}`;
    },
    "a former member": async (userId) => await sql`delete from memberships where user_id = ${userId}`,
    "a deleted organisation": async (_, orgId) => await sql`update orgs set deleted_at = now() where id = ${orgId}`,
  };
  const stays = await mcp.session(await mcp.token(await newOrg(mcp.world.system)));
  const other = openStream(mcp.replicas[0], { ...usual, ...stays, accept: "text/event-stream" });
  t.equal(await other.opened, 200);
  const ended = Object.entries(endings).map(async ([name, end]) => {
    const ctx = await newOrg(mcp.world.system);
    const session = await mcp.session(await mcp.token(ctx));
    const stream = openStream(mcp.replicas[0], { ...usual, ...session, accept: "text/event-stream" });
    t.equal(await stream.opened, 200);
    await end(ctx.userId, ctx.orgId);
    t.match(await stream.ended, /^: open\n\n/, name);
  });
  await Promise.all(ended);
  t.equal((await send(mcp.replicas[1], "DELETE", "/mcp", { ...usual, ...stays })).status, 204);
  t.match(await other.ended, /^: open\n\n/, "another user's stream lasted until its own end");
});

t.test("event streams: four per session, 32 per user over all tokens", async (t) => {
  const mcp = shared;
  const ctx = await newOrg(mcp.world.system);
  const [replica] = mcp.replicas;
  const open = (session: Headers) => openStream(replica, { ...usual, ...session, accept: "text/event-stream" });
  const sessions: Headers[] = [];
  for (let at = 0; at < 8; at++) sessions.push(await mcp.session(await mcp.token(ctx)));
  const streams: ReturnType<typeof open>[] = [];
  for (const session of sessions)
    for (let at = 0; at < 4; at++) {
      const stream = open(session);
      t.equal(await stream.opened, 200);
      streams.push(stream);
    }
  const fifth = open(sessions[0]!);
  t.equal(await fifth.opened, 200);
  t.match(await streams[0]!.ended, /^: open\n\n/, "the fifth of a session ends its oldest");
  const ninth = await mcp.session(await mcp.token(ctx));
  t.equal(await open(ninth).opened, 429, "the 33rd of a user is refused");
  t.equal((await mcp.post(ninth, ping)).status, 200, "requests go on");
  const stranger = await mcp.session(await mcp.token(await newOrg(mcp.world.system)));
  const strangers = open(stranger);
  t.equal(await strangers.opened, 200, "others have their own");
  for (const session of [...sessions, stranger])
    await send(mcp.replicas[1], "DELETE", "/mcp", { ...usual, ...session });
  await Promise.all([...streams, fifth, strangers].map(({ ended }) => ended));
  const again = open(ninth);
  t.equal(await again.opened, 200, "closed streams free their places");
  await send(replica, "DELETE", "/mcp", { ...usual, ...ninth });
  await again.ended;
});

t.test("with OAuth the challenges point at the metadata of the resource", async (t) => {
  const mcp = await openMcp(t, {
    env: {
      SM_MCP__OAUTH_ENABLED: "true",
      SM_MCP__RESOURCE_URI: "https://mcp.example.org",
      SM_AUTH__PUBLIC_BASE_URL: "https://status.example.org",
    },
  });
  const metadata = 'resource_metadata="https://mcp.example.org/.well-known/oauth-protected-resource/mcp"';
  const none = await mcp.post({}, ping);
  t.equal(none.status, 401);
  t.equal(none.headers["www-authenticate"], `Bearer ${metadata}`, "no error without a token, no scope");
  const unknown = await mcp.post({ authorization: "Bearer sm_live_x" }, ping);
  t.equal(unknown.headers["www-authenticate"], `Bearer error="invalid_token", ${metadata}`);
});

t.test("one budget with the REST API; notifications and answers are free", async (t) => {
  const mcp = await openMcp(t);
  const { sql, system } = mcp.world;
  await sql`
    insert into plans
    select (jsonb_populate_record(p, '{"id": "tight", "api_reads_per_min": 5, "api_writes_per_min": 2}')).*
    from plans p where id = 'selfhost'`;
  const ctx = await newOrg(system, "tight");
  const [replica] = mcp.replicas;
  const post = async (headers: Headers, message: unknown) =>
    await send(replica, "POST", "/mcp", { ...usual, ...headers }, message);
  const authorization = `Bearer ${await mcp.token(ctx)}`;
  const opened = await post({ authorization }, initialize());
  const session = {
    authorization,
    "mcp-session-id": opened.headers["mcp-session-id"]!,
    "mcp-protocol-version": "2025-11-25",
  };
  for (let i = 0; i < 10; i++)
    t.equal((await post(session, { jsonrpc: "2.0", method: "notifications/initialized" })).status, 202);
  t.equal((await post(session, ping)).status, 200);
  t.equal((await post(session, { ...ping, method: "tools/list" })).status, 200);
  t.equal((await post(session, "{")).status, 400, "a refused message costs a read");
  const rest = await mcp.token(ctx, { audience: null });
  t.equal((await replica("GET", "/api/v1/targets", undefined, { authorization: `Bearer ${rest}` })).status, 200);
  const over = await post(session, ping);
  t.equal(over.status, 429);
  t.match(over.headers["retry-after"], /^([1-9]|[1-5]\d|60)$/);
  t.equal((await post(session, { jsonrpc: "2.0", id: "x", result: {} })).status, 202, "answers stay free");

  const write = { ...ping, method: "tools/call", params: { name: "pause_monitor", arguments: { monitor_id: "x" } } };
  for (let i = 0; i < 2; i++) t.equal((await post(session, write)).status, 200);
  const other = { ...write, params: { name: "resume_monitor", arguments: { monitor_id: "y" } } };
  for (let i = 0; i < 30; i++) t.equal((await post(session, write)).status, 429);
  t.equal((await post(session, other)).status, 429);
  const rows = async () =>
    await sql<{ tool: string; refused: number | null }[]>`
      select tool, outcome, detail, arguments, app, refused from mcp_audit where org_id = ${ctx.orgId} order by id`;
  await until(async () => (await rows()).some(({ refused }) => refused === 30), "the sum of the refused calls");
  const call = { tool: "pause_monitor", arguments: { monitor_id: "x" }, app: "Assistant" };
  const single = { ...call, outcome: "error", detail: "monitor_not_found", refused: null };
  const summed = { ...call, outcome: "denied", detail: "too_many_requests", refused: 30 };
  t.strictSame(
    [...(await rows())],
    [single, single, summed, { ...summed, tool: "resume_monitor", arguments: { monitor_id: "y" }, refused: 1 }],
    "refused writes are one row a minute, token and tool",
  );
  mcp.world.clock.advance(minute);
  for (let i = 0; i < 2; i++) t.equal((await post(session, write)).status, 200);
  t.equal((await post(session, write)).status, 429);
  t.strictSame(
    (await rows()).map(({ refused }) => refused),
    [null, null, 30, 1, null, null, 1],
    "of each minute",
  );
});

t.test("404 when switched off; without resource_uri the host of the application serves /mcp", async (t) => {
  const off = await openWorld(t);
  const ask = await serveWhole(t, off);
  for (const path of ["/mcp", "/.well-known/oauth-protected-resource", "/.well-known/oauth-authorization-server"])
    t.equal((await ask("GET", path)).status, 404, path);
  t.equal((await ask("POST", "/mcp", ping)).status, 404);

  const mcp = await openMcp(t, { env: { SM_MCP__RESOURCE_URI: "", SM_SERVER__PUBLIC_URL: resource } });
  const ctx = await newOrg(mcp.world.system);
  const session = await mcp.session(await mcp.token(ctx));
  t.equal((await mcp.post(session, ping)).status, 200, "any token that is bound to an organisation");
  t.equal((await send(mcp.replicas[0], "GET", "/docs", { host: "mcp.example.org" })).status, 200, "and the console");
  t.equal((await mcp.post({ ...session, host: "other.example" }, ping)).status, 403);
});

import { request } from "node:http";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { allPages } from "@statusmesh/control-plane/app";
import { scopes } from "@statusmesh/control-plane/platform/context";
import { isForVisitors, type Route } from "@statusmesh/control-plane/platform/http/route";
import { errorCodes } from "@statusmesh/shared/errors";
import { newId } from "@statusmesh/shared/ids";
import { type Client, connect, type Json } from "../harness/api.ts";
import { agentIn, castIn, tokenOf } from "../harness/cast.ts";
import { cloneDatabase } from "../harness/database.ts";
import { serveHere } from "../harness/in-process.ts";
import { waitFor } from "../harness/wait.ts";
import { centralAccounts, goodBodies, tcp, webhook } from "./bodies.ts";
import { nameOf, routes } from "./declared.ts";
import { make } from "./isolation/things.ts";

/*
 * Rules for every route, derived from the declarations: a new route is covered at once and needs a valid body in
 * bodies.ts.
 */

const operatorSecret = "a-secret-of-the-operator";
const database = await cloneDatabase(t);
const { sql } = database;
const { olga, milan } = await castIn(sql);
const agent = await agentIn(sql, "default");
const url = await serveHere(t, database, {
  SM_SECURITY__ALLOW_PRIVATE_TARGETS: "true",
  SM_OPERATOR__ADMIN_TOKEN: operatorSecret,
  SM_SERVER__TRUSTED_PROXIES: "127.0.0.1",
  SM_PUBLIC_STATUS__PUBLIC_PER_IP_RATE_LIMIT_PER_MIN: "0",
  ...centralAccounts,
});
const anonymous = connect(t, url, null);
const bearing = (token: string): Client => anonymous.with({ authorization: `Bearer ${token}` });
const owner = bearing(olga.token);

async function made(path: string, json: object): Promise<Json> {
  const { status, body, text } = await owner.post(path, json);
  if (status !== 201) throw new Error(`${path}: ${text}`);
  return body;
}
const home = { ...olga, ownerId: olga.userId, memberId: milan.userId };
const target = await made("/api/v1/targets", { name: "Shop", check: tcp });
const heartbeat = await made("/api/v1/targets", { name: "Job", check: { type: "heartbeat", period: 60_000 } });
const channel = await made("/api/v1/notification-channels", { name: "Duty", config: webhook });
const window = await made("/api/v1/maintenance", goodBodies({ targetId: target.id })["POST /api/v1/maintenance"]!);
const snooze = await made("/api/v1/snoozes", {
  scope: { tag: "old" },
  until: new Date(Date.now() + 3_600_000).toISOString(),
});
const certificate = await make.certificate(sql, home, "");
const template = await made("/api/v1/update-templates", { kind: "incident", name: "Provider", body: "Text" });
const mailChannel = await make.mailChannel(sql, home, "");
const recipient = await make.reportRecipient(sql, home, "");
const telegramCode = await made("/api/v1/notification-channels/telegram-link", {});
const whatsappCode = await made("/api/v1/notification-channels/whatsapp-link", {});
const page = await made("/api/v1/status-pages", { slug: "shop", name: "Shop" });
await made(`/api/v1/status-pages/${page.id}/components`, { target_id: target.id });
const incident = newId();
await sql`
  insert into incidents
    (id, org_id, target_id, started_at, opened_at, outage_since, severity, impact, peak_impact,
      regions_down, regions_up, created_at, updated_at)
  values
    (${incident}, ${olga.orgId}, ${target.id}, now(), now(), now(), 'major', 'major_outage', 'major_outage',
      '{default}', '{}', now(), now())`;
const session = newId();
await sql`
  insert into sessions (id, user_id, org_id, secret_hash, created_at, last_used_at, expires_at)
  values (${session}, ${olga.userId}, ${olga.orgId}, ${Buffer.from(session)}, now(), now(), now() + interval '1 hour')`;
const identity = newId();
await sql`
  insert into user_identities (id, user_id, provider, issuer, subject, email, created_at, last_used_at)
  values (${identity}, ${olga.userId}, 'google', 'https://google', ${identity}, ${olga.email}, now(), now())`;
const [apiToken] = await sql<{ id: string }[]>`select id from api_tokens where user_id = ${olga.userId}`;
const connectedApp = await make.connectedApp(sql, home, "");

const [entry] = await sql<{ id: string }[]>`select id from audit_log where org_id = ${olga.orgId} limit 1`;

/** Values of the other path parameters. */
const parts: Record<string, string> = {
  target_id: target.id,
  user_id: milan.userId,
  entry_id: entry!.id,
  occurrence_id: window.occurrence.id,
};

/** Olga's thing that replaces `{id}` below a path. */
const idsByPath: Record<string, string> = {
  "/api/v1/targets/{id}/heartbeat": heartbeat.id,
  "/api/v1/targets": target.id,
  "/api/v1/notification-channels/telegram-link": telegramCode.id,
  "/api/v1/notification-channels/whatsapp-link": whatsappCode.id,
  "/api/v1/notification-channels/devices": await make.device(sql, home, ""),
  "/api/v1/notification-channels": channel.id,
  "/api/v1/maintenance": window.id,
  "/api/v1/snoozes": snooze.id,
  "/api/v1/reports/recipients": recipient,
  "/api/v1/certificates": certificate,
  "/api/v1/update-templates": template.id,
  "/api/v1/status-pages": page.id,
  "/api/v1/incidents": incident,
  "/api/v1/sessions": session,
  "/api/v1/identities": identity,
  "/api/v1/me/passkeys": await make.passkey(sql, home, ""),
  "/api/v1/api-tokens": apiToken!.id,
  "/api/v1/connected-apps": connectedApp,
  "/api/v1/orgs": olga.orgId,
};

const bodies = goodBodies({ targetId: target.id, channelId: mailChannel });
const bodyOf = (route: Route): object => (route.body === null ? {} : { json: bodies[nameOf(route)] });
/** The path with an id of Olga's, or with `id`. */
const pathOf = (route: Route, id?: string): string => {
  const own = Object.entries(idsByPath).find(([prefix]) =>
    route.path.startsWith(prefix.includes("{id}") ? prefix : `${prefix}/{id}`),
  )?.[1];
  return route.path.replaceAll(/\{(\w+)\}/g, (_, name: string) =>
    name === "id" ? (id ?? own ?? newId()) : (parts[name] ?? newId()),
  );
};
const tenantRoutes = routes.filter((route) => route.auth === "tenant");

t.test("every route is described", (t) => {
  const seen = new Set<string>();
  for (const route of routes) {
    const name = nameOf(route);
    t.notOk(seen.has(name), `${name} is there once`);
    seen.add(name);
    t.ok(
      route.summary.length > 0 && !route.summary.endsWith("."),
      `${name} has a summary, a title without a full stop`,
    );
    t.ok(route.tag.length > 0, `${name} has a tag`);
    t.ok(
      Object.keys(route.replies).some((status) => status.startsWith("2")),
      `${name} declares its replies`,
    );
    t.strictSame(
      [...new Set(route.path.match(/(?<=\{)\w+/g))].sort(),
      Object.keys(route.params?.properties ?? {}).sort(),
      `${name} declares its parameters`,
    );
    t.ok(
      route.errors.every((code) => code in errorCodes),
      `${name} names errors that there are`,
    );
    t.ok(
      route.scope === null || (scopes as readonly string[]).includes(route.scope),
      `${name} asks for a scope that there is`,
    );
    t.ok(route.body === null || bodies[name] !== undefined, `${name} has a good body in bodies.ts`);
  }
  t.end();
});

t.test("every route but the public ones refuses a request without credentials", async (t) => {
  for (const route of routes.filter((it) => !isForVisitors(it))) {
    const { status, body } = await anonymous.send(route.method, pathOf(route), bodyOf(route));
    matchObject(t, { status, code: body?.error?.code }, { status: 401, code: "UNAUTHENTICATED" }, nameOf(route));
  }
});

t.test("each route takes only its own kind of credential", async (t) => {
  const credentials = { tenant: olga.token, agent: agent.token, operator: operatorSecret };
  let visitors = 0;
  for (const route of routes) {
    if (isForVisitors(route)) continue;
    for (const [auth, token] of Object.entries(credentials)) {
      if (auth === route.auth) continue;
      // The limit is ten wrong operator secrets a minute per address.
      const from = { "x-forwarded-for": `198.51.100.${++visitors % 250}` };
      const { status } = await bearing(token).with(from).send(route.method, pathOf(route), bodyOf(route));
      t.equal(status, 401, `${nameOf(route)} with the credential of an ${auth}`);
    }
  }
});

t.test("refusals have a fixed order, and all of them precede the reading of the body", async (t) => {
  const { hostname, port } = new URL(url);
  /** Sends the headers of a request with a body, but no body. */
  const announce = async (route: Route, headers: Record<string, string>) =>
    await new Promise<{ status: number; code: string }>((resolve, reject) => {
      const sent = request({ hostname, port, method: route.method, path: pathOf(route), headers }, (response) => {
        let text = "";
        response.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
        response.on("end", () => {
          sent.destroy();
          resolve({ status: response.statusCode ?? 0, code: JSON.parse(text).error.code });
        });
      });
      sent.on("error", reject);
      sent.flushHeaders();
    });
  const text = { "content-type": "text/plain", "content-length": "1000" };
  const packed = { "content-type": "application/json", "content-encoding": "gzip", "content-length": "1000" };
  const large = { "content-type": "application/json", "content-length": String(33 * 1_048_576) };
  const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
  const credentials = { tenant: olga.token, agent: agent.token, operator: operatorSecret, public: "", page: "" };
  const useless = await tokenOf(sql, olga, { scopes: ["incidents:read"] });
  for (const route of routes.filter(({ body }) => body !== null)) {
    const name = nameOf(route);
    const good = bearer(credentials[route.auth]);
    if (!isForVisitors(route)) matchObject(t, await announce(route, large), { code: "UNAUTHENTICATED" }, name);
    if (route.scope !== null)
      matchObject(t, await announce(route, { ...large, ...bearer(useless) }), { code: "INSUFFICIENT_SCOPE" }, name);
    if (route.role === "owner")
      matchObject(t, await announce(route, { ...large, ...bearer(milan.token) }), { code: "OWNER_REQUIRED" }, name);
    matchObject(t, await announce(route, { ...text, ...good }), { code: "UNSUPPORTED_MEDIA_TYPE" }, name);
    matchObject(t, await announce(route, { ...packed, ...good }), { code: "UNSUPPORTED_MEDIA_TYPE" }, name);
    matchObject(t, await announce(route, { ...large, ...good }), { code: "PAYLOAD_TOO_LARGE" }, name);
  }
  const category = "api_writes_per_min";
  await sql`update plans set ${sql(category)} = 0 where id = (select plan_id from orgs where id = ${milan.orgId})`;
  t.teardown(
    () => sql`update plans set ${sql(category)} = null where id = (select plan_id from orgs where id = ${milan.orgId})`,
  );
  // A budget is read at most every five seconds.
  await waitFor("the budget to be used up", async () => (await owner.post("/api/v1/orgs", {})).status === 429);
  for (const route of tenantRoutes.filter((it) => it.body !== null && it.category === "api_writes")) {
    matchObject(t, await announce(route, { ...text, ...bearer(olga.token) }), { code: "RATE_LIMITED" }, nameOf(route));
    if (route.scope !== null)
      matchObject(
        t,
        await announce(route, { ...text, ...bearer(useless) }),
        { code: "INSUFFICIENT_SCOPE" },
        nameOf(route),
      );
  }
});

t.test("every path answers OPTIONS with its methods", async (t) => {
  const providers = { enabled: [], of: () => null } as never;
  const paths = new Map<string, Set<string>>();
  const add = (path: string, method: string) => {
    const methods = paths.get(path) ?? new Set(["OPTIONS"]);
    methods.add(method);
    if (method === "GET") methods.add("HEAD");
    paths.set(path, methods);
  };
  for (const route of routes) add(route.path, route.method);
  for (const page of allPages(providers)) add(page.path, "GET");
  const documents = ["/docs", "/api/openapi.json", "/api/config.schema.json"];
  for (const path of ["/healthz", "/readyz", ...documents, "/assets/tokens.css"]) add(path, "GET");
  // The form of the sign-in page.
  add("/sign-in", "POST");
  // Absent until mcp.oauth_enabled is on; oauth/oauth.test.ts has its methods.
  t.ok(paths.delete("/oauth/authorize"));
  t.equal((await anonymous.send("OPTIONS", "/oauth/authorize")).status, 404);
  // `/targets/test` is the path of a test, not a target with the id `test`: it answers its own methods only.
  for (const [declared, methods] of paths) {
    const path = declared.replaceAll(/\{\w+\}/g, () => newId());
    const question = await anonymous.send("OPTIONS", path);
    t.equal(question.status, 204, declared);
    t.same(new Set(String(question.headers.allow).split(", ")), methods, declared);
    for (const method of ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"].filter((it) => !methods.has(it))) {
      const { status, headers, body } = await anonymous.send(method, path);
      t.equal(status, 405, `${method} ${declared}`);
      t.equal(headers.allow, question.headers.allow, `${method} ${declared}`);
      if (method !== "HEAD") t.equal(body.error.code, "METHOD_NOT_ALLOWED", `${method} ${declared}`);
    }
  }
  t.equal((await anonymous.send("OPTIONS", "/api/v1/nothing")).status, 404);
  t.equal((await bearing("sm_live_nonsense").send("OPTIONS", "/api/v1/targets")).status, 401);
});

t.test("every reply has a content type and cache headers", async (t) => {
  for (const route of tenantRoutes.filter(({ method }) => method === "GET"))
    matchObject(
      t,
      (await owner.get(pathOf(route))).headers,
      { vary: "Cookie, Authorization, X-Sm-Org" },
      nameOf(route),
    );
  matchObject(
    t,
    (await anonymous.get("/")).headers,
    { vary: "Cookie, Authorization, X-Sm-Org" },
    "a page of the console",
  );
  for (const path of ["/", "/healthz", "/docs", "/api/openapi.json", "/assets/tokens.css", "/status", "/nowhere"]) {
    const { headers } = await anonymous.get(path);
    t.equal(headers["x-content-type-options"], "nosniff", path);
    t.equal(headers["strict-transport-security"], undefined, "not where the service is reached by http");
  }
  const { headers } = await anonymous.get("/docs");
  matchObject(t, headers, {
    "content-security-policy": /default-src 'self'.*frame-ancestors 'none'/,
    "x-frame-options": "DENY",
  });
});

t.test("every list is an envelope", async (t) => {
  const lists = tenantRoutes.filter(
    ({ method, query, replies }) =>
      method === "GET" &&
      ("limit" in (query?.properties ?? {}) || "items" in (Object(replies[200])["properties"] ?? {})),
  );
  t.ok(lists.length > 0);
  for (const route of lists) {
    const { status, body } = await owner.get(`${pathOf(route)}?limit=1`);
    t.equal(status, 200, nameOf(route));
    // A report says the end of the time that it covers.
    const own = nameOf(route).endsWith("/reports/uptime") ? ["until"] : [];
    t.strictSame(Object.keys(body).sort(), ["items", "limit", "offset", "total", ...own], nameOf(route));
    t.ok(Array.isArray(body.items) && body.items.length <= 1 && body.limit === 1 && body.offset === 0, nameOf(route));
  }
});

t.test("reads and errors have their Cache-Control", async (t) => {
  for (const route of tenantRoutes.filter(({ method }) => method === "GET")) {
    const good = await owner.get(pathOf(route));
    t.equal(good.status, 200, nameOf(route));
    t.equal(good.headers["cache-control"], route.cache, nameOf(route));
    t.equal(good.headers["content-type"], `${route.mediaType}; charset=utf-8`, nameOf(route));
  }
});

/** Paths of the nodes of a request schema whose pattern would be the only explanation of an error. */
function patternsWithoutWords(node: object, at: string): string[] {
  const { pattern, format, expects } = node as Record<string, unknown>;
  const own = pattern !== undefined && format === undefined && expects === undefined ? [at] : [];
  const children = Object.entries(node).filter(([, child]) => typeof child === "object" && child !== null);
  return [...own, ...children.flatMap(([key, child]) => patternsWithoutWords(child as object, `${at}/${key}`))];
}

t.test("errors of people's requests are in words, not patterns", (t) => {
  const people = routes.filter(({ auth }) => auth !== "agent");
  const found = people.flatMap((route) =>
    [route.query, route.body].flatMap((schema) => patternsWithoutWords(schema ?? {}, nameOf(route))),
  );
  t.strictSame(found, []);
  t.end();
});

t.test("the OpenAPI document is complete", async (t) => {
  const { status, body: document } = await anonymous.get("/api/openapi.json");
  t.equal(status, 200);
  t.equal(document.openapi, "3.1.0");
  const operations = routes.map((route) => ({
    route,
    operation: document.paths[route.path]?.[route.method.toLowerCase()],
  }));
  for (const { route, operation } of operations) {
    const name = nameOf(route);
    matchObject(t, operation, { summary: route.summary, tags: [route.tag], operationId: /^[a-z][a-z0-9_]+$/ }, name);
    t.ok(
      Object.keys(operation.responses).some((it) => it.startsWith("2")),
      `${name} documents its answer`,
    );
    t.equal(operation.requestBody !== undefined, route.body !== null, `${name} documents its body`);
    const declared = operation.parameters.filter((it: Json) => it.in === "path").map((it: Json) => it.name);
    t.strictSame(
      declared.sort(),
      [...route.path.matchAll(/\{(\w+)\}/g)].map(([, it]) => it).sort(),
      `${name} documents its path`,
    );
    for (const scheme of operation.security.flatMap((it: Json) => Object.keys(it)))
      t.ok(document.components.securitySchemes[scheme], `${name}: the scheme ${scheme} is there`);
  }
  const ids = operations.map(({ operation }) => operation.operationId);
  t.equal(new Set(ids).size, ids.length, "no two operations have the same id");
  const tags = new Set(document.tags.map((it: Json) => it.name));
  t.ok(
    routes.every(({ tag }) => tags.has(tag)),
    "every tag is listed",
  );
  for (const reference of referencesIn(document)) t.ok(resolves(document, reference), `${reference} leads somewhere`);
  t.strictSame(
    [...keywordsIn(document)].filter((it) => ["errorCode", "cap"].includes(it) || it.startsWith("~")),
    [],
    "keywords of our validator stay inside",
  );
});

function* walk(node: Json): Generator<Record<string, Json>> {
  if (typeof node !== "object" || node === null) return;
  if (!Array.isArray(node)) yield node;
  for (const child of Object.values(node)) yield* walk(child);
}

const referencesIn = (document: Json): Set<string> =>
  new Set([...walk(document)].flatMap((node) => (typeof node["$ref"] === "string" ? [node["$ref"]] : [])));
const keywordsIn = (document: Json): Set<string> => new Set([...walk(document)].flatMap((node) => Object.keys(node)));
const resolves = (document: Json, reference: string): boolean =>
  reference.startsWith("#/") &&
  reference
    .slice(2)
    .split("/")
    .reduce((node, key) => node?.[key.replaceAll("~1", "/").replaceAll("~0", "~")], document) !== undefined;

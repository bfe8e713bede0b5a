import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { checkKinds, type SpecOf } from "@statusmesh/shared/checks";
import { validate } from "@statusmesh/shared/schema/validate";
import { outcomeOf, testRunner } from "../../testing.ts";

/* Status pages of other services: replies in the public form of each product, and replies that are none. */

type Routes = Record<string, unknown>;
const runner = testRunner();
let routes: Routes = {};
let asked: string[] = [];
let serve: ((request: IncomingMessage, reply: ServerResponse) => void) | null = null;
const server = createServer((request, reply) => {
  asked.push(request.url ?? "");
  if (serve !== null) return serve(request, reply);
  const body = routes[request.url ?? ""];
  if (body === undefined) return void reply.writeHead(404, { "content-type": "text/html" }).end("<h1>Not found</h1>");
  reply.writeHead(200).end(typeof body === "string" ? body : JSON.stringify(body));
});
await new Promise<void>((settle) => server.listen(0, "127.0.0.1", settle));
t.teardown(() => server.close());
const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
t.beforeEach(() => {
  [routes, asked, serve] = [{}, [], null];
});

const specOf = (path = "", component: string | null = null): SpecOf<"status_page"> =>
  validate(checkKinds.status_page.schema, { type: "status_page", url: `${base}${path}`, component, timeout: 3000 });
const run = async (spec: SpecOf<"status_page">) => {
  asked = [];
  const { measurement, skip, warnings, components } = await outcomeOf(runner.run("org", spec, true));
  const { status, error, details } = measurement;
  return { status, error, skip, warnings, components, details };
};
const ask = async (found: Routes, path = "", component: string | null = null) => {
  routes = found;
  return await run(specOf(path, component));
};

const statuspage = (indicator: string, description: string, states: Record<string, string> = {}) => ({
  page: { id: "k1", name: "Example", url: base, time_zone: "Etc/UTC", updated_at: "2026-11-28T20:00:00Z" },
  status: { indicator, description },
  components: [
    { id: "g1", name: "Group", status: "major_outage", group: true },
    ...Object.entries(states).map(([name, status], n) => ({ id: `c${n}`, name, status, group: false })),
  ],
  incidents: [],
  scheduled_maintenances: [],
});

t.test("Statuspage and its dialects", async (t) => {
  const of = async (
    indicator: string,
    states: Record<string, string> = { API: "operational", Web: "major_outage" },
  ) => {
    const { status, error, skip } = await ask({ "/api/v2/summary.json": statuspage(indicator, "Some words", states) });
    return [status, error, skip];
  };
  t.same(await of("none"), ["up", null, false]);
  t.same(await of("minor"), ["degraded", "Example reports: Some words", false]);
  t.same(await of("major"), ["down", "Example reports: Some words", false]);
  t.same(await of("critical"), ["down", "Example reports: Some words", false]);
  t.same(await of("maintenance"), ["up", null, false]);
  t.same(await of("minor", { API: "major_outage", Web: "full_outage" }), [
    "down",
    "Example reports: Some words",
    false,
  ]);
  t.same(await of("odd"), ["error", "Example reports: Some words", true], "an unknown word is no evidence");
  t.same(asked, ["/api/v2/summary.json"]);
  const status = { page: { name: "Example" }, status: { indicator: "minor", description: "Slow" } };
  const components = statuspage("none", "", { API: "degraded_performance" });
  matchObject(
    t,
    await ask({ "/api/v2/status.json": status, "/api/v2/components.json": components }, "/api/v2/status.json", "api"),
    { status: "degraded", error: "Example reports: API is degraded" },
    "the components are in another document",
  );
  const affected = [{ id: "c1", name: "API", current_status: "full_outage" }];
  const ongoing = [{ name: "Login fails", current_worst_impact: "full_outage", affected_components: affected }];
  matchObject(
    t,
    await ask(
      { "/api/v1/summary": { page_title: "Inc", ongoing_incidents: ongoing, in_progress_maintenances: [] } },
      "/api/v1/summary",
    ),
    { status: "down", error: "Inc reports: Login fails" },
    "incident.io",
  );
});

t.test("Instatus, Better Stack, StatusMesh, Uptime Kuma and Cachet", async (t) => {
  const instatus = (status: string, impact: string) => ({
    "/summary.json": { page: { name: "Inst", url: base, status }, activeIncidents: [{ name: "DNS", impact }] },
    "/v2/components.json": {
      components: [
        { id: "a", name: "API", status: "PARTIALOUTAGE" },
        { id: "b", name: "Web", status: "OPERATIONAL" },
      ],
    },
  });
  matchObject(t, await ask(instatus("HASISSUES", "MAJOROUTAGE")), { status: "down", error: "Inst reports: DNS" });
  matchObject(t, await ask(instatus("HASISSUES", "PARTIALOUTAGE")), { status: "degraded" });
  matchObject(t, await ask(instatus("HASISSUES", "MAJOROUTAGE"), "", "b"), { status: "up" });
  t.same(asked, ["/api/v2/summary.json", "/summary.json", "/v2/components.json"]);

  const resource = (id: string, name: string, status: string) => ({
    id,
    type: "status_page_resource",
    attributes: { public_name: name, status },
  });
  const betterStack = (state: string) => ({
    "/index.json": {
      data: { id: "1", type: "status_page", attributes: { company_name: "Better", aggregate_state: state } },
      included: [
        { id: "9", type: "status_page_section" },
        resource("1", "API", state),
        resource("2", "Web", "not_monitored"),
      ],
    },
  });
  matchObject(t, await ask(betterStack("downtime")), { status: "down", error: "Better reports: API is down" });
  matchObject(t, await ask(betterStack("maintenance")), {
    status: "up",
    warnings: ["Better reports: API is under maintenance."],
    details: { page: "Better", component: null, state: "maintenance", description: "API is under maintenance" },
  });
  matchObject(t, await ask(betterStack("operational"), "", "Web"), { status: "error", skip: true }, "not monitored");

  const own = (state: string) => ({
    "/api/public/v1/status": {
      overall: { state, label: "Some words" },
      page: { name: "Mesh" },
      groups: [{ name: null, components: [{ id: "x", name: "Shop", status: state }] }],
    },
  });
  matchObject(t, await ask(own("partial_outage")), { status: "degraded", error: "Mesh reports: Some words" });
  matchObject(t, await ask(own("no_data")), { status: "error", skip: true });

  const kuma = (...states: number[]) => ({
    "/api/status-page/acme": {
      config: { slug: "acme", title: "Kuma" },
      publicGroupList: [
        { name: "All", monitorList: states.map((_, n) => ({ id: n + 1, name: `M${n + 1}`, type: "http" })) },
      ],
    },
    "/api/status-page/heartbeat/acme": {
      heartbeatList: Object.fromEntries(states.map((status, n) => [n + 1, [{ status: 1 }, { status }]])),
    },
  });
  matchObject(t, await ask(kuma(1, 0), "/status/acme"), { status: "degraded", error: "Kuma reports: M2 is down" });
  t.same(asked, ["/api/status-page/acme", "/api/status-page/heartbeat/acme"]);
  matchObject(t, await ask(kuma(0, 0), "/status/acme"), { status: "down" });
  matchObject(t, await ask(kuma(1, 1), "/status/acme"), { status: "up", error: null });
  matchObject(t, await ask(kuma(2, 1), "/status/acme", "m1"), { status: "error", skip: true }, "pending");

  const cachet2 = (status: number) => ({
    "/api/v1/components": { meta: {}, data: [{ id: 1, name: "API", status, status_name: "Words" }] },
  });
  matchObject(t, await ask(cachet2(4)), { status: "down", error: "127.0.0.1 reports: API is down" });
  matchObject(t, await ask(cachet2(3)), { status: "degraded" });
  const attributes = { name: "API", status: { value: 2, human: "Performance Issues" } };
  matchObject(t, await ask({ "/api/components": { data: [{ id: "1", type: "components", attributes }] } }), {
    status: "degraded",
  });
});

t.test("components by name or id; an unknown one is named with those that exist", async (t) => {
  const found = {
    "/api/v2/summary.json": statuspage("minor", "Words", { API: "major_outage", "Web App": "operational" }),
  };
  matchObject(t, await ask(found, "", "api"), { status: "down", error: "Example reports: API is down" });
  matchObject(t, await ask(found, "", "c1"), {
    status: "up",
    components: [
      { id: "c0", name: "API", state: "down" },
      { id: "c1", name: "Web App", state: "up" },
    ],
  });
  const error = 'Example has no component "Mail". It has API, Web App';
  matchObject(t, await ask(found, "", "Mail"), { status: "error", skip: false, error, warnings: [`${error}.`] });
});

t.test("the document is remembered, and looked for again when it has gone", async (t) => {
  routes = {
    "/index.json": { data: { type: "status_page", attributes: { company_name: "B", aggregate_state: "operational" } } },
  };
  const spec = specOf();
  await run(spec);
  t.same(asked, ["/api/v2/summary.json", "/summary.json", "/index.json"]);
  await run(spec);
  t.same(asked, ["/index.json"]);
  routes = { "/summary.json": { page: { name: "I", status: "UP" } }, "/v2/components.json": { components: [] } };
  matchObject(t, await run(spec), { status: "up" });
  t.same(asked, ["/index.json", "/api/v2/summary.json", "/summary.json", "/v2/components.json"]);
  serve = (_request, reply) => void reply.writeHead(503).end();
  matchObject(t, await run(spec), { status: "error", error: "/summary.json answered 503" });
  t.same(asked, ["/summary.json"], "a page that is broken is not asked for more");
});

t.test("what is no status page ends in an error, within six requests", async (t) => {
  serve = (_request, reply) =>
    void reply.writeHead(200, { "content-type": "text/html" }).end("<h1>All systems operational</h1>");
  matchObject(t, await ask({}), {
    status: "error",
    skip: false,
    error: /^no status page was recognised: .* is no JSON/,
  });
  t.equal(asked.length, 6);
  serve = (request, reply) => void reply.writeHead(302, { location: `${request.url}x` }).end();
  matchObject(t, await ask({}), { status: "error", error: /more than 6 requests/ });
  t.equal(asked.length, 6);
  serve = (_request, reply) => void reply.writeHead(302, { location: "file:///etc/passwd" }).end();
  matchObject(t, await ask({}), { status: "error", error: /cannot be requested/ });

  const hostile: unknown[] = [
    "[".repeat(500_000),
    `{"page":${'{"page":'.repeat(100_000)}1`,
    `{"page":${'{"page":'.repeat(100_000)}1${"}".repeat(100_001)}`,
    `{"x":"${"x".repeat(3_000_000)}"}`,
    "null",
    "17",
    { page: { name: 7 }, status: { indicator: {} }, components: "x" },
    { page: [], status: null },
    { components: [null, 3, { name: {}, status: [] }] },
    { data: [], included: 7 },
    { overall: { state: 3 }, groups: {} },
    { config: { slug: "../../x", title: 3 }, publicGroupList: [] },
    { __proto__: null, constructor: { page: 1 } },
  ];
  serve = null;
  for (const body of hostile)
    matchObject(
      t,
      await ask(Object.fromEntries(["/api/v2/summary.json", "/index.json"].map((path) => [path, body]))),
      { status: "error", skip: false, error: /^no status page was recognised/, components: undefined },
      JSON.stringify(body).slice(0, 60),
    );
  const many = Object.fromEntries(
    Array.from({ length: 5000 }, (_, n) => [`C\u202e\n${n} ${"x".repeat(300)}`, "operational"]),
  );
  const { components, error } = await ask({ "/api/v2/summary.json": statuspage("none", "x", many) }, "", "none");
  t.equal(components?.length, 500);
  t.ok(error!.length <= 2000);
  t.notMatch(error!, /[\u202e\n]/);
  t.same(
    components!.filter(({ id, name }) => /[\u202e\n]/.test(id + name)),
    [],
    "names are stored and shown as they are",
  );
  // Names that every object inherits are no states, and a name is cut between characters.
  const odd = statuspage("constructor", "x", { [`API\0${"x".repeat(195)}😀`]: "toString" });
  const read = await ask({ "/api/v2/summary.json": odd });
  t.same([read.status, read.skip, read.components?.map(({ state }) => state)], ["error", true, ["unknown"]]);
  t.ok(read.components!.every(({ name }) => name.isWellFormed() && !name.includes("\0")));
});

t.test("a server that cannot be reached is an error", async (t) => {
  const closed = createServer();
  await new Promise<void>((settle) => closed.listen(0, "127.0.0.1", settle));
  const { port } = closed.address() as AddressInfo;
  await new Promise((settle) => closed.close(settle));
  const spec = { ...specOf(), url: `http://127.0.0.1:${port}/` };
  matchObject(t, await run(spec), { status: "error", skip: false, error: "connection refused" });
});

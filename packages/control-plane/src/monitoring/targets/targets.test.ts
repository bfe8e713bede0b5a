import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { newId } from "@statusmesh/shared/ids";
import type { Ctx } from "../../platform/context.ts";
import { fits, validate } from "@statusmesh/shared/schema/validate";
import { openIngest } from "../pipeline/ingest.ts";
import { day, minute, second } from "../../testing/clock.ts";
import { admit, agentResult } from "../../testing/scene.ts";
import { newAgent, newOrg, openWorld, refusal } from "../../testing/world.ts";
import { TargetPage } from "./list/list-schema.ts";
import { Target, TargetCreate, TargetPatch } from "./schema.ts";
import { createTarget, targetRegions, updateTarget } from "./write/service.ts";
import { deleteTarget, getTarget, listTargets, targetToRun } from "./service.ts";
import { getMonitor, listMonitors } from "./list/service.ts";

const { sql, clock, system } = await openWorld(t);
const eu = await newAgent(system, "eu");
const ingest = openIngest(async () => {});

const httpCheck = (changes: object = {}) => ({ type: "http", url: "https://example.org/health", ...changes });
const tcpCheck = (changes: object = {}) => ({ type: "tcp", host: "db.example.org", port: 5432, ...changes });
const create = (ctx: Ctx, changes: object = {}) =>
  createTarget(ctx, validate(TargetCreate, { name: "Website", check: httpCheck(), ...changes }));
const patch = (ctx: Ctx, id: string, changes: object) => updateTarget(ctx, id, validate(TargetPatch, changes));
const page = { limit: 50, offset: 0 };

t.test("a target is made with defaults, read, listed, changed and deleted", async (t) => {
  const ctx = await newOrg(system);
  const made = await create(ctx, { name: "  Website ", tags: [" web ", "web", "prod"] });
  const at = new Date(clock.now()).toISOString();
  matchObject(t, made, {
    name: "Website",
    interval: 60,
    enabled: true,
    tags: ["web", "prod"],
    alerts: [],
    alert_confirmations: 2,
    notify_recovery: true,
    renotify_interval_secs: 3600,
    region_policy: "majority",
    write_source: "api",
    created_at: at,
    updated_at: at,
  });
  t.strictSame(made.check, {
    type: "http",
    url: "https://example.org/health",
    method: "GET",
    timeout: 10_000,
    follow_redirects: true,
    max_redirects: 5,
    expected_status: { kind: "range", value: { min: 200, max: 299 } },
    expected_body_contains: null,
    expected_body_absent: null,
    body_case_insensitive: false,
    expected_body_matches: null,
    expected_body_not_matches: null,
    expected_json: [],
    expected_headers: [],
    degraded_above_ms: null,
    down_above_ms: null,
    headers: {},
    body: null,
    verify_tls: true,
    basic_auth: null,
    auth_scheme: "basic",
    bearer_token: null,
    certificates: null,
    capture_failures: true,
    ip_version: "any",
  });
  t.ok(fits(Target, made));
  t.strictSame(await getTarget(ctx, made.id), made);
  matchObject(
    t,
    (await getMonitor(ctx, made.id)).regions,
    [{ region: "eu" }, { region: "us" }],
    "in every enabled region",
  );
  clock.advance(second);
  const tcp = await create(
    { ...ctx, writeSource: "terraform" },
    {
      name: "Database",
      check: tcpCheck(),
      interval: 10,
      enabled: false,
      region_policy: { count: 2 },
      write_source: "ui",
    },
  );
  matchObject(
    t,
    tcp,
    { write_source: "terraform", check: { type: "tcp", timeout: 10_000 }, region_policy: { count: 2 } },
    "the body cannot set the author",
  );
  const all = await listTargets(ctx, page);
  const unchecked = { status: "unknown", status_since: null, last_checked_at: null };
  const items = [tcp, made].map((target) => ({ ...target, ...unchecked }));
  t.strictSame(all, { items, total: 2, limit: 50, offset: 0 }, "newest first");
  t.ok(fits(TargetPage, all));

  clock.advance(second);
  const changed = await patch({ ...ctx, writeSource: "ui" }, made.id, {
    name: "Shop",
    interval: 30,
    tags: [],
    region_policy: "all",
    notify_recovery: false,
    write_source: "api",
  });
  t.strictSame(changed, {
    ...made,
    name: "Shop",
    interval: 30,
    tags: [],
    region_policy: "all",
    notify_recovery: false,
    write_source: "ui",
    updated_at: new Date(clock.now()).toISOString(),
  });
  t.strictSame(await getTarget(ctx, made.id), changed);

  await deleteTarget(ctx, made.id);
  for (const gone of [() => getTarget(ctx, made.id), () => deleteTarget(ctx, made.id), () => patch(ctx, made.id, {})])
    matchObject(t, await refusal(t, gone), { code: "TARGET_NOT_FOUND" });
  matchObject(
    t,
    await sql`select org_id from deleted_targets where target_id = ${made.id}`,
    [{ org_id: ctx.orgId }],
    "agents get word of it",
  );
  t.equal((await listTargets(ctx, page)).total, 1);
});

t.test("lists filter by text, tag and state of enabled, and wildcards are letters", async (t) => {
  const ctx = await newOrg(system);
  for (const [name, check, more] of [
    ["100% up", httpCheck({ url: "https://a.example.org/x_y" }), { tags: ["web"] }],
    ["1000 up", httpCheck({ url: "https://b.example.org/xzy" }), { tags: ["web", "eu"], enabled: false }],
    ["back\\slash", tcpCheck({ host: "Db.internal.example" }), {}],
    ["Records", { type: "dns", domain: "Mail.dns.example", record_type: "MX", resolver: "9.9.9.9" }, {}],
    ["Registration", { type: "domain_expiry", domain: "Registered.example.com" }, { interval: 3600 }],
    ["Certificate", { type: "tls_cert", host: "lb.cert.example", server_name: "sni.cert.example" }, { interval: 3600 }],
  ] as const)
    await create(ctx, { name, check, ...more });
  const names = async (input: object) =>
    (await listTargets(ctx, { ...page, ...input })).items.map(({ name }) => name).sort();
  t.strictSame(await names({ q: "100%" }), ["100% up"]);
  t.strictSame(await names({ q: "x_y" }), ["100% up"]);
  t.strictSame(await names({ q: "\\" }), ["back\\slash"]);
  t.strictSame(await names({ q: "UP" }), ["100% up", "1000 up"]);
  t.strictSame(await names({ q: "db.INTERNAL" }), ["back\\slash"], "in the host");
  t.strictSame(await names({ q: "example.org" }), ["100% up", "1000 up"], "in the URL");
  t.strictSame(await names({ q: "mail.DNS.example" }), ["Records"], "by the domain that is asked for");
  t.strictSame(await names({ q: "registered.example.com" }), ["Registration"], "by the registered domain");
  for (const q of ["lb.cert", "sni.cert"]) t.strictSame(await names({ q }), ["Certificate"], q);
  t.strictSame(await names({ q: "up  WEB" }), ["100% up", "1000 up"], "every word, in any order, also in tags");
  t.strictSame(await names({ q: "eu example 1000" }), ["1000 up"]);
  t.strictSame(await names({ q: "eu 100%" }), [], "one word that is nowhere");
  t.strictSame(await names({ q: "' or 1=1 --" }), []);
  t.strictSame(await names({ tag: "web" }), ["100% up", "1000 up"]);
  t.strictSame(await names({ tag: "we" }), []);
  t.strictSame(await names({ tag: "web", enabled: false }), ["1000 up"]);
  t.strictSame(await names({ enabled: true }), ["100% up", "Certificate", "Records", "Registration", "back\\slash"]);
  const [records] = (await listTargets(ctx, { ...page, q: "Records" })).items;
  await patch(ctx, records!.id, { name: "Zone", check: { domain: "other.dns.example" } });
  t.strictSame(await names({ q: "mail.dns" }), [], "not by what it was");
  t.strictSame([await names({ q: "zone" }), await names({ q: "other.dns" })], [["Zone"], ["Zone"]]);
  matchObject(t, await listTargets(ctx, { limit: 1, offset: 1, tag: "web" }), {
    total: 2,
    limit: 1,
    offset: 1,
    items: [{ name: "100% up" }],
  });
});

t.test("an edit of the check changes what it names", async (t) => {
  const ctx = await newOrg(system);
  const { id } = await create(ctx, {
    check: httpCheck({ headers: { "X-Api-Key": "k1", Accept: "a" }, bearer_token: "t1", expected_body_contains: "ok" }),
  });
  const run = async () => (await targetToRun(ctx, id)).spec;
  await patch(ctx, id, { check: { url: "https://example.org/other" } });
  matchObject(
    t,
    await run(),
    {
      url: "https://example.org/other",
      headers: { "X-Api-Key": "k1" },
      bearer_token: "t1",
      expected_body_contains: "ok",
    },
    "secrets that are left out stay",
  );
  await patch(ctx, id, { check: { bearer_token: null, expected_body_contains: null } });
  matchObject(
    t,
    await run(),
    { bearer_token: null, expected_body_contains: null, headers: { "X-Api-Key": "k1" } },
    "null clears",
  );
  const lists = {
    expected_json: [{ path: "$.status", op: "eq", value: "ok" }],
    expected_headers: [{ name: "x-age", op: "exists" }],
    headers: { "X-Api-Key": "k1" },
  };
  for (const [name, value] of Object.entries(lists)) {
    await patch(ctx, id, { check: { [name]: value } });
    matchObject(t, await run(), { [name]: value });
    await patch(ctx, id, { check: { [name]: null } });
    t.strictSame((await run())[name as "type"], Array.isArray(value) ? [] : {}, `null clears ${name}`);
  }
  await patch(ctx, id, { check: { type: "http", headers: { "X-Api-Key": "k2" } } });
  t.strictSame(((await run()) as { headers: object }).headers, { "X-Api-Key": "k2" });
  matchObject(t, await refusal(t, () => patch(ctx, id, { check: { type: "tcp", host: "db.example.org", port: 1 } })), {
    code: "CHECK_KIND_IMMUTABLE",
    field: "/check/type",
  });
  matchObject(t, await refusal(t, () => patch(ctx, id, { check: { type: "gopher" } })), {
    code: "CHECK_KIND_IMMUTABLE",
    field: "/check/type",
  });
  const both = await Promise.all([
    patch(ctx, id, { check: { timeout: 2000 } }),
    patch(ctx, id, { check: { method: "HEAD" } }),
    patch(ctx, id, { name: "Three at once" }),
  ]);
  t.equal(both.length, 3);
  matchObject(
    t,
    await getTarget(ctx, id),
    { name: "Three at once", check: { timeout: 2000, method: "HEAD", headers: { "X-Api-Key": "***" } } },
    "edits at the same time do not undo each other",
  );
  matchObject(t, await sql`select version from targets where id = ${id}`, [{ version: 13 }]);
});

t.test("targets of another organisation are absent, and every verb requires its scope", async (t) => {
  const ctx = await newOrg(system);
  const outsider = await newOrg(system);
  const { id } = await create(ctx);
  const verbs = (who: Ctx, of: string) => [
    () => getTarget(who, of),
    () => getMonitor(who, of),
    () => targetToRun(who, of),
    () => targetRegions(who, of),
    () => patch(who, of, { name: "Mine" }),
    () => deleteTarget(who, of),
  ];
  for (const verb of [
    ...verbs(outsider, id),
    ...verbs(ctx, newId()),
    ...verbs(ctx, "x' or 1=1"),
    ...verbs(ctx, id.toUpperCase()),
  ])
    matchObject(t, await refusal(t, verb), { code: "TARGET_NOT_FOUND", message: "Monitor not found.", field: null });
  t.equal((await listTargets(outsider, page)).total, 0);
  t.equal((await listMonitors(outsider, page)).total, 0);
  t.equal((await getTarget(ctx, id)).name, "Website");

  const reader = { ...ctx, scopes: new Set(["targets:read"]) };
  for (const verb of [
    () => create(reader),
    () => patch(reader, id, {}),
    () => deleteTarget(reader, id),
    () => targetToRun(reader, id),
  ])
    matchObject(t, await refusal(t, verb), { code: "INSUFFICIENT_SCOPE" });
  const writer = { ...ctx, scopes: new Set(["targets:write"]) };
  for (const verb of [
    () => getTarget(writer, id),
    () => listTargets(writer, page),
    () => listMonitors(writer, page),
    () => getMonitor(writer, id),
  ])
    matchObject(t, await refusal(t, verb), { code: "INSUFFICIENT_SCOPE" });
});

t.test("monitors: worst first, paused last, counted over all that match", async (t) => {
  const ctx = await newOrg(system);
  const named = async (name: string, more: object = {}) =>
    (await create(ctx, { name, region_policy: "any", tags: ["shop"], ...more })).id;
  const [up, down, error, degraded, stale, paused] = [
    await named("b up"),
    await named("down"),
    await named("error"),
    await named("degraded"),
    await named("stale"),
    await named("paused", { enabled: false, tags: [] }),
  ];
  await named("A never");
  const report = async (id: string, status: "up" | "down" | "error" | "degraded", at = clock.now(), runs = 2) => {
    const results = [agentResult(id, at - second, { status }), agentResult(id, at, { status })].slice(-runs);
    await admit(system, "eu", results);
    await ingest(eu, { protocol: 1, results, runs: [] });
  };
  await report(stale, "down", clock.now() - 10 * minute);
  await report(up, "up");
  await report(down, "down");
  // One run opens no incident: a monitor with an open major incident is down, whatever its runs say.
  await report(error, "error", clock.now(), 1);
  await report(degraded, "degraded");
  await report(paused, "up");

  const list = await listMonitors(ctx, page);
  t.strictSame(
    list.items.map(({ target, status, paused }) => [target.name, paused ? "paused" : status]),
    [
      ["down", "down"],
      ["error", "error"],
      ["degraded", "degraded"],
      ["A never", "unknown"],
      ["stale", "unknown"],
      ["b up", "up"],
      ["paused", "paused"],
    ],
  );
  t.strictSame(list.counts, { up: 1, degraded: 1, down: 1, error: 1, unknown: 2, paused: 1 });
  matchObject(t, list, { total: 7, last_check_at: new Date(clock.now()) });
  matchObject(t, list.items[0], {
    last_error: "connection refused",
    open_incident: { severity: "major", regions_down: ["eu"], regions_up: [] },
  });
  const only = await listMonitors(ctx, { ...page, state: "unknown", limit: 1, tag: "shop" });
  matchObject(
    t,
    only,
    { total: 2, items: [{ target: { name: "A never" } }], counts: { up: 1, unknown: 2, paused: 0 } },
    "counts are of all that match, whatever the state asked for",
  );
  matchObject(t, await listMonitors(ctx, { ...page, state: "paused" }), { total: 1, items: [{ paused: true }] });
  matchObject(t, await listMonitors(ctx, { ...page, q: "o_n" }), { total: 0, counts: { down: 0 } });
  matchObject(t, (await getMonitor(ctx, down)).regions, [
    { region: "eu", vote: "failing", live: true, status: "down" },
    { region: "us", vote: "none", live: false, last_slot: null },
  ]);
  clock.advance(day);
  matchObject(
    t,
    (await listMonitors(ctx, page)).counts,
    { down: 0, unknown: 6, paused: 1 },
    "silence is not up and not down",
  );
});

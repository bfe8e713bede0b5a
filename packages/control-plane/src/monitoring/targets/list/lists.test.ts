import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import type { Ctx } from "../../../platform/context.ts";
import { readCause } from "../../../alerting/causes/queries.ts";
import { validate } from "@statusmesh/shared/schema/validate";
import { hour, minute, noon } from "../../../testing/clock.ts";
import { addIncident, addResults, setStatus } from "../../../testing/scene.ts";
import { newOrg, openWorld, refusal } from "../../../testing/world.ts";
import { bulkIncidentAction } from "../../../alerting/incidents/lifecycle/service.ts";
import { listIncidentLines, listIncidents, openCounts } from "../../../alerting/incidents/service.ts";
import { createChannel, updateChannel } from "../../../alerting/channels/service.ts";
import { readBeats } from "../../results/history/service.ts";
import { serve } from "../../../testing/app.ts";
import { expirationRoutes } from "../api.ts";
import { listExpirations } from "../health/expiring.ts";
import { orgHealth } from "../health/health.ts";
import { TargetQuery } from "./list-schema.ts";
import { TargetCreate } from "../schema.ts";
import { createTarget, updateTarget } from "../write/service.ts";
import { listMonitors, pinTarget, unpinTarget } from "./service.ts";
import { listTargets } from "../service.ts";

const { sql, clock, system } = await openWorld(t);
const page = { limit: 50, offset: 0 };
clock.at = noon;

const create = async (ctx: Ctx, name: string, host: string, more: object = {}) =>
  (await createTarget(ctx, validate(TargetCreate, { name, check: { type: "tcp", host, port: 80 }, ...more }))).id;
/** Names of `GET /targets` with this query. */
const listed = async (ctx: Ctx, query: Record<string, string | boolean>) =>
  (await listTargets(ctx, validate(TargetQuery, { ...page, ...query }, "/query"))).items.map(({ name }) => name);

/** A monitor that fails since `minutes` ago, with an open incident. */
async function failing(ctx: Ctx, name: string, host: string, minutes: number, more: object = {}): Promise<string> {
  const id = await create(ctx, name, host, more);
  await setStatus(system, id, "down");
  await addIncident(ctx, id, { started: noon - minutes * minute });
  return id;
}

const ago = (minutes: number): Date => new Date(noon - minutes * minute);

t.test("a monitor without an enabled channel is not notified, and lists find it", async (t) => {
  const ctx = await newOrg(system);
  const channel = async (name: string) =>
    (await createChannel(ctx, { name, config: { type: "webhook", url: `https://${name}.example.org/`, headers: {} } }))
      .id;
  const [on, off] = [await channel("on"), await channel("off")];
  await create(ctx, "notified", "a.example.org", { alerts: [{ channel_id: off }, { channel_id: on }] });
  await create(ctx, "silenced", "b.example.org", { alerts: [{ channel_id: off }] });
  await create(ctx, "forgotten", "c.example.org", { alerts: [] });
  await updateChannel(ctx, off, { enabled: false });
  const list = await listMonitors(ctx, { ...page, sort: "name" });
  t.strictSame(
    list.items.map(({ target, notified }) => [target.name, notified]),
    [
      ["forgotten", false],
      ["notified", true],
      ["silenced", false],
    ],
  );
  t.equal(list.silent, 2);
  t.strictSame(await listed(ctx, { notified: false, sort: "name" }), ["forgotten", "silenced"]);
  t.strictSame(await listed(ctx, { notified: true }), ["notified"]);
  matchObject(t, await listMonitors(ctx, { ...page, notified: false, grouped: true }), { total: 2, silent: 2 });
});

t.test("what expires: by date, with the limits of each check, and the certificates of HTTP checks", async (t) => {
  const ctx = await newOrg(system);
  const other = await newOrg(system);
  const expiring = async (name: string, check: object, days: number, of = ctx) => {
    const id = (await createTarget(of, validate(TargetCreate, { name, check }))).id;
    await sql`
      update target_states set expires_at = ${new Date(noon + days * 24 * hour + hour)} where target_id = ${id}`;
  };
  await expiring("=shop", { type: "http", url: "https://shop.example.org:8443/x?key=secret" }, 10);
  await expiring("wide", { type: "tls_cert", host: "wide.example.org", warn_days: 60, critical_days: 30 }, 40);
  await expiring("late", { type: "domain_expiry", domain: "late.example.org" }, -3);
  await expiring("fine", { type: "http", url: "https://fine.example.org/" }, 14);
  await expiring("foreign", { type: "http", url: "https://fine.example.org/" }, 1, other);
  await create(ctx, "no date", "tcp.example.org");
  const list = await listExpirations(ctx, page);
  matchObject(t, list, { total: 4, counts: { critical: 1, warning: 2, ok: 1 } });
  matchObject(t, list.items, [
    { monitor_name: "late", days_remaining: -3, level: "critical" },
    { monitor_name: "=shop", days_remaining: 10, level: "warning", subject: "certificate of shop.example.org:8443" },
    { monitor_name: "fine", days_remaining: 14, level: "ok" },
    { monitor_name: "wide", days_remaining: 40, level: "warning" },
  ]);
  matchObject(t, await listExpirations(ctx, { ...page, level: "warning", limit: 1 }), { total: 2, items: [{}] });
  const ask = await serve(t, system, expirationRoutes, { tenant: () => ctx });
  const { text } = await ask("GET", "/api/v1/expirations.csv?level=warning");
  t.match(text, /^target_id,monitor_name,[^]*,"'=shop",http,certificate of shop.example.org:8443,/);
  t.equal(text.trimEnd().split("\r\n").length, 3);
  await t.rejects(listExpirations({ ...ctx, scopes: new Set() }, page), { code: "INSUFFICIENT_SCOPE" });
});

t.test("the list of the API has the status, takes filters, and sorts in both directions", async (t) => {
  const ctx = await newOrg(system);
  const names = ["alpha", "Beta", "gamma", "delta"] as const;
  const ids = new Map<string, string>();
  for (const name of names) {
    ids.set(name, await create(ctx, name, `${name}.example.org`, name === "delta" ? { enabled: false } : {}));
    clock.advance(1);
  }
  clock.at = noon;
  await setStatus(system, ids.get("alpha")!, "up");
  await setStatus(system, ids.get("Beta")!, "down");
  await sql`update target_states set status_since = ${new Date(noon - hour)} where target_id = ${ids.get("Beta")!}`;
  await setStatus(system, ids.get("gamma")!, "degraded");
  await setStatus(system, ids.get("delta")!, "down");
  await sql`
    update target_states set expires_at = ${new Date(noon + hour)}, last_result_at = ${new Date(noon - hour)}
    where target_id = ${ids.get("gamma")!}`;
  await addResults(system, ids.get("alpha")!, [{ at: noon - minute, total: 10 }]);
  await addResults(system, ids.get("gamma")!, [{ at: noon - minute, total: 900, status: "degraded" }]);
  await addResults(system, ids.get("Beta")!, [{ at: noon - hour, total: 5000 }]);
  await sql`
    insert into results_daily (target_id, day, up, down, degraded, error)
    values (${ids.get("alpha")!}, '2026-11-19', 9, 1, 0, 0), (${ids.get("gamma")!}, '2026-11-19', 0, 0, 10, 0),
      (${ids.get("Beta")!}, '2026-11-18', 1, 8, 0, 1)`;

  const { items } = await listTargets(ctx, page);
  matchObject(t, items, [
    { name: "delta", status: "unknown", status_since: null },
    { name: "gamma", status: "degraded", last_checked_at: new Date(noon - hour).toISOString() },
    { name: "Beta", status: "down", status_since: new Date(noon - hour).toISOString() },
    { name: "alpha", status: "up" },
  ]);
  for (const [sort, ...expected] of [
    ["state", "Beta", "gamma", "alpha", "delta"],
    ["name", "alpha", "Beta", "delta", "gamma"],
    ["uptime", "Beta", "alpha", "gamma", "delta"],
    ["p95", "gamma", "alpha", "Beta", "delta"],
    ["days_left", "gamma", "Beta", "alpha", "delta"],
  ] as const)
    t.strictSame(await listed(ctx, { sort }), expected, sort);
  t.equal((await listed(ctx, { sort: "last_checked" })).at(-1), "gamma", "the newest check is first");
  t.equal((await listed(ctx, { sort: "last_checked", order: "asc" }))[0], "gamma");
  t.strictSame(await listed(ctx, { sort: "name", order: "desc" }), ["gamma", "delta", "Beta", "alpha"]);
  t.strictSame(await listed(ctx, { sort: "uptime", order: "desc" }), ["gamma", "alpha", "Beta", "delta"]);
  t.strictSame(await listed(ctx, { sort: "p95", order: "asc" }), ["alpha", "gamma", "Beta", "delta"]);
  t.strictSame(await listed(ctx, { state: "paused" }), ["delta"]);
  t.strictSame(await listed(ctx, { state: "down" }), ["Beta"]);
  t.strictSame(await listed(ctx, { kind: "http" }), []);
  t.equal((await listed(ctx, { kind: "tcp" })).length, 4);
  const second = await listTargets(ctx, { limit: 1, offset: 1, sort: "name" });
  matchObject(t, second, { total: 4, items: [{ name: "Beta" }] }, "pages follow the order");
  for (const [name, value] of [
    ["sort", "created"],
    ["order", "up"],
    ["state", "broken"],
    ["kind", "icmp"],
    ["cause", "host:"],
    ["cause", "colour:red"],
  ] as const) {
    const refused = await refusal(t, () => listed(ctx, { [name]: value }));
    matchObject(t, refused, { field: `/query/${name}` }, `${name}=${value}`);
  }
});

t.test(
  "failing monitors that share a host, else a tag, else a class of error, else a region, are one line",
  async (t) => {
    const ctx = await newOrg(system);
    for (const n of [1, 2, 3]) await failing(ctx, `db ${n}`, "db-1.example.org", n, { tags: ["shop"] });
    for (const n of [1, 2, 3])
      await failing(ctx, `pay ${n}`, `pay-${n}.example.org`, 20 + n, { tags: ["pay", "shop"] });
    await failing(ctx, "alone", "alone.example.org", 5, { tags: ["x"] });
    await failing(ctx, "newest", "newest.example.org", 1);
    const healthy = await create(ctx, "fine", "db-1.example.org", { tags: ["shop"] });
    await setStatus(system, healthy, "up");

    const list = await listMonitors(ctx, { ...page, grouped: true });
    matchObject(t, list.causes, [
      { cause: { kind: "host", value: "db-1.example.org" }, count: 3, state: "down", names: ["db 1", "db 2", "db 3"] },
      { cause: { kind: "tag", value: "pay" }, count: 3, total: 3, since: new Date(noon - 23 * minute) },
    ]);
    t.strictSame(
      list.items.map(({ target }) => target.name),
      ["newest", "alone", "fine"],
      "the others have rows of their own, the newest failure first",
    );
    matchObject(t, list, { total: 9, lines: 5, counts: { down: 8, up: 1 } });
    const pages = await Promise.all(
      [0, 1, 2, 3, 4].map((offset) => listMonitors(ctx, { limit: 1, offset, grouped: true })),
    );
    t.strictSame(
      pages.map(({ causes, items }) => causes[0]?.cause.value ?? items[0]!.target.name),
      ["db-1.example.org", "pay", "newest", "alone", "fine"],
      "pages count lines",
    );
    const host = readCause("host:db-1.example.org")!;
    const opened = await listMonitors(ctx, { ...page, cause: host });
    matchObject(t, opened, { total: 3, causes: [], items: [{}, {}, {}] }, "the line opens to its members");
    t.strictSame(await listed(ctx, { cause: "tag:pay", sort: "name" }), ["pay 1", "pay 2", "pay 3"]);
    t.strictSame(await listed(ctx, { cause: "tag:gone" }), []);
    matchObject(t, await listMonitors(ctx, { ...page, tag: "pay", grouped: true }), {
      lines: 1,
      causes: [{ count: 3 }],
    });
    t.strictSame((await listMonitors(await newOrg(system), { ...page, grouped: true })).causes, []);

    const incidents = await listIncidentLines(ctx, { ...page, state: "all" });
    matchObject(t, incidents.causes, [
      { key: "host:db-1.example.org", count: 3, waiting: 3, state: "down", names: ["db 1", "db 2", "db 3"] },
      { key: "tag:pay", count: 3, since: new Date(noon - 23 * minute) },
    ]);
    t.strictSame([incidents.items.map((one) => one.monitor_name), incidents.total], [["newest", "alone"], 4]);
    t.strictSame(await openCounts(ctx), { incidents: 8, acknowledged: 0, minor: 0, causes: 4, waiting: 4 });
    const behind = await listIncidents(ctx, { ...page, state: "open", cause: "tag:pay" });
    await bulkIncidentAction(ctx, { ids: behind.items.map(({ id }) => id), action: { type: "acknowledge" } });
    const lines = await listIncidentLines(ctx, { ...page, state: "all" });
    matchObject(t, lines.causes, [{ waiting: 3 }, { waiting: 0 }], "a cause is acknowledged as a whole");
    t.strictSame(await openCounts(ctx), { incidents: 8, acknowledged: 3, minor: 0, causes: 4, waiting: 3 });
    matchObject(t, await listIncidentLines(ctx, { ...page, state: "open", acknowledged: false }), {
      total: 3,
      causes: [{}],
    });
    const closed = await listIncidentLines(ctx, { ...page, state: "closed" });
    matchObject(t, closed, { causes: [], items: [], total: 0 }, "only open incidents share a line");

    for (const n of [1, 2, 3]) await failing(ctx, `site ${n}`, `site-${n}.example.org`, 40);
    const { causes } = await listMonitors(ctx, { ...page, grouped: true });
    matchObject(
      t,
      causes[0],
      { cause: { kind: "error", value: "connect ECONNREFUSED" }, count: 5 },
      "what is left shares the class of its error",
    );
    await sql`
      update target_states set last_error = null
      where target_id in (select id from targets where org_id = ${ctx.orgId})`;
    await sql`update incidents set error_sample = null where org_id = ${ctx.orgId}`;
    const unknown = await listMonitors(ctx, { ...page, grouped: true });
    matchObject(t, unknown.causes[0], { cause: { kind: "region", value: "eu" }, count: 5 }, "or the region");

    const moved = (await listTargets(ctx, { ...page, q: "db 3" })).items[0]!;
    await updateTarget(ctx, moved.id, { check: { host: "DB-2.example.org." } });
    t.strictSame(await listed(ctx, { cause: "host:db-1.example.org", sort: "name" }), ["db 1", "db 2"]);
  },
);

t.test("a cause has the state and the begin of its worst members", async (t) => {
  const ctx = await newOrg(system);
  const slow = await failing(ctx, "slow", "db-1.example.org", 60);
  await setStatus(system, slow, "degraded");
  await sql`update incidents set severity = 'minor' where target_id = ${slow}`;
  const read = async () => (await listMonitors(ctx, { ...page, grouped: true })).causes;
  const broken = await failing(ctx, "broken", "db-1.example.org", 30);
  await setStatus(system, broken, "error");
  matchObject(t, await read(), [{ state: "error", states: { down: 0, error: 1, degraded: 1 }, since: ago(30) }]);
  await failing(ctx, "down", "db-1.example.org", 10);
  matchObject(t, await read(), [
    { count: 3, state: "down", states: { down: 1, error: 1, degraded: 1 }, since: ago(10) },
  ]);
  matchObject(t, (await listIncidentLines(ctx, { ...page, state: "open" })).causes, [
    { state: "down", since: ago(30) },
  ]);
  matchObject(
    t,
    (await orgHealth(ctx, { worst: 10, most: 10 })).causes,
    [{ count: 3, state: "down", states: { down: 1 }, since: ago(10) }],
    "the same over MCP",
  );
});

t.test("a tag is a cause only where most of its monitors fail; errors are grouped by their class", async (t) => {
  const ctx = await newOrg(system);
  for (let n = 0; n < 9; n++) {
    const name = `m${n}`;
    if (n < 4) await failing(ctx, name, `${name}.example.org`, n + 1, { tags: ["prod"] });
    else await setStatus(system, await create(ctx, name, `${name}.example.org`, { tags: ["prod"] }), "up");
  }
  const errors = [
    "expected status 200-299, got 500",
    "expected status 200, got 500",
    "rate-limited 500",
    "name not found",
  ];
  for (const [n, error] of errors.entries())
    await sql`
      update target_states set last_error = ${error}
      where target_id = (select id from targets where org_id = ${ctx.orgId} and name = ${`m${n}`})`;
  const half = await listMonitors(ctx, { ...page, grouped: true });
  matchObject(t, half.causes, [{ key: "error:HTTP 500", count: 3, total: null }], "4 of 9 are less than most");
  t.equal(half.lines, 7);
  await sql`
    update target_states set last_error = 'no report, due 2026-11-20 12:00:00 UTC (no report yet)'
    where target_id in (select id from targets where org_id = ${ctx.orgId} and name < 'm3')`;
  const late = await listMonitors(ctx, { ...page, grouped: true });
  matchObject(t, late.causes, [{ key: "error:no report", count: 3 }], "missed reports of jobs");
  for (const n of [4, 5])
    await sql`update targets set enabled = false where org_id = ${ctx.orgId} and name = ${`m${n}`}`;
  const most = await listMonitors(ctx, { ...page, grouped: true });
  matchObject(t, most.causes, [{ key: "tag:prod", count: 4, total: 7 }], "paused ones do not count");
});

t.test(
  "pins stand apart and are of one person; names sort by their numbers; acknowledged failures are last",
  async (t) => {
    const ctx = await newOrg(system);
    const other = await newOrg(system);
    const ids: Record<string, string> = {};
    for (const name of ["API 10", "API 9", "api 1"])
      ids[name] = await create(ctx, name, `${name.slice(4)}.example.org`);
    for (const name of ["db 1", "db 2"]) ids[name] = await failing(ctx, name, "db.example.org", 10);
    for (const name of ["alone", "taken"]) ids[name] = await failing(ctx, name, `${name}.example.org`, 5);
    const incidents = await listIncidents(ctx, { state: "open", target_id: ids["taken"]!, ...page });
    await bulkIncidentAction(ctx, { ids: [incidents.items[0]!.id], action: { type: "acknowledge" } });
    const namesOf = (rows: { target: { name: string } }[]) => rows.map(({ target }) => target.name);
    t.strictSame(namesOf((await listMonitors(ctx, { ...page, sort: "name" })).items).slice(0, 4), [
      "alone",
      "api 1",
      "API 9",
      "API 10",
    ]);
    const ask = { ...page, grouped: true, pins: true };
    const before = await listMonitors(ctx, ask);
    matchObject(t, before, { lines: 6, pinned: [], causes: [{ count: 2, waiting: 2 }] });
    t.strictSame(namesOf(before.items), ["alone", "taken", "api 1", "API 9", "API 10"]);
    await pinTarget(ctx, ids["API 10"]!);
    await pinTarget(ctx, ids["db 1"]!);
    await pinTarget(ctx, ids["db 1"]!);
    const after = await listMonitors(ctx, ask);
    t.strictSame(namesOf(after.pinned), ["db 1", "API 10"]);
    t.strictSame(namesOf(after.items), ["alone", "taken", "api 1", "API 9"]);
    t.equal(after.lines, 5, "a pinned member of a cause has no line to lose");
    t.strictSame((await listMonitors(other, ask)).pinned, [], "others do not see a pin");
    await t.rejects(pinTarget(other, ids["db 1"]!), { code: "TARGET_NOT_FOUND" });
    await t.rejects(unpinTarget(other, ids["db 1"]!), { code: "TARGET_NOT_FOUND" });
    await t.rejects(pinTarget(ctx, "shop"), { code: "TARGET_NOT_FOUND" });
    await unpinTarget(ctx, ids["db 1"]!);
    await unpinTarget(ctx, ids["db 1"]!);
    t.strictSame(namesOf((await listMonitors(ctx, ask)).pinned), ["API 10"]);
  },
);

t.test("the beats of a monitor: a check of all regions, an hour, a day", async (t) => {
  const ctx = await newOrg(system);
  const id = await create(ctx, "beats", "beats.example.org");
  const at = (minutes: number, region: string, status: "up" | "down" | "degraded") => ({
    at: noon - minutes * minute,
    region,
    status,
  });
  await addResults(system, id, [
    ...["eu", "us", "ap"].map((region) => at(3, region, "up")),
    at(2, "eu", "down"),
    at(2, "us", "up"),
    at(2, "ap", "up"),
    at(1, "eu", "down"),
    at(1, "us", "down"),
    at(1, "ap", "up"),
  ]);
  const checks = await readBeats(ctx, id, "checks", 60);
  t.equal(checks.length, 49, "the slot of now has not been reported");
  t.strictSame(
    checks.slice(-4).map(({ state }) => state),
    ["none", "up", "degraded", "down"],
  );
  matchObject(t, checks.at(-1)!.regions, [
    { region: "ap", state: "up", error: null },
    { region: "eu", state: "down" },
    { region: "us", state: "down" },
  ]);
  matchObject(t, (await readBeats(ctx, id, "hours", 60)).slice(-2), [{ state: "down" }, { state: "none" }]);
  t.equal((await readBeats(ctx, id, "days", 60)).length, 90);
  const stranger = await newOrg(system);
  t.ok(
    (await readBeats(stranger, id, "checks", 60)).every(({ state }) => state === "none"),
    "of the organisation only",
  );
  await t.rejects(readBeats({ ...ctx, scopes: new Set() }, id, "hours", 60), { code: "INSUFFICIENT_SCOPE" });
});

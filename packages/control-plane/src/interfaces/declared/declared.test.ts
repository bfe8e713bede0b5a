import { json } from "node:stream/consumers";
import fc from "fast-check";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import type { TSchema } from "typebox";
import { checkKinds, type CheckType, checkTypes } from "@statusmesh/shared/checks";
import { newId } from "@statusmesh/shared/ids";
import { fits } from "@statusmesh/shared/schema/validate";
import { type Ctx, inTransaction } from "../../platform/context.ts";
import { bulkAction } from "../../monitoring/targets/bulk/bulk.ts";
import { createTarget, updateTarget } from "../../monitoring/targets/write/service.ts";
import { getTarget } from "../../monitoring/targets/service.ts";
import { reportIncident } from "../../alerting/incidents/lifecycle/service.ts";
import { createWindow } from "../../alerting/maintenance/service.ts";
import { createChannel, getChannel } from "../../alerting/channels/service.ts";
import { createPage, storedPages } from "../../publishing/status-pages/service.ts";
import { updateComponent } from "../../publishing/status-pages/components/service.ts";
import { publishedSchema } from "../openapi/schemas.ts";
import { serve } from "../../testing/app.ts";
import { minute } from "../../testing/clock.ts";
import { newOrg, openWorld, refusal } from "../../testing/world.ts";
import { declaredRoutes } from "./api.ts";
import { ConfigDocument } from "./document/schema.ts";
import type { ApplyReply, ExportReply, PlanReply } from "./schema.ts";
import { replyJson, type WrittenReply } from "./changes.ts";
import { adoptObject, detachObject, exportConfig, listDrift, listProjects } from "./service.ts";
import { reportSource, sourcesInWords } from "./plan/sources.ts";
import * as service from "./service.ts";

const world = await openWorld(t);
const { system, sql, clock } = world;
const start = clock.at;
t.beforeEach(() => {
  clock.at = start;
});

type Document = Record<string, unknown>;
// oxlint-disable-next-line typescript/no-explicit-any -- tests change documents in many places
type Loose = any;

/** The reply of an export. */
const exportOf = async (...asked: Parameters<typeof exportConfig>): Promise<ExportReply> =>
  (await json(await exportConfig(...asked))) as ExportReply;

async function sent<Reply extends ApplyReply>(reply: WrittenReply<Reply>): Promise<Reply> {
  const body = replyJson(reply);
  return (Buffer.isBuffer(body) ? JSON.parse(String(body)) : await json(body)) as Reply;
}
const planConfig = async (...request: Parameters<typeof service.planConfig>): Promise<PlanReply> =>
  sent(await service.planConfig(...request));
const applyConfig = async (...request: Parameters<typeof service.applyConfig>): Promise<ApplyReply> =>
  sent(await service.applyConfig(...request));

const planOf = (ctx: Ctx, document: Document, options: object = {}): Promise<PlanReply> =>
  planConfig(ctx, { project: "shop", document: structuredClone(document), ...options });

/** Plans and applies. */
async function apply(ctx: Ctx, document: Document, options: object = {}): Promise<ApplyReply> {
  const { plan_token } = await planOf(ctx, document, options);
  return await applyConfig(ctx, { project: "shop", document: structuredClone(document), plan_token, ...options });
}

const nothing = { create: 0, update: 0, delete: 0, adopt: 0, move: 0, pause: 0, orphaned: 0, drift: 0 };

const secretUrl = "https://hooks.slack.com/services/T0/B0/SECRET-OF-SLACK";
const shop: Document = {
  version: 1,
  project: "shop",
  "x-anchors": { anything: true },
  defaults: { interval: "2m", tags: ["shop"], check: { timeout: "5s", period: 5 } },
  channels: { ops: { name: "On call", config: { type: "slack", webhook_url: secretUrl } } },
  monitors: {
    "web/front": {
      name: "Front",
      check: { type: "http", url: "https://shop.example.org/", bearer_token: "SECRET-OF-FRONT" },
      alerts: ["ops"],
    },
    db: { name: "Database", check: { type: "tcp", host: "db.example.org", port: 5432, timeout: null }, interval: 30 },
    backup: { name: "Backup", check: { type: "heartbeat", period: "1h" }, alerts: [{ channel: "ops" }] },
  },
  status_pages: {
    main: {
      slug: "shop",
      name: "Shop",
      components: [{ monitor: "web/front", public_name: "Website" }, { monitor: "db" }],
    },
  },
  maintenance: {
    upgrade: {
      title: "Upgrade",
      starts_at: "2126-11-20T22:00:00Z",
      ends_at: "2126-11-21T02:00:00Z",
      monitors: ["db"],
      tags: ["shop"],
    },
  },
};
const changed = (changes: (document: Loose) => void): Document => {
  const copy = structuredClone(shop);
  changes(copy);
  return copy;
};

t.test("a document is planned, applied, and then there is nothing to do", async (t) => {
  const ctx = await newOrg(system);
  const plan = await planOf(ctx, shop);
  matchObject(t, plan.summary, { ...nothing, create: 6, unchanged: 0 });
  t.notMatch(JSON.stringify(plan), /SECRET/, "a plan shows no secret");
  t.strictSame([...(await sql`select 1 from targets where org_id = ${ctx.orgId}`)], [], "a plan writes nothing");
  const done = await applyConfig(ctx, { project: "shop", document: shop, plan_token: plan.plan_token });
  matchObject(t, done.summary, { create: 6 });
  const rows = await sql<{ id: string; name: string; interval_secs: number; tags: string[]; managed: object }[]>`
    select id, name, interval_secs, tags, managed from targets where org_id = ${ctx.orgId} order by name`;
  matchObject(t, rows, [
    { name: "Backup", interval_secs: 3600, tags: ["shop"], managed: { project: "shop", key: "backup" } },
    { name: "Database", interval_secs: 30, managed: { key: "db", on_remove: "delete" } },
    { name: "Front", interval_secs: 120, managed: { key: "web/front" } },
  ]);
  const front = await getTarget(ctx, rows[2]!.id);
  matchObject(t, front, {
    check: { timeout: 5000, bearer_token: "***" },
    managed_by: { project: "shop", key: "web/front" },
  });
  const again = await planOf(ctx, shop);
  t.strictSame({ ...again.summary }, { ...nothing, unchanged: 6 });
  t.strictSame(again.changes, []);
  matchObject(t, (await listProjects(ctx)).projects, [
    { project: "shop", counts: { monitor: 3, channel: 1, status_page: 1, maintenance: 1 }, summary: { create: 6 } },
  ]);
  const audit = await sql<{ action: string; resource_id: string | null; before: unknown; after: Loose }[]>`
    select action, resource_id, before, after from audit_log where org_id = ${ctx.orgId}`;
  t.equal(audit.length, 7, "a row of the apply, and one of each object");
  t.notMatch(JSON.stringify(audit), /SECRET|example\.org/, "without values");
});

t.test("fields that differ are changed, and only those; drift names who and when", async (t) => {
  const ctx = await newOrg(system);
  await apply(ctx, { ...shop, status_pages: { main: { slug: "drift", name: "Shop" } } });
  const document = changed((it) => {
    it.status_pages = { main: { slug: "drift", name: "Shop" } };
    it.monitors.db.interval = "1m";
    it.monitors["web/front"].check.bearer_token = "SECRET-2";
    it.channels.ops.name = "Duty";
  });
  const plan = await planOf(ctx, document);
  matchObject(t, plan.summary, { ...nothing, update: 3 });
  matchObject(
    t,
    plan.changes.map(({ key, fields }) => [key, fields]),
    [
      ["ops", [{ path: "/name", old: "On call", new: "Duty" }]],
      ["web/front", [{ path: "/check/bearer_token", old: "***", new: "changed" }]],
      ["db", [{ path: "/interval", old: 30, new: 60 }]],
    ],
  );
  await apply(ctx, document);
  t.strictSame((await planOf(ctx, document)).changes, []);
  clock.at += 60_000;
  const [db] = await sql<{ id: string }[]>`select id from targets where org_id = ${ctx.orgId} and name = 'Database'`;
  await updateTarget({ ...ctx, actor: { type: "session", id: newId() } }, db!.id, { interval: 300 });
  await updateTarget(ctx, db!.id, { enabled: false });
  const drifted = await planOf(ctx, document);
  matchObject(t, drifted.summary, { ...nothing, update: 1, drift: 1 });
  matchObject(t, drifted.changes, [
    {
      key: "db",
      action: "update",
      fields: [{ path: "/interval", old: 300, new: 60 }],
      drift: { at: new Date(clock.at).toISOString(), by: { type: "session", name: /@example.org/ } },
    },
  ]);
  await apply(ctx, document);
  matchObject(t, await getTarget(ctx, db!.id), { interval: 60, enabled: false }, "a pause by hand stays");
});

t.test("changes since the last apply: newest first, at most 100, without reading the rest of the log", async (t) => {
  const ctx = await newOrg(system);
  const names = Array.from({ length: 120 }, (_, n) => `m${n}`);
  const monitors = Object.fromEntries(
    names.map((name) => [name, { name, check: { type: "tcp", host: `${name}.example.org`, port: 1 } }]),
  );
  const components = [{ monitor: "m0", public_name: "First" }];
  const document = { version: 1, monitors, status_pages: { main: { slug: "drifting", name: "Main", components } } };
  await apply(ctx, document);
  matchObject(t, await listDrift(ctx), { drift: [], moreDrift: 0 });
  const idOf = Object.fromEntries(
    (await sql<{ name: string; id: string }[]>`select name, id from targets where org_id = ${ctx.orgId}`).map(
      ({ name, id }) => [name, id],
    ),
  );
  await sql`
    insert into audit_log (id, org_id, at, actor_type, action, resource_id, write_source)
    select gen_random_uuid(), ${ctx.orgId}, ${new Date(clock.at)}::timestamptz + n * interval '1 ms', 'token',
      'POST /api/v1/targets/{id}/check-now', gen_random_uuid(), 'api' from generate_series(1, 5000) n`;
  await sql`analyze audit_log`;
  clock.advance(minute);
  await updateTarget(ctx, idOf["m7"]!, { interval: 300 });
  clock.advance(minute);
  const [page] = await storedPages(ctx);
  await updateComponent(ctx, page!.id, page!.components[0]!.id, { public_name: "Front" });
  const by = { type: "session", name: /@example.org/ };
  matchObject(t, await listDrift(ctx), {
    drift: [
      { kind: "status_page", key: "main", at: new Date(clock.at), by },
      { kind: "monitor", key: "m7", at: new Date(clock.at - minute), by },
    ],
    moreDrift: 0,
  });

  clock.advance(minute);
  await bulkAction(ctx, { ids: Object.values(idOf), action: { type: "disable" } });
  await inTransaction(ctx, async (tx) => {
    const rowsRead = async () =>
      (
        await tx.sql<{ read: number }[]>`
          select (seq_tup_read + idx_tup_fetch)::integer as read from pg_stat_xact_user_tables
          where relname = 'audit_log'`
      )[0]!.read;
    const before = await rowsRead();
    const { drift, moreDrift } = await listDrift(tx);
    t.strictSame([drift.length, moreDrift], [100, 21], "the page and 120 monitors");
    matchObject(t, drift[0], { kind: "monitor", at: new Date(clock.at), by });
    const read = (await rowsRead()) - before;
    t.ok(read < 500, `${read} rows of the log`);
  });
  clock.advance(minute);
  await apply(ctx, document);
  const { drift, moreDrift } = await listDrift(ctx);
  t.equal(drift.length + moreDrift, 119, "an apply puts back what differs; a pause by hand stays");
});

t.test("what left the document is orphaned; prune deletes it, unless it is to be kept or paused", async (t) => {
  const ctx = await newOrg(system);
  const stranger = await createTarget(ctx, {
    name: "By hand",
    check: { type: "tcp", host: "a.example.org", port: 1 } as never,
  });
  const foreign = await newOrg(system);
  await apply(
    foreign,
    changed((it) => delete it.status_pages),
  );
  const one = (name: string, more: object = {}) => ({
    name,
    check: { type: "tcp", host: "a.example.org", port: 80 },
    ...more,
  });
  // The same key as in the project that is pruned.
  const other = { project: "other", document: { version: 1, monitors: { a: one("Other project") } } };
  await applyConfig(ctx, { ...other, plan_token: (await planConfig(ctx, other)).plan_token });
  const monitors = {
    a: one("A"),
    b: one("B", { on_remove: "keep" }),
    c: one("C", { on_remove: "pause" }),
    d: one("D"),
  };
  await apply(ctx, { version: 1, monitors });
  const rest = { version: 1, monitors: { d: one("D") } };
  matchObject(t, (await apply(ctx, rest)).summary, { ...nothing, unchanged: 1, orphaned: 3 }, "nothing is removed");
  matchObject(t, (await apply(ctx, rest, { prune: true })).summary, { ...nothing, delete: 1, pause: 1, orphaned: 1 });
  const left = await sql<{ name: string; enabled: boolean }[]>`
    select name, enabled from targets where org_id = ${ctx.orgId} order by name`;
  t.strictSame(
    [...left],
    [
      { name: "B", enabled: true },
      { name: "By hand", enabled: true },
      { name: "C", enabled: false },
      { name: "D", enabled: true },
      { name: "Other project", enabled: true },
    ],
  );
  matchObject(t, (await apply(ctx, rest, { prune: true })).summary, { ...nothing, orphaned: 2 });
  // Neither moved nor adopt takes an object of another project, which a prune would delete then.
  const [foreignOne] = await sql<{ id: string }[]>`
    select id from targets where org_id = ${ctx.orgId} and name = 'Other project'`;
  const adopting = { version: 1, monitors: { d: one("D"), x: one("Other project", { adopt: foreignOne!.id }) } };
  t.match((await refusal(t, () => planOf(ctx, adopting))).field, /^\/document\/monitors\/x/);
  const moving = { ...rest, moved: { monitors: { a: "d" } } };
  matchObject(t, (await apply(ctx, moving, { prune: true })).summary, { ...nothing, orphaned: 2 });
  matchObject(
    t,
    (await planConfig(ctx, { ...other, prune: true })).summary,
    { ...nothing, unchanged: 1 },
    "it is as it was",
  );
  t.equal((await getTarget(ctx, stranger.id)).managed_by, null);
  matchObject(
    t,
    (
      await planOf(
        foreign,
        changed((it) => delete it.status_pages),
      )
    ).summary,
    nothing,
  );
});

t.test("deletions have a limit, which itself is allowed", async (t) => {
  const ctx = await newOrg(system);
  const monitors = Object.fromEntries(
    Array.from({ length: 12 }, (_, n) => [
      `m${n}`,
      { name: `M ${n}`, check: { type: "tcp", host: "a.example.org", port: 1 } },
    ]),
  );
  await apply(ctx, { version: 1, monitors });
  const but = (count: number) => ({ version: 1, monitors: Object.fromEntries(Object.entries(monitors).slice(count)) });
  matchObject(t, await refusal(t, () => apply(ctx, but(11), { prune: true })), {
    code: "PRUNE_LIMIT",
    details: { delete: 11 },
  });
  matchObject(t, await refusal(t, () => apply(ctx, but(2), { prune: true, max_delete: 1 })), { code: "PRUNE_LIMIT" });
  matchObject(t, (await apply(ctx, but(10), { prune: true })).summary, { delete: 10 });
});

t.test("a new monitor or window that is there by hand is a warning with the line that adopts it", async (t) => {
  const ctx = await newOrg(system);
  const check = { type: "http", url: "https://shop.example.org/" };
  const starts = { starts_at: "2016-11-26T22:00:00.000Z", ends_at: "2016-11-27T02:00:00.000Z" };
  const weekly = { title: "Weekly", ...starts, recurrence: { rule: "FREQ=WEEKLY", time_zone: "Europe/Berlin" } };
  await apply(ctx, { version: 1, monitors: { a: { name: "Front", check }, b: { name: "Front", check } } });
  const targets = await sql<{ id: string }[]>`
    update targets set managed = null where org_id = ${ctx.orgId} returning id`;
  const front = targets.map(({ id }) => id).sort()[0]!;
  const window = await createWindow(ctx, { ...weekly, component_ids: [] });
  const document: Loose = {
    version: 1,
    monitors: {
      front: { name: " Front ", check },
      kind: { name: "Front", check: { type: "tcp", host: "example.org", port: 1 } },
      new: { name: "New", check },
    },
    maintenance: { weekly: { ...weekly, monitors: [] } },
  };
  t.strictSame((await planOf(ctx, document)).warnings, [
    "front: there is a monitor with this name that no file declares, and the apply adds a second one. " +
      `Write adopt: ${front} to take it over.`,
    "weekly: there is a maintenance window with this title and start that no file declares, and the apply adds a " +
      `second one. Write adopt: ${window.id} to take it over.`,
  ]);
  document.monitors.front.adopt = front;
  document.maintenance.weekly.adopt = window.id;
  const applied = await apply(ctx, document);
  matchObject(t, applied.summary, { ...nothing, adopt: 2, create: 2 });
  t.strictSame(applied.warnings, []);
  t.strictSame((await planOf(ctx, document)).changes, []);
});

t.test("a plan and an apply warn of a check as its save does, and of many at most so often", async (t) => {
  const ctx = await newOrg(system);
  const domain = (name: string) => ({ name, check: { type: "domain_expiry", domain: name } });
  const document = { version: 1, monitors: { de: domain("example.de"), org: domain("example.org") } };
  const said = [
    "de: The registry of .de publishes no expiry date over RDAP: set expires_on, or the check finds nothing.",
  ];
  t.strictSame((await planOf(ctx, document)).warnings, said);
  t.strictSame((await apply(ctx, document)).warnings, said);
  t.strictSame((await planOf(ctx, document)).warnings, [], "what is not changed is not saved");
  const many = Object.fromEntries(Array.from({ length: 25 }, (_, n) => [`d${n}`, domain(`d${n}.de`)]));
  const { warnings } = await planOf(ctx, { version: 1, monitors: many });
  t.equal(warnings.length, 21);
  t.equal(warnings.at(-1), "5 more warnings of checks.");
});

t.test("a recurring window in a file may have begun years ago; one whose rule has ended is a warning", async (t) => {
  const ctx = await newOrg(system);
  const window = (rule: string) => ({
    title: "Weekly",
    starts_at: "2016-11-26T22:00:00.000Z",
    ends_at: "2016-11-27T02:00:00.000Z",
    recurrence: { rule, time_zone: "Europe/Berlin" },
    monitors: [],
  });
  const document = { version: 1, maintenance: { on: window("FREQ=WEEKLY"), off: window("FREQ=WEEKLY;COUNT=2") } };
  const { summary, warnings } = await apply(ctx, document);
  matchObject(t, summary, { ...nothing, create: 1, unchanged: 1 });
  t.strictSame(warnings, ["off is over: it is not created."]);
  matchObject(t, (await planOf(ctx, document)).changes, []);
});

t.test("keys move, names are exchanged, objects are adopted and detached", async (t) => {
  const ctx = await newOrg(system);
  const slack = { type: "slack", webhook_url: secretUrl };
  const doc = (a: string, b: string) => ({
    version: 1,
    channels: { a: { name: a, config: slack }, b: { name: b, config: slack } },
    status_pages: { p: { slug: `${a}-page`, name: "P" }, q: { slug: `${b}-page`, name: "Q" } },
  });
  await apply(ctx, doc("one", "two"));
  matchObject(t, (await apply(ctx, doc("two", "one"))).summary, { ...nothing, update: 4 });
  t.strictSame((await planOf(ctx, doc("two", "one"))).changes, []);

  const moved = { ...doc("two", "one"), moved: { channels: { a: "renamed" } } } as Loose;
  moved.channels = { renamed: moved.channels.a, b: moved.channels.b };
  const before = await sql`select id from channels where org_id = ${ctx.orgId} order by id`;
  matchObject(t, (await apply(ctx, moved)).summary, { ...nothing, move: 1, unchanged: 3 });
  t.strictSame(await sql`select id from channels where org_id = ${ctx.orgId} order by id`, before, "the same objects");
  t.strictSame((await planOf(ctx, moved)).changes, [], "moved stays in the file");

  const hand = await createChannel(ctx, { name: "Hand", config: slack as never });
  const declared = { version: 1, channels: { ...moved.channels, hand: { name: "Hand", config: slack } } };
  matchObject(t, await refusal(t, () => planOf(ctx, { ...doc("two", "one"), ...declared })), {
    code: "ADOPTION_REQUIRED",
    field: "/document/channels/hand/name",
    message: new RegExp(`adopt: ${hand.id}`),
  });
  // RFC 9562 section 4: in either case.
  declared.channels.hand.adopt = hand.id.toUpperCase();
  const taken = { ...doc("two", "one"), ...declared };
  matchObject(t, (await apply(ctx, taken)).summary, { ...nothing, adopt: 1 });
  t.strictSame((await planOf(ctx, taken)).changes, [], "adopt is ignored once it is managed");
  matchObject(t, (await getChannel(ctx, hand.id)).managed_by, { project: "shop", key: "hand" });
  const ref = { project: "shop", kind: "channel", key: "hand", id: hand.id } as const;
  matchObject(t, await refusal(t, () => adoptObject(ctx, { ...ref, project: "other" })), { code: "MANAGED_ELSEWHERE" });
  matchObject(t, await refusal(t, () => detachObject(ctx, { ...ref, id: newId() })), { code: "NOT_FOUND" });
  const stranger = await newOrg(system);
  matchObject(t, await refusal(t, () => adoptObject(stranger, ref)), { code: "NOT_FOUND" });
  await detachObject(ctx, ref);
  t.equal((await getChannel(ctx, hand.id)).managed_by, null);
  await adoptObject(ctx, ref);
  t.strictSame((await planOf(ctx, taken)).changes, []);
});

t.test("the password of a private page is never read back; without it, or without access, it stays", async (t) => {
  const ctx = await newOrg(system);
  const access = { mode: "password", password: "open sesame", title: "Vault" };
  const page = (more: object) => ({ version: 1, status_pages: { main: { slug: "private", name: "P", ...more } } });
  matchObject(t, await refusal(t, () => planOf(ctx, page({ access: { mode: "password" } }))), {
    field: "/document/status_pages/main/access/password",
  });
  const made = await apply(ctx, page({ access }));
  t.notMatch(JSON.stringify(made), "open sesame");
  for (const same of [{ access }, { access: { mode: "password", title: "Vault" } }, {}])
    t.strictSame((await planOf(ctx, page(same))).changes, []);
  const changed = page({ access: { ...access, password: "open barley" } });
  const [change] = (await planOf(ctx, changed)).changes;
  t.strictSame(change?.fields, [{ path: "/access/password", old: "***", new: "changed" }]);
  await apply(ctx, page({ access: { ...access, title: "Safe" } }));
  t.strictSame(
    [...(await sql`select access_revision from status_pages where slug = 'private'`)],
    [{ access_revision: 0 }],
  );
  const exported = await exportOf(ctx, {});
  t.strictSame(exported.document["status_pages"], {
    main: { slug: "private", name: "P", access: { mode: "password", title: "Safe" } },
  });
  const members = page({ access: { mode: "members" } });
  await apply(ctx, members);
  t.strictSame((await planOf(ctx, members)).changes, []);
  t.strictSame((await exportOf(ctx, {})).document["status_pages"], {
    main: { slug: "private", name: "P", access: { mode: "members" } },
  });
  for (const missing of [
    { mode: "email_domains", email_domains: ["acme.example"] },
    { mode: "groups", groups: ["customers"] },
  ])
    matchObject(t, await refusal(t, () => planOf(ctx, page({ access: missing }))), {
      message: /set (?:email\.smtp_url|auth\.oidc)/,
      field: "/document/status_pages/main/access/mode",
    });
});

t.test("components without a monitor: the state is initial only, names keep their history", async (t) => {
  const ctx = await newOrg(system);
  const phone = { manual: true, public_name: "Telephone", state: "degraded" };
  const door = { manual: true, public_name: "Door", public_group: "Office" };
  const withComponents = (...components: object[]) => ({
    version: 1,
    status_pages: { main: { slug: "by-hand", name: "Shop", components } },
  });
  await apply(ctx, withComponents(phone, door, { ...door, public_group: "Hall" }));
  const stored = async () => {
    const [page] = await storedPages(ctx);
    return { pageId: page!.id, components: page!.components };
  };
  const { pageId, components: before } = await stored();
  matchObject(t, before, [
    { public_name: "Telephone", state: "degraded" },
    { state: "operational" },
    { target_id: null },
  ]);
  t.strictSame((await planOf(ctx, withComponents(phone, door, { ...door, public_group: "Hall" }))).changes, []);

  const { plan_token } = await planOf(ctx, withComponents(door, phone));
  await updateComponent(ctx, pageId, before[0]!.id, { state: "major_outage" });
  t.strictSame(
    (await planOf(ctx, withComponents(phone, door, { ...door, public_group: "Hall" }))).changes,
    [],
    "a state that was set is no difference",
  );
  matchObject(t, await applyConfig(ctx, { project: "shop", document: withComponents(door, phone), plan_token }), {
    summary: { update: 1 },
  });
  const idsOf = (some: readonly { id: string }[]) => some.map(({ id }) => id);
  const moved = (await stored()).components;
  t.strictSame(idsOf(moved), [before[1]!.id, before[0]!.id], "the same components in another order");
  matchObject(t, moved[1], { state: "major_outage" }, "with their states");
  await apply(ctx, withComponents(door, { ...phone, public_name: "Phone" }));
  matchObject(t, (await stored()).components[1], { id: before[0]!.id, public_name: "Phone" }, "renamed");

  const { document } = await exportOf(ctx, {});
  matchObject(t, document["status_pages"], {
    main: { components: [door, { manual: true, public_name: "Phone", state: "major_outage" }] },
  });
  t.strictSame((await planOf(ctx, document)).changes, []);
  matchObject(t, await refusal(t, () => planOf(ctx, withComponents({ ...phone, monitor: "db" }))), {
    field: "/document/status_pages/main/components/0/manual",
  });
});

t.test("the schema for editors knows every field, and no others", (t) => {
  const published = publishedSchema(ConfigDocument) as TSchema;
  t.ok(fits(ConfigDocument, shop));
  t.ok(fits(published, shop));
  t.ok(
    fits(
      published,
      changed((it) => it.status_pages.main.components.push({ manual: true, public_name: "Telephone" })),
    ),
  );
  const ladder = (after: unknown) =>
    changed((it) => {
      it.defaults.escalation = [{ after_minutes: after, channels: ["ops"] }];
      it.monitors.db.depends_on = ["web/front", { target_id: newId() }];
    });
  for (const schema of [ConfigDocument, published])
    for (const after of [10, "1h"]) t.ok(fits(schema, ladder(after)), "keys, and durations of levels");
  for (const wrong of [
    ladder("soon"),
    changed((it) => (it.monitors.db.regions_unable = [])),
    changed((it) => (it.defaults.adopt = newId())),
    changed((it) => (it.monitors.db.intervall = 5)),
    changed((it) => (it.monitors.db.check.timeout = "soon")),
    changed((it) => delete it.monitors.db.check),
    changed((it) => (it.monitor = {})),
  ])
    for (const schema of [ConfigDocument, published]) t.notOk(fits(schema, wrong));
  t.notMatch(JSON.stringify(published), /"(?:errorCode|form)":|#\/components/);
  t.end();
});

t.test("all faults of a document are found at once, with pointers", async (t) => {
  const ctx = await newOrg(system);
  const refused = await refusal(t, () =>
    planOf(ctx, {
      version: 2,
      project: "another",
      monitor: {},
      defaults: { intervall: 5 },
      moved: { monitors: { x: "nowhere" } },
      channels: {
        one: { name: "Same", config: { type: "slack", webhook_url: "${UNSET}" } },
        two: { name: "Two", config: { type: "ntfy", topic: "not a topic!" } },
      },
      monitors: {
        "web/front": {
          name: "",
          check: { type: "http", url: "ftp://shop" },
          alerts: ["nobody", { channel_id: newId() }, null],
        },
        Upper: { name: "X", check: { type: "tcp", host: "a", port: 1 } },
        slow: {
          name: "Slow",
          check: { type: "tcp", host: "a.example.org", port: 1, timeout: "1m30" },
          depends_on: ["x"],
          escalation: [{ after_minutes: "90s", channels: [] }],
        },
        odd: {
          name: "Odd",
          check: { type: "tcp", host: "a.example.org", port: 1 },
          interval: "1500ms",
          on_remove: "x",
        },
      },
      status_pages: {
        p: { slug: "p-p", name: "P", components: [{ manual: true }, { monitor: "gone" }, { monitor: 7 }] },
      },
      maintenance: { w: { title: "W", starts_at: "2126-01-02T00:00:00Z", ends_at: "2126-01-01T00:00:00Z" } },
    }),
  );
  const errors = (refused.details as { errors: { field: string; code: string }[] }).errors;
  const at = Object.fromEntries(errors.map(({ field, code }) => [field.replace("/document", ""), code]));
  matchObject(t, at, {
    "/version": "INVALID_BODY",
    "/project": "INVALID_BODY",
    "/monitor": "UNKNOWN_FIELD",
    "/defaults/intervall": "UNKNOWN_FIELD",
    "/moved/monitors/x": "INVALID_BODY",
    "/channels/one/config/webhook_url": "UNRESOLVED_VARIABLE",
    "/channels/two/config/topic": "INVALID_CHANNEL_CONFIG",
    "/monitors/web~1front/name": "EMPTY_NAME",
    "/monitors/web~1front/alerts/0": "UNKNOWN_REFERENCE",
    "/monitors/web~1front/alerts/1/channel_id": "UNKNOWN_REFERENCE",
    "/monitors/web~1front/alerts/2": "UNKNOWN_REFERENCE",
    "/monitors/Upper": "INVALID_BODY",
    "/monitors/slow/check/timeout": "INVALID_BODY",
    "/monitors/slow/depends_on/0": "UNKNOWN_REFERENCE",
    "/monitors/slow/escalation/0/after_minutes": "INVALID_BODY",
    "/monitors/odd/interval": "INVALID_BODY",
    "/monitors/odd/on_remove": "INVALID_BODY",
    "/status_pages/p/components/0/public_name": "INVALID_BODY",
    "/status_pages/p/components/1/monitor": "UNKNOWN_REFERENCE",
    "/status_pages/p/components/2/monitor": "UNKNOWN_REFERENCE",
    "/maintenance/w/ends_at": "INVALID_TIME_RANGE",
  });
  const many = Object.fromEntries(Array.from({ length: 300 }, (_, n) => [`m${n}`, { check: 5 }]));
  const hundred = await refusal(t, () => planOf(ctx, { version: 1, monitors: many }));
  t.equal((hundred.details as { errors: unknown[] }).errors.length, 100);
});

t.test("kinds of checks stay; quotas, intervals of the plan and slugs of others are refused at plan", async (t) => {
  const ctx = await newOrg(system, "free");
  const tcp = { type: "tcp", host: "a.example.org", port: 1 };
  await apply(ctx, { version: 1, monitors: { a: { name: "A", check: tcp } } });
  matchObject(
    t,
    await refusal(t, () =>
      planOf(ctx, {
        version: 1,
        monitors: { a: { name: "A", check: { type: "http", url: "https://a.example.org" } } },
      }),
    ),
    { code: "CHECK_KIND_IMMUTABLE", field: "/document/monitors/a/check/type" },
  );
  const many = Object.fromEntries(Array.from({ length: 21 }, (_, n) => [`m${n}`, { name: "M", check: tcp }]));
  matchObject(t, await refusal(t, () => planOf(ctx, { version: 1, monitors: many })), { code: "QUOTA_EXCEEDED" });
  await sql`update plans set max_components_per_page = 2 where id = 'free'`;
  const page = (count: number) => ({
    version: 1,
    status_pages: { p: { slug: "wide", name: "P", components: Array.from({ length: count }, () => "no component") } },
  });
  matchObject(
    t,
    await refusal(t, () => planOf(ctx, page(3))),
    { code: "QUOTA_EXCEEDED", details: { quota: "max_components_per_page", limit: 2 } },
    "before the components are judged",
  );
  matchObject(t, await refusal(t, () => planOf(ctx, page(2))), { code: "INVALID_BODY" });
  matchObject(t, await refusal(t, () => planOf(ctx, page(20_001))), {
    code: "BULK_TOO_LARGE",
    message: /at most 20000 components of status pages; this one has 20001/,
  });
  const times = { starts_at: "2126-11-20T22:00:00Z", ends_at: "2126-11-21T02:00:00Z" };
  const windows = (count: number, more: object) => ({
    version: 1,
    monitors: Object.fromEntries(
      Array.from({ length: 19 }, (_, n) => [`m${n}`, { name: `M${n}`, check: tcp, tags: ["all"] }]),
    ),
    maintenance: Object.fromEntries(
      Array.from({ length: count }, (_, n) => [`w${n}`, { title: "W", ...times, ...more }]),
    ),
  });
  for (const more of [{ tags: ["all"] }, { monitors: Array.from({ length: 19 }, (_, n) => `m${n}`) }])
    matchObject(t, await refusal(t, () => planOf(ctx, windows(5_264, more))), {
      code: "BULK_TOO_LARGE",
      message: /at most 100000 monitors of maintenance windows; this one has 100016 or more\. Divide/,
    });
  await sql`update plans set max_components_per_page = 1000 where id = 'free'`;
  matchObject(
    t,
    await refusal(t, () => planOf(ctx, { version: 1, monitors: { b: { name: "B", check: tcp, interval: 10 } } })),
    {
      code: "MIN_CHECK_INTERVAL",
      field: "/document/monitors/b/interval",
    },
  );
  await createPage(await newOrg(system), { slug: "foreign", name: "F" });
  matchObject(
    t,
    await refusal(t, () => planOf(ctx, { version: 1, status_pages: { p: { slug: "foreign", name: "P" } } })),
    {
      code: "SLUG_TAKEN",
    },
  );
});

t.test("a plan is stale after a change of what it read, and for another document, project or day", async (t) => {
  const ctx = await newOrg(system);
  const document = changed((it) => (it.status_pages.main.slug = "stale"));
  const plan = async () => (await planOf(ctx, document)).plan_token;
  const applied = (plan_token: string, more: object = {}) =>
    refusal(t, () => applyConfig(ctx, { project: "shop", document: structuredClone(document), plan_token, ...more }));
  const first = await plan();
  matchObject(t, await applied(first, { document: { ...document, version: 1, "x-more": 1 } }), { code: "PLAN_STALE" });
  matchObject(t, await applied(`${first}x`), { code: "PLAN_STALE" });
  matchObject(t, await applied("nonsense"), { code: "PLAN_STALE" });
  matchObject(t, await applied(first, { project: "other" }), { code: "PLAN_STALE" });
  const stranger = await newOrg(system);
  matchObject(t, await refusal(t, () => applyConfig(stranger, { project: "shop", document, plan_token: first })), {
    code: "PLAN_STALE",
  });
  clock.at += 86_400_000;
  matchObject(t, await applied(first), { code: "PLAN_STALE" });
  const second = await plan();
  await createChannel(ctx, { name: "New", config: { type: "slack", webhook_url: secretUrl } as never });
  matchObject(t, await applied(second), { code: "PLAN_STALE" }, "a channel with another name may collide");
  const third = await plan();
  const outcomes = await Promise.allSettled(
    [1, 2].map(() => applyConfig(ctx, { project: "shop", document: structuredClone(document), plan_token: third })),
  );
  t.strictSame(outcomes.map(({ status }) => status).sort(), ["fulfilled", "rejected"], "one of two applies wins");
  matchObject(
    t,
    outcomes.find(({ status }) => status === "rejected"),
    { reason: { code: "PLAN_STALE" } },
  );
  matchObject(t, (await planOf(ctx, document)).summary, nothing);
});

t.test("an apply that fails in its middle leaves nothing behind, and sends no mail", async (t) => {
  const ctx = await newOrg(system);
  const document = changed((it) => {
    it.status_pages.main.slug = "half";
    it.channels.mail = { name: "Mail", config: { type: "email", to: "ops@example.org" } };
  });
  const { plan_token } = await planOf(ctx, document);
  await sql.unsafe(`create function refuse() returns trigger language plpgsql as
    $$ begin raise exception 'the disk is full'; end $$;
    create trigger refuse before insert on maintenance_windows execute function refuse()`);
  const lines = world.log.lines.length;
  await t.rejects(applyConfig(ctx, { project: "shop", document, plan_token }), /disk is full/);
  await sql.unsafe("drop trigger refuse on maintenance_windows; drop function refuse()");
  for (const table of ["targets", "channels", "status_pages", "maintenance_windows", "audit_log", "declared_projects"])
    t.strictSame([...(await sql`select 1 from ${sql(table)} where org_id = ${ctx.orgId}`)], [], table);
  t.notMatch(JSON.stringify(world.log.lines.slice(lines)), /ops@example/);
  await applyConfig(ctx, { project: "shop", document, plan_token });
  t.match(JSON.stringify(world.log.lines.slice(lines)), /ops@example/, "the mail goes out after the commit");
  matchObject(t, (await planOf(ctx, document)).summary, nothing);
});

t.test("scopes are those of the kinds, pages are for owners, secrets for nobody", async (t) => {
  const ctx = await newOrg(system);
  const document = changed((it) => (it.status_pages.main.slug = "scopes"));
  await apply(ctx, document);
  const only = (...scopes: string[]): Ctx => ({ ...ctx, scopes: new Set(scopes) });
  const reader = only("targets:read", "channels:read", "status_page:read", "maintenance:read");
  const { plan_token } = await planOf(reader, document);
  matchObject(t, await refusal(t, () => applyConfig(reader, { project: "shop", document, plan_token })), {
    code: "INSUFFICIENT_SCOPE",
  });
  matchObject(
    t,
    await refusal(t, () => applyConfig(reader, { project: "shop", document, plan_token: "nonsense" })),
    { code: "INSUFFICIENT_SCOPE" },
    "before anything is said about the plan",
  );
  matchObject(
    t,
    await refusal(t, () => applyConfig({ ...ctx, role: "member" }, { project: "shop", document, plan_token: "" })),
    { code: "OWNER_REQUIRED" },
  );
  matchObject(t, await refusal(t, () => planOf(only("targets:read"), { version: 1 })), { code: "INSUFFICIENT_SCOPE" });
  matchObject(t, await refusal(t, () => planOf({ ...reader, role: "member" }, document)), { code: "OWNER_REQUIRED" });
  matchObject(t, await refusal(t, () => exportConfig(only("targets:read"), {})), { code: "INSUFFICIENT_SCOPE" });
  const shown = JSON.stringify([
    await planOf(
      reader,
      changed((it) => (it.channels.ops.name = "X")),
    ).catch(String),
    await exportOf(reader, {}),
  ]);
  t.notMatch(shown, /SECRET/);
});

const monitorsOf = (count: number, more: object = {}): Document =>
  Object.fromEntries(
    Array.from({ length: count }, (_, n) => [
      `m/${n}`,
      { name: `M${n}`, check: { type: "http", url: "https://a.example.org/", ...more } },
    ]),
  );

t.test("defaults are judged once: their faults point at them, and only those that a monitor would have", async (t) => {
  const ctx = await newOrg(system);
  const faultsOf = async (defaults: object, monitors: Document) => {
    const { message, field, details } = await refusal(t, () => planOf(ctx, { version: 1, defaults, monitors }));
    const errors = ((details as Loose)?.errors ?? [{ field, message }]) as { field: string }[];
    return errors.map((one) => one.field.replace("/document", "")).sort();
  };
  const defaults = {
    tags: ["", "${UNSET}", "fine"],
    interval: "soon",
    check: { timeout: "1m30", body: "${X} $${Y}", headers: { "X-A": 1 }, period: 5 },
  };
  t.same(await faultsOf(defaults, monitorsOf(500)), [
    "/defaults/check/body",
    "/defaults/check/headers/X-A",
    "/defaults/check/timeout",
    "/defaults/interval",
    "/defaults/tags/1",
  ]);
  const written = { ...monitorsOf(1, { timeout: 5000, body: null, headers: {} }) } as Loose;
  Object.assign(written["m/0"], { tags: [], interval: 60 });
  const { changes } = await planOf(ctx, { version: 1, defaults, monitors: written });
  matchObject(t, changes, [
    { fields: [{ path: "/name" }, { path: "/check" }, { path: "/tags" }, { path: "/interval" }] },
  ]);
  t.same(await faultsOf({ tags: Array.from({ length: 5_000 }, () => "x") }, monitorsOf(3)), ["/defaults/tags"]);
  t.same(await faultsOf({ alerts: Array.from({ length: 5_000 }, () => "x") }, monitorsOf(3)), ["/defaults/alerts"]);
});

t.test("what defaults add is bounded, a reply has the first changes, and a plan ends with its request", async (t) => {
  const ctx = await newOrg(system);
  const defaults = { check: { method: "POST", body: "x".repeat(30_000) } };
  matchObject(t, await refusal(t, () => planOf(ctx, { version: 1, defaults, monitors: monitorsOf(1_200) })), {
    code: "PAYLOAD_TOO_LARGE",
    field: "/document/defaults",
    message: /With their defaults the monitors have 35 MiB; at most 32 MiB/,
  });
  const large = { version: 1, defaults, monitors: monitorsOf(1_110) };
  const { summary, changes, warnings } = await planOf(ctx, large);
  t.equal(summary["create"], 1_110);
  t.ok(changes.length > 1_000 && changes.length < 1_110, String(changes.length));
  t.ok(JSON.stringify(changes).length <= 32 * 1024 * 1024);
  matchObject(t, warnings, [`The reply has the first ${changes.length} of 1110 changes`]);
  let asked = 0;
  const gone = { ...ctx, isGone: () => ++asked > 3 };
  await t.rejects(planOf(gone, large), { name: "ClientGone" });
  t.equal(asked, 4, "nothing is done after that");
});

t.test("one object of a document is bounded in fields and in the length of its texts", async (t) => {
  const ctx = await newOrg(system);
  const fields = Object.fromEntries(Array.from({ length: 1_001 }, (_, n) => [`f${n}`, n]));
  const refused = (document: Document) => refusal(t, () => planOf(ctx, { version: 1, ...document }));
  matchObject(t, await refused({ monitors: { a: fields } }), {
    field: "/document/monitors/a",
    message: /at most 1000 fields/,
  });
  matchObject(t, await refused({ monitors: monitorsOf(1, { headers: fields }) }), {
    field: "/document/monitors/m~10/check/headers",
  });
  matchObject(t, await refused({ monitors: { a: { name: "$${".repeat(100_000) } } }), {
    field: "/document/monitors/a/name",
    message: /at most 262144 characters/,
  });
  matchObject(t, await refused({ defaults: { check: fields } }), { field: "/document/defaults/check" });
  matchObject(t, await refused({ monitors: { a: { name: "$${A} $$${B} ${C} ${D}" } } }), {
    code: "UNRESOLVED_VARIABLE",
    message: /^\$\{C\} has no value/,
  });
});

t.test("monitors depend on keys, also on new ones; exported and compared; a cycle is refused at plan", async (t) => {
  const ctx = await newOrg(system);
  const check = { type: "tcp", host: "a.example.org", port: 1 };
  const monitors = (depends: Record<string, unknown[]>) => ({
    version: 1,
    monitors: Object.fromEntries(
      Object.entries(depends).map(([key, parents]) => [key, { name: key, check, alerts: [], depends_on: parents }]),
    ),
  });
  await apply(ctx, monitors({ db: [], web: ["db"] }));
  t.strictSame((await planOf(ctx, monitors({ db: [], web: ["db"] }))).changes, []);
  await apply(ctx, monitors({ db: ["switch"], web: ["db"], switch: [] }));
  const [web] = await sql<{ id: string }[]>`select id from targets where org_id = ${ctx.orgId} and name = 'web'`;
  const { document } = await exportOf(ctx, { project: "shop" });
  matchObject(t, document, { monitors: { web: { depends_on: ["db"] }, db: { depends_on: ["switch"] } } });
  t.equal((await getTarget(ctx, web!.id)).depends_on.length, 1);
  const cycle = monitors({ db: ["switch"], web: ["db"], switch: ["web"], top: ["web"] });
  const refused = await refusal(t, () => planOf(ctx, cycle));
  const errors = ["switch", "db", "web"].map((key) => `/document/monitors/${key}/depends_on`);
  const found = (refused.details as { errors: { field: string }[] }).errors.map(({ field }) => field);
  t.strictSame(found.sort(), errors.sort(), "and not the one that depends on it");
  const outside = monitors({ own: [{ target_id: newId() }] });
  await t.rejects(planOf(ctx, outside), { code: "UNKNOWN_REFERENCE" });
});

t.test("an export is the document of what is stored", async (t) => {
  const ctx = await newOrg(system);
  const document = changed((it) => {
    it.status_pages.main.slug = "export";
    it.monitors["web/front"].check.headers = { "X-Api-Key": "SECRET $${X}", Accept: "a $${b}" };
    it.monitors.backup.heartbeat_addresses = [{ kind: "kuma", value: "SECRET-address" }];
    it.channels.ops.route = { tags: ["shop", "web"], match: "all" };
    const members = [{ monitor: "db" }, { tag: "web" }, { monitor: "web/front" }];
    it.monitors.all = { name: "All", check: { type: "group", members, rule: { at_least: 2 } } };
  });
  await apply(ctx, document);
  matchObject(t, (await exportOf(ctx, { project: "shop" })).document, {
    channels: { ops: { route: { tags: ["shop", "web"], match: "all" } } },
    monitors: { all: { check: { members: [{ monitor: "db" }, { tag: "web" }, { monitor: "web/front" }] } } },
  });
  const { document: exported, secrets } = await exportOf(ctx, { project: "shop" });
  t.notMatch(JSON.stringify(exported), /SECRET/);
  t.strictSame(secrets.map(({ name }) => name).sort(), [
    "BACKUP_HEARTBEAT_ADDRESSES_0_VALUE",
    "OPS_WEBHOOK_URL",
    "WEB_FRONT_BEARER_TOKEN",
    "WEB_FRONT_HEADERS_X_API_KEY",
  ]);
  const values: Record<string, string> = {
    BACKUP_HEARTBEAT_ADDRESSES_0_VALUE: "SECRET-address",
    OPS_WEBHOOK_URL: secretUrl,
    WEB_FRONT_BEARER_TOKEN: "SECRET-OF-FRONT",
    WEB_FRONT_HEADERS_X_API_KEY: "SECRET $${X}",
  };
  t.strictSame((await planOf(ctx, filledIn(exported, values))).changes, []);
  const kept = Object.fromEntries(secrets.map(({ name }) => [name, "***"]));
  t.strictSame((await planOf(ctx, filledIn(exported, kept))).changes, [], "*** keeps what is stored");
  matchObject(t, (await exportOf(ctx, { tag: "shop" })).document, { channels: { ops: {} }, monitors: { db: {} } });
});

/** The document with its variables filled in, as a client does. */
function filledIn(document: object, values: Record<string, string>): Document {
  return JSON.parse(
    JSON.stringify(document).replaceAll(/(?<!\$)\$\{([A-Z0-9_]+)\}/g, (_, name: string) =>
      JSON.stringify(values[name]).slice(1, -1),
    ),
  ) as Document;
}

t.test("a stored secret is kept by ***, but not for another server", async (t) => {
  const ctx = await newOrg(system);
  const document = { version: 1, monitors: shop["monitors"] as Loose, channels: shop["channels"] };
  await apply(ctx, document);
  const kept = structuredClone(document);
  kept.monitors["web/front"].check.bearer_token = "***";
  t.strictSame((await planOf(ctx, kept)).changes, []);
  kept.monitors["web/front"].check.url = "https://attacker.example.org/";
  matchObject(t, await refusal(t, () => planOf(ctx, kept)), {
    code: "CREDENTIALS_REQUIRED",
    field: "/document/monitors/web~1front/check/bearer_token",
  });
});

t.test("over HTTP: sizes, numbers of objects and broken JSON are refused", async (t) => {
  const ctx = await newOrg(system);
  const ask = await serve(t, system, declaredRoutes, { tenant: () => ctx });
  const path = "/api/v1/config/plan";
  const raw = async (body: string) => {
    const response = await fetch(ask.origin + path, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body,
    });
    const { error } = (await response.json()) as { error: { code: string; field: string | null } };
    return { status: response.status, code: error.code, field: error.field };
  };
  const around = (monitors: string) => `{"project":"shop","document":{"version":1,"monitors":{${monitors}}}}`;
  const filler = `"x":"${"y".repeat(1000)}",`.repeat(1100);
  matchObject(t, await raw(around("z".repeat(16 * 1_048_576 + 1))), { status: 413, code: "PAYLOAD_TOO_LARGE" });
  matchObject(t, await raw(around(`"a":{"name":"${"y".repeat(10 * 1_048_576)}"}`)), {
    status: 413,
    code: "PAYLOAD_TOO_LARGE",
  });
  matchObject(
    t,
    await raw(around(Array.from({ length: 20_001 }, (_, n) => `"m${n}":{"name":"${"y".repeat(50)}"}`).join())),
    {
      status: 413,
      code: "BULK_TOO_LARGE",
    },
  );
  const some = Array.from({ length: 30 }, (_, n) => `"m${n}":{"name":"${"y".repeat(40_000)}"}`).join();
  matchObject(t, await raw(around(`${some},"m1":{}`)), {
    status: 400,
    code: "INVALID_BODY",
    field: "/document/monitors/m1",
  });
  matchObject(t, await raw(around(`${some},`)), { status: 400, code: "INVALID_JSON" });
  matchObject(t, await raw(around(`${some},"a":{},,"b":{}`)), { status: 400, code: "INVALID_JSON" });
  matchObject(t, await raw(around(`${some},"a" 5:{}`)), { status: 400, code: "INVALID_JSON" });
  matchObject(t, await raw(around(`${some},"__proto__":{}`)), { status: 400, code: "INVALID_BODY" });
  matchObject(t, await raw(around(`${some},"deep":${"[".repeat(100)}${"]".repeat(100)}`)), {
    status: 400,
    code: "INVALID_BODY",
  });
  matchObject(t, await raw(`{"project":"shop",${filler}"document":{}}`), { status: 413 });
  const large = Object.fromEntries(
    Array.from({ length: 3000 }, (_, n) => [
      `m${n}`,
      { name: `M ${n}`, check: { type: "http", url: `https://m${n}.example.org/${"p".repeat(400)}` } },
    ]),
  );
  const { status, body } = await ask("POST", path, { project: "shop", document: { version: 1, monitors: large } });
  matchObject(t, { status, ...body.summary }, { status: 200, create: 3000 }, "a large document is read in slices");
});

const letters = fc.string({ unit: fc.constantFrom(..."abcXYZ ö$".split(""), "${", "}"), minLength: 1, maxLength: 8 });
/** A text that people read, as a client writes it. */
const text = letters.map((it) => `n${it.replaceAll("${", () => "$${")}`);
const key = fc.stringMatching(/^[a-z0-9._/-]{1,12}$/);
const optional = <T>(record: { [K in keyof T]: fc.Arbitrary<T[K]> }, requiredKeys: (keyof T)[]) =>
  fc.record(record, { requiredKeys } as never);
const flag = fc.boolean();
const choice = (...values: unknown[]): fc.Arbitrary<unknown> => fc.constantFrom(...values);
const headers = fc.dictionary(fc.constantFrom("X-Key", "Accept", "X-Other"), fc.constantFrom("v1", "v2"));
const host = { host: fc.constant("a.example.org"), port: fc.integer({ min: 1, max: 65_535 }) };
const timing = { timeout: choice(100, "5s", "1m", null), degraded_above_ms: choice(60, null) };
const ipVersion = { ip_version: choice("any", "4") };
const certificates = { certificates: choice({ ca_id: null }, { client_id: null, ca_id: null }, null) };
const tlsFields = { ...certificates, server_name: choice("b.example.org", null), verify_tls: flag };
/** Values for every field of every kind of check. */
const checkFields: Record<CheckType, Record<string, fc.Arbitrary<unknown>>> = {
  http: {
    url: choice("https://a.example.org/", "http://b.example.org/x?y=1"),
    method: choice("POST", "PUT"),
    ...timing,
    down_above_ms: choice(90, null),
    follow_redirects: flag,
    max_redirects: fc.integer({ min: 0, max: 20 }),
    expected_status: choice({ kind: "exact", value: 204 }, { kind: "one_of", value: [200, 301] }),
    expected_body_contains: fc.option(text),
    expected_body_absent: fc.option(text),
    body_case_insensitive: flag,
    expected_body_matches: choice("a+b", null),
    expected_body_not_matches: choice("(?i)error", null),
    expected_json: choice(
      [],
      [
        { path: "$.status", op: "eq", value: "ok" },
        { path: "$.n", op: "exists" },
      ],
    ),
    expected_headers: choice([], [{ name: "X-Age", op: "lt", value: 5 }]),
    headers,
    body: choice("a=b", null),
    verify_tls: flag,
    ...certificates,
    ...ipVersion,
    basic_auth: choice(["u", "p"], null),
    auth_scheme: choice("digest", "basic"),
    bearer_token: choice("t1", "t2", null),
    capture_failures: flag,
  },
  tcp: {
    ...host,
    ...timing,
    ...tlsFields,
    tls: choice("tls", "starttls_smtp", "starttls_ldap"),
    greeting: choice("220 ", null),
    ...ipVersion,
    send: choice("PING\\r\\n", null),
    expect: fc.option(text),
  },
  ping: {
    host: host.host,
    packets: fc.integer({ min: 1, max: 10 }),
    max_loss_pct: fc.integer({ min: 0, max: 99 }),
    timeout: choice("5s", 3000, null),
    degraded_above_ms: timing.degraded_above_ms,
    ...ipVersion,
  },
  dns: {
    domain: choice("example.org"),
    record_type: choice("A", "MX"),
    resolver: choice("9.9.9.9", "dns.example.org"),
    expected_contains: fc.option(text),
    expected_exactly: choice([], ["192.0.2.1"]),
    expected_absent: choice([], ["192.0.2.", "10.0.0.1"]),
    expected_rcode: choice("NOERROR", null),
    ...ipVersion,
    ...timing,
  },
  grpc: {
    ...host,
    service: choice("", "shop.Checkout"),
    tls: choice(true),
    ...tlsFields,
    metadata: choice({}, { accept: "a/b" }),
    ...timing,
    ...ipVersion,
  },
  websocket: {
    url: choice("wss://a.example.org/live", "ws://b.example.org/"),
    send: choice("hello", null),
    expect: fc.option(text),
    ...ipVersion,
    headers,
    subprotocols: choice([], ["chat.v2", "chat.v1"]),
    ...certificates,
    verify_tls: flag,
    ...timing,
  },
  tls_cert: {
    ...host,
    server_name: tlsFields.server_name,
    ...certificates,
    starttls: choice("none", "smtp", "postgres"),
    judge: choice("leaf", "chain"),
    warn_days: choice(20, "30d"),
    critical_days: fc.integer({ min: 1, max: 13 }),
    ...ipVersion,
    timeout: timing.timeout,
  },
  domain_expiry: {
    domain: choice("example.org"),
    warn_days: choice(20, "30d"),
    critical_days: fc.integer({ min: 1, max: 6 }),
    expires_on: choice("2027-02-04", null),
    timeout: choice("9s", null),
  },
  container: { name: choice("web"), label: choice(null), timeout: choice("9s", null) },
  exec: { command: choice("check_disk"), timeout: choice("9s", null) },
  status_page: {
    url: choice("https://status.example.org"),
    component: choice("API", null),
    timeout: choice("9s", null),
  },
  heartbeat: {
    period: choice(60_000, "1h"),
    schedule: choice({ cron: "0 3 * * *", timezone: "Europe/Berlin" }, null),
    grace: choice("5m", null),
    max_runtime: choice("1h", null),
    methods: choice("any", "post"),
  },
  group: {
    members: choice([], [{ tag: "g1" }, { tag: "g2" }]),
    rule: choice("any", "all", { at_least: 2 }, { percent: 50 }),
    degraded_below: choice(100, null),
    hold_members: flag,
  },
};
const isSecretive = (check: Loose): boolean =>
  (check.bearer_token ?? check.basic_auth ?? check.send ?? null) !== null ||
  /X-/.test(JSON.stringify(check.headers ?? {}));
const checks = fc.oneof(
  ...checkTypes.map((type) => {
    const { properties, required } = checkKinds[type].schema as unknown as Loose;
    const needed = (required as string[]).filter((name) => properties[name].default === undefined);
    return optional(
      { type: fc.constant(type), ...checkFields[type] } as Record<string, fc.Arbitrary<unknown>>,
      needed,
    ).map((made) => {
      const check: Loose = { ...made };
      if (check.bearer_token) delete check.basic_auth;
      if (!check.basic_auth) delete check.auth_scheme;
      // GET, the default, has no body.
      if (type === "http" && check.body) check.method = "POST";
      // Secrets are not sent to a server whose certificate is not verified.
      if (isSecretive(check) && check.verify_tls !== undefined) check.verify_tls = true;
      if (check.server_name && check.tls === undefined && type === "tcp") delete check.server_name;
      // It says how the name server is reached.
      if (type === "dns" && !check.resolver) delete check.ip_version;
      if (type === "heartbeat" && check.schedule) delete check.period;
      else if (type === "heartbeat") check.period ??= "1h";
      // A name or a label.
      if (type === "container") check.name ??= "web";
      return check;
    });
  }),
);

t.test("the generated checks have every field of every kind", (t) => {
  for (const type of checkTypes) {
    const { type: _, ...fields } = checkKinds[type].schema.properties;
    t.strictSame(Object.keys(checkFields[type]).sort(), Object.keys(fields).sort(), type);
  }
  t.end();
});

const configs = fc.oneof(
  fc.constantFrom("s1", "s2").map((it) => ({ type: "slack", webhook_url: `https://hooks.slack.com/services/${it}` })),
  optional(
    {
      type: fc.constant("webhook"),
      url: fc.constant("https://w.example.org/"),
      headers: fc.constant({ "X-Key": "k" }),
      secret: fc.option(fc.constant("0123456789abcdef")),
    },
    ["type", "url"],
  ),
  optional({ type: fc.constant("ntfy"), topic: fc.constant("topic"), access_token: fc.option(fc.constant("t")) }, [
    "type",
    "topic",
  ]),
);
/** Documents of every kind and field, whose references exist. */
const documents = fc
  .record({
    channels: fc.dictionary(
      key,
      optional(
        {
          config: configs,
          enabled: flag,
          is_default: flag,
          active_hours: fc.constantFrom(null, {
            timezone: "Europe/Berlin",
            days: ["fr", "mo"],
            from: "22:00",
            to: "06:00",
            outside: "drop",
          }),
          min_severity: fc.constantFrom("minor", "major", "critical"),
          on_remove: fc.constantFrom("keep", "pause", "delete"),
        },
        ["config"],
      ),
      { maxKeys: 3 },
    ),
    monitors: fc.dictionary(
      key,
      optional(
        {
          name: text,
          check: checks,
          interval: fc.constantFrom<unknown>(86_400, "1d", null),
          enabled: flag,
          tags: fc.array(fc.constantFrom("a", "b", "ö"), { maxLength: 4 }),
          alert_confirmations: fc.integer({ min: 1, max: 5 }),
          notify_recovery: flag,
          renotify_interval_secs: fc.constantFrom<unknown>(0, "2h", null),
          region_policy: fc.constantFrom<unknown>("any", "all", { count: 1 }),
          severity: fc.constantFrom("major", "critical"),
          flap_detection: flag,
          regions: fc.constantFrom(["eu"], ["us", "eu"]),
          alerts: fc.constant("some"),
          on_remove: fc.constantFrom("keep", "pause", "delete"),
        },
        ["name", "check"],
      ),
      { maxKeys: 5 },
    ),
    status_pages: fc.dictionary(
      key,
      optional(
        {
          name: text,
          enabled: flag,
          subscriptions_enabled: flag,
          branding: optional(
            {
              about: fc.option(text),
              brand_color: fc.constant("#2557D6"),
              timezone: fc.constantFrom("UTC", "Europe/Berlin"),
              style: fc.constantFrom("dark", "auto"),
            },
            [],
          ),
          custom_domain: fc.constant(null),
          components: fc.constant("some"),
        },
        ["name"],
      ),
      { maxKeys: 2 },
    ),
    maintenance: fc.dictionary(
      key,
      optional(
        {
          title: text,
          description: fc.option(text),
          starts_at: fc.constantFrom("2126-11-20T22:00:00Z", "2126-11-20T22:00:00.000Z"),
          ends_at: fc.constant("2126-11-21T02:00:00Z"),
          recurrence: fc.option(
            fc.constantFrom(
              { rule: "FREQ=WEEKLY;BYDAY=WE", time_zone: "UTC" },
              { rule: "INTERVAL=2;FREQ=DAILY", time_zone: "Europe/Berlin" },
            ),
          ),
          monitors: fc.constant("some"),
          tags: fc.constantFrom(["a"], ["b", "none"]),
        },
        ["title", "starts_at", "ends_at"],
      ),
      { maxKeys: 2 },
    ),
    defaults: optional(
      {
        interval: fc.constant("2d"),
        tags: fc.constant(["d"]),
        check: fc.constant({ timeout: "7s", verify_tls: false }),
      },
      [],
    ),
  })
  .map((generated): Document => {
    const document = structuredClone(generated) as Loose;
    const [channels, monitors] = [Object.keys(document.channels), Object.keys(document.monitors)];
    const probedOnly = ["interval", "region_policy", "regions", "alert_confirmations"];
    for (const [n, name] of channels.entries()) document.channels[name].name = `C ${n}`;
    for (const monitor of Object.values<Loose>(document.monitors)) {
      if (monitor.alerts !== undefined) monitor.alerts = channels.slice(0, 2);
      if (isSecretive(monitor.check) && document.defaults.check) delete document.defaults.check.verify_tls;
      if (monitor.check.type === "heartbeat") for (const field of probedOnly) delete monitor[field];
    }
    for (const [n, page] of Object.values<Loose>(document.status_pages).entries()) {
      page.slug = `generated-${n}`;
      if (page.components !== undefined) page.components = monitors.map((monitor) => ({ monitor, public_group: "g" }));
    }
    for (const window of Object.values<Loose>(document.maintenance))
      if (window.monitors !== undefined) window.monitors = monitors.slice(0, 2);
    return { version: 1, ...document };
  });

t.test("generated documents: what was applied is unchanged, whatever was before, and so is its export", async (t) => {
  const ctx = await newOrg(system);
  const seed = process.env["SM_TEST_SEED"];
  await fc.assert(
    fc.asyncProperty(documents, async (document) => {
      for (const table of ["targets", "channels", "status_pages", "maintenance_windows"])
        await sql`delete from ${sql(table)} where org_id = ${ctx.orgId}`;
      await apply(ctx, document);
      t.ok(fits(ConfigDocument, document), "the schema for editors takes it");
      const again = await planOf(ctx, document);
      t.strictSame(again.changes, [], "nothing is left to do");
      const exported = await exportOf(ctx, { project: "shop" });
      t.ok(fits(ConfigDocument, exported.document));
      const kept = Object.fromEntries(exported.secrets.map(({ name }) => [name, "***"]));
      t.strictSame((await planOf(ctx, filledIn(exported.document, kept))).changes, [], "of its export neither");
      await sql`update targets set managed = null where org_id = ${ctx.orgId}`;
      await sql`update channels set managed = null where org_id = ${ctx.orgId}`;
      const adopting = await exportOf(ctx, {});
      const filled = Object.fromEntries(adopting.secrets.map(({ name }) => [name, "***"]));
      const { project = "shop" } = adopting.document as { project?: string };
      if (project !== "shop") return;
      const plan = await planOf(ctx, filledIn(adopting.document, filled));
      for (const change of plan.changes) matchObject(t, change, { action: "adopt", fields: [] });
    }),
    { numRuns: 15, ...(seed === undefined ? {} : { seed: Number(seed) }) },
  );
});

t.test("the export of 600 objects of all kinds plans nothing, declared and adopted", async (t) => {
  const ctx = await newOrg(system);
  const each = (count: number, make: (n: number) => object) =>
    Object.fromEntries(Array.from({ length: count }, (_, n) => [`o${n}`, make(n)]));
  const specs = fc.sample(checks, { numRuns: 510, seed: 24 }) as Loose[];
  const document = {
    version: 1,
    channels: each(30, (n) => ({
      name: `C ${n}`,
      is_default: n === 7,
      ...(n % 5 === 0
        ? { active_hours: { timezone: "UTC", days: ["mo"], from: "08:00", to: "18:00", outside: "hold" } }
        : {}),
      config: fc.sample(configs, { numRuns: 1, seed: n })[0],
    })),
    monitors: each(510, (n) => ({
      name: `M ${n}`,
      check: specs[n],
      tags: [`t${n % 9}`, "a"],
      ...(n % 3 === 0 ? { alerts: [`o${n % 30}`, `o${(n + 1) % 30}`] } : {}),
      ...(specs[n].type === "heartbeat" ? {} : { interval: 86_400 + n, region_policy: { count: 1 } }),
    })),
    status_pages: each(30, (n) => ({
      slug: `large-${n}`,
      name: `P ${n}`,
      components: [n, n + 30, n + 60].map((at) => ({ monitor: `o${at}`, public_group: `g${at % 2}` })),
    })),
    maintenance: each(30, (n) => ({
      title: `W ${n}`,
      starts_at: "2126-11-20T22:00:00Z",
      ends_at: "2126-11-21T02:00:00Z",
      monitors: [`o${n}`],
      tags: ["t3"],
    })),
  };
  matchObject(t, (await apply(ctx, document)).summary, { ...nothing, create: 600 });
  for (const adopts of [false, true]) {
    if (adopts)
      for (const table of ["targets", "channels", "status_pages", "maintenance_windows"])
        await sql`update ${sql(table)} set managed = null where org_id = ${ctx.orgId}`;
    const { document: exported, secrets } = await exportOf(ctx, {});
    const project = (exported as { project: string }).project;
    const filled = filledIn(exported, Object.fromEntries(secrets.map(({ name }) => [name, "***"])));
    const { changes, summary } = await planConfig(ctx, { project, document: filled });
    matchObject(t, summary, adopts ? { ...nothing, adopt: 600 } : { ...nothing, unchanged: 600 });
    t.strictSame(
      changes.flatMap(({ fields }) => fields),
      [],
      "nothing would change",
    );
  }
});

t.test("what discovery finds no more is paused after a minute, deleted after the grace, and comes back", async (t) => {
  const ctx = await newOrg(system);
  const found = (keys: readonly string[]): Document => ({
    version: 1,
    monitors: Object.fromEntries(
      keys.map((key) => [
        key,
        {
          name: key,
          check: { type: "tcp", host: `${key}.example.org`, port: 80 },
          source: { object: `Docker, host nas, container ${key}`, scope: key === "swarm" ? "services" : "containers" },
        },
      ]),
    ),
  });
  const source = { writer: "one", grace_secs: 600, seen: ["containers"], kept: [] as string[] };
  const cycle = (keys: readonly string[], more: object = {}, options: object = {}) =>
    apply(ctx, found(keys), { source: { ...source, ...more }, ...options });
  /** Each monitor as paused or enabled, and since how many minutes it is gone. */
  const monitors = async () =>
    Object.fromEntries(
      (
        await sql<{ name: string; enabled: boolean; since: string | null }[]>`
          select name, enabled, managed ->> 'orphaned_since' as since from targets
          where org_id = ${ctx.orgId} order by name`
      ).map(({ name, enabled, since }) => [
        name,
        `${enabled ? "enabled" : "paused"}${since === null ? "" : ` ${(clock.now() - Date.parse(since)) / minute}`}`,
      ]),
    );
  const all = ["db", "swarm", "web"];
  await cycle(all);
  t.strictSame(await monitors(), { db: "enabled", swarm: "enabled", web: "enabled" });
  const rows = await sql<{ id: string; name: string }[]>`select id, name from targets where org_id = ${ctx.orgId}`;
  const idOf = (name: string): string => rows.find((row) => row.name === name)!.id;
  t.strictSame((await getTarget(ctx, idOf("web"))).managed_by, {
    project: "shop",
    key: "web",
    source: "Docker, host nas, container web",
  });

  await cycle([]);
  t.strictSame(await monitors(), { db: "enabled 0", swarm: "enabled", web: "enabled 0" }, "an unread list stays");
  clock.at += minute;
  await reportIncident(ctx, { target_id: idOf("db"), severity: "major", public_title: "Down", message: "no answer" });
  await cycle([]);
  t.strictSame(await monitors(), { db: "enabled 1", swarm: "enabled", web: "paused 1" }, "an open incident is watched");
  t.match(String((await getTarget(ctx, idOf("web"))).managed_by?.orphaned_since), /^2\d{3}-/);
  await cycle([], { seen: [] });
  clock.at += minute;
  await cycle(["web"], { kept: ["db"] });
  t.strictSame(await monitors(), { db: "enabled 2", swarm: "enabled", web: "enabled" }, "what it paused is resumed");
  t.equal((await sql`select 1 from targets where id = ${idOf("web")}`).length, 1, "the same monitor");

  await updateTarget(ctx, idOf("web"), { enabled: false });
  await cycle([], {});
  clock.at += 2 * minute;
  await cycle(["web"]);
  t.strictSame((await monitors())["web"], "paused", "a manual pause stays");

  clock.at += 10 * minute;
  const limited = await cycle(["web"], {}, { max_delete: 0 });
  t.match(limited.warnings.join(), /1 monitors are gone, more than max_delete allows \(0\)/);
  t.ok((await monitors())["db"]);
  await cycle(["web"], { kept: ["db"] });
  await cycle(["web"], { seen: [] });
  t.ok((await monitors())["db"], "what is wrong, or of a list that failed, is not deleted");
  await cycle(["web"]);
  t.strictSame(await monitors(), { swarm: "enabled", web: "paused" }, "deleted after the grace");

  const entries = async () => (await sql`select 1 from audit_log where org_id = ${ctx.orgId}`).length;
  const before = await entries();
  await cycle(["web"]);
  t.equal(await entries(), before, "a run without changes is no entry of the log");

  for (const other of [{ source: { ...source, writer: "two" } }, {}])
    matchObject(t, await refusal(t, () => apply(ctx, found(["web"]), other)), { code: "SOURCE_IN_USE" });
  const report = { project: "shop", writer: "one", name: "Docker, host nas" };
  matchObject(t, await refusal(t, () => reportSource(ctx, { ...report, writer: "two" })), { code: "SOURCE_IN_USE" });
  const wrong = [{ object: "container x", reason: "no JSON" }];
  await reportSource(ctx, { ...report, error: "the socket does not answer", wrong });
  const [project] = (await listProjects(ctx)).projects;
  matchObject(t, project!.source!, {
    name: "Docker, host nas",
    error: "the socket does not answer",
    wrong,
    ignored: [],
  });
  await t.rejects(sourcesInWords(system), { message: "shop: the socket does not answer" });
  await reportSource(ctx, report);
  t.equal(await sourcesInWords(system), "shop report");
  await reportSource(ctx, { ...report, release: true });
  await cycle(["web"], { writer: "two" });
  clock.at += 15 * minute;
  await t.rejects(sourcesInWords(system), /nothing was reported since/);
  await cycle(["web"], { writer: "one" });
  const other = await newOrg(system);
  matchObject(t, await refusal(t, () => planOf(other, found(["web"]))), { code: "UNKNOWN_FIELD" });
});

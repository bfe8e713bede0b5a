import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { heartbeat } from "@statusmesh/shared/checks/heartbeat";
import { newId } from "@statusmesh/shared/ids";
import { validate } from "@statusmesh/shared/schema/validate";
import { explainIncident } from "../../../alerting/incidents/explanation/service.ts";
import { listEvents } from "../../../alerting/incidents/timeline/service.ts";
import type { Ctx } from "../../../platform/context.ts";
import type { Db } from "../../../platform/db/client/sql.ts";
import { computeStatus } from "../../../publishing/public/page/compute.ts";
import { componentsOf } from "../../../publishing/public/service.ts";
import { addComponent } from "../../../publishing/status-pages/components/components.ts";
import { createPage } from "../../../publishing/status-pages/service.ts";
import { pageToPreview } from "../../../publishing/status-pages/visits/service.ts";
import { announce } from "../../../publishing/subscribers/announce.ts";
import { day, hour, minute, noon } from "../../../testing/clock.ts";
import { openOutages } from "../../../testing/outages.ts";
import { newOrg, refusal } from "../../../testing/world.ts";
import { createTarget } from "../../targets/write/service.ts";
import { deleteTarget } from "../../targets/service.ts";
import { importHistory } from "./import.ts";
import { HistoryImport } from "./schema.ts";
import { readBeats, uptimesOf } from "../history/service.ts";
import { recentHistory, uptime } from "../service.ts";

const world = await openOutages(t);
const { sql, clock, system, owner, monitor, report, incidents, notices } = world;

t.beforeEach(() => {
  clock.at = noon;
});

const iso = (at: number) => new Date(at).toISOString();
const dateOf = (daysAgo: number) => iso(noon - daysAgo * day).slice(0, 10);
const bring = (items: object[], ctx: Ctx = owner) => importHistory(ctx, validate(HistoryImport, { items }));
const refused = (t: Parameters<typeof refusal>[0], item: object, ctx?: Ctx) => refusal(t, () => bring([item], ctx));
const last = (days: number) => ({ from: iso(noon - days * day), to: iso(noon) });

t.test("imported days count in uptime, strips, lists, metrics and on pages, and are marked", async (t) => {
  const target = await monitor();
  const days = [
    { date: dateOf(3), up: 90, down: 10, avg_ms: 12.5 },
    { date: dateOf(2), up: 100 },
    { date: dateOf(1), up: 60, degraded: 20, down: 10, error: 10 },
  ];
  matchObject(t, await bring([{ target_id: target, days }]), { targets: 1, days: 3, incidents: 0 });
  clock.advance(minute);
  await report(target, "PPPP");
  clock.at = noon + 2 * minute;

  matchObject(t, await uptime(owner, target, { from: last(10).from, to: iso(clock.at) }), {
    total: 304,
    down: 20,
    error: 10,
    imported: 300,
    uptime_pct: (100 * 274) / 304,
  });
  t.notOk("imported" in (await uptime(owner, target, { from: iso(noon), to: iso(clock.at) })));
  t.equal((await uptime(owner, target, { from: last(10).from, to: iso(clock.at), region: "eu" })).total, 4);

  const beats = (await readBeats(owner, target, "days", 60)).slice(-5);
  t.strictSame(
    beats.map(({ state, imported }) => [state, imported ?? false]),
    [
      ["none", false],
      ["partial", true],
      ["up", true],
      ["partial", true],
      ["up", false],
    ],
  );
  matchObject(t, (await recentHistory(owner, [target])).get(target), { uptime30d: (100 * 274) / 304 });
  matchObject(t, (await uptimesOf(owner)).get(target), { "30d": 270 / 300, "24h": null });

  const page = await createPage(owner, { slug: "shop", name: "Shop" });
  await addComponent(owner, page.id, { target_id: target });
  const [component] = componentsOf((await computeStatus(system, await pageToPreview(owner, page.id))).status);
  matchObject(t, component!.history.slice(-5), [
    { state: "no_data" },
    { state: "partial_outage", downtime_secs: 8640, imported: true },
    { state: "operational", downtime_secs: 0, imported: true },
    { state: "partial_outage", downtime_secs: 17_280, imported: true },
    { state: "operational", downtime_secs: 0 },
  ]);
  t.notOk("imported" in component!.history.at(-1)!);
  t.ok(Math.abs(component!.uptime_pct! - 90) < 0.1, String(component!.uptime_pct));
});

t.test("a heartbeat, whose uptime is by time, counts the failing share of an imported day", async (t) => {
  const check = validate(heartbeat.schema, { type: "heartbeat", period: 60_000 });
  const { id } = await createTarget(owner, { name: "Backup", check });
  await bring([{ target_id: id, days: [{ date: dateOf(1), up: 3, down: 1 }, { date: dateOf(2) }] }]);
  matchObject(t, await uptime(owner, id, last(3)), { total: 4, uptime_pct: 75, imported: 4 });
  matchObject(t, (await readBeats(owner, id, "days", 60)).slice(-3), [
    { state: "none" },
    { state: "partial", imported: true },
    { state: "none" },
  ]);
});

t.test("imported incidents are closed and marked, decide nothing and notify nobody", async (t) => {
  const target = await monitor();
  const one = { started_at: iso(noon - 90 * minute), ended_at: iso(noon - 30 * minute), title: "Disk full" };
  const old = { started_at: iso(noon - 50 * day), ended_at: iso(noon - 49 * day) };
  await bring([{ target_id: target, incidents: [one, old] }]);
  matchObject(t, await incidents(target), [
    { state: "closed", imported: true, public_title: "Disk full", error_sample: "Disk full", duration_secs: 3600 },
    { state: "closed", imported: true, public_title: null, duration_secs: 86_400 },
  ]);
  const { id } = (await incidents(target))[0]!;
  t.strictSame((await listEvents(owner, id, { limit: 10, offset: 0 })).items, []);
  matchObject(t, (await explainIncident(owner, id)).in_words, [/^Imported: /]);
  t.strictSame(await notices(target), []);

  const page = await createPage(owner, { slug: "disks", name: "Disks" });
  await addComponent(owner, page.id, { target_id: target });
  await sql`
    insert into subscribers (id, org_id, page_id, kind, address, host, token, state, asked_at, created_at, confirmed_at)
    values (gen_random_uuid(), ${owner.orgId}, ${page.id}, 'email', 'ann@example.org', '', 't', 'active', now(), now(),
      ${new Date(noon - day)})`;
  t.equal(await announce(system), 0);
  const { status } = await computeStatus(system, await pageToPreview(owner, page.id));
  matchObject(t, status.recent_incidents, [{ title: "Disk full", imported: true, state: "closed" }]);
  t.equal(componentsOf(status)[0]!.uptime_pct, null, "an incident alone is no measured time");

  await report(target, "FF");
  matchObject(t, await incidents(target), [
    { state: "open", opened_by: "engine" },
    { imported: true },
    { imported: true },
  ]);
  t.notOk("imported" in (await incidents(target))[0]!);
});

t.test("the same day and the same incident again replace; deleting the target deletes them", async (t) => {
  const target = await monitor();
  const item = (up: number, minutes: number) => ({
    target_id: target,
    days: [{ date: dateOf(1), up, down: 1 }],
    incidents: [{ started_at: iso(noon - 5 * hour), ended_at: iso(noon - 5 * hour + minutes * minute) }],
  });
  await bring([item(1, 5)]);
  await bring([item(3, 10)]);
  matchObject(t, await uptime(owner, target, last(3)), { total: 4, uptime_pct: 75 });
  matchObject(t, await incidents(target), [{ duration_secs: 600 }]);
  const [outage] = await sql`
    select o.ended_at from incident_outages o join incidents i on i.id = o.incident_id where i.target_id = ${target}`;
  t.equal(outage!["ended_at"].getTime(), noon - 5 * hour + 10 * minute);
  await deleteTarget(owner, target);
  const [left] = await sql`select count(*)::int as n from imported_days where target_id = ${target}`;
  t.equal(left!["n"], 0);
});

t.test("a request has at most 10,000 days and incidents", async (t) => {
  const days = Array.from({ length: 400 }, (_, n) => ({ date: dateOf(n) }));
  const at = { started_at: iso(noon - hour), ended_at: iso(noon) };
  // Of targets that do not exist: the number is looked at first.
  const items: object[] = Array.from({ length: 24 }, () => ({ target_id: newId(), days }));
  const last = (incidents: number) => ({ target_id: newId(), incidents: Array.from({ length: incidents }, () => at) });
  matchObject(t, await refusal(t, () => bring([...items, last(401)])), {
    code: "BULK_TOO_LARGE",
    message: /10000 days and incidents, this one has 10001: send several requests/,
  });
  matchObject(t, await refusal(t, () => bring([...items, last(400)])), { code: "TARGET_NOT_FOUND" });
});

t.test(
  "history ends before the first own result of its target, and nothing of a refused request is kept",
  async (t) => {
    const [target, fresh] = [await monitor(), await monitor()];
    await report(target, "P");
    const first = clock.at;
    const past = { target_id: target, days: [{ date: dateOf(1), up: 1 }] };
    matchObject(t, await refused(t, { ...past, days: [...past.days, { date: dateOf(0), up: 1 }] }), {
      code: "HISTORY_OVERLAP",
      field: "/items/0/days/1/date",
      message: /since 2026-11-20T13:00:01/,
    });
    const until = (ended: number) => ({ started_at: iso(first - hour), ended_at: iso(ended) });
    const late = { ...past, incidents: [until(first), { ...until(first + 1), started_at: iso(first - 1) }] };
    clock.advance(minute);
    matchObject(t, await refusal(t, () => bring([{ target_id: fresh, days: past.days }, late])), {
      code: "HISTORY_OVERLAP",
      field: "/items/1/incidents/1/ended_at",
    });
    t.equal((await uptime(owner, fresh, last(3))).total, 0);
    await bring([{ ...past, incidents: [until(first)] }]);
    t.equal((await uptime(owner, target, last(3))).total, 1);

    // Rolled up, and the results are gone.
    await sql`delete from results where target_id = ${target}`;
    await sql`insert into results_daily values (${target}, ${dateOf(5)}, 1440, 0, 0, 0)`;
    matchObject(t, await refused(t, past), { code: "HISTORY_OVERLAP" });
    await bring([{ ...past, days: [{ date: dateOf(6), up: 5 }] }]);
  },
);

t.test("wrong input is refused with its place", async (t) => {
  const target = await monitor();
  const of = (rest: object) => ({ target_id: target, ...rest });
  const times = (started: number, ended: number) => ({ started_at: iso(started), ended_at: iso(ended) });
  const hourAgo = times(noon - hour, noon - minute);
  const many = (length: number, one: object) => Array.from({ length }, () => one);
  for (const [item, code, field] of [
    [of({ days: [{ date: "2026-02-30", up: 1 }] }), "INVALID_BODY", "/items/0/days/0/date"],
    [of({ days: [{ date: "20261120", up: 1 }] }), "INVALID_BODY", "/items/0/days/0/date"],
    [of({ days: [{ date: dateOf(-1), up: 1 }] }), "INVALID_BODY", "/items/0/days/0/date"],
    [of({ days: [{ date: dateOf(401), up: 1 }] }), "INVALID_BODY", "/items/0/days/0/date"],
    [of({ days: [{ date: dateOf(1) }, { date: dateOf(1) }] }), "INVALID_BODY", "/items/0/days/1/date"],
    [of({ days: [{ date: dateOf(1), up: -1 }] }), "INVALID_BODY", "/items/0/days/0/up"],
    [of({ days: [{ date: dateOf(1), avg_ms: -1 }] }), "INVALID_BODY", "/items/0/days/0/avg_ms"],
    [of({ days: many(401, { date: dateOf(1) }) }), "INVALID_BODY", "/items/0/days"],
    [of({ incidents: many(1001, hourAgo) }), "INVALID_BODY", "/items/0/incidents"],
    [of({ incidents: [hourAgo, hourAgo] }), "INVALID_BODY", "/items/0/incidents/1/started_at"],
    [of({ incidents: [times(noon, noon)] }), "INVALID_TIME_RANGE", "/items/0/incidents/0/ended_at"],
    [of({ incidents: [times(noon, noon + 1)] }), "INVALID_TIME_RANGE", "/items/0/incidents/0/ended_at"],
    [of({ incidents: [{ ...hourAgo, title: " " }] }), "EMPTY_TITLE", "/items/0/incidents/0/title"],
    [{ target_id: "shop" }, "INVALID_ID", "/items/0/target_id"],
  ] as const)
    matchObject(t, await refused(t, item), { code, field }, `${code} ${field}`);
  matchObject(t, await refusal(t, () => bring([of({}), of({})])), {
    code: "INVALID_BODY",
    field: "/items/1/target_id",
  });
  matchObject(t, await refusal(t, () => bring([])), { code: "BULK_EMPTY" });
  await bring([of({ days: [{ date: dateOf(400), up: 1 }] })]);
});

t.test("a target keeps at most 1,000 imported incidents, over all requests", async (t) => {
  const target = await monitor();
  const some = (count: number, since: number) => ({
    target_id: target,
    incidents: Array.from({ length: count }, (_, at) => ({
      started_at: iso(since + at * minute),
      ended_at: iso(since + at * minute + 1),
    })),
  });
  await bring([some(1000, noon - 30 * day)]);
  await bring([some(1000, noon - 30 * day)]);
  matchObject(t, await refused(t, some(1, noon - day)), { code: "INVALID_BODY", field: "/items/0/incidents" });
  t.equal((await sql`select from incidents where target_id = ${target}`).length, 1000);
});

t.test("owners with the scope import, into their organisation only", async (t) => {
  const target = await monitor();
  const item = { target_id: target, days: [{ date: dateOf(1), up: 1 }] };
  matchObject(t, await refused(t, item, await newOrg(system)), { code: "TARGET_NOT_FOUND" });
  matchObject(t, await refused(t, item, { ...owner, role: "member" }), { code: "OWNER_REQUIRED" });
  matchObject(t, await refused(t, item, { ...owner, scopes: new Set(["targets:read"]) }), {
    code: "INSUFFICIENT_SCOPE",
  });
});

t.test("the days and incidents of many targets take four statements", async (t) => {
  const targets = await Promise.all(Array.from({ length: 5 }, () => monitor()));
  const items = targets.map((target_id) => ({
    target_id,
    days: Array.from({ length: 400 }, (_, at) => ({ date: dateOf(at + 1), up: 1440 })),
    incidents: [{ started_at: iso(noon - day), ended_at: iso(noon - hour) }],
  }));
  let statements = 0;
  const counted = <S extends Db>(target: S): S =>
    new Proxy(target, {
      apply(own, self, args: unknown[]) {
        // Other calls make parts of statements.
        if (/^\s*(?:select t|with|insert)\b/.test([args[0]].flat().join(""))) statements++;
        return Reflect.apply(own as never, self, args);
      },
      get: (own, name) =>
        name === "begin"
          ? (work: (tx: Db) => Promise<unknown>) => sql.begin((tx) => work(counted(tx)))
          : Reflect.get(own, name),
    });
  await bring(items, { ...owner, sql: counted(sql) });
  // Limits, days, incidents, audit log.
  t.equal(statements, 4);
});

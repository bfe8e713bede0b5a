import { text } from "node:stream/consumers";
import fc from "fast-check";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { heartbeat } from "@statusmesh/shared/checks/heartbeat";
import { validate } from "@statusmesh/shared/schema/validate";
import { updateOrg } from "../../access/orgs/service.ts";
import { incidentMetrics } from "../../alerting/incidents/reports/service.ts";
import { upsertDays } from "../../monitoring/history/service.ts";
import { selectChecked } from "../../monitoring/results/history/probed-queries.ts";
import { rollUp } from "../../monitoring/results/rollups/rollup.ts";
import { uptime } from "../../monitoring/results/service.ts";
import { createTarget } from "../../monitoring/targets/write/service.ts";
import { listTags } from "../../monitoring/targets/service.ts";
import type { Ctx } from "../../platform/context.ts";
import { ensurePartitions } from "../../platform/db/distributed/partitions.ts";
import { arrayOf } from "../../platform/db/client/sql.ts";
import { loadAssets } from "../../platform/html/assets.ts";
import { mountPages } from "../../platform/html/pages.ts";
import { openViews } from "../../platform/html/views.ts";
import { serve } from "../../testing/app.ts";
import { day, hour, minute, noon, second } from "../../testing/clock.ts";
import { addIncident, addMaintenance, addResults } from "../../testing/scene.ts";
import { newOrg, openWorld, refusal } from "../../testing/world.ts";
import { computeStatus } from "../public/page/compute.ts";
import { daysUntil } from "../public/page/states.ts";
import { addComponent } from "../status-pages/components/components.ts";
import { createPage } from "../status-pages/service.ts";
import { pageToPreview } from "../status-pages/visits/service.ts";
import { reportRoutes } from "./api.ts";
import { reportPages } from "./pages.ts";
import { reportRange } from "./range.ts";
import { uptimeCsv, uptimeOverview, uptimeReport } from "./service.ts";
import { calendarOf } from "./words.ts";

const world = await openWorld(t);
const { sql, clock, system } = world;
let owner = await newOrg(system);
const pages = mountPages(
  reportPages(listTags),
  { tenant: async () => owner, public: async () => system },
  openViews({ assets: loadAssets() }),
  {
    frame: async () => ({
      org: "Acme",
      orgId: owner.orgId,
      role: "owner",
      email: null,
      asksPassword: false,
      openCauses: 0,
      tone: "up",
      snoozes: [],
      otherOrgs: [],
    }),
  },
);
const ask = await serve(t, system, reportRoutes, { tenant: () => owner, page: pages });
const all = { group_by: "target", limit: 1000, offset: 0 } as const;
const iso = (at: number) => new Date(at).toISOString();
const dateOf = (at: number) => iso(at).slice(0, 10);

t.beforeEach(async () => {
  clock.at = noon;
  await sql`truncate results_daily, results_hourly, results, rollup_progress, incidents, maintenance_windows cascade`;
  await sql`delete from targets`;
  await sql`delete from status_pages`;
  owner = await newOrg(system);
});

/** Moves the organisation to a zone. */
const moveTo = (timezone: string) =>
  updateOrg(
    owner,
    owner.orgId,
    { timezone },
    {
      existingChannels: async () => new Set(),
      rescheduleLadders: async () => {},
    },
  );

async function monitor(name: string, changes: object = {}, ctx: Ctx = owner): Promise<string> {
  const check = { type: "tcp", host: "db.example.org", port: 5432, timeout: 10_000 } as const;
  const { id } = await createTarget(ctx, { name, check, ...changes });
  await sql`update targets set created_at = ${new Date(noon - 200 * day)} where id = ${id}`;
  return id;
}

/** Runs of hours, 60 each and one of them down; the rollup has counted them. */
async function runHours(id: string, starts: readonly number[]): Promise<void> {
  await sql`
    insert into results_hourly (target_id, hour, region, up, down, degraded, error)
    select ${id}, h, 'eu', 59, 1, 0, 0 from unnest(${arrayOf(starts.map(iso))}::timestamptz[]) h`;
  await sql`
    insert into results_daily (target_id, day, up, down, degraded, error)
    select target_id, (hour at time zone 'UTC')::date, sum(up), sum(down), 0, 0 from results_hourly
    where target_id = ${id} group by 1, 2`;
}
const counted = (to: number) => sql`insert into rollup_progress (next_hour) values (${new Date(to)})`;

type Impact = "major_outage" | "partial_outage" | "degraded";

/** An incident with one outage; `end` null is open. */
async function outage(
  id: string,
  {
    start,
    end,
    impact = "major_outage",
    retracted,
  }: {
    start: number;
    end: number | null;
    impact?: Impact;
    retracted?: boolean;
  },
): Promise<void> {
  const severity = impact === "degraded" ? "minor" : "major";
  await addIncident(owner, id, { started: start, ended: end, impact, severity, retracted: retracted ?? false });
  await sql`update incidents set closed_by = 'engine' where ended_at is not null`;
}

const hoursOf = (from: number, to: number): number[] =>
  Array.from({ length: (to - from) / hour }, (_, at) => from + at * hour);

t.test("numbers are those of status pages and of monitors, to the digit, on generated histories", async (t) => {
  const at = (hours: number) => noon - hours * hour;
  const stretch = fc.tuple(fc.integer({ min: 1, max: 91 * 24 }), fc.integer({ min: 1, max: 30 * 24 }));
  const history = fc.record({
    zone: fc.constantFrom("UTC", "Europe/Berlin", "America/New_York"),
    stretches: fc.array(stretch, { maxLength: 5 }),
    outages: fc.array(
      fc.record({
        ago: fc.integer({ min: 1, max: 92 * 24 * 3600 }),
        secs: fc.integer({ min: 0, max: 3 * 86_400 }),
        impact: fc.constantFrom<Impact>("major_outage", "partial_outage", "degraded"),
        retracted: fc.integer({ min: 0, max: 9 }).map((one) => one === 0),
      }),
      { maxLength: 8 },
    ),
    windows: fc.array(stretch, { maxLength: 3 }),
    imported: fc.array(fc.record({ days: fc.integer({ min: 92, max: 99 }), down: fc.integer({ min: 0, max: 100 }) }), {
      maxLength: 4,
    }),
    single: fc.integer({ min: 0, max: 89 }),
  });
  await fc.assert(
    fc.asyncProperty(history, async (made) => {
      await sql`delete from rollup_progress`;
      await sql`delete from status_pages`;
      owner = await newOrg(system);
      await moveTo(made.zone);
      const id = await monitor("Shop");
      const live = new Set(
        made.stretches.flatMap(([ago, length]) =>
          hoursOf(at(Math.max(ago, 1)), Math.min(at(0), at(ago) + length * hour)),
        ),
      );
      await runHours(id, [...live]);
      await counted(noon);
      for (const { ago, secs, impact, retracted } of made.outages)
        await outage(id, {
          start: noon - ago * second,
          end: Math.min(noon, noon - (ago - secs) * second),
          impact,
          retracted,
        });
      for (const [ago, length] of made.windows)
        await addMaintenance(owner, [id], { start: at(ago), end: at(ago) + length * hour });
      // An own day has no imported runs beside its own.
      await upsertDays(
        sql,
        [...new Map(made.imported.map((one) => [one.days, one])).values()].map(({ days, down }) => ({
          target_id: id,
          day: dateOf(noon - (days - 50) * day),
          up: 100 - down,
          degraded: 0,
          down,
          error: 0,
          avg_ms: null,
        })),
      );
      const page = await createPage(owner, {
        slug: `s-${owner.orgId.slice(-12)}`,
        name: "Shop",
        branding: { timezone: made.zone },
      });
      await addComponent(owner, page.id, { target_id: id });
      const { status } = await computeStatus(system, await pageToPreview(owner, page.id));
      const shown = status.groups[0]!.components[0]!;
      const days = daysUntil(noon, 90, made.zone);
      const range = { from: iso(days[0]!.start), to: iso(noon) };
      const [row] = (await uptimeReport(owner, { ...all, ...range })).items;
      const measured = await uptime(owner, id, range);
      t.strictSame([row!.uptime_pct, row!.checks], [shown.uptime_pct, measured.total], JSON.stringify(made));
      const cell = shown.history[made.single]!;
      const { items } = await uptimeReport(owner, { ...all, from: cell.date, to: cell.date });
      if (items[0]!.downtime_secs === null) t.match(cell.state, /no_data|maintenance/);
      else t.equal(items[0]!.downtime_secs, cell.downtime_secs, `${cell.date} of ${JSON.stringify(made)}`);
      const [byPage] = (await uptimeReport(owner, { ...all, ...range, group_by: "page" })).items;
      t.strictSame({ ...byPage, id: row!.id }, row, "a page of one monitor");
      const { total } = await incidentMetrics(owner, 90);
      const last90 = await uptimeReport(owner, { ...all, from: iso(noon - 90 * day) });
      t.equal(last90.items[0]!.incidents, total);
    }),
    { numRuns: 15 },
  );
});

t.test("a report names what it measured and its gaps; groups add up", async (t) => {
  await moveTo("Europe/Berlin");
  const month = Date.UTC(2026, 9, 31, 23);
  const [web, api, idle] = [
    await monitor("web", { tags: ["eu", "shop"] }),
    await monitor("Api", { tags: ["eu"] }),
    await monitor("idle"),
  ];
  await runHours(web, [...hoursOf(month, month + 49 * hour), ...hoursOf(month + 97 * hour, noon)]);
  await runHours(api, hoursOf(month, noon));
  await counted(noon);
  await outage(web, { start: month + 10 * hour, end: month + 11 * hour });
  await outage(web, { start: month + 20 * hour, end: month + 20.5 * hour });
  await outage(api, { start: noon - hour, end: null });
  await outage(web, { start: month - 10 * day, end: month - 9 * day });
  await addMaintenance(owner, [web], { start: month + 10.5 * hour, end: month + 12 * hour });
  const [until, last] = [new Date(noon + hour), new Date(noon)];
  await sql`
    update target_states set status = 'up', status_until = ${until}, last_result_at = ${last}
    where target_id in (${web}, ${api})`;

  const report = await uptimeReport(owner, all);
  matchObject(t, report, { total: 3, from: iso(month), to: iso(noon), timezone: "Europe/Berlin" }, "the month so far");
  const gap = { from: iso(month + 49 * hour), to: iso(month + 97 * hour) };
  const webHours = (noon - month) / hour - 48;
  t.strictSame(report.items, [
    {
      id: api,
      name: "Api",
      uptime_pct: Math.floor((100 - (100 * hour) / (noon - month)) * 10_000) / 10_000,
      checks: (60 * (noon - month)) / hour,
      downtime_secs: 3600,
      incidents: 1,
      mttr_secs: null,
      maintenance_secs: 0,
      gaps: [],
    },
    {
      id: idle,
      name: "idle",
      uptime_pct: null,
      checks: 0,
      downtime_secs: null,
      incidents: 0,
      mttr_secs: null,
      maintenance_secs: 0,
      gaps: [{ from: iso(month), to: iso(noon) }],
    },
    {
      id: web,
      name: "web",
      uptime_pct: Math.floor((100 - 100 / (webHours - 1.5)) * 10_000) / 10_000,
      checks: 60 * webHours,
      downtime_secs: 3600,
      incidents: 2,
      mttr_secs: 2700,
      maintenance_secs: 5400,
      gaps: [gap],
    },
  ]);
  const tags = (await uptimeReport(owner, { ...all, group_by: "tag" })).items;
  matchObject(t, tags, [
    { id: null, name: "eu", downtime_secs: 7200, incidents: 3, mttr_secs: 2700, maintenance_secs: 5400, gaps: [] },
    { id: null, name: "shop", downtime_secs: 3600, gaps: [gap] },
  ]);
  t.equal(tags[0]!.checks, report.items[0]!.checks + report.items[2]!.checks);
  matchObject(t, await uptimeReport(owner, { ...all, limit: 1, offset: 1 }), { total: 3, items: [{ name: "idle" }] });

  const overview = await uptimeOverview(owner, { ...all, limit: 2 });
  t.strictSame(
    overview.items.map(({ name }) => name),
    ["web", "Api"],
    "the worst first",
  );
  const { overall, days } = overview;
  matchObject(t, overall, { monitors: 3, downtime_secs: 7200, incidents: 3, mttr_secs: 2700, gaps: [] });
  t.equal(overall!.checks, report.items[0]!.checks + report.items[2]!.checks);
  t.strictSame([days.length, days[0]!.at, overview.total], [20, month, 3]);
  t.strictSame(
    days.filter(({ downtime_secs: secs }) => secs > 0),
    [
      { at: month, downtime_secs: 3600 },
      { at: month + 19 * day, downtime_secs: 3600 },
    ],
  );
  const [calendar, ...others] = calendarOf(days, [gap], "Europe/Berlin");
  t.strictSame([calendar!.name, calendar!.before, others.length], ["Nov 2026", 6, 0], "a Sunday is the last of seven");
  t.strictSame(
    calendar!.days.slice(0, 5).map(({ date, state }) => `${date.slice(8)} ${state}`),
    ["01 down", "02 up", "03 up", "04 none", "05 up"],
  );
  for (const group_by of ["tag", "page"] as const)
    t.equal(
      (await uptimeOverview(owner, { ...all, group_by })).overall!.monitors,
      group_by === "tag" ? 2 : 0,
      group_by,
    );

  const csv = await ask("GET", "/api/v1/reports/uptime?format=csv&from=2026-11-01");
  t.match(csv.headers.get("content-type"), "text/csv; charset=utf-8");
  const lines = csv.text.trimEnd().split("\r\n");
  t.equal(lines[0], "id,name,uptime_pct,checks,downtime_secs,incidents,mttr_secs,maintenance_secs,gaps");
  t.equal(lines[2], `${idle},idle,,0,,0,,0,${iso(month)}/${iso(noon)}`);
  t.equal(lines.length, 4);
  t.strictSame((await ask("GET", "/api/v1/reports/uptime?from=2026-11-01")).body, {
    items: report.items,
    total: 3,
    limit: 50,
    offset: 0,
    until: iso(noon),
  });
});

t.test("a run counts once before its hour is rolled up, after that, and while it happens", async (t) => {
  const midnight = noon - (noon % day);
  const id = await monitor("web");
  await ensurePartitions(sql, new Date(midnight - 4 * day), new Date(noon));
  for (const now of [midnight + 3 * hour, midnight + 20 * minute, midnight + hour]) {
    await sql`truncate results, results_daily, results_hourly, rollup_dirty, rollup_progress`;
    clock.at = now;
    const from = midnight - 3 * day - 7 * minute;
    const slots = Array.from({ length: (now - from) / minute }, (_, n) => from + n * minute);
    await addResults(
      owner,
      id,
      slots.map((at) => ({ at })),
    );
    await counted(from - (from % hour));
    const range = { from: new Date(from + 5 * minute), to: new Date(now) };
    const checks = async () =>
      (await uptimeReport(owner, { ...all, from: iso(range.from.getTime()), to: iso(now) })).items[0]!.checks;
    t.equal(await checks(), slots.length - 5, "nothing is rolled up");
    for (const until of [now - 2 * hour, now]) {
      clock.at = until;
      await rollUp(system);
      clock.at = now;
      t.equal(await checks(), slots.length - 5, `rolled up until ${iso(until)}`);
      const [row] = await selectChecked(
        sql,
        owner.orgId,
        [id],
        { first: dateOf(from), last: dateOf(now) },
        range,
        { days: { from: new Date(midnight - 3 * day), to: null }, hours: [], runs: [] },
        { nextHour: new Date(midnight - 4 * hour), now },
      );
      t.equal(row!.checks, (now - midnight) / minute + 3 * 24 * 60, "a stale time of the rollup");
    }
  }
});

t.test("a report of many monitors reads each maintenance window once, and ends with the last sums", async (t) => {
  const ids = await Promise.all(Array.from({ length: 1001 }, (_, at) => monitor(`web-${at}`, { tags: ["eu"] })));
  await addMaintenance(owner, ids, { start: noon - 2 * hour, end: noon - hour });
  await addMaintenance(owner, ids.slice(0, 1), { start: noon - 4 * hour, end: noon - 1.5 * hour });
  let reads = 0;
  const counting = new Proxy(sql, {
    apply(target, self, args: unknown[]) {
      if (/from maintenance_occurrences/.test([args[0]].flat().join(""))) reads++;
      return Reflect.apply(target as never, self, args) as unknown;
    },
  });
  const { items } = await uptimeReport({ ...owner, sql: counting }, { ...all, group_by: "tag" });
  matchObject(t, items, [{ name: "eu", maintenance_secs: 3600 * 1003 }]);
  t.ok(reads <= 2, `${reads} reads: one, and one for a window of a later monitor`);

  const slots = Array.from({ length: 90 }, (_, at) => ({ at: noon - 70 * minute + at * minute }));
  clock.at = noon + 20 * minute;
  await addResults(owner, ids[0]!, slots);
  await counted(noon - 2 * hour);
  await rollUp(system);
  const short = { ...all, group_by: "tag" as const, from: iso(noon - 5 * hour) };
  matchObject(t, await uptimeReport(owner, short), { to: iso(noon), isShortened: true, items: [{ checks: 70 }] });
  const open = { ...short, from: iso(noon + 5 * minute) };
  matchObject(t, await uptimeReport(owner, open), { to: iso(clock.at), isShortened: false, items: [{ checks: 15 }] });
  matchObject(t, await uptimeOverview(owner, short), { overall: null, days: [], items: [{ checks: 70 }] }, "no sums");
});

t.test("rows are in the order of lists: API 2 before API 10", async (t) => {
  for (const name of ["API 10", "api 2"]) {
    const target_id = await monitor(name, { tags: [name] });
    const page = await createPage(owner, { slug: `p-${target_id.slice(-12)}`, name });
    await addComponent(owner, page.id, { target_id });
  }
  for (const group_by of ["target", "tag", "page"] as const) {
    const { items } = await uptimeReport(owner, { ...all, group_by });
    t.strictSame(
      items.map(({ name }) => name),
      ["api 2", "API 10"],
      group_by,
    );
  }
});

t.test("heartbeats count the time in which a report was expected", async (t) => {
  const check = validate(heartbeat.schema, { type: "heartbeat", period: 60_000 });
  const { id } = await createTarget(owner, { name: "Backup", check });
  await upsertDays(sql, [
    { target_id: id, day: dateOf(noon - day), up: 3, degraded: 0, down: 1, error: 0, avg_ms: null },
  ]);
  const from = dateOf(noon - 2 * day);
  const { items } = await uptimeReport(owner, { ...all, from });
  matchObject(t, items, [
    { uptime_pct: 75, checks: 4, downtime_secs: 21_600, gaps: [{ to: iso(Date.parse(from) + day) }, {}] },
  ]);
});

t.test("ranges are days of the organisation's zone, or times", async (t) => {
  const berlin = (from?: string, to?: string) => {
    const { start, end } = reportRange({ from, to }, "Europe/Berlin", noon);
    return [iso(start), iso(end)];
  };
  t.strictSame(berlin(), ["2026-10-31T23:00:00.000Z", iso(noon)]);
  t.strictSame(
    berlin("2026-10-25", "2026-10-25"),
    ["2026-10-24T22:00:00.000Z", "2026-10-25T23:00:00.000Z"],
    "25 hours",
  );
  t.strictSame(berlin(undefined, "2026-10-31"), ["2026-09-30T22:00:00.000Z", "2026-10-31T23:00:00.000Z"], "a month");
  t.strictSame(berlin("2026-11-01T00:00:00+02:00", "2027-01-01"), ["2026-10-31T22:00:00.000Z", iso(noon)]);
  t.strictSame(berlin("2025-10-17", "2026-11-20").length, 2, "400 days");
  for (const [query, code, field] of [
    ["from=2026-11-02&to=2026-11-01", "BAD_TIME_RANGE", "/query/from"],
    ["from=2025-10-01&to=2026-11-20", "BAD_TIME_RANGE", "/query/from"],
    ["from=2027-01-01", "BAD_TIME_RANGE", "/query/from"],
    ["from=2026-02-30", "INVALID_QUERY", "/query/from"],
    ["to=0001-01-01", "INVALID_QUERY", "/query/to"],
    ["from=yesterday", "INVALID_QUERY", "/query/from"],
    ["group_by=region", "INVALID_QUERY", "/query/group_by"],
  ] as const)
    matchObject(t, (await ask("GET", `/api/v1/reports/uptime?${query}`)).body, { error: { code, field } }, query);
});

t.test("a report has the own organisation only, viewers read it, and pages need their scope", async (t) => {
  const id = await monitor("web", { tags: ["eu"] });
  await monitor("theirs", { tags: ["eu", "us"] }, await newOrg(system));
  for (const [group_by, items] of [
    ["target", [{ id }]],
    ["tag", [{ name: "eu" }]],
    ["page", []],
  ] as const) {
    const report = await uptimeReport({ ...owner, role: "viewer" }, { ...all, group_by });
    matchObject(t, report, { total: items.length, items });
  }
  const scoped = { ...owner, scopes: new Set(["targets:read"]) };
  matchObject(t, await refusal(t, () => uptimeReport(scoped, { ...all, group_by: "page" })), {
    code: "INSUFFICIENT_SCOPE",
  });
  matchObject(t, await refusal(t, () => uptimeCsv(scoped, { group_by: "page" })), { code: "INSUFFICIENT_SCOPE" });
  matchObject(t, await refusal(t, () => uptimeReport({ ...owner, scopes: new Set() }, all)), {
    code: "INSUFFICIENT_SCOPE",
  });
  t.equal((await text(await uptimeCsv(scoped, { group_by: "tag" }))).split("\r\n").length, 3);
});

t.test("the page shows the rows of a range, says what is wrong with one, and has an empty state", async (t) => {
  const shown = async (query = "") => (await ask("GET", `/reports/uptime${query}`)).text.replaceAll(/\s+/g, " ");
  t.match(await shown(), "No monitors yet");
  t.match(await shown("?group_by=tag"), "No tags yet");
  await moveTo("Europe/Berlin");
  const id = await monitor("<b>web</b>");
  await runHours(id, hoursOf(noon - 10 * day, noon - 8 * day));
  await counted(noon);
  const page = await shown();
  t.match(page, "1 Nov 2026 to 20 Nov 2026, days in Europe/Berlin");
  t.match(page, "&lt;b&gt;web&lt;/b&gt;");
  t.match(page, "1 Nov 2026 00:00 to 10 Nov 2026 14:00", "gaps in the zone");
  t.match(page, 'aria-label="12 Nov 2026: no downtime">12</a>', "the month as a calendar");
  t.match(page, "/api/v1/reports/uptime?from=2026-11-01&amp;to=2026-11-20&amp;group_by=target&amp;format=csv");
  const wrong = await shown("?from=2026-11-02&to=2026-11-01");
  t.match(wrong, 'role="alert">The range ends at');
  t.match(await shown("?from=x&to=y&offset=z&group_by=moon"), 'role="alert">');
});

import fc from "fast-check";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { newId } from "@statusmesh/shared/ids";
import { ensurePartitions } from "../../platform/db/distributed/partitions.ts";
import { serve } from "../../testing/app.ts";
import { day, hour, minute, noon, second } from "../../testing/clock.ts";
import { addMaintenance, addResults, newTarget, type SceneResult } from "../../testing/scene.ts";
import { newOrg, openWorld } from "../../testing/world.ts";
import { createTarget, updateTarget } from "../targets/write/service.ts";
import { hourOf } from "./rollups/late.ts";
import { rollUp } from "./rollups/rollup.ts";
import { resultRoutes } from "./api.ts";
import * as latencyService from "./latency/service.ts";
import * as service from "./service.ts";

const { sql, clock, system } = await openWorld(t);
await ensurePartitions(sql, new Date(noon - 91 * day), new Date(noon + 7 * day));
const ctx = await newOrg(system);
const stranger = await newOrg(system);
let caller = ctx;
const ask = await serve(t, system, resultRoutes, { tenant: () => caller });
const iso = (at: number) => new Date(at).toISOString();

t.beforeEach(() => {
  caller = ctx;
  clock.at = noon;
});

t.test("results are listed newest first, in pages, with the exact total", async (t) => {
  const id = await newTarget(ctx);
  await addResults(ctx, id, [
    { at: noon - 30 * minute, late: 90_000, region: "us", status: "down" },
    { at: noon - 29 * minute, region: "eu" },
    { at: noon - 28 * minute, region: "eu", status: "degraded", skip: true, total: null },
    { at: noon - 25 * hour },
  ]);
  const all = await ask("GET", `/api/v1/targets/${id}/results`);
  t.equal(all.status, 200);
  t.equal(all.headers.get("cache-control"), "private, max-age=10");
  matchObject(t, all.body, { total: 3, limit: 1000, offset: 0 }, "the last 24 hours; a run that was skipped is listed");
  t.strictSame(
    all.body.items.map((item: { timestamp: string }) => item.timestamp),
    [iso(noon - 28 * minute), iso(noon - 28.5 * minute), iso(noon - 29 * minute)],
    "by the time of the run, not of its slot",
  );
  t.strictSame(all.body.items[1], {
    target_id: id,
    region: "us",
    timestamp: iso(noon - 28.5 * minute),
    status: "down",
    error: "connection refused",
    diagnosis: null,
    http_status: null,
    response_size: 512,
    dns_ms: 10,
    connect_ms: 20,
    tls_ms: null,
    ttfb_ms: 30,
    total_ms: 100,
    details: null,
    recheck: false,
  });
  matchObject(t, (await ask("GET", `/api/v1/targets/${id}/results?limit=1&offset=1`)).body, {
    total: 3,
    limit: 1,
    offset: 1,
    items: [{ region: "us" }],
  });
  matchObject(t, (await ask("GET", `/api/v1/targets/${id}/results?region=eu`)).body, { total: 2 });
  matchObject(
    t,
    (await ask("GET", `/api/v1/targets/${id}/results?limit=20000`)).body,
    { limit: 10_000 },
    "a larger page is lowered silently",
  );
  matchObject(t, (await ask("GET", `/api/v1/targets/${id}/results?from=${iso(noon - 2 * day)}`)).body, { total: 4 });
  matchObject(
    t,
    (await ask("GET", `/api/v1/targets/${id}/results?from=${iso(noon - 29 * minute)}&to=${iso(noon - 28 * minute)}`))
      .body,
    { total: 2 },
    "from belongs to the range, to does not",
  );
});

t.test("a page at a deep offset equals that part of all rows, with late runs and marked hours", async (t) => {
  const id = await newTarget(ctx);
  const rows = Array.from({ length: 2400 }, (_, n) => ({
    at: noon - 21 * hour + (n >> 1) * minute,
    late: (n * 7919) % 90_000,
    region: n % 2 === 0 ? "eu" : "us",
  }));
  await addResults(ctx, id, rows.slice(10));
  await sql`insert into rollup_progress (next_hour) values (${new Date(noon - 21 * hour)})`;
  t.teardown(() => sql`truncate rollup_progress, rollup_dirty`);
  await rollUp(system);
  await addResults(ctx, id, rows.slice(0, 10));
  await sql`
    insert into rollup_dirty (target_id, hour)
    select ${id}, h from unnest(${[20, 3, 2].map((n) => iso(noon - n * hour))}::timestamptz[]) h`;
  const oldest = rows.map(({ at, late, region }) => `${iso(at + late)} ${region}`).sort();
  for (const offset of [1999, 2000, 2001, 2100, 2390, 2400, 9000]) {
    const path = `/api/v1/targets/${id}/results?from=${iso(noon - day)}&limit=20&offset=${offset}`;
    const { items, total } = (await ask("GET", path)).body;
    const found = items.map((it: { timestamp: string; region: string }) => `${it.timestamp} ${it.region}`);
    t.equal(total, 2400);
    const wanted = oldest.slice(Math.max(0, 2400 - offset - 20), Math.max(0, 2400 - offset));
    t.strictSame(found.sort(), wanted, `offset ${offset}`);
  }
});

t.test(
  "a page is the same as of all results sorted, however late the runs are and wherever the range ends",
  async () => {
    const result = fc.record({
      at: fc.integer({ min: 0, max: 40 }),
      // As far as ingest takes it, in parts of the longest delay.
      late: fc.double({ min: -1, max: 1, noNaN: true }),
      region: fc.constantFrom("eu", "us"),
    });
    const edges = fc.tuple(fc.integer({ min: -2000, max: 2000 }), fc.integer({ min: 1, max: 4000 }));
    await fc.assert(
      fc.asyncProperty(
        fc.uniqueArray(result, { maxLength: 40, selector: (it) => `${it.at} ${it.region}` }),
        edges,
        fc.option(fc.constantFrom("eu", "us")),
        fc.integer({ min: 1, max: 12 }),
        fc.integer({ min: 0, max: 30 }),
        // The interval of the target when the results were reported; now it is a minute.
        fc.constantFrom(60, 300, 3600, 86_400),
        async (results, [start, length], region, limit, offset, interval) => {
          const id = await newTarget(ctx);
          await sql`update targets set past_intervals = ${sql.json({ [interval]: iso(noon) })} where id = ${id}`;
          const runs = results.map((run) => ({
            ...run,
            at: noon - day + run.at * minute,
            late: Math.round(run.late < 0 ? run.late * 5 * minute : run.late * (2000 * interval + 5 * minute)),
          }));
          await addResults(ctx, id, runs);
          const [from, to] = [noon - day + start * second, noon - day + (start + length) * second];
          const inRange = runs
            .filter(
              (run) =>
                run.at + run.late >= from && run.at + run.late < to && (region === null || run.region === region),
            )
            .toSorted((a, b) => b.at + b.late - (a.at + a.late) || b.at - a.at || (a.region < b.region ? -1 : 1));
          const page = await service.listResults(ctx, id, {
            from: iso(from),
            to: iso(to),
            ...(region === null ? {} : { region }),
            limit,
            offset,
          });
          const expected = inRange
            .slice(offset, offset + limit)
            .map((run) => `${iso(run.at + run.late)} ${run.region}`);
          return (
            page.total === inRange.length &&
            page.items.map((item) => `${item.timestamp} ${item.region}`).join() === expected.join()
          );
        },
      ),
      { numRuns: 30 },
    );
  },
);

t.test("a run of a slow kind counts at its start, long after its slot", async (t) => {
  const id = await newTarget(ctx, "Certificate", { interval: 86_400 });
  await addResults(ctx, id, [{ at: noon - 26 * hour, late: 3 * hour }]);
  matchObject(t, (await ask("GET", `/api/v1/targets/${id}/uptime`)).body, { total: 1 });
});

t.test(
  "after the interval is shortened, total equals the pages, and periods and sums have the same runs",
  async (t) => {
    const { id } = await createTarget(ctx, {
      name: "Shortened",
      check: { type: "tcp", host: "db.example.org", port: 5432, timeout: 1000 },
      interval: 7200,
    });
    // Runs more than an hour after their slots: more than the new interval allows for.
    const runs = Array.from({ length: 12 }, (_, k) => ({ at: noon - (k + 1) * 2 * hour, late: 100 * minute }));
    await addResults(ctx, id, [...runs, { at: noon - 25 * hour, late: 90 * minute, status: "down" }]);
    const answers = async () => {
      const [results, uptime, latency, periods] = await Promise.all(
        ["results?limit=5&offset=5", "uptime", "latency", "incidents"].map(
          async (what) => (await ask("GET", `/api/v1/targets/${id}/${what}`)).body,
        ),
      );
      return {
        total: results.total,
        page: results.items.length,
        counted: uptime.total,
        samples: latency.buckets.reduce((sum: number, bucket: { samples: number }) => sum + bucket.samples, 0),
        periods: periods.total,
      };
    };
    const before = await answers();
    t.strictSame(before, { total: 13, page: 5, counted: 13, samples: 12, periods: 1 });
    await updateTarget(ctx, id, { interval: 60 });
    t.strictSame(await answers(), before);
    await updateTarget(ctx, id, { interval: 30 });
    t.strictSame(await answers(), before, "nor does a second edit");
  },
);

t.test("results as CSV: every row once, over pages, with the filters of the list", async (t) => {
  const id = await newTarget(ctx);
  const many = Array.from({ length: 2100 }, (_, n) => ({ at: noon - n * 10 * second - 10 * second }));
  await addResults(ctx, id, [
    ...many,
    // The last rows of the first page and the first rows of the second share a time.
    ...many.map((run) => ({ ...run, region: "us", status: "down" })),
    { at: noon - 5 * second, status: "error", skip: true },
  ]);
  const lines = async (query = "") => {
    const answer = await ask("GET", `/api/v1/targets/${id}/results.csv${query}`);
    matchObject(t, answer, { status: 200 });
    t.equal(answer.headers.get("content-type"), "text/csv; charset=utf-8");
    t.match(answer.headers.get("content-disposition"), /^attachment; filename="results-[0-9a-f]{8}\.csv"$/);
    return answer.text.trimEnd().split("\r\n");
  };
  const [head, ...rows] = await lines();
  const phases = "dns_ms,connect_ms,tls_ms,ttfb_ms,total_ms";
  t.equal(head, `target_id,region,timestamp,status,error,http_status,response_size,${phases},recheck,skipped`);
  t.equal(rows.length, 4201);
  t.equal(new Set(rows).size, 4201, "no row twice");
  t.match(rows[0], /,error,.*,false,true$/, "a run that was skipped");
  t.match(rows[1], /,false,false$/);
  const times = rows.map((row) => row.split(",")[2]!);
  t.strictSame(times, [...times].sort().reverse(), "newest first");
  t.equal((await lines("?region=us")).length, 2101);
  const to = encodeURIComponent(iso(noon - 20_000 * second));
  t.equal((await lines(`?from=${encodeURIComponent(iso(noon - day))}&to=${to}`)).length, 1 + 2 * 100);
  matchObject(t, await ask("GET", `/api/v1/targets/${newId()}/results.csv`), {
    status: 404,
    body: { error: { code: "TARGET_NOT_FOUND" } },
  });
  caller = stranger;
  matchObject(t, await ask("GET", `/api/v1/targets/${id}/results.csv`), { status: 404 });
  caller = ctx;
  matchObject(t, await ask("GET", `/api/v1/targets/${id}/results.csv?limit=1`), { status: 400 });
  const head2 = await ask("HEAD", `/api/v1/targets/${id}/results.csv`);
  matchObject(t, head2, { status: 200, text: "" });
});

t.test("what cannot be asked is refused, and what is another's is absent", async (t) => {
  const id = await newTarget(ctx);
  for (const path of ["results", "latency", "latency/by-region", "uptime"]) {
    matchObject(
      t,
      await ask("GET", `/api/v1/targets/${id}/${path}?from=${iso(noon)}&to=${iso(noon)}`),
      { status: 400, body: { error: { code: "BAD_TIME_RANGE", field: "/query/to" } } },
      path,
    );
    matchObject(
      t,
      await ask("GET", `/api/v1/targets/${id}/${path}?from=${iso(noon + 1)}`),
      { status: 400, body: { error: { code: "BAD_TIME_RANGE", field: "/query/from" } } },
      path,
    );
    matchObject(
      t,
      await ask("GET", `/api/v1/targets/${id}/${path}?from=yesterday`),
      { status: 400, body: { error: { code: "INVALID_QUERY", field: "/query/from" } } },
      path,
    );
    matchObject(
      t,
      await ask("GET", `/api/v1/targets/${id}/${path}?from=0001-01-01T00:00:00Z`),
      { status: 400, body: { error: { code: "INVALID_QUERY" } } },
      path,
    );
    for (const absent of [newId(), "nonsense"])
      matchObject(
        t,
        await ask("GET", `/api/v1/targets/${absent}/${path}`),
        { status: 404, body: { error: { code: "TARGET_NOT_FOUND" } } },
        path,
      );
    caller = stranger;
    matchObject(
      t,
      await ask("GET", `/api/v1/targets/${id}/${path}`),
      { status: 404, body: { error: { code: "TARGET_NOT_FOUND" } } },
      path,
    );
    caller = { ...ctx, scopes: new Set(["targets:write"]) };
    matchObject(
      t,
      await ask("GET", `/api/v1/targets/${id}/${path}`),
      { status: 403, body: { error: { code: "INSUFFICIENT_SCOPE" } } },
      path,
    );
    caller = ctx;
  }
});

t.test("latency: about 60 slices, each a whole number of minutes, gaps included", async (t) => {
  const id = await newTarget(ctx);
  const seconds = async (range: number) =>
    (await latencyService.latencySeries(ctx, id, { from: iso(noon - range) })).bucket_seconds;
  t.strictSame(
    await Promise.all([hour, day, 7 * day, 30 * day, 10 * minute, 90 * minute].map(seconds)),
    [60, 1440, 10_080, 43_200, 60, 60],
  );

  const totals = Array.from({ length: 101 }, (_, at) => at + 1);
  await addResults(ctx, id, [
    ...totals.map((total, at): SceneResult => ({
      at: noon - 10 * minute + at * 100,
      region: at % 2 === 0 ? "eu" : "us",
      total,
    })),
    { at: noon - 10 * minute + 50_000, status: "down", total: 5000 },
    { at: noon - 10 * minute + 51_000, status: "degraded", skip: true, total: 5000 },
    { at: noon - 5 * minute, total: null },
  ]);
  const { body } = await ask("GET", `/api/v1/targets/${id}/latency?from=${iso(noon - hour)}&to=${iso(noon)}`);
  t.equal(body.buckets.length, 60, "every slice is there");
  t.strictSame(
    body.buckets.map((bucket: { t: number }) => bucket.t),
    Array.from({ length: 60 }, (_, at) => noon - hour + at * minute),
  );
  t.strictSame(
    body.buckets[50],
    {
      t: noon - 10 * minute,
      p50: 51,
      p95: 96,
      p99: 100,
      avg: 51,
      dns: 10,
      connect: 20,
      tls: 0,
      ttfb: 30,
      samples: 101,
    },
    "runs that failed or were skipped are not latency",
  );
  t.strictSame(
    body.buckets[55],
    { t: noon - 5 * minute, p50: 0, p95: 0, p99: 0, avg: 0, dns: 0, connect: 0, tls: 0, ttfb: 0, samples: 0 },
    "a gap",
  );

  const eu = await ask("GET", `/api/v1/targets/${id}/latency?from=${iso(noon - hour)}&region=eu`);
  t.equal(eu.body.buckets[50].samples, 51);
  const regions = await ask("GET", `/api/v1/targets/${id}/latency/by-region?from=${iso(noon - hour)}`);
  t.equal(regions.body.bucket_seconds, 60);
  t.strictSame(
    regions.body.regions.map((own: { region: string; buckets: { samples: number }[] }) => [
      own.region,
      own.buckets.length,
      own.buckets[50]!.samples,
    ]),
    [
      ["eu", 60, 51],
      ["us", 60, 50],
    ],
  );
  const quiet = await newTarget(ctx);
  t.strictSame(
    (await ask("GET", `/api/v1/targets/${quiet}/latency/by-region`)).body.regions,
    [],
    "no region that did not run",
  );
  for (const [days, at] of [
    [1, noon - hour],
    [7, noon - 5 * day],
  ] as const) {
    const half = await newTarget(ctx);
    await addResults(ctx, half, [
      { at, region: "eu" },
      { at, region: "us", status: "down", total: null },
    ]);
    const { regions } = await latencyService.latencyByRegion(ctx, half, { from: iso(noon - days * day) });
    const samples = regions.map(({ region, buckets }) => [region, buckets.reduce((sum, one) => sum + one.samples, 0)]);
    t.strictSame(
      samples,
      [
        ["eu", 1],
        ["us", 0],
      ],
      `a region whose runs all failed, in ${days} days`,
    );
  }
});

t.test("slices stay where they are while the range moves on", async (t) => {
  const id = await newTarget(ctx);
  clock.at = noon + 7 * minute + 12_345;
  const { buckets } = await latencyService.latencySeries(ctx, id, {});
  t.ok(buckets.every((bucket) => bucket.t % 1_440_000 === 0));
  t.ok(buckets[0]!.t <= clock.at - day && buckets[0]!.t > clock.at - day - 1_440_000);
  t.ok(buckets.at(-1)!.t <= clock.at && buckets.at(-1)!.t > clock.at - 1_440_000);
});

t.test("uptime counts runs that are evidence", async (t) => {
  const id = await newTarget(ctx);
  t.strictSame((await ask("GET", `/api/v1/targets/${id}/uptime`)).body, {
    total: 0,
    up: 0,
    down: 0,
    degraded: 0,
    error: 0,
    uptime_pct: 100,
  });
  await addResults(ctx, id, [
    { at: noon - minute },
    { at: noon - 2 * minute, region: "us" },
    { at: noon - 3 * minute, status: "degraded" },
    { at: noon - 4 * minute, status: "down" },
    { at: noon - 5 * minute, status: "error" },
    { at: noon - 6 * minute, status: "degraded", skip: true },
    { at: noon - 25 * hour, status: "down" },
  ]);
  t.strictSame((await ask("GET", `/api/v1/targets/${id}/uptime`)).body, {
    total: 5,
    up: 2,
    down: 1,
    degraded: 1,
    error: 1,
    uptime_pct: 60,
  });
  t.strictSame((await ask("GET", `/api/v1/targets/${id}/uptime?region=us`)).body, {
    total: 1,
    up: 1,
    down: 0,
    degraded: 0,
    error: 0,
    uptime_pct: 100,
  });
});

t.test("the last 50 checks of many monitors, one cell a slot of all regions", async (t) => {
  const [busy, daily, quiet, foreign] = [
    await newTarget(ctx),
    await newTarget(ctx, "Daily", { interval: day / 1000 }),
    await newTarget(ctx),
    await newTarget(stranger),
  ];
  const slots = (from: number, to: number) =>
    Array.from({ length: from - to + 1 }, (_, n) => noon - (from - n) * minute);
  await addResults(ctx, busy, [
    ...slots(60, 21).map((at) => ({ at, total: 100 })),
    ...slots(20, 1).flatMap((at) => [
      { at, status: "down", total: null },
      { at, region: "us", total: 50, status: at === noon - 20 * minute ? "up" : "error" },
    ]),
    { at: noon - 25 * minute, region: "us", status: "degraded", total: 900 },
    { at: noon - 10 * minute, region: "ap", skip: true },
  ]);
  await addResults(ctx, daily, [{ at: noon - 3 * day }, { at: noon - day, status: "down" }]);
  await addResults(ctx, foreign, [{ at: noon - minute }]);
  await addMaintenance(ctx, [busy], { start: noon - 2 * minute, end: noon + hour });
  // Counted already: 20 days ago, and today until 12:00. The raw rows before that are not counted twice.
  await sql`
    insert into results_daily
    values (${busy}, '2026-10-31', 90, 5, 0, 5), (${busy}, '2026-11-20', 3, 1, 0, 0),
      (${busy}, '2026-10-20', 0, 1000, 0, 0)`;
  await sql`insert into rollup_progress (next_hour) values (${new Date(hourOf(noon))})`;
  const histories = await service.recentHistory(ctx, [busy, daily, quiet, foreign]);
  await sql`delete from rollup_progress`;

  const history = histories.get(busy)!;
  t.strictSame(
    history.strip,
    [
      ...new Array<string>(25).fill("up"),
      "degraded",
      ...new Array<string>(4).fill("up"),
      "degraded",
      ...new Array<string>(17).fill("down"),
      "maintenance",
      "maintenance",
    ],
    "20 minutes of an outage are 20 cells; without the slot of now, which has no result yet",
  );
  t.strictSame([history.p50Now, history.p95Now, history.inMaintenance], [100, 500, true], "of the newest half hour");
  t.equal(history.uptime30d, (100 * (90 + 3)) / (100 + 4), "days from the rollup");
  t.strictSame(histories.get(daily)!.strip.slice(-4), ["none", "up", "none", "down"]);
  const blank = {
    strip: new Array(50).fill("none"),
    p50Now: null,
    p95Now: null,
    inMaintenance: false,
    uptime30d: null,
  };
  t.strictSame(histories.get(quiet), blank);
  t.equal(histories.has(foreign), false, "another organisation's monitor has no history here");
});

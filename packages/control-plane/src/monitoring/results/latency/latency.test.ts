import fc from "fast-check";
import t, { type Test } from "tap";
import { newId } from "@statusmesh/shared/ids";
import { ensurePartitions } from "../../../platform/db/distributed/partitions.ts";
import { rollUp } from "../rollups/rollup.ts";
import { day, hour, minute, noon } from "../../../testing/clock.ts";
import { addResults, newTarget, type SceneResult } from "../../../testing/scene.ts";
import { newOrg, openWorld } from "../../../testing/world.ts";
import { isByHour, sourcesOf } from "../hours.ts";
import { latencyByRegion, latencySeries } from "./latency.ts";
import { latencyOfRuns } from "./queries.ts";
import { markLate } from "../rollups/late.ts";
import type { LatencyBucket } from "../schema.ts";
import * as service from "../service.ts";
import { addSketch, emptyHistogram, least, percentiles, relativeError } from "./sketch.ts";

const { sql, clock, system } = await openWorld(t);
await ensurePartitions(sql, new Date(noon - 91 * day), new Date(noon + 7 * day));
const ctx = await newOrg(system);
const stranger = await newOrg(system);
const iso = (at: number) => new Date(at).toISOString();
const today = Date.UTC(2026, 10, 20);

t.beforeEach(async () => {
  await sql`truncate results, results_hourly, results_daily, latency_hourly, rollup_dirty, rollup_progress`;
  clock.at = noon;
});

/** The result of percentile_cont. */
function exact(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  const rank = share * (sorted.length - 1);
  const [low, high] = [sorted[Math.floor(rank)]!, sorted[Math.ceil(rank)]!];
  return low + (high - low) * (rank - Math.floor(rank));
}

/** Within the stated error of the exact percentile; the arithmetic of two programs may add its last digit. */
const isNear = (estimate: number, truth: number) =>
  Math.abs(estimate - truth) <= relativeError * truth * (1 + 1e-9) + least;

/** Times as a single-precision column keeps them: usual ones, the smallest, the largest, and many that are the same. */
const times = fc.oneof(
  fc.double({ min: 0.1, max: 5000, noNaN: true }),
  fc.double({ min: 0, max: 86_400_000, noNaN: true }),
  fc.constantFrom(0, 1e-30, 0.001, 0.0011, 13.5, 13.5, 1000, 86_400_000),
);

t.test(
  "percentiles of merged sketches are within 1 % of the exact ones, for any measurements and in " +
    "whichever order they are added",
  async () => {
    const run = fc.record({
      at: fc.integer({ min: 0, max: 3 * 60 - 1 }),
      region: fc.constantFrom("eu", "us"),
      total: times.map(Math.fround),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.uniqueArray(run, { minLength: 1, maxLength: 60, selector: (it) => `${it.at} ${it.region}` }),
        fc.array(fc.nat()),
        async (runs, order) => {
          const id = newId();
          await addResults(
            system,
            id,
            runs.map(({ at, ...rest }) => ({ at: today + at * minute, ...rest })),
          );
          const rows = await sql<
            { sketch: Uint8Array; samples: number }[]
          >`${latencyOfRuns(sql, sql`${id}`, sql`${new Date(today)}`, sql`${new Date(today + 3 * hour)}`)}`;
          const shuffledRows = rows.map((row, n) => ({ row, key: order[n] ?? 0 })).toSorted((a, b) => a.key - b.key);
          const histogram = emptyHistogram();
          for (const { row } of shuffledRows) addSketch(histogram, row.sketch);
          const values = runs.map(({ total }) => total);
          const shares = [0, 0.5, 0.95, 0.99, 1];
          return (
            rows.reduce((sum, row) => sum + row.samples, 0) === runs.length &&
            histogram.reduce((sum, count) => sum + count, 0) === runs.length &&
            percentiles(histogram, shares).every((estimate, n) => isNear(estimate, exact(values, shares[n]!)))
          );
        },
      ),
      { numRuns: 30 },
    );
  },
);

t.test("a sketch without a value, with one, and with many of one", async (t) => {
  t.strictSame(percentiles(emptyHistogram(), [0.5, 0.95, 0.99]), [0, 0, 0]);
  const id = newId();
  // More of one bucket than a byte of the stored form can hold, and a bucket too far from the one before for a byte.
  await addResults(
    system,
    id,
    Array.from({ length: 400 }, (_, n) => ({ at: today + n, total: n === 0 ? 3000 : 20 })),
  );
  const [row] = await sql<
    { sketch: Uint8Array; samples: number }[]
  >`${latencyOfRuns(sql, sql`${id}`, sql`${new Date(today)}`, sql`${new Date(today + hour)}`)}`;
  const histogram = emptyHistogram();
  addSketch(histogram, row!.sketch);
  t.equal(histogram[histogram.findIndex((count) => count > 0)], 399);
  const [p50, p99, max] = percentiles(histogram, [0.5, 0.99, 1]);
  t.ok(isNear(p50!, 20) && isNear(p99!, 20) && isNear(max!, 3000));
  // 20 ms are 496 buckets from the first (240 + 240 + 16), with 27 times up to 15 samples; 3 s are 251 further.
  t.equal(row!.sketch.length, 3 + 27 + 2);
  const one = emptyHistogram();
  one[0] = 1;
  t.strictSame(percentiles(one, [0.5, 0.99]), [least, least]);
});

t.test(
  "a range is split into whole hours that are summed up and the rest, without a gap and without an overlap",
  async () => {
    const moment = fc.integer({ min: 0, max: 500 * 60 }).map((minutes) => today + minutes * minute);
    const wholeHour = fc.integer({ min: -10, max: 510 }).map((hours) => new Date(today + hours * hour));
    fc.assert(
      fc.property(moment, fc.integer({ min: 1, max: 300 * 60 }), fc.option(wholeHour), (from, minutes, countedTo) => {
        const range = { from: new Date(from), to: new Date(from + minutes * minute) };
        const { hours, runs } = sourcesOf(range, countedTo);
        const parts = [...runs, ...(hours === null ? [] : [hours])].toSorted(
          (a, b) => a.from.getTime() - b.from.getTime(),
        );
        const joined = parts.every(
          (part, n) => part.from < part.to && (n === 0 || part.from.getTime() === parts[n - 1]!.to.getTime()),
        );
        const whole =
          hours === null ||
          (hours.from.getTime() % hour === 0 && hours.to.getTime() % hour === 0 && hours.to <= countedTo!);
        return (
          joined && whole && parts[0]!.from.getTime() === from && parts.at(-1)!.to.getTime() === range.to.getTime()
        );
      }),
    );
  },
);

t.test("when a range is answered by the hour", async (t) => {
  const span = (from: number, to: number) => isByHour({ from: new Date(from), to: new Date(to) }, noon);
  t.notOk(span(noon - 60 * hour + 1, noon));
  t.ok(span(noon - 60 * hour, noon));
  t.notOk(span(noon - 90 * day, noon - 89 * day));
  t.ok(span(noon - 90 * day - 1, noon - 89 * day), "single results of that time are gone");
});

/** A run every ten minutes in two regions, times by a rule that no percentile of another stretch fits. */
const every10Minutes = (from: number, to: number): SceneResult[] =>
  Array.from({ length: Math.ceil((to - from) / (10 * minute)) }, (_, n) => from + n * 10 * minute).flatMap((at, n) => [
    { at, total: 50 + (n % 37) * 11, status: n % 29 === 3 ? "degraded" : n % 31 === 5 ? "down" : "up" },
    { at: at + minute, region: "us", total: n % 41 === 7 ? null : 200 + (n % 13) * 17, skip: n % 43 === 9 },
  ]);

/** The slices of `results`, computed run by run. */
function expected(
  results: readonly SceneResult[],
  from: number,
  to: number,
  width: number,
): { t: number; samples: number; p50: number; p95: number; p99: number; avg: number }[] {
  const first = Math.floor(from / width) * width;
  const slices = new Map<number, number[]>();
  for (const { at, total = 100, status = "up", skip = false } of results) {
    if (at < from || at >= to || skip || total === null || (status !== "up" && status !== "degraded")) continue;
    const slice = Math.max(first, Math.floor((Math.floor(at / hour) * hour) / width) * width);
    slices.set(slice, [...(slices.get(slice) ?? []), total]);
  }
  return [...slices]
    .toSorted(([a], [b]) => a - b)
    .map(([t, values]) => ({
      t,
      samples: values.length,
      p50: exact(values, 0.5),
      p95: exact(values, 0.95),
      p99: exact(values, 0.99),
      avg: values.reduce((sum, value) => sum + value, 0) / values.length,
    }));
}

function same(t: Test, buckets: readonly LatencyBucket[], truth: ReturnType<typeof expected>, what: string): void {
  const filled = buckets.filter((bucket) => bucket.samples > 0);
  t.strictSame(
    filled.map(({ t, samples }) => [t, samples]),
    truth.map(({ t, samples }) => [t, samples]),
    `${what}: every run, once`,
  );
  t.ok(
    filled.every(
      (bucket, n) =>
        isNear(bucket.p50, truth[n]!.p50) &&
        isNear(bucket.p95, truth[n]!.p95) &&
        isNear(bucket.p99, truth[n]!.p99) &&
        Math.abs(bucket.avg - truth[n]!.avg) < 0.001 * truth[n]!.avg,
    ),
    `${what}: values`,
  );
}

t.test("7 and 30 days: the same slices before the rollup, after it, and with late results", async (t) => {
  const id = await newTarget(ctx);
  clock.at = noon + 17 * minute;
  const results = every10Minutes(noon - 31 * day, clock.at);
  await addResults(ctx, id, results);
  const spans = [
    { ms: 7 * day, seconds: 10_080 },
    { ms: 30 * day, seconds: 43_200 },
  ];
  const check = async (what: string) => {
    for (const { ms, seconds } of spans) {
      const from = clock.at - ms;
      const series = await latencySeries(ctx, id, { from: iso(from) });
      t.equal(series.bucket_seconds, seconds);
      t.ok(series.buckets.length === 60 || series.buckets.length === 61);
      t.ok(series.buckets.every((bucket) => bucket.t % (seconds * 1000) === 0));
      same(t, series.buckets, expected(results, from, clock.at, seconds * 1000), `${what}, ${ms / day} d`);
      const { regions } = await latencyByRegion(ctx, id, { from: iso(from) });
      t.strictSame(
        regions.map(({ region }) => region),
        ["eu", "us"],
      );
      for (const { region, buckets } of regions) {
        const own = results.filter((result) => (result.region ?? "eu") === region);
        same(t, buckets, expected(own, from, clock.at, seconds * 1000), `${what}, ${ms / day} d, ${region}`);
        same(
          t,
          (await latencySeries(ctx, id, { from: iso(from), region })).buckets,
          expected(own, from, clock.at, seconds * 1000),
          `${what}, ${ms / day} d, only ${region}`,
        );
      }
      const counted = results.filter((result) => result.at >= from && result.at < clock.at && !result.skip);
      const up = await service.uptime(ctx, id, { from: iso(from) });
      t.strictSame(
        [up.total, up.down, up.degraded],
        [
          counted.length,
          counted.filter((result) => result.status === "down").length,
          counted.filter((result) => result.status === "degraded").length,
        ],
        `${what}: uptime`,
      );
    }
  };
  await check("nothing is summed up");
  await sql`insert into rollup_progress (next_hour) values (${new Date(noon - 2 * hour)})`;
  const marks = results.filter(({ at }) => at < noon - 2 * hour);
  await markLate(
    sql,
    marks.map(({ at }) => ({ target_id: id, scheduled_at: at })),
    clock.at,
  );
  while ((await sql`select 1 from rollup_dirty limit 1`).length > 0) await rollUp(system);
  t.strictSame((await sql<{ next_hour: Date }[]>`select next_hour from rollup_progress`)[0]!.next_hour, new Date(noon));
  await check("all whole hours are summed up");

  const late: SceneResult[] = [
    { at: noon - 3 * hour + 30_000, total: 9000 },
    { at: noon - 6 * day + 30_000, total: 8000, region: "us" },
    { at: noon - 10 * minute + 30_000, total: 7000 },
    { at: noon + 5 * minute + 30_000, total: 6000 },
  ];
  await addResults(ctx, id, late);
  results.push(...late);
  await markLate(
    sql,
    late.map(({ at }) => ({ target_id: id, scheduled_at: at })),
    clock.at,
  );
  await check("late results whose hours wait to be summed up again");
  await rollUp(system);
  t.equal((await sql`select 1 from rollup_dirty`).length, 0);
  await check("everything is summed up");

  clock.at += 50 * minute;
  results.push(...every10Minutes(noon + 20 * minute, clock.at));
  await addResults(ctx, id, every10Minutes(noon + 20 * minute, clock.at));
  await check("the hour that has ended is not summed up yet");
  await sql`delete from results where scheduled_at < ${new Date(noon - 2 * hour)}`;
  clock.at = noon + 18 * minute;
  t.equal(
    (await latencySeries(ctx, id, { from: iso(noon - 25 * day), to: iso(noon - 5 * day) })).buckets.filter(
      (bucket) => bucket.samples > 0,
    ).length,
    61,
    "without the results",
  );
});

t.test("a year ago: whole hours, at least one per slice, of this organisation only", async (t) => {
  const [id, foreign] = [await newTarget(ctx), await newTarget(stranger)];
  const start = today - 380 * day;
  await addResults(ctx, id, every10Minutes(today - 2 * day, today));
  await sql`
    insert into rollup_progress (next_hour) values (${new Date(today)})`;
  await sql`
    insert into latency_hourly
      (target_id, hour, region, samples, total_sum, dns_sum, connect_sum, tls_sum, ttfb_sum, dns_n, connect_n, tls_n,
        ttfb_n, sketch)
    select x.id, n.hour - ${`${(today - 2 * day - start) / 1000} s`}::interval, region, samples, total_sum, dns_sum,
      connect_sum, tls_sum, ttfb_sum, dns_n, connect_n, tls_n, ttfb_n, sketch
    from unnest(${[id, foreign]}::uuid[]) as x (id)
    cross join (${latencyOfRuns(sql, sql`${id}`, sql`${new Date(today - 2 * day)}`, sql`${new Date(today)}`)}) n`;
  const { bucket_seconds, buckets } = await latencySeries(ctx, id, { from: iso(start), to: iso(start + day) });
  t.equal(bucket_seconds, 3600);
  t.equal(buckets.length, 24);
  const near = (value: number, exact: number) => Math.abs(value - exact) <= 0.0005 * exact;
  t.ok(
    buckets.every(
      ({ samples, dns, connect, tls, ttfb }) =>
        samples > 0 && near(dns, 10) && near(connect, 20) && tls === 0 && near(ttfb, 30),
    ),
    "means within 0.05 %",
  );
  await t.rejects(latencySeries(ctx, foreign, { from: iso(start), to: iso(start + day) }), {
    code: "TARGET_NOT_FOUND",
  });
});

import t from "tap";
import type { System } from "../../../platform/context.ts";
import { ensurePartitions } from "../../../platform/db/distributed/partitions.ts";
import { day, hour, minute, noon } from "../../../testing/clock.ts";
import { addResults, newTarget, type SceneResult } from "../../../testing/scene.ts";
import { newOrg, openWorld } from "../../../testing/world.ts";
import { dailyCounts } from "../service.ts";
import { hourOf, markLate, oldestAcceptable } from "./service.ts";
import { keepPartitions } from "./keep-partitions.ts";
import { dropOldRollups } from "./retention.ts";
import { rollUp } from "./rollup.ts";

const { sql, pool, clock, system } = await openWorld(t);
await ensurePartitions(sql, new Date(noon - 91 * day), new Date(noon + 7 * day));
const ctx = await newOrg(system);
const other: System = { ...system, sql: pool() };
const at = (time: string) => Date.parse(`2026-11-20T${time}Z`);

t.beforeEach(async () => {
  await sql`
    truncate results, results_hourly, results_daily, latency_hourly, changes_hourly, rollup_dirty, rollup_progress`;
  clock.at = noon;
});

const hours = (id: string) =>
  sql<object[]>`
    select to_char(hour, 'DD HH24') as hour, region, up, down, degraded, error from results_hourly
    where target_id = ${id} order by results_hourly.hour, region`.then((rows) => rows.map((row) => ({ ...row })));
const days = (id: string) =>
  sql<
    object[]
  >`select day::text, up, down, degraded, error from results_daily where target_id = ${id} order by day`.then((rows) =>
    rows.map((row) => ({ ...row })),
  );
const progress = async () =>
  (await sql<{ next_hour: Date }[]>`select next_hour from rollup_progress`)[0]?.next_hour.getTime() ?? null;
const dirty = async () => (await sql<{ count: number }[]>`select count(*)::int as count from rollup_dirty`)[0]!.count;
const startAt = (from: number) => sql`insert into rollup_progress (next_hour) values (${new Date(from)})`;

/** What ingest does: insert, mark what is late, commit. */
async function ingest(id: string, results: SceneResult[]): Promise<void> {
  await addResults(ctx, id, results);
  await markLate(
    sql,
    results.map((result) => ({ target_id: id, scheduled_at: result.at })),
    clock.now(),
  );
}

t.test("hours and days add up, by region, without the runs that are no evidence", async (t) => {
  const id = await newTarget(ctx);
  await startAt(noon - 20 * hour);
  await addResults(ctx, id, [
    { at: noon - 18 * hour },
    { at: at("11:00:00") },
    { at: at("11:59:59"), status: "down" },
    { at: at("11:30:00"), region: "us", status: "degraded", total: 300 },
    { at: at("11:31:00"), skip: true, status: "degraded" },
    { at: at("12:00:00"), status: "error" },
  ]);
  clock.at = at("12:02:00") - 1;
  await rollUp(system);
  t.equal(await progress(), at("11:00:00"), "an hour is counted two minutes after it ended");
  clock.at = at("12:02:00");
  await rollUp(system);
  t.equal(await progress(), at("12:00:00"));
  t.strictSame(await hours(id), [
    { hour: "19 19", region: "eu", up: 1, down: 0, degraded: 0, error: 0 },
    { hour: "20 11", region: "eu", up: 1, down: 1, degraded: 0, error: 0 },
    { hour: "20 11", region: "us", up: 0, down: 0, degraded: 1, error: 0 },
  ]);
  t.strictSame(await days(id), [
    { day: "2026-11-19", up: 1, down: 0, degraded: 0, error: 0 },
    { day: "2026-11-20", up: 1, down: 1, degraded: 1, error: 0 },
  ]);
  const latency =
    await sql`select samples, round(avg_ms) as ms from results_daily where target_id = ${id} order by day`;
  t.strictSame(
    latency.map(({ samples, ms }) => [samples, ms]),
    [
      [1, 100],
      [2, 200],
    ],
    "with the mean of the runs that have a time",
  );
  t.strictSame(
    (await dailyCounts(system, ctx.orgId, [id], 1)).get(id)?.get("2026-11-20"),
    { up: 1, down: 1, degraded: 1, error: 1 },
    "readers add the hour that is not counted yet",
  );

  await sql`update rollup_progress set next_hour = ${new Date(noon - 20 * hour)}`;
  await rollUp(system);
  t.equal((await hours(id)).length, 3, "doing it again changes nothing");
  t.equal((await days(id)).length, 2);
});

t.test("the first rollup begins with the oldest day that can hold a result", async (t) => {
  const oldest = await oldestAcceptable(sql);
  t.equal(oldest?.toISOString(), "2026-08-21T00:00:00.000Z");
  clock.at = oldest!.getTime() + 2 * hour + 3 * minute;
  await rollUp(system);
  t.equal(await progress(), oldest!.getTime() + 2 * hour);
  const id = await newTarget(ctx);
  await ingest(id, [{ at: oldest!.getTime() }]);
  await rollUp(system);
  t.equal((await hours(id)).length, 1, "a result that came after it marks its hour");
  await sql`truncate results_hourly, rollup_dirty, rollup_progress`;
  await rollUp(system);
  t.equal((await hours(id)).length, 1, "one that came before it is counted");
});

t.test("late results repair the hours that were counted without them", async (t) => {
  const id = await newTarget(ctx);
  await startAt(at("10:00:00"));
  await ingest(id, [{ at: at("12:59:30") }]);
  t.equal(await dirty(), 1, "13:00 has struck: the hour of 12:59:30 is over");
  clock.at = at("13:30:00");
  await rollUp(system);
  t.equal(await dirty(), 0);
  t.strictSame(await days(id), [{ day: "2026-11-20", up: 1, down: 0, degraded: 0, error: 0 }]);

  await ingest(id, [
    { at: at("10:10:00"), status: "down" },
    { at: at("10:11:00") },
    { at: at("12:10:00") },
    { at: at("13:29:00") },
  ]);
  t.equal(await dirty(), 2, "one mark per hour, and none for the current hour");
  await rollUp(system);
  t.equal(await dirty(), 0);
  t.strictSame(await hours(id), [
    { hour: "20 10", region: "eu", up: 1, down: 1, degraded: 0, error: 0 },
    { hour: "20 12", region: "eu", up: 2, down: 0, degraded: 0, error: 0 },
  ]);
  t.strictSame(await days(id), [{ day: "2026-11-20", up: 3, down: 1, degraded: 0, error: 0 }]);
  t.strictSame((await dailyCounts(system, ctx.orgId, [id], 0)).get(id)?.get("2026-11-20"), {
    up: 4,
    down: 1,
    degraded: 0,
    error: 0,
  });
});

t.test("a mark of an hour that is not rolled up yet waits, and nothing is counted twice", async (t) => {
  const id = await newTarget(ctx);
  await startAt(at("12:00:00"));
  clock.at = at("13:01:00");
  await ingest(id, [{ at: at("12:30:00") }]);
  await rollUp(system);
  t.equal(await dirty(), 1);
  t.strictSame(await hours(id), []);
  t.strictSame((await dailyCounts(system, ctx.orgId, [id], 0)).get(id)?.get("2026-11-20"), {
    up: 1,
    down: 0,
    degraded: 0,
    error: 0,
  });
  clock.at = at("13:02:00");
  await rollUp(system);
  t.equal(await dirty(), 0);
  t.strictSame((await dailyCounts(system, ctx.orgId, [id], 0)).get(id)?.get("2026-11-20"), {
    up: 1,
    down: 0,
    degraded: 0,
    error: 0,
  });
});

t.test("a late batch that has not committed is neither waited for nor lost", async (t) => {
  const id = await newTarget(ctx);
  await startAt(at("11:00:00"));
  await ingest(id, [{ at: at("11:10:00") }]);
  clock.at = at("13:30:00");
  await sql.begin(async (tx) => {
    await tx`
      insert into results (target_id, scheduled_at, region, "timestamp", status, skip)
      values (${id}, ${new Date(at("11:20:00"))}, 'eu', ${new Date(at("11:20:00"))}, 'down', false)`;
    await markLate(tx, [{ target_id: id, scheduled_at: at("11:20:00") }], clock.now());
    await rollUp(other);
    t.equal(await dirty(), 1, "the mark is left where the batch holds it");
  });
  await rollUp(other);
  t.strictSame(await hours(id), [{ hour: "20 11", region: "eu", up: 1, down: 1, degraded: 0, error: 0 }]);
});

t.test("two processes at once, while results arrive late, end with the right sums", async (t) => {
  const ids = await Promise.all(Array.from({ length: 20 }, (_, n) => newTarget(ctx, `Monitor ${n}`)));
  await startAt(noon - 30 * hour);
  for (const id of ids)
    await addResults(
      ctx,
      id,
      Array.from({ length: 28 }, (_, n) => ({ at: noon - 30 * hour + n * hour + minute })),
    );
  const late = async (n: number) => {
    for (const id of ids) await ingest(id, [{ at: noon - (n + 3) * hour + n * minute, status: "down" }]);
  };
  await Promise.all([rollUp(system), rollUp(other), late(2), late(5), late(11), rollUp(system), rollUp(other)]);
  await Promise.all([rollUp(other), rollUp(system)]);
  t.equal(await dirty(), 0);
  t.equal(await progress(), hourOf(noon) - hour);
  clock.at += 3 * minute;
  await rollUp(system);
  const counted = await sql`select target_id, sum(up)::int as up, sum(down)::int as down from results_daily group by 1`;
  t.equal(counted.length, 20);
  t.ok(
    counted.every((row) => row["up"] === 28 && row["down"] === 3),
    "every run is counted once",
  );
});

t.test("partitions: a week ahead, no hole behind, nothing past 90 days", async (t) => {
  await sql`
    insert into results (target_id, scheduled_at, region, "timestamp", status, skip)
    select gen_random_uuid(), ${new Date(noon - 91 * day)}, 'eu', now(), 'up', false`;
  const names = async () =>
    (
      await sql<{ name: string }[]>`
        select c.relname as name from pg_inherits i join pg_class c on c.oid = i.inhrelid
        where i.inhparent = 'results'::regclass order by 1`
    ).map((row) => row.name);
  // Three weeks without a control plane.
  clock.at = noon + 21 * day;
  await keepPartitions(system);
  const kept = await names();
  t.equal(kept[0], "results_20260912", "90 days before 11 December");
  t.equal(kept.at(-1), "results_20261218");
  t.equal(kept.length, 98, "every day in between");
  t.equal((await oldestAcceptable(sql))?.toISOString(), "2026-09-12T00:00:00.000Z");
  await Promise.all([keepPartitions(system), keepPartitions(other)]);
  t.strictSame(await names(), kept);
});

t.test("hours go after 13 months, and all sums of a deleted monitor at once", async (t) => {
  const [kept, gone] = [await newTarget(ctx), await newTarget(ctx)];
  for (const id of [kept, gone]) {
    await sql`
      insert into results_hourly
      values (${id}, '2025-10-20T12:00Z', 'eu', 1, 0, 0, 0), (${id}, '2025-10-20T13:00Z', 'eu', 1, 0, 0, 0)`;
    await sql`
      insert into latency_hourly
        (target_id, hour, region, samples, total_sum, dns_sum, connect_sum, tls_sum, ttfb_sum, dns_n, connect_n,
          tls_n, ttfb_n, sketch)
      select ${id}, at, 'eu', 1, 5, 1, 1, 1, 1, 1, 1, 1, 1, '\\x0101'
      from unnest('{2025-10-20T12:00Z,2025-10-20T13:00Z}'::timestamptz[]) as u (at)`;
    await sql`insert into results_daily values (${id}, '2025-10-20', 2, 0, 0, 0)`;
  }
  await sql`delete from targets where id = ${gone}`;
  await sql`
    insert into deleted_targets (target_id, org_id, deleted_at, regions)
    values (${gone}, ${ctx.orgId}, now(), '{}')`;
  await dropOldRollups(system);
  t.equal((await hours(kept)).length, 1);
  t.strictSame(
    [...(await sql<object[]>`select target_id as id, hour from latency_hourly`)],
    [{ id: kept, hour: new Date("2025-10-20T13:00Z") }],
  );
  t.equal((await days(kept)).length, 1);
  t.equal((await hours(gone)).length + (await days(gone)).length, 0);
});

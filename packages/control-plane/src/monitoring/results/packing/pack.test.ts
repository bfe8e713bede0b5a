import { text } from "node:stream/consumers";
import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { type AgentResult, protocolVersion } from "@statusmesh/shared/protocol/agent-protocol";
import { jitterMs } from "@statusmesh/shared/schedule";
import t, { type Test } from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { ensurePartitions } from "../../../platform/db/distributed/partitions.ts";
import { day, hour, minute, noon } from "../../../testing/clock.ts";
import { openIngest } from "../../pipeline/ingest.ts";
import { addResults, admit, agentResult, newTarget, setStatus } from "../../../testing/scene.ts";
import { newAgent, newOrg, openWorld } from "../../../testing/world.ts";
import { deleteTarget, sweepTombstones } from "../../targets/service.ts";
import { issueSlots } from "../slots/issued-slot-queries.ts";
import { dayPreparer, keepPartitions } from "../rollups/keep-partitions.ts";
import { pack, packSizes } from "./pack.ts";
import { areHoursLeft } from "./pack-hours-queries.ts";
import { packRows, sealDay, selectProgress } from "./pack-queries.ts";
import { dropOldRollups } from "../rollups/retention.ts";
import { rollUp } from "../rollups/rollup.ts";
import { runColumns, runs } from "../runs-queries.ts";
import { dailyCounts, listFailures, listResults, recentHistory, resultsCsv, uptime } from "../service.ts";
import { latencyByRegion, latencySeries } from "../latency/service.ts";
import { listPeriods } from "../history/service.ts";
import { packState } from "./service.ts";

const { sql, pool, clock, log, system } = await openWorld(t);
const ctx = await newOrg(system);
const first = Date.UTC(2026, 10, 17);
await ensurePartitions(sql, new Date(first), new Date(noon + 7 * day));

const tables = [
  "results",
  "results_packed",
  "results_late",
  "results_hourly",
  "results_daily",
  "latency_hourly",
].concat("changes_hourly", "hours_packed", "changes_packed", "rollup_dirty", "issued_slots");
/** Deletes few rows, where truncating makes new files for all partitions and indexes. */
const clear = async () => {
  const all = [...tables, "pack_progress", "rollup_progress"].filter((table) => table !== "issued_slots");
  await sql.unsafe(all.map((table) => `delete from ${table}`).join(";"));
};

/** `strictSame` of thousands of rows prepares the text of a difference, which takes 50 ms for 1,000, where none is. */
function same(t: Test, found: unknown, wanted: unknown): void {
  if (isDeepStrictEqual(found, wanted)) t.pass();
  else t.strictSame(found, wanted);
}

const always = { from: sql`'-infinity'::timestamptz`, to: sql`'infinity'::timestamptz` };

/** Every run of the target with all columns, as text. */
async function all(id: string): Promise<string[]> {
  const rows = await sql<{ row: string }[]>`
    select r::text as row from ${runs(sql, { target: sql`${id}::uuid`, ...always }, runColumns)} r
    order by r.scheduled_at, r.region`;
  return rows.map(({ row }) => row);
}

const maybe = <T>(of: fc.Arbitrary<T>) => fc.option(of, { nil: null });
/** As ingest stores it: whole microseconds; now and then what no array can hold. */
const time = maybe(
  fc.oneof(
    { weight: 8, arbitrary: fc.integer({ min: 0, max: 60_000_000 }).map((us) => us / 1000) },
    { weight: 1, arbitrary: fc.constantFrom(0, 0.0004, 3_000_000, 86_400_000, 1999.999) },
  ),
);
const run = fc.record({
  region: fc.constantFrom("eu", "us"),
  /** Minutes from the first day; borders of days are frequent. */
  slot: fc.oneof(fc.integer({ min: 0, max: 3 * 1440 }), fc.constantFrom(0, 1439, 1440, 2879, 2880)),
  offset: fc.constantFrom(0, 0, 0, 10_000, 59_999),
  late: fc.oneof(fc.integer({ min: -300_000, max: 400_000 }), fc.constantFrom(0, 1, 2)),
  onTime: fc.boolean(),
  status: fc.constantFrom("up", "up", "down", "degraded", "error"),
  skip: fc.boolean(),
  recheck: fc.boolean(),
  error: maybe(fc.constantFrom("connection refused", "status 503", "")),
  cause: maybe(fc.constantFrom("connection refused", "{}")),
  diagnosis: maybe(fc.constantFrom("challenge:cloudflare:", "dns::nxdomain")),
  details: maybe(fc.constantFrom({ expires_at: "2027-01-01T00:00:00Z" }, { a: 1.5 }, {})),
  http_status: maybe(fc.integer({ min: 100, max: 999 })),
  response_size: maybe(fc.integer({ min: 0, max: 2_147_483_647 })),
  dns_ms: time,
  connect_ms: time,
  tls_ms: time,
  ttfb_ms: time,
  total_ms: time,
  /** Arrives after the day was packed. */
  afterwards: fc.boolean(),
});

type Run = typeof run extends fc.Arbitrary<infer T> ? T : never;
const slotOf = ({ slot, offset }: Run): number => first + slot * minute + offset;

async function insert(id: string, table: string, given: readonly Run[]): Promise<void> {
  const rows = given.map((one) => {
    const { slot: _, offset: __, late, onTime, afterwards: ___, details, ...rest } = one;
    const at = slotOf(one);
    const jitter = rest.recheck || !onTime ? 0 : jitterMs(id, at, minute, 10);
    return {
      target_id: id,
      scheduled_at: new Date(at),
      timestamp: new Date(at + jitter + late),
      ...rest,
      details: details === null ? null : sql.json(details),
    };
  });
  if (rows.length > 0) await sql`insert into ${sql(table)} ${sql(rows)}`;
}

t.test("property: packed and late results read as they did before, to the byte", async (t) => {
  const runsOfTarget = fc.uniqueArray(run, {
    maxLength: 60,
    selector: (one) => `${slotOf(one)} ${one.region}`,
  });
  await fc.assert(
    fc.asyncProperty(runsOfTarget, async (given) => {
      await clear();
      clock.at = first + hour;
      const id = await newTarget(ctx);
      await keepPartitions(system);
      const packedDays = (one: Run) => slotOf(one) < first + 3 * day;
      const late = given.filter((one) => one.afterwards && packedDays(one));
      await insert(
        id,
        "results",
        given.filter((one) => !late.includes(one)),
      );
      clock.at = first + 3 * day + 4 * hour;
      await sql`insert into rollup_progress (next_hour) values (${new Date(first + 3 * day)})`;
      const before = await all(id);
      await pack(system);
      same(t, await all(id), before);
      t.strictSame(await left(), { to: "2026-11-20", unfit: true });
      await insert(id, "results_late", late);
      const withLate = await all(id);
      await pack(system);
      same(t, await all(id), withLate);
      t.strictSame(await left(), { to: "2026-11-20", unfit: true });
    }),
    { numRuns: 12 },
  );
});

/** Whether packed days have hours as rows. */
const hoursLeft = async () => {
  const targets = (await sql<{ id: string }[]>`select id from targets`).map(({ id }) => id);
  return await areHoursLeft(sql, targets, (await selectProgress(sql))!.packed_to);
};

/** The first day that is not packed, and whether all late rows are those that no array can hold. */
async function left(): Promise<object> {
  const [row] = await sql<object[]>`
    select packed_to::text as to, not exists (select from results_late where not greatest(dns_ms, connect_ms, tls_ms,
      ttfb_ms, total_ms) >= 2000000 and 0.0004::real not in (dns_ms, connect_ms, tls_ms, ttfb_ms, total_ms)) as unfit
    from pack_progress`;
  return { ...row };
}

t.test("days with many more runs than the interval says, and intervals of months", async (t) => {
  await clear();
  clock.at = first + hour;
  const ids = await Promise.all([0, 1, 2].map(() => newTarget(ctx)));
  for (const [n, secs] of [86_400, 90 * 86_400, 600].entries())
    await sql`update targets set interval_secs = ${secs} where id = ${ids[n]!}`;
  await keepPartitions(system);
  for (const id of ids)
    await sql`
      insert into results (target_id, scheduled_at, "timestamp", region, status, skip, recheck)
      select ${id}, at, at, 'eu', 'up', false, false
      from generate_series(${new Date(first)}::timestamptz, ${new Date(first + day - 1)}, interval '1 minute') at`;
  const before = await Promise.all(ids.map(all));
  clock.at = first + day + 4 * hour;
  await sql`insert into rollup_progress (next_hour) values (${new Date(first + day)})`;
  await pack(system);
  t.strictSame(await left(), { to: "2026-11-18", unfit: true });
  same(t, await Promise.all(ids.map(all)), before);
  await sql`
    insert into results_late (target_id, scheduled_at, "timestamp", region, status, skip, recheck)
    select id, at, at, 'eu', 'down', false, false
    from unnest(${ids}::uuid[]) id, (select ${new Date(first + day - 5000)}::timestamptz as at) late`;
  const late = await Promise.all(ids.map(all));
  await pack(system);
  same(t, await Promise.all(ids.map(all)), late);
  matchObject(t, await sql`select from results_late`, { length: 0 });
});

t.test(
  "property: every read gives the same before and after a day is packed, and after its rows are dropped",
  async (t) => {
    const step = fc.record({
      region: fc.constantFrom("eu", "us"),
      status: fc.constantFrom("up", "up", "up", "down", "error", "degraded"),
      minutes: fc.integer({ min: 1, max: 240 }),
      late: fc.constantFrom(0, 0, 3, 61_000),
      skip: fc.boolean(),
      recheck: fc.boolean(),
      total: maybe(fc.integer({ min: 0, max: 3_000_000 }).map((us) => us / 1000)),
    });
    const from = first + 20 * hour;
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 60 }), async (steps) => {
        await clear();
        clock.at = from;
        const id = await newTarget(ctx);
        await sql`
        insert into target_regions (target_id, region_id) select ${id}, region from unnest(array['eu', 'us']) region
        on conflict do nothing`;
        await keepPartitions(system);
        let at = from;
        const results = steps.map(({ minutes, ...rest }) => ({ at: (at += minutes * minute), ...rest }));
        await addResults(system, id, results);
        const rechecks = results.filter(({ recheck }) => recheck).map((one) => new Date(one.at).toISOString());
        await sql`update results set recheck = true where scheduled_at = any(${rechecks}::timestamptz[])`;
        await sql`
          update results set ttfb_ms = case when total_ms < 2000 then (round(total_ms * 250) / 1000)::real end,
            dns_ms = case when total_ms > 1000 then dns_ms end`;
        // The end of the history is on the next day, whose rows stay.
        const end = Math.max(at, first + day) + 4 * hour;
        clock.at = end;
        await sql`insert into rollup_progress (next_hour) values (${new Date(from)})`;
        await rollUp(system);
        const before = await everyRead(id, from, end);
        await pack(system);
        same(t, await everyRead(id, from, end), before);
        t.notOk(await hoursLeft(), "hours of ended days are packed");
        clock.at = end + hour;
        await keepPartitions(system);
        clock.at = end;
        t.not(
          await sql`select to_regclass('results_20261117') as name`.then(([row]) => row!["name"]),
          "results_20261117",
        );
        same(t, await everyRead(id, from, end), before);
        // Hours that late results have marked are read from runs again, and summed again as rows.
        await sql`
          insert into rollup_dirty
          select distinct r.target_id, date_trunc('hour', r.scheduled_at)
          from ${runs(sql, { target: sql`${id}::uuid`, ...always }, [])} r
          where extract(minute from r.scheduled_at) < 30`;
        same(t, await everyRead(id, from, end), before);
        await rollUp(system);
        same(t, await everyRead(id, from, end), before);
        await pack(system);
        same(t, await everyRead(id, from, end), before);
        t.notOk(await hoursLeft());
      }),
      { numRuns: 4 },
    );
  },
);

t.test("results of a packed day: stored once, read at once, merged later; a killed job completes", async (t) => {
  await clear();
  clock.at = first + hour;
  const ids = [await newTarget(ctx), await newTarget(ctx)].sort();
  const [id, other] = ids as [string, string];
  await sql`
    insert into target_regions (target_id, region_id)
    select id, 'eu' from unnest(${ids}::uuid[]) id on conflict do nothing`;
  for (const one of ids) await setStatus(system, one, "unknown");
  await keepPartitions(system);
  const agent = await newAgent(system, "eu");
  const ingest = openIngest(dayPreparer(sql));
  const send = async (results: AgentResult[]) => {
    await admit(system, "eu", results);
    const { stored, duplicates } = await ingest(agent, { protocol: protocolVersion, results, runs: [] });
    return { stored, duplicates };
  };
  const at = (minutes: number) => first + minutes * minute;
  await send([0, 1, 2, 3].map((one) => agentResult(id, at(one))));
  await send([0, 1].map((one) => agentResult(other, at(one), { status: "down" })));

  clock.at = first + day + 4 * hour;
  await sql`insert into rollup_progress (next_hour) values (${new Date(first)})`;
  await rollUp(system);
  // Killed between two targets: the first one is packed, the day is not finished.
  await sealDay(sql, "2026-11-17");
  await packRows(sql, "2026-11-17", [{ id, interval_ms: minute, jitter_seed: 1 }], 10);
  const late = [agentResult(id, at(4)), agentResult(id, at(3), { status: "down" })];
  t.strictSame(await send(late), { stored: 1, duplicates: 1 }, "in a sealed day");
  t.equal((await all(id)).length, 5);
  await pack(system);
  t.strictSame((await all(id)).length + (await all(other)).length, 7);
  t.strictSame(await sql`select count(*)::int from results_late`.then(([row]) => row!["count"]), 0, "merged");

  const later = [agentResult(id, at(3)), agentResult(id, at(5), { status: "down" }), agentResult(id, at(5))];
  t.strictSame(await send(later), { stored: 1, duplicates: 2 }, "in a packed day");
  t.strictSame(await send(later), { stored: 0, duplicates: 3 }, "sent again");
  const counts = async () => {
    const range = { from: new Date(first - 2 * day).toISOString(), to: new Date(clock.at).toISOString() };
    const { up, down } = await uptime(ctx, id, range);
    return { up, down, total: (await listResults(ctx, id, { ...range, limit: 1, offset: 0 })).total };
  };
  t.strictSame(await counts(), { up: 5, down: 1, total: 6 }, "read at once");
  await pack(system);
  await rollUp(system);
  t.strictSame(await counts(), { up: 5, down: 1, total: 6 }, "merged");
  t.strictSame(await send(later), { stored: 0, duplicates: 3 }, "sent after it was merged");
  const skipped = agentResult(id, at(6), { status: "error", skip: true, error: "throttled: host concurrency cap" });
  t.strictSame(await send([skipped]), { stored: 1, duplicates: 0 });
  t.strictSame(await counts(), { up: 5, down: 1, total: 7 }, "one that is no evidence counts as a result only");
  await pack(system);
  await rollUp(system);
  t.strictSame(await counts(), { up: 5, down: 1, total: 7 });
});

t.test("a day whose results do not match is reported, packed again ever later, and then finished", async (t) => {
  await clear();
  clock.at = first + hour;
  const [id, deleted] = [await newTarget(ctx), await newTarget(ctx)];
  await keepPartitions(system);
  for (const one of [id, deleted]) await addResults(system, one, [{ at: first + minute }, { at: first + 2 * minute }]);
  clock.at = first + day + 4 * hour;
  await sql`insert into rollup_progress (next_hour) values (${new Date(first + day)})`;
  await sql`update pack_progress set sealed_to = '2026-11-18'`;
  // Half of the results, and all of a target that is deleted meanwhile, whose packed results are gone already.
  const tamper = () =>
    packRows(sql, "2026-11-17", [{ id, interval_ms: minute, jitter_seed: 1 }], 10).then(
      () => sql`update results_packed set runs = 1 where target_id = ${id}`,
    );
  await sql`delete from targets where id = ${deleted}`;
  await sql`
    insert into deleted_targets (target_id, org_id, deleted_at, regions)
    values (${deleted}, ${ctx.orgId}, now(), '{}')`;
  const runs = async () =>
    (await sql<{ runs: number }[]>`select runs from results_packed where target_id = ${id}`).map((row) => row.runs);
  const errors = () => log.lines.filter(({ level }) => level === "error").length;
  const before = errors();
  for (const [times, pause] of [10, 20, 40].entries()) {
    await tamper();
    await pack(system);
    matchObject(t, log.lines.at(-1), {
      fields: { day: "2026-11-17", times: times + 1, targets: 1, id, rows: 2, packed: 1 },
    });
    t.strictSame(await runs(), [], "what was packed of it is gone");
    matchObject(t, await packState(system), { mismatches: times + 1, waiting: 1, oldest: "2026-11-17" });
    clock.at += pause * minute - 1;
    await pack(system);
    t.equal(errors(), before + times + 1, "not before");
    clock.at += 1;
  }
  await pack(system);
  t.strictSame(await runs(), [2]);
  matchObject(t, await packState(system), { mismatches: 0, waiting: 0, oldest: null, late: 0 });
});

t.test("a sort without room for its files loses nothing, is said, and is done again", async (t) => {
  await clear();
  clock.at = first + hour;
  const id = await newTarget(ctx);
  await keepPartitions(system);
  await sql`
    insert into results (target_id, scheduled_at, "timestamp", region, status, skip, error, total_ms)
    select ${id}, at, at, 'eu', 'up', false, repeat('x', 200), 12
    from generate_series(${new Date(first)}::timestamptz, ${new Date(first + day - 1)}, '1 minute') at`;
  const before = await all(id);
  clock.at = first + day + 4 * hour;
  await sql`insert into rollup_progress (next_hour) values (${new Date(first + day)})`;
  // Limits of PostgreSQL stand for the disk: sorts go to files, and files may have 64 kB.
  const little = pool(1);
  await little`set temp_file_limit = '64kB'`;
  const sizes = { ...packSizes, workMem: "64kB" };
  await t.rejects(pack({ ...system, sql: little }, undefined, sizes), { code: "53400" });
  matchObject(t, log.lines.at(-1), { level: "error", message: "results were not packed; the next run continues" });
  matchObject(t, await packState(system), { waiting: 1, oldest: "2026-11-17", failure: /temporary file size exceeds/ });
  same(t, await all(id), before);
  await pack(system);
  matchObject(t, await packState(system), { waiting: 0, failure: null });
  same(t, await all(id), before);
  t.strictSame([...(await sql`select runs from results_packed`)], [{ runs: 1440 }]);
});

t.test("ANALYZE does not unpack the arrays of packed days", async (t) => {
  const arrays = await sql<{ name: string; target: number | null }[]>`
    select attrelid::regclass || '.' || attname as name, attstattarget::int as target from pg_attribute
    where attrelid::regclass::text like '%\\_packed' and attndims > 0`;
  t.ok(arrays.length >= 20, `${arrays.length} arrays`);
  t.same(
    arrays.filter(({ target }) => target !== 0).map(({ name }) => name),
    [],
  );
});

t.test("what is stored of a deleted target goes, also when the service was away for days", async (t) => {
  await clear();
  clock.at = first + hour;
  const [id, kept] = [await newTarget(ctx), await newTarget(ctx)];
  await keepPartitions(system);
  const minutes = Array.from({ length: 4 }, (_, n) => ({ at: first + n * minute }));
  for (const one of [id, kept]) await addResults(system, one, minutes);
  await sql`insert into rollup_progress (next_hour) values (${new Date(first)})`;
  clock.at = first + day + 4 * hour;
  await rollUp(system);
  await pack(system);
  for (const one of [id, kept]) {
    await addResults(system, one, [{ at: clock.at - hour }]);
    await sql`
      insert into results_late (target_id, scheduled_at, region, "timestamp", status, skip)
      values (${one}, ${new Date(first + 5 * minute)}, 'eu', ${new Date(first + 5 * minute)}, 'up', false)`;
    await issueSlots(sql, "eu", [{ targetId: one, slotMs: clock.at }]);
  }
  const left = async (target: string) => {
    const rows = await sql<{ tables: string[] }[]>`
      select array(${tables
        .map((name) => sql`select ${name} from ${sql(name)} where target_id = ${target}`)
        .reduce((all, one) => sql`${all} union ${one}`)}) as tables`;
    return rows[0]!.tables.toSorted();
  };
  const stored = await left(kept);
  t.strictSame(await left(id), stored);
  t.ok(stored.includes("results") && stored.includes("results_packed") && stored.includes("hours_packed"));
  await deleteTarget(ctx, id);
  // Nothing ran for two days: the tombstone is older than a day, and still there.
  clock.at += 2 * day;
  await sweepTombstones(system);
  await dropOldRollups(system);
  t.ok(
    (await left(id)).every((name) => name.startsWith("results") && !name.endsWith("ly")),
    "not subtracted yet",
  );
  await rollUp(system);
  await dropOldRollups(system);
  t.strictSame(await left(id), []);
  const rest = await left(kept);
  t.ok(stored.every((name) => rest.includes(name)));
  await sweepTombstones(system);
  t.equal((await sql`select from deleted_targets where target_id = ${id}`).length, 0);
});

/** The answers of all reads of results for ranges with their ends on either side of midnight. */
async function everyRead(id: string, from: number, end: number): Promise<unknown> {
  const iso = (at: number) => new Date(at).toISOString();
  const midnight = first + day;
  const ranges = [
    [from, end],
    [from + 90 * minute, midnight + 1],
    [midnight - 1, midnight + hour],
    [midnight, end],
    [from - 3 * day, end],
  ].map(([since, until]) => ({ from: iso(since!), to: iso(until!) }));
  const answers: unknown[] = [];
  for (const [at, range] of ranges.entries()) {
    // One region of a range that ends at midnight, and of one that begins there.
    for (const region of at === 1 || at === 3 ? [undefined, "us"] : [undefined]) {
      const input = { ...range, ...(region === undefined ? {} : { region }) };
      answers.push(await listResults(ctx, id, { ...input, limit: 20, offset: 0 }));
      answers.push(await listResults(ctx, id, { ...input, limit: 7, offset: 11 }));
      answers.push(await uptime(ctx, id, input), await latencySeries(ctx, id, input));
    }
    answers.push(await latencyByRegion(ctx, id, range));
    answers.push(await listPeriods(ctx, id, { ...range, ongoing_only: false, limit: 50, offset: 0 }));
    answers.push(await listFailures(ctx, id, { ...range, limit: 30 }));
    answers.push(await text(await resultsCsv(ctx, id, range)));
  }
  answers.push(await dailyCounts(system, ctx.orgId, [id], 30));
  answers.push(await recentHistory({ ...ctx, clock: { now: () => end } }, [id]));
  return answers;
}

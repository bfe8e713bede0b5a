import fc from "fast-check";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { protocolVersion } from "@statusmesh/shared/protocol/agent-protocol";
import { newId } from "@statusmesh/shared/ids";
import { ensurePartitions } from "../../../platform/db/distributed/partitions.ts";
import { rollUp } from "../rollups/rollup.ts";
import { openIngest } from "../../pipeline/ingest.ts";
import { serve } from "../../../testing/app.ts";
import { day, hour, minute, noon } from "../../../testing/clock.ts";
import { addResults, admit, agentResult, newTarget, type SceneResult, setStatus } from "../../../testing/scene.ts";
import { newAgent, newOrg, openWorld } from "../../../testing/world.ts";
import { resultRoutes } from "../api.ts";

const { sql, clock, system } = await openWorld(t);
await ensurePartitions(sql, new Date(noon - 10 * day), new Date(noon + day));
const ctx = await newOrg(system);
let caller = ctx;
const ask = await serve(t, system, resultRoutes, { tenant: () => caller });
const iso = (at: number) => new Date(at).toISOString();

t.beforeEach(() => {
  caller = ctx;
  clock.at = noon;
});

interface Period {
  id: string;
  started_at: string;
  ended_at: string | null;
  status: string;
  duration_secs: number | null;
  check_count: number;
  error_sample: string | null;
}

async function probed(regions: readonly string[] = ["eu"]): Promise<string> {
  const id = await newTarget(ctx);
  await sql`
    insert into target_regions (target_id, region_id) select ${id}, r from unnest(${[...regions]}::text[]) as r`;
  return id;
}

const statuses: Record<string, Partial<SceneResult>> = {
  U: { status: "up" },
  D: { status: "down" },
  E: { status: "error" },
  G: { status: "degraded" },
  S: { status: "down", skip: true },
};
/** A run a minute, the last one a minute ago. U is up, D down, E error, G degraded, S was skipped, a dot is nothing. */
const runs = (letters: string, region = "eu", end = noon - minute): SceneResult[] =>
  [...letters].flatMap((letter, at) =>
    letter === "." ? [] : [{ at: end - (letters.length - 1 - at) * minute, region, ...statuses[letter] }],
  );

const page = async (id: string, query = "") =>
  (await ask("GET", `/api/v1/targets/${id}/incidents${query}`)).body as {
    items: Period[];
    total: number;
    limit: number;
    offset: number;
  };
/** Start and end in minutes before noon, and the number of failed runs. */
const shape = (items: readonly Period[]) =>
  items.map(({ started_at, ended_at, check_count }) => [
    (Date.parse(started_at) - noon) / minute,
    ended_at === null ? null : (Date.parse(ended_at) - noon) / minute,
    check_count,
  ]);

t.test("a period is a run of failing results, and an up result ends it", async (t) => {
  const id = await probed();
  await addResults(ctx, id, runs("UUDDEUUEEUDD"));
  const { items, total, limit, offset } = await page(id);
  t.strictSame([total, limit, offset], [3, 100, 0]);
  t.strictSame(
    shape(items),
    [
      [-2, null, 2],
      [-5, -3, 2],
      [-10, -7, 3],
    ],
    "newest first",
  );
  matchObject(t, items, [
    { status: "down", duration_secs: null },
    { status: "error", duration_secs: 120 },
    { status: "down", duration_secs: 180, error_sample: "connection refused" },
  ]);
  t.equal(new Set(items.map((item) => item.id)).size, 3);
  t.strictSame(await page(id), { items, total, limit, offset }, "the same at every request");
  t.strictSame(shape((await page(id, "?ongoing_only=true")).items), [[-2, null, 2]]);
  matchObject(t, await page(id, "?limit=1&offset=1"), { items: [{ id: items[1]!.id }], total: 3, limit: 1, offset: 1 });
  matchObject(t, await page(id, "?offset=9"), { items: [], total: 3 });
  matchObject(t, await page(id, "?limit=5000"), { limit: 1000 });
});

t.test("degraded and skipped runs neither start, end nor split a period", async (t) => {
  const cases: [string, unknown[]][] = [
    ["", []],
    ["UUGGSSU", []],
    ["UDGGDU", [[-5, -1, 2]]],
    ["UDSSDU", [[-5, -1, 2]]],
    ["UDGGGG", [[-5, null, 1]]],
    ["GDU", [[-2, -1, 1]]],
    ["DDD", [[-3, null, 3]]],
  ];
  for (const [letters, expected] of cases) {
    const id = await probed();
    await addResults(ctx, id, runs(letters));
    t.strictSame(shape((await page(id)).items), expected, letters);
  }
});

t.test("a period that reaches over the edges of the range is shown whole, as the same one", async (t) => {
  const id = await probed();
  await addResults(ctx, id, runs(`U${"D".repeat(60)}UDU`));
  const [second, whole] = (await page(id)).items;
  t.strictSame(shape([second!, whole!]), [
    [-2, -1, 1],
    [-63, -3, 60],
  ]);
  for (const [from, to] of [
    [-40, -20],
    [-200, -50],
    [-10, 0],
    [-63, -62],
  ] as const) {
    const { items } = await page(id, `?from=${iso(noon + from * minute)}&to=${iso(noon + to * minute)}`);
    t.strictSame(items.at(-1), whole, `seen from ${from} to ${to}`);
  }
  t.strictSame(
    (await page(id, `?from=${iso(noon - 2 * hour)}&to=${iso(noon - 63 * minute)}`)).items,
    [],
    "it begins where this range ends",
  );
  t.strictSame(
    (await page(id, `?from=${iso(noon - 3 * minute)}`)).items,
    [second],
    "it has ended where this range begins",
  );
});

t.test("regions that fail at the same time make one period", async (t) => {
  const id = await probed(["eu", "us"]);
  await addResults(ctx, id, [...runs("UDDDUUUDDU", "eu"), ...runs("UUUDDDUUUU", "us")]);
  t.strictSame(shape((await page(id)).items), [
    [-3, -1, 2],
    [-9, -4, 6],
  ]);
  const half = await probed(["eu", "us"]);
  await addResults(ctx, half, [...runs("UUUUUU", "eu"), ...runs("UDDDDD", "us")]);
  t.strictSame(
    shape((await page(half)).items),
    [[-5, null, 5]],
    "a region that passes does not split what another one sees",
  );
});

t.test("a region that probes no more does not fail for ever", async (t) => {
  const id = await probed(["eu"]);
  await addResults(ctx, id, [...runs("UDDD...", "us"), ...runs("UUUUUUU", "eu")]);
  t.strictSame(shape((await page(id)).items), [[-6, -4, 3]], "its last failing run is the end");
  const paused = await probed();
  await addResults(ctx, paused, runs("UDD"));
  await sql`update targets set enabled = false where id = ${paused}`;
  t.strictSame(shape((await page(paused)).items), [[-2, -1, 2]]);
});

t.test("property: periods equal a plain count of the letters, for any runs and any range", async (t) => {
  const expected = (letters: string, from: number, to: number) => {
    const periods: { start: number; end: number | null; count: number }[] = [];
    let open: (typeof periods)[number] | null = null;
    for (const [at, letter] of [...letters].entries()) {
      const minuteAt = at - letters.length;
      if (letter === "D" || letter === "E") {
        open ??= { start: minuteAt, end: null, count: 0 };
        if (!periods.includes(open)) periods.push(open);
        open.count++;
      } else if (letter === "U" && open !== null) {
        open.end = minuteAt;
        open = null;
      }
    }
    return periods
      .filter((it) => it.start < to && (it.end === null || it.end > from))
      .map((it) => [it.start, it.end, it.count])
      .reverse();
  };
  const letters = fc.string({ unit: fc.constantFrom(..."UDEGS."), minLength: 1, maxLength: 40 });
  await fc.assert(
    fc.asyncProperty(
      letters,
      fc.integer({ min: -41, max: -1 }),
      fc.integer({ min: 1, max: 41 }),
      async (sequence, from, width) => {
        const id = await probed();
        await addResults(ctx, id, runs(sequence));
        const { items, total } = await page(
          id,
          `?from=${iso(noon + from * minute)}&to=${iso(noon + (from + width) * minute)}`,
        );
        const found = shape(items);
        t.equal(total, found.length);
        const wanted = expected(sequence, from, from + width);
        return (
          JSON.stringify(found) === JSON.stringify(wanted) ||
          t.strictSame(found, wanted, `${sequence} from ${from} for ${width}`)
        );
      },
    ),
    { numRuns: 30 },
  );
});

t.test("property: stored changes equal what every row gives, in any order, twice or late", async (t) => {
  const agents = await Promise.all(["eu", "us"].map((region) => newAgent(system, region)));
  const ingest = openIngest(async () => {});
  const oneRun = fc.record({
    agent: fc.integer({ min: 0, max: 1 }),
    /** Minutes before noon; half of them a day and an hour earlier, around the hour that ranges are read from. */
    slot: fc
      .tuple(fc.integer({ min: -300, max: -1 }), fc.boolean())
      .map(([slot, earlier]) => (earlier ? slot - 25 * 60 : slot)),
    status: fc.constantFrom("up", "down", "error", "degraded"),
    skip: fc.integer({ min: 0, max: 9 }).map((n) => n === 0),
    lateMs: fc.integer({ min: -minute, max: 2 * minute }),
  });
  const steps = fc.array(
    fc.record({
      runs: fc.array(oneRun, { minLength: 1, maxLength: 25 }),
      /** Minutes before the next step. */
      pause: fc.integer({ min: 0, max: 90 }),
      rolled: fc.boolean(),
      /** Start of the range, minutes before noon. */
      from: fc.oneof(fc.constant(2 * 24 * 60), fc.integer({ min: 0, max: 300 })),
      /** End of the range, minutes before noon; the default is a day after it. */
      to: fc.oneof(fc.constant(-24 * 60), fc.integer({ min: 25 * 60, max: 30 * 60 })),
    }),
    { minLength: 1, maxLength: 3 },
  );
  const gone = fc.integer({ min: 0, max: 2 });
  await fc.assert(
    fc.asyncProperty(steps, gone, async (given, goneAgent) => {
      clock.at = noon;
      await sql`truncate rollup_progress, rollup_dirty, changes_hourly`;
      await sql`insert into rollup_progress (next_hour) values (${new Date(noon - 31 * hour)})`;
      const id = await probed(agents.map(({ region }) => region));
      await setStatus(system, id, "unknown");
      const rows = new Map<string, ModelRow>();
      for (const { runs: some, pause, rolled, from, to } of given) {
        for (const [at, agent] of agents.entries()) {
          const results = some
            .filter((run) => run.agent === at)
            .map((run, n) => {
              const slot = noon + run.slot * minute;
              const { status, skip, lateMs } = run;
              const error = status === "up" ? null : `${slot} ${n}`;
              return agentResult(id, slot, { timestamp: Math.min(slot + lateMs, noon), status, skip, error });
            });
          await admit(system, agent.region, results);
          const { stored, duplicates } = await ingest(agent, { protocol: protocolVersion, results, runs: [] });
          if (stored + duplicates !== results.length) return t.fail("every result is taken");
          for (const { scheduled_at: slot, timestamp, status, skip, error } of results) {
            const key = `${agent.region} ${slot}`;
            if (rows.has(key)) continue;
            rows.set(key, { region: agent.region, slot, timestamp, status, counts: !skip, error });
          }
        }
        clock.at += pause * minute;
        if (rolled) await rollUp(system);
        const left = goneAgent === 2 || !rolled ? null : agents[goneAgent]!.region;
        if (left !== null) await sql`delete from target_regions where target_id = ${id} and region_id = ${left}`;
        const begin = noon - from * minute;
        const until = Math.max(noon - to * minute, begin + minute);
        const { items, total } = await page(id, `?from=${iso(begin)}&to=${iso(until)}`);
        const found = items.map(({ started_at, ended_at, status, check_count, error_sample }) => ({
          started_at,
          ended_at,
          status,
          check_count,
          error_sample,
        }));
        t.equal(total, found.length);
        const wanted = fromEveryRow([...rows.values()], left).filter(
          ({ started_at, ended_at }) =>
            (ended_at === null || Date.parse(ended_at) > begin) && Date.parse(started_at) < until,
        );
        if (JSON.stringify(found) !== JSON.stringify(wanted)) return t.strictSame(found, wanted);
        if (left !== null) await sql`insert into target_regions (target_id, region_id) values (${id}, ${left})`;
      }
      return true;
    }),
    { numRuns: 10 },
  );
});

interface ModelRow {
  region: string;
  slot: number;
  timestamp: number;
  status: string;
  counts: boolean;
  error: string | null;
}

/** Periods by the definition, newest first; the region `left` no longer probes the target. */
function fromEveryRow(rows: readonly ModelRow[], left: string | null) {
  const all: { start: number; end: number; rows: ModelRow[]; region: string }[] = [];
  for (const region of new Set(rows.map((row) => row.region))) {
    let open: (typeof all)[number] | null = null;
    const own = rows.filter((row) => row.region === region && row.counts && row.status !== "degraded");
    for (const row of own.sort((a, b) => a.slot - b.slot)) {
      if (row.status === "up") {
        if (open !== null) open.end = Math.max(open.start, row.timestamp);
        open = null;
        continue;
      }
      if (open === null) all.push((open = { start: row.timestamp, end: Infinity, rows: [], region }));
      open.start = Math.min(open.start, row.timestamp);
      open.rows.push(row);
      if (region === left) open.end = Math.max(...open.rows.map(({ timestamp }) => timestamp));
    }
  }
  all.sort((a, b) => a.start - b.start || (a.region < b.region ? -1 : 1));
  const periods: typeof all = [];
  for (const run of all) {
    const last = periods.at(-1);
    if (last === undefined || run.start >= last.end) {
      periods.push({ ...run });
      continue;
    }
    last.end = Math.max(last.end, run.end);
    last.rows = [...last.rows, ...run.rows];
  }
  return periods.reverse().map(({ start, end, rows: own }) => ({
    started_at: iso(start),
    ended_at: end === Infinity ? null : iso(end),
    status: own.some(({ status }) => status === "down") ? "down" : "error",
    check_count: own.length,
    error_sample: own.sort((a, b) => b.slot - a.slot || (a.region < b.region ? -1 : 1))[0]!.error,
  }));
}

t.test("what cannot be asked is refused, and what is another's is absent", async (t) => {
  const id = await probed();
  const path = `/api/v1/targets/${id}/incidents`;
  matchObject(t, await ask("GET", `${path}?from=${iso(noon)}&to=${iso(noon)}`), {
    status: 400,
    body: { error: { code: "BAD_TIME_RANGE" } },
  });
  matchObject(t, await ask("GET", `${path}?ongoing_only=maybe`), {
    status: 400,
    body: { error: { code: "INVALID_QUERY", field: "/query/ongoing_only" } },
  });
  for (const absent of [newId(), "nonsense"])
    matchObject(t, await ask("GET", `/api/v1/targets/${absent}/incidents`), {
      status: 404,
      body: { error: { code: "TARGET_NOT_FOUND" } },
    });
  caller = await newOrg(system);
  matchObject(t, await ask("GET", path), { status: 404, body: { error: { code: "TARGET_NOT_FOUND" } } });
  caller = { ...ctx, scopes: new Set() };
  matchObject(t, await ask("GET", path), { status: 403, body: { error: { code: "INSUFFICIENT_SCOPE" } } });
});

import { openIngest } from "@statusmesh/control-plane/monitoring/pipeline/ingest";
import { changesOfRuns } from "@statusmesh/control-plane/monitoring/results/history/change-queries";
import { hourChanges, hourCounts, hourLatencies } from "@statusmesh/control-plane/monitoring/results/hours-queries";
import { dayPreparer, keepPartitions } from "@statusmesh/control-plane/monitoring/results/rollups/keep-partitions";
import { latencyColumns, latencyOfRuns } from "@statusmesh/control-plane/monitoring/results/latency/queries";
import { pack } from "@statusmesh/control-plane/monitoring/results/packing/pack";
import { packState } from "@statusmesh/control-plane/monitoring/results/packing/pack-state";
import { rollUp } from "@statusmesh/control-plane/monitoring/results/rollups/rollup";
import { runColumns, runs } from "@statusmesh/control-plane/monitoring/results/runs-queries";
import { backupEntries } from "@statusmesh/control-plane/platform/db/backup/backup";
import { ensurePartitions } from "@statusmesh/control-plane/platform/db/distributed/partitions";
import { restoreEntries } from "@statusmesh/control-plane/platform/db/backup/restore";
import { day, hour, minute } from "@statusmesh/control-plane/testing/clock";
import { admit, agentResult, newTarget, setStatus } from "@statusmesh/control-plane/testing/scene";
import { newAgent, newOrg, openWorld } from "@statusmesh/control-plane/testing/world";
import { type AgentResult, protocolVersion } from "@statusmesh/shared/protocol/agent-protocol";
import type { Sql } from "postgres";
import t, { type Test } from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { tempFolder } from "../harness/folder.ts";
import { harnessProgram, type Program, startProgram } from "../harness/processes.ts";
import { waitFor } from "../harness/wait.ts";

/*
 * The process that packs is killed with SIGKILL at each of its steps, while results of the packed days arrive: every
 * result is there once with its values, and the sums of hours equal those of the results.
 */

const packer = harnessProgram("packer");
const first = Date.UTC(2026, 10, 17);
const now = first + 2 * day + 4 * hour;

const world = await openWorld(t);
const { sql, clock, system } = world;
clock.at = first + hour;
await ensurePartitions(sql, new Date(first), new Date(now));
await keepPartitions(system);
const ctx = await newOrg(system);
const ids = await Promise.all(Array.from({ length: 5 }, (_, n) => newTarget(ctx, `Monitor ${n}`, { interval: 600 })));
await sql`
  insert into target_regions (target_id, region_id)
  select id, region from unnest(${ids}::uuid[]) id, unnest(array['eu', 'us']) region`;
for (const id of ids) await setStatus(system, id, "unknown");
const agents = { eu: await newAgent(system, "eu"), us: await newAgent(system, "us") };
const ingest = openIngest(dayPreparer(sql));

/** Result `n` of a target in a region: every ten minutes, now and then a failure. */
const result = (id: string, n: number): AgentResult =>
  agentResult(id, first + n * 10 * minute, n % 17 === 0 ? { status: "down", total_ms: 3 + n } : { total_ms: 20 + n });

async function send(region: "eu" | "us", results: AgentResult[]): Promise<number> {
  await admit(system, region, results);
  return (await ingest(agents[region], { protocol: protocolVersion, results, runs: [] })).stored;
}

/** Results of two days, a quarter of them not sent yet. */
const all = ids.flatMap((id) => (["eu", "us"] as const).flatMap((region) => slots().map((n) => ({ id, region, n }))));
const isLate = ({ n, region }: (typeof all)[number]) => (n + region.length * 3) % 4 === 0;
const late = all.filter(isLate);
let stored = 0;

function slots(): number[] {
  return Array.from({ length: 2 * 144 }, (_, n) => n);
}

async function sendAll(given: readonly (typeof all)[number][]): Promise<number> {
  let sum = 0;
  for (const region of ["eu", "us"] as const)
    sum += await send(
      region,
      given.filter((one) => one.region === region).map(({ id, n }) => result(id, n)),
    );
  return sum;
}

const ever = { from: sql`'-infinity'::timestamptz`, to: sql`'infinity'::timestamptz` };

/** Every result with its values, as one text. */
async function readAll(on: Sql = sql): Promise<{ count: number; hash: string }> {
  const [row] = await on<{ count: number; hash: string }[]>`
    select count(*)::int as count, md5(string_agg(r::text, ',' order by r.target_id, r.region, r.scheduled_at)) as hash
    from unnest(${ids}::uuid[]) id cross join lateral ${runs(on, { target: sql`id`, ...ever }, runColumns)} r`;
  return { ...row! };
}

/** The hours that are stored, and those that the results give. */
async function readHours(on: Sql = sql) {
  const range = { target: sql`id`, ...ever };
  const hash = async (columns: unknown, from: unknown) => {
    const [row] = await on<{ hash: string }[]>`
      select md5(string_agg(h::text, ',' order by h.target_id, h.region, h.hour)) as hash
      from (select id as target_id, ${columns as never} from unnest(${ids}::uuid[]) id
        cross join lateral ${from as never} n) h`;
    return row!.hash;
  };
  const changes = sql`n.hour, n.region, n.results, n.changes, n.failing`;
  return {
    latency: [
      await hash(latencyColumns(sql), hourLatencies(on, range)),
      await hash(latencyColumns(sql), sql`(${latencyOfRuns(on, range.target, range.from, range.to)})`),
    ],
    changes: [
      await hash(changes, hourChanges(on, range)),
      await hash(changes, sql`(${changesOfRuns(on, range.target, range.from, range.to)})`),
    ],
  };
}

async function assertHours(t: Test, on: Sql = sql): Promise<void> {
  const { latency, changes } = await readHours(on);
  t.equal(latency[0], latency[1], "latency by the hour");
  t.equal(changes[0], changes[1], "state changes by the hour");
  const [counts] = await on<{ up: number; down: number }[]>`
    select sum(h.up)::int as up, sum(h.down)::int as down from unnest(${ids}::uuid[]) id
    cross join lateral ${hourCounts(on, { target: sql`id`, ...ever })} h`;
  const down = all.filter(({ n }) => n % 17 === 0).length;
  t.strictSame({ ...counts }, { up: all.length - down, down });
}

const start = (): Program =>
  startProgram(t, packer, [String(now)], { cwd: tempFolder(t, "pack"), env: { ...world.env } });

/** Starts the packer, and kills it when it waits to write to `table`. False when it ends without. */
async function killAt(table: string): Promise<boolean> {
  const blocker = world.pool(1);
  let packing: Program | null = null;
  let killed = false;
  await blocker.begin(async (tx) => {
    await tx.unsafe(`lock table ${table} in exclusive mode`);
    packing = start();
    let ended = false;
    void packing.ended.then(() => (ended = true));
    killed = await waitFor(`the packer to write to ${table}`, async () => {
      if (ended) return { waits: false };
      const waiting = await sql`
        select from pg_locks where relation = ${table}::regclass and not granted`;
      return waiting.length > 0 ? { waits: true } : null;
    }).then(({ waits }) => waits);
    if (killed) await packing.stop("SIGKILL");
  });
  await blocker.end();
  await gone();
  return killed;
}

/** Waits until the transactions of a killed process have ended. */
const gone = () =>
  waitFor(
    "its transactions to end",
    async () =>
      (
        await sql`
          select from pg_locks where locktype = 'advisory' and database = (select oid from pg_database
            where datname = current_database())`
      ).length === 0,
  );

await t.test("killed at each step", async (t) => {
  clock.at = first + 2 * day + minute;
  stored += await sendAll(all.filter((one) => !isLate(one)));
  await sql`insert into rollup_progress (next_hour) values (${new Date(first)})`;
  clock.at = now;
  await rollUp(system);
  const lateOnes = () => late.splice(0, 40);
  for (const table of [
    "pack_progress",
    "results_late",
    "results_packed",
    "results_hourly",
    "hours_packed",
    "changes_packed",
  ]) {
    t.ok(await killAt(table), table);
    const before = await readAll();
    t.equal(before.count, stored, `${table}: no result is lost or doubled`);
    const batch = lateOnes();
    stored += await sendAll(batch);
    t.equal(await sendAll(batch), 0, "sent again");
    t.equal((await readAll()).count, stored);
    if (table.startsWith("results_")) await rollUp(system);
  }
});

await t.test("killed at any moment, while results arrive and hours are summed again", async (t) => {
  // Multiples of a constant that shares no factor with the range: any moment, and the same ones in each run.
  for (let n = 0; n < 12; n++) {
    const packing = start();
    const batch = late.splice(0, 25);
    const sending = sendAll(batch);
    await Promise.race([packing.ended, new Promise((resolve) => setTimeout(resolve, 300 + ((n * 179) % 700)))]);
    await packing.stop("SIGKILL");
    stored += await sending;
    if (n % 3 === 0) await rollUp(system);
    t.equal((await readAll()).count, stored, `kill ${n}`);
  }
  await gone();
});

await t.test("two at once, to the end; a backup from the middle, restored, is packed as well", async (t) => {
  stored += await sendAll(late.splice(0));
  t.equal(stored, all.length);
  const before = await readAll();
  const middle = await openWorld(t);
  await middle.sql.unsafe("drop schema public cascade; create schema public");
  await restoreEntries(middle.sql, backupEntries(sql, { version: "0.0.0", at: new Date(now) }));
  await rollUp(system);
  const both = [start(), start()];
  await Promise.all(both.map(({ ended }) => ended));
  t.ok(both.every(({ log }) => log[0] === "packed" || log[0] === "elsewhere"));
  t.strictSame(await readAll(), before);
  await assertHours(t);
  const state = await packState(system);
  matchObject(t, state, { waiting: 0, late: 0, mismatches: 0 });
  const left = await sql`select from results_hourly union all select from changes_hourly`;
  t.equal(left.length, 0, "all hours are packed");
  const restored = { ...middle.system, clock };
  await rollUp(restored);
  await pack(restored);
  t.strictSame(await readAll(middle.sql), before);
  await assertHours(t, middle.sql);
});

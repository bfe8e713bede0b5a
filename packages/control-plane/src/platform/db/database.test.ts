import * as fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import net from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import type { Sql } from "postgres";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { silentLog } from "../process/log.ts";
import { until } from "../../testing/clock.ts";
import { parseUrl } from "./client/address.ts";
import { type DatabaseAddress, openPool } from "./client/connect.ts";
import { openDatabase } from "./client/open-database.ts";
import { startEmbedded } from "./embedded/embedded.ts";
import { asStartupError } from "./client/failures.ts";
import { migrate } from "./migrate.ts";
import { openHub } from "./notify.ts";
import { dropPartitionsBefore, ensurePartitions } from "./distributed/partitions.ts";

const root = fs.mkdtempSync(join(tmpdir(), "sm-database-"));
// As root the server runs as another user, which must enter the folder.
fs.chmodSync(root, 0o711);
const server = await startEmbedded({ dataDir: join(root, "data"), log: silentLog });
const admin = openPool(server.address, { max: 1 });
t.teardown(async () => {
  await admin.end();
  await server.stop();
  fs.rmSync(root, { recursive: true, force: true });
});

type Teardown = { teardown(fn: () => unknown): void };

let databases = 0;
/** An empty database of its own, and a pool on it. */
async function emptyDatabase(t: Teardown): Promise<{ sql: Sql; address: DatabaseAddress }> {
  const database = `test_${++databases}`;
  await admin.unsafe(`create database ${database}`);
  const address = { ...(server.address as Extract<DatabaseAddress, { path: string }>), database };
  const sql = openPool(address);
  t.teardown(() => sql.end({ timeout: 0 }));
  return { sql, address };
}

function migrationFolder(files: Record<string, string>): string {
  const folder = fs.mkdtempSync(join(root, "migrations-"));
  for (const [name, text] of Object.entries(files)) fs.writeFileSync(join(folder, name), text);
  return folder;
}

t.test("values are returned in the types that the code relies on", async (t) => {
  const { sql } = await emptyDatabase(t);
  const [row] = await sql`select 5::int8 as small, 9007199254740993::int8 as large, sum(n) as total,
    '2026-11-20T13:00:00.123+02'::timestamptz as at, array[1, 2]::int8[] as list, current_setting('TimeZone') as zone,
    current_setting('statement_timeout') as timeout, current_setting('jit') as jit
    from (values (1::int8), (2)) as v (n)`;
  t.strictSame(
    { ...row },
    {
      small: 5,
      large: "9007199254740993",
      total: 3,
      at: new Date("2026-11-20T11:00:00.123Z"),
      list: [1, 2],
      zone: "UTC",
      timeout: "30s",
      jit: "off",
    },
  );
  t.strictSame(
    [...(await sql`select ${2 ** 53 - 1}::int8 as n, ${"9007199254740993"}::int8 as m, ${0.5}::numeric as half`)],
    [{ n: 2 ** 53 - 1, m: "9007199254740993", half: 0.5 }],
  );
});

t.test("the error of an unusable database is one line, without the password", async (t) => {
  const silent = net.createServer((socket) => socket.end()).listen(0, "127.0.0.1");
  await new Promise((resolve) => silent.once("listening", resolve));
  t.teardown(() => silent.close());
  const own = server.address as Extract<DatabaseAddress, { path: string }>;
  const cases: [DatabaseAddress, RegExp][] = [
    [
      { url: "postgres://u:s3cret@127.0.0.1:1/sm" },
      /^The database sm at 127\.0\.0\.1:1 cannot be reached \(ECONNREFUSED\)/,
    ],
    [
      { url: "postgres://u:s3cret@no-such-host.invalid/sm" },
      /^The host of the database sm at no-such-host\.invalid cannot be resolved/,
    ],
    [{ url: "postgres://u:s3cret@[half/sm" }, /^database\.url is not a URL/],
    [{ url: "postgres://u:s3cret@one,,two/sm" }, /^database\.url is not a URL/],
    [{ url: "postgres://u:s3cret@one:1:2/sm", key: "database.listen_url" }, /^database\.listen_url is not a URL/],
    [
      { url: "postgres://u:s3cret@127.0.0.1:1,[::1]:2/sm", key: "database.listen_url" },
      /^The database sm at 127\.0\.0\.1:1, \[::1\]:2 cannot be reached .*\(SM_DATABASE__LISTEN_URL\)/,
    ],
    [{ url: `postgres://u:s3cret@127.0.0.1:${(silent.address() as net.AddressInfo).port}/sm` }, /^The database sm at /],
    [{ ...own, database: "absent" }, /^The database .* does not exist/],
    [{ ...own, username: "nobody" }, /^The database .* refused the user or the password/],
  ];
  for (const [address, message] of cases) {
    const error: unknown = await openDatabase(address).then(
      () => null,
      (reason: unknown) => reason,
    );
    matchObject(t, error, { name: "StartupError", message });
    t.notMatch((error as Error).message, /s3cret|\n/);
  }
});

t.test("addresses of one host and of several are read", (t) => {
  const cases: [string, [string, number][]][] = [
    ["postgres://u:p@db.example.org/sm", [["db.example.org", 5432]]],
    ["postgresql://u:p%40ss@db:6000/sm?sslmode=require", [["db", 6000]]],
    [
      "postgres://u:p@one:1,two,[fd00::1]:3/sm",
      [
        ["one", 1],
        ["two", 5432],
        ["fd00::1", 3],
      ],
    ],
    ["postgres:///sm", []],
  ];
  for (const [url, hosts] of cases)
    t.strictSame(
      parseUrl({ url }).hosts.map(({ host, port }) => [host, port]),
      hosts,
      url,
    );
  t.end();
});

t.test("migrations run once, in order, also when several processes start at once", async (t) => {
  const { sql, address } = await emptyDatabase(t);
  const folder = migrationFolder({
    "0001_one.sql": "create table one (n int); select pg_sleep(0.05);",
    "0002_two.sql": "create table two (n int); insert into one values (1);",
    "0003_three.sql": "insert into one values (2);",
  });
  const pools = Array.from({ length: 4 }, () => openPool(address, { max: 2 }));
  const ran = await Promise.all(pools.map((pool) => migrate(pool, folder)));
  await Promise.all(pools.map((pool) => pool.end()));
  t.strictSame(ran.flat().sort(), ["0001_one", "0002_two", "0003_three"]);
  t.strictSame([...(await sql`select n from one order by n`)], [{ n: 1 }, { n: 2 }]);
  t.strictSame(await migrate(sql, folder), [], "nothing is left to run");

  fs.writeFileSync(join(folder, "0004_four.sql"), "create table four (n int);\r\n");
  t.strictSame(await migrate(sql, folder), ["0004_four"]);
  fs.writeFileSync(join(folder, "0004_four.sql"), "create table four (n int);\n");
  t.strictSame(await migrate(sql, folder), [], "line ends do not count as a change");
});

t.test("a history that does not fit is refused, and a failing migration leaves nothing", async (t) => {
  const { sql } = await emptyDatabase(t);
  const folder = migrationFolder({
    "0001_one.sql": "create table one (n int);",
    "0003_three.sql": "create table three (n int);",
  });
  await migrate(sql, folder);

  fs.writeFileSync(join(folder, "0004_bad.sql"), "create table half (n int); select nonsense;");
  await t.rejects(migrate(sql, folder), {
    name: "StartupError",
    message: /^The migration 0004_bad failed and was undone: column "nonsense" does not exist/,
  });
  t.strictSame([...(await sql`select to_regclass('half') as half`)], [{ half: null }]);
  fs.rmSync(join(folder, "0004_bad.sql"));

  fs.writeFileSync(join(folder, "0002_late.sql"), "select 1;");
  await t.rejects(migrate(sql, folder), /The migration 0002_late has a lower number than 0003_three/);
  fs.rmSync(join(folder, "0002_late.sql"));

  fs.writeFileSync(join(folder, "0001_one.sql"), "create table one (n bigint);");
  await t.rejects(migrate(sql, folder), /The migration 0001_one was changed after it had run/);
  fs.writeFileSync(join(folder, "0001_one.sql"), "create table one (n int);");

  fs.rmSync(join(folder, "0003_three.sql"));
  await t.rejects(migrate(sql, folder), /The database is newer than this StatusMesh: it has the migration 0003_three/);

  await t.rejects(migrate(sql, migrationFolder({ "1_short.sql": "" })), /1_short\.sql is not named NNNN_name\.sql/);
  await t.rejects(
    migrate(sql, migrationFolder({ "0001_a.sql": "", "0001_b.sql": "" })),
    /Two migrations have the number 0001/,
  );
});

t.test("a migration that loses its connection may be tried again", async (t) => {
  const { sql } = await emptyDatabase(t);
  const folder = migrationFolder({ "0001_one.sql": "select pg_terminate_backend(pg_backend_pid());" });
  const error = await migrate(sql, folder).catch(asStartupError);
  matchObject(t, error, { name: "StartupError", exitCode: 75 });
});

t.test("the hub passes notifications on, and wakes everybody after a lost connection", async (t) => {
  const { sql } = await emptyDatabase(t);
  const hub = openHub(sql, silentLog);
  const received: string[] = [];
  const off = hub.on("news", (payload) => received.push(payload));
  hub.on("news", () => {
    throw new Error("another listener fails");
  });
  await hub.ready();
  t.strictSame(received, [""], "listening begins with a wake-up: an earlier notification may have been missed");

  const seven = hub.wait("news", 5000, { predicate: (payload) => payload === "7" });
  await sql`select pg_notify('news', n::text) from generate_series(6, 7) as n`;
  t.equal(await seven, true);
  t.strictSame(received, ["", "6", "7"]);

  t.equal(await hub.wait("news", 20), false, "the time runs out");
  const stop = new AbortController();
  const aborted = hub.wait("news", 5000, { signal: stop.signal });
  stop.abort();
  t.equal(await aborted, false);
  t.equal(await hub.wait("news", 5000, { signal: stop.signal }), false);

  const woken = hub.wait("news", 10_000, { predicate: () => false });
  await sql`select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and query like 'listen%'`;
  t.equal(await woken, true);
  t.equal(received.at(-1), "");
  const eight = hub.wait("news", 5000, { predicate: (payload) => payload === "8" });
  await sql.notify("news", "8");
  t.equal(await eight, true);
  t.equal(received.at(-1), "8", "and notifications arrive again");

  off();
  const nine = hub.wait("news", 5000, { predicate: (payload) => payload === "9" });
  await sql.notify("news", "9");
  t.equal(await nine, true);
  t.equal(received.at(-1), "8");
});

t.test("the hub reconnects to a server that was away", async (t) => {
  const dataDir = join(root, "away");
  const first = await startEmbedded({ dataDir, log: silentLog });
  const sql = openPool(first.address);
  t.teardown(() => sql.end({ timeout: 0 }));
  const hub = openHub(sql, silentLog);
  let wakeUps = 0;
  hub.on("news", () => wakeUps++);
  await hub.ready();
  await first.stop();
  await sleep(300);
  t.equal(wakeUps, 1);
  const second = await startEmbedded({ dataDir, log: silentLog });
  // The hub may listen again before the start has ended.
  await until(() => wakeUps > 1, "the hub to listen again");
  const received = hub.wait("news", 90_000, { predicate: (payload) => payload === "x" });
  await sql.notify("news", "x");
  t.equal(await received, true);
  await second.stop();
});

function deferred(): { promise: Promise<void>; resolve: () => void } {
  let resolve = () => {};
  const promise = new Promise<void>((settle) => (resolve = settle));
  return { promise, resolve };
}

const resultsTable =
  "create table results (target_id uuid, scheduled_at timestamptz, region text, " +
  "primary key (target_id, scheduled_at, region)) partition by range (scheduled_at)";

t.test("day partitions are made ahead, once, and take a day in UTC each", async (t) => {
  const { sql } = await emptyDatabase(t);
  await sql.unsafe(resultsTable);
  const from = new Date("2026-11-29T23:59:59Z");
  const to = new Date("2026-12-02T00:00:00Z");
  const made = await Promise.all(Array.from({ length: 4 }, () => ensurePartitions(sql, from, to)));
  t.strictSame(made.flat().sort(), ["results_20261129", "results_20261130", "results_20261201", "results_20261202"]);
  t.strictSame(await ensurePartitions(sql, from, to), []);

  const times = ["2026-11-30T00:00:00Z", "2026-11-30T23:59:59.999Z", "2026-12-01T00:00:00Z"];
  await sql`insert into results select gen_random_uuid(), at, 'x' from unnest(${times}::timestamptz[]) as at`;
  t.strictSame(
    [...(await sql`select tableoid::regclass::text as part, count(*) as n from results group by 1 order by 1`)],
    [
      { part: "results_20261130", n: 2 },
      { part: "results_20261201", n: 1 },
    ],
  );
});

t.test("old partitions go without stopping readers, also after an interrupted removal", async (t) => {
  const { sql } = await emptyDatabase(t);
  await sql.unsafe(resultsTable);
  const now = new Date("2026-11-20T12:00:00Z");
  const threeDaysAgo = new Date("2026-11-17T12:00:00Z");
  await ensurePartitions(sql, new Date("2026-11-14T00:00:00Z"), now);
  await sql.unsafe("alter table results detach partition results_20261115");

  // A reader that has seen every partition and is still in its transaction delays the removal, and nothing else.
  const { promise: read, resolve: hasRead } = deferred();
  const { promise: leave, resolve: letLeave } = deferred();
  const reader = sql.begin(async (tx) => {
    await tx`select count(*) from results`;
    hasRead();
    await leave;
  });
  await read;
  const dropping = dropPartitionsBefore(sql, threeDaysAgo);
  // The detach itself waits for the reader; before that there is nothing to see.
  const waiting = () =>
    sql`select 1 from pg_stat_activity where datname = current_database() and query like '%concurrently'
      and wait_event_type = 'Lock'`;
  await until(async () => (await waiting()).length > 0, "the detach to wait");
  t.strictSame(await dropPartitionsBefore(sql, threeDaysAgo), [], "a second removal leaves it to the first");
  await sql`insert into results values (gen_random_uuid(), ${now}, 'x')`;
  t.strictSame([...(await sql`select count(*) as n from results`)], [{ n: 1 }]);
  letLeave();
  await reader;
  t.strictSame((await dropping).sort(), ["results_20261114", "results_20261115", "results_20261116"]);
  t.strictSame(
    [...(await sql`select relname as name from pg_class where relname ~ '^results_[0-9]+$' order by 1`)],
    [
      { name: "results_20261117" },
      { name: "results_20261118" },
      { name: "results_20261119" },
      { name: "results_20261120" },
    ],
  );
});

import { spawnSync } from "node:child_process";
import { createRequire } from "node:module";
import { join } from "node:path";
import { tempFolder } from "../harness/folder.ts";
import { type Measured, rounded } from "./measure.ts";
import { withTeardown } from "./scope.ts";

const program = createRequire(import.meta.url).resolve("smctl/cli");

interface Sqlite {
  Database: new (path: string) => { exec(sql: string): void; close(): void };
}

const beats = 2_000_000;
const monitors = 500;
/** CPU seconds for 50 million heartbeats, which the machine may be too small for here; peak memory, MB. */
const limits = { secs: 60, mb: 300 };

/** Prints what the process used. */
const usage =
  'data:text/javascript,process.on("exit",()=>process.stderr.write(JSON.stringify(process.resourceUsage())))';

/** Tables of Uptime Kuma 1.23, which has no sums of days: every heartbeat is read. */
const statements = [
  "pragma journal_mode = off",
  "create table monitor (id integer primary key, name text, type text, url text, interval int, " +
    `active boolean default 1, accepted_statuscodes_json text default '["200-299"]')`,
  "create table heartbeat (id integer primary key autoincrement not null, important boolean not null default 0, " +
    "monitor_id integer not null, status smallint not null, msg text, time datetime not null, ping integer, " +
    "duration integer not null default 0, down_count integer not null default 0)",
  `with recursive c(x) as (select 1 union all select x + 1 from c where x < ${monitors})
   insert into monitor (id, name, type, url, interval)
   select x, 'Monitor ' || x, 'http', 'https://m' || x || '.example.org/', 60 from c`,
  `with recursive c(x) as (select 0 union all select x + 1 from c where x < ${beats - 1})
   insert into heartbeat (important, monitor_id, status, msg, time, ping, duration)
   select (x / ${monitors} + x) % 997 in (0, 1), x % ${monitors} + 1, (x / ${monitors} + x) % 997 <> 0, '200 - OK',
   strftime('%Y-%m-%d %H:%M:%S', 1767225600 + (x / ${monitors}) * 4000, 'unixepoch') || '.123', 30 + x % 97, 60 from c`,
];

/** CPU time and peak memory of an import. */
function used(cwd: string, name: string, more: readonly string[]): { secs: number; mb: number } {
  const files = ["--output", `${name}.yaml`, "--env-file", `${name}.env`, "--report", `${name}.md`, ...more];
  const args = ["--import", usage, "--", program, "import", "kuma", "kuma.db", ...files];
  const { status, stderr } = spawnSync(process.execPath, args, { cwd, encoding: "utf8" });
  if (status !== 0) throw new Error(stderr);
  const { userCPUTime, systemCPUTime, maxRSS } = JSON.parse(/\{.*\}$/s.exec(stderr)![0]) as Record<
    "userCPUTime" | "systemCPUTime" | "maxRSS",
    number
  >;
  return { secs: (userCPUTime + systemCPUTime) / 1_000_000, mb: maxRSS / 1024 };
}

/** `smctl import kuma` of two million heartbeats, as CPU time of fifty million. */
export async function run(): Promise<Measured> {
  return await withTeardown((t) => {
    const folder = tempFolder(t, "moving");
    const { Database } = createRequire(program)("node-sqlite3-wasm") as Sqlite;
    const database = new Database(join(folder, "kuma.db"));
    for (const statement of statements) database.exec(statement);
    database.close();
    // Without the past no heartbeat is read: what remains is the start of the program.
    const start = used(folder, "start", []);
    const whole = used(folder, "whole", ["--history", "whole.json"]);
    const secs = start.secs + (whole.secs - start.secs) * (50_000_000 / beats);
    const { mb } = whole;
    return Promise.resolve({
      name: "moving",
      value: rounded(secs, 1),
      unit: "s CPU for 50 million heartbeats",
      limit: limits.secs,
      better: "lower",
      ratio: rounded(Math.max(secs / limits.secs, mb / limits.mb), 2),
      mb: rounded(mb, 0),
    });
  });
}

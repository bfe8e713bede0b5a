import * as fs from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { openLikewise, openPool } from "../platform/db/connect.ts";
import { startEmbedded } from "../platform/db/embedded.ts";
import { silentLog } from "../platform/log.ts";
import { addressFile, removeAddress, startingFile, usersLock } from "./postgres-place.ts";

/*
 * The program that runs the PostgreSQL of a test run. The first test file that needs it starts it. Every test process
 * holds a shared lock while it uses the server. When nobody has held it for the idle time, this program takes the
 * exclusive lock, removes the address, ends the server and removes its data. A process that has the shared lock and
 * still finds the address keeps the server alive; any other starts the next server. Two servers at once do no harm.
 */

/** Usage: postgres-server <folder> [<idle time, ms>] */
const [base, idleMs = "4000"] = process.argv.slice(2);
if (base === undefined) throw new Error("usage: postgres-server <folder> [<idle time, ms>]");

const folder = join(base, `pg-${process.pid}`);
fs.mkdirSync(folder, { recursive: true });
fs.chmodSync(base, 0o711);
fs.chmodSync(folder, 0o711);
// Test data needs no disk flush. Several control planes with full pools share the server. A database lives for seconds.
fs.writeFileSync(
  join(folder, "postgres.conf"),
  "fsync = off\nsynchronous_commit = off\nfull_page_writes = off\nautovacuum = off\nmax_connections = 200\n",
);
const server = await startEmbedded({ dataDir: folder, log: silentLog });
// One session for good: the exclusive lock ends with it.
const sql = openLikewise(openPool(server.address));
const password = fs.readFileSync(join(folder, "postgres.password"), "utf8").trim();
const address = JSON.stringify({ ...server.address, password });
const fresh = join(folder, "address.json");
fs.writeFileSync(fresh, address, { mode: 0o600 });
fs.renameSync(fresh, addressFile(base));
fs.rmSync(startingFile(base), { force: true });

for (let idleSince = performance.now(); ; await sleep(250)) {
  const [row] = await sql<{ free: boolean }[]>`select pg_try_advisory_lock(${usersLock}) as free`;
  if (row?.free !== true) {
    idleSince = performance.now();
    continue;
  }
  if (performance.now() - idleSince > Number(idleMs)) break;
  await sql`select pg_advisory_unlock(${usersLock})`;
}
removeAddress(base, address);
await server.stop();
await sql.end({ timeout: 0 });
fs.rmSync(folder, { recursive: true, force: true });

import * as fs from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { messageOf } from "@statusmesh/shared/thrown";
import { openLikewise, openPool } from "../platform/db/client/connect.ts";
import { type Embedded, startEmbedded } from "../platform/db/embedded/embedded.ts";
import { silentLog } from "../platform/process/log.ts";
import { addressFile, programs, removeAddress, startingFile, usersLock } from "./postgres-place.ts";
import { startPrograms } from "./postgres-programs.ts";

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
// Test data needs no disk flush, and databases of seconds no vacuum: it would start a process for one of them every few
// seconds. Benchmarks have it. Several control planes with full pools share the server. To compress pages of a log that
// nobody reads takes a fifth of the CPU time of the server: each copy of a database is a checkpoint, after which every
// page is logged as a whole.
const settings = `fsync = off
synchronous_commit = off
full_page_writes = off
wal_compression = off
autovacuum = ${process.env["SM_TEST_AUTOVACUUM"] ?? "off"}
max_connections = 200
`;
fs.writeFileSync(join(folder, "postgres.conf"), settings);
const start = async (): Promise<Embedded> =>
  programs === undefined
    ? await startEmbedded({ dataDir: folder, log: silentLog, outside: base })
    : await startPrograms(programs, folder, settings);
const server = await start().catch((error: unknown) => {
  fs.rmSync(folder, { recursive: true, force: true });
  console.error(messageOf(error));
  process.exit(1);
});
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

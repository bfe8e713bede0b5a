import * as fs from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { openPool } from "../db/connect.ts";
import { startEmbedded } from "../db/embedded.ts";
import { silentLog } from "../log.ts";
import { addressFile, startingFile, usersLock } from "./postgres-place.ts";

/*
 * The program that runs the PostgreSQL of a test run. The first test file that needs it starts it. Every test process
 * holds a shared lock while it uses the server; when the exclusive lock is free for {@link idleMs}, the server ends and
 * removes its data. Two servers at once do no harm.
 */

/** Wait for the next test file. */
const idleMs = 4_000;

const [base] = process.argv.slice(2);
if (base === undefined) throw new Error("usage: postgres-server <folder>");

const folder = join(base, `pg-${process.pid}`);
fs.mkdirSync(folder, { recursive: true });
fs.chmodSync(base, 0o711);
fs.chmodSync(folder, 0o711);
// Test data needs no disk flush. Several control planes with full pools share the server.
fs.writeFileSync(
  join(folder, "postgres.conf"),
  "fsync = off\nsynchronous_commit = off\nfull_page_writes = off\nmax_connections = 200\n",
);
const server = await startEmbedded({ dataDir: folder, log: silentLog });
const sql = openPool(server.address, { max: 1 });
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
  if (performance.now() - idleSince > idleMs) break;
  await sql`select pg_advisory_unlock(${usersLock})`;
}
// The lock is kept to the end: a process that connects now is refused and starts the next server.
if (fs.readFileSync(addressFile(base), "utf8") === address) fs.rmSync(addressFile(base), { force: true });
await sql.end({ timeout: 1 });
await server.stop();
fs.rmSync(folder, { recursive: true, force: true });

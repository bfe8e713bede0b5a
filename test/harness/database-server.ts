import * as fs from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { openPool } from "@statusmesh/control-plane/db/connect";
import { startEmbedded } from "@statusmesh/control-plane/db/embedded";
import { silentLog } from "@statusmesh/control-plane/log";
import { addressFile, startingFile, usersLock } from "./database-place.ts";

/*
 * The program that holds the PostgreSQL of a test run, started by the first test file that needs it. Every test process
 * holds a shared lock while it uses the server; once the exclusive one is to be had, nobody does, and the server ends
 * with all that it stored. It needs no supervisor, and two of them do each other no harm.
 */

/** How long the server waits for the next test file. */
const idleMs = 4_000;

const [base] = process.argv.slice(2);
if (base === undefined) throw new Error("which folder?");

const folder = join(base, `pg-${process.pid}`);
fs.mkdirSync(folder, { recursive: true });
fs.chmodSync(base, 0o711);
fs.chmodSync(folder, 0o711);
// Nothing of a test run is worth a disk flush, and several control planes with full pools share the server.
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
// The lock is kept to the end: who comes now is turned away, and starts the next server.
if (fs.readFileSync(addressFile(base), "utf8") === address) fs.rmSync(addressFile(base), { force: true });
await sql.end({ timeout: 1 });
await server.stop();
fs.rmSync(folder, { recursive: true, force: true });

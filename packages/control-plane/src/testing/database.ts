import * as fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Sql } from "postgres";
import t from "tap";
import { type DatabaseAddress, openPool } from "../db/connect.ts";
import { startEmbedded } from "../db/embedded.ts";
import { migrate } from "../db/migrate.ts";
import { ensurePartitions } from "../db/partitions.ts";
import { silentLog } from "../log.ts";
import { day, noon } from "./clock.ts";

export type Teardown = { teardown(fn: () => unknown): void };

export interface TestDatabase {
  readonly sql: Sql;
  /** Another pool on it, as another process has; ended with the test. */
  pool(max?: number): Sql;
}

let server: Promise<{ admin: Sql; address: DatabaseAddress }> | null = null;
let databases = 0;

/** A migrated database of its own with the regions `eu` and `us`, and partitions for the three days around {@link noon}. The first call of a test file starts the PostgreSQL that the file shares. */
export async function openTestDatabase(t: Teardown): Promise<TestDatabase> {
  const { admin, address } = await (server ??= startServer());
  const database = `test_${++databases}`;
  await admin.unsafe(`create database ${database} template model`);
  const pool = (max = 8): Sql => {
    const sql = openPool({ ...address, database } as DatabaseAddress, { max });
    t.teardown(() => sql.end({ timeout: 1 }));
    return sql;
  };
  return { sql: pool(), pool };
}

async function startServer(): Promise<{ admin: Sql; address: DatabaseAddress }> {
  const root = fs.mkdtempSync(join(tmpdir(), "sm-test-"));
  // As root the server runs under another user, who has to pass through.
  fs.chmodSync(root, 0o711);
  // Nothing of a test is worth a disk flush.
  fs.writeFileSync(join(root, "postgres.conf"), "fsync = off\nsynchronous_commit = off\nfull_page_writes = off\n");
  process.once("exit", () => endServer(root));
  const embedded = await startEmbedded({ dataDir: root, log: silentLog });
  const admin = openPool(embedded.address, { max: 1 });
  t.teardown(async () => {
    await admin.end({ timeout: 1 });
    await embedded.stop();
    fs.rmSync(root, { recursive: true, force: true });
  });
  await admin.unsafe("create database model");
  const sql = openPool({ ...embedded.address, database: "model" } as DatabaseAddress, { max: 1 });
  await migrate(sql);
  await ensurePartitions(sql, new Date(noon - day), new Date(noon + day));
  await sql`insert into regions (id, name, created_at, updated_at) values ('eu', 'Europe', '2026-11-01', '2026-11-01'), ('us', 'America', '2026-11-02', '2026-11-02')`;
  await sql.end();
  return { admin, address: embedded.address };
}

/** What teardown does, for a test file that died before it: nothing may wait here, and the server is no child that ends by itself. */
function endServer(root: string): void {
  try {
    process.kill(
      Number(fs.readFileSync(join(root, "postgres", "postmaster.pid"), "utf8").split("\n", 1)[0]),
      "SIGQUIT",
    );
    fs.rmSync(root, { recursive: true, force: true, maxRetries: 5 });
  } catch {
    // Stopped and removed already, as it should be.
  }
}

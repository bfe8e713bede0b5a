import * as fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import postgres from "postgres";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { until } from "./clock.ts";
import { joinServer } from "./postgres-join.ts";
import { addressFile, usersLock } from "./postgres-place.ts";

/* The PostgreSQL of a test run ends only when no process can join it any more. */

t.test("a process that has the lock and still finds the address keeps the server alive", async (t) => {
  const folder = fs.mkdtempSync(join(tmpdir(), "sm-server-"));
  const { session, ...address } = await joinServer(folder, 1000);
  const other = await joinServer(folder, 1000);
  t.equal(other.path, address.path, "two processes share a server");
  await other.session.end({ timeout: 0 });

  // Asks for the lock whenever the server is about to end, as a process that joins at the worst moment. Advisory locks
  // belong to a database, that of the server's own session.
  const late = postgres({ ...address, database: "statusmesh", max: 1, fetch_types: false });
  const ask = async (query: string): Promise<boolean | null> =>
    (await late.unsafe<{ it: boolean }[]>(query).catch(() => null))?.[0]!.it ?? null;
  await session.end({ timeout: 0 });
  let lost = 0;
  for (let alive = true; alive;) {
    const ending = await ask(`
      select exists (select from pg_locks
      where locktype = 'advisory' and objid = ${usersLock} and mode = 'ExclusiveLock' and granted) as it`);
    if (ending === null) break;
    if (!ending) continue;
    let held: boolean | null = false;
    while (held === false) held = await ask(`select pg_try_advisory_lock_shared(${usersLock}) as it`);
    if (held === null || !fs.existsSync(addressFile(folder))) break;
    await sleep(20);
    alive = (await ask(`select pg_advisory_unlock_shared(${usersLock}) as it`)) === true;
    if (!alive) lost++;
  }
  t.equal(lost, 0);
  await late.end({ timeout: 0 });

  const next = await joinServer(folder, 1000);
  matchObject(t, await next.session`select 1 as one`, [{ one: 1 }], "the next process starts the next server");
  await next.session.end({ timeout: 0 });
  await until(() => !fs.existsSync(addressFile(folder)), "the end of the server");
  await until(() => !fs.readdirSync(folder).some((name) => name.startsWith("pg-")), "its data to be removed");
  fs.rmSync(folder, { recursive: true, force: true });
});

t.test("a server that cannot start is reported at once, with the reason", async (t) => {
  const folder = fs.mkdtempSync(join(tmpdir(), "sm-server-"));
  t.teardown(() => fs.rmSync(folder, { recursive: true, force: true }));
  const { SM_TEST_POSTGRES: before } = process.env;
  process.env["SM_TEST_POSTGRES"] = join(folder, "no-programs");
  t.teardown(() => {
    if (before === undefined) delete process.env["SM_TEST_POSTGRES"];
    else process.env["SM_TEST_POSTGRES"] = before;
  });
  const reason = /^The PostgreSQL of the test run does not start: .*no-programs.initdb ENOENT/;
  await t.rejects(joinServer(folder), reason, "the process that starts it");
  await t.rejects(joinServer(folder), reason, "and those that come after it");
  t.strictSame(fs.readdirSync(folder).sort(), ["failure", "server.log"], "nothing else is left");
});

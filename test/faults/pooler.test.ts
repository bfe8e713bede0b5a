import * as fs from "node:fs";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { openPool } from "@statusmesh/control-plane/platform/db/client/connect";
import { watchDatabase } from "@statusmesh/control-plane/platform/db/client/watch";
import { silentLog } from "@statusmesh/control-plane/platform/process/log";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { allAbilities } from "@statusmesh/shared/checks/abilities";
import { connect } from "../harness/api.ts";
import { agentIn, castIn } from "../harness/cast.ts";
import { cloneDatabase, type TestDatabase } from "../harness/database.ts";
import { type Teardown, tempFolder } from "../harness/folder.ts";
import { serveHere } from "../harness/in-process.ts";
import { freePort, spawnControlPlane } from "../harness/processes.ts";
import { findPgbouncer, requires } from "../harness/requires.ts";
import { waitFor } from "../harness/wait.ts";

/*
 * PgBouncer in transaction mode: a start without database.listen_url is refused with the reason. With it, requests,
 * agents and jobs work as without a pooler.
 */

/** Starts a PgBouncer with three server connections. `more` is appended to its configuration. */
function startPooler(t: Teardown, database: TestDatabase, port: number, more: string): ChildProcess {
  const folder = tempFolder(t, "pgb");
  const file = join(folder, "pgbouncer.ini");
  const { PGHOST, PGUSER, PGPASSWORD } = database.env;
  fs.writeFileSync(
    file,
    `[databases]
* = host=${PGHOST} user=${PGUSER} password=${PGPASSWORD}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 3
${more}
`,
  );
  // PgBouncer refuses to run as root, and only the owner of the database can enter the folder of its socket.
  const { uid, gid } = fs.statSync(PGHOST);
  const child = spawn(findPgbouncer()!, [file], { stdio: "ignore", uid, gid, cwd: "/" });
  t.teardown(() => child.kill("SIGKILL"));
  return child;
}

/** A configuration of the control plane that connects through the pooler only. */
const throughPooler = (database: TestDatabase, port: number) => ({
  SM_DATABASE__URL: `postgres://statusmesh:any@127.0.0.1:${port}/${database.name}`,
});

t.test("a start through a pooler is refused until both addresses are configured", async (t) => {
  if (!(await requires(t, "pgbouncer"))) return;
  const database = await cloneDatabase(t);
  const port = await freePort();
  const env = throughPooler(database, port);
  const configurations: [string, string][] = [
    ["as installed", ""],
    ["with ignored settings", "ignore_startup_parameters = statement_timeout,idle_in_transaction_session_timeout"],
  ];
  for (const [title, more] of configurations) {
    const pooler = startPooler(t, database, port, more);
    const refused = await waitFor("PgBouncer to answer", async () => {
      const program = await spawnControlPlane(t, { env });
      const ending = await program.ended;
      return program.complaints().includes("cannot be reached") ? null : { ending, said: program.complaints() };
    });
    matchObject(
      t,
      refused,
      { ending: 78, said: /is behind a pooler like PgBouncer\. Set database\.prepare = false/ },
      title,
    );
    pooler.kill("SIGKILL");
    await once(pooler, "exit");
  }
  const incomplete = await spawnControlPlane(t, { env: { ...env, SM_DATABASE__PREPARE: "false" } });
  t.equal(await incomplete.ended, 78);
  t.match(incomplete.complaints(), /database\.listen_url \(SM_DATABASE__LISTEN_URL\) is empty/);

  startPooler(t, database, port, "");
  const other = await cloneDatabase(t);
  const { SM_DATABASE__URL: SM_DATABASE__LISTEN_URL, ...forTheClient } = other.env;
  const mixed = { ...forTheClient, ...env, SM_DATABASE__PREPARE: "false", SM_DATABASE__LISTEN_URL };
  const refused = await waitFor("PgBouncer to answer", async () => {
    const program = await spawnControlPlane(t, { env: mixed });
    const ending = await program.ended;
    return ending === 75 ? null : { ending, said: program.complaints() };
  });
  matchObject(t, refused, { ending: 78, said: /database\.listen_url lead to different databases/ });
});

t.test("concurrent queries through a pooler get their own rows", async (t) => {
  if (!(await requires(t, "pgbouncer"))) return;
  const database = await cloneDatabase(t);
  const port = await freePort();
  startPooler(t, database, port, "");
  const sql = openPool({ url: throughPooler(database, port).SM_DATABASE__URL }, { pooled: true, statementMs: 1_000 });
  t.teardown(() => sql.end({ timeout: 0 }));
  await waitFor("PgBouncer to answer", () =>
    sql`select 1`.then(
      () => true,
      () => false,
    ),
  );
  // PgBouncer hands the server connection on after the first reply, while the server still parses the second query.
  const slowToParse = `select $1::int as n where 1 in (${Array.from({ length: 5000 }, (_, n) => n).join()})`;
  const kinds: ((n: number) => Promise<unknown>)[] = [
    async (n) => (await sql.unsafe(slowToParse, [n]))[0]?.["n"],
    async (n) => (await sql`select 7 as seven`)[0]?.["seven"] === 7 && n,
    async (n) => (await sql`select ${[String(n)]}::text[] as list`)[0]?.["list"]?.join() === String(n) && n,
    async (n) => await sql.begin(async (tx) => (await tx`select ${n}::int as n`)[0]?.["n"] as number),
  ];
  for (let round = 0; round < 5; round++) {
    const rows = Array.from({ length: 200 }, async (_, n) => await kinds[n % kinds.length]!(n).catch(String));
    const wrong = (await Promise.all(rows)).map((row, n) => [row, n]).filter(([row, n]) => row !== n);
    t.strictSame(wrong, [], `round ${round}`);
  }

  const direct = openPool({ url: database.env.SM_DATABASE__URL });
  t.teardown(() => direct.end({ timeout: 0 }));
  const watch = watchDatabase(
    { pool: sql, direct, log: silentLog, clock: { now: () => Date.now() } },
    { statementMs: 1_000 },
  );
  t.teardown(() => watch.stop());
  await t.rejects(sql`select pg_sleep(60)`, { code: "57014" }, "a statement is cancelled after its time limit");
  const isRunning = async () =>
    (await database.sql`select 1 from pg_stat_activity where query like '%pg_sleep(60)' and state = 'active'`).length >
    0;
  await waitFor("the statement to end in the server too", async () => !(await isRunning()), { ms: 30_000 });
});

t.test("a control plane behind a pooler in transaction mode", async (t) => {
  if (!(await requires(t, "pgbouncer"))) return;
  const database = await cloneDatabase(t);
  const port = await freePort();
  let pooler = startPooler(t, database, port, "");
  const settings = { ...throughPooler(database, port), SM_DATABASE__PREPARE: "false" };
  const url = await waitFor("a control plane", async () => {
    const env = {
      ...settings,
      SM_DATABASE__LISTEN_URL: database.env.SM_DATABASE__URL,
      SM_SECURITY__ALLOW_PRIVATE_TARGETS: "true",
    };
    return await serveHere(t, database, env).catch(() => null);
  });
  const { olga, milan } = await castIn(database.sql);
  const people = [olga, milan].map(({ token }) => connect(t, url, token));
  const answers = await Promise.all(
    Array.from({ length: 100 }, (_, n) => people[n % 2]!.get(n % 3 === 0 ? "/api/v1/targets" : "/api/v1/me")),
  );
  t.strictSame(
    answers.filter(({ status }) => status !== 200).map(({ status, text }) => `${status} ${text}`),
    [],
    "a hundred concurrent requests find their tokens",
  );
  // A notification is sent through the pooler and received directly: it ends the held pull.
  const agent = connect(t, url, (await agentIn(database.sql, "default")).token);
  const pull = (cursor: string | null) =>
    agent.post("/api/agent/pull", { protocol: 1, cursor, capacity: 1, agent_version: "0.1.0", kinds: allAbilities });
  const { body: first } = await pull(null);
  const held = pull(first.cursor);
  const target = { name: "Example", check: { type: "tcp", host: "127.0.0.1", port: 80 } };
  const { body: made } = await people[0]!.post("/api/v1/targets", target);
  matchObject(t, (await held).body, { checks: [{ target_id: made.id }] });
  t.equal((await people[0]!.get("/readyz")).status, 200);

  pooler.kill("SIGKILL");
  await once(pooler, "exit");
  matchObject(t, await people[0]!.get("/api/v1/targets"), {
    status: 503,
    body: { error: { code: "DEPENDENCY_DOWN" } },
  });
  pooler = startPooler(t, database, port, "");
  await waitFor("the pooler to be back", async () => (await people[0]!.get("/readyz")).status === 200);
  t.equal((await people[0]!.get("/api/v1/targets")).body.total, 1);
  // Jobs hold locks of transactions; one of a session would stay with a connection of the pooler.
  await waitFor("a moment without an advisory lock", async () => {
    const locks = await database.sql`
      select 1 from pg_locks where locktype = 'advisory'
        and database = (select oid from pg_database where datname = current_database())`;
    return locks.length === 0;
  });
});

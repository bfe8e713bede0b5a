import * as fs from "node:fs";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import t from "tap";
import { connect } from "../harness/api.ts";
import { agentIn, castIn } from "../harness/cast.ts";
import { cloneDatabase, type TestDatabase } from "../harness/database.ts";
import { type Teardown, tempFolder } from "../harness/folder.ts";
import { serveHere } from "../harness/in-process.ts";
import { freePort, spawnControlPlane } from "../harness/processes.ts";
import { findPgbouncer, requires } from "../harness/requires.ts";
import { waitFor } from "../harness/wait.ts";

/*
 * PgBouncer in transaction mode before the database: refused in words while the configuration does not know of it, and no difference
 * to requests, agents and jobs once it does.
 */

t.setTimeout(120_000);

/** A PgBouncer that gives each transaction another of three connections. `more` are lines of its configuration. */
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
  // It refuses to be root; the socket of the database is for the user of the database.
  const { uid, gid } = fs.statSync(PGHOST);
  const child = spawn(findPgbouncer()!, [file], { stdio: "ignore", uid, gid, cwd: "/" });
  t.teardown(() => child.kill("SIGKILL"));
  return child;
}

t.test("a pooler in transaction mode", async (t) => {
  if (!(await requires(t, "pgbouncer"))) return;
  const database = await cloneDatabase(t);
  const port = await freePort();
  const pooled = { SM_DATABASE__URL: `postgres://statusmesh:any@127.0.0.1:${port}/${database.name}` };
  const { PGHOST, PGUSER, PGPASSWORD } = database.env;
  const configurations: [string, string][] = [
    ["as it is", ""],
    ["that swallows settings", "ignore_startup_parameters = statement_timeout,idle_in_transaction_session_timeout"],
  ];
  for (const [title, more] of configurations) {
    const pooler = startPooler(t, database, port, more);
    const refused = await waitFor(
      "PgBouncer to answer",
      async () => {
        const program = await spawnControlPlane(t, { env: pooled });
        const ending = await program.ended;
        return program.complaints().includes("cannot be reached") ? null : { ending, said: program.complaints() };
      },
      { ms: 30_000 },
    );
    t.match(refused, { ending: 78, said: /is behind a pooler like PgBouncer\. Set database\.prepare = false/ }, title);
    pooler.kill("SIGKILL");
    await once(pooler, "exit");
  }

  let pooler = startPooler(t, database, port, "");
  const settings = { ...pooled, SM_DATABASE__PREPARE: "false" };
  const incomplete = await spawnControlPlane(t, { env: settings });
  t.equal(await incomplete.ended, 78);
  t.match(incomplete.complaints(), /database\.listen_url \(SM_DATABASE__LISTEN_URL\) is empty/);

  const url = await serveHere(t, database, {
    ...settings,
    SM_DATABASE__LISTEN_URL: database.env.SM_DATABASE__URL,
    SM_SECURITY__ALLOW_PRIVATE_TARGETS: "true",
  });
  t.strictSame([process.env["PGHOST"], process.env["PGUSER"], process.env["PGPASSWORD"]], [PGHOST, PGUSER, PGPASSWORD]);
  const { olga, milan } = await castIn(database.sql);
  const people = [olga, milan].map(({ token }) => connect(t, url, token));
  const answers = await Promise.all(
    Array.from({ length: 100 }, (_, n) => people[n % 2]!.get(n % 3 === 0 ? "/api/v1/targets" : "/api/v1/me")),
  );
  t.strictSame(
    answers.filter(({ status }) => status !== 200).map(({ status, text }) => `${status} ${text}`),
    [],
    "a hundred requests at once find their tokens",
  );
  // A wake-up goes through the pooler and comes back past it: the pull is held, and ends with the news.
  const agent = connect(t, url, (await agentIn(database.sql, "default")).token);
  const pull = (cursor: string | null) =>
    agent.post("/api/agent/pull", { protocol: 1, cursor, capacity: 1, agent_version: "0.1.0" });
  const { body: first } = await pull(null);
  const held = pull(first.cursor);
  const target = { name: "Example", check: { type: "tcp", host: "127.0.0.1", port: 80 } };
  const { body: made } = await people[0]!.post("/api/v1/targets", target);
  t.match((await held).body, { checks: [{ target_id: made.id }] });
  t.equal((await people[0]!.get("/readyz")).status, 200);

  pooler.kill("SIGKILL");
  await once(pooler, "exit");
  t.match(await people[0]!.get("/api/v1/targets"), { status: 503, body: { error: { code: "DEPENDENCY_DOWN" } } });
  pooler = startPooler(t, database, port, "");
  await waitFor("the way through the pooler", async () => (await people[0]!.get("/readyz")).status === 200);
  t.equal((await people[0]!.get("/api/v1/targets")).body.total, 1);
  const locks = await database.sql`
    select 1 from pg_locks where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())`;
  t.equal(locks.length, 0, "no lock is left on a connection that others use");
});

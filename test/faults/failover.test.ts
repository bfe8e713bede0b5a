import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { allAbilities } from "@statusmesh/shared/checks/abilities";
import { openPool } from "@statusmesh/control-plane/platform/db/client/connect";
import { type Answer, connect } from "../harness/api.ts";
import { agentIn, castIn } from "../harness/cast.ts";
import { cloneDatabase } from "../harness/database.ts";
import { gateTo } from "../harness/database-gate.ts";
import { serveHere } from "../harness/in-process.ts";
import { waitFor } from "../harness/wait.ts";

/*
 * Outages of a database as a control plane sees them through a proxy or a network. In each of them requests get 503
 * with Retry-After, visitors get the last good page, the log has one line, and the service recovers by itself.
 */

t.test("outages of the database", async (t) => {
  const database = await cloneDatabase(t);
  const gate = await gateTo(t, database);
  const lines: { level: string; message: string; fields: object }[] = [];
  const at = (level: string) => (fields: object, message: string) => void lines.push({ level, message, fields });
  const log = { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
  const token = `sm_live_${"b".repeat(40)}`;
  const url = await serveHere(
    t,
    gate.database,
    { SM_BOOTSTRAP__TOKEN: token, SM_SECURITY__ALLOW_PRIVATE_TARGETS: "true" },
    log,
  );
  // Visitors get the page of the first organisation.
  const api = connect(t, url, token);
  const probe = connect(t, url, (await agentIn(database.sql, "default")).token);
  const page = await api.post("/api/v1/status-pages", { slug: "acme", name: "Acme" });
  t.equal(page.status, 201, page.text);
  const name = "written before";
  const target = { name, check: { type: "tcp", host: "127.0.0.1", port: 80 } };
  const asBefore = async (): Promise<boolean> =>
    (await api.get("/readyz")).status === 200 && (await api.get("/api/v1/targets")).status === 200;

  const ways: [string, () => Promise<void> | void][] = [
    ["accepts and closes", () => gate.refuse()],
    ["refuses connections", () => gate.shut()],
    ["is silent", () => gate.mute()],
  ];
  for (const [title, fail] of ways) {
    await waitFor("the service to be ready", asBefore);
    t.equal((await api.get("/api/public/v1/status")).status, 200, `${title}: the page was computed before`);
    lines.length = 0;
    const [before, connections] = [performance.now(), gate.connections()];
    await fail();
    const answers: Answer[] = [];
    const ask = async (): Promise<void> => {
      const asked = await Promise.all([
        api.get("/api/v1/targets"),
        api.post("/api/v1/targets", target),
        probe.post("/api/agent/pull", {
          protocol: 1,
          cursor: null,
          capacity: 1,
          agent_version: "0.1.0",
          kinds: allAbilities,
        }),
        api.get("/readyz"),
      ]);
      answers.push(...asked);
    };
    // Enough concurrent requests for every connection of the pool and a queue.
    await Promise.all(Array.from({ length: 15 }, ask));
    for (let n = 0; n < 5; n++) await ask();
    const wrong = answers.filter(({ status, body }) => status !== 503 || body?.error?.code !== "DEPENDENCY_DOWN");
    t.strictSame(
      wrong.map(({ status, text }) => `${status} ${text.slice(0, 200)}`),
      [],
      `${title}: every request is refused with 503`,
    );
    t.ok(
      answers.every(({ headers }) => Number(headers["retry-after"]) >= 1),
      `${title}: with Retry-After`,
    );
    t.equal((await api.get("/api/public/v1/status")).status, 200, `${title}: visitors get the last good page`);
    t.equal((await api.get("/healthz")).status, 200, title);
    await waitFor("the line in the log", () => lines.some(({ message }) => message.startsWith("the database is away")));
    t.strictSame(
      lines
        .filter(({ level }) => level === "error")
        .map(({ message, fields }) => (message === "request failed" ? JSON.stringify(fields) : message)),
      ["the database is away: requests are answered 503 until it is back"],
      `${title}: one line in the log`,
    );
    const seconds = (performance.now() - before) / 1000;
    const made = gate.connections() - connections;
    // Backoff: each of the ten connections and the listening one tries again after a second.
    t.ok(made <= 60 + 22 * seconds, `${title}: ${made} connections in ${seconds.toFixed(1)} s`);
    await gate.open();
    await waitFor(`the service to recover from "${title}"`, asBefore);
  }
  const [row] = await database.sql<{ n: number }[]>`select count(*)::int as n from targets where name = ${name}`;
  t.equal(row!.n, 0, "a refused request changed nothing");
});

t.test("connections that a network has dropped silently are found and replaced", async (t) => {
  const database = await cloneDatabase(t);
  const gate = await gateTo(t, database);
  const url = await serveHere(t, gate.database);
  const { olga } = await castIn(database.sql);
  const api = connect(t, url, olga.token);
  // All connections of the pool are in use once.
  await Promise.all(Array.from({ length: 30 }, () => api.get("/api/v1/targets")));
  await gate.strand();
  const answers = await Promise.all(Array.from({ length: 30 }, () => api.get("/api/v1/targets")));
  t.strictSame(
    answers.filter(({ status }) => status !== 200 && status !== 503).map(({ status }) => status),
    [],
    "requests in flight are answered too",
  );
  await waitFor("the pool to recover", async () => (await api.get("/api/v1/targets")).status === 200);
  t.equal((await api.get("/readyz")).status, 200);
});

t.test("a database that takes no writes", async (t) => {
  const database = await cloneDatabase(t);
  const url = await serveHere(t, database, { SM_SECURITY__ALLOW_PRIVATE_TARGETS: "true" });
  const { olga } = await castIn(database.sql);
  const api = connect(t, url, olga.token);
  const target = { name: "Example", check: { type: "tcp", host: "127.0.0.1", port: 80 } };
  const isRefused = async (title: string): Promise<void> => {
    const written = await api.post("/api/v1/targets", target);
    matchObject(
      t,
      { status: written.status, code: written.body.error?.code },
      { status: 503, code: "DEPENDENCY_DOWN" },
      title,
    );
    const ready = await waitFor("/readyz to answer 503", async () => {
      const answer = await api.get("/readyz");
      return answer.status === 503 ? answer : null;
    });
    t.equal(ready.body.error.code, "DEPENDENCY_DOWN", title);
  };
  const isWell = async (): Promise<boolean> => (await api.get("/readyz")).status === 200;

  // The error of PostgreSQL on a full disk, from the tables that every write uses.
  const full = "begin raise exception 'could not extend file: No space left on device' using errcode = '53100'; end";
  await database.sql.unsafe(`
    create function full_disk() returns trigger language plpgsql as $$ ${full} $$;
    create trigger full_disk before insert on targets for each row execute function full_disk();
    create trigger full_disk before insert on write_probe for each row execute function full_disk();`);
  await isRefused("the disk is full");
  t.equal((await api.get("/api/v1/targets")).status, 200, "stored data can be read");
  await database.sql`drop function full_disk cascade`;
  await waitFor("free space to be noticed", isWell);

  // A server that is no longer the primary: existing sessions notice at their next write.
  const { PGHOST, PGUSER: username, PGPASSWORD: password } = database.env;
  const free = openPool({ path: `${PGHOST}/.s.PGSQL.5432`, username, password, database: "postgres" }, { max: 1 });
  t.teardown(() => free.end({ timeout: 1 }));
  await free.unsafe(`alter database ${database.name} set default_transaction_read_only = on`);
  await free`
    select pg_terminate_backend(pid) from pg_stat_activity
    where datname = ${database.name} and pid <> pg_backend_pid()`;
  await isRefused("read-only");
  await free.unsafe(`alter database ${database.name} reset default_transaction_read_only`);
  await free`
    select pg_terminate_backend(pid) from pg_stat_activity
    where datname = ${database.name} and pid <> pg_backend_pid()`;
  await waitFor("the primary to be found", isWell);
  t.equal((await api.post("/api/v1/targets", target)).status, 201);
});

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { connect } from "../harness/api.ts";
import { castIn, type Person } from "../harness/cast.ts";
import { asUser, type CommitPoint, createReplicaUser, openCommitFaults } from "../harness/commit-faults.ts";
import { cloneDatabase } from "../harness/database.ts";
import { tempFolder } from "../harness/folder.ts";
import { startControlPlane } from "../harness/processes.ts";
import { waitFor } from "../harness/wait.ts";

/*
 * A control plane is killed in the middle of an apply of configuration as code: at its first and last rows, at the
 * commit, and between commit and reply. Nothing of it is left, or all of it, and the next apply goes through.
 */

/** The first table that an apply writes, and the last one: all is one transaction. */
const tables = ["channels", "audit_log"];
const points: readonly CommitPoint[] = [
  {
    name: "commit",
    table: "audit_log",
    event: "insert",
    when: "new.action in ('POST /api/v1/config/apply', 'declared files')",
  },
];

const document = {
  version: 1,
  project: "shop",
  channels: { ops: { name: "Ops", config: { type: "webhook", url: "https://hooks.example.org/" } } },
  monitors: Object.fromEntries(
    Array.from({ length: 30 }, (_, n) => [
      `m${n}`,
      { name: `M ${n}`, check: { type: "tcp", host: "db.example.org", port: 5432 }, alerts: ["ops"] },
    ]),
  ),
  status_pages: { main: { slug: "killed", name: "Shop", components: [{ monitor: "m0" }, { monitor: "m1" }] } },
  maintenance: {
    upgrade: {
      title: "Upgrade",
      starts_at: "2126-11-20T22:00:00Z",
      ends_at: "2126-11-21T02:00:00Z",
      monitors: ["m0"],
    },
  },
};
const objects = 33;

const database = await cloneDatabase(t);
const { sql } = database;
const faults = await openCommitFaults(database.pool(2), points);
// Holds a statement itself, where the faults of the harness hold commits.
const lock = 918_274;
await sql.unsafe(`
  create table armed_tables (name text primary key);
  create function hold_statement() returns trigger language plpgsql as $$
  begin
    if exists (select from armed_tables where name = tg_table_name) then
      perform pg_advisory_xact_lock_shared(${lock});
    end if;
    return null;
  end $$;`);
for (const table of tables)
  await sql.unsafe(`create trigger hold after insert or update on ${table} execute function hold_statement()`);

const start = async (user: string, env: Record<string, string> = {}) =>
  await startControlPlane(t, {
    env: { ...database.env, ...asUser(user), SM_SCHEDULER__BUILTIN_AGENT: "false", SM_LOG__LEVEL: "info", ...env },
  });

/** What the organisation has of the document, by table. */
async function rowsOf(orgId: string): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const table of ["channels", "targets", "status_pages", "maintenance_windows", "declared_projects", "audit_log"])
    counts[table] = (await sql`select from ${sql(table)} where org_id = ${orgId}`).length;
  return counts;
}
const nothing = {
  channels: 0,
  targets: 0,
  status_pages: 0,
  maintenance_windows: 0,
  declared_projects: 0,
  audit_log: 0,
};
const everything = {
  channels: 1,
  targets: 30,
  status_pages: 1,
  maintenance_windows: 1,
  declared_projects: 1,
  audit_log: objects + 1,
};
const documentOf = ({ orgSlug }: Person) => {
  const { main } = document.status_pages;
  return { ...document, status_pages: { main: { ...main, slug: orgSlug } } };
};

const user = await createReplicaUser(t, sql);
const other = await createReplicaUser(t, sql);
const holder = await database.pool(1).reserve();
/** Resolves once a statement is held. */
const held = async () =>
  await waitFor("a held statement", async () => {
    const rows = await sql`select from pg_locks where locktype = 'advisory' and objid = ${lock} and not granted`;
    return rows.length > 0;
  });
const crash = async (pid: number, ended: Promise<unknown>): Promise<void> => {
  process.kill(pid, "SIGKILL");
  await ended;
  await sql`select pg_terminate_backend(pid) from pg_stat_activity where usename = ${user}`;
  await waitFor("the backends to end", async () => {
    const rows = await sql`select from pg_stat_activity where usename = ${user}`;
    return rows.length === 0;
  });
  await sql`delete from armed_tables`;
};
const arm = async (table: string): Promise<void> => {
  await holder`select pg_advisory_lock(${lock})`;
  await sql`insert into armed_tables values (${table})`;
};
const disarm = async (): Promise<void> => {
  await holder`select pg_advisory_unlock_all()`;
};

/** Plans and begins to apply on a new process. */
async function applying(person: Person) {
  const process = await start(user);
  const api = connect(t, process.url, person.token);
  const body = { project: "shop", document: documentOf(person) };
  const planned = await api.post("/api/v1/config/plan", body);
  if (planned.status !== 200) throw new Error(planned.text);
  const { plan_token } = planned.body;
  return {
    process,
    body: { ...body, plan_token },
    begin: () => api.post("/api/v1/config/apply", { ...body, plan_token }),
  };
}

const survivor = await start(other);

for (const table of tables)
  t.test(`killed while it writes ${table}: nothing is left, and the same plan can be applied`, async (t) => {
    const { olga } = await castIn(sql);
    const { process, body, begin } = await applying(olga);
    await arm(table);
    const reply = begin().catch(() => null);
    await held();
    await crash(process.pid, process.ended);
    await disarm();
    t.equal(await reply, null, "there was no answer");
    t.strictSame(await rowsOf(olga.orgId), nothing);
    const api = connect(t, survivor.url, olga.token);
    matchObject(t, await api.post("/api/v1/config/apply", body), {
      status: 200,
      body: { summary: { create: objects } },
    });
    t.strictSame(await rowsOf(olga.orgId), everything);
  });

for (const moment of ["before", "after"] as const)
  t.test(`killed ${moment} the commit`, async (t) => {
    const { olga } = await castIn(sql);
    const { process: killed, body, begin } = await applying(olga);
    await faults.arm(points[0]!);
    const reply = begin().catch(() => null);
    const holding = await faults.held();
    process.kill(killed.pid, "SIGKILL");
    await killed.ended;
    await (moment === "before" ? faults.abort : faults.release)(holding);
    t.equal(await reply, null);
    t.strictSame(await rowsOf(olga.orgId), moment === "before" ? nothing : everything);
    const again = await connect(t, survivor.url, olga.token).post("/api/v1/config/apply", body);
    t.equal(again.status, moment === "before" ? 200 : 409, "what is done is not done twice");
    t.strictSame(await rowsOf(olga.orgId), everything);
  });

t.test("files of the server: a replica is killed in the middle, and the other one applies them, once", async (t) => {
  const { olga } = await castIn(sql);
  const folder = join(tempFolder(t, "files"), "monitors");
  mkdirSync(folder);
  writeFileSync(join(folder, "shop.json"), JSON.stringify(documentOf(olga)));
  const env = { SM_DECLARED__PATH: folder, SM_DECLARED__ORG: olga.orgSlug };
  await arm("channels");
  const first = await start(user, env);
  await held();
  const second = await start(await createReplicaUser(t, sql), env);
  t.strictSame(await rowsOf(olga.orgId), nothing);
  await crash(first.pid, first.ended);
  await disarm();
  await waitFor("the files to be applied", async () => (await rowsOf(olga.orgId))["targets"] === 30);
  const api = connect(t, second.url, olga.token);
  await waitFor("the state", async () => (await api.get("/api/v1/config")).body.file?.ok === true);
  t.strictSame(await rowsOf(olga.orgId), everything);
  matchObject(t, (await api.get("/api/v1/config")).body, { projects: [{ applied_by: { name: "declared files" } }] });
  await second.stop();
});

t.test("two applies of a plan at once, on two replicas: one wins", async (t) => {
  const { olga } = await castIn(sql);
  const { process, body, begin } = await applying(olga);
  const replies = await Promise.all([begin(), connect(t, survivor.url, olga.token).post("/api/v1/config/apply", body)]);
  t.strictSame(replies.map(({ status }) => status).sort(), [200, 409]);
  t.strictSame(await rowsOf(olga.orgId), everything);
  await process.stop();
});

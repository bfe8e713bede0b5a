import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";
import * as fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { silentLog } from "../../process/log.ts";
import { type DatabaseAddress, openPool } from "../client/connect.ts";
import { openDatabase } from "../client/open-database.ts";
import { findBinaries } from "./binaries.ts";
import { reachablePrograms } from "./reach.ts";
import { type Embedded, type EmbeddedOptions, startEmbedded } from "./embedded.ts";

const log = silentLog;
const root = fs.mkdtempSync(join(tmpdir(), "sm-embedded-"));
// As root the server runs as another user, which must enter the folder.
fs.chmodSync(root, 0o711);
t.teardown(() => fs.rmSync(root, { recursive: true, force: true }));
/** Making a cluster takes the longest: tests that need no fresh one take turns on "usual". */
const folder = (name: string) => join(root, name);

const pidFileOf = (dataDir: string) => join(dataDir, "postgres/postmaster.pid");
/** Of the recorded server; 0 when none is. */
const pidOf = (dataDir: string) =>
  fs.existsSync(pidFileOf(dataDir)) ? Number(fs.readFileSync(pidFileOf(dataDir), "utf8").split("\n", 1)[0]) : 0;

async function query<T>(address: DatabaseAddress, text: string): Promise<T[]> {
  const sql = await openDatabase(address, { max: 1 });
  try {
    return [...(await sql.unsafe(text))] as unknown as T[];
  } finally {
    await sql.end();
  }
}

/** A process of its own that starts the database and then waits to be killed. */
async function startElsewhere(dataDir: string): Promise<ChildProcess> {
  const modules = ["./embedded.js", "../../process/log.js"].map((file) =>
    JSON.stringify(new URL(file, import.meta.url)),
  );
  const script = `const { startEmbedded } = await import(${modules[0]});
    const { silentLog } = await import(${modules[1]});
    await startEmbedded({ dataDir: ${JSON.stringify(dataDir)}, log: silentLog });
    console.log("up"); setInterval(() => {}, 1000);`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", script], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = once(child, "exit").then(([code]) => Promise.reject(new Error(`it ended with ${code}`)));
  await Promise.race([once(child.stdout, "data"), ended]);
  return child;
}

t.test("a first start makes the cluster, and a second one finds what was written", async (t) => {
  const dataDir = folder("usual");
  const first = await startEmbedded({ dataDir, log });
  await query(first.address, "create table kept (word text); insert into kept values ('ätsch')");
  t.strictSame(
    await query(
      first.address,
      "select current_setting('server_encoding') as encoding, current_setting('listen_addresses') as tcp, " +
        "current_setting('fsync') as fsync",
    ),
    [{ encoding: "UTF8", tcp: "", fsync: "on" }],
  );
  await first.stop();
  await first.stop();
  t.notOk(fs.existsSync(pidFileOf(dataDir)), "no server is left");

  const second = await startEmbedded({ dataDir, log });
  t.strictSame(await query(second.address, "select word from kept"), [{ word: "ätsch" }]);
  await second.stop();
});

t.test("the socket is in a folder that only its owner can enter", async (t) => {
  const dataDir = folder("usual");
  const server = await startEmbedded({ dataDir, log });
  t.teardown(() => server.stop());
  t.equal(fs.statSync(join(dataDir, "postgres")).mode & 0o777, 0o700);
  t.ok("path" in server.address && server.address.path.startsWith(dataDir));
});

/** Authentication that the server requests from its own user: 0 none, 10 SCRAM (protocol, AuthenticationSASL). */
async function askedFor(dataDir: string): Promise<number> {
  const { uid, gid } = fs.statSync(join(dataDir, "postgres"));
  const text = Buffer.from("user\0statusmesh\0database\0postgres\0\0");
  const head = Buffer.alloc(8);
  head.writeInt32BE(8 + text.length, 0);
  head.writeInt32BE(196_608, 4);
  const [self, group] = [process.getuid!(), process.getgid!()];
  if (self === 0) {
    process.setegid!(gid);
    process.seteuid!(uid);
  }
  // connect() connects a Unix socket before it returns, so that only this call needs the other user.
  const socket = connect(join(dataDir, "postgres", ".s.PGSQL.5432"));
  if (self === 0) {
    process.seteuid!(self);
    process.setegid!(group);
  }
  socket.write(Buffer.concat([head, text]));
  const [answer] = (await once(socket, "data")) as [Buffer];
  socket.destroy();
  return answer.readInt32BE(5);
}

t.test("only the password lets a process in, and only the account of StatusMesh can read it", async (t) => {
  const dataDir = folder("usual");
  const server = await startEmbedded({ dataDir, log });
  t.teardown(() => server.stop());
  const file = join(dataDir, "postgres.password");
  t.equal(fs.statSync(file).mode & 0o777, 0o600);
  t.equal(fs.statSync(file).uid, process.getuid?.());
  t.match(fs.readFileSync(file, "utf8"), /^[\w-]{43}\n$/);
  t.equal(await askedFor(dataDir), 10);
  await t.rejects(query({ ...server.address, password: "wrong" } as DatabaseAddress, "select 1"), /refused the user/);
  t.strictSame(await query(server.address, "select distinct type, auth_method as method from pg_hba_file_rules"), [
    { type: "local", method: "scram-sha-256" },
  ]);
  fs.writeFileSync(join(dataDir, "postgres.conf"), "listen_addresses = '127.0.0.1'\n");
  await server.stop();
  const again = await startEmbedded({ dataDir, log });
  t.teardown(() => fs.rmSync(join(dataDir, "postgres.conf")));
  t.teardown(() => again.stop());
  t.strictSame(
    await query(again.address, "show listen_addresses"),
    [{ listen_addresses: "" }],
    "a setting opens no port",
  );
  fs.chmodSync(file, 0o644);
  await again.stop();
  await (await startEmbedded({ dataDir, log })).stop();
  t.equal(fs.statSync(file).mode & 0o777, 0o600, "a file that others could read is closed");
});

t.test("a data folder from before passwords gets one, wherever an earlier attempt was killed", async (t) => {
  const dataDir = folder("usual");
  const rules = join(dataDir, "postgres", "pg_hba.conf");
  const password = join(dataDir, "postgres.password");
  const states: [string, { rules: string; file: boolean }][] = [
    ["trust", { rules: "local all all trust\n", file: false }],
    [
      "killed after the rules",
      { rules: "# Written by StatusMesh at every start.\nlocal all all reject\n", file: false },
    ],
    ["killed after the file", { rules: "# Written by StatusMesh at every start.\nlocal all all reject\n", file: true }],
    [
      "the file was lost",
      { rules: "# Written by StatusMesh at every start.\nlocal all all scram-sha-256\n", file: false },
    ],
  ];
  for (const [title, state] of states) {
    const before = await startEmbedded({ dataDir, log });
    await query(before.address, "alter role statusmesh password null").catch(() => null);
    await before.stop();
    fs.writeFileSync(rules, state.rules);
    if (!state.file) fs.rmSync(password);
    const server = await startEmbedded({ dataDir, log });
    t.strictSame(await query(server.address, "select word from kept"), [{ word: "ätsch" }], title);
    t.equal(await askedFor(dataDir), 10, title);
    await server.stop();
  }
  const kept = fs.readFileSync(password);
  fs.writeFileSync(password, "of another database\n");
  await t.rejects(startEmbedded({ dataDir, log }), { name: "StartupError", message: /refuses the password/ });
  fs.writeFileSync(password, kept);
  await (await startEmbedded({ dataDir, log })).stop();
});

t.test(
  "a server of an earlier version that still runs is secured by its next owner, not by one that joins",
  async (t) => {
    const dataDir = folder("usual");
    const child = await startElsewhere(dataDir);
    const path = join(dataDir, "postgres", ".s.PGSQL.5432");
    const known = fs.readFileSync(join(dataDir, "postgres.password"), "utf8").trim();
    const address = { path, database: "statusmesh", username: "statusmesh", password: known };
    fs.writeFileSync(join(dataDir, "postgres", "pg_hba.conf"), "local all all trust\n");
    await query(address, "alter role statusmesh password null; select pg_reload_conf()");
    fs.rmSync(join(dataDir, "postgres.password"));
    while ((await askedFor(dataDir)) !== 0) await sleep(20);

    const beside = await startEmbedded({ dataDir, log, join: true });
    const pool = openPool(beside.address, { max: 1 });
    t.teardown(() => pool.end({ timeout: 0 }));
    await pool`select 1`;
    t.equal(await askedFor(dataDir), 0, "its owner could not connect any more");

    child.kill("SIGKILL");
    await once(child, "exit");
    const server = await startEmbedded({ dataDir, log });
    t.teardown(() => server.stop());
    t.equal(await askedFor(dataDir), 10);
    t.strictSame(await query(server.address, "select word from kept"), [{ word: "ätsch" }]);
    await pool`select pg_terminate_backend(pg_backend_pid())`.catch(() => null);
    t.strictSame(
      [...(await pool`select 1 as one`)],
      [{ one: 1 }],
      "and the one that joined connects with the password",
    );
  },
);

t.test("a data folder whose path is too long for a socket gets one elsewhere", async (t) => {
  const dataDir = join(folder("long"), "x".repeat(90));
  fs.mkdirSync(folder("long"));
  fs.renameSync(folder("usual"), dataDir);
  t.teardown(() => fs.renameSync(dataDir, folder("usual")));
  const server = await startEmbedded({ dataDir, log });
  t.teardown(() => server.stop());
  const { path } = server.address as { path: string };
  t.notOk(path.startsWith(dataDir));
  t.equal(fs.statSync(join(path, "..")).mode & 0o777, 0o700);
  t.strictSame(await query(server.address, "select 1 as one"), [{ one: 1 }]);
  t.teardown(() => fs.rmSync(join(path, ".."), { recursive: true, force: true }));
});

t.test("the server of a killed process is adopted, with all its commits", async (t) => {
  const dataDir = folder("usual");
  const child = await startElsewhere(dataDir);
  const pid = pidOf(dataDir);
  child.kill("SIGKILL");
  await once(child, "exit");

  const server = await startEmbedded({ dataDir, log });
  t.equal(pidOf(dataDir), pid, "it is the same server");
  await server.stop();
  t.notOk(fs.existsSync(pidFileOf(dataDir)), "and it can be stopped");
});

t.test("a pid file that is empty or names a foreign process does not stop a start", async (t) => {
  const dataDir = folder("usual");
  const before = await startEmbedded({ dataDir, log });
  await query(before.address, "create table if not exists counted (n int)");
  const pidFile = pidFileOf(dataDir);
  const text = fs.readFileSync(pidFile, "utf8");
  const { uid, gid } = fs.statSync(pidFile);
  await before.stop();
  // After a power failure another process of the same user may have the recorded id; PostgreSQL refuses to start then.
  const stranger = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"], { uid, gid, cwd: "/" });
  t.teardown(() => stranger.kill("SIGKILL"));
  await once(stranger, "spawn");
  fs.writeFileSync(pidFile, text.replace(/^\d+/, String(stranger.pid)), { mode: 0o600 });
  fs.chownSync(pidFile, uid, gid);

  const server = await startEmbedded({ dataDir, log });
  t.strictSame(await query(server.address, "select count(*) as n from counted"), [{ n: 0 }]);
  await server.stop();

  fs.writeFileSync(pidFile, "", { mode: 0o600 });
  fs.chownSync(pidFile, uid, gid);
  await (await startEmbedded({ dataDir, log })).stop();
});

t.test("a server that is killed is started again, and the pool reconnects", async (t) => {
  const dataDir = folder("usual");
  const server = await startEmbedded({ dataDir, log });
  const sql = await openDatabase(server.address, { max: 1 });
  await sql`create table if not exists counted (n int)`;
  const pid = pidOf(dataDir);
  process.kill(pid, "SIGKILL");
  let answer: { n: number; started: Date } | null = null;
  const started = new Date();
  for (let tries = 0; (answer === null || answer.started < started) && tries < 1800; tries++) {
    answer = await sql<
      { n: number; started: Date }[]
    >`select count(*) as n, pg_postmaster_start_time() as started from counted`.then(
      ([row]) => row ?? null,
      () => null,
    );
    await sleep(50);
  }
  matchObject(t, answer, { n: 0 });
  t.not(pidOf(dataDir), pid);
  await sql.end();

  process.kill(pidOf(dataDir), "SIGKILL");
  await sleep(20);
  await server.stop();
  const left = pidOf(dataDir);
  t.notOk(left > 0 && fs.existsSync(`/proc/${left}/cwd`), "stopping in the middle of that leaves no server behind");
});

t.test("one process holds a data folder", async (t) => {
  const dataDir = folder("usual");
  const holder = await startElsewhere(dataDir);
  const pid = pidOf(dataDir);
  await t.rejects(startEmbedded({ dataDir, log }), {
    name: "StartupError",
    message: new RegExp(`^Another StatusMesh \\(process ${holder.pid}\\) already uses the data folder`),
  });

  const beside = await startEmbedded({ dataDir, log, join: true });
  t.strictSame(await query(beside.address, "select 1 as one"), [{ one: 1 }], "a command beside it may join");
  await beside.stop();
  t.equal(pidOf(dataDir), pid, "and leaves it running");

  holder.kill("SIGKILL");
  await once(holder, "exit");
  await (await startEmbedded({ dataDir, log })).stop();
});

/** Another account runs PostgreSQL as itself. */
const notRoot = process.getuid?.() === 0 ? false : "needs root";

/** Starts twice at once; returns the server of one and the reason of the other. */
async function startTwice(start: () => Promise<Embedded>): Promise<[Embedded, string]> {
  const starts = await Promise.allSettled([start(), start()]);
  const won = starts.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
  const lost = starts.flatMap((one) => (one.status === "rejected" ? [String(one.reason)] : []));
  if (won.length !== 1) throw new Error(`${won.length} of two starts succeeded: ${lost.join(", ")}`);
  return [won[0]!, lost[0]!];
}

t.test("of two concurrent starts in an empty folder, one succeeds and the other fails with the reason", async (t) => {
  const dataDir = folder("raced");
  const [won, lost] = await startTwice(() => startEmbedded({ dataDir, log }));
  t.match(lost, /already uses the data folder/);
  t.notOk(
    fs.readdirSync(dataDir).some((name) => name.startsWith("postgres.new-")),
    "no half-made cluster is left",
  );
  await won.stop();
});

t.test("an impossible setup fails with one line", async (t) => {
  const file = folder("file");
  fs.writeFileSync(file, "");
  const refused = async (dataDir: string, message: RegExp) => {
    const error: unknown = await startEmbedded({ dataDir, log }).then(
      () => null,
      (reason: unknown) => reason,
    );
    matchObject(t, error, { name: "StartupError", message });
    t.notMatch((error as Error).message, "\n");
  };
  await refused(join(file, "data"), /^The data folder .* cannot be written \(ENOTDIR\)/);
  fs.symlinkSync(folder("absent"), folder("dangling"));
  await refused(join(folder("dangling"), "data"), /^The data folder .* cannot be written \(EEXIST\)/);
  await refused("/proc/data", /^The data folder \/proc\/data cannot be written/);

  const other = folder("other");
  fs.mkdirSync(join(other, "postgres"), { recursive: true });
  fs.writeFileSync(join(other, "postgres/PG_VERSION"), "15\n");
  await refused(other, /was made by PostgreSQL 15, and this StatusMesh brings 18/);

  t.throws(() => findBinaries("plan9", "mips"), /There is no bundled PostgreSQL for plan9-mips/);
});

t.test(
  "root: a data folder in a folder that only root enters has its database outside",
  { skip: notRoot },
  async (t) => {
    const [closed, outside] = [folder("closed"), folder("outside")];
    fs.mkdirSync(closed, { mode: 0o700 });
    const dataDir = join(closed, "home/status mesh/data");
    const start = (more: Partial<EmbeddedOptions> = {}) => startEmbedded({ dataDir, log, outside, ...more });

    const [won, lost] = await startTwice(() => start());
    t.match(lost, /already uses the data folder/, "of two concurrent starts one succeeds");
    await query(won.address, "create table kept (word text); insert into kept values ('here')");
    await won.stop();
    const pgdata = fs.realpathSync(join(dataDir, "postgres"));
    t.match(pgdata, /outside.status_mesh-\w+.postgres$/, "the data folder has a link to it");
    t.strictSame(fs.readdirSync(dataDir).sort(), ["postgres", "postgres.log", "postgres.password"]);
    t.strictSame(fs.readdirSync(outside).length, 1, "the loser leaves nothing");
    t.equal(fs.statSync(closed).mode & 0o777, 0o700, "nobody's folder was opened");

    fs.writeFileSync(join(dataDir, "postgres.conf"), "work_mem = 3MB\n");
    const again = await start();
    t.strictSame(await query(again.address, "select word, current_setting('work_mem') as mem from kept"), [
      { word: "here", mem: "3MB" },
    ]);
    const command = await start({ join: true });
    t.strictSame(await query(command.address, "select word from kept"), [{ word: "here" }], "a command joins it");
    await again.stop();

    fs.renameSync(join(closed, "home"), join(closed, "moved"));
    const moved = await start({ dataDir: join(closed, "moved/status mesh/data") });
    t.strictSame(await query(moved.address, "select word from kept"), [{ word: "here" }], "the folder may move");
    await moved.stop();
    fs.renameSync(join(closed, "moved"), join(closed, "home"));

    fs.renameSync(outside, `${outside}-away`);
    await t.rejects(start(), {
      name: "StartupError",
      message: /^The database is in .*, and that folder is gone: restore/,
    });
    fs.mkdirSync(outside, { mode: 0o700 });
    fs.rmSync(join(dataDir, "postgres"));
    await t.rejects(start(), /runs as user id 65534, which may not pass through .*closed\. Move data\.dir/);
    fs.mkdirSync(join(dataDir, "postgres"), { mode: 0o700 });
    await t.rejects(
      start(),
      /which may not pass through .*closed\. Move .*data.postgres elsewhere/,
      "an older cluster",
    );
  },
);

t.test(
  "root: programs that only root reaches are copied beside the cluster, once a version",
  { skip: notRoot },
  async (t) => {
    const installed = findBinaries();
    const [closed, beside] = [folder("installed"), folder("beside")];
    fs.mkdirSync(closed, { mode: 0o700 });
    fs.mkdirSync(beside, { mode: 0o711 });
    fs.cpSync(installed.folder, join(closed, "native"), { recursive: true, verbatimSymlinks: true });
    const here = (path: string) => join(closed, "native", path.slice(installed.folder.length));
    const hidden = {
      ...installed,
      folder: here(""),
      postgres: here(installed.postgres),
      initdb: here(installed.initdb),
    };
    fs.chmodSync(hidden.postgres, 0o700);
    const nobody = { uid: 65_534, gid: 65_534 };
    const places = [join(beside, "postgres"), nobody, folder("elsewhere")] as const;
    t.equal(reachablePrograms(installed, ...places).postgres, installed.postgres, "what it reaches stays where it is");
    const copied = reachablePrograms(hidden, ...places);
    t.equal(copied.folder, join(beside, `programs-${installed.version}`));
    const version = execFileSync(copied.postgres, ["--version"], { ...nobody, cwd: "/", encoding: "utf8" });
    t.match(version, /^postgres \(PostgreSQL\) 18/, "also where the installer's umask hid them");
    fs.rmSync(join(closed, "native"), { recursive: true });
    fs.mkdirSync(join(closed, "native"));
    t.strictSame(reachablePrograms(hidden, ...places), copied, "the copy is used again");
  },
);

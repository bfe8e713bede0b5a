import { execFileSync } from "node:child_process";
import * as fs from "node:fs";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { giveAccess } from "@statusmesh/control-plane/operator/commands/bootstrap-owner";
import { silentLog } from "@statusmesh/control-plane/platform/process/log";
import { serve } from "@statusmesh/control-plane/serve";
import t, { type Test } from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { connect } from "../harness/api.ts";
import { tempFolder } from "../harness/folder.ts";
import { commandHere } from "../harness/in-process.ts";
import {
  freePort,
  isAlive,
  postmasterOf,
  spawnControlPlane,
  startControlPlane,
  startProgram,
} from "../harness/processes.ts";
import { reap, spare } from "../harness/reaper.ts";
import { waitFor } from "../harness/wait.ts";

/* The first start of StatusMesh, and the messages of failed starts. */

const program = createRequire(import.meta.url).resolve("@statusmesh/control-plane/main");
const clock = { now: () => Date.now() };

/** A start in the test's own process that is refused: its exit code, and its message without the program's name. */
const startHere = (folder: string, env: Record<string, string>) =>
  commandHere(folder, { SM_SERVER__BIND: "127.0.0.1:0", ...env }, async (config) => {
    await (await serve(config, clock, silentLog)).stop();
    return 0;
  });

t.test("an empty folder becomes a running service, and stays one over a second start", async (t) => {
  const folder = tempFolder(t, "first");
  const port = await freePort();
  let began = performance.now();
  const first = await startControlPlane(t, { folder, port });
  t.comment(`first start: ${Math.round(performance.now() - began)} ms`);
  t.match(first.complaints(), new RegExp(`is ready: ${first.url}\n`), "it says where it is");
  t.match(first.signInLink, new RegExp(`^${first.url}/sign-in/[A-Za-z0-9_-]{40,}$`), "and how to get in");
  t.match(first.complaints(), `http://localhost:${new URL(first.url).port}/sign-in/`, "where passkeys work");
  t.notMatch(first.log.join("\n"), new URL(first.signInLink!).pathname, "the link is not in the log");

  const visitor = connect(t, first.url, null);
  t.equal((await visitor.get("/")).status, 302, "without a session there is only the way to sign in");
  t.equal((await visitor.get(new URL(first.signInLink!).pathname)).status, 200, "opening the link shows a page");
  t.equal((await visitor.get(new URL(first.signInLink!).pathname)).status, 200, "and does not use the link up");

  const code = first.signInLink!.split("/").at(-1);
  const tries = await Promise.all([1, 2, 3].map(async () => await visitor.post("/api/v1/sessions", { code })));
  t.strictSame(tries.map(({ status }) => status).sort(), [201, 400, 400], "of three who use it at once, one gets in");
  matchObject(t, tries.find(({ status }) => status === 400)?.body, { error: { code: "SIGN_IN_LINK_INVALID" } });
  const cookie = String(tries.find(({ status }) => status === 201)?.headers["set-cookie"]).split(";", 1)[0]!;
  const owner = visitor.with({ cookie });
  matchObject(t, (await owner.get("/api/v1/me")).body, { user: { email: "owner@localhost" }, role: "owner" });
  const page = await owner.get("/");
  t.equal(page.status, 200, "the cookie opens the console");
  t.match(page.headers["content-type"], /^text\/html/);

  const beside = startProgram(t, program, ["bootstrap-owner", "--token"], {
    cwd: folder,
    env: { SM_SERVER__BIND: `127.0.0.1:${port}` },
  });
  t.equal(await beside.ended, 0, "bootstrap-owner works beside the running service");
  const printed = beside.log.join("\n");
  t.match(printed, /Owner: owner@localhost/);
  const token = /sm_live_\S+/.exec(printed)![0];
  const api = connect(t, first.url, token);
  matchObject(t, (await api.get("/api/v1/me")).body, { user: { email: "owner@localhost" } }, "its token works");
  const again = await visitor.post("/api/v1/sessions", { code: /\/sign-in\/(\S+)/.exec(printed)![1] });
  t.equal(again.status, 201, "and so does its link");
  const { body: target } = await api.post("/api/v1/targets", {
    name: "Kept",
    check: { type: "tcp", host: "127.0.0.1", port },
    interval: 10,
  });
  const count = async (): Promise<number> => (await api.get(`/api/v1/targets/${target.id}/results`)).body.total;
  const results = await waitFor("a result", async () => (await count()) || null);

  const postmaster = postmasterOf(folder)!;
  t.ok(isAlive(postmaster), "the database runs as a process of its own");
  began = performance.now();
  t.equal(await first.stop("SIGINT"), 0, "Ctrl-C ends it");
  t.comment(`Ctrl-C: ${Math.round(performance.now() - began)} ms (to reach: 5000 ms)`);
  t.notOk(isAlive(postmaster), "and the database with it");

  began = performance.now();
  const second = await startControlPlane(t, { folder, port });
  t.comment(`second start: ${Math.round(performance.now() - began)} ms (to reach: 3000 ms)`);
  t.equal(second.signInLink, null, "who is signed in needs no link");
  t.equal((await owner.get("/api/v1/me")).status, 200, "the session goes on");
  matchObject(t, (await api.get(`/api/v1/targets/${target.id}`)).body, { name: "Kept" });
  t.ok((await count()) >= results, "and the results are there");

  t.test("a second service on the same port or the same folder is refused, and disturbs nothing", async (t) => {
    const other = tempFolder(t, "port");
    matchObject(t, await startHere(other, { SM_SERVER__BIND: `127.0.0.1:${port}` }), {
      code: 75,
      complaints: new RegExp(`Something already listens on 127\\.0\\.0\\.1:${port}`),
    });
    t.strictSame(fs.readdirSync(other), [], "and has written nothing");
    const sameFolder = await spawnControlPlane(t, { folder, port: await freePort() });
    await refused(t, sameFolder, /already uses the data folder/, 75);
    t.equal((await owner.get("/api/v1/me")).status, 200);
  });
});

const isRoot = process.getuid?.() === 0;
const npm = process.env["npm_execpath"] ?? fs.realpathSync(execFileSync("which", ["npm"], { encoding: "utf8" }).trim());

t.test("npm start and npm test in a clone that only its owner enters", async (t) => {
  // A copy with what is installed and compiled, as a clone is after its first start. Links keep it on the same disk.
  const checkout = fileURLToPath(new URL("../../..", import.meta.url));
  const home = fs.mkdtempSync(join(checkout, ".build/home-"));
  t.teardown(() => fs.promises.rm(home, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 }));
  t.equal(fs.statSync(home).mode & 0o777, 0o700);
  const clone = join(home, "statusmesh");
  fs.mkdirSync(join(clone, ".build"), { recursive: true });
  const names = fs.readdirSync(checkout).filter((name) => ![".build", ".git", "data"].includes(name));
  execFileSync("cp", ["-al", ...names, clone], { cwd: checkout });
  const stamps = fs.readdirSync(join(checkout, ".build"), { withFileTypes: true }).filter((entry) => entry.isFile());
  for (const { name } of stamps) fs.copyFileSync(join(checkout, ".build", name), join(clone, ".build", name));

  const port = await freePort();
  const token = `sm_live_${"0123456789abcdef".repeat(4)}`;
  const env = {
    SM_SERVER__BIND: `127.0.0.1:${port}`,
    SM_BOOTSTRAP__TOKEN: token,
    SM_SECURITY__ALLOW_PRIVATE_TARGETS: "true",
    HOME: home,
  };
  const api = connect(t, `http://127.0.0.1:${port}`, token);
  const link = join(clone, "data/postgres");
  t.teardown(() => fs.existsSync(link) && fs.rmSync(dirname(fs.realpathSync(link)), { recursive: true, force: true }));
  const command = async (...words: string[]): Promise<string> => {
    const started = startProgram(t, npm, ["run", "-s", "statusmesh", "--", ...words], { cwd: clone, env });
    await started.ended;
    return started.log.join("\n");
  };
  let target: string | null = null;
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    const started = startProgram(t, npm, ["start"], { cwd: clone, env });
    await waitFor("npm start to be ready", () => /is ready:/.test(started.complaints()));
    t.notMatch(started.complaints(), "compiling", "what is compiled is not compiled again");
    const cluster = fs.realpathSync(link);
    if (isRoot) {
      t.match(cluster, /^\/var\/lib\/statusmesh\/statusmesh-\w+\/postgres$/, "where PostgreSQL's own user enters");
      matchObject(t, started.log.join("\n"), cluster, "the log says where the database is");
    }
    const postmaster = postmasterOf(clone)!;
    reap(postmaster);
    const check = { type: "tcp", host: "127.0.0.1", port };
    target ??= (await api.post("/api/v1/targets", { name: "Kept", check, interval: 10 })).body.id as string;
    await waitFor("a result", async () => (await api.get(`/api/v1/targets/${target}/results`)).body.total > 0);
    if (signal === "SIGTERM") {
      t.match(await command("doctor"), new RegExp(`database .*embedded, in ${cluster}`), "doctor says it too");
      const printed = await command("bootstrap-owner");
      t.match(printed, `http://localhost:${port}/sign-in/`, "the command that the service prints works as it is typed");
    }
    const ending = await started.stop(signal);
    if (signal === "SIGINT") t.equal(ending, 0);
    await waitFor(`the database to end after ${signal}`, () => !isAlive(postmaster));
    await t.rejects(fetch(`http://127.0.0.1:${port}/healthz`), `nothing listens after ${signal}`);
    spare(postmaster);
  }
  const words = ["test", "--", "commands/distribute.test"];
  const tests = startProgram(t, npm, words, { cwd: clone, env: { HOME: home } });
  t.equal(await tests.ended, 0, tests.log.join("\n"));
  t.match(tests.log.join("\n"), /^[1-9]\d* passed, 0 failed$/m);
});

t.test("a signal during the start stops everything", async (t) => {
  const started = await spawnControlPlane(t, { folder: tempFolder(t, "early") });
  const starting = async () =>
    (await fetch(`http://127.0.0.1:${started.port}/healthz`).catch(() => null))?.status === 503;
  await waitFor("the port, before the service is ready", starting);
  t.equal(await started.stop("SIGTERM"), 0);
  t.equal(postmasterOf(started.folder), null, "the database has stopped");
});

const accessHere = (folder: string) =>
  commandHere(folder, {}, async (config, say) => {
    await giveAccess(config, clock, { email: null, tokenDays: null }, say);
    return 0;
  });

/** One line, beginning with the program's name, and an exit code: 78 (sysexits.h, EX_CONFIG) or 75 (EX_TEMPFAIL). */
async function refused(
  t: Test,
  started: { ended: Promise<number | string>; complaints: () => string },
  message: RegExp,
  exitCode = 78,
): Promise<void> {
  t.equal(await started.ended, exitCode);
  matchObject(t, started.complaints(), message);
  t.match(started.complaints(), /^statusmesh: [^\n]+\n$/, "in one line");
}

// Every message about a setting is in config.test.ts.
t.test("what is in the way is named in one line, and nothing is left behind", async (t) => {
  const silent = createServer((socket) => socket.end()).listen(0, "127.0.0.1");
  await new Promise((settle) => silent.once("listening", settle));
  t.teardown(() => silent.close());
  const closedPort = await freePort();

  const blocked = tempFolder(t, "blocked");
  fs.writeFileSync(join(blocked, "file"), "");
  const noToml = tempFolder(t, "toml");
  fs.writeFileSync(join(noToml, "statusmesh.toml"), '[server]\nbnid = "127.0.0.1:1"\n');
  const secretToml = tempFolder(t, "toml");
  fs.writeFileSync(
    join(secretToml, "statusmesh.toml"),
    '[bootstrap]\ntoken = "sm_live_0123456789012345678901234567890123456789"\n',
  );

  // Two by the program, the others by what it calls: each start takes half a second of CPU time.
  const cases: {
    title: string;
    folder?: string;
    env?: Record<string, string>;
    run?: "program" | "bootstrap-owner";
    message: RegExp;
    exitCode?: number;
    left?: string[];
  }[] = [
    {
      title: "a data folder that cannot be made",
      folder: blocked,
      env: { SM_DATA__DIR: "file/data" },
      message: /data folder .*file\/data cannot be written/,
      left: ["file"],
    },
    {
      title: "a data folder on a file system that cannot be written",
      env: { SM_DATA__DIR: "/proc/statusmesh" },
      message: /data folder \/proc\/statusmesh cannot be written/,
    },
    {
      title: "no database at the URL",
      env: { SM_DATABASE__URL: `postgres://u:s3cret@127.0.0.1:${closedPort}/sm` },
      run: "program",
      message: /^statusmesh: The database sm at 127\.0\.0\.1:\d+ cannot be reached \(ECONNREFUSED\)/,
      exitCode: 75,
    },
    {
      title: "a plan that is none",
      env: { SM_TENANCY__DEFAULT_PLAN: "gold" },
      message: /tenancy\.default_plan .* the plan "gold", which does not exist\. Use one of: free, selfhost\./,
      left: ["data"],
    },
    {
      title: "a way back in where there is no database",
      run: "bootstrap-owner",
      message: /There is no database in \/.*data, the data folder that this command looks at, and it creates none\./,
    },
    {
      title: "an unknown key in the file",
      folder: noToml,
      run: "program",
      message: /server\.bnid/,
      left: ["statusmesh.toml"],
    },
    { title: "a secret in the file", folder: secretToml, message: /bootstrap\.token/, left: ["statusmesh.toml"] },
    {
      title: "an address of another machine",
      env: { SM_SERVER__BIND: "192.0.2.1:8080" },
      message: /Cannot listen on 192\.0\.2\.1:8080/,
    },
  ];
  for (const { title, message, exitCode = 78, left = [], env = {}, folder = tempFolder(t, "no"), run } of cases) {
    await t.test(title, async (t) => {
      let complaints: string;
      if (run === "program") {
        const started = await spawnControlPlane(t, { env, folder });
        await refused(t, started, message, exitCode);
        complaints = started.complaints();
      } else {
        const ended = await (run === undefined ? startHere(folder, env) : accessHere(folder));
        matchObject(t, ended, { code: exitCode, complaints: message });
        ({ complaints } = ended);
        t.notMatch(complaints, "\n", "in one line");
      }
      t.notMatch(complaints, /s3cret|0123456789/, "no secret in it");
      t.strictSame(fs.readdirSync(folder), left, "nothing was written");
    });
  }
});

import { spawn } from "node:child_process";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import t, { type Test } from "tap";
import { matchObject } from "@statusmesh/shared/testing";

/* sm-agent wrap, with real processes and sockets. */

const cli = createRequire(import.meta.url).resolve("sm-agent/cli");
const folder = mkdtempSync(join(tmpdir(), "sm-wrap-"));

interface Report {
  path: string;
  rid: string | null;
  body: string;
}

/** A server of heartbeats that keeps what it was sent. `answer` may refuse, or not answer at all. */
async function heartbeats(
  t: Test,
  answer: (response: ServerResponse, request: IncomingMessage) => void = (response) => response.end("OK"),
): Promise<{ url: string; reports: Report[] }> {
  const reports: Report[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const { pathname, searchParams } = new URL(request.url!, "http://x");
      reports.push({ path: pathname, rid: searchParams.get("rid"), body: Buffer.concat(chunks).toString() });
      answer(response, request);
    });
  });
  await new Promise<void>((settle) => server.listen(0, "127.0.0.1", settle));
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hb/s3cret-token`, reports };
}

function wrap(words: readonly string[], env: Record<string, string> = {}, options: readonly string[] = []) {
  const { PATH = "" } = process.env;
  const child = spawn(process.execPath, [cli, "wrap", ...options, "--", ...words], { env: { PATH, ...env } });
  let [stdout, stderr] = ["", ""];
  child.stdout.on("data", (chunk: Buffer) => (stdout += chunk.toString()));
  child.stderr.on("data", (chunk: Buffer) => (stderr += chunk.toString()));
  const ended = new Promise<{ code: number | null; stdout: string; stderr: string }>((settle) =>
    child.on("exit", (code) => setImmediate(() => settle({ code, stdout, stderr }))),
  );
  return { child, ended, output: () => stdout };
}

t.test("start, end, exit code and output of a job", async (t) => {
  const { url, reports } = await heartbeats(t);
  const script = 'echo to stdout; echo to stderr >&2; test -z "$SM_PING_URL" || exit 9; read line; echo $line; exit 3';
  const run = wrap(["sh", "-c", script, "--not-an-option"], { SM_PING_URL: url });
  run.child.stdin.end("typed\n");
  matchObject(t, await run.ended, { code: 3, stdout: /^to stdout\ntyped\n$/, stderr: "to stderr\n" });
  matchObject(t, reports, [
    { path: "/hb/s3cret-token/start", body: "" },
    { path: "/hb/s3cret-token/3", body: /to stdout\n/ },
  ]);
  t.match(reports[1]!.body, /to stderr\n/);
  t.match(reports[0]!.rid, /^[\da-f]{8}-[\da-f]{4}-4/);
  t.equal(reports[0]!.rid, reports[1]!.rid, "one run");
  const file = join(folder, "ping.url");
  writeFileSync(file, `${url}\n`);
  matchObject(t, await wrap(["true"], {}, ["--ping-url-file", file, "--no-output"]).ended, {
    code: 0,
    stdout: "",
    stderr: "",
  });
  matchObject(t, reports[3], { path: "/hb/s3cret-token/0", body: "" });
});

t.test("the last 10 kB, whole characters", async (t) => {
  const { url, reports } = await heartbeats(t);
  const script = "process.stdout.write('\\u00e9'.repeat(200_000) + 'x')";
  const { stdout } = await wrap([process.execPath, "-e", script], { SM_PING_URL: url }).ended;
  t.equal(stdout.length, 200_001, "all of it is passed on");
  t.match(reports[1]!.body, /^é{4999}x$/);
});

t.test("commands that end by a signal, that are absent, that leave something running", async (t) => {
  const { url, reports } = await heartbeats(t);
  const env = { SM_PING_URL: url };
  t.equal((await wrap(["sh", "-c", "kill -9 $$"], env).ended).code, 137);
  matchObject(t, await wrap(["no-such-command-here"], env).ended, {
    code: 127,
    stderr: /no-such-command-here: command not found/,
  });
  t.equal((await wrap([folder], env).ended).code, 126, "a folder");
  matchObject(
    t,
    reports.filter(({ path }) => !path.endsWith("/start")).map(({ path, body }) => [path, body]),
    [
      ["/hb/s3cret-token/137", ""],
      ["/hb/s3cret-token/127", /command not found/],
      ["/hb/s3cret-token/126", /./],
    ],
  );
  const left = wrap(["sh", "-c", "echo done; sleep 30 & exit 0"], env);
  matchObject(t, await left.ended, { code: 0, stdout: "done\n" }, "its exit counts, not the end of its pipes");
  matchObject(t, reports.at(-1), { path: "/hb/s3cret-token/0", body: "done\n" });
  const stopped = wrap(["sh", "-c", "trap 'echo bye; exit 5' TERM; echo ready; while :; do sleep 0.05; done"], env);
  while (!stopped.output().includes("ready")) await new Promise((settle) => setTimeout(settle, 10));
  stopped.child.kill("SIGTERM");
  matchObject(
    t,
    await stopped.ended,
    { code: 5, stdout: "ready\nbye\n" },
    "a signal is passed on, and the end reported",
  );
  matchObject(t, reports.at(-1), { path: "/hb/s3cret-token/5" });
});

t.test("the job runs and keeps its exit code whatever becomes of the report", async (t) => {
  const job = ["sh", "-c", "echo worked; exit 4"];
  const worked = { code: 4, stdout: "worked\n" };
  const listener = createServer().listen(0, "127.0.0.1");
  await new Promise((settle) => listener.once("listening", settle));
  const closed = (listener.address() as AddressInfo).port;
  await new Promise((settle) => listener.close(settle));
  const cases: [string, Record<string, string>, RegExp][] = [
    ["nothing is configured", {}, /^sm-agent wrap: the run is not reported: SM_PING_URL has no ping URL/],
    ["a URL that is none", { SM_PING_URL: "hush" }, /^sm-agent wrap: the run is not reported: SM_PING_URL is not an/],
    [
      "nobody listens",
      { SM_PING_URL: `http://127.0.0.1:${closed}/hb/hush` },
      /could not be reported to 127\.0\.0\.1:\d+ \(ECONNREFUSED\)/,
    ],
  ];
  for (const [what, env, stderr] of cases) {
    const ended = await wrap(job, env).ended;
    matchObject(t, ended, { ...worked, stderr }, what);
    t.notMatch(ended.stderr, /hush/, "no token in the line");
  }
  const unknown = await heartbeats(t, (response) => response.writeHead(404).end());
  matchObject(t, await wrap(job, { SM_PING_URL: unknown.url }).ended, { ...worked, stderr: /\(status 404\)\n$/ });
  t.equal(unknown.reports.length, 2, "an unknown token is not tried again");
  let refusals = 2;
  const busy = await heartbeats(
    t,
    (response, { url }) => void response.writeHead(url!.includes("/start") || refusals-- <= 0 ? 200 : 503).end(),
  );
  matchObject(t, await wrap(job, { SM_PING_URL: busy.url }).ended, { ...worked, stderr: "" });
  t.equal(
    busy.reports.filter(({ path }) => path.endsWith("/4")).length,
    3,
    "and a restart of the server is waited for",
  );
  const silent = await heartbeats(t, () => undefined);
  const before = performance.now();
  matchObject(t, await wrap(job, { SM_PING_URL: silent.url }).ended, { ...worked, stderr: /no answer/ });
  t.ok(performance.now() - before < 30_000, "a server that never answers does not hold the job");
});

t.test("usage", async (t) => {
  matchObject(t, await wrap([]).ended, { code: 64, stderr: /missing required argument/ });
});

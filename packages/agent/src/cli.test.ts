import { spawn, type ChildProcess } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { createServer as createTlsServer } from "node:tls";
import { createRequire } from "node:module";
import { generate } from "selfsigned";
import t, { type Test } from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import type { PullReply, PullRequest, ResultsReply, ResultsRequest } from "@statusmesh/shared/protocol/agent-protocol";
import { nextRecheck, phaseMs } from "@statusmesh/shared/schedule";
import { completeSwitches } from "./shell/options.ts";
import { commandHere, type Ended, httpCheck } from "./testing.ts";

const cli = createRequire(import.meta.url).resolve("sm-agent/cli");
const id = (n: number): string => `00000000-0000-7000-8000-${String(n).padStart(12, "0")}`;
const token = "sm_agent_not-to-be-seen-anywhere";

type Issued = Awaited<ReturnType<typeof generate>>;

const started = new Set<ChildProcess>();
/** A test that fails leaves no process behind, on which the file would wait. */
t.afterEach(() => {
  for (const child of started) child.kill("SIGKILL");
  started.clear();
});

function start(
  args: string[],
  env: Record<string, string> = {},
): { child: ChildProcess; ended: Promise<Ended>; output: () => string } {
  const { PATH = "" } = process.env;
  const child = spawn(process.execPath, [cli, ...args], { env: { PATH, ...env }, stdio: ["pipe", "pipe", "pipe"] });
  started.add(child);
  let stdout = "";
  let stderr = "";
  child.stdout.on("data", (chunk: Buffer) => (stdout += chunk.toString()));
  child.stderr.on("data", (chunk: Buffer) => (stderr += chunk.toString()));
  const ended = new Promise<Ended>((settle) => child.on("close", (code) => settle({ code, stdout, stderr })));
  return { child, ended, output: () => stdout };
}

t.test("switches are true without a value and do not consume the next argument", (t) => {
  const cases: [string[], string[]][] = [
    [
      ["check", "--allow-private-targets", "http", "http://127.0.0.1/"],
      ["check", "--allow-private-targets=true", "http", "http://127.0.0.1/"],
    ],
    [
      ["run", "--insecure-http", "--allow-private-targets"],
      ["run", "--insecure-http=true", "--allow-private-targets=true"],
    ],
    [
      ["run", "--allow-private-targets", "no"],
      ["run", "--allow-private-targets", "no"],
    ],
    [
      ["run", "--allow-private-targets=false"],
      ["run", "--allow-private-targets=false"],
    ],
    [
      ["check", "--", "--allow-private-targets"],
      ["check", "--", "--allow-private-targets"],
    ],
  ];
  for (const [given, completed] of cases) t.strictSame(completeSwitches(given), completed);
  t.end();
});

t.test("wrong usage: one line and exit code 64", async (t) => {
  const url = "http://127.0.0.1:1";
  const cases: [string, string[], Record<string, string>, RegExp][] = [
    ["no URL", ["run"], { SM_AGENT_TOKEN: token }, /required option '--url <url>' not specified/],
    [
      "a URL that is none",
      ["run", "--url", "status.example.org"],
      { SM_AGENT_TOKEN: token },
      /must be an http or https URL/,
    ],
    [
      "credentials in the URL",
      ["run"],
      { SM_AGENT_URL: "https://me:secret@status.example.org", SM_AGENT_TOKEN: token },
      /Credentials do not belong in it/,
    ],
    ["no token", ["run", "--url", url], {}, /a token is missing\. Set --token-file or SM_AGENT_TOKEN\./],
    [
      "a tenant's token",
      ["run", "--url", url],
      { SM_AGENT_TOKEN: "sm_live_abc" },
      /the token in SM_AGENT_TOKEN is not an agent's token/,
    ],
    [
      "a token file that is not there",
      ["run", "--url", url, "--token-file", "/nowhere/token"],
      {},
      /the token file \/nowhere\/token cannot be read \(ENOENT\)/,
    ],
    [
      "a token file of something else",
      ["run", "--url", url],
      { SM_AGENT_TOKEN_FILE: cli },
      /the token in .*sm-agent\.js is not an agent's token/,
    ],
    ["an option that does not exist", ["run", "--url", url, "--token", "x"], {}, /unknown option '--token'/],
    [
      "a switch that is neither",
      ["run", "--url", url],
      { SM_AGENT_TOKEN: token, SM_SECURITY__ALLOW_PRIVATE_TARGETS: "perhaps" },
      /must be true or false/,
    ],
    [
      "a list of registries over plain http",
      ["run", "--url", url],
      { SM_AGENT_TOKEN: token, SM_AGENT_RDAP_BOOTSTRAP_URL: "http://mirror.example/dns.json" },
      /must be an https URL/,
    ],
    [
      "a token over plain http",
      ["run", "--url", "http://192.0.2.1:8080"],
      { SM_AGENT_TOKEN: token },
      /the token would be sent unencrypted to 192\.0\.2\.1:8080\. Use an https URL, or --insecure-http/,
    ],
    [
      "a name that only begins like this machine",
      ["run", "--url", "http://127.example.org"],
      { SM_AGENT_TOKEN: token, SM_AGENT_INSECURE_HTTP: "false" },
      /would be sent unencrypted to 127\.example\.org/,
    ],
    [
      "a canary without a port",
      ["run", "--url", url, "--canaries", "192.0.2.1:53, router"],
      { SM_AGENT_TOKEN: token },
      /"router" is not host:port/,
    ],
    ["a command that does not exist", ["frobnicate"], {}, /unknown command 'frobnicate'/],
  ];
  for (const [what, args, env, words] of cases) {
    const { code, stdout, stderr } = await commandHere(args, env);
    t.equal(code, 64, what);
    t.equal(stdout, "", what);
    matchObject(t, stderr, words, what);
    t.match(stderr, /^sm-agent: [^\n]+\n$/, `${what}: one line`);
  }
  const itself = await start(["frobnicate"]).ended;
  matchObject(t, itself, { code: 64, stdout: "", stderr: /^sm-agent: unknown command 'frobnicate'[^\n]*\n$/ });
});

t.test("--version and --help", async (t) => {
  matchObject(t, await start(["--version"]).ended, { code: 0, stdout: /^\d+\.\d+\.\d+\n$/ });
  matchObject(t, await start(["run", "--help"]).ended, {
    code: 0,
    stdout: /SM_AGENT_SPOOL_DIR[^]*SM_AGENT_RDAP_BOOTSTRAP_URL/,
  });
});

/**
 * A control plane with one http check at one second, and a check on demand. `change` alters its answer, `rechecksOf`
 * returns the rechecks in the receipt of a report.
 */
async function controlPlane(
  t: Test,
  change: (targetUrl: string) => Partial<PullReply> = () => ({}),
  rechecksOf: (report: ResultsRequest) => string[] = () => [],
) {
  const pulls: PullRequest[] = [];
  const reports: ResultsRequest[] = [];
  const held = new Set<ServerResponse>();
  const state = { refusing: false, checks: 0, reply: null as PullReply | null };
  const target = createServer((request, response) => {
    state.checks++;
    if (request.url === "/") response.end("hello");
  });
  await new Promise<void>((settle) => target.listen(0, "127.0.0.1", settle));
  const targetUrl = `http://127.0.0.1:${(target.address() as AddressInfo).port}`;
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const body = JSON.parse(Buffer.concat(chunks).toString()) as unknown;
      if (state.refusing) {
        response.writeHead(401);
        return response.end(JSON.stringify({ error: { code: "UNAUTHENTICATED", message: "The token was revoked." } }));
      }
      if (request.url === "/api/agent/results") {
        const report = body as ResultsRequest;
        reports.push(report);
        const receipt: ResultsReply = {
          stored: report.results.length,
          duplicates: 0,
          dropped_future: 0,
          dropped_unassigned: 0,
          dropped_off_schedule: 0,
          rechecks: rechecksOf(report),
        };
        return response.end(JSON.stringify(receipt));
      }
      pulls.push(body as PullRequest);
      if ((body as PullRequest).cursor !== null) return held.add(response);
      const assigned = (n: number, path: string) => ({
        target_id: id(n),
        org_id: id(90),
        version: "1",
        interval_ms: 1000,
        next_due_at: Date.now(),
        recheck_ms: 1000,
        check: httpCheck(targetUrl + path, { bearer_token: "also-a-secret", timeout: 30_000 }),
      });
      const portCheck = { type: "tcp", host: "127.0.0.1", port: Number(new URL(targetUrl).port), timeout: 1000 };
      const reply: PullReply = {
        protocol: 1,
        region: "default",
        server_time: Date.now(),
        cursor: "1",
        jitter_pct: 0,
        per_host_max_inflight: 2,
        rdap_max_inflight: 1,
        full: true,
        checks: [assigned(1, "/"), assigned(2, "/hangs")],
        drop: [],
        runs: [
          {
            run_id: id(50),
            org_id: id(91),
            target_id: null,
            scheduled_at: Date.now(),
            check: httpCheck(`${targetUrl}/`, { expected_status: { kind: "exact", value: 201 } }),
          },
          { run_id: id(51), org_id: id(92), target_id: id(3), scheduled_at: 1234, check: portCheck },
        ],
        rechecks: [],
        ...change(targetUrl),
      };
      state.reply = reply;
      response.end(JSON.stringify(reply));
    });
  });
  await new Promise<void>((settle) => server.listen(0, "127.0.0.1", settle));
  t.teardown(() => {
    for (const one of [server, target]) {
      one.closeAllConnections();
      one.close();
    }
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, pulls, reports, held, state };
}

async function until(condition: () => boolean, what: string): Promise<void> {
  for (const deadline = performance.now() + 90_000; performance.now() < deadline;) {
    if (condition()) return;
    await new Promise((settle) => setTimeout(settle, 10));
  }
  throw new Error(`never: ${what}`);
}

t.test("the agent pulls, checks, reports and stops on a signal", async (t) => {
  const { url, pulls, reports } = await controlPlane(t);
  const agent = start(["run", "--url", url, "--allow-private-targets"], { SM_AGENT_TOKEN: token });
  const results = () => reports.flatMap((report) => report.results);
  const of = (n: number) => results().filter((result) => result.target_id === id(n));
  await until(() => of(1).length >= 2, "two results of the check");
  for (const result of of(1)) matchObject(t, result, { status: "up", http_status: 200, response_size: 5, skip: false });
  t.ok((of(1)[1]?.scheduled_at ?? 0) - (of(1)[0]?.scheduled_at ?? 0) >= 500, "one slot after the other");
  matchObject(t, of(3), [{ scheduled_at: 1234, status: "up" }], "a check-now is a result too");
  const runs = reports.flatMap((report) => report.runs).sort((a, b) => a.run_id.localeCompare(b.run_id));
  matchObject(t, runs, [
    { run_id: id(50), status: "down", error: "expected status 201, got 200", matched_expectations: false },
    { run_id: id(51), status: "up", matched_expectations: true },
  ]);
  t.strictSame(runs[0]?.warnings, []);
  matchObject(t, pulls, [{ protocol: 1, cursor: null, capacity: 100 }, { cursor: "1" }]);

  const asked = performance.now();
  agent.child.kill("SIGTERM");
  const { code, stdout, stderr } = await agent.ended;
  t.equal(code, 0);
  t.ok(performance.now() - asked < 60_000, "in time, although a check hangs");
  t.equal(of(2).length, 0, "the check that was given up has no result");
  t.equal(stderr, "");
  const lines = stdout
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as { msg: string; starts?: number });
  matchObject(t, lines.at(-1), { msg: "numbers", in_flight: 0, spool_waiting: 0 });
  for (const secret of [token, "also-a-secret"]) t.notOk(stdout.includes(secret), "no secret is in the log");
});

t.test("a client certificate that is replaced is presented from then on; results name the version", async (t) => {
  const issue = (name: string, ca?: Issued) =>
    generate([{ name: "commonName", value: name }], {
      keyType: "ec",
      algorithm: "sha256",
      extensions: [
        { name: "basicConstraints", cA: ca === undefined, critical: true },
        ...(ca === undefined
          ? []
          : [{ name: "subjectAltName" as const, altNames: [{ type: 2 as const, value: "localhost" }] }]),
      ],
      ...(ca === undefined ? {} : { ca: { key: ca.private, cert: ca.cert } }),
    });
  const root = await issue("Root");
  const [own, first, second] = [
    await issue("localhost", root),
    await issue("first", root),
    await issue("second", root),
  ];
  const seen: string[] = [];
  const server = createTlsServer(
    { cert: own.cert, key: own.private, ca: root.cert, requestCert: true, rejectUnauthorized: true },
    (socket) => {
      seen.push(socket.getPeerCertificate().subject.CN as string);
      socket.on("error", () => undefined).end("hello");
    },
  );
  await new Promise<void>((settle) => server.listen(0, "127.0.0.1", settle));
  t.teardown(() => server.close());
  const { port } = server.address() as AddressInfo;
  const check = {
    type: "tcp",
    host: "localhost",
    port,
    tls: "tls",
    expect: "hello",
    timeout: 5000,
    certificates: { ca_id: id(70), client_id: id(71) },
  };
  const timing = { interval_ms: 1000, recheck_ms: 1000 };
  const assigned = (version: string, client: Issued): Partial<PullReply> => ({
    checks: [{ target_id: id(1), org_id: id(90), version, ...timing, next_due_at: Date.now(), check: { ...check } }],
    certificates: [
      { id: id(70), certificate: root.cert, private_key: null },
      { id: id(71), certificate: client.cert, private_key: client.private },
    ],
    runs: [],
  });
  const { url, reports, held, state } = await controlPlane(t, () => assigned("1", first));
  const agent = start(["run", "--url", url, "--allow-private-targets"], { SM_AGENT_TOKEN: token });
  const of = (version: string) => reports.flatMap(({ results }) => results).filter((one) => one.version === version);
  await until(() => of("1").length > 0 && held.size > 0, "a result of the first certificate");
  const [waiting] = held;
  held.clear();
  waiting!.end(JSON.stringify({ ...state.reply, cursor: "2", full: false, ...assigned("2", second) }));
  await until(() => of("2").length > 0, "a result of the second one");
  agent.child.kill("SIGTERM");
  await agent.ended;
  t.strictSame([...new Set([...of("1"), ...of("2")].map(({ status, error }) => `${status} ${error}`))], ["up null"]);
  t.strictSame(
    seen.filter((name, n) => name !== seen[n - 1]),
    ["first", "second"],
  );
});

t.test("an on-demand run without a place is answered as busy", async (t) => {
  const { url, reports } = await controlPlane(t, (targetUrl) => ({
    checks: [],
    runs: [1, 2, 3].map((n) => ({
      run_id: id(50 + n),
      org_id: id(93),
      target_id: id(n),
      scheduled_at: n,
      check: httpCheck(`${targetUrl}/hangs`, { timeout: 300 }),
    })),
  }));
  const agent = start(["run", "--url", url, "--allow-private-targets"], { SM_AGENT_TOKEN: token });
  const results = () => reports.flatMap((report) => report.results);
  await until(() => results().length >= 2, "the results of those that had a place");
  agent.child.kill("SIGTERM");
  t.equal((await agent.ended).code, 0);
  t.strictSame(
    results().map((one) => one.status),
    ["down", "down"],
    "one after the other, and nothing of the third",
  );
  const runs = reports.flatMap((report) => report.runs).sort((a, b) => a.run_id.localeCompare(b.run_id));
  t.strictSame(
    runs.map(({ run_id, busy, status }) => [run_id, busy, status]),
    [
      [id(51), undefined, "down"],
      [id(52), undefined, "down"],
      [id(53), true, "error"],
    ],
  );
});

t.test("rechecks run between two slots until the control plane stops requesting them", async (t) => {
  const [daily, other] = [id(1), id(2)];
  const [interval_ms, recheck_ms] = [86_400_000, 1000];
  let wanted = 2;
  const { url, reports } = await controlPlane(
    t,
    (targetUrl) => {
      const assigned = { org_id: id(90), version: "1", recheck_ms, next_due_at: Date.now() };
      const check = httpCheck(`${targetUrl}/`, { expected_status: { kind: "exact", value: 201 } });
      return {
        checks: [
          { ...assigned, target_id: daily, interval_ms, check },
          { ...assigned, target_id: other, interval_ms: 1000, check },
        ],
        runs: [],
      };
    },
    ({ results }) => (results.some((one) => one.target_id === daily) && wanted-- > 0 ? [daily] : []),
  );
  const agent = start(["run", "--url", url, "--allow-private-targets"], { SM_AGENT_TOKEN: token });
  const slotsOf = (target: string) =>
    reports.flatMap(({ results }) => results.filter((one) => one.target_id === target)).map((one) => one.scheduled_at);
  await until(() => slotsOf(daily).length >= 3, "two rechecks");
  const runs = slotsOf(other).length;
  await until(() => slotsOf(other).length >= runs + 3, "three seconds more");
  agent.child.kill("SIGTERM");
  t.equal((await agent.ended).code, 0);
  const [first, ...rechecks] = slotsOf(daily);
  t.equal(rechecks.length, 2, "none without being asked");
  const grid = { phase: phaseMs(daily, "default", interval_ms), intervalMs: interval_ms, recheckMs: recheck_ms };
  for (const slot of rechecks)
    t.equal(nextRecheck(grid, slot), slot, "on the grid that the control plane computes too");
  t.ok(rechecks[0]! > first! && rechecks[1] === rechecks[0]! + recheck_ms);
});

t.test("the guard refuses local targets by default", async (t) => {
  const { url, reports } = await controlPlane(t);
  const agent = start(["run"], {
    SM_AGENT_URL: url,
    SM_AGENT_TOKEN: token,
    SM_SECURITY__ALLOW_PRIVATE_TARGETS: "false",
  });
  await until(() => reports.length > 0, "a report");
  matchObject(t, reports[0]?.results[0], {
    status: "error",
    error: "address 127.0.0.1 is blocked (127.0.0.0/8)",
    skip: false,
  });
  agent.child.kill("SIGINT");
  t.equal((await agent.ended).code, 0);
});

t.test("an agent with SM_AGENT_PARENT ends with its parent", async (t) => {
  const { url, reports } = await controlPlane(t);
  const agent = start(["run", "--url", url], { SM_AGENT_TOKEN: token, SM_AGENT_PARENT: "stdin" });
  const independent = start(["run", "--url", url], { SM_AGENT_TOKEN: token });
  await until(
    () => reports.length > 0 && [agent, independent].every((it) => it.output().includes("serving")),
    "both agents at work",
  );
  agent.child.stdin?.end();
  independent.child.stdin?.end();
  const { code, stdout } = await agent.ended;
  t.equal(code, 0);
  t.match(stdout, /the parent process has exited/);
  t.equal(independent.child.exitCode, null, "one without the option stays");
  independent.child.kill("SIGTERM");
  t.equal((await independent.ended).code, 0);
});

t.test("an agent with a refused token stops checking and keeps its results", async (t) => {
  const { url, reports, held, state } = await controlPlane(t);
  const folder = t.testdir();
  const env = {
    SM_AGENT_URL: url,
    SM_AGENT_TOKEN: token,
    SM_AGENT_SPOOL_DIR: join(folder, "spool"),
    SM_SECURITY__ALLOW_PRIVATE_TARGETS: "true",
  };
  const agent = start(["run"], env);
  await until(() => reports.length > 0 && held.size > 0, "a report");
  state.refusing = true;
  await until(() => agent.output().includes("results cannot be reported and are kept"), "a refused report");
  for (const response of held) response.destroy();
  await until(
    () =>
      agent
        .output()
        .includes("the control plane does not accept this agent's token; nothing is checked, results are kept"),
    "a refused pull",
  );
  await new Promise((settle) => setTimeout(settle, 100));
  const { checks } = state;
  await new Promise((settle) => setTimeout(settle, 2500));
  t.equal(state.checks, checks, "nothing is checked");
  agent.child.kill("SIGTERM");
  t.equal((await agent.ended).code, 0);

  const before = reports.flatMap((report) => report.results).length;
  state.refusing = false;
  const next = start(["run"], env);
  await until(
    () => next.output().includes("results of an earlier run are in the spool and will be reported"),
    "the kept results",
  );
  await until(() => reports.flatMap((report) => report.results).length > before, "their report");
  next.child.kill("SIGTERM");
  t.equal((await next.ended).code, 0);
  const slots = reports
    .flatMap((report) => report.results)
    .filter((result) => result.target_id === id(1))
    .map((result) => result.scheduled_at);
  t.equal(new Set(slots).size, slots.length, "each once");
});

t.test("one agent per spool folder", async (t) => {
  const { url, reports } = await controlPlane(t);
  const folder = join(t.testdir(), "spool");
  const args = ["run", "--url", url, "--allow-private-targets", "--spool-dir", folder];
  const first = start(args, { SM_AGENT_TOKEN: token });
  await until(() => reports.length > 0, "a report");
  const second = await start(args, { SM_AGENT_TOKEN: token }).ended;
  matchObject(t, second, {
    code: 78,
    stderr: new RegExp(
      `^sm-agent: the spool folder ${folder} is used by another sm-agent \\(pid ${first.child.pid} on .*\n$`,
    ),
  });
  first.child.kill("SIGKILL");
  await first.ended;
  const third = start(args, { SM_AGENT_TOKEN: token });
  await until(() => third.output().includes("serving a region"), "the next agent");
  third.child.kill("SIGTERM");
  t.equal((await third.ended).code, 0);
  t.notOk(readdirSync(folder).includes("sm-agent.lock"), "the lock goes with the agent");

  writeFileSync(join(folder, "a-file"), "");
  const below = await start(["run", "--url", url], {
    SM_AGENT_TOKEN: token,
    SM_AGENT_SPOOL_DIR: join(folder, "a-file"),
  }).ended;
  matchObject(t, below, { code: 78, stderr: /^sm-agent: the spool folder .*a-file cannot be written \(.*\)\.?\n$/ });
});

t.test("discovery is loaded by its command only", async (t) => {
  const isDiscovery = (url: string): boolean => /\/(?:discovery|foreign)\/[^/]+$|\/discover[^/]*$/.test(url);
  const modulesOf = async (folder: string, ...args: string[]): Promise<string[]> => {
    await start(args, { NODE_V8_COVERAGE: folder }).ended;
    const reports = readdirSync(folder).map((name) => JSON.parse(readFileSync(join(folder, name), "utf8")) as Coverage);
    return reports.flatMap(({ result }) => result.map(({ url }) => url)).filter(isDiscovery);
  };
  const folders = t.testdir({ check: {}, run: {}, discover: {} });
  const [check, run, discover] = await Promise.all([
    modulesOf(join(folders, "check"), "check", "--allow-private-targets", "tcp", "127.0.0.1:1"),
    modulesOf(join(folders, "run"), "run", "--url", "http://127.0.0.1:1", "--token-file", "/nowhere"),
    modulesOf(join(folders, "discover"), "discover", "--help"),
  ]);
  t.strictSame([check, run], [[], []]);
  t.ok(discover.length > 0);
});

interface Coverage {
  result: { url: string }[];
}

import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { createRequire } from "node:module";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { screenOf } from "@statusmesh/shared/shell/terminal";
import { phaseBar, shares } from "../shell/output.ts";
import { commandHere, type Ended, tcpServer } from "../testing.ts";
import { inWords } from "./check.ts";

const cli = createRequire(import.meta.url).resolve("sm-agent/cli");
function check(args: string[], env: Record<string, string> = {}, input = ""): Promise<Ended> {
  const { PATH = "" } = process.env;
  const child = spawn(process.execPath, [cli, "check", ...args], {
    env: { PATH, SM_SECURITY__ALLOW_PRIVATE_TARGETS: "true", ...env },
    stdio: ["pipe", "pipe", "pipe"],
  });
  let stdout = "";
  let stderr = "";
  child.stdout.on("data", (chunk: Buffer) => (stdout += chunk.toString()));
  child.stderr.on("data", (chunk: Buffer) => (stderr += chunk.toString()));
  // A command that fails at once has closed its end before this arrives.
  child.stdin.on("error", () => undefined);
  child.stdin.end(input);
  return new Promise((settle) => child.on("close", (code) => settle({ code, stdout, stderr })));
}

/** The same in this process. */
const checkHere = (args: readonly string[], env: Record<string, string> = {}): Promise<Ended> =>
  commandHere(["check", ...args], { SM_SECURITY__ALLOW_PRIVATE_TARGETS: "true", ...env });

const seen: { method: string | undefined; headers: IncomingHttpHeaders; body: string }[] = [];
const server = createServer((request, response) => {
  let body = "";
  request.on("data", (chunk: Buffer) => (body += chunk.toString()));
  request.on("end", () => {
    seen.push({ method: request.method, headers: request.headers, body });
    response.writeHead(request.url === "/gone" ? 410 : 200).end("hello");
  });
});
await new Promise<void>((settle) => server.listen(0, "127.0.0.1", settle));
const { port } = server.address() as AddressInfo;
const url = `http://127.0.0.1:${port}/`;
t.teardown(() => server.close().closeAllConnections());

t.test("result as text and exit code", async (t) => {
  const up = await check(["http", url]);
  matchObject(t, up, { code: 0, stderr: "" });
  t.match(
    up.stdout,
    new RegExp(
      String.raw`^✔ up  GET http://127\.0\.0\.1:\d+/\n  status 200, 5 B, [\d.]+ m?s\n` +
        String.raw`  connect [\d.]+ m?s, ttfb [\d.]+ m?s(, rest [\d.]+ m?s)?\n$`,
    ),
    "plain without a terminal",
  );
  const down = await checkHere(["http", `${url}gone`, "--expect-status", "200-299"]);
  matchObject(t, down, { code: 1, stdout: /^✖ down {2}GET .*\n {2}HTTP 410 \(expected 200-299\), / });
  const open = await tcpServer(t, () => undefined);
  matchObject(t, await checkHere(["tcp", `127.0.0.1:${open.port}`]), {
    code: 0,
    stdout: /^✔ up {2}127\.0\.0\.1:\d+\n/,
  });
  const guarded = await checkHere(["tcp", `127.0.0.1:${open.port}`], { SM_SECURITY__ALLOW_PRIVATE_TARGETS: "false" });
  matchObject(t, guarded, {
    code: 1,
    stdout: /^✖ error .*\n {2}address 127\.0\.0\.1 is blocked[^\n]*\n.*--allow-private-targets\.\n$/s,
  });
  t.equal(
    (
      await checkHere(["tcp", `127.0.0.1:${open.port}`, "--allow-private-targets"], {
        SM_SECURITY__ALLOW_PRIVATE_TARGETS: "false",
      })
    ).code,
    0,
  );
  matchObject(t, await checkHere(["tls-cert", `127.0.0.1:${port}`, "--timeout", "5s"]), {
    code: 1,
    stdout: /^✖ \w+ {2}certificate of 127\.0\.0\.1, port \d+\n/,
  });
});

t.test("a switch before or after the kind", async (t) => {
  const env = { SM_SECURITY__ALLOW_PRIVATE_TARGETS: "false" };
  matchObject(t, await checkHere(["--allow-private-targets", "http", url], env), { code: 0, stderr: "" });
  matchObject(t, await checkHere(["--allow-private-targets", "no", "http", url]), {
    code: 1,
    stdout: /address 127\.0\.0\.1 is blocked/,
  });
});

t.test("--json prints one object as the API does", async (t) => {
  const { code, stdout } = await checkHere(["--json", "http", url, "--expect-status", "201,204"]);
  t.equal(code, 1);
  t.match(stdout, /^[^\n]+\n$/);
  const printed = JSON.parse(stdout) as { result: object; matched_expectations: boolean; warnings: string[] };
  t.strictSame(Object.keys(printed), ["result", "matched_expectations", "warnings"]);
  t.strictSame(Object.keys(printed.result), [
    "target_id",
    "region",
    "timestamp",
    "status",
    "error",
    "http_status",
    "response_size",
    "dns_ms",
    "connect_ms",
    "tls_ms",
    "ttfb_ms",
    "total_ms",
    "details",
    "diagnosis",
  ]);
  matchObject(t, printed, {
    result: { status: "down", http_status: 200, error: "expected status 201 or 204, got 200" },
    matched_expectations: false,
  });
  t.strictSame(printed.warnings, []);
});

t.test("options set the fields of the check", async (t) => {
  seen.length = 0;
  const { code } = await checkHere([
    "http",
    url,
    "--method",
    "post",
    "--header",
    "accept-language: de",
    "--header",
    "pragma: a:b",
    "--body",
    "text",
    "--contains",
    "hell",
    "--timeout",
    "5s",
  ]);
  t.equal(code, 0);
  matchObject(t, seen, [{ method: "POST", headers: { "accept-language": "de", pragma: "a:b" }, body: "text" }]);
  matchObject(t, await checkHere(["http", url, "--contains", "bye"]), { code: 1, stdout: /bye/ });
  matchObject(t, await checkHere(["domain-expiry", "example.org", "--rdap-bootstrap-url", "http://127.0.0.1:1/"]), {
    code: 1,
    stdout: /the list of registries cannot be fetched: connection refused/,
  });
  seen.length = 0;
  const spec = { type: "http", url, headers: { "x-api-key": "from-a-file" } };
  t.equal((await check(["--spec", "-"], {}, JSON.stringify(spec))).code, 0);
  matchObject(t, seen, [{ headers: { "x-api-key": "from-a-file" } }]);
});

t.test("secrets are read from files and the environment, and never printed", async (t) => {
  const folder = t.testdir();
  const file = (name: string, text: string): string => {
    writeFileSync(join(folder, name), text);
    return join(folder, name);
  };
  const cases: [string, string[], Record<string, string>, IncomingHttpHeaders][] = [
    ["a token of the environment", [], { SM_CHECK_BEARER_TOKEN: "hush-1" }, { authorization: "Bearer hush-1" }],
    ["a token of a file", ["--bearer-token-file", file("token", "hush-2\n")], {}, { authorization: "Bearer hush-2" }],
    [
      "the file before the environment",
      ["--bearer-token-file", file("token", "hush-2\n")],
      { SM_CHECK_BEARER_TOKEN: "hush-1" },
      { authorization: "Bearer hush-2" },
    ],
    [
      "a password",
      ["--basic-auth-file", file("user", "me:hush:3\n")],
      {},
      { authorization: `Basic ${Buffer.from("me:hush:3").toString("base64")}` },
    ],
    // A server that sends no challenge gets no credentials.
    ["digest", ["--auth-scheme", "digest", "--basic-auth-file", file("digest", "me:hush\n")], {}, {}],
    [
      "headers beside others",
      ["--header", "accept-language: de", "--header-file", file("headers", "x-api-key: hush-4\n\ncookie: hush-5\n")],
      {},
      { "accept-language": "de", "x-api-key": "hush-4", cookie: "hush-5" },
    ],
  ];
  for (const [what, args, env, headers] of cases) {
    seen.length = 0;
    const found = await checkHere(["http", url, "--json", ...args], env);
    t.equal(found.code, 0, what);
    matchObject(t, seen, [{ headers }], what);
    t.notMatch(found.stdout + found.stderr, /hush/, what);
  }
  const wrong = [
    await checkHere(["http", url, "--header", "X-Api-Key: hush-6"]),
    await checkHere(["http", "https://127.0.0.1:9/", "--no-verify-tls"], { SM_CHECK_BEARER_TOKEN: "hush-7" }),
    await checkHere(["http", url], { SM_CHECK_BASIC_AUTH: "hush-8" }),
    await checkHere(["http", url], { SM_CHECK_HEADER: "hush-9" }),
    await checkHere(["--spec", file("spec.json", '{"type": "http", hush-10')]),
    await checkHere(["http", url, "--bearer-token", "hush-11"]),
  ];
  matchObject(
    t,
    wrong.map(({ stderr }) => stderr),
    [
      '"X-Api-Key" is a secret, and a command line is no place for one. ' +
        "Write it into a file for --header-file, or into SM_CHECK_HEADER.",
      "Credentials are not sent to a server whose certificate is not verified.",
      "SM_CHECK_BASIC_AUTH must have a user and a password",
      "SM_CHECK_HEADER must have a name and a value",
      /spec\.json is not JSON\.$/m,
      "unknown option '--bearer-token'",
    ],
  );
  for (const { code, stdout, stderr } of wrong) {
    matchObject(t, { code, stdout }, { code: 64, stdout: "" });
    t.match(stderr, /^sm-agent: [^\n]+\n$/);
    t.notMatch(stderr, /hush/);
  }
});

t.test("wrong usage: one line with the error of the API and exit code 64", async (t) => {
  const cases: [string[], RegExp][] = [
    [["http", "ftp://example.org"], /Start with http:\/\/ or https:\/\/\. The scheme "ftp" cannot be checked\./],
    [
      ["http", url, "--timeout", "10"],
      /--timeout must be a time with its unit, for example 10s or 500ms, and not "10"/,
    ],
    [["http", url, "--timeout", "10m"], /timeout must be at most 60000/],
    [["http", url, "--expect-status", "fine"], /--expect-status must be a status code, a range or a list/],
    [["http", url, "--header", "accept: a", "--header", "accept: b"], /--header has "accept" twice/],
    [["http", url, "--methd", "GET"], /unknown option '--methd'\. Did you mean --method\?/],
    [["http"], /missing required argument 'url'/],
    [["tcp", "127.0.0.1"], /port is required/],
    [["tcp", "[::1]:http"], /port must be a whole number/],
    [["tcp", "db/x:1"], /"db\/x" is not a host name or an IP address/],
    [["tls_cert", "example.org", "--warn-days", "1"], /warn_days \(1\) must be more than critical_days \(7\)/],
    [["dns", "example.org", "--type", "any"], /record_type must be one of A, AAAA/],
    [["dns", "example.org", "--resolver", "one/two"], /"one\/two" is not a name server/],
    [["domain_expiry", "localhost"], /Write a registered domain with its dot/],
    [["htp", url], /there is no kind "htp" of check\. Did you mean "http"\?/],
    [["--jsno"], /unknown option '--jsno'/],
    [[], /what to check is missing/],
    [["--spec", "x.json", "tcp", "127.0.0.1:9"], /--spec stands for the whole check/],
    [["--spec", "/nowhere.json"], /\/nowhere\.json cannot be read \(ENOENT\)/],
  ];
  for (const [args, words] of cases) {
    const { code, stdout, stderr } = await checkHere(args);
    matchObject(t, { code, stdout }, { code: 64, stdout: "" }, args.join(" "));
    matchObject(t, stderr, words);
    t.match(stderr, /^sm-agent: [^\n]+\n$/, "one line");
  }
});

t.test("output on a terminal", (t) => {
  const tty = { isTTY: true, columns: 60 };
  t.strictSame(screenOf(tty, {}), { tty: true, color: true, width: 60 });
  t.strictSame(screenOf(tty, { NO_COLOR: "1" }), { tty: true, color: false, width: 60 });
  t.equal(screenOf(tty, { NO_COLOR: "" }).color, true, "set to nothing it is not set");
  t.equal(screenOf(tty, { TERM: "dumb" }).color, false);
  t.strictSame(screenOf({}, {}), { tty: false, color: false, width: 80 });

  const phases = [
    { name: "dns", ms: 1 },
    { name: "connect", ms: 2 },
    { name: "ttfb", ms: 5 },
  ];
  t.equal(
    phaseBar(phases, { tty: true, color: false, width: 20 }),
    [
      `  ${"░".repeat(2)}${"▒".repeat(4)}${"▓".repeat(10)}`,
      "  ░ dns 1.00 ms  ▒ connect 2.00 ms  ▓ ttfb 5.00 ms",
      "",
    ].join("\n"),
  );
  t.match(phaseBar(phases, { tty: true, color: true, width: 20 }), "\u001b[36m░░\u001b[0m");
  t.equal(phaseBar([], { tty: true, color: true, width: 20 }), "");

  const measurement = {
    status: "down",
    error: "no\u001b[2J\nroute",
    http_status: null,
    response_size: null,
    dns_ms: null,
    connect_ms: null,
    tls_ms: null,
    ttfb_ms: null,
    total_ms: 3,
    details: null,
  } as const;
  const words = inWords(
    { type: "tcp", host: "db.example.org", port: 5432, timeout: 1000 },
    {
      measurement,
      timestamp: 0,
      skip: false,
      warnings: ["mind\u0007 this"],
      cause: null,
      diagnosis: null,
      certificateNotAfter: null,
      snapshot: null,
    },
    { allowPrivateTargets: true },
    { tty: true, color: false, width: 60 },
  );
  t.equal(
    words,
    "✖ down  db.example.org:5432\n  no [2J route, 3.00 ms\n  ! mind  this\n",
    "what the other side says moves no cursor",
  );
  const snapshot = () => ({
    status_line: "HTTP/1.1 502 Bad Gateway",
    headers: [{ name: "Server", value: "nginx\u001b[2J" }],
    headers_omitted: 0,
    body: "<h1>\n\u202eBad",
    body_state: "complete" as const,
  });
  t.equal(
    inWords(
      { type: "tcp", host: "db.example.org", port: 5432, timeout: 1000 },
      {
        measurement,
        timestamp: 0,
        skip: false,
        warnings: [],
        cause: null,
        diagnosis: null,
        certificateNotAfter: null,
        snapshot,
      },
      { allowPrivateTargets: true },
      { tty: true, color: false, width: 60 },
    ),
    "✖ down  db.example.org:5432\n  no [2J route, 3.00 ms\n" +
      "\n  HTTP/1.1 502 Bad Gateway\n  Server: nginx [2J\n\n  <h1>\n   Bad\n",
    "the response of a failed check",
  );
  const tls = { type: "tls_cert", host: "shop.example.org", port: 443, server_name: null } as const;
  const details = {
    days_remaining: 74,
    not_after: "2027-02-04T12:00:00.000Z",
    subject_common_name: "shop.example.org",
    issuer_common_name: "R11",
  };
  t.equal(
    inWords(
      { ...tls, warn_days: 14, critical_days: 7, timeout: 1000 },
      {
        measurement: { ...measurement, status: "up", error: null, details },
        timestamp: Date.parse("2026-11-22T03:00:00Z"),
        skip: false,
        warnings: [],
        cause: null,
        diagnosis: null,
        certificateNotAfter: null,
        snapshot: null,
      },
      { allowPrivateTargets: true },
      { tty: false, color: false, width: 60 },
    ),
    "✔ up  certificate of shop.example.org\n  Expires in 74 days, on 4 February 2027, issued by R11, 3.00 ms\n",
  );
  t.end();
});

t.test("the phase bar has its width and every phase", (t) => {
  t.strictSame(shares([1, 1, 1], 10).toSorted(), [3, 3, 4]);
  t.strictSame(shares([0, 0], 10), [0, 0]);
  t.strictSame(shares([1000, 1, 0], 10), [9, 1, 0]);
  let seed = 7;
  const random = (): number => (seed = (seed * 48_271) % 2_147_483_647) / 2_147_483_647;
  for (let round = 0; round < 500; round++) {
    const amounts = Array.from({ length: 1 + Math.floor(random() * 5) }, () =>
      random() < 0.2 ? 0 : random() ** 4 * 1000,
    );
    const width = 5 + Math.floor(random() * 100);
    const cells = shares(amounts, width);
    const total = amounts.reduce((sum, amount) => sum + amount, 0);
    if (total === 0) continue;
    const note = JSON.stringify({ amounts, width, cells });
    if (cells.reduce((sum, count) => sum + count, 0) !== width) t.fail(`the sum is the width: ${note}`);
    if (cells.some((count, at) => count > 0 !== amounts[at]! > 0)) t.fail(`shown when it took time: ${note}`);
  }
  t.end();
});

import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { checkKinds } from "@statusmesh/shared/checks";
import type { HttpCheck } from "@statusmesh/shared/checks/http";
import { programBytes } from "@statusmesh/shared/checks/patterns";
import { AppError } from "@statusmesh/shared/errors";
import { validate } from "@statusmesh/shared/schema/validate";
import { httpCheck, outcomeOf, testRunner } from "../../testing.ts";
import { compileExpectations, expectationsOf, fold } from "./http-expectations.ts";

/* What a check expects of headers and body, and that no expectation costs more than its time. */

interface Reply {
  body?: string | Buffer;
  headers?: Record<string, string | string[]>;
  status?: number;
}
let reply: Reply = {};
const server = createServer((_request, response) =>
  response.writeHead(reply.status ?? 200, { "content-type": "application/json", ...reply.headers }).end(reply.body),
);
await new Promise<void>((settle) => server.listen(0, "127.0.0.1", settle));
t.teardown(() => server.close());
const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
const runner = testRunner();

async function ask(change: Partial<HttpCheck>, to: Reply = {}) {
  reply = to;
  const { measurement, warnings, skip } = await outcomeOf(runner.run("org", { ...httpCheck(url, change) }, true));
  return { status: measurement.status, error: measurement.error, warnings, skip };
}
const json = (
  path: string,
  op: HttpCheck["expected_json"][number]["op"],
  value?: string | number | boolean | null,
) => ({
  expected_json: [value === undefined ? { path, op } : { path, op, value }],
});
const header = (name: string, op: HttpCheck["expected_headers"][number]["op"], value?: string | number) => ({
  expected_headers: [value === undefined ? { name, op } : { name, op, value }],
});

const document = {
  status: "degraded",
  queue: 10,
  free: "5",
  ok: true,
  none: null,
  tags: ["a", 7, null],
  jobs: [
    { name: "mail", late: 3 },
    { name: "sync", late: 0 },
  ],
  nested: { list: [[1]] },
};

t.test("every expectation: what meets it, and the words of what does not", async (t) => {
  const body = JSON.stringify(document);
  const headers = { "x-version": "12", "set-cookie": ["sid=hush-hush-hush", "b=2"], "x-text": "Hello World" };
  const cases: [Partial<HttpCheck>, string | null][] = [
    [{ expected_body_absent: "Exception" }, null],
    [{ expected_body_absent: "sync" }, 'the body contains "sync"'],
    [{ expected_body_contains: "MAIL", body_case_insensitive: true }, null],
    [{ expected_body_contains: "MAIL" }, 'the body does not contain "MAIL"'],
    [{ expected_body_absent: "MAIL", body_case_insensitive: true }, 'the body contains "MAIL"'],
    [{ expected_body_matches: 'status":"\\w+"' }, null],
    [{ expected_body_matches: "(?i)STATUS" }, null],
    [{ expected_body_matches: "^ok$" }, 'the body does not match "^ok$"'],
    [{ expected_body_not_matches: "err(or)?" }, null],
    [{ expected_body_not_matches: "sy[mn]c" }, 'the body matches "sy[mn]c"'],
    [json("$.status", "eq", "degraded"), null],
    [json("$.status", "eq", "ok"), '$.status is "degraded", expected "ok"'],
    [json("$.status", "ne", "ok"), null],
    [json("$.status", "ne", "degraded"), '$.status is "degraded", expected another value'],
    [json("$.queue", "eq", 1e1), null],
    [json("$.free", "eq", 5), '$.free is "5", expected 5'],
    [json("$.free", "le", 5), null],
    [json("$.queue", "lt", 10), "$.queue is 10, expected less than 10"],
    [json("$.queue", "ge", 10), null],
    [json("$.queue", "gt", 10), "$.queue is 10, expected more than 10"],
    [json("$.queue", "le", 9), "$.queue is 10, expected at most 9"],
    [json("$.status", "ge", 1), '$.status is "degraded", expected at least 1'],
    [json("$.ok", "eq", true), null],
    [json("$.none", "eq", null), null],
    [json("$.none", "exists"), null],
    [json("$.tags", "contains", 7), null],
    [json("$.tags", "contains", null), null],
    [json("$.tags", "contains", "7"), '$.tags is an array of 3, expected one that contains "7"'],
    [json("$.status", "contains", "grad"), null],
    [json("$.status", "matches", "^de"), null],
    [json("$.status", "matches", "^ok"), '$.status is "degraded", expected one that matches "^ok"'],
    [json("$.jobs[*].late", "eq", 0), null],
    [json("$.jobs[*].late", "gt", 5), "$.jobs[*].late is 3 and 1 more, expected more than 5"],
    [json("$.jobs[?@.late > 2].name", "eq", "mail"), null],
    [json("$.jobs[?match(@.name, 's.*')].late", "eq", 0), null],
    [json("$.jobs[?search(@.name, 'y.c')].late", "eq", 0), null],
    [
      json("$.jobs[?match(@.name, 'y.c')].late", "eq", 0),
      "$.jobs[?match(@.name, 'y.c')].late selects nothing, expected 0",
    ],
    [json("$..list[0][0]", "eq", 1), null],
    [json("$.absent", "absent"), null],
    [json("$.status", "absent"), '$.status is "degraded", expected none'],
    [json("$.absent", "exists"), "$.absent selects nothing, expected a value"],
    [json("$.nested", "eq", "x"), '$.nested is an object, expected "x"'],
    [header("content-type", "contains", "json"), null],
    [header("X-Version", "ge", 12), null],
    [header("X-Version", "eq", 12), null],
    [header("X-Version", "gt", 12), 'header X-Version is "12", expected more than 12'],
    [header("x-text", "matches", "^Hello"), null],
    [header("x-text", "eq", "hello world"), 'header x-text is "Hello World", expected "hello world"'],
    [header("set-cookie", "contains", "b=2"), null],
    [header("set-cookie", "eq", "c=3"), 'header set-cookie is *** and 1 more, expected "c=3"'],
    [header("x-missing", "exists"), "header x-missing is absent, expected a value"],
    [header("x-missing", "ne", "x"), "header x-missing is absent, expected another value"],
    [header("x-missing", "absent"), null],
    [header("x-text", "absent"), 'header x-text is "Hello World", expected none'],
  ];
  for (const [change, error] of cases) {
    validate(checkKinds.http.schema, httpCheck(url, change));
    const found = await ask(change, { body, headers });
    t.strictSame([found.status, found.error], [error === null ? "up" : "down", error], JSON.stringify(change));
  }
});

t.test("the first unmet expectation decides, in the order of the document", async (t) => {
  const all: Partial<HttpCheck> = {
    ...header("x-a", "exists"),
    expected_body_contains: "A",
    expected_body_absent: "B",
    expected_body_matches: "C",
    expected_body_not_matches: "D",
    ...json("$.e", "exists"),
    down_above_ms: 1,
  };
  const steps: [Reply, string][] = [
    [{ status: 500, body: "BD" }, "expected status 200-299, got 500"],
    [{ body: "BD" }, "header x-a is absent, expected a value"],
    [{ body: "BD", headers: { "x-a": "1" } }, 'the body does not contain "A"'],
    [{ body: "ABD", headers: { "x-a": "1" } }, 'the body contains "B"'],
    [{ body: "AD", headers: { "x-a": "1" } }, 'the body does not match "C"'],
    [{ body: "ACD", headers: { "x-a": "1" } }, 'the body matches "D"'],
    [{ body: "AC", headers: { "x-a": "1" } }, "the body is not JSON (application/json)"],
    [{ body: '["AC"]', headers: { "x-a": "1" } }, "$.e selects nothing, expected a value"],
  ];
  for (const [to, error] of steps) matchObject(t, await ask(all, to), { status: "down", error }, error);
  matchObject(t, await ask({ expected_body_absent: "B" }, { status: 503, body: "B" }), {
    status: "degraded",
    error: /^rate-limited/,
  });
});

t.test("a slow response is degraded, or down", async (t) => {
  const slow = createServer((_request, response) => setTimeout(() => response.end("ok"), 60));
  await new Promise<void>((settle) => slow.listen(0, "127.0.0.1", settle));
  t.teardown(() => slow.close());
  const at = `http://127.0.0.1:${(slow.address() as AddressInfo).port}/`;
  for (const [change, status, error] of [
    [{ degraded_above_ms: 30 }, "degraded", /^slow: \d+ ms, limit 30 ms$/],
    [{ degraded_above_ms: 10, down_above_ms: 30 }, "down", /^slow: \d+ ms, limit 30 ms$/],
    [{ degraded_above_ms: 5000, down_above_ms: 5001 }, "up", null],
    [{ degraded_above_ms: 1, expected_body_absent: "ok" }, "down", 'the body contains "ok"'],
  ] as const) {
    const { measurement } = await outcomeOf(runner.run("org", { ...httpCheck(at, change) }));
    matchObject(t, { status: measurement.status, error: measurement.error }, { status, error });
  }
});

t.test("bodies: not JSON, nested, larger than a MiB, in Latin-1, with secrets", async (t) => {
  const any = json("$.a", "exists");
  const type = (value: string) => ({ "content-type": value });
  matchObject(t, await ask(any, { body: "<p>", headers: type("text/html; charset=utf-8") }), {
    status: "down",
    error: "the body is not JSON (text/html)",
  });
  matchObject(t, await ask(any, { body: '\ufeff{"a":1}' }), { status: "up" }, "a byte order mark");
  for (const [open, close] of [
    ["[", "]"],
    ['{"a":', "}"],
  ] as const) {
    const body = (open.repeat(100_000) + "1" + close.repeat(100_000)).padStart(1 << 20);
    const nested = await ask(json("$..a[?@.b[?@.c]]", "exists"), { body });
    matchObject(t, nested, { status: "down", error: "the body is nested too deeply" }, open);
  }
  matchObject(
    t,
    await ask(any, { body: `{"a":"${"[".repeat(1000)}"}` }),
    { status: "up" },
    "brackets in a text do not nest",
  );
  const large = { body: JSON.stringify({ a: "x".repeat(1 << 20) }) };
  matchObject(t, await ask(any, large), {
    status: "error",
    error: "the body is larger than 1 MiB, expected_json reads the first 1 MiB",
  });
  t.strictSame((await ask({ expected_body_absent: "error" }, large)).warnings, [
    "The response is larger than 1 MiB; the rest of it was not read.",
    "Only the first MiB of the body was searched for what must be absent.",
  ]);
  matchObject(t, await ask({ expected_body_matches: "nope" }, large), {
    error: 'the first MiB of the body does not match "nope"',
  });
  const latin1 = { body: Buffer.from("Grüße", "latin1"), headers: type("text/plain; charset=ISO-8859-1") };
  for (const change of [{ expected_body_contains: "Grüße" }, { expected_body_matches: "^Gr.{2}e$" }])
    matchObject(t, await ask(change, latin1), { status: "up" }, "Latin-1");
  matchObject(t, await ask({ expected_body_matches: "^Grü" }, { ...latin1, headers: type("text/plain") }), {
    status: "up",
  });

  const secret = "s3cret-of-the-check";
  matchObject(
    t,
    await ask(
      { bearer_token: secret, ...json("$.echo", "eq", "x") },
      { body: JSON.stringify({ echo: `got ${secret}` }) },
    ),
    { error: '$.echo is "got ***", expected "x"' },
    "an echoed secret is masked",
  );
  const odd = await ask(json("$.a", "eq", "x"), { body: JSON.stringify({ a: "\u0007\u202e".repeat(300) }) });
  t.match(odd.error, /^\$\.a is "(\\u[0-9a-f]{4}){33}.*…", expected "x"$/, "escaped and cut");
});

t.test("simple case folding", (t) => {
  for (const [one, other] of [
    ["STRASSE", "strasse"],
    ["ÄÖÜ", "äöü"],
    ["ΣΑΣ", "σας"],
    ["\u212a", "k"],
    ["ſ", "S"],
    ["𐐀", "𐐨"],
  ])
    t.equal(fold(one!), fold(other!), `${one} and ${other}`);
  for (const [one, other] of [
    ["ß", "ss"],
    ["İ", "i"],
    ["ﬁ", "fi"],
  ])
    t.not(fold(one!), fold(other!), `${one} and ${other}`);
  t.end();
});

/*
 * Patterns that made backtracking engines hang: OWASP's and Snyk's examples, Cloudflare (2 July 2019), Stack Overflow
 * (20 July 2016), marked, ua-parser-js, moment, Express's path-to-regexp, and Russ Cox's a?ⁿaⁿ.
 */
const catastrophic = [
  "(a+)+$",
  "([a-zA-Z]+)*$",
  "(a|aa)+$",
  "(a|a?)+$",
  "(.*a){20}$",
  "^(([a-z])+.)+[A-Z]([a-z])+$",
  "^(a?){500}a{500}$",
  "(x+x+)+y",
  "(?:(?:\"|'|\\]|\\}|\\\\|\\d|(?:nan|infinity|true|false|nu" +
    "ll|undefined|symbol|math)|`|-|\\+)+[)]*;?((?:\\s|-|~|!|\\{\\}|\\|\\||\\+)*.*(?:.*=.*)))",
  "^[\\s\\x{200c}]+|[\\s\\x{200c}]+$",
  "^(?:[a-zA-Z0-9]+[._-]?)*@example$",
  "([^\\n]*,?)*;$",
  "^\\/(?:([^\\/]+?))-(?:([^\\/]+?))\\/?$",
  "(\\pL|\\pN)*(\\pL|\\w)*(a|\\pL)*[^\\pL]{3}$",
];

/** CPU time of the main thread, ms: what it does at once takes at most as much, on a loaded machine too. */
const schedule = `/proc/self/task/${process.pid}/schedstat`;
const mainThreadMs = (): number =>
  existsSync(schedule)
    ? Number(readFileSync(schedule, "utf8").split(" ")[0]) / 1e6
    : performance.eventLoopUtilization().active;

/** Judges a response of a million characters with a slow pattern, and stops its own process where that begins. */
const judgeAndStop = `
  import { writeSync } from "node:fs";
  const [judging, pattern] = process.argv.slice(1);
  const { judgeInThread } = await import(judging);
  const none = {
    expected_headers: [], expected_body_contains: null, expected_body_absent: null, body_case_insensitive: false,
    expected_body_matches: null, expected_body_not_matches: null, expected_json: [],
  };
  const received = { headers: [], body: Buffer.alloc(1 << 20, "a"), charset: "utf8", cut: false, contentType: "" };
  const judge = (expectations, signal, onPhase) =>
    judgeInThread({ expectations: { ...none, ...expectations }, received }, { owner: "org", signal, onPhase });
  // The thread starts.
  await judge({}, AbortSignal.timeout(60_000), () => {});
  const phases = [];
  const outcome = await judge({ expected_body_matches: pattern }, AbortSignal.timeout(50), (phase) => {
    phases.push(phase);
    if (phase !== "text") return;
    writeSync(1, "stops\\n");
    process.kill(process.pid, "SIGSTOP");
  });
  writeSync(1, JSON.stringify([outcome, ...phases]));
  process.exit();`;

t.test("programs of patterns are bounded by their memory, however many checks have one", (t) => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const received = { headers: [], body: Buffer.from("bbbb7"), charset: "utf8", cut: false, contentType: "" } as const;
  const judges = (from: number, to: number) =>
    Array.from({ length: to - from }, (_, n) =>
      compileExpectations(
        expectationsOf(
          httpCheck("http://a.example", {
            expected_body_matches: `(a?){480}bbbb${from + n}`,
            expected_json: [{ path: `$.${"a.".repeat(200)}b${from + n}`, op: "absent" }],
          }),
        ),
      ),
    );
  const first = judges(0, 10);
  for (const one of first) one.judge(received);
  collect();
  const before = process.memoryUsage().heapUsed;
  // 96 MB of programs and 10 MB of paths.
  const all = [...first, ...judges(10, 250)];
  const verdicts = all.map((one) => one.judge(received)?.before.includes("does not match") === true);
  collect();
  t.ok(process.memoryUsage().heapUsed - before < 50e6, "the heap grows by less than half of it");
  t.ok(programBytes() <= 32 * 1024 * 1024);
  t.same(
    verdicts,
    Array.from({ length: 250 }, (_, n) => n !== 7),
    "evicted ones are compiled again",
  );
  t.end();
});

t.test("a thread that got no processor time has judged nothing", async (t) => {
  const judging = new URL("./judging.js", import.meta.url).href;
  const args = ["--input-type=module", "-e", judgeAndStop, judging, "^(a?){500}a{500}$"];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  t.teardown(() => child.kill("SIGKILL"));
  let said = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (said += text));
  await once(child.stdout, "data");
  // Once is too early where the process has said that it stops, and has not stopped yet.
  const waking = setInterval(() => child.kill("SIGCONT"), 1000);
  await once(child.stdout, "end");
  clearInterval(waking);
  const wanted = existsSync(schedule) ? ["busy", "text", "starved"] : ["overdue", "text"];
  t.same(said.split("\n"), ["stops", JSON.stringify(wanted)]);
});

t.test("no pattern, path or body holds the agent", async (t) => {
  const text = "a".repeat((1 << 20) - 4) + "!";
  const wide = JSON.stringify(Array.from({ length: 60_000 }, (_, n) => ({ n, a: "aaaaaaaaaaaa!" }))).slice(0, 1 << 20);
  const list = `${wide.slice(0, wide.lastIndexOf("},") + 1)}]`;
  const seconds: number[] = [];
  const busy: number[] = [];
  let beats = 0;
  const others = setInterval(async () => {
    const { measurement } = await outcomeOf(
      runner.run("other", { type: "tcp", host: "127.0.0.1", port, timeout: 5000 }),
    );
    if (measurement.status === "up") beats++;
  }, 200);
  const { port } = server.address() as AddressInfo;
  const timed = async (change: Partial<HttpCheck>, body: string, what: string, expected: object) => {
    const began = performance.now();
    const before = mainThreadMs();
    let found = await ask({ timeout: 8000, ...change }, { body });
    seconds.push((performance.now() - began) / 1000);
    // On a loaded machine, which is no answer about the response.
    for (let n = 0; n < 5 && /had no time to judge/.test(found.error ?? ""); n++)
      found = await ask({ timeout: 8000, ...change }, { body });
    busy.push(mainThreadMs() - before);
    matchObject(t, found, { skip: false, ...expected }, what);
  };
  await timed({ expected_body_matches: "warm" }, text, "warm", {});
  busy.length = 0;
  for (let n = 0; n < 3; n++) await timed({ expected_body_contains: "absent" }, text, "plain", { status: "down" });
  // A check without patterns reads the same body; slower on a loaded machine.
  const allowedMs = Math.max(50, 4 * Math.max(...busy.splice(0)));
  for (const pattern of catastrophic) {
    await timed({ expected_body_matches: pattern }, text, pattern, { status: /up|down/ });
    await timed(json(`$[?search(@.a, ${JSON.stringify(pattern)})].n`, "lt", 0), list, `search ${pattern}`, {
      error: /selects (too much$|nothing)/,
    });
  }
  const paths = ["$..*", "$..[?@..n]", "$[?@..[?@..[?@..a]]]", "$[*]['n','a','n','a']", "$..[::1]"];
  for (const path of paths)
    await timed(json(path, "eq", -1), list, path, { status: "error", error: /the path selects too much$/ });
  const tiny = JSON.stringify(Array.from({ length: 500 }, () => Array(20).fill(0)));
  await timed(json("$[?count($[*][*]) > 0]", "eq", 1), tiny, "a small body, a dear path", {
    error: /selects too much$/,
  });
  await timed(
    { timeout: 1500, ...json("$[?@[?count($..*) > 1]]", "eq", 1) },
    `[${Array(40).fill(tiny).join()}]`,
    "the deadline of the check",
    { status: "error", error: /the path selects too much$/ },
  );
  clearInterval(others);
  t.ok(Math.max(...seconds) < 8, `the slowest took ${Math.max(...seconds).toFixed(1)} s`);
  t.ok(beats > 5, `other checks ran meanwhile: ${beats}`);
  // The test's own server, and the other checks, are in it.
  const longest = Math.max(...busy);
  t.ok(longest < allowedMs, `${longest.toFixed(1)} ms of the main thread at most, of ${allowedMs.toFixed(1)} ms`);
});

t.test("a pattern or path that cannot be used is refused with its position", (t) => {
  const refusal = (change: Partial<HttpCheck>): object => {
    try {
      checkKinds.http.rules(validate(checkKinds.http.schema, httpCheck(url, change)));
      return {};
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
      return { code: error.code, field: error.field, message: error.message };
    }
  };
  const cases: [Partial<HttpCheck>, string, string, RegExp][] = [
    [
      { expected_body_matches: "a(b" },
      "INVALID_PATTERN",
      "/expected_body_matches",
      /missing closing \), at character 1: a\(b/,
    ],
    [
      { expected_body_not_matches: "ab[z-a]" },
      "INVALID_PATTERN",
      "/expected_body_not_matches",
      /range, at character 4/,
    ],
    [{ expected_body_matches: "(?=x)" }, "INVALID_PATTERN", "/expected_body_matches", /look-around is not supported/],
    [{ expected_body_matches: "((a{100}){100}){100}" }, "INVALID_PATTERN", "/expected_body_matches", /too large/],
    [
      { expected_body_matches: `(${"[a-z]b".repeat(60)}){999}` },
      "INVALID_PATTERN",
      "/expected_body_matches",
      /too large/,
    ],
    [{ expected_body_matches: "\\pL".repeat(130) }, "INVALID_PATTERN", "/expected_body_matches", /too large/],
    [
      {
        expected_body_matches: "(a?){400}b",
        expected_body_not_matches: "(a?){400}c",
        expected_json: [{ path: "$", op: "matches", value: "(a?){400}d" }],
      },
      "INVALID_PATTERN",
      "/expected_body_not_matches",
      /patterns of the check are too large together/,
    ],
    [{ expected_body_matches: "" }, "INVALID_PATTERN", "/expected_body_matches", /at least 1 character/],
    [{ expected_body_absent: "" }, "INVALID_BODY", "/expected_body_absent", /at least 1 character/],
    [json("status", "exists"), "INVALID_PATTERN", "/expected_json/0/path", /expected '\$', found 's', at character 1/],
    [
      json("$.a[", "exists"),
      "INVALID_PATTERN",
      "/expected_json/0/path",
      /unclosed bracketed selection, at character 5/,
    ],
    [json("$.", "exists"), "INVALID_PATTERN", "/expected_json/0/path", /unexpected end/],
    [json("$[?search(@.a, 'b(')]", "exists"), "INVALID_PATTERN", "/expected_json/0/path", /missing closing \)/],
    [json("$.a", "matches", "("), "INVALID_PATTERN", "/expected_json/0/value", /missing closing/],
    [json("$.a", "eq"), "INVALID_EXPECTATION", "/expected_json/0/value", /needs a value/],
    [json("$.a", "exists", 1), "INVALID_EXPECTATION", "/expected_json/0/value", /takes no value/],
    [json("$.a", "lt", "5"), "INVALID_EXPECTATION", "/expected_json/0/value", /compares numbers/],
    [json("$.a", "contains", ""), "INVALID_EXPECTATION", "/expected_json/0/value", /not empty/],
    [json("$.a", "like" as "eq", 1), "INVALID_EXPECTATION", "/expected_json/0/op", /must be one of eq, ne/],
    [
      { expected_json: Array.from({ length: 11 }, () => ({ path: "$", op: "exists" as const })) },
      "INVALID_EXPECTATION",
      "/expected_json",
      /at most 10/,
    ],
    [header("a b", "exists"), "INVALID_HTTP_HEADER", "/expected_headers/0/name", /header name/],
    [header("a", "contains", 1), "INVALID_EXPECTATION", "/expected_headers/0/value", /takes a text/],
    [{ degraded_above_ms: 0 }, "INVALID_THRESHOLD", "/degraded_above_ms", /at least 1/],
    [{ degraded_above_ms: 5001 }, "INVALID_THRESHOLD", "/degraded_above_ms", /at most the timeout \(5000\)/],
    [{ degraded_above_ms: 9, down_above_ms: 9 }, "INVALID_THRESHOLD", "/down_above_ms", /must be more than/],
  ];
  for (const [change, code, field, message] of cases)
    matchObject(t, refusal(change), { code, field, message }, JSON.stringify(change).slice(0, 80));
  t.end();
});

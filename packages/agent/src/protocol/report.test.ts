import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import t, { type Test } from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { allAbilities } from "@statusmesh/shared/checks/abilities";
import type {
  AgentResult,
  PullReply,
  PullRequest,
  ResultsReply,
  ResultsRequest,
  RunReply,
} from "@statusmesh/shared/protocol/agent-protocol";
import { backoffMs, connectApi } from "./api.ts";
import { correctedClock } from "../clock.ts";
import { Puller } from "./pull.ts";
import { Repetition } from "./repetition.ts";
import { Reporter } from "./report.ts";
import { MemorySpool } from "../spool/spool.ts";
import { Stats } from "../telemetry/stats.ts";

const id = (n: number): string => `00000000-0000-7000-8000-${String(n).padStart(12, "0")}`;
const measurement = {
  status: "up" as const,
  error: null,
  http_status: null,
  response_size: null,
  dns_ms: null,
  connect_ms: 1,
  tls_ms: null,
  ttfb_ms: null,
  total_ms: 1,
};
const result = (n: number): { result: AgentResult } => ({
  result: { target_id: id(n), scheduled_at: n, timestamp: n, skip: false, ...measurement },
});
const receipt: ResultsReply = {
  stored: 1,
  duplicates: 0,
  dropped_future: 0,
  dropped_unassigned: 0,
  dropped_off_schedule: 0,
  rechecks: [],
};

interface Answer {
  status?: number;
  headers?: Record<string, string>;
  body: unknown;
}

interface Request {
  path: string | undefined;
  headers: IncomingHttpHeaders;
  body: unknown;
}

/** A control plane that answers as the test says. */
async function controlPlane(t: Test, answer: (request: Request) => Answer | Promise<Answer>) {
  const requests: Request[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const seen = {
        path: request.url,
        headers: request.headers,
        body: JSON.parse(Buffer.concat(chunks).toString()) as unknown,
      };
      requests.push(seen);
      void Promise.resolve(answer(seen)).then(({ status = 200, headers = {}, body }) =>
        response.writeHead(status, headers).end(typeof body === "string" ? body : JSON.stringify(body)),
      );
    });
  });
  await new Promise<void>((settle) => server.listen(0, "127.0.0.1", settle));
  const api = connectApi(
    `http://127.0.0.1:${(server.address() as AddressInfo).port}/base/`,
    "sm_agent_test",
    "StatusMesh/1.2.3",
  );
  t.teardown(async () => {
    await api.close();
    server.closeAllConnections();
    server.close();
  });
  return { api, requests };
}

async function until(condition: () => boolean, what: string): Promise<void> {
  for (const deadline = performance.now() + 90_000; performance.now() < deadline;) {
    if (condition()) return;
    await new Promise((settle) => setTimeout(settle, 5));
  }
  throw new Error(`never: ${what}`);
}

async function reporting(
  t: Test,
  answer: (body: ResultsRequest, n: number) => Answer | Promise<Answer>,
  spool = new MemorySpool(),
) {
  let n = 0;
  const logged: { level: string; msg: string; fields?: unknown }[] = [];
  const stats = new Stats();
  const { api, requests } = await controlPlane(t, ({ body }) => answer(body as ResultsRequest, n++));
  const reporter = new Reporter({
    api,
    spool,
    clock: correctedClock(),
    log: (level, msg, fields) => logged.push({ level, msg, fields }),
    stats,
  });
  t.teardown(() => reporter.drain(0));
  return { reporter, spool, stats, logged, requests, bodies: () => requests.map(({ body }) => body as ResultsRequest) };
}

t.test("a single result is sent with token and version", async (t) => {
  const { reporter, requests, stats } = await reporting(t, () => ({ body: receipt }));
  reporter.add(result(1));
  await until(() => stats.reported === 1, "acknowledged");
  matchObject(t, requests, [
    {
      path: "/base/api/agent/results",
      headers: {
        authorization: "Bearer sm_agent_test",
        "content-type": "application/json",
        "user-agent": "StatusMesh/1.2.3",
      },
    },
  ]);
  t.strictSame(requests[0]?.body, { protocol: 1, results: [result(1).result], runs: [] });
});

t.test("results are batched, at most 1,000 in a request", async (t) => {
  const { reporter, bodies, stats } = await reporting(t, () => ({ body: receipt }));
  for (let i = 0; i < 2500; i++) reporter.add(result(i));
  await until(() => stats.reported === 2500, "all acknowledged");
  t.ok(bodies().length <= 4, `${bodies().length} requests`);
  t.ok(bodies().every(({ results }) => results.length <= 1000));
  t.equal(new Set(bodies().flatMap(({ results }) => results.map((r) => r.target_id))).size, 2500);
});

t.test("an on-demand reply is sent in the same request", async (t) => {
  const { reporter, bodies, stats } = await reporting(t, () => ({ body: receipt }));
  const run: RunReply = { run_id: id(5), timestamp: 1, matched_expectations: true, warnings: [], ...measurement };
  reporter.add(result(1));
  reporter.add({ run });
  await until(() => stats.reported === 2, "acknowledged");
  t.strictSame(
    bodies().flatMap(({ runs }) => runs),
    [run],
  );
});

t.test("results stay in the spool until they are acknowledged", async (t) => {
  const troubles: Answer[] = [
    { status: 500, body: { error: { code: "INTERNAL", message: "a defect" } } },
    { status: 503, headers: { "retry-after": "1" }, body: { error: { code: "INGEST_BUSY", message: "full" } } },
    { status: 502, body: "<html>bad gateway</html>" },
  ];
  const times: number[] = [];
  const { reporter, spool, stats, logged, bodies } = await reporting(t, (_body, n) => {
    times.push(performance.now());
    return troubles[n] ?? { body: receipt };
  });
  for (let i = 0; i < 10; i++) reporter.add(result(i));
  await until(() => stats.reported === 10, "acknowledged in the end");
  t.equal(bodies().length, 4);
  t.strictSame(bodies()[3]?.results, bodies()[0]?.results, "the same results in the same order");
  t.ok((times[2] ?? 0) - (times[1] ?? 0) >= 950, "Retry-After is kept");
  t.equal(spool.waiting, 0);
  t.equal(stats.dropped, 0);
  t.equal(logged.filter(({ level }) => level === "info").length, 1, "and it says when it is over");
});

t.test("a 200 without a valid receipt acknowledges nothing", async (t) => {
  const { reporter, spool, stats, logged } = await reporting(t, () => ({ body: "<html>Welcome to the hotel</html>" }));
  reporter.add(result(1));
  await until(() => stats.reportFailures === 1 && spool.waiting === 1, "given back");
  matchObject(t, logged, [{ level: "error", msg: "results cannot be reported and are kept (the answer is not JSON)" }]);
});

t.test("a revoked token keeps the spool and is logged once", async (t) => {
  const { reporter, spool, stats, logged } = await reporting(t, () => ({
    status: 401,
    body: { error: { code: "UNAUTHENTICATED", message: "The token is not valid." } },
  }));
  reporter.add(result(1));
  await until(() => stats.reportFailures === 1, "refused");
  reporter.add(result(2));
  await new Promise((settle) => setTimeout(settle, 300));
  t.equal(stats.reportFailures, 1, "not tried again at once");
  t.equal(spool.waiting, 2);
  matchObject(t, logged, [
    { level: "error", msg: /^results cannot be reported and are kept \(status 401: The token is not valid/ },
  ]);
});

t.test("routine results wait up to a second, or until an urgent one", async (t) => {
  const { reporter, stats, bodies } = await reporting(t, () => ({ body: receipt }));
  reporter.add(result(0));
  await until(() => stats.reported === 1, "the first result of a target is urgent");
  const added = performance.now();
  for (let n = 1; n <= 20; n++) reporter.add(result(n), true);
  await until(() => stats.reported === 21, "no later than after a second");
  t.ok(performance.now() - added > 900, "not at once");
  t.equal(bodies().length, 2, "and together");
  // The best of several rounds, because a loaded machine may be slow in any of them.
  let best = Infinity;
  let rounds = 0;
  for (; best >= 700 && rounds < 10; rounds++) {
    const [from, before] = [100 * (rounds + 1), stats.reported];
    for (let n = from; n < from + 20; n++) reporter.add(result(n), true);
    const urgent = performance.now();
    reporter.add(result(from + 20));
    await until(() => stats.reported === before + 21, "all at once");
    best = Math.min(best, performance.now() - urgent);
  }
  t.ok(best < 700, `an urgent result took ${Math.round(best)} ms`);
  t.equal(bodies().length, 2 + rounds);
});

t.test("repetition of results", (t) => {
  const repetition = new Repetition();
  const [a, b] = [{}, {}];
  const seen = (check: object, statuses: string) =>
    [...statuses].map((letter) =>
      repetition.notes(check, letter === "P" ? "up" : letter === "F" ? "down" : "error") ? "-" : "!",
    );
  t.equal(seen(a, "PPPFPP").join(""), "!--!!-");
  t.equal(seen(b, "P").join(""), "!", "each check by itself");
  t.equal(seen(a, "FFFFFFFFFFFF").join(""), "!!!!!!!!!!--", "failing runs that may confirm an incident are urgent");
  t.equal(seen(a, "EF").join(""), "!!");
  t.end();
});

t.test("the first response of a failing streak is captured, and one every ten minutes", (t) => {
  const repetition = new Repetition();
  const check = {};
  const fails = (status: "down" | "degraded", slot: number) => {
    repetition.notes(check, status);
    return repetition.captures(check, slot);
  };
  repetition.notes(check, "down");
  t.ok(fails("down", 1000), "the first run had no response");
  t.notOk(fails("down", 2000));
  t.notOk(fails("degraded", 3000), "another failing status is the same streak");
  t.notOk(fails("down", 600_999));
  t.ok(fails("down", 601_000));
  repetition.notes(check, "up");
  t.ok(fails("down", 602_000), "a new streak");
  t.end();
});

t.test("one rejected result does not block the others", async (t) => {
  const bad = new Set([id(17), id(600)]);
  const { reporter, spool, stats, logged, bodies } = await reporting(t, ({ results }) =>
    results.some((r) => bad.has(r.target_id))
      ? { status: 400, body: { error: { code: "INVALID_BODY", message: "no" } } }
      : { body: receipt },
  );
  for (let i = 0; i < 1000; i++) reporter.add(result(i));
  await until(() => stats.reported === 998 && stats.dropped === 2, "all but two arrive");
  t.equal(spool.waiting, 0);
  t.strictSame(
    logged
      .filter(({ msg }) => msg.includes("dropped"))
      .map(({ fields }) => (fields as { target_id: string }).target_id)
      .sort(),
    [...bad].sort(),
  );
  t.ok(bodies().length < 80, `${bodies().length} requests`);
});

t.test("a stop sends the remaining results within a time limit", async (t) => {
  const good = await reporting(t, () => ({ body: receipt }));
  for (let i = 0; i < 1500; i++) good.reporter.add(result(i));
  await good.reporter.drain(3000);
  t.equal(good.stats.reported, 1500);

  const hanging = await reporting(t, () => new Promise(() => undefined));
  hanging.reporter.add(result(1));
  const asked = performance.now();
  await hanging.reporter.drain(200);
  t.ok(performance.now() - asked < 20_000);
  const empty = await reporting(t, () => ({ body: receipt }));
  await empty.reporter.drain(3000);
  t.equal(empty.requests.length, 0);
});

t.test("fresh results do not wait behind the backlog", async (t) => {
  let away = true;
  const order: number[] = [];
  const spool = new MemorySpool(100_000, 50);
  const { reporter, stats } = await reporting(
    t,
    async ({ results }) => {
      if (away) return { status: 503, headers: { "retry-after": "0" }, body: {} };
      order.push(...results.map((r) => r.scheduled_at));
      await new Promise((settle) => setTimeout(settle, 20));
      return { body: receipt };
    },
    spool,
  );
  for (let i = 0; i < 20_000; i++) reporter.add(result(i));
  await until(() => stats.reportFailures > 2, "an outage");
  away = false;
  for (let i = 20_000; i < 20_010; i++) {
    await new Promise((settle) => setTimeout(settle, 10));
    reporter.add(result(i));
  }
  await until(() => stats.reported === 20_010, "everything");
  t.equal(new Set(order).size, 20_010);
  t.ok(order.indexOf(20_009) < 15_000, `the last result was the ${order.indexOf(20_009)}th to arrive`);
  const old = order.filter((n) => n < 19_000);
  t.strictSame(
    old,
    old.toSorted((a, b) => a - b),
    "and the backlog comes in its order",
  );
});

t.test("when every result is rejected none is dropped", async (t) => {
  const { reporter, spool, stats, logged } = await reporting(t, () => ({
    status: 400,
    body: { error: { code: "UNKNOWN_FIELD", message: "no such field" } },
  }));
  for (let i = 0; i < 500; i++) reporter.add(result(i));
  await until(() => logged.length >= 1 && spool.waiting === 500, "given back");
  t.match(
    logged[0]?.msg,
    /results cannot be reported and are kept \(20 results in a row are refused: status 400: no such field\)/,
  );
  t.equal(stats.dropped, 0);
});

t.test("the spool in memory is bounded and drops the oldest", async (t) => {
  const spool = new MemorySpool(5000, 100);
  for (let i = 0; i < 6000; i++) spool.append(result(i));
  t.equal(spool.waiting, 5000);
  t.equal(spool.backlog, 4900);
  t.equal(spool.dropped, 1000);
  const batch = await spool.take(1000, "backlog");
  t.strictSame(batch?.records[0], result(1000));
  t.strictSame((await spool.take(1, "fresh"))?.records[0], result(5900), "news has a lane of its own");
  for (let i = 0; i < 501; i++) spool.append(result(7000 + i));
  batch?.release();
  t.equal(spool.waiting, 5000, "a batch that comes back does not make it larger");
  t.equal(spool.dropped, 1500);
  t.strictSame((await spool.take(1, "backlog"))?.records[0], result(1500), "the oldest come out first again");
  for (const lane of ["backlog", "fresh"] as const) await (await spool.take(10_000, lane))?.ack();
  t.equal(spool.waiting, 0);
  t.equal(await spool.take(1, "fresh"), null);
});

const reply = (change: Partial<PullReply> = {}): PullReply => ({
  protocol: 1,
  region: "default",
  server_time: Date.now(),
  cursor: "c",
  jitter_pct: 10,
  per_host_max_inflight: 2,
  rdap_max_inflight: 1,
  full: false,
  checks: [],
  drop: [],
  runs: [],
  rechecks: [],
  ...change,
});

async function pulling(
  t: Test,
  answer: (body: PullRequest, n: number, token: string) => Answer | Promise<Answer>,
  newToken?: () => string | null,
  load?: () => { waiting: number; lag_ms: number },
) {
  let n = 0;
  const applied: PullReply[] = [];
  let refusals = 0;
  const logged: string[] = [];
  const clock = correctedClock();
  const { api, requests } = await controlPlane(t, ({ body, headers }) =>
    answer(body as PullRequest, n++, String(headers.authorization).replace("Bearer ", "")),
  );
  const puller = new Puller({
    api,
    clock,
    log: (_level, msg) => logged.push(msg),
    version: "1.2.3",
    kinds: () => allAbilities,
    capacity: () => 7,
    apply: (r) => void applied.push(r),
    refused: () => refusals++,
    ...(load === undefined ? {} : { load }),
    ...(newToken === undefined ? {} : { newToken, renewed: (token: string) => api.useToken(token) }),
  });
  const done = puller.run();
  const stop = async (): Promise<void> => {
    puller.stop();
    await done;
  };
  t.teardown(stop);
  return { applied, logged, clock, requests, stop, puller, api, refusals: () => refusals };
}

t.test("pulls send the cursor of the last applied reply", async (t) => {
  const { applied, clock, requests, stop } = await pulling(t, (_body, n) =>
    n === 0
      ? { body: reply({ full: true, cursor: "one", server_time: Date.now() + 3_600_000 }) }
      : n === 1
        ? { body: reply({ drop: [id(1)], cursor: "two", server_time: Date.now() + 3_600_000 }) }
        : new Promise(() => undefined),
  );
  await until(() => requests.length >= 3, "three polls");
  t.strictSame(
    requests.map(({ body }) => body),
    [null, "one", "two"].map((cursor) => ({
      protocol: 1,
      agent_version: "1.2.3",
      kinds: allAbilities,
      cursor,
      capacity: 7,
    })),
  );
  t.equal(applied.length, 2);
  t.ok(Math.abs(clock.offsetMs() - 3_600_000) < 60_000, "the clock is the control plane's");
  await stop();
  t.pass("a stop ends the poll that is held");
});

t.test("each pull reports the load", async (t) => {
  const { requests } = await pulling(
    t,
    (_body, n) => (n >= 1 ? new Promise(() => undefined) : { body: reply({ full: true }) }),
    undefined,
    () => ({ waiting: 3, lag_ms: 4 }),
  );
  await until(() => requests.length >= 2, "two polls");
  for (const { body } of requests) matchObject(t, body, { load: { waiting: 3, lag_ms: 4 } });
});

t.test("recovery after an outage of the control plane", async (t) => {
  const { applied, logged, requests } = await pulling(t, (_body, n) =>
    n < 2
      ? { status: 503, body: "starting" }
      : n === 2
        ? { body: reply({ full: true, cursor: "x" }) }
        : new Promise(() => undefined),
  );
  await until(() => applied.length >= 1, "applied");
  t.equal(requests.length >= 3, true);
  matchObject(
    t,
    logged,
    [
      /^the control plane cannot be reached; checks continue, results are kept \(status 503\)$/,
      "the control plane answers again",
    ],
    "said once when it begins, once when it ends",
  );
});

t.test("permanent errors are logged once and retried slowly", async (t) => {
  const cases: [string, Answer, RegExp][] = [
    [
      "a revoked token",
      { status: 401, body: { error: { code: "UNAUTHENTICATED", message: "no" } } },
      /does not accept this agent's token.*status 401: no/,
    ],
    [
      "another protocol, said by the control plane",
      { status: 409, body: { error: { code: "AGENT_PROTOCOL_MISMATCH", message: "version 2 is spoken here" } } },
      /another version of the agent protocol.*version 2 is spoken here/,
    ],
    [
      "another protocol, seen in the answer",
      { body: { protocol: 2, anything: true } },
      /another version of the agent protocol.*it speaks version 2, this agent 1/,
    ],
    ["not a control plane", { body: "<html></html>" }, /not a StatusMesh control plane/],
    [
      "an answer that lacks something",
      { body: { ...reply(), checks: undefined } },
      /not a StatusMesh control plane.*not a pull reply/,
    ],
    ["no such path", { status: 404, body: "nothing here" }, /not a StatusMesh control plane.*status 404/],
  ];
  for (const [what, answer, words] of cases) {
    const { logged, requests, applied, stop, refusals } = await pulling(t, () => answer);
    await until(() => logged.length >= 1, what);
    await new Promise((settle) => setTimeout(settle, 100));
    matchObject(t, logged, [words], what);
    t.equal(requests.length, 1, "not tried again at once");
    t.equal(applied.length, 0);
    t.equal(refusals(), what === "a revoked token" ? 1 : 0, "only a token that is refused ends the checks");
    await stop();
  }
});

t.test("a new token replaces a refused one; results use it once its region is known", async (t) => {
  let inFile: string | null = "sm_agent_test";
  const tokens: string[] = [];
  const { applied, logged, api, refusals } = await pulling(
    t,
    (_body, _n, token) => {
      tokens.push(token);
      if (token !== "sm_agent_new") return { status: 401, body: { error: { code: "UNAUTHENTICATED", message: "no" } } };
      return applied.length === 0 ? { body: reply({ full: true }) } : new Promise(() => undefined);
    },
    () => inFile,
  );
  await until(() => refusals() === 1, "the refusal");
  for (const unready of [null, "sm_agent_other"]) {
    inFile = unready;
    await new Promise((settle) => setTimeout(settle, 2500));
  }
  inFile = "sm_agent_new";
  await until(() => tokens.length >= 4, "the poll after that");
  t.strictSame(tokens, ["sm_agent_test", "sm_agent_other", "sm_agent_new", "sm_agent_new"], "and none is tried twice");
  matchObject(t, logged, [/does not accept this agent's token/, "the control plane answers again"]);
  const results = api.post("/api/agent/results", {}, { timeoutMs: 1000, signal: AbortSignal.timeout(1000) });
  await until(() => tokens.length >= 5, "a request of the reporter's");
  t.equal(tokens[4], "sm_agent_new");
  await results.catch(() => null);
});

t.test("the deregistration is sent once, with a short time limit", async (t) => {
  const { requests, puller, stop } = await pulling(t, () => new Promise(() => undefined));
  await until(() => requests.length >= 1, "a poll that is held");
  await stop();
  const started = performance.now();
  await puller.leave();
  t.ok(performance.now() - started < 60_000, "also when nobody answers");
  t.strictSame(
    requests.slice(1).map(({ body }) => body),
    [{ protocol: 1, agent_version: "1.2.3", kinds: allAbilities, cursor: null, capacity: 0, leaving: true }],
  );
});

t.test("immediate empty replies cause no busy loop", async (t) => {
  const { requests } = await pulling(t, () => ({ body: reply() }));
  await new Promise((settle) => setTimeout(settle, 400));
  t.equal(requests.length, 1);
});

t.test("a memory spool drops results of another region", async (t) => {
  const spool = new MemorySpool();
  spool.serve("fra");
  for (let i = 0; i < 3; i++) spool.append(result(i));
  const taken = await spool.take(1, "fresh");
  spool.serve("fra");
  t.equal(spool.waiting, 2);
  spool.serve("nyc");
  taken?.release();
  t.strictSame([spool.waiting, spool.dropped], [0, 3]);
  spool.append(result(9));
  t.strictSame((await spool.take(9, "fresh"))?.records, [result(9)]);
});

t.test("backoff doubles up to its cap, with jitter", (t) => {
  t.strictSame(
    [0, 1, 2, 3, 10, 10_000].map((n) => backoffMs(n, 500, 30_000, () => 1)),
    [500, 1000, 2000, 4000, 30_000, 30_000],
  );
  t.equal(
    backoffMs(2, 500, 30_000, () => 0),
    1000,
  );
  t.end();
});

import type { ServerResponse } from "node:http";
import t, { type Test } from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { detailsOf, errorInWords } from "@statusmesh/shared/checks";
import { rdapCache } from "../rdap/cache.ts";
import {
  type Behaviour,
  good,
  rdapAnswer,
  type Registry,
  silent,
  startOfTime,
  startRegistry,
} from "../rdap/testing.ts";
import type { Outcome } from "../run/run.ts";
import { FakeClock, outcomeOf, testLookups, testRunner } from "../testing.ts";
import { judge } from "./domain-expiry.ts";

const dayMs = 86_400_000;
const check = (domain: string, change: object = {}) => ({
  type: "domain_expiry",
  domain,
  warn_days: 30,
  critical_days: 7,
  timeout: 10_000,
  ...change,
});

/** An agent's part in it, on a clock of its own, before a registry on loopback. */
async function setUp(t: Test) {
  const registry = await startRegistry(t);
  const clock = new FakeClock();
  const logged: string[] = [];
  const log = (_level: string, msg: string): void => void logged.push(msg);
  const cache = rdapCache(null, { clock, log });
  const rdap = testLookups({ clock, cache, registriesUrl: registry.listUrl });
  const runner = testRunner({ clock, rdap, log });
  const run = (domain: string, change: object = {}): Promise<Outcome> =>
    outcomeOf(runner.run("org", check(domain, change), true));
  return { registry, clock, cache, rdap, runner, run, logged };
}

t.test("the verdict follows the days that are left", (t) => {
  const at = (days: number) =>
    judge(
      { warn_days: 30, critical_days: 7 },
      "example.org",
      { expiresAt: startOfTime + days * dayMs, registrar: null, lookedUpAt: startOfTime },
      startOfTime,
    );
  for (const [days, status, left] of [
    [-400, "down", -400],
    [-0.001, "down", -1],
    [0, "down", 0],
    [6.999, "down", 6],
    [7, "degraded", 7],
    [29.999, "degraded", 29],
    [30, "up", null],
    [4000, "up", null],
  ] as const) {
    const verdict = at(days);
    t.equal(verdict.status, status, `${days} days`);
    t.strictSame(
      verdict.details,
      {
        domain: "example.org",
        days_remaining: Math.floor(days),
        expiration_date: new Date(startOfTime + days * dayMs).toISOString(),
        registrar: null,
      },
      "whatever the status",
    );
    t.equal(
      verdict.error === null ? null : (JSON.parse(verdict.error) as { days_remaining: number }).days_remaining,
      left,
      `${days} days`,
    );
  }
  const never = judge(
    { warn_days: 1, critical_days: 0 },
    "example.org",
    { expiresAt: startOfTime, registrar: null, lookedUpAt: startOfTime },
    startOfTime,
  );
  t.equal(never.status, "degraded", "a critical_days of 0 is down only past the date");
  t.end();
});

t.test("the document reads as a sentence", (t) => {
  const words = (days: number, registrar: string | null, stale: string | null = null) =>
    errorInWords(
      judge(
        { warn_days: 30, critical_days: 7 },
        "example.org",
        { expiresAt: startOfTime + days * dayMs, registrar, lookedUpAt: startOfTime - dayMs },
        startOfTime,
        stale,
      ).error ?? "",
    );
  t.equal(words(5, "Example Registrar"), "example.org expires in 5 days, on 2027-01-20 (registrar Example Registrar)");
  t.equal(words(0.5, null), "example.org expires in less than a day, on 2027-01-15");
  t.equal(words(-3, null), "example.org expired 2 days ago, on 2027-01-12");
  t.equal(
    words(5, null, "the registry of .org answered with status 500"),
    "example.org expires in 5 days, on 2027-01-20, as the registry said on 2027-01-14; now the registry of .org" +
      " answered with status 500",
  );
  for (const other of ["served_stale:", "served_stale: {}", '{"domain":"example.org"}'])
    t.equal(errorInWords(other), other, "anything else stays as it is");
  t.end();
});

t.test("a registry that answers", async (t) => {
  const { registry, run } = await setUp(t);
  const first = await run("example.org");
  t.strictSame(first.warnings, []);
  matchObject(t, first, {
    skip: false,
    measurement: {
      status: "up",
      error: null,
      http_status: null,
      response_size: null,
      dns_ms: null,
      connect_ms: null,
      tls_ms: null,
      ttfb_ms: null,
    },
  });
  t.equal(registry.requests[0]?.url, "/rdap/domain/example.org");
  t.strictSame(
    Object.fromEntries(
      Object.entries(registry.requests[0]?.headers ?? {}).filter(([name]) => !["host", "connection"].includes(name)),
    ),
    {
      accept: "application/rdap+json, application/json",
      "accept-encoding": "identity",
      "user-agent": "StatusMesh/1.2.3",
    },
    "nothing is sent that says who asks about what else",
  );

  registry.behave = (domain, response) => void response.end(JSON.stringify(rdapAnswer(domain, 29.5)));
  const soon = await run("www.soon.co.uk.");
  t.strictSame(registry.asked, ["example.org", "soon.co.uk"], "what is registered is asked about");
  t.equal(soon.measurement.status, "degraded");
  t.strictSame(JSON.parse(soon.measurement.error ?? ""), {
    domain: "soon.co.uk",
    days_remaining: 29,
    expiration_date: new Date(startOfTime + 29.5 * dayMs).toISOString(),
    registrar: "Example Registrar",
  });

  registry.behave = (domain, response) => void response.end(JSON.stringify(rdapAnswer(domain, -2, null)));
  const past = await run("bücher.org");
  t.equal(past.measurement.status, "down");
  t.strictSame(
    JSON.parse(past.measurement.error ?? ""),
    {
      domain: "xn--bcher-kva.org",
      days_remaining: -2,
      expiration_date: new Date(startOfTime - 2 * dayMs).toISOString(),
    },
    "no registrar where the registry names none",
  );

  const long = `${"R".repeat(5000)}\u0000`;
  registry.behave = (domain, response) =>
    void response.end(JSON.stringify({ ...rdapAnswer(domain, 1, long), status: ["active", "Redemption Period"] }));
  const lost = await run("lost.org");
  matchObject(
    t,
    JSON.parse(lost.measurement.error ?? ""),
    { registrar: "R".repeat(200) },
    "a text without measure does not tear the document",
  );
  t.strictSame(lost.warnings, ["The registry lists lost.org as: redemption period."]);
});

const json =
  (value: unknown): Behaviour =>
  (_domain, response) =>
    void response.end(JSON.stringify(value));
const status =
  (code: number, headers: Record<string, string> = {}): Behaviour =>
  (_domain, response) =>
    void response.writeHead(code, headers).end("<html>");
const drip = (response: ServerResponse): void => {
  response.write('{"objectClassName":');
  const timer = setInterval(() => response.write(" "), 20);
  response.on("close", () => clearInterval(timer));
};
const tooBig: Behaviour = (_domain, response) => {
  const more = (): void => {
    for (let sent = 0; sent < 10_000_000 && !response.destroyed; sent += 100_000)
      if (!response.write(" ".repeat(100_000))) return void response.once("drain", more);
    response.end();
  };
  more();
};

/**
 * What a registry may do instead of answering; none of it may take the last answer away, and each says what happened.
 */
const troubles: [string, Behaviour, RegExp][] = [
  ["404", status(404), /^the registry of \.org does not know example\.org$/],
  ["429", status(429, { "retry-after": "7" }), /^the registry of \.org rate-limits this agent \(429\)$/],
  ["500", status(500), /^the registry of \.org answered with status 500$/],
  ["503", status(503), /answered with status 503$/],
  ["a redirect without a place", status(302), /answered with status 302$/],
  ["no content", status(204), /^the registry of \.org gave no usable answer: ./],
  ["not JSON", (_domain, response) => void response.end("<html>"), /gave no usable answer: the answer is not JSON$/],
  ["not an object", json([]), /the answer is not an RDAP object$/],
  [
    "another domain",
    (_domain, response) => void response.end(JSON.stringify(rdapAnswer("example.net", 90))),
    /the answer is about example\.net$/,
  ],
  [
    "no expiry",
    (domain, response) => void response.end(JSON.stringify(rdapAnswer(domain, null))),
    /^the registry of \.org does not say when example\.org expires$/,
  ],
  [
    "an expiry that is no date",
    json({ ldhName: "example.org", events: [{ eventAction: "expiration", eventDate: "soon" }] }),
    /does not say when example\.org expires$/,
  ],
  ["strange types", json({ ldhName: 7, events: "x", entities: {}, status: [1] }), /does not say when/],
  ["10 MB", tooBig, /the answer of 127\.0\.0\.1:\d+ is larger than 1 MB$/],
  ["a connection cut", (_domain, response) => void response.socket?.destroy(), /gave no usable answer: ./],
  [
    "a redirect loop",
    (_domain, response, request) => void response.writeHead(302, { location: request.url ?? "" }).end(),
    /more than 5 redirects$/,
  ],
  [
    "a redirect away from https",
    status(301, { location: "http://registry.example/domain/example.org" }),
    /http:\/\/registry\.example is not asked: it is not https$/,
  ],
  ["a redirect to a file", status(301, { location: "file:///etc/passwd" }), /is not asked: it is not https$/],
];

t.test("a registry that does not: an error that says why, and evidence", async (t) => {
  for (const [what, behave, words] of troubles) {
    const { registry, run, logged } = await setUp(t);
    registry.behave = behave;
    const { measurement, skip } = await run("example.org");
    t.equal(measurement.status, "error", what);
    matchObject(t, measurement.error, words, what);
    t.equal(skip, what === "no expiry", what);
    t.strictSame(logged, [], `${what}: no defect`);
    await registry.until(() => registry.open.get("org") === 0);
    if (what === "a redirect loop") t.equal(registry.requests.length, 6, "the first and five redirects");
  }
});

t.test("the last answer stands in for one that does not come", async (t) => {
  for (const [what, behave] of [...troubles, ["the registry is gone", null, /./] as const]) {
    const { registry, clock, cache, run } = await setUp(t);
    cache.remember("up.org", { expiresAt: startOfTime + 90 * dayMs, registrar: null, lookedUpAt: startOfTime });
    cache.remember("degraded.org", { expiresAt: startOfTime + 20 * dayMs, registrar: "R", lookedUpAt: startOfTime });
    cache.remember("down.org", { expiresAt: startOfTime + 3 * dayMs, registrar: null, lookedUpAt: startOfTime });
    if (behave === null) registry.behaveAsList = (response) => void response.writeHead(500).end();
    else registry.behave = behave;
    await clock.pass(1000);
    const up = await run("up.org");
    matchObject(
      t,
      up,
      { skip: false, measurement: { status: "up", error: null, details: { domain: "up.org", days_remaining: 89 } } },
      what,
    );
    t.equal(up.warnings.length, 1, `${what}: a run on demand carries the warning`);
    for (const [domain, status, left] of [
      ["degraded.org", "degraded", 19],
      ["down.org", "down", 2],
    ] as const) {
      const { measurement, skip } = await run(domain);
      matchObject(t, measurement, { status, error: /^served_stale: \{/ }, `${what}: ${status}`);
      t.notOk(skip);
      matchObject(t, JSON.parse(measurement.error?.slice("served_stale: ".length) ?? ""), {
        domain,
        days_remaining: left,
        looked_up_at: new Date(startOfTime).toISOString(),
        lookup_error: /./,
      });
      t.strictSame(
        Object.keys(measurement.details ?? {}),
        ["domain", "days_remaining", "expiration_date", "registrar"],
        "the details are the same document as ever",
      );
    }
  }
});

t.test("details that no reader could take are left out, and the result stays", async (t) => {
  const { registry, run } = await setUp(t);
  registry.behave = (domain, response) => {
    const answer = rdapAnswer(domain, 12);
    const events = [{ eventAction: "expiration", eventDate: "+020000-01-01T00:00:00Z" }];
    response.end(JSON.stringify({ ...answer, events }));
  };
  matchObject(t, await run("example.org"), { measurement: { status: "up", error: null, details: null } });
});

t.test("the last answer is held against the present, and not for longer than a week", async (t) => {
  const { registry, clock, run } = await setUp(t);
  registry.behave = (domain, response) => void response.end(JSON.stringify(rdapAnswer(domain, 12)));
  matchObject(t, await run("example.org", { warn_days: 10 }), { measurement: { status: "up", error: null } });
  registry.behave = status(500);
  const at = async (days: number) => {
    await clock.pass(startOfTime + days * dayMs - clock.now());
    const { measurement, skip } = await run("example.org", { warn_days: 10, critical_days: 6 });
    t.notOk(skip);
    return measurement;
  };
  matchObject(t, await at(2), { status: "up", error: null });
  matchObject(t, await at(3), { status: "degraded", error: /^served_stale: .*"days_remaining":9,/ });
  matchObject(t, await at(7), { status: "down", error: /^served_stale: .*"days_remaining":5,/ }, "exactly a week");
  const tooOld = {
    status: "error",
    error: "the registry of .org answered with status 500; the last answer is of 2027-01-15, too old to go by",
  };
  matchObject(t, await at(7 + 1 / dayMs), tooOld, "and a moment");
  matchObject(t, await at(8), tooOld);
  registry.behave = (domain, response) => void response.end(JSON.stringify(rdapAnswer(domain, 400)));
  matchObject(t, await at(8.01), { status: "up", error: null }, "and an answer ends it");
});

t.test("a date that passes while the registry is away is down", async (t) => {
  const { registry, clock, run } = await setUp(t);
  registry.behave = (domain, response) => void response.end(JSON.stringify(rdapAnswer(domain, 2)));
  matchObject(t, (await run("example.org", { warn_days: 1, critical_days: 0 })).measurement, { status: "up" });
  registry.behave = status(404);
  await clock.pass(2 * dayMs + 1);
  matchObject(t, (await run("example.org", { warn_days: 1, critical_days: 0 })).measurement, {
    status: "down",
    error: /^served_stale: .*"days_remaining":-1,/,
  });
});

t.test("the deadline stands over everything, and leaves nothing behind", async (t) => {
  for (const [what, behave] of [
    ["silence", silent],
    ["a head and no body", (_domain, response) => void response.writeHead(200).flushHeaders()],
    ["a dripping body", (_domain, response) => drip(response)],
  ] as [string, Behaviour][]) {
    const { registry, clock, cache, run, logged } = await setUp(t);
    registry.behave = behave;
    const first = run("example.org");
    await registry.until(() => registry.open.get("org") === 1);
    await clock.pass(10_000);
    matchObject(
      t,
      await first,
      { skip: false, measurement: { status: "error", error: "the registry of .org did not answer within 10 s" } },
      what,
    );
    await registry.until(() => registry.open.get("org") === 0);

    cache.remember("example.org", { expiresAt: startOfTime + 20 * dayMs, registrar: null, lookedUpAt: startOfTime });
    const second = run("example.org");
    await registry.until(() => registry.open.get("org") === 1);
    await clock.pass(10_000);
    matchObject(
      t,
      (await second).measurement,
      { status: "degraded", error: /^served_stale: .*did not answer within 10 s/ },
      what,
    );
    await registry.until(() => registry.open.get("org") === 0);
    t.strictSame(logged, [], `${what}: no defect`);
  }
});

t.test("what this agent holds back is no evidence", async (t) => {
  const { registry, clock, runner, run } = await setUp(t);
  registry.behave = silent;
  const asked = runner.run("org", check("first.org", { timeout: 30_000 }));
  await registry.until(() => registry.open.get("org") === 1);
  const behind = run("second.org");
  await clock.pass(10_000);
  matchObject(t, await behind, {
    skip: true,
    throttled: true,
    measurement: {
      status: "error",
      error: "other lookups at the registry of .org were queued before this one, and it was not asked within 10 s",
    },
  });
  asked.abandon();
  t.equal(await asked.done, null);
  await registry.until(() => registry.open.get("org") === 0);

  registry.behave = status(429, { "retry-after": "120" });
  matchObject(t, await run("third.org"), { skip: false, measurement: { error: /\(429\)$/ } });
  registry.behave = good;
  const held = {
    skip: true,
    measurement: {
      status: "error",
      error: "the registry of .org rate-limits this agent: lookups there are paused",
    },
  };
  matchObject(t, await run("fourth.org"), held);
  matchObject(t, await run("fourth.org"), held, "which is not an answer to keep");
  await clock.pass(119_999);
  matchObject(t, await run("fourth.org"), held);
  t.strictSame(registry.asked, ["first.org", "third.org"]);
  await clock.pass(1);
  matchObject(t, await run("fourth.org"), { skip: false, measurement: { status: "up" } });
});

t.test("a top-level domain without RDAP says so, every time alike", async (t) => {
  const { registry, clock, run } = await setUp(t);
  const never = {
    skip: true,
    measurement: { status: "error", error: "the registry of .de offers no RDAP" },
    warnings: ["The registry of .de offers no RDAP: set expires_on, or the check finds nothing."],
  };
  matchObject(t, await run("example.de"), never);
  await clock.pass(3_600_000);
  matchObject(t, await run("example.de"), never);
  t.strictSame(registry.asked, []);
});

t.test("a list that cannot be fetched is evidence: without it no domain is ever looked at", async (t: Test) => {
  const { registry, clock, run }: { registry: Registry; clock: FakeClock; run: (domain: string) => Promise<Outcome> } =
    await setUp(t);
  registry.behaveAsList = (response) => void response.writeHead(503).end();
  matchObject(t, await run("example.org"), {
    skip: false,
    measurement: {
      status: "error",
      error: /^the list of registries cannot be fetched: 127\.0\.0\.1:\d+ answered with status 503$/,
    },
  });
  registry.behaveAsList = () => undefined;
  await clock.pass(60_000);
  const waiting = run("example.org");
  await registry.until(() => registry.listFetches === 2);
  await clock.pass(10_000);
  matchObject(t, await waiting, {
    skip: false,
    measurement: { status: "error", error: "the list of registries could not be read within 10 s" },
  });
});

/** `day` days after the start of time, as expires_on has it. */
const dayAt = (day: number): string => new Date(startOfTime + day * dayMs).toISOString().slice(0, 10);

t.test("expires_on counts where the registry says no date, and nowhere else", async (t) => {
  const { registry, run } = await setUp(t);
  const far = { expires_on: dayAt(400) };
  const details = (domain: string, day: number) => ({
    domain,
    days_remaining: day - 1,
    expiration_date: `${dayAt(day)}T00:00:00.000Z`,
    registrar: null,
    source: "set by hand",
  });
  const without = await run("example.de", far);
  matchObject(t, without, { skip: false, measurement: { status: "up", error: null } }, "no RDAP");
  t.strictSame(without.measurement.details, details("example.de", 400));
  t.strictSame(without.warnings, ["The registry of .de offers no RDAP: expires_on counts."]);
  matchObject(t, (await run("example.de", { expires_on: dayAt(20) })).measurement, {
    status: "degraded",
    error: /"days_remaining":19,.*"source":"set by hand"/,
  });
  const { measurement: past } = await run("example.de", { expires_on: dayAt(-3) });
  t.equal(past.status, "down");
  t.match(errorInWords(past.error ?? ""), /^example\.de expired .*, on 2027-01-12 \(set by hand\)$/);
  t.match(
    detailsOf("domain_expiry")!.inWords(past.details!, startOfTime),
    /^Expired .*, on 12 January 2027, set by hand$/,
  );

  registry.behave = (domain, response) => void response.end(JSON.stringify(rdapAnswer(domain, null)));
  t.strictSame((await run("a.org", far)).measurement.details, details("a.org", 400), "no date");
  registry.behave = (domain, response) => void response.end(JSON.stringify(rdapAnswer(domain, 3)));
  matchObject(t, (await run("b.org", far)).measurement, { status: "down", details: { days_remaining: 3 } }, "a date");
  for (const [behave, error] of [
    [status(404), "the registry of .org does not know NAME"],
    [status(500), "the registry of .org answered with status 500"],
    [json({ objectClassName: "domain", status: ["free"] }), "the registry of .org says that NAME is not registered"],
    [json({ status: "maintenance" }), "the registry of .org does not say when NAME expires"],
    [
      json({ objectClassName: "domain", events: [{ eventAction: "expiration", eventDate: "soon" }] }),
      "the registry of .org does not say when NAME expires",
    ],
  ] as const) {
    registry.behave = behave;
    const name = `n${registry.asked.length}.org`;
    matchObject(t, await run(name, far), {
      skip: false,
      measurement: { status: "error", error: error.replace("NAME", name) },
    });
  }
});

t.test("dates and states as registries write them", async (t) => {
  const { registry, run } = await setUp(t);
  const events = (...named: string[]) =>
    json({
      objectClassName: "domain",
      events: named.map((eventAction, at) => ({
        eventAction,
        eventDate: new Date(startOfTime + (50 + at) * dayMs).toISOString(),
      })),
    });
  for (const [behave, left] of [
    // As rdap.cctld.kg answers.
    [events("registration", "last changed", "Record expires"), 52],
    [events("Expiration"), 50],
    [events("last changed", "expiry date"), 51],
    [events("Record expires", "expiration"), 51],
    // As rdap.fi and auDA answer.
    [events("registration"), null],
    [events("last changed", "last update of RDAP database"), null],
    [events("reregistration", "transfer", "locked"), null],
  ] as const) {
    registry.behave = behave;
    const { measurement, skip } = await run(`d${registry.asked.length}.org`);
    const found = measurement.details as { days_remaining: number } | null;
    t.strictSame([found?.days_remaining ?? null, skip], [left, left === null]);
  }
  for (const [written, concern] of [
    ["clientHold", "client hold"],
    ["serverHold", "server hold"],
    ["client_hold", "client hold"],
    ["redemptionPeriod", "redemption period"],
    ["redemption-period", "redemption period"],
    ["pendingDelete https://icann.org/epp#pendingDelete", "pending delete"],
    ["pending restore", "pending restore"],
    ["Inactive", "inactive"],
    ["clientTransferProhibited", null],
    ["ok", null],
  ] as const) {
    registry.behave = (domain, response) =>
      void response.end(JSON.stringify({ ...rdapAnswer(domain, 90), status: [written] }));
    const domain = `s${registry.asked.length}.org`;
    const { warnings } = await run(domain);
    t.strictSame(warnings, concern === null ? [] : [`The registry lists ${domain} as: ${concern}.`], written);
  }
});

t.test("a registry that offers plain http only is asked, past the guard and with a warning", async (t) => {
  const { registry, run } = await setUp(t);
  // Resolved by the agent itself: this machine, with another name than those that mirrors may have.
  const plain = registry.origin.replace("127.0.0.1", "rdap.localhost");
  registry.services = [
    [["kg"], [`${plain}/rdap`]],
    [["org"], [`${plain}/gone`, registry.origin]],
  ];
  matchObject(t, await run("example.kg"), {
    measurement: { status: "up", details: { days_remaining: 90 } },
    warnings: ["The registry of .kg answers over plain http only: anybody on the way can change its answer."],
  });
  t.strictSame((await run("example.org")).warnings, [], "a better one is asked first");
  registry.behave = status(302, { location: `${plain.replace("rdap.", "other.")}/rdap/domain/second.kg` });
  t.match((await run("second.kg")).measurement.error, /http:\/\/other\.localhost:\d+ is not asked: it is not https$/);
  const guarded = testRunner({
    allowPrivate: false,
    rdap: testLookups({ registriesUrl: registry.listUrl, allowPrivate: false }),
  });
  t.match((await outcomeOf(guarded.run("org", check("third.kg")))).measurement.error, /address .* is blocked/);
});

t.test("a stored check of a name that its registry does not know is an error that says so", async (t) => {
  const { registry, run } = await setUp(t);
  for (const [domain, error] of [
    ["shop.uk.com", /^Names below uk\.com are registered with CentralNic, /],
    ["x.github.io", /^x\.github\.io is not registered separately/],
  ] as const)
    matchObject(t, await run(domain), { skip: false, measurement: { status: "error", error } });
  t.strictSame(registry.asked, []);
});

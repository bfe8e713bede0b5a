import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import t, { type Test } from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { registrableDomain } from "@statusmesh/shared/net/registrable-domain";
import { correctedClock } from "../clock.ts";
import { FakeClock, testLookups } from "../testing.ts";
import { type RdapCache, rdapCache } from "./cache.ts";
import { isAllowedUrl } from "./allowed-url.ts";
import type { Answer } from "./query.ts";
import { SingleFlight } from "./single-flight.ts";
import { good, rdapAnswer, type Registry, silent, startOfTime, startRegistry } from "./testing.ts";

const dayMs = 86_400_000;
const ever = (): AbortSignal => new AbortController().signal;
const quiet = (): void => undefined;

async function setUp(
  t: Test,
  options: {
    cache?: RdapCache;
    clock?: FakeClock;
    log?: (level: string, msg: string) => void;
    allowPrivate?: boolean;
  } = {},
) {
  const registry = await startRegistry(t);
  const clock = options.clock ?? new FakeClock();
  const rdap = testLookups({ clock, registriesUrl: registry.listUrl, ...options });
  const ask = (domain: string, signal = ever()): Promise<Answer> => rdap.lookup(registrableDomain(domain), signal);
  return { registry, clock, rdap, ask };
}

const days = (answer: Answer): number | string =>
  "failure" in answer ? answer.failure : Math.round((answer.registration.expiresAt - startOfTime) / dayMs);

/** Answers on demand. */
function patient(registry: Registry): () => void {
  const held: (() => void)[] = [];
  registry.behave = (domain, response) => void held.push(() => response.end(JSON.stringify(rdapAnswer(domain, 90))));
  return () => held.splice(0).forEach((answer) => answer());
}

t.test("one query per domain and minute", async (t) => {
  const { registry, clock, ask } = await setUp(t);
  const answer = patient(registry);
  const together = Array.from({ length: 50 }, (_, n) => ask(n % 2 === 0 ? "example.org" : "www.example.org"));
  await registry.until(() => registry.asked.length >= 1);
  answer();
  t.strictSame([...new Set((await Promise.all(together)).map(days))], [90]);
  await clock.pass(59_999);
  t.equal(days(await ask("example.org")), 90);
  t.strictSame(registry.asked, ["example.org"]);
  registry.behave = (_domain, response) => void response.writeHead(500).end();
  await clock.pass(1);
  t.equal(days(await ask("example.org")), "the registry of .org answered with status 500");
  registry.behave = good;
  await clock.pass(59_999);
  t.equal(
    days(await ask("example.org")),
    "the registry of .org answered with status 500",
    "a failure is an answer too",
  );
  await clock.pass(1);
  t.equal(days(await ask("example.org")), 90);
  t.equal(registry.asked.length, 3);
  t.equal(registry.listFetches, 1, "and one for the list");
});

t.test("queries are sequential per top-level domain", async (t) => {
  const { registry, rdap, ask } = await setUp(t);
  registry.tlds = ["org", "net", "uk", "com"];
  const answer = patient(registry);
  const domains = ["a.org", "b.org", "c.org", "d.net", "e.co.uk", "f.uk"];
  const found = Promise.all(domains.map((domain) => ask(domain)));
  await registry.until(() => registry.asked.length >= 3);
  // By the time that this one is there, whatever else was let out would be too.
  const last = ask("z.com");
  await registry.until(() => registry.asked.includes("z.com"));
  t.strictSame(registry.asked.toSorted(), ["a.org", "d.net", "e.co.uk", "z.com"], "co.uk and uk are one registry");
  for (let n = 1; n <= 3; n++) {
    answer();
    if (n < 3)
      await registry.until(
        () =>
          registry.open.get("org") === 1 && registry.asked.filter((domain) => domain.endsWith(".org")).length === n + 1,
      );
  }
  await registry.until(() => registry.asked.length >= 7);
  answer();
  await Promise.all([found, last]);
  t.strictSame([...registry.mostOpen].toSorted(), [
    ["com", 1],
    ["net", 1],
    ["org", 1],
    ["uk", 1],
  ]);

  rdap.line.max = 2;
  const two = Promise.all(["g.org", "h.org", "i.org"].map((domain) => ask(domain)));
  await registry.until(() => registry.open.get("org") === 2);
  answer();
  await registry.until(() => registry.asked.length >= 10);
  answer();
  await two;
  t.equal(registry.mostOpen.get("org"), 2);
});

t.test("an aborted caller leaves the others waiting; the last one aborts the query", async (t) => {
  const { registry, ask } = await setUp(t);
  const answer = patient(registry);
  const [first, second, third] = [new AbortController(), new AbortController(), new AbortController()];
  const one = ask("example.org", first.signal);
  const two = ask("example.org", second.signal);
  const behind = ask("other.org", third.signal);
  await registry.until(() => registry.asked.length >= 1);
  first.abort(new Error("the first has enough"));
  await t.rejects(one, { message: "the first has enough" });
  t.equal(registry.open.get("org"), 1);
  third.abort(new Error("out of line"));
  await t.rejects(behind, { message: "out of line" });
  second.abort(new Error("the second too"));
  const anew = ask("example.org");
  await t.rejects(two, { message: "the second too" });
  await registry.until(() => registry.asked.length >= 2);
  t.equal(registry.mostOpen.get("org"), 1, "the place was given back when the connection was gone");
  answer();
  t.equal(days(await anew), 90);
  t.strictSame(registry.asked, ["example.org", "example.org"], "a lookup that left the queue is not requested");
  await t.rejects(ask("late.org", first.signal), { message: "the first has enough" });
});

t.test("an endless response blocks the queue for at most a minute", async (t) => {
  const { registry, clock, ask } = await setUp(t);
  registry.behave = silent;
  const stuck = ask("stuck.org");
  const next = ask("next.org");
  await registry.until(() => registry.asked.length >= 1);
  registry.behave = good;
  await clock.pass(59_999);
  t.equal(registry.asked.length, 1);
  await clock.pass(1);
  t.equal(days(await stuck), "the registry of .org did not answer within 60 s");
  t.equal(days(await next), 90);
});

t.test("a 429 without Retry-After pauses the registry for a minute", async (t) => {
  const { registry, clock, ask } = await setUp(t);
  registry.behave = (_domain, response) => void response.writeHead(429).end();
  await ask("a.org");
  registry.behave = good;
  await clock.pass(59_999);
  t.match(days(await ask("b.org")), /lookups there are paused$/);
  await clock.pass(1);
  t.equal(days(await ask("b.org")), 90);
});

t.test("a registry with two servers: the second is tried when the first fails", async (t) => {
  const { registry, clock, ask } = await setUp(t);
  registry.behaveAsList = (response) =>
    void response.end(
      JSON.stringify({
        services: [
          [["ORG"], [`${registry.origin}/first/`, `${registry.origin}/second`, 7, "http://plain.example/", "nonsense"]],
          ["odd"],
          null,
        ],
      }),
    );
  registry.behave = (domain, response, request) => {
    if (request.url?.startsWith("/first/")) response.writeHead(429, { "retry-after": "999999999" }).end();
    else good(domain, response, request);
  };
  t.equal(days(await ask("example.org")), 90);
  t.equal(days(await ask("other.org")), 90);
  t.strictSame(
    registry.requests.map(({ url }) => url),
    ["/first/domain/example.org", "/second/domain/example.org", "/second/domain/other.org"],
    "the first is left alone as it asked",
  );
  await clock.pass(3_599_999);
  await ask("early.org");
  await clock.pass(1);
  await ask("late.org");
  t.strictSame(
    registry.requests.slice(3).map(({ url }) => url),
    ["/second/domain/early.org", "/first/domain/late.org", "/second/domain/late.org"],
    "for an hour, and no longer whatever it asks for",
  );
});

t.test("a redirect leads to another registry", async (t) => {
  const { registry, ask } = await setUp(t);
  const other = await startRegistry(t);
  registry.behave = (domain, response) =>
    void response.writeHead(307, { location: `${other.origin}/elsewhere/${domain}` }).end();
  t.equal(days(await ask("example.org")), 90);
  t.strictSame(other.asked, ["example.org"]);

  const guarded = await setUp(t, { allowPrivate: false });
  t.equal(days(await guarded.ask("plain.org")), 90, "the list may name a mirror on a private address");
  const inside = [
    [`${other.origin}/elsewhere/example.org`, /address 127\.0\.0\.1 is blocked/],
    [other.origin.replace("127.0.0.1", "localhost"), /address localhost is blocked/],
    ["https://169.254.169.254/latest/meta-data", /address 169\.254\.169\.254 is blocked/],
    ["https://[fd00::1]/", /address fd00::1 is blocked/],
  ] as const;
  for (const [at, [location, words]] of inside.entries()) {
    guarded.registry.behave = (_domain, response) => void response.writeHead(302, { location }).end();
    const answer = await guarded.ask(`name${at}.org`);
    matchObject(t, answer, { failure: words, evidence: true }, location);
  }
  t.strictSame(other.asked, ["example.org"], "a registry cannot lead the agent inside");
});

t.test("the list is fetched once a day, and a stale one is used until then", async (t) => {
  const logged: string[] = [];
  const { registry, clock, ask } = await setUp(t, { log: (_level, msg) => void logged.push(msg) });
  await Promise.all(["a.org", "b.net", "c.uk"].map((domain) => ask(domain)));
  t.equal(registry.listFetches, 1);
  await clock.pass(dayMs - 1);
  await ask("d.org");
  t.equal(registry.listFetches, 1);
  registry.behaveAsList = (response) => void response.writeHead(500).end();
  await clock.pass(1);
  t.equal(days(await ask("e.org")), 90);
  t.strictSame(
    [registry.listFetches, logged],
    [2, ["the list of RDAP registries could not be refreshed; the old one is used"]],
  );
  await clock.pass(599_999);
  await ask("f.org");
  t.equal(registry.listFetches, 2, "ten minutes of peace");
  registry.behaveAsList = () => undefined;
  await clock.pass(1);
  const slow = ask("g.org");
  await registry.until(() => registry.listFetches === 3);
  t.equal(days(await ask("h.org")), 90, "nobody else waits for it");
  await clock.pass(10_000);
  t.equal(days(await slow), 90, "and who does, ten seconds");
  registry.behaveAsList = null;
  registry.tlds = ["com"];
  await clock.pass(600_000);
  t.equal(days(await ask("i.org")), "the registry of .org offers no RDAP", "the new one counts");
  t.equal(registry.listFetches, 4);
});

t.test("an invalid list", async (t) => {
  for (const [what, answer, words] of [
    ["not JSON", "<html>", /is not JSON$/],
    ["nothing in it", '{"services":[]}', /is no list of RDAP registries$/],
    ["something else", "[1]", /is no list of RDAP registries$/],
    ["too large", `{"services":[${" ".repeat(2_000_000)}]}`, /is larger than 2 MB$/],
  ] as const) {
    const { registry, clock, ask } = await setUp(t);
    registry.behaveAsList = (response) => void response.end(answer);
    matchObject(t, days(await ask("example.org")), words, what);
    registry.behaveAsList = null;
    matchObject(t, days(await ask("other.org")), words, `${what}: not asked again at once`);
    t.equal(registry.listFetches, 1);
    await clock.pass(60_000);
    t.equal(days(await ask("other.org")), 90, what);
  }
});

t.test("allowed server URLs", (t) => {
  for (const url of ["https://rdap.example/", "http://localhost:8000/", "http://127.0.0.1/dns.json", "http://[::1]:1/"])
    t.ok(isAllowedUrl(new URL(url)), url);
  const list = new URL("https://data.example/dns.json");
  t.ok(isAllowedUrl(new URL("https://rdap.example/"), list));
  for (const url of ["http://127.0.0.1/", "http://localhost:8000/", "http://rdap.example/"])
    t.notOk(isAllowedUrl(new URL(url), list), `${url}, where an https URL leads`);
  for (const url of [
    "http://rdap.example/",
    "http://127.0.0.1.example/",
    "http://localhost.example/",
    "ftp://127.0.0.1/",
    "file:///etc/passwd",
    "https://user:secret@rdap.example/",
  ])
    t.notOk(isAllowedUrl(new URL(url)), url);
  t.end();
});

t.test("servers with other URLs are ignored", async (t) => {
  const { registry, ask } = await setUp(t);
  registry.behaveAsList = (response) =>
    void response.end(JSON.stringify({ services: [[["org"], ["ftp://rdap.example/", "http://u:p@rdap.example/"]]] }));
  t.equal(days(await ask("example.org")), "the registry of .org offers no RDAP");
});

t.test("the cache survives a restart", async (t) => {
  const folder = t.testdir({ state: {} });
  const open = (options: { maxDomains?: number } = {}, log: (level: string, msg: string) => void = quiet) =>
    rdapCache(join(folder, "state"), { clock: new FakeClock(), log, ...options });
  const file = join(folder, "state/rdap.json");
  const first = await setUp(t, { cache: open() });
  t.equal(days(await first.ask("example.org")), 90);
  const cache = open();
  cache.remember("example.net", { expiresAt: 5, registrar: null, lookedUpAt: 6 });
  await cache.close();
  await cache.close();
  t.equal(
    open().registration("example.org"),
    null,
    "it is written when the agent stops, and here another one stopped last",
  );

  const clock = new FakeClock();
  const kept = rdapCache(join(folder, "state"), { clock, log: quiet });
  const second = testLookups({ clock, cache: kept, registriesUrl: first.registry.listUrl });
  await second.lookup(registrableDomain("example.org"), ever());
  t.equal(JSON.parse(readFileSync(file, "utf8")).registries, null, "a burst is written once");
  await clock.pass(5_000);
  await kept.close();
  t.strictSame(readdirSync(join(folder, "state")), ["rdap.json"], "nothing else is left");
  t.equal(statSync(file).mode & 0o777, 0o600);

  const fetches = first.registry.listFetches;
  const third = testLookups({ clock, cache: open(), registriesUrl: first.registry.listUrl });
  matchObject(t, third.known("example.org"), { registrar: "Example Registrar", lookedUpAt: startOfTime });
  matchObject(t, third.known("example.net"), { expiresAt: 5, registrar: null, lookedUpAt: 6 });
  t.equal(days(await third.lookup(registrableDomain("other.org"), ever())), 90);
  t.equal(first.registry.listFetches, fetches, "the list too");
  const elsewhere = testLookups({ clock, cache: open(), registriesUrl: "http://127.0.0.1:1/" });
  t.match(
    days(await elsewhere.lookup(registrableDomain("other.org"), ever())),
    /cannot be fetched/,
    "but not that of another place",
  );
});

t.test("the cache of an agent on real time survives a restart", async (t) => {
  const folder = t.testdir({});
  const registry = await startRegistry(t);
  const clock = correctedClock();
  clock.correct(performance.timeOrigin + performance.now() + 0.37);
  const logged: string[] = [];
  const open = () => rdapCache(folder, { clock, log: (_level, msg) => void logged.push(msg) });
  const cache = open();
  const first = testLookups({ clock, cache, registriesUrl: registry.listUrl });
  await first.lookup(registrableDomain("example.org"), ever());
  await cache.close();
  const second = testLookups({ clock, cache: open(), registriesUrl: registry.listUrl });
  t.strictSame(second.known("example.org"), first.known("example.org"), "the last good verdict");
  await second.lookup(registrableDomain("example.net"), ever());
  t.equal(registry.listFetches, 1, "the list of registries");
  t.strictSame(logged, []);
});

t.test("the cache on disk is bounded and ignores foreign files", async (t) => {
  const folder = t.testdir({ file: "" });
  const file = join(folder, "rdap.json");
  const small = rdapCache(folder, { clock: new FakeClock(), log: quiet, maxDomains: 3 });
  for (const n of [1, 2, 3, 4, 5, 3]) small.remember(`d${n}.org`, { expiresAt: n, registrar: null, lookedUpAt: n });
  await small.close();
  const whole = readFileSync(file, "utf8");
  t.strictSame(
    (JSON.parse(whole) as { domains: [string][] }).domains.map(([domain]) => domain),
    ["d4.org", "d5.org", "d3.org"],
    "the oldest lookup is refreshed first",
  );
  for (const [what, content] of [
    ["torn", whole.slice(0, -10)],
    ["empty", ""],
    ["another version", whole.replace('"version":1', '"version":2')],
    ["something else", '{"name":"sm-agent"}'],
    ["a date that is none", whole.replace('["d4.org",4', '["d4.org","4"')],
    ["too large", whole + " ".repeat(16_000_000)],
  ] as const) {
    writeFileSync(file, content);
    const logged: string[] = [];
    const cache = rdapCache(folder, { clock: new FakeClock(), log: (_level, msg) => void logged.push(msg) });
    t.equal(cache.registration("d4.org"), null, what);
    t.strictSame(logged, ["the cache of domains cannot be read; starting without it"], what);
    cache.remember("new.org", { expiresAt: 1, registrar: null, lookedUpAt: 1 });
    await cache.close();
    matchObject(
      t,
      rdapCache(folder, { clock: new FakeClock(), log: quiet }).registration("new.org"),
      { expiresAt: 1 },
      `${what}: the next write mends it`,
    );
  }

  const logged: string[] = [];
  const nowhere = rdapCache(join(folder, "file/below"), {
    clock: new FakeClock(),
    log: (_level, msg) => void logged.push(msg),
  });
  nowhere.remember("kept.org", { expiresAt: 1, registrar: null, lookedUpAt: 1 });
  await nowhere.close();
  matchObject(
    t,
    nowhere.registration("kept.org"),
    { expiresAt: 1 },
    "a folder that cannot be used leaves it in memory",
  );
  t.equal(logged.length, 2);
});

t.test("units: single-flight", async (t) => {
  const flight = new SingleFlight<string>();
  const [one, two] = [new AbortController(), new AbortController()];
  let finish: (text: string) => void = () => undefined;
  let given: AbortSignal | undefined;
  const work = (signal: AbortSignal): Promise<string> => {
    given = signal;
    return new Promise((settle) => (finish = settle));
  };
  const first = flight.join("a", one.signal, work);
  const second = flight.join("a", two.signal, () => Promise.reject(new Error("not twice")));
  one.abort(new Error("enough"));
  await t.rejects(first, { message: "enough" });
  t.equal(given?.aborted, false, "somebody still waits");
  finish("done");
  t.equal(await second, "done");
  t.equal(await flight.join("a", new AbortController().signal, () => Promise.resolve("anew")), "anew");
});

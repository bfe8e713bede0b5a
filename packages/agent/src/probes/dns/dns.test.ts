import { createSocket } from "node:dgram";
import { setTimeout as sleep } from "node:timers/promises";
import type { Answer } from "dns-packet";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import type { DnsCheck, RecordType } from "@statusmesh/shared/checks/dns";
import { judge } from "./answers.ts";
import { nameServer, type Reply } from "./testing-dns.ts";
import { outcomeOf, testRunner } from "../../testing.ts";

const runner = testRunner();

const check = (resolver: string | null, domain: string, change: Partial<DnsCheck> = {}): DnsCheck => ({
  type: "dns",
  domain,
  record_type: "A",
  resolver,
  expected_contains: null,
  timeout: 5000,
  ...change,
});

async function run(resolver: string | null, domain: string, change: Partial<DnsCheck> = {}, with_ = runner) {
  const { measurement, skip } = await outcomeOf(with_.run("org", { ...check(resolver, domain, change) }));
  return { ...measurement, skip };
}

const ttl = 300;
const a = (name: string, ...addresses: string[]): Reply => ({
  answers: addresses.map((data) => ({ type: "A", name, ttl, data })),
});

t.test("an answer is up, and the query time is measured", async (t) => {
  const { address, asked } = await nameServer(t, { "www.example.org": a("www.example.org", "93.184.215.14") });
  const result = await run(address, "www.example.org");
  matchObject(t, result, {
    status: "up",
    error: null,
    connect_ms: null,
    tls_ms: null,
    ttfb_ms: null,
    http_status: null,
    response_size: null,
    skip: false,
  });
  t.ok((result.dns_ms ?? 0) > 0);
  t.ok((result.total_ms ?? 0) >= (result.dns_ms ?? 0) - 0.01);
  for (const domain of ["www.example.org.", "WWW.Example.ORG"])
    matchObject(t, await run(address, domain), { status: "up" }, domain);
  t.strictSame(asked, Array(3).fill("UDP A www.example.org"), "each run asks anew: nothing is remembered");
});

t.test("every record type in zone file notation", async (t) => {
  const name = "all.example.org";
  const records: [RecordType, Reply, string][] = [
    ["A", a(name, "192.0.2.1", "192.0.2.2"), "192.0.2.1, 192.0.2.2"],
    ["AAAA", { answers: [{ type: "AAAA", name, ttl, data: "2001:db8::1" }] }, "2001:db8::1"],
    ["CNAME", { answers: [{ type: "CNAME", name, ttl, data: "edge.example.net" }] }, "edge.example.net"],
    [
      "MX",
      {
        answers: [
          { type: "MX", name, ttl, data: { preference: 10, exchange: "mail.example.org" } },
          { type: "MX", name, ttl, data: { preference: 0, exchange: "." } },
        ],
      },
      "10 mail.example.org, 0 .",
    ],
    ["NS", { answers: [{ type: "NS", name, ttl, data: "ns1.example.org" }] }, "ns1.example.org"],
    [
      "TXT",
      { answers: [{ type: "TXT", name, ttl, data: ["v=spf1 ", "include:example.net ~all"] }] },
      "v=spf1 include:example.net ~all",
    ],
    [
      "SOA",
      {
        answers: [
          {
            type: "SOA",
            name,
            ttl,
            data: {
              mname: "ns1.example.org",
              rname: "hostmaster.example.org",
              serial: 2026112101,
              refresh: 7200,
              retry: 3600,
              expire: 1209600,
              minimum: 300,
            },
          },
        ],
      },
      "ns1.example.org hostmaster.example.org 2026112101 7200 3600 1209600 300",
    ],
    ["PTR", { answers: [{ type: "PTR", name, ttl, data: "host.example.org" }] }, "host.example.org"],
    [
      "CAA",
      {
        answers: [
          {
            type: "CAA",
            name,
            ttl,
            data: { flags: 128, issuerCritical: true, tag: "issue", value: "letsencrypt.org" },
          },
        ],
      },
      '128 issue "letsencrypt.org"',
    ],
    [
      "SRV",
      {
        answers: [{ type: "SRV", name, ttl, data: { priority: 5, weight: 20, port: 5060, target: "sip.example.org" } }],
      },
      "5 20 5060 sip.example.org",
    ],
  ];
  const { address, zone, asked } = await nameServer(t, {});
  for (const [record_type, reply, text] of records) {
    zone[name] = reply;
    matchObject(t, await run(address, name, { record_type }), { status: "up", error: null }, record_type);
    matchObject(t, await run(address, name, { record_type, expected_contains: "nowhere" }), {
      status: "down",
      error: `no ${record_type} record of ${name} contains "nowhere"; found: ${text}`,
    });
    t.equal(asked.at(-1), `UDP ${record_type} ${name}`);
  }
});

t.test("expected_contains", async (t) => {
  const name = "example.org";
  const { address } = await nameServer(t, {
    [name]: { answers: [{ type: "MX", name, ttl, data: { preference: 10, exchange: "Mail.Example.org" } }] },
    "txt.example.org": {
      answers: [{ type: "TXT", name: "txt.example.org", ttl, data: ["google-site-verification=AbC."] }],
    },
    "many.example.org": a("many.example.org", ...Array.from({ length: 25 }, (_, at) => `192.0.2.${at}`)),
    "long.example.org": {
      truncated: true,
      answers: Array.from({ length: 5 }, (_, at) => ({
        type: "TXT" as const,
        name: "long.example.org",
        ttl,
        data: [`${at}`.repeat(250), "x".repeat(250)],
      })),
    },
  });
  const mx = (expected_contains: string) => run(address, name, { record_type: "MX", expected_contains });
  for (const text of ["mail.example.org", "MAIL.EXAMPLE.ORG.", "10 mail", "10 Mail.Example.org"])
    matchObject(t, await mx(text), { status: "up", error: null }, text);
  matchObject(t, await mx("mail2.example.org"), {
    status: "down",
    error: 'no MX record of example.org contains "mail2.example.org"; found: 10 Mail.Example.org',
  });
  const txt = (expected_contains: string) => run(address, "txt.example.org", { record_type: "TXT", expected_contains });
  matchObject(t, await txt("verification=AbC."), { status: "up" });
  matchObject(t, await txt("verification=abc."), { status: "down" }, "what a TXT record says has a case");
  t.match(
    (await run(address, "many.example.org", { expected_contains: "10.0.0.1" })).error,
    /found: 192\.0\.2\.\d+, .* and 5 more$/,
  );
  matchObject(
    t,
    await run(address, "many.example.org", { expected_contains: "192.0.2.24" }),
    { status: "up" },
    "any of the answers will do",
  );
  const { error } = await run(address, "long.example.org", { record_type: "TXT", expected_contains: "z".repeat(1000) });
  t.match(error, /^no TXT record of long\.example\.org contains "z{200}…"; found: 0{250}x{50}…, .* and 2 more$/);
});

t.test("absent names, and name servers that answer wrongly", async (t) => {
  const name = "x.example.org";
  const { address, zone } = await nameServer(t, {});
  const cases: [Reply, string][] = [
    [{ rcode: 3 }, "x.example.org does not exist (NXDOMAIN)"],
    [{}, "x.example.org has no A record"],
    [{ answers: [{ type: "CNAME", name, ttl, data: "gone.example.net" }] }, "x.example.org has no A record"],
    [{ rcode: 2 }, "the name server failed to resolve x.example.org (SERVFAIL)"],
    [{ rcode: 5 }, "the name server refused to resolve x.example.org (REFUSED)"],
    [{ rcode: 4 }, "the name server does not answer questions for A (NOTIMP)"],
    [{ rcode: 1 }, "the name server reported a format error for x.example.org (FORMERR)"],
    [{ rcode: 6 }, "the name server did not resolve x.example.org (YXDOMAIN)"],
    [{ rcode: 9 }, "the name server did not resolve x.example.org (NOTAUTH)"],
    [{ rcode: 10 }, "the name server did not resolve x.example.org (NOTZONE)"],
    [{ rcode: 11 }, "the name server did not resolve x.example.org (DSOTYPENI)"],
    [{ raw: Buffer.from("this is not DNS at all") }, "the name server sent a malformed answer"],
    [
      { change: (packet) => ({ ...packet, answers: [], questions: [{ type: "A", name: "evil.example" }] }) },
      "timed out",
    ],
    [{ change: (packet) => ({ ...packet, id: (packet.id ?? 0) ^ 1 }), ...a(name, "192.0.2.1") }, "timed out"],
    [{ silent: true }, "timed out"],
  ];
  for (const [reply, error] of cases) {
    zone[name] = reply;
    const result = await run(address, name, { timeout: 400 });
    if (error === "timed out")
      matchObject(t, result, {
        status: "error",
        error: `no answer from the name server ${address} within 0.4 s`,
        dns_ms: null,
        skip: false,
      });
    else matchObject(t, result, { status: "down", error, skip: false });
  }
  matchObject(t, await run("127.0.0.1:1", name), {
    status: "down",
    error: "nothing answers at the name server 127.0.0.1:1: connection refused",
    skip: false,
  });
});

t.test("a truncated answer is requested again over TCP", async (t) => {
  const name = "big.example.org";
  const { address, asked } = await nameServer(t, {
    [name]: { ...a(name, ...Array.from({ length: 100 }, (_, at) => `192.0.2.${at}`)), truncated: true },
    "cut.example.org": { truncated: true },
  });
  matchObject(t, await run(address, name, { expected_contains: "192.0.2.99" }), { status: "up", error: null });
  t.strictSame(asked, [`UDP A ${name}`, `TCP A ${name}`]);
  matchObject(t, await run(address, "cut.example.org"), { status: "down", error: "cut.example.org has no A record" });
});

t.test("a truncated answer of a server that does not speak TCP, and one of a server that knows no EDNS", async (t) => {
  const socket = createSocket("udp4");
  const sizes: number[] = [];
  socket.on("message", (message, from) => {
    sizes.push(message.length);
    const isPlain = message.readUInt16BE(10) === 0;
    const head = Buffer.from(message.subarray(0, 12));
    // FORMERR to EDNS, else truncated.
    head.writeUInt16BE(isPlain ? 0x8380 : 0x8181, 2);
    head.writeUInt32BE(0, 4);
    if (!isPlain) return socket.send(head, from.port, from.address);
    head.writeUInt16BE(1, 4);
    socket.send(Buffer.concat([head, message.subarray(12)]), from.port, from.address);
  });
  await new Promise<void>((settle) => socket.bind(0, "127.0.0.1", settle));
  t.teardown(() => socket.close());
  const address = `127.0.0.1:${socket.address().port}`;
  const own = testRunner();
  for (let i = 0; i < 8; i++)
    matchObject(
      t,
      await run(address, "example.org", {}, own),
      {
        status: "down",
        error:
          `the name server ${address} sent a truncated answer, ` +
          `and TCP port ${socket.address().port} failed: connection refused`,
        skip: false,
      },
      "no breaker opens: UDP answers",
    );
  t.strictSame([...new Set(sizes.slice(0, 2))], [40, 29], "without EDNS after a format error");
});

t.test("records of a name that nobody asked for do not count", async (t) => {
  const name = "www.example.org";
  const cname = (from: string, data: string): Answer => ({ type: "CNAME", name: from, ttl, data });
  const unrelated: Answer = { type: "A", name: "evil.example", ttl, data: "192.0.2.66" };
  const own: Answer = { type: "A", name: "edge.example.net", ttl, data: "192.0.2.1" };
  const { address, zone } = await nameServer(t, {});
  for (const [answers, error] of [
    [[unrelated], "www.example.org has no A record"],
    [[cname(name, "gone.example.net"), unrelated], "www.example.org has no A record"],
    [[cname("evil.example", name), unrelated], "www.example.org has no A record"],
    [[own, cname("Edge.Example.net", "a.example"), cname(name, "EDGE.example.net"), unrelated], null],
    [[cname(name, "a.example"), cname("a.example", name), unrelated], "www.example.org has no A record"],
  ] as const) {
    zone[name] = { answers: [...answers] };
    matchObject(t, await run(address, name, { expected_absent: [] }), {
      status: error === null ? "up" : "down",
      error,
    });
    if (error === null)
      matchObject(t, await run(address, name, { expected_exactly: ["192.0.2.1"] }), { status: "up", error: null });
  }
});

t.test("a hostile name server: pointers, lengths and counts that lie", async (t) => {
  const question = Buffer.from("\x03www\x07example\x03org\0\0\x01\0\x01", "latin1");
  const { address, zone } = await nameServer(t, {});
  const message = (counts: number[], ...rest: number[]): Reply => ({
    rawOf: (id) => Buffer.from([id >> 8, id & 255, 0x81, 0x80, ...counts.flatMap((n) => [0, n]), ...question, ...rest]),
  });
  for (const reply of [
    message([1, 1, 0, 0]),
    message([1, 1, 0, 0], 0xc0, 33, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 1, 2, 3, 4),
    message([1, 1, 0, 0], 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 5, 1, 2, 3, 4),
    message([1, 1, 0, 0], 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 3, 1, 2, 3),
    message([1, 1, 0, 0], 0x40, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 1, 2, 3, 4),
    message([1, 1, 0, 0], ...Array<number>(300).fill(1), 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 1, 2, 3, 4),
    message([1, 1, 0, 9], 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 1, 2, 3, 4),
    message([9, 1, 0, 0], 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 1, 2, 3, 4),
  ]) {
    zone["www.example.org"] = reply;
    matchObject(t, await run(address, "www.example.org"), {
      status: "down",
      error: "the name server sent a malformed answer",
    });
  }
});

t.test("PTR queries use the reverse name, international names their ASCII form", async (t) => {
  const v6 = "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa";
  const ptr = (name: string): Reply => ({ answers: [{ type: "PTR", name, ttl, data: "host.example.org" }] });
  const { address } = await nameServer(t, {
    "4.3.2.1.in-addr.arpa": ptr("4.3.2.1.in-addr.arpa"),
    [v6]: ptr(v6),
    "xn--bcher-kva.example": a("xn--bcher-kva.example", "192.0.2.1"),
    "_dmarc.example.org": { answers: [{ type: "TXT", name: "_dmarc.example.org", ttl, data: ["v=DMARC1"] }] },
  });
  matchObject(t, await run(address, "1.2.3.4", { record_type: "PTR" }), { status: "up" });
  matchObject(t, await run(address, "2001:db8::1", { record_type: "PTR" }), { status: "up" });
  matchObject(t, await run(address, "bücher.example"), { status: "up" });
  matchObject(t, await run(address, "_dmarc.example.org", { record_type: "TXT", expected_contains: "DMARC1" }), {
    status: "up",
  });
});

t.test("the guard applies to the name server, not to the name", async (t) => {
  const { address, asked } = await nameServer(t, {});
  const guarded = testRunner({ allowPrivate: false });
  matchObject(t, await run(address, "example.org", {}, guarded), {
    status: "error",
    error: "address 127.0.0.1 is blocked (127.0.0.0/8)",
  });
  matchObject(t, await run("[::1]:53", "example.org", {}, guarded), {
    status: "error",
    error: "address ::1 is blocked (::1/128)",
  });
  matchObject(t, await run("::ffff:127.0.0.1", "example.org", {}, guarded), { status: "error", error: /is blocked/ });
  t.strictSame(asked, [], "nothing was sent");
});

t.test("customers cannot query the system resolver for internal names or learn their addresses", async (t) => {
  const guarded = testRunner({ allowPrivate: false });
  for (const [domain, record_type, why] of [
    ["db.internal", "A", ".internal"],
    ["payroll", "A", "single label"],
    ["10.0.0.1", "PTR", "10.0.0.0/8"],
  ] as const) {
    const result = await run(null, domain, { record_type }, guarded);
    matchObject(
      t,
      result,
      { status: "error", error: /^\S+ is not a name of the public DNS \(/, dns_ms: null, skip: false },
      domain,
    );
    t.ok(result.error?.includes(`(${why})`), `${result.error} says ${why}`);
  }
  const spec = (expected_contains: string | null, record_type: RecordType = "A") => ({
    ...check(null, "split.example.org"),
    expected_contains,
    record_type,
  });
  const judgeMasked = (check: DnsCheck, records: string[]) =>
    judge(check, "split.example.org", { rcode: "NOERROR", truncated: false, records }, true);
  const answers = ["10.1.2.3", "93.184.215.14"];
  t.same(judgeMasked(spec(null), answers), { status: "up", error: null });
  for (const guess of ["10.1.2.3", "10.1", "3"])
    t.same(
      judgeMasked(spec(guess), ["10.1.2.3"]),
      { status: "down", error: `no A record of split.example.org contains "${guess}"; found: a private address` },
      "a guess tells nothing",
    );
  t.same(judgeMasked(spec("93.184"), answers), { status: "up", error: null });
  t.same(
    judgeMasked({ ...spec(null), expected_exactly: ["10.1.2.3"] }, ["10.1.2.3"]),
    {
      status: "down",
      error: "the A records of split.example.org are other ones; missing: 10.1.2.3; not expected: a private address",
    },
    "nor does a set",
  );
  for (const records of [answers, ["10.9.9.9"]])
    t.same(
      judgeMasked({ ...spec(null), expected_absent: ["10.1.2.3"] }, records),
      {
        status: "error",
        error: "an answer for split.example.org is private and not compared with what must be absent",
      },
      "nor is it absent because it was hidden",
    );
  matchObject(t, judgeMasked({ ...spec(null), expected_absent: ["10.1.2.3"] }, ["93.184.215.14"]), { status: "up" });
  matchObject(t, judgeMasked(spec("x"), answers), { error: /found: a private address, 93\.184\.215\.14$/ });
  matchObject(t, judgeMasked(spec("x", "MX"), ["10 mail.corp"]), { error: /found: 10 a private name$/ });
  matchObject(t, judgeMasked(spec("x", "PTR"), ["web01.acme-inside"]), { error: /found: a private name$/ });
  matchObject(t, judgeMasked(spec("x", "TXT"), ["as of v1.beta, ip4:10.0.0.1"]), {
    error: /found: as of v1\.beta, ip4:a private address$/,
  });
});

t.test("an aborted query leaves the others running and releases its resources", async (t) => {
  const { address, asked } = await nameServer(t, {
    "silent.example.org": { silent: true },
    "slow.example.org": { ...a("slow.example.org", "192.0.2.1"), delayMs: 700 },
    "quick.example.org": a("quick.example.org", "192.0.2.1"),
  });
  const slow = run(address, "slow.example.org");
  const silent = run(address, "silent.example.org", { timeout: 200 });
  matchObject(t, await silent, { status: "error", error: /^no answer .* within 0\.2 s$/ });
  matchObject(t, await run(address, "quick.example.org"), { status: "up" }, "the next question is asked at once");
  matchObject(t, await slow, { status: "up" }, "a question asked before is still answered");
  const silentQuestions = (): number => asked.filter((question) => question.includes("silent")).length;
  const before = silentQuestions();
  const abandoned = runner.run("org", { ...check(address, "silent.example.org") });
  while (silentQuestions() === before) await sleep(5);
  abandoned.abandon();
  t.equal(await abandoned.done, null);
  const untilThen = silentQuestions();
  await sleep(1500);
  t.equal(silentQuestions(), untilThen, "a question that was given up is not repeated");
});

t.test("a lost packet is sent again within the deadline", async (t) => {
  const { address, asked, zone } = await nameServer(t, { "lossy.example.org": { silent: true } });
  const result = run(address, "lossy.example.org");
  while (asked.length < 1) await sleep(5);
  zone["lossy.example.org"] = a("lossy.example.org", "192.0.2.1");
  matchObject(t, await result, { status: "up", error: null });
  t.equal(asked.length, 2);
});

t.test("queries without an answer do not block others", async (t) => {
  const { address } = await nameServer(t, {
    "silent.example.org": { silent: true },
    "ok.example.org": a("ok.example.org", "192.0.2.1"),
  });
  const own = testRunner();
  for (let i = 0; i < 6; i++)
    matchObject(t, await run(address, "silent.example.org", { timeout: 100 }, own), { error: /^no answer/ });
  matchObject(t, await run(address, "ok.example.org", {}, own), { status: "up" }, "no circuit has opened");
  for (let i = 0; i < 5; i++) matchObject(t, await run("127.0.0.1:1", "ok.example.org", {}, own), { status: "down" });
  matchObject(
    t,
    await run("127.0.0.1:1", "ok.example.org", {}, own),
    { status: "error", error: "circuit_open" },
    "a name server that is not there opens it",
  );
});

t.test("many concurrent queries", async (t) => {
  const zone = Object.fromEntries(
    Array.from({ length: 300 }, (_, at) => [
      `n${at}.example.org`,
      at % 3 === 0 ? { silent: true } : a(`n${at}.example.org`, `192.0.2.${at % 250}`),
    ]),
  );
  const { address } = await nameServer(t, zone);
  const results = await Promise.all(
    Object.keys(zone).map((name, at) => run(address, name, { timeout: at % 3 === 0 ? 150 : 5000 })),
  );
  t.equal(results.filter(({ status }) => status === "up").length, 200);
  t.equal(results.filter(({ status }) => status === "error").length, 100);
});

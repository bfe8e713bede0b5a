import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import type { DnsCheck, RecordType } from "@statusmesh/shared/checks/dns";
import { outcomeOf, testRunner } from "../../testing.ts";
import { bindIsThere, dig, startBind } from "./testing-bind.ts";

const soa = "@ 300 IN SOA ns1.example.test. first\\.last.example.test. 2026112801 7200 3600 1209600 300";
const text = (count: number): string =>
  Array.from({ length: count }, (_, at) => `"${String(at).padStart(3, "0")}${"x".repeat(197)}"`).join(" ");

const zones = {
  "example.test": String.raw`
$TTL 300
${soa}
@         IN NS    ns1
@         IN NS    NS2.Other.test.
@         IN MX    10 Mail
@         IN MX    20 mail.other.test.
@         IN CAA   0 issue "letsencrypt.org; validationmethods=dns-01"
@         IN CAA   128 issuewild ";"
ns1       IN A     192.0.2.53
www       IN A     192.0.2.1
www       IN A     192.0.2.10
www       IN AAAA  2001:db8::1
v6        IN AAAA  2001:db8:0:0:1:0:0:1
v6        IN AAAA  ::ffff:192.0.2.1
v6        IN AAAA  fe80::a:b:c:d
alias     IN CNAME www
gone      IN CNAME missing
txtalias  IN CNAME several
away      IN CNAME www.other.test.
c1        IN CNAME c2
c2        IN CNAME c3
c3        IN CNAME c4
c4        IN CNAME c5
c5        IN CNAME www
loop1     IN CNAME loop2
loop2     IN CNAME loop1
old       IN DNAME new
host.new  IN A     192.0.2.77
*.wild    IN A     192.0.2.5
several   IN TXT   "v=spf1 include:_spf.example.test " "ip4:192.0.2.0/24 -all"
several   IN TXT   "second; with \"quotes\", a \\ and 'more'"
utf8      IN TXT   "Gr\195\188\195\159e aus \230\157\177\228\186\172"
latin1    IN TXT   "caf\233"
empty     IN TXT   ""
big       IN TXT   ${text(12)}
many      IN TXT   ${text(12)}
          IN TXT   "another"
nomail    IN MX    0 .
_sip._tcp IN SRV   5 20 5060 sip
nosrv     IN SRV   0 0 0 .
deleg     IN NS    ns.deleg
ns.deleg  IN A     192.0.2.99
_dmarc    IN TXT   "v=DMARC1; p=reject"
xn--bcher-kva IN A 192.0.2.2
xn--bcher-kva IN MX 10 xn--bcher-kva
odd\.dot  IN A     192.0.2.3
ptr       IN PTR   odd\.dot
`,
  "other.test": `
$TTL 300
@   IN SOA ns1.example.test. hostmaster.example.test. 1 7200 3600 1209600 300
@   IN NS  ns1.example.test.
www IN A   198.51.100.7
`,
  "2.0.192.in-addr.arpa": `
$TTL 300
@ IN SOA ns1.example.test. hostmaster.example.test. 1 7200 3600 1209600 300
@ IN NS  ns1.example.test.
1 IN PTR www.example.test.
`,
  "8.b.d.0.1.0.0.2.ip6.arpa": `
$TTL 300
@ IN SOA ns1.example.test. hostmaster.example.test. 1 7200 3600 1209600 300
@ IN NS  ns1.example.test.
1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0 IN PTR www.example.test.
`,
  "lost.test": null,
};

const questions: readonly (readonly [string, RecordType])[] = [
  ...(["SOA", "NS", "MX", "CAA", "TXT", "A"] as const).map((type) => ["example.test", type] as const),
  ...["www", "WWW", "alias", "gone", "txtalias", "away", "c1", "loop1", "host.old", "x.old", "any.wild"].map(
    (name) => [`${name}.example.test`, "A"] as const,
  ),
  ...["deleg", "missing", "xn--bcher-kva"].map((name) => [`${name}.example.test`, "A"] as const),
  ...["www", "v6", "alias", "ns1"].map((name) => [`${name}.example.test`, "AAAA"] as const),
  ...["alias", "c1", "host.old", "www"].map((name) => [`${name}.example.test`, "CNAME"] as const),
  ...["several", "utf8", "latin1", "empty", "big", "many", "_dmarc", "txtalias"].map(
    (name) => [`${name}.example.test`, "TXT"] as const,
  ),
  ["nomail.example.test", "MX"],
  ["xn--bcher-kva.example.test", "MX"],
  ["_sip._tcp.example.test", "SRV"],
  ["nosrv.example.test", "SRV"],
  ["ptr.example.test", "PTR"],
  ["1.2.0.192.in-addr.arpa", "PTR"],
  ["2.2.0.192.in-addr.arpa", "PTR"],
  ["1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa", "PTR"],
  ["x.lost.test", "A"],
  ["www.elsewhere.test", "A"],
];

const runner = testRunner();
const check = (port: number, domain: string, record_type: RecordType, more: Partial<DnsCheck>): DnsCheck => ({
  type: "dns",
  domain,
  record_type,
  resolver: `127.0.0.1:${port}`,
  expected_contains: null,
  timeout: 5000,
  ...more,
});

t.test("BIND: what dig prints is what a check expects, for every record type and return code", async (t) => {
  if (!bindIsThere(t)) return;
  const port = await startBind(t, zones);
  const run = async (name: string, type: RecordType, more: Partial<DnsCheck> = {}) =>
    (await outcomeOf(runner.run("org", { ...check(port, name, type, more) }))).measurement;

  const seen = new Set<string>();
  for (const { name, type, code, records } of dig(port, questions)) {
    seen.add(code);
    const what = `${name} ${type}: ${code} ${records.join(", ")}`;
    matchObject(t, await run(name, type, { expected_rcode: code }), { status: "up", error: null }, what);
    const other = code === "NXDOMAIN" ? "NODATA" : "NXDOMAIN";
    matchObject(t, await run(name, type, { expected_rcode: other }), { status: "down" }, `${what}, expected ${other}`);
    matchObject(t, await run(name, type), { status: code === "NOERROR" ? "up" : "down" }, what);
    if (records.length === 0) {
      const absent = await run(name, type, { expected_absent: ["192.0.2.66"] });
      matchObject(t, absent, { status: code === "NXDOMAIN" || code === "NODATA" ? "up" : "down" }, what);
      continue;
    }
    matchObject(
      t,
      await run(name, type, { expected_exactly: records.toReversed() }),
      { status: "up", error: null },
      what,
    );
    for (const one of records)
      matchObject(
        t,
        await run(name, type, { expected_contains: one }),
        { status: "up" },
        `${name} ${type} contains ${one}`,
      );
    matchObject(t, await run(name, type, { expected_absent: [records.at(-1)!] }), { status: "down" }, what);
    if (records.length > 1)
      matchObject(t, await run(name, type, { expected_exactly: records.slice(1) }), { error: /not expected: / }, what);
  }
  t.strictSame([...seen].sort(), ["NODATA", "NOERROR", "NXDOMAIN", "REFUSED", "SERVFAIL"]);

  // Spellings that people write.
  const cases: [name: string, type: RecordType, found: string[], missing: string[]][] = [
    ["www", "A", ["192.0.2.10", "192.0.2.", "2.1"], ["192.0.2.11", "192.0.2.100"]],
    ["www", "AAAA", ["2001:DB8:0:0::1", "2001:0db8::0001", "2001:db8"], ["2001:db8::10", "2001:db8::"]],
    ["v6", "AAAA", ["::ffff:c000:201", "fe80:0:0:0:a:b:c:d", "2001:db8::1:0:0:1"], ["::ffff:192.0.2.10"]],
    ["alias", "CNAME", ["WWW.Example.Test.", "www.example.test", "www"], ["ww.example.test.x", "www.example."]],
    ["utf8", "TXT", ["Grüße aus 東京", "東京"], ["grüße", "Grüsse"]],
    ["latin1", "TXT", ["café"], ["cafe"]],
    ["several", "TXT", ["_spf.example.test ip4:192.0.2.0/24 -all", 'with "quotes", a \\ and'], ["v=spf1 ip4"]],
    ["xn--bcher-kva", "MX", ["bücher.example.test", "10 bücher.example.test."], ["bucher.example.test"]],
    ["big", "TXT", [`011${"x".repeat(197)}`], ["012x"]],
    ["nomail", "MX", ["0 ."], ["mail"]],
  ];
  for (const [name, type, found, missing] of cases) {
    for (const expected_contains of found)
      matchObject(
        t,
        await run(`${name}.example.test`, type, { expected_contains }),
        { status: "up" },
        expected_contains,
      );
    for (const expected_contains of missing) {
      const { status } = await run(`${name}.example.test`, type, { expected_contains });
      t.equal(status, "down", `${name} ${type} does not contain ${expected_contains}`);
      const absent = await run(`${name}.example.test`, type, { expected_absent: [expected_contains] });
      t.equal(absent.status, "up", `${name} ${type} has no ${expected_contains}`);
    }
  }
  matchObject(
    t,
    await run("www.example.test", "A", { expected_exactly: ["192.0.2.1"] }),
    { error: "the A records of www.example.test are other ones; not expected: 192.0.2.10" },
    "192.0.2.1 is not found in 192.0.2.10",
  );
  matchObject(t, await run("www.example.test", "A", { expected_exactly: ["192.0.2.1", "192.0.2.10", "192.0.2.2"] }), {
    error: "the A records of www.example.test are other ones; missing: 192.0.2.2",
  });
  const byName = { resolver: `ns.example.test:${port}`, ip_version: "6" as const };
  for (const [addresses, status] of [
    [["::1"], "up"],
    [["127.0.0.1"], "down"],
  ] as const) {
    const named = testRunner({ lookup: async () => [...addresses] });
    const spec = check(port, "www.example.test", "A", byName);
    matchObject(t, (await outcomeOf(named.run("org", { ...spec }))).measurement, {
      status,
      error: status === "up" ? null : `the name server ${byName.resolver}: no IPv6 address`,
    });
  }
});

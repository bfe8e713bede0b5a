import t from "tap";
import { insideName, withoutInside } from "./inside-name.ts";

t.test("names that only the operator's own network answers", (t) => {
  const inside: [string, string][] = [
    ["db.internal", ".internal"],
    ["internal", "internal"],
    ["printer.local", ".local"],
    ["localhost", "localhost"],
    ["x.localhost", ".localhost"],
    ["wiki.intranet", ".intranet"],
    ["nas.lan", ".lan"],
    ["a.b.home", ".home"],
    ["dc01.corp", ".corp"],
    ["vault.private", ".private"],
    ["shop.test", ".test"],
    ["router.home.arpa", ".home.arpa"],
    ["home.arpa", ".home.arpa"],
    ["_dns.resolver.arpa", ".resolver.arpa"],
    ["payroll", "single label"],
    ["node1.consul", ".consul, which is not a public top-level domain"],
    ["1.0.0.127.in-addr.arpa", "127.0.0.0/8"],
    ["10.in-addr.arpa", "10.0.0.0/8"],
    ["5.10.in-addr.arpa", "10.0.0.0/8"],
    ["168.192.in-addr.arpa", "192.168.0.0/16"],
    ["_ptr.3.2.168.192.in-addr.arpa", "192.168.0.0/16"],
    ["16.172.in-addr.arpa", "172.16.0.0/12"],
    ["254.169.in-addr.arpa", "169.254.0.0/16"],
    ["d.f.ip6.arpa", "fc00::/7"],
    ["8.e.f.ip6.arpa", "fe80::/10"],
    [`1${".0".repeat(31)}.ip6.arpa`, "::1/128"],
  ];
  for (const [name, why] of inside) t.equal(insideName(name), why, name);
  const outside = [
    "example.org",
    "_dmarc.example.org",
    "*.example.org",
    "org",
    "co.uk",
    "xn--bcher-kva.example",
    "nowhere.invalid",
    "internal.example.org",
    "local.dev",
    "mylan.net",
  ];
  const reverse = [
    "8.8.8.8.in-addr.arpa",
    "172.in-addr.arpa",
    "192.in-addr.arpa",
    "in-addr.arpa",
    "x.in-addr.arpa",
    "ip6.arpa",
    `8.8.8.8${".0".repeat(20)}.0.6.8.4.0.6.8.4.1.0.0.2.ip6.arpa`,
  ];
  for (const name of [...outside, ...reverse]) t.equal(insideName(name), null, name);
  t.end();
});

t.test("what strangers may read of an answer from inside", (t) => {
  const cases: [string, string][] = [
    ["10.1.2.3", "a private address"],
    ["93.184.215.14", "93.184.215.14"],
    ["fd00::5", "a private address"],
    ["::1", "a private address"],
    ["::ffff:10.0.0.1", "a private address"],
    ["2606:4700:4700::1111", "2606:4700:4700::1111"],
    [
      "v=spf1 ip4:10.0.0.0/8 ip4:8.8.8.8 ip6:fd12:3456::/32 ~all",
      "v=spf1 ip4:a private address/8 ip4:8.8.8.8 ip6:a private address/32 ~all",
    ],
    ["10 mail.corp", "10 a private name"],
    ["0 5 5060 SIP.Acme.Internal", "0 5 5060 a private name"],
    ["10 mail.example.org", "10 mail.example.org"],
    ["3.2.1.10.in-addr.arpa", "a private name"],
    ["version 1.2.3 of 12:30:45", "version 1.2.3 of 12:30:45"],
    ["a.internal.example.org", "a.internal.example.org"],
    [".", "."],
    ["", ""],
  ];
  for (const [text, shown] of cases) t.equal(withoutInside(text, false), shown, text);
  const pointers: [string, string][] = [
    ["10 mail.corp", "10 a private name"],
    ["10 mail.example.org", "10 mail.example.org"],
    ["0 .", "0 ."],
    ["web01.acme-inside", "a private name"],
    ["web01", "a private name"],
    [
      "ns1.example.org hostmaster.Lan 2026112101 7200 3600 1209600 300",
      "ns1.example.org a private name 2026112101 7200 3600 1209600 300",
    ],
  ];
  for (const [text, shown] of pointers) t.equal(withoutInside(text, true), shown, text);
  t.end();
});

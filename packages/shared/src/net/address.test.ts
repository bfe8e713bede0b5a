import t from "tap";
import { blockedHost, blockedRange } from "./address.ts";

// range, first and last address, and the neighbours just outside: null where that is blocked for another reason or does
// not exist.
const v4: [string, string, string, string | null, string | null][] = [
  ["0.0.0.0/8", "0.0.0.0", "0.255.255.255", null, "1.0.0.0"],
  ["10.0.0.0/8", "10.0.0.0", "10.255.255.255", "9.255.255.255", "11.0.0.0"],
  ["100.64.0.0/10", "100.64.0.0", "100.127.255.255", "100.63.255.255", "100.128.0.0"],
  ["127.0.0.0/8", "127.0.0.0", "127.255.255.255", "126.255.255.255", "128.0.0.0"],
  ["168.63.129.16/32", "168.63.129.16", "168.63.129.16", "168.63.129.15", "168.63.129.17"],
  ["169.254.0.0/16", "169.254.0.0", "169.254.255.255", "169.253.255.255", "169.255.0.0"],
  ["172.16.0.0/12", "172.16.0.0", "172.31.255.255", "172.15.255.255", "172.32.0.0"],
  ["192.0.0.0/24", "192.0.0.0", "192.0.0.255", "191.255.255.255", "192.0.1.0"],
  ["192.0.2.0/24", "192.0.2.0", "192.0.2.255", "192.0.1.255", "192.0.3.0"],
  ["192.31.196.0/24", "192.31.196.0", "192.31.196.255", "192.31.195.255", "192.31.197.0"],
  ["192.52.193.0/24", "192.52.193.0", "192.52.193.255", "192.52.192.255", "192.52.194.0"],
  ["192.88.99.0/24", "192.88.99.0", "192.88.99.255", "192.88.98.255", "192.88.100.0"],
  ["192.168.0.0/16", "192.168.0.0", "192.168.255.255", "192.167.255.255", "192.169.0.0"],
  ["192.175.48.0/24", "192.175.48.0", "192.175.48.255", "192.175.47.255", "192.175.49.0"],
  ["198.18.0.0/15", "198.18.0.0", "198.19.255.255", "198.17.255.255", "198.20.0.0"],
  ["198.51.100.0/24", "198.51.100.0", "198.51.100.255", "198.51.99.255", "198.51.101.0"],
  ["203.0.113.0/24", "203.0.113.0", "203.0.113.255", "203.0.112.255", "203.0.114.0"],
  ["224.0.0.0/4", "224.0.0.0", "239.255.255.255", "223.255.255.255", null],
  ["240.0.0.0/4", "240.0.0.0", "255.255.255.255", null, null],
];

const ones = "ffff:ffff:ffff:ffff:ffff:ffff";
const v6: [string, string, string, string | null, string | null][] = [
  ["::/128", "::", "::", null, null],
  ["::1/128", "::1", "::1", null, null],
  ["::ffff:0:0/96", "::ffff:0.0.0.0", "::ffff:255.255.255.255", null, null],
  ["64:ff9b::/96", "64:ff9b::", "64:ff9b::ffff:ffff", null, null],
  ["64:ff9b:1::/48", "64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff", null, null],
  ["100::/64", "100::", "100::ffff:ffff:ffff:ffff", null, null],
  ["2001::/23", "2001::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", `2000:ffff:${ones}`, "2001:200::"],
  ["2001:db8::/32", "2001:db8::", `2001:db8:${ones}`, `2001:db7:${ones}`, "2001:db9::"],
  ["2002::/16", "2002::", `2002:ffff:${ones}`, `2001:ffff:${ones}`, "2003::"],
  [
    "2620:4f:8000::/48",
    "2620:4f:8000::",
    "2620:4f:8000:ffff:ffff:ffff:ffff:ffff",
    "2620:4f:7fff:ffff:ffff:ffff:ffff:ffff",
    "2620:4f:8001::",
  ],
  ["3ffe::/16", "3ffe::", `3ffe:ffff:${ones}`, `3ffd:ffff:${ones}`, "3fff:1000::"],
  ["3fff::/20", "3fff::", `3fff:fff:${ones}`, null, "3fff:1000::"],
  ["outside 2000::/3", "4000::", `fbff:ffff:${ones}`, `3fff:ffff:${ones}`, null],
  ["fc00::/7", "fc00::", `fdff:ffff:${ones}`, null, null],
  ["fe80::/10", "fe80::", `febf:ffff:${ones}`, null, null],
  ["fec0::/10", "fec0::", `feff:ffff:${ones}`, null, null],
  ["ff00::/8", "ff00::", `ffff:ffff:${ones}`, null, null],
];

t.test("every range is blocked from its first to its last address", (t) => {
  for (const [range, first, last, before, after] of [...v4, ...v6]) {
    t.equal(blockedRange(first), range, `${first} is the first of ${range}`);
    t.equal(blockedRange(last), range, `${last} is the last of ${range}`);
    if (before !== null) t.equal(blockedRange(before), null, `${before} lies before ${range}`);
    if (after !== null) t.equal(blockedRange(after), null, `${after} lies after ${range}`);
  }
  t.end();
});

t.test("embedded addresses are blocked in every notation", (t) => {
  const hiding: [string, string][] = [
    ["::ffff:127.0.0.1", "::ffff:0:0/96"],
    ["::ffff:7f00:1", "::ffff:0:0/96"],
    ["0:0:0:0:0:ffff:7f00:0001", "::ffff:0:0/96"],
    ["::FFFF:8.8.8.8", "::ffff:0:0/96"],
    ["::127.0.0.1", "outside 2000::/3"],
    ["64:ff9b::10.0.0.1", "64:ff9b::/96"],
    ["2002:7f00:1::", "2002::/16"],
    ["2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001::/23"],
    ["2a00:1450::5efe:10.0.0.1", "ISATAP"],
    ["2a00:1450:4001:800:0:5efe:7f00:1", "ISATAP"],
    ["2a00:1450:4001:800:200:5efe:7f00:1", "ISATAP"],
    ["2a00:1450:4001:800::5efe:7f00:1", "ISATAP"],
  ];
  for (const [address, range] of hiding) t.equal(blockedRange(address), range, address);
  t.end();
});

t.test("public addresses pass", (t) => {
  for (const address of [
    "1.1.1.1",
    "8.8.8.8",
    "93.184.216.34",
    "2606:4700:4700::1111",
    "2A00:1450:4001:830::200e",
    "2a00:1450:4001:800:5efe::1",
    "2a00::5efe",
  ]) {
    t.equal(blockedRange(address), null, address);
  }
  t.end();
});

t.test("texts that are no plain address are blocked", (t) => {
  const malformed = [
    "",
    " ",
    "example.org",
    "127.1",
    "0x7f.0.0.1",
    "2130706433",
    "010.0.0.1",
    "1.2.3.4.5",
    "1.1.1.1 ",
    "1.1.1.1:80",
    "[::1]",
    ":::",
  ];
  for (const text of malformed) t.equal(blockedRange(text), "not an IP address", JSON.stringify(text));
  t.equal(blockedRange("fe80::1%eth0"), "zone id");
  t.equal(blockedRange("2606:4700:4700::1111%1"), "zone id", "even a public one");
  t.end();
});

t.test("hosts: addresses are classified, names pass except those of this machine", (t) => {
  t.equal(blockedHost("10.1.2.3"), "10.0.0.0/8");
  t.equal(blockedHost("::1"), "::1/128");
  t.equal(blockedHost("fe80::1%eth0"), "zone id");
  t.equal(blockedHost("1.1.1.1"), null);
  for (const name of ["localhost", "LOCALHOST", "localhost.", "api.localhost", "a.b.localhost."])
    t.equal(blockedHost(name), "localhost", name);
  for (const name of ["example.org", "localhost.example.org", "notlocalhost", "xn--bcher-kva.example"])
    t.equal(blockedHost(name), null, name);
  t.end();
});

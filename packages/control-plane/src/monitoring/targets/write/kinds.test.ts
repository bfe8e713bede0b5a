import { writeFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import type { Ctx } from "../../../platform/context.ts";
import { validate } from "@statusmesh/shared/schema/validate";
import { allowPrivate, newOrg, openWorld, refusal } from "../../../testing/world.ts";
import { TargetCreate, TargetPatch } from "../schema.ts";
import { createTarget, updateTarget } from "./service.ts";
import { getTarget } from "../service.ts";
import { openCircuits } from "../list/service.ts";

/* What holds for each check kind beside http and tcp: its fields, its defaults, who looks at its destination. */

const denied = join(t.testdir(), "domains.toml");
writeFileSync(denied, 'domains = ["evil.example", "198.51.100.7", "203.0.113.9"]\n');
const { system } = await openWorld(t, { env: { SM_ABUSE__DOMAIN_DENYLIST_FILE: denied } });

const tls = (changes: object = {}) => ({ type: "tls_cert", host: "www.example.org", ...changes });
const grpc = (changes: object = {}) => ({ type: "grpc", host: "www.example.org", port: 443, ...changes });
const dns = (changes: object = {}) => ({ type: "dns", domain: "example.org", ...changes });
const create = async (ctx: Ctx, check: object, changes: object = {}) =>
  createTarget(ctx, validate(TargetCreate, { name: "Website", check, ...changes }));
const patch = async (ctx: Ctx, id: string, changes: object) => updateTarget(ctx, id, validate(TargetPatch, changes));

type Case = [fields: object, code: string, field: string];

const wrongTls: Case[] = [
  [{ host: "" }, "INVALID_TCP_HOST", "/host"],
  [{ host: "https://www.example.org" }, "INVALID_TCP_HOST", "/host"],
  [{ host: "www.example.org:443" }, "INVALID_TCP_HOST", "/host"],
  [{ port: 0 }, "INVALID_TCP_PORT", "/port"],
  [{ port: 65_536 }, "INVALID_TCP_PORT", "/port"],
  [{ port: "443" }, "INVALID_TCP_PORT", "/port"],
  ...[
    "",
    "www example",
    "www.example.org:443",
    "https://www.example.org",
    "*.example.org",
    "192.0.2.1",
    "2001:db8::1",
    "0x7f.1",
    "a..b",
    7,
  ].map((server_name): Case => [{ server_name }, "INVALID_TLS_CERT_PARAMS", "/server_name"]),
  [{ server_name: "www.exa\tmple.org" }, "INVALID_TLS_CERT_PARAMS", "/server_name"],
  [{ warn_days: 7 }, "INVALID_TLS_CERT_PARAMS", "/warn_days"],
  [{ critical_days: 14 }, "INVALID_TLS_CERT_PARAMS", "/warn_days"],
  [{ warn_days: 7, critical_days: 30 }, "INVALID_TLS_CERT_PARAMS", "/warn_days"],
  [{ warn_days: 0, critical_days: 0 }, "INVALID_TLS_CERT_PARAMS", "/warn_days"],
  [{ warn_days: 3651 }, "INVALID_TLS_CERT_PARAMS", "/warn_days"],
  [{ warn_days: 10.5 }, "INVALID_TLS_CERT_PARAMS", "/warn_days"],
  [{ warn_days: null }, "INVALID_TLS_CERT_PARAMS", "/warn_days"],
  [{ critical_days: -1 }, "INVALID_TLS_CERT_PARAMS", "/critical_days"],
  [{ critical_days: "7" }, "INVALID_TLS_CERT_PARAMS", "/critical_days"],
  [{ timeout: 99 }, "INVALID_TIMEOUT", "/timeout"],
  [{ verify_tls: true }, "UNKNOWN_FIELD", "/verify_tls"],
  [{ host: "127.0.0.1" }, "SSRF_BLOCKED", "/host"],
  [{ host: "0x7f.1" }, "SSRF_BLOCKED", "/host"],
  [{ host: "localhost" }, "SSRF_BLOCKED", "/host"],
  [{ host: "www.evil.example" }, "DOMAIN_DENYLISTED", "/host"],
  [{ server_name: "www.evil.example" }, "DOMAIN_DENYLISTED", "/server_name"],
];

const wrongDns: Case[] = [
  ...[
    "",
    ".",
    "..",
    "a..example.org",
    ".example.org",
    "exam ple.org",
    "https://example.org",
    "example.org/",
    "example.org:53",
    "www.*.org",
    `${"x".repeat(64)}.org`,
    "x.".repeat(127) + "org",
    7,
    null,
  ].map((domain): Case => [{ domain }, "INVALID_DNS_PARAMS", "/domain"]),
  [{ domain: "exam\u00adple.org" }, "INVALID_DNS_PARAMS", "/domain"],
  [{ domain: "192.0.2.1" }, "INVALID_DNS_PARAMS", "/domain"],
  [{ domain: "2001:db8::1", record_type: "AAAA" }, "INVALID_DNS_PARAMS", "/domain"],
  ...["a", "ANY", "", 1, null].map((record_type): Case => [{ record_type }, "INVALID_DNS_PARAMS", "/record_type"]),
  ...[
    "",
    "dns google",
    "dns.google/",
    "ns1..example.org",
    "9.9.9",
    "9.9.9.9:",
    "9.9.9.9:0",
    "9.9.9.9:65536",
    "9.9.9.9:x",
    "[9.9.9.9]:53",
    "[2620:fe::fe",
    "[2620:fe::fe]53",
    "2620:fe::fe:53:53:53:53:53:53",
    "tls://9.9.9.9",
    "0x9.9",
    9,
  ].map((resolver): Case => [{ resolver }, "INVALID_DNS_PARAMS", "/resolver"]),
  [{ resolver: "fd00::1", ip_version: "4" }, "INVALID_DNS_PARAMS", "/ip_version"],
  [{ ip_version: "6" }, "INVALID_DNS_PARAMS", "/ip_version"],
  [{ expected_contains: "" }, "INVALID_DNS_PARAMS", "/expected_contains"],
  [{ expected_exactly: ["192.0.2.1", "2001:db8::1"] }, "INVALID_DNS_PARAMS", "/expected_exactly/1"],
  [{ expected_exactly: Array(51).fill("192.0.2.1") }, "INVALID_DNS_PARAMS", "/expected_exactly"],
  [{ expected_absent: [""] }, "INVALID_DNS_PARAMS", "/expected_absent/0"],
  [{ expected_rcode: "NOTAUTH" }, "INVALID_DNS_PARAMS", "/expected_rcode"],
  [{ expected_rcode: "NXDOMAIN", expected_contains: "x" }, "INVALID_DNS_PARAMS", "/expected_rcode"],
  [{ expected_rcode: "NODATA", expected_absent: ["x"] }, "INVALID_DNS_PARAMS", "/expected_rcode"],
  [{ expected_contains: "x".repeat(1001) }, "INVALID_DNS_PARAMS", "/expected_contains"],
  [{ timeout: 60_001 }, "INVALID_TIMEOUT", "/timeout"],
  [{ port: 53 }, "UNKNOWN_FIELD", "/port"],
  ...[
    "127.0.0.1",
    "127.0.0.53:53",
    "10.0.0.2:5353",
    "169.254.169.253",
    "::1",
    "[::1]:53",
    "[::ffff:127.0.0.1]:53",
    "fe80::1%eth0",
    "0.0.0.0",
  ].map((resolver): Case => [{ resolver }, "SSRF_BLOCKED", "/resolver"]),
  [{ domain: "mail.Evil.example." }, "DOMAIN_DENYLISTED", "/domain"],
  [{ domain: "198.51.100.7", record_type: "PTR", resolver: "9.9.9.9" }, "DOMAIN_DENYLISTED", "/domain"],
];

const wrongGrpc = ["shop\n.Orders", "shop.Orders\r\n", "a\u0000b", "shop\u200b.Orders"].map((service): Case => [
  { service },
  "INVALID_BODY",
  "/service",
]);

t.test("invalid values are refused at create and at edit, with code and pointer", async (t) => {
  const ctx = await newOrg(system);
  const [cert, name, calls] = [await create(ctx, tls()), await create(ctx, dns()), await create(ctx, grpc())];
  const both = async (id: string, check: object, [fields, code, field]: Case) => {
    const expected = { code, field: `/check${field}` };
    matchObject(
      t,
      await refusal(t, () => create(ctx, { ...check, ...fields })),
      expected,
      `create ${JSON.stringify(fields).slice(0, 80)}`,
    );
    matchObject(
      t,
      await refusal(t, () => patch(ctx, id, { check: fields })),
      expected,
      `edit ${JSON.stringify(fields).slice(0, 80)}`,
    );
  };
  for (const one of wrongTls) await both(cert.id, tls(), one);
  for (const one of wrongDns) await both(name.id, dns(), one);
  for (const one of wrongGrpc) await both(calls.id, grpc(), one);
  matchObject(t, await refusal(t, () => create(ctx, { type: "tls_cert" })), {
    code: "INVALID_TCP_HOST",
    field: "/check/host",
  });
  matchObject(t, await refusal(t, () => create(ctx, { type: "dns" })), {
    code: "INVALID_DNS_PARAMS",
    field: "/check/domain",
  });
  matchObject(t, await refusal(t, () => patch(ctx, cert.id, { check: { type: "dns" } })), {
    code: "CHECK_KIND_IMMUTABLE",
    field: "/check/type",
  });
  matchObject(t, await refusal(t, () => create(ctx, dns({ resolver: "10.0.0.2" }))), {
    details: { range: "10.0.0.0/8" },
  });
  t.strictSame(
    [await getTarget(ctx, cert.id), await getTarget(ctx, name.id)],
    [cert, name],
    "nothing of all that was kept",
  );
});

t.test("omitted fields have their defaults, and sent ones read as they were sent", async (t) => {
  const ctx = await newOrg(system);
  matchObject(t, await create(ctx, tls()), {
    interval: 86_400,
    check: {
      type: "tls_cert",
      host: "www.example.org",
      port: 443,
      server_name: null,
      warn_days: 14,
      critical_days: 7,
      timeout: 10_000,
    },
  });
  matchObject(t, await create(ctx, dns()), {
    interval: 60,
    check: {
      type: "dns",
      domain: "example.org",
      record_type: "A",
      resolver: null,
      expected_contains: null,
      timeout: 10_000,
    },
  });
  for (const check of [
    tls({
      host: "192.0.2.200".replace("192.0.2", "93.184.215"),
      port: 993,
      server_name: "IMAP.Example.org.",
      warn_days: 1,
      critical_days: 0,
      timeout: 100,
    }),
    tls({ host: "bücher.example", server_name: "bücher.example" }),
    dns({ domain: "Example.org." }),
    dns({ domain: "_dmarc.example.org", record_type: "TXT", expected_contains: "v=DMARC1" }),
    dns({ domain: "*.example.org" }),
    dns({ domain: "bücher.example" }),
    dns({ domain: "org", record_type: "NS" }),
    dns({ domain: "8.8.8.8", record_type: "PTR" }),
    dns({ domain: "2001:4860:4860::8888", record_type: "PTR" }),
    ...[
      "9.9.9.9",
      "9.9.9.9:5353",
      "2620:fe::fe",
      "[2620:fe::fe]",
      "[2620:fe::fe]:5353",
      "dns.google",
      "NS1.Example.org.:5353",
    ].map((resolver) => dns({ resolver })),
    dns({ resolver: "dns.google", ip_version: "6", expected_exactly: ["192.0.2.1"], expected_absent: ["10."] }),
    dns({ domain: "gone.example.org", expected_rcode: "NXDOMAIN" }),
  ])
    matchObject(t, (await create(ctx, check)).check, check, JSON.stringify(check));
  const { id } = await create(ctx, tls());
  matchObject(t, (await patch(ctx, id, { check: { warn_days: 30, server_name: "shop.example.org" } })).check, {
    warn_days: 30,
    critical_days: 7,
    server_name: "shop.example.org",
    host: "www.example.org",
  });
  matchObject(t, (await patch(ctx, id, { check: { server_name: null } })).check, { server_name: null, warn_days: 30 });
});

t.test("the agent's own name server resolves no internal names, unless the instance allows it", async (t) => {
  const ctx = await newOrg(system);
  const { id } = await create(ctx, dns());
  const inside = await newOrg(allowPrivate(system));
  for (const [fields, range] of [
    [{ domain: "localhost" }, "localhost"],
    [{ domain: "DB.Internal." }, ".internal"],
    [{ domain: "payroll" }, "single label"],
    [{ domain: "1.0.0.127.in-addr.arpa", record_type: "PTR" }, "127.0.0.0/8"],
    [{ domain: "10.0.0.1", record_type: "PTR" }, "10.0.0.0/8"],
    [{ domain: "fd00::1", record_type: "PTR" }, "fc00::/7"],
  ] as const) {
    const refused = { code: "SSRF_BLOCKED", field: "/check/domain", details: { range } };
    matchObject(t, await refusal(t, () => create(ctx, dns(fields))), refused, fields.domain);
    matchObject(t, await refusal(t, () => patch(ctx, id, { check: fields })), refused, fields.domain);
    matchObject(
      t,
      (await create(ctx, dns({ ...fields, resolver: "9.9.9.9" }))).check,
      fields,
      "another name server may be asked for anything",
    );
    matchObject(t, (await create(inside, dns(fields))).check, fields);
  }
  matchObject(t, (await create(inside, dns({ resolver: "10.0.0.2:53" }))).check, { resolver: "10.0.0.2:53" });
  matchObject(t, (await create(inside, tls({ host: "10.0.0.2" }))).check, { host: "10.0.0.2" });
  matchObject(t, await refusal(t, () => create(inside, dns({ resolver: "203.0.113.9" }))), {
    code: "DOMAIN_DENYLISTED",
    field: "/check/resolver",
  });
});

t.test("intervals: the kind's floor and the plan's", async (t) => {
  const [own, free] = [await newOrg(system), await newOrg(system, "free")];
  for (const [ctx, check, floor, plan] of [
    [own, tls(), 3600, "selfhost"],
    [free, tls(), 3600, "free"],
    [own, dns(), 10, "selfhost"],
    [free, dns(), 60, "free"],
  ] as const) {
    const expected = {
      code: "MIN_CHECK_INTERVAL",
      field: "/interval",
      details: { interval: floor - 1, minimum: floor, plan },
    };
    matchObject(t, await refusal(t, () => create(ctx, check, { interval: floor - 1 })), expected);
    const { id, interval } = await create(ctx, check, { interval: floor });
    t.equal(interval, floor);
    matchObject(t, await refusal(t, () => patch(ctx, id, { interval: floor - 1 })), expected);
  }
});

t.test("open circuits count each name server once, and checks without a destination not at all", async (t) => {
  const ctx = await newOrg(system);
  for (const check of [
    dns({ resolver: "9.9.9.9" }),
    dns({ resolver: "9.9.9.9:53", record_type: "MX" }),
    dns({ resolver: "9.9.9.9:5353" }),
    dns(),
  ]) {
    const { id } = await create(ctx, check);
    const at = new Date(system.clock.now());
    await system.sql`
      update target_states
      set status = 'error', status_until = ${new Date(at.getTime() + 60_000)}, status_since = ${at},
        circuit_open = true where target_id = ${id}`;
  }
  t.equal(await openCircuits(ctx), 2);
});

import * as fs from "node:fs";
import { join } from "node:path";
import t, { type Test } from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { sealConfig } from "../../alerting/channels/config/sealing.ts";
import { createChannel, updateChannel } from "../../alerting/channels/service.ts";
import { sendThrough, testChannel, testConfig } from "../../alerting/channels/sending/service.ts";
import { validate } from "@statusmesh/shared/schema/validate";
import { createTargets } from "../../monitoring/targets/write/create.ts";
import { Check } from "../../monitoring/targets/schema.ts";
import { createTarget, updateTarget } from "../../monitoring/targets/write/service.ts";
import { keptLog, newOrg, openWorld, refusal } from "../../testing/world.ts";
import { compileDomains, compilePatterns, defaultUrlPatterns } from "./lists.ts";
import { openAbuseLists } from "./service.ts";

const folder = t.testdir({
  "domains.yaml": "domains:\n  - evil.example\n  - '*.Bad.example.'\n  - bücher.example\n  - 198.51.100.7\n",
});
const { system } = await openWorld(t, { env: { SM_ABUSE__DOMAIN_DENYLIST_FILE: join(folder, "domains.yaml") } });
const ctx = await newOrg(system);

const http = (url: string) => ({ name: "Website", check: validate(Check, { type: "http", url }), interval: 60 });
const tcp = (host: string) => ({
  name: "Database",
  check: { type: "tcp" as const, host, port: 5432, timeout: 1000 },
  interval: 60,
});
const webhook = (url: string) => ({ type: "webhook" as const, url, headers: {}, secret: null });

t.test("patterns match whole names at any depth in any spelling of the path", async (t) => {
  const fits = compilePatterns([...defaultUrlPatterns, "/backup*.zip"]);
  const found = (path: string) => fits(new URL(path, "https://example.org"));
  for (const [path, pattern] of [
    ["/.git/config", "/.git/"],
    ["/shop/.GIT/HEAD", "/.git/"],
    ["/%2egit/config", "/.git/"],
    ["/x//.git//config", "/.git/"],
    ["/a%5c.git%5cconfig", "/.git/"],
    ["/%ff/%2egit/config", "/.git/"],
    ["/.env", "/.env"],
    ["/.env.local", "/.env"],
    ["/api/.env?x=1", "/.env"],
    ["/wp-admin/setup-config.php", "/wp-admin/setup-config.php"],
    ["/x/../.ssh/id_rsa", "/.ssh/"],
    ["/old/backup-2026.zip", "/backup*.zip"],
  ] as const) {
    t.equal(found(path), pattern, path);
  }
  for (const path of [
    "/",
    "/.environment",
    "/.env-sample",
    "/git/config",
    "/.github/",
    "/wp-admin/",
    "/?file=/.git/config",
    "/backup/old.zip",
    "/.well-known/security.txt",
  ])
    t.equal(found(path), null, path);
  t.throws(() => compilePatterns([".git"]), {
    message: '".git" is not a pattern: a pattern is a path that begins with a slash, like /.git/',
  });
});

t.test("a listed domain includes its subdomains", async (t) => {
  const denied = compileDomains(["evil.example", "*.bad.example", "bücher.example", "198.51.100.7", "2001:db8::1"]);
  for (const [host, domain] of [
    ["evil.example", "evil.example"],
    ["A.B.Evil.Example.", "evil.example"],
    ["bad.example", "*.bad.example"],
    ["xn--bcher-kva.example", "bücher.example"],
    ["198.51.100.7", "198.51.100.7"],
    ["2001:db8::1", "2001:db8::1"],
  ] as const) {
    t.equal(denied(host), domain, host);
  }
  for (const host of ["example", "notevil.example", "evil.example.org", "198.51.100.8", "100.7"])
    t.equal(denied(host), null, host);
  t.throws(() => compileDomains(["https://evil.example/"]), { message: /is not a domain like example\.org/ });
});

t.test("targets: refused at create, in bulk and at edit", async (t) => {
  matchObject(t, await refusal(t, () => createTarget(ctx, http("https://www.evil.example/"))), {
    code: "DOMAIN_DENYLISTED",
    field: "/check/url",
    details: { domain: "evil.example" },
  });
  matchObject(t, await refusal(t, () => createTarget(ctx, tcp("db.bad.example"))), {
    code: "DOMAIN_DENYLISTED",
    field: "/check/host",
  });
  matchObject(t, await refusal(t, () => createTargets(ctx, [tcp("db.example.org"), tcp("xn--bcher-kva.example")])), {
    code: "DOMAIN_DENYLISTED",
    field: "/1/check/host",
  });
  matchObject(t, await refusal(t, () => createTarget(ctx, http("https://example.org/.git/config"))), {
    code: "URL_PATTERN_BLOCKED",
    field: "/check/url",
    details: { pattern: "/.git/" },
  });
  matchObject(t, await refusal(t, () => createTarget(ctx, http("https://status.example.org/api/v1/targets"))), {
    code: "ABUSE_BLOCKED",
    field: "/check/url",
    details: { reason: "own_api" },
  });

  const target = await createTarget(ctx, http("https://status.example.org/healthz"));
  matchObject(t, await refusal(t, () => updateTarget(ctx, target.id, { check: { url: "https://example.org/.env" } })), {
    code: "URL_PATTERN_BLOCKED",
  });
});

t.test("channels: refused at create, at update and at both tests", async (t) => {
  const calls: string[] = [];
  const transport = {
    send: async ({ url }: { url: string }) => (calls.push(url), { status: 200, text: "", retryAfterSecs: null }),
  };
  const denied = { code: "DOMAIN_DENYLISTED", field: "/config/url", details: { domain: "evil.example" } };
  matchObject(
    t,
    await refusal(t, () => createChannel(ctx, { name: "a", config: webhook("https://hooks.evil.example/") })),
    denied,
  );
  matchObject(
    t,
    await refusal(t, () => testConfig(ctx, { config: webhook("https://hooks.evil.example/") }, transport)),
    denied,
  );
  const channel = await createChannel(ctx, { name: "b", config: webhook("https://hooks.later.example/") });
  matchObject(
    t,
    await refusal(t, () => updateChannel(ctx, channel.id, { config: webhook("https://evil.example/") })),
    denied,
  );
  await testChannel(ctx, channel.id, transport);
  const stricter = { ...ctx, abuse: { ...system.abuse, domain: compileDomains(["later.example"]) } };
  matchObject(t, await refusal(t, () => testChannel(stricter, channel.id, transport)), {
    code: "DOMAIN_DENYLISTED",
    field: null,
  });
  const config = webhook("https://hooks.later.example/");
  const stored = { id: channel.id, org_id: ctx.orgId, kind: "webhook", config };
  const sealed = { ...stored, config: sealConfig(ctx, ctx.orgId, channel.id, config) };
  await t.rejects(sendThrough(stricter, sealed, {} as never, transport), {
    name: "DeliveryError",
    permanent: true,
    message: /does not allow later\.example/,
  });
  t.strictSame(calls, ["https://hooks.later.example/"], "nothing was sent to a listed host");
});

t.test("files are YAML or TOML; an invalid one prevents the start", async (t) => {
  const files = t.testdir({
    "list.yaml": "- evil.example\n",
    "list.toml": 'domains = ["evil.example"]\n',
    "patterns.toml": 'url_patterns = ["/private/"]\n',
    "broken.yaml": "domains: [evil.example\n",
    "broken.toml": "domains = [",
    "number.yaml": "domains:\n  - 7\n",
    "other.yml": "domain: [evil.example]\n",
    "url.toml": 'domains = ["https://evil.example/"]\n',
    "list.txt": "evil.example\n",
  });
  const open = (domains: string, patterns = "") =>
    openAbuseLists(
      { domain_denylist_file: domains && join(files, domains), url_patterns_file: patterns && join(files, patterns) },
      keptLog(),
    );
  for (const name of ["list.yaml", "list.toml"]) t.equal(open(name).domain("www.evil.example"), "evil.example", name);
  const own = open("", "patterns.toml");
  t.equal(own.pattern(new URL("https://example.org/private/a")), "/private/");
  t.equal(own.pattern(new URL("https://example.org/.git/config")), null, "a list of one's own replaces ours");
  for (const [name, reason] of [
    ["broken.yaml", /^abuse\.domain_denylist_file: .*broken\.yaml cannot be used: ./],
    ["broken.toml", /broken\.toml cannot be used: Invalid TOML/],
    ["number.yaml", /entry 1 of domains is not a text$/],
    ["other.yml", /it has the key domain, and only domains is known$/],
    ["url.toml", /"https:\/\/evil\.example\/" is not a domain like example\.org$/],
    ["list.txt", /its name must end in \.yaml, \.yml or \.toml$/],
    ["nowhere.yaml", /it cannot be read \(ENOENT\)$/],
  ] as const) {
    t.throws(() => open(name), { name: "StartupError", message: reason }, name);
  }
});

t.test("a reload replaces valid lists and keeps the old one of a broken file", async (t: Test) => {
  const file = join(t.testdir({ "list.yaml": "domains: [evil.example]\n" }), "list.yaml");
  const log = keptLog();
  const lists = openAbuseLists({ domain_denylist_file: file, url_patterns_file: "" }, log);
  fs.writeFileSync(file, "domains: [other.example]\n");
  lists.reload();
  t.strictSame([lists.domain("evil.example"), lists.domain("other.example")], [null, "other.example"]);
  fs.writeFileSync(file, "domains: [\n");
  lists.reload();
  t.strictSame([lists.domain("evil.example"), lists.domain("other.example")], [null, "other.example"]);
  matchObject(t, log.lines, [
    { level: "info", message: "abuse lists read again", fields: { domain_denylist_file: file } },
    {
      level: "error",
      message: "abuse lists could not be read again: the old ones stay",
      fields: { reason: /list\.yaml cannot be used/ },
    },
  ]);
});

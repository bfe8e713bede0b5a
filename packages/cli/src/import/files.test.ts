import { writeFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { importBlackbox } from "./blackbox.ts";
import { importGatus } from "./gatus.ts";
import { importKuma } from "./kuma.ts";
import { importUptimeRobot } from "./uptimerobot.ts";
import { readAutoKuma } from "./read/autokuma.ts";
import { readBlackbox } from "./read/blackbox.ts";
import { readGatus } from "./read/gatus.ts";
import { countOf, faultsOf, objectsOf, reasonsOf } from "./testing.ts";
import { duration, type Row } from "@statusmesh/shared/foreign/values";

const fixtures = join(import.meta.dirname, "../../../../test/fixtures");

t.test("Gatus' own configurations: one file, a folder, a channel", (t) => {
  for (const [name, endpoints, items] of [
    ["config.yaml", 7, 7],
    ["folder", 4, 4],
    ["mattermost.yaml", 1, 2],
  ] as const) {
    const made = importGatus(readGatus(join(fixtures, "gatus", name)), "gatus");
    t.equal(countOf(made), items, name);
    t.strictSame(faultsOf(made), [], name);
    t.ok(Object.keys(objectsOf(made, "monitors")).length >= endpoints, name);
    t.strictSame(made.report.not_carried_over, [], name);
  }
  const made = importGatus(readGatus(join(fixtures, "gatus/config.yaml")), "gatus");
  matchObject(t, objectsOf(made, "monitors"), {
    "front-end": {
      interval: 300,
      tags: ["group/core"],
      alerts: [],
      check: {
        expected_status: { kind: "exact", value: 200 },
        expected_json: [{ path: "$.status", op: "eq", value: "UP" }],
        down_above_ms: 150,
      },
    },
    "back-end-certificate": { check: { type: "tls_cert", host: "example.org", critical_days: 2, warn_days: 9 } },
    "example-dns-query": { check: { type: "dns", domain: "example.com", resolver: "8.8.8.8" } },
    "icmp-ping": { check: { type: "ping", host: "example.org" }, interval: 60 },
    "check-domain-expiration-domain": { check: { type: "domain_expiry", critical_days: 30 } },
  });
  t.notOk(objectsOf(made, "monitors")["check-domain-expiration"], "nothing but the days was asked for");
  const { config } = objectsOf(importGatus(readGatus(join(fixtures, "gatus/mattermost.yaml")), "gatus"), "channels")[
    "mattermost"
  ]!;
  matchObject(t, config, { type: "mattermost", webhook_url: "${GATUS_CHANNELS_MATTERMOST_WEBHOOK_URL}" });
  t.end();
});

t.test("conditions of Gatus", (t) => {
  const of = (url: string, conditions: unknown[], more: object = {}) => {
    const made = importGatus({ endpoints: [{ name: "x", url, conditions, ...more }] }, "gatus");
    t.strictSame(faultsOf(made), []);
    t.equal(countOf(made), 1);
    return { check: objectsOf(made, "monitors")["x"]?.["check"], reasons: reasonsOf(made, "x") };
  };
  const https = "https://example.org";
  const cases: [conditions: string[], check: object, reason?: RegExp][] = [
    [["[STATUS] < 300"], { expected_status: { kind: "range", value: { min: 100, max: 299 } } }],
    [["[STATUS] >= 200", "[STATUS] <= 299", "[STATUS] != 204"], { expected_status: { kind: "one_of" } }],
    [["[STATUS] == any(200, 429)"], { expected_status: { kind: "one_of", value: [200, 429] } }],
    [[], { expected_status: { kind: "range", value: { min: 100, max: 599 } } }],
    [["[BODY] == pat(*a.b*)"], { expected_body_contains: "a.b" }],
    [["[BODY] == pat(a*b?)"], { expected_body_matches: "(?s)^a.*b.$" }],
    [["[BODY] != any(a+, b)"], { expected_body_not_matches: "^(?:a\\+|b)$" }],
    [["[BODY].a-b[0].c == 5"], { expected_json: [{ path: "$['a-b'][0].c", op: "eq", value: 5 }] }],
    [["[BODY].n > 2.5"], { expected_json: [{ path: "$.n", op: "gt", value: 2.5 }] }],
    [["has([BODY].x) == false"], { expected_json: [{ path: "$.x", op: "absent" }] }],
    [["len([BODY].x) > 0"], {}, /len\(\[BODY\]\.x\) > 0 is left out/],
    [["[BODY].n > many"], {}, /is left out/],
    [["any(200, 429) == [STATUS]"], { expected_status: { kind: "one_of", value: [200, 429] } }],
    [["[STATUS] != pat(5*)"], { expected_status: { kind: "range", value: { min: 100, max: 499 } } }],
    [["[BODY].n == any(1, 2)"], {}, /fits texts only/],
    [["[BODY].n == pat(*1*)"], {}, /fits texts only/],
    [["[BODY].n == 0b10"], {}, /in another base/],
    [["[IP] == 1.2.3.4"], {}, /is left out/],
    [["__proto__"], {}, /is left out/],
    [["[RESPONSE_TIME] < 2500ms"], { down_above_ms: 2500 }],
    [["[RESPONSE_TIME] < 2s"], { down_above_ms: 2000 }],
  ];
  for (const [conditions, check, reason] of cases) {
    const made = of(https, conditions);
    matchObject(t, made.check, check, conditions.join());
    if (reason !== undefined) matchObject(t, made.reasons.join("\n"), reason);
  }
  t.notOk("expected_status" in (of(https, ["[STATUS] == pat(2*)"]).check as object), "200 to 299");
  t.notOk("expected_status" in (of(https, ["[STATUS] == pat(2*|x)"]).check as object), "unread: not any status");
  matchObject(t, of("tcp://example.org:1", ["[CONNECTED] == false"]).reasons, [/must fail does not exist/]);
  t.equal(of("tcp://example.org:1", ["[CONNECTED] == false"]).check, undefined);
  matchObject(
    t,
    of("8.8.8.8", ["[DNS_RCODE] != NOERROR"], { dns: { "query-name": "example.org", "query-type": "A" } }).reasons,
    [/expects the return code/],
  );
  const ping = { body: "PING\r\n", client: { network: "ip6" } };
  const redis = of("tcp://redis.example.org:6379", ["[BODY] == pat(*PONG*)"], ping).check;
  matchObject(t, redis, { type: "tcp", send: "PING\r\n", expect: "PONG", ip_version: "6" });
  matchObject(t, of("tls://a.example.org:6379", ["[BODY] == pat(*PONG*)"], ping).check, { tls: "tls", expect: "PONG" });
  matchObject(t, of("wss://a.example.org", ["[BODY] == pat(*ok*)"], { body: "hi" }).check, {
    send: "hi",
    expect: "ok",
  });
  t.match(
    of("ssh://a.example.org", ["[BODY] == pat(*ok*)"], { body: "hi" }).reasons.join(),
    /not run.*\[BODY\].* left out/s,
  );
  t.match(of("grpc://a.example.org:1", ["[BODY] == pat(*ok*)"]).reasons.join(), /\[BODY\].* left out/);
  t.strictSame(of(https, ["[BODY].n == pat(ab*)", "[BODY].m == any(a, b)"]).reasons, []);
  const hours = { name: "x", url: https, conditions: ["[CERTIFICATE_EXPIRATION] > 36h"] };
  matchObject(t, objectsOf(importGatus({ endpoints: [hours] }, "gatus"), "monitors")["x-certificate"], {
    check: { critical_days: 2 },
  });
  matchObject(t, of(https, ["[STATUS] == 200", "[STATUS] == 500"]).reasons, [/exclude each other/]);
  matchObject(t, of("udp://example.org:53", []).reasons, [/no check for udp/]);
  matchObject(t, of("starttls://mail.example.org:587", ["[CONNECTED] == true"]).check, {
    type: "tcp",
    tls: "starttls_smtp",
  });
  const conditions = ["[CERTIFICATE_EXPIRATION] > 48h"];
  const mail = importGatus({ endpoints: [{ name: "x", url: "starttls://mail.example.org:587", conditions }] }, "gatus");
  matchObject(t, objectsOf(mail, "monitors")["x-certificate"], {
    check: { type: "tls_cert", port: 587, starttls: "smtp", critical_days: 2 },
  });
  const dns = (conditions: string[], server = "8.8.8.8") =>
    of(server, conditions, { dns: { "query-name": "example.org", "query-type": "A" } });
  for (const [conditions, check] of [
    [["[BODY] == 93.184.215.14", "[DNS_RCODE] == NOERROR"], { expected_contains: "93.184.215.14" }],
    [["[BODY] == pat(93.184.*)"], { expected_contains: undefined }],
    [["[BODY] != 0.0.0.0"], { expected_absent: ["0.0.0.0"] }],
    [["[DNS_RCODE] == NXDOMAIN"], { expected_rcode: "NXDOMAIN" }],
  ] as const)
    matchObject(t, dns([...conditions]).check, { type: "dns", resolver: "8.8.8.8", ...check }, conditions.join());
  t.strictSame(dns(["[BODY] == 192.0.2.1"]).reasons, []);
  matchObject(t, dns(["[BODY] == pat(93.184.*)"]).reasons, [/\[BODY\] and \[STATUS\] are left out/]);
  matchObject(t, dns(["[DNS_RCODE] == NXDOMAIN"], "dns.google:53"), { check: { resolver: "dns.google" }, reasons: [] });
  matchObject(t, of(https, ["[DNS_RCODE] == NXDOMAIN"]).reasons, [/\[DNS_RCODE\] is left out/]);
  matchObject(t, of(https, [], { client: { oauth2: {} } }).reasons, [/client\.oauth2/]);
  matchObject(t, of(https, [], { client: { timeout: "2m" } }).check, { timeout: 60_000 });
  t.equal(duration("1h30m", 0), 5_400_000);
  t.equal(duration("soon", 7), 7);
  t.end();
});

t.test("flags of Gatus as its YAML reads them, and variables that are empty or never set", (t) => {
  process.env["GATUS_TEST_EMPTY"] = "";
  t.teardown(() => delete process.env["GATUS_TEST_EMPTY"]);
  const path = join(t.testdir(), "gatus.yaml");
  const states = ["yes", "null", "", "${GATUS_TEST_EMPTY}", '"${X:false}"', "on", "true"];
  const endpoints = [...states, "no", "off", '"false"', "False"].map(
    (on, n) => `- name: e${n}\n  url: https://example.org\n  enabled: ${on}\n  client:\n    ignore-redirect: ${on}\n`,
  );
  // Sections that are not carried over need no variables.
  writeFileSync(path, `security:\n  password: $NEVER_SET\nendpoints:\n${endpoints.join("")}`);
  const made = importGatus(readGatus(path), "gatus");
  t.strictSame(faultsOf(made), []);
  const monitors = Object.values(objectsOf(made, "monitors"));
  t.strictSame(
    monitors.map(({ enabled = true }) => enabled),
    [...states.map(() => true), false, false, false, false],
  );
  t.strictSame(
    monitors.map(({ check }) => (check as { follow_redirects?: boolean }).follow_redirects ?? true),
    [false, true, true, true, true, false, false, true, true, true, true],
    "its default is false",
  );
  t.end();
});

t.test("alerts, pushed results and maintenance of Gatus", (t) => {
  const made = importGatus(
    {
      alerting: {
        slack: {
          "webhook-url": "https://hooks.slack.com/services/T/B/1",
          "default-alert": { "failure-threshold": 5, "minimum-reminder-interval": "1h" },
          overrides: [{ group: "core", "webhook-url": "https://hooks.slack.com/services/T/B/2" }],
        },
        "incident-io": { url: "https://x.example.org" },
      },
      endpoints: [
        { name: "a", url: "https://example.org", alerts: [{ type: "slack" }] },
        { name: "b", group: "core", url: "https://example.org", alerts: [{ type: "slack", "failure-threshold": 2 }] },
        { name: "c", url: "https://example.org", alerts: [{ type: "incident-io" }], enabled: false },
      ],
      "external-endpoints": [{ name: "job #1", group: "core", token: "potatopotato", heartbeat: { interval: "30m" } }],
      maintenance: { start: "23:00", duration: "1h", timezone: "Europe/Amsterdam", every: ["Monday", "Thursday"] },
      suites: [{ name: "suite" }],
    },
    "gatus",
  );
  t.strictSame(faultsOf(made), []);
  t.equal(countOf(made), 3 + 3 + 1 + 1 + 1);
  matchObject(t, objectsOf(made, "monitors"), {
    a: { alerts: ["slack"], alert_confirmations: 5, renotify_interval_secs: 3600, notify_recovery: false },
    b: { alerts: ["slack-group-core"], alert_confirmations: 2 },
    c: { alerts: [], enabled: false },
    "job-1": { check: { period: 1_800_000 }, heartbeat_addresses: [{ kind: "gatus" }] },
  });
  t.equal([...made.env].find(([name]) => name.endsWith("_GATUS"))?.[1], "core_job--1:potatopotato");
  t.strictSame(reasonsOf(made, "c"), [
    "none of its channels is carried over: it notifies nobody",
    "as many passing runs close an incident as failing ones open it",
  ]);
  matchObject(t, objectsOf(made, "maintenance")["maintenance"], {
    starts_at: "2026-01-01T22:00:00.000Z",
    recurrence: { rule: "FREQ=WEEKLY;BYDAY=MO,TH", time_zone: "Europe/Amsterdam" },
    monitors: ["a", "b", "c", "job-1"],
  });
  t.end();
});

t.test("assertions of UptimeRobot are expected_json, which joins by AND", (t) => {
  const of = (logic: string, ...checks: object[]) => {
    const api = { id: 1, friendlyName: "x", type: "API", url: "https://example.org" };
    const made = importUptimeRobot(
      { monitors: [{ ...api, config: { apiAssertions: { logic, checks } } }], pages: [], windows: [] },
      "robot",
    );
    t.strictSame(faultsOf(made), []);
    const { expected_json: json, url: _, type: _type, ...more } = objectsOf(made, "monitors")["x"]!["check"] as Row;
    return { json, more, reasons: reasonsOf(made, "x").join() };
  };
  const check = (property: string, comparison: string, target?: unknown) => ({ property, comparison, target });
  t.strictSame(
    of("AND", check("$.ok", "equals", true), check("$.n", "greater_than", "5"), check("$.e", "not_exists")).json,
    [
      { path: "$.ok", op: "eq", value: true },
      { path: "$.n", op: "gt", value: 5 },
      { path: "$.e", op: "absent" },
    ],
  );
  t.strictSame(
    of(
      "AND",
      check("status_code", "greater_than", 199),
      check("status_code", "less_than", "400"),
      check("body", "contains", "ok"),
      check("body", "not_contains", "error"),
      check("headers.X-Ready", "exists"),
      check("headers.Server", "equals", "nginx"),
      check("$.at", "is_not_null"),
    ),
    {
      json: [{ path: "$.at", op: "ne", value: null }],
      more: {
        timeout: 30_000,
        expected_status: { kind: "range", value: { min: 200, max: 399 } },
        expected_body_contains: "ok",
        expected_body_absent: "error",
        expected_headers: [
          { name: "X-Ready", op: "exists" },
          { name: "Server", op: "eq", value: "nginx" },
        ],
      },
      reasons: "",
    },
    "of the status, the text and the headers too",
  );
  matchObject(t, of("AND", check("$.a", "resembles", "x")), {
    json: undefined,
    reasons: /assertion of \$\.a is left out/,
  });
  matchObject(t, of("OR", check("$.a", "exists"), check("$.b", "exists")), {
    json: undefined,
    reasons: /one of .* enough/,
  });
  t.end();
});

t.test("fields of UptimeRobot: forms, JSON, address families, reminders", (t) => {
  const made = importUptimeRobot(
    {
      monitors: [
        {
          id: 1,
          friendlyName: "form",
          type: "HTTP",
          url: "https://shop.example.org/login",
          httpMethodType: "POST",
          postValueType: "KEY_VALUE",
          postValueData: { user: "a b", from: "é&x" },
          sslExpirationReminder: true,
          domainExpirationReminder: true,
          config: { sslExpirationPeriodDays: [7, 30], ipVersion: "ipv6Only" },
        },
        {
          id: 2,
          friendlyName: "json",
          type: "HTTP",
          url: "https://shop.example.org/api",
          httpMethodType: "PUT",
          postValueType: "RAW_JSON",
          postValueData: { a: 1 },
          sslExpirationReminder: true,
        },
        { id: 3, friendlyName: "v4", type: "PING", url: "192.0.2.1", config: { ipVersion: "ipv4Only" } },
      ],
      pages: [],
      windows: [],
    },
    "robot",
  );
  t.strictSame(faultsOf(made), []);
  const checks = Object.entries(objectsOf(made, "monitors")).map(([key, { check }]) => [key, check as Row] as const);
  matchObject(t, Object.fromEntries(checks), {
    form: {
      body: "user=a+b&from=%C3%A9%26x",
      headers: { "Content-Type": "application/x-www-form-urlencoded" },
      ip_version: "6",
    },
    json: { body: '{"a":1}', headers: { "Content-Type": "application/json" } },
    v4: { ip_version: undefined },
  });
  matchObject(
    t,
    checks.map(([, check]) => check).filter(({ type }) => type === "tls_cert" || type === "domain_expiry"),
    [{ host: "shop.example.org", port: 443, warn_days: 30, critical_days: 7 }, { domain: "shop.example.org" }],
    "one for each server and domain",
  );
  t.end();
});

t.test("AutoKuma's own examples: a list, a group, a tag, a notification", (t) => {
  const made = importKuma(readAutoKuma(join(fixtures, "autokuma/examples"), undefined), "autokuma", "AutoKuma");
  t.strictSame(faultsOf(made), []);
  t.equal(countOf(made), 7, "six files, three entities in one, and a tag is part of its monitor");
  matchObject(t, objectsOf(made, "monitors"), {
    "static-json-example": { tags: ["Hello Tag:Foobar"], check: { url: "https://example.com", timeout: 48_000 } },
    "multi-example-monitor-1": { tags: ["group/Multi Example Group"] },
    "multi-example-monitor-2": { tags: ["group/Multi Example Group"] },
    "static-toml-example": { alerts: [], alert_confirmations: 1 },
  });
  matchObject(t, objectsOf(made, "channels"), { "matrix-notification": { config: { type: "matrix" } } });
  matchObject(t, reasonsOf(made, "example_docker_host"), [/start an agent there with --docker/]);
  t.end();
});

t.test("files of AutoKuma: both lists of notifications, defaults, templates", (t) => {
  process.env["AUTOKUMA__ENV__TELEGRAM"] = "123:token";
  t.teardown(() => delete process.env["AUTOKUMA__ENV__TELEGRAM"]);
  const folder = join(fixtures, "autokuma/static");
  const made = importKuma(readAutoKuma(folder, join(fixtures, "autokuma/autokuma.toml")), "autokuma", "AutoKuma");
  t.strictSame(faultsOf(made), []);
  const monitors = objectsOf(made, "monitors");
  t.strictSame(Object.keys(monitors).sort(), [
    "apps",
    "backup",
    "container",
    "database",
    "page-0",
    "pages-2",
    "web-shop",
  ]);
  t.strictSame(
    [monitors["web-shop"]!["alerts"], monitors["database"]!["alerts"], monitors["page-0"]!["alerts"]],
    [["ntfy", "on-call"], ["ntfy"], ["ntfy"]],
    "a list, a list as text of the older name, a default",
  );
  matchObject(t, monitors, {
    "web-shop": {
      interval: 120,
      tags: ["group/Apps", "team:web"],
      alert_confirmations: 3,
      check: { expected_body_absent: "Basket", verify_tls: false, expected_status: { kind: "one_of" } },
    },
    database: { enabled: false, alert_confirmations: 5, check: { type: "tcp", host: "db.example.org", port: 5432 } },
    "page-0": { check: { max_redirects: 3 } },
    "pages-2": { check: { expected_json: [{ path: "$.status", op: "eq", value: "ok" }] } },
    backup: { heartbeat_addresses: [{ kind: "kuma" }] },
    apps: { check: { type: "group", members: [{ monitor: "web-shop" }], rule: "all" } },
  });
  t.ok([...made.env.values()].includes("123:token"));
  matchObject(t, reasonsOf(made, "pages[1]"), [/its template \{\{ container_name \}\} cannot be resolved/]);
  matchObject(t, reasonsOf(made, "unset"), [/its template \{\{ get_env.*NEVER_SET.* cannot be resolved/]);
  matchObject(t, reasonsOf(made, "shop/database"), [
    /its group cellar is in no file/,
    /its notification pager is in no file/,
  ]);
  matchObject(t, reasonsOf(made, "status"), [/status pages of AutoKuma are not carried over/]);
  matchObject(t, reasonsOf(made, "Container"), [
    /agents that are started with --docker/,
    /its retries are confirmations/,
  ]);
  t.throws(() => readAutoKuma(join(folder, "apps.toml"), undefined), /is no folder/);
  t.throws(() => readAutoKuma(t.testdir({ "a.toml": "name = " }), undefined), /a\.toml cannot be read/);
  t.end();
});

t.test("jobs of other exporters, and files of targets that are elsewhere, do not end the import", (t) => {
  const folder = t.testdir({
    "blackbox.yml": "modules: {http_2xx: {prober: http}}",
    "prometheus.yml":
      "scrape_configs:\n" +
      "- {job_name: snmp, metrics_path: /snmp, params: {module: [if_mib]}, " +
      "static_configs: [{targets: [192.0.2.1]}]}\n" +
      "- job_name: web\n  metrics_path: /probe\n  params: {module: [http_2xx]}\n" +
      "  file_sd_configs: [{files: [/etc/prometheus/targets/*.yml]}]\n" +
      "  static_configs: [{targets: [https://example.org]}]\n",
  });
  const made = importBlackbox(readBlackbox(join(folder, "blackbox.yml"), join(folder, "prometheus.yml")), "blackbox");
  t.strictSame(Object.keys(objectsOf(made, "monitors")), ["https-example-org"]);
  matchObject(t, reasonsOf(made, "snmp"), [/another exporter/]);
  matchObject(t, reasonsOf(made, "web"), [/cannot be read here: \/etc\/prometheus/]);
  t.end();
});

t.test("blackbox_exporter's example.yml: each target of each module", (t) => {
  const data = readBlackbox(join(fixtures, "blackbox/example.yml"), join(fixtures, "blackbox/prometheus.yml"));
  const made = importBlackbox(data, "blackbox");
  t.strictSame(faultsOf(made), []);
  const unused = Object.keys(data.modules).filter((name) => !data.targets.some(({ module }) => module === name));
  t.strictSame(unused, ["http_gzip"]);
  t.equal(countOf(made), data.targets.length + unused.length + data.otherJobs.length);
  t.ok(data.targets.length > 25);
  const monitors = Object.values(objectsOf(made, "monitors"));
  const byJob = (job: string) => monitors.find(({ tags }) => (tags as string[]).includes(`job:${job}`));
  matchObject(t, byJob("http_2xx_example"), {
    interval: 30,
    tags: ["job:http_2xx_example", "team:web"],
    check: {
      expected_body_not_matches: "Could not connect to database",
      expected_headers: [
        { name: "Access-Control-Allow-Origin", op: "matches" },
        { name: "Set-Cookie", op: "absent" },
      ],
      timeout: 5000,
    },
  });
  matchObject(t, byJob("http_basic_auth_example"), {
    check: { method: "POST", basic_auth: ["username", /^\$\{BLACKBOX_/] },
  });
  matchObject(t, byJob("smtp_starttls"), { check: { type: "tcp", tls: "starttls_smtp", port: 25 } });
  matchObject(t, byJob("imap_starttls"), { check: { tls: "starttls_imap" } });
  matchObject(t, byJob("postgresql"), { check: { tls: "starttls_postgres" } });
  matchObject(t, byJob("irc_banner_example"), {
    check: { send: "NICK prober\\nUSER prober prober prober :prober\\n", expect: "PING :" },
  });
  matchObject(t, byJob("icmp_example"), { interval: 10, check: { type: "ping" } });
  matchObject(
    t,
    monitors.filter(({ tags }) => (tags as string[]).includes("team:dns")).map(({ check }) => check),
    [{ resolver: "9.9.9.9", record_type: "SOA" }, { resolver: "[2620:fe::fe]:5353" }],
  );
  const imported = (target: string, prober: string, module: object) =>
    objectsOf(
      importBlackbox(
        {
          modules: { m: { prober, [prober]: module } },
          targets: [{ job: "j", module: "m", target, labels: {}, interval: "1m", notes: [] }],
          otherJobs: [],
        },
        "blackbox",
      ),
      "monitors",
    );
  const strict = { ip_protocol_fallback: false };
  for (const [target, prober, module, check] of [
    ["9.9.9.9", "dns", { query_name: "x.org", valid_rcodes: ["NXDOMAIN"] }, { expected_rcode: "NXDOMAIN" }],
    ["ns1.x.org:5353", "dns", { query_name: "x.org" }, { resolver: "ns1.x.org:5353", expected_rcode: undefined }],
    ["9.9.9.9", "dns", { query_name: "x.org", valid_rcodes: ["NOERROR", "NXDOMAIN"] }, { expected_rcode: undefined }],
    ["x.org:25", "tcp", { preferred_ip_protocol: "ip4", ...strict }, { ip_version: "4" }],
    ["https://x.org", "http", strict, { ip_version: "6" }],
    ["192.0.2.1", "icmp", strict, { ip_version: undefined }],
    ["x.org", "icmp", { preferred_ip_protocol: "ip4" }, { ip_version: undefined }],
  ] as const)
    matchObject(
      t,
      Object.values(imported(target, prober, module))[0],
      { check },
      `${prober} ${JSON.stringify(module)}`,
    );
  for (const job of ["http_with_proxy", "http_2xx_oauth_client_credentials", "unix_socket_ping"])
    t.notOk(byJob(job), job);
  t.end();
});

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { importKuma, type KumaData } from "./kuma.ts";
import { readKuma } from "./read/kuma.ts";
import { noProgress } from "../shell/output.ts";
import { SqliteFile } from "./read/sqlite.ts";
import { reportMarkdown } from "./report.ts";
import { countOf, faultsOf, objectsOf, reasonsOf } from "./testing.ts";

const fixtures = join(import.meta.dirname, "../../../../test/fixtures/kuma");
const folder = mkdtempSync(join(tmpdir(), "kuma-"));
t.teardown(() => rmSync(folder, { recursive: true, force: true }));
const unpack = (name: string, as = name): string => {
  const path = join(folder, as);
  writeFileSync(path, gunzipSync(readFileSync(join(fixtures, `${name}.gz`))));
  return path;
};
const wanted = { stopped: false, history: true };

t.test("a database of a real Uptime Kuma 2.5, with its log: everything is carried over or listed", (t) => {
  const path = unpack("kuma.db");
  t.throws(() => readKuma(path, wanted, noProgress), /no .*kuma\.db-wal beside it.*--stopped/);
  const beatsOf = (stopped: boolean): number => {
    const file = new SqliteFile(path, { stopped });
    const { length } = file.all("heartbeat");
    file.close();
    return length;
  };
  t.equal(beatsOf(true), 357);
  unpack("kuma.db-wal");
  const data = readKuma(path, wanted, noProgress);
  t.equal(data.monitors.length, 23);
  t.equal(beatsOf(false), 360, "three are in the log only");
  const made = importKuma(data, "kuma");
  const parts = [data.monitors, data.notifications, data.status_pages, data.maintenance, data.incidents, data.proxies];
  t.equal(countOf(made), parts.flat().length);
  t.strictSame(faultsOf(made), []);
  const again = importKuma(readKuma(path, wanted, noProgress), "kuma");
  t.equal(JSON.stringify([again, [...again.env]]), JSON.stringify([made, [...made.env]]), "same input, same bytes");
  const secrets = [
    ...JSON.stringify([...data.monitors, ...data.notifications]).matchAll(/[A-Za-z0-9.]*Secret[A-Za-z0-9]*/g),
  ];
  t.ok(secrets.length > 8);
  const texts = JSON.stringify(made.document) + reportMarkdown(made.report) + JSON.stringify(made.history);
  for (const [secret] of secrets) t.notOk(texts.includes(secret), `${secret} is in the file of variables alone`);
  t.equal(made.env.get("KUMA_BASIC_BASIC_AUTH_1"), "BasicSecret");

  const { monitors, maintenance, status_pages: pages } = made.document as Record<string, Record<string, object>>;
  matchObject(t, monitors!["shop"], {
    tags: ["group/Web", "env:production", "team"],
    alerts: ["ops-slack", "mail-ops-example-org", "mail-night-example-org"],
    alert_confirmations: 3,
    renotify_interval_secs: 200,
  });
  matchObject(t, monitors!["web"], { check: { type: "group", members: [{ monitor: "shop" }, { monitor: "flaky" }] } });
  matchObject(t, monitors!["api-with-codes"], { check: { expected_status: { kind: "one_of" } } });
  matchObject(t, monitors!["admin"], {
    check: { url: "https://admin.example.org/", basic_auth: ["root", /^\$\{KUMA_/] },
  });
  matchObject(t, monitors!["json"], { check: { expected_json: [{ path: "$.status", op: "eq", value: "ok" }] } });
  matchObject(t, monitors!["no-error"], { check: { expected_body_absent: "error" } });
  matchObject(t, monitors!["backup"], { check: { period: 86_400_000 }, heartbeat_addresses: [{ kind: "kuma" }] });
  matchObject(t, monitors!["paused"], { enabled: false });
  matchObject(t, pages!["acme"], {
    components: [{ monitor: "shop", public_group: "Shop" }, { monitor: "flaky" }, { monitor: "router" }],
  });
  matchObject(t, pages!["2nd"], { slug: "2nd" });
  matchObject(t, maintenance!["upgrade"], {
    starts_at: "2026-12-05T21:00:00.000Z",
    ends_at: "2026-12-06T00:00:00.000Z",
  });
  matchObject(t, maintenance!["weekly"], {
    starts_at: "2026-12-03T01:00:00.000Z",
    recurrence: { rule: "FREQ=WEEKLY;BYDAY=MO,TH", time_zone: "Europe/Berlin" },
  });
  const past = made.history!.items.find(({ monitor }) => monitor === "flaky");
  matchObject(t, past, {
    incidents: [{ started_at: "2026-11-23T13:26:58.787Z", ended_at: "2026-11-23T13:27:38.788Z" }, {}],
    days: [{ date: "2026-11-23", up: 4 }],
  });
  const markdown = reportMarkdown(made.report);
  t.match(markdown, /^The project is kuma\. Import a second .* --project kuma-2$/m);
  t.ok(markdown.indexOf("Old Teams") < markdown.indexOf("Container"), "what is silent comes first");
  t.end();
});

t.test("a monitor that is set by hand is a component of its pages, and is listed where it is on none", (t) => {
  const data = readKuma(unpack("kuma.db", "manual.db"), { stopped: true, history: false }, noProgress);
  const hand = data.monitors.find((monitor) => monitor["type"] === "manual")!;
  const [group] = data.groups;
  const pair = { id: 900, monitor_id: hand["id"], group_id: group!["id"], weight: 900 };
  const shown = (status: number): unknown =>
    (
      importKuma(
        {
          ...data,
          monitors: data.monitors.map((one) => (one === hand ? { ...one, manual_status: status } : one)),
          monitor_group: [...data.monitor_group, pair],
        },
        "kuma",
      ).document["status_pages"] as Record<string, { components: Record<string, unknown>[] }>
    )["acme"]!.components.find((component) => component["manual"] === true);
  const component = { manual: true, public_name: "Hand", public_group: group!["name"] };
  t.strictSame(shown(0), { ...component, state: "major_outage" });
  matchObject(t, shown(1), { ...component, state: "operational" });
  matchObject(t, shown(3), { state: "maintenance" });
  matchObject(t, reasonsOf(importKuma(data, "kuma"), "Hand"), [/set manually, and on no page/]);
  t.end();
});

t.test("the backup of 1.x, and values that nobody expects", (t) => {
  const backup = join(folder, "backup.json");
  const common = { interval: 60, maxretries: 0, accepted_statuscodes: ["200-299"], active: true };
  const monitors = [
    {
      ...common,
      id: 1,
      name: "Web",
      type: "http",
      url: "https://example.org",
      ignoreTls: true,
      notificationIDList: { 1: true },
      tags: [{ name: "env", value: "x" }],
    },
    { ...common, id: 2, name: "__proto__", type: "constructor" },
    { ...common, id: 3, name: "\u0000\u202e", type: "http", url: "javascript:alert(1)" },
    {
      ...common,
      id: 4,
      name: "a".repeat(100_000),
      type: "keyword",
      url: "https://example.org/${HOME}",
      keyword: "${SM_TOKEN}",
    },
    { id: 5, type: "push", pushToken: {}, interval: "1e400", parent: 5 },
    {
      ...common,
      id: 6,
      name: "Loop",
      type: "http",
      url: "https://example.org",
      parent: 7,
      timeout: 1e9,
      headers: '{"__proto__":"x","LD_PRELOAD":"y\\u0000"}',
    },
    { ...common, id: 7, name: "Loop", type: "group", parent: 6 },
    { ...common, id: 8, name: "Port", type: "port", hostname: "-rf", port: 99_999 },
    {
      ...common,
      id: 9,
      name: "[x](javascript:1)",
      type: "dns",
      hostname: "example.org",
      dns_resolve_server: "one.one.one.one",
      accepted_statuscodes: null,
    },
  ];
  const notifications = [
    { id: 1, name: "Hook", config: '{"type":"webhook","webhookURL":"http://10.0.0.1/x"}', isDefault: true },
    { id: 2, name: "Odd", config: "{" },
    { id: 3, name: "Mail", config: '{"type":"smtp","smtpTo":"a@example.org; B <b@example.org>,nobody"}' },
  ];
  writeFileSync(backup, JSON.stringify({ version: "1.23.16", notificationList: notifications, monitorList: monitors }));
  const made = importKuma(readKuma(backup, wanted, noProgress), "kuma");
  t.equal(countOf(made), monitors.length + notifications.length);
  t.strictSame(faultsOf(made), []);
  const written = made.document["monitors"] as Record<string, { check: object }>;
  matchObject(t, written["web"], {
    check: { verify_tls: false },
    tags: ["env:x"],
    alerts: ["hook"],
    alert_confirmations: 1,
  });
  matchObject(
    t,
    Object.values(written).map(({ check }) => check),
    [
      { type: "http", url: "https://example.org" },
      { url: "https://example.org/$${HOME}", expected_body_contains: "$${SM_TOKEN}" },
      { type: "heartbeat", period: 60_000 },
      { type: "http", headers: JSON.parse('{"__proto__":"${KUMA_LOOP_HEADERS_PROTO_}"}') },
      { type: "dns", domain: "example.org", resolver: "one.one.one.one" },
      { type: "group", members: [{ monitor: "loop" }], rule: "all" },
    ],
  );
  t.notOk([...made.env.keys()].some((name) => /^(?:LD_|SM_|PATH$)/.test(name)));
  t.notMatch(reportMarkdown(made.report), /^.*(?<!\\)\[x\]\(/m, "names are no markup");
  writeFileSync(backup, '{"monitorList": 5}');
  t.throws(() => readKuma(backup, wanted, noProgress), /no monitorList/);
  t.end();
});

t.test("windows on the edges of their rules", (t) => {
  const nothing = readKumaOf([]);
  const weekly = {
    id: 1,
    title: "W",
    active: 1,
    timezone: "America/New_York",
    start_date: "2026-03-01 00:00:00",
    start_time: "02:30",
    end_time: "01:00",
  };
  const made = importKuma(
    {
      ...nothing,
      monitors: [{ id: 1, name: "M", type: "port", hostname: "example.org", port: 1 }],
      maintenance: [
        { ...weekly, strategy: "recurring-weekday", weekdays: "[0]", end_date: "2026-12-31 00:00:00" },
        { ...weekly, id: 2, title: "Month", strategy: "recurring-day-of-month", days_of_month: '[31,"lastDay1"]' },
        { ...weekly, id: 3, title: "Zone", strategy: "single", timezone: "Mars/Olympus" },
        { ...weekly, id: 4, title: "Cron", strategy: "cron", cron: "*/5 * * * *", duration: 60 },
        { ...weekly, id: 5, title: "Off", active: 0, strategy: "single" },
      ],
      monitor_maintenance: [1, 2, 3, 4, 5].map((id) => ({ maintenance_id: id, monitor_id: 1 })),
    },
    "kuma",
  );
  matchObject(t, made.document["maintenance"], {
    w: {
      starts_at: "2026-03-01T07:30:00.000Z",
      ends_at: "2026-03-02T06:00:00.000Z",
      recurrence: { rule: "FREQ=WEEKLY;BYDAY=SU;UNTIL=20261231" },
    },
    month: { starts_at: "2026-03-31T06:30:00.000Z", recurrence: { rule: "FREQ=MONTHLY" } },
  });
  matchObject(t, made.report.counts, { not_carried_over: 3, carried_over_differently: 1 });
  t.end();
});

function readKumaOf(monitors: object[]): KumaData {
  const path = join(folder, "empty.json");
  writeFileSync(path, JSON.stringify({ monitorList: monitors }));
  return readKuma(path, wanted, noProgress);
}

t.test("a monitor of Kuma with a client certificate is taken over, paused, with what is missing", (t) => {
  const backup = join(t.testdir(), "backup.json");
  const mtls = {
    type: "http",
    active: true,
    url: "https://example.org/",
    authMethod: "mtls",
    tlsCert: "x",
    tlsKey: "y",
  };
  const monitorList = [
    { ...mtls, id: 1, name: "A", interval: 60 },
    { ...mtls, id: 2, name: "B", interval: 60, tlsCa: "z" },
  ];
  writeFileSync(backup, JSON.stringify({ version: "1.23.16", notificationList: [], monitorList }));
  const made = importKuma(readKuma(backup, wanted, noProgress), "kuma");
  t.strictSame(faultsOf(made), []);
  matchObject(t, objectsOf(made, "monitors"), { a: { enabled: false }, b: { enabled: false } });
  t.match(reasonsOf(made, "A").join(), /shows a client certificate \(tlsCert, tlsKey\).*certificates\.client_id\)/);
  t.match(reasonsOf(made, "B").join(), /\(tlsCert, tlsKey, tlsCa\).*certificates\.client_id and certificates\.ca_id/);
  t.end();
});

t.test("certificates of Kuma are one monitor a server; a timeout that follows from the interval is noted", (t) => {
  const backup = join(t.testdir(), "backup.json");
  const http = { type: "http", active: true, url: "https://example.org/a", expiryNotification: true };
  const domain = { interval: 60, domainExpiryNotification: true };
  const monitors = [
    { ...http, id: 1, name: "A", interval: 600, ipFamily: "ipv4" },
    { ...http, id: 2, name: "B", interval: 60, url: "https://example.org/b" },
    { ...http, id: 3, name: "C", interval: 60, url: "https://example.org:8443/" },
    { ...http, id: 4, name: "D", url: "http://www.example.org/", expiryNotification: false, ...domain },
    { ...http, id: 5, name: "E", url: "http://example.org/", expiryNotification: false, ...domain },
    { ...http, id: 6, name: "F", url: "http://x.github.io/", expiryNotification: false, ...domain },
    { ...http, id: 7, name: "G", url: "http://192.0.2.1/", expiryNotification: false, ...domain },
  ];
  writeFileSync(backup, JSON.stringify({ version: "1.23.16", notificationList: [], monitorList: monitors }));
  const made = importKuma(readKuma(backup, wanted, noProgress), "kuma");
  t.strictSame(faultsOf(made), []);
  matchObject(t, objectsOf(made, "monitors"), {
    a: { check: { timeout: 60_000 } },
    b: { check: { timeout: 48_000 } },
    "example-org-443-certificate": {
      interval: 86_400,
      check: { type: "tls_cert", host: "example.org", port: 443, warn_days: 21, critical_days: 7 },
    },
    "example-org-8443-certificate": { check: { port: 8443 } },
  });
  matchObject(t, objectsOf(made, "monitors"), {
    "example-org-domain": { interval: 86_400, check: { type: "domain_expiry", domain: "www.example.org" } },
  });
  t.equal(Object.keys(objectsOf(made, "monitors")).length, 10, "one domain, and none of a hosting suffix or address");
  matchObject(
    t,
    reasonsOf(made, "F").filter((reason) => reason.includes("left out")),
    [/^the monitor github\.io domain is left out: .*not registered separately/],
  );
  t.match(reasonsOf(made, "A").join(), /its timeout is 60 s/);
  t.end();
});

import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import t from "tap";
import { importBetterStack } from "./betterstack.ts";
import { importHealthchecks } from "./healthchecks.ts";
import { importPingdom } from "./pingdom.ts";
import { readBetterStack, readHealthchecks, readPingdom, readStatuspage, readUptimeRobot } from "./read/hosts.ts";
import { noProgress } from "./read/progress.ts";
import { importStatuspage } from "./statuspage.ts";
import { countOf, faultsOf, objectsOf, reasonsOf } from "./testing.ts";
import { importUptimeRobot } from "./uptimerobot.ts";

/* Hosts of others are faked: their paths, paging, limits and shapes, as formats of their clients describe them. */

const keys = ["UPTIMEROBOT_API_KEY", "BETTERSTACK_API_TOKEN", "PINGDOM_API_TOKEN", "STATUSPAGE_API_KEY"];
for (const name of [...keys, "HEALTHCHECKS_API_KEY"]) process.env[name] = `key-of-${name}`;

type Reply = object | number | { status: number; headers?: Record<string, string>; body?: string };

/** A host that answers by path, and records what it was asked. */
async function host(answer: (url: URL, request: IncomingMessage) => Reply) {
  const asked: string[] = [];
  const server: Server = createServer((request, response) => {
    const url = new URL(request.url ?? "/", "http://x");
    asked.push(`${request.method} ${request.url}`);
    const reply = answer(url, request);
    const { status, headers, body } =
      typeof reply === "number"
        ? { status: reply, headers: {}, body: "" }
        : "status" in reply && typeof reply.status === "number"
          ? { headers: {}, body: "", ...reply }
          : { status: 200, headers: {}, body: JSON.stringify(reply) };
    response.writeHead(status, headers).end(body);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.teardown(() => server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked };
}

t.test("UptimeRobot: pages, a limit, and every kind", async (t) => {
  const common = {
    interval: 60,
    timeout: 30,
    status: "UP",
    tags: [{ id: 1, name: "prod" }],
    assignedAlertContacts: [{ alertContactId: 1, threshold: 0, recurrence: 5 }],
  };
  const monitors = [
    {
      ...common,
      id: 1,
      friendlyName: "Site",
      type: "HTTP",
      url: "https://example.org",
      httpMethodType: "GET",
      successHttpResponseCodes: ["2xx", "301"],
      checkSSLErrors: true,
      sslExpirationReminder: true,
      customHttpHeaders: { "X-Key": "s3cret" },
    },
    {
      ...common,
      id: 2,
      friendlyName: "No error",
      type: "KEYWORD",
      url: "https://example.org",
      keywordType: "ALERT_EXISTS",
      keywordValue: "Error",
      keywordCaseType: 1,
    },
    {
      ...common,
      id: 3,
      friendlyName: "Word",
      type: "KEYWORD",
      url: "https://example.org",
      keywordType: "ALERT_NOT_EXISTS",
      keywordValue: "ok",
      keywordCaseType: 0,
      authType: "HTTP_BASIC",
      httpUsername: "joe",
      httpPassword: "***",
    },
    { ...common, id: 4, friendlyName: "Ping", type: "PING", url: "example.org" },
    { ...common, id: 5, friendlyName: "Mail", type: "PORT", url: "mail.example.org", port: 25, status: "PAUSED" },
    {
      ...common,
      id: 6,
      friendlyName: "Job",
      type: "HEARTBEAT",
      url: "https://heartbeat.uptimerobot.com/m1-x",
      interval: 3600,
      gracePeriod: 600,
    },
    {
      ...common,
      id: 7,
      friendlyName: "Zone",
      type: "DNS",
      url: "example.org",
      config: { dnsRecords: { MX: ["mx.example.org"] } },
    },
    { ...common, id: 8, friendlyName: "Datagram", type: "UDP", url: "example.org", port: 53 },
    { ...common, id: 9, friendlyName: "Digest", type: "HTTP", url: "https://example.org", authType: "DIGEST" },
    { ...common, id: 10, friendlyName: null, type: 5, url: {} },
  ];
  let limited = 1;
  const { url, asked } = await host((at, request) => {
    if (request.headers.authorization !== "Bearer key-of-UPTIMEROBOT_API_KEY") return 401;
    if (at.pathname === "/v3/psps")
      return {
        data: [
          { id: 1, friendlyName: "Acme", urlKey: "Acme-Status", monitorIds: [1, 4, 8], customDomain: "s.example.org" },
        ],
        nextLink: null,
      };
    if (at.pathname === "/v3/maintenance-windows")
      return {
        data: [{ id: 1, name: "Night", interval: "weekly", days: ["mon", "fri"], time: "02:00", duration: 90 }],
      };
    if (at.searchParams.get("cursor") === null)
      return { data: monitors.slice(0, 5), nextLink: `http://${request.headers.host}/v3/monitors?cursor=5` };
    if (limited-- > 0) return { status: 429, headers: { "retry-after": "1" } };
    return { data: monitors.slice(5), nextLink: null };
  });
  const data = await readUptimeRobot({ apiUrl: `${url}/v3` }, noProgress);
  t.equal(data.monitors.length, 10);
  t.ok(
    asked.every((one) => one.startsWith("GET ")),
    "nothing but reads",
  );
  const made = importUptimeRobot(data, "uptimerobot");
  t.strictSame(faultsOf(made), []);
  t.equal(countOf(made), 12);
  t.match(objectsOf(made, "monitors"), {
    site: {
      tags: ["prod"],
      renotify_interval_secs: 300,
      check: { expected_status: { kind: "one_of" }, headers: { "X-Key": "${UPTIMEROBOT_SITE_HEADERS_X_KEY}" } },
    },
    "no-error": { check: { expected_body_absent: "Error", body_case_insensitive: true } },
    word: { check: { expected_body_contains: "ok" } },
    mail: { enabled: false, check: { type: "tcp", port: 25 } },
    job: { check: { period: 3_600_000, grace: 600_000 } },
    zone: { check: { record_type: "MX", expected_contains: "mx.example.org" } },
  });
  t.match(objectsOf(made, "status_pages")["acme-status"], { components: [{ monitor: "site" }, { monitor: "ping" }] });
  t.match(reasonsOf(made, "Word"), [/alert contacts/, /password is not readable/]);
});

t.test("Better Stack: kinds, units of timeouts, heartbeats and pages", async (t) => {
  const monitor = (id: number, attributes: object) => ({
    id: String(id),
    type: "monitor",
    attributes: { check_frequency: 30, confirmation_period: 60, paused: false, ...attributes },
  });
  const lists: Record<string, object[]> = {
    monitors: [
      monitor(1, {
        pronounceable_name: "Site",
        url: "https://example.org",
        monitor_type: "expected_status_code",
        expected_status_codes: [200, 204],
        request_timeout: 15,
        policy_id: "1",
        monitor_group_id: 9,
      }),
      monitor(2, {
        pronounceable_name: "Mail",
        url: "mail.example.org",
        monitor_type: "smtp",
        port: "25,465",
        request_timeout: 5000,
      }),
      monitor(3, {
        pronounceable_name: "Absent",
        url: "https://example.org",
        monitor_type: "keyword_absence",
        required_keyword: "error",
        paused: true,
      }),
      monitor(4, {
        pronounceable_name: "Zone",
        url: "9.9.9.9",
        monitor_type: "dns",
        request_body: "example.org",
        request_timeout: 3000,
      }),
      monitor(5, { pronounceable_name: "Browser", url: "https://example.org", monitor_type: "playwright" }),
    ],
    heartbeats: [
      {
        id: "7",
        attributes: {
          name: "Backup",
          period: 86_400,
          grace: 600,
          url: "https://uptime.betterstack.com/api/v1/heartbeat/abcdefgh12345678",
        },
      },
    ],
    "monitor-groups": [{ id: "9", attributes: { name: "Shop" } }],
    "status-pages": [{ id: "3", attributes: { company_name: "Acme", subdomain: "acme", custom_domain: null } }],
    resources: [
      { id: "1", attributes: { resource_type: "Monitor", resource_id: 1, public_name: "Shop" } },
      { id: "2", attributes: { resource_type: "Heartbeat", resource_id: 7 } },
      { id: "3", attributes: { resource_type: "Monitor", resource_id: 5 } },
    ],
  };
  const { url } = await host((at, request) => {
    const name = at.pathname.split("/").at(-1)!;
    const page = Number(at.searchParams.get("page") ?? 1);
    const all = lists[name]!;
    const next = page * 3 < all.length ? `http://${request.headers.host}${at.pathname}?page=${page + 1}` : null;
    return { data: all.slice((page - 1) * 3, page * 3), pagination: { next } };
  });
  const made = importBetterStack(await readBetterStack({ apiUrl: url }, noProgress), "betterstack");
  t.strictSame(faultsOf(made), []);
  t.equal(countOf(made), 7);
  t.match(objectsOf(made, "monitors"), {
    site: {
      interval: 30,
      alert_confirmations: 3,
      tags: ["group/Shop"],
      check: { timeout: 15_000, expected_status: { value: [200, 204] } },
    },
    "mail-1": { check: { port: 25, tls: "none", timeout: 5000 } },
    "mail-2": { check: { port: 465, tls: "tls" } },
    absent: { enabled: false, check: { expected_body_absent: "error" } },
    zone: { check: { domain: "example.org", resolver: "9.9.9.9", timeout: 3000 } },
    backup: { heartbeat_addresses: [{ kind: "better_stack" }] },
  });
  t.match(objectsOf(made, "status_pages")["acme"], {
    components: [{ monitor: "site", public_name: "Shop" }, { monitor: "backup" }],
  });
});

t.test("Pingdom: one request for each check", async (t) => {
  const details: Record<string, object> = {
    1: {
      id: 1,
      name: "Site",
      hostname: "example.org",
      resolution: 5,
      sendnotificationwhendown: 3,
      notifyagainevery: 2,
      notifywhenbackup: true,
      type: {
        http: {
          url: "/health",
          encryption: true,
          port: 443,
          shouldcontain: "ok",
          username: "joe",
          password: "s3cret",
          requestheaders: { "User-Agent": "Pingdom.com_bot_version_1.4", Accept: "text/html" },
        },
      },
    },
    2: {
      id: 2,
      name: "Redis",
      hostname: "redis.example.org",
      resolution: 1,
      type: { tcp: { port: 6379, stringtosend: "PING", stringtoexpect: "PONG" } },
      userids: [1],
    },
    3: { id: 3, name: "Path", hostname: "example.org", resolution: 1, type: { transaction: {} } },
  };
  const { url } = await host((at) => {
    const id = /\/checks\/(\d+)$/.exec(at.pathname)?.[1];
    if (id !== undefined) return { check: details[id] };
    if (at.pathname.endsWith("/maintenance"))
      return {
        maintenance: [
          {
            id: 1,
            description: "Weekly",
            from: 1_795_400_000,
            to: 1_795_403_600,
            recurrencetype: "week",
            repeatevery: 2,
            effectiveto: 1_800_000_000,
            checks: { uptime: [1], tms: [] },
          },
        ],
      };
    return {
      checks: Object.values(details).map((one) => ({
        ...one,
        type: "http",
        status: "up",
        tags: [{ name: "prod", type: "u", count: 1 }],
      })),
    };
  });
  const made = importPingdom(await readPingdom({ apiUrl: `${url}/api/3.1` }, noProgress), "pingdom");
  t.strictSame(faultsOf(made), []);
  t.equal(countOf(made), 4);
  t.match(objectsOf(made, "monitors"), {
    site: {
      interval: 300,
      alert_confirmations: 3,
      renotify_interval_secs: 600,
      tags: ["prod"],
      check: { url: "https://example.org/health", basic_auth: ["joe", /^\$\{/], headers: { Accept: "text/html" } },
    },
    redis: { check: { type: "tcp", port: 6379, send: "PING", expect: "PONG" } },
  });
  t.notMatch(JSON.stringify(made.document), /Pingdom\.com_bot|s3cret/);
  t.match(objectsOf(made, "maintenance")["weekly"], { recurrence: { rule: "FREQ=WEEKLY;INTERVAL=2;UNTIL=20270115" } });
});

t.test("Statuspage: each component is listed; addresses of people are not in the report", async (t) => {
  const components = Array.from({ length: 120 }, (_, at) => ({
    id: `c${at}`,
    name: `Part ${at}`,
    status: at === 5 ? "major_outage" : "operational",
    group: at === 0,
    group_id: at > 0 && at < 4 ? "c0" : null,
  }));
  const { url } = await host((at) => {
    const page = Number(at.searchParams.get("page") ?? 1);
    if (at.pathname.endsWith("/components")) return components.slice((page - 1) * 100, page * 100);
    if (at.pathname.endsWith("/incidents"))
      return [
        { id: "i", name: "Down", status: "resolved" },
        { id: "m", name: "Planned", status: "scheduled", scheduled_for: "2027-01-01T00:00:00Z" },
      ];
    if (at.pathname.endsWith("/subscribers"))
      return [
        { id: "s1", mode: "email", email: "anna@example.org" },
        { id: "s2", mode: "sms", phone_number: "1" },
      ];
    return {
      id: "p",
      name: "Acme",
      subdomain: "acme",
      domain: "status.example.org",
      page_description: "How we are doing",
    };
  });
  const made = importStatuspage(await readStatuspage({ apiUrl: url, page: "p" }, noProgress), "statuspage");
  t.equal(countOf(made), 1 + 120 + 2 + 2);
  t.strictSame(faultsOf(made), []);
  const page = objectsOf(made, "status_pages")["acme"]!;
  t.match(page, { slug: "acme", components: [], branding: { about: "How we are doing" } });
  t.match(reasonsOf(made, "Part 1"), [/a component shows a monitor here/]);
  t.notMatch(JSON.stringify(made), /anna@/);
});

t.test("healthchecks: periods, schedules and addresses; a read-only key is refused", async (t) => {
  const uuid = "6e1a4b7c-2f1d-4f3e-9a55-0c6f6a2b7d10";
  const common = { tags: "prod db", grace: 3600, status: "up", channels: "", methods: "", manual_resume: false };
  let checks: object[] = [
    { ...common, name: "Backup", uuid, timeout: 86_400, channels: "a,b", methods: "POST" },
    {
      ...common,
      name: "Cron",
      ping_url: `https://hc-ping.com/${uuid.replace("6e", "7e")}`,
      uuid: uuid.replace("6e", "7e"),
      schedule: "0 3 * * *",
      tz: "Europe/Berlin",
      status: "paused",
    },
    { ...common, name: "Calendar", uuid: uuid.replace("6e", "8e"), schedule: "Mon..Fri 09:00", tz: "UTC" },
  ];
  const { url } = await host((at, request) =>
    request.headers["x-api-key"] !== "key-of-HEALTHCHECKS_API_KEY"
      ? 401
      : at.pathname.endsWith("/channels/")
        ? { channels: [{ id: "a", name: "Ops", kind: "slack" }] }
        : { checks },
  );
  const made = importHealthchecks(await readHealthchecks({ apiUrl: url }), "healthchecks");
  t.strictSame(faultsOf(made), []);
  t.equal(countOf(made), 4);
  t.match(objectsOf(made, "monitors"), {
    backup: {
      tags: ["prod", "db"],
      check: { period: 86_400_000, grace: 3_600_000, methods: "post" },
      heartbeat_addresses: [{ kind: "healthchecks" }],
    },
    cron: { enabled: false, check: { schedule: { cron: "0 3 * * *", timezone: "Europe/Berlin" } } },
  });
  t.ok([...made.env.values()].includes(uuid));
  checks = [{ name: "Hidden", unique_key: "x" }];
  await t.rejects(readHealthchecks({ apiUrl: url }), /read-only/);
});

t.test("hosts that fail, and a key that goes nowhere else", async (t) => {
  const other = await host(() => ({ data: [] }));
  const cases: [string, Reply, RegExp][] = [
    ["a wrong key", 403, /refuses the key \(403\)/],
    [
      "a redirect",
      { status: 302, headers: { location: `${other.url}/` } },
      /redirects \(302\): the key is not sent on/,
    ],
    ["another origin", { data: [], nextLink: `${other.url}/monitors` }, /the key is not sent there/],
    ["no JSON", { status: 200, body: "<html>" }, /no JSON/],
    ["gone", 404, /answered 404/],
    ["an endless pause", { status: 429, headers: { "retry-after": "100000" } }, /answered 429/],
    ["an endless list", { data: [], nextLink: "/monitors?limit=200" }, /does not end/],
  ];
  for (const [name, reply, message] of cases) {
    const { url } = await host(() => reply);
    await t.rejects(readUptimeRobot({ apiUrl: url }, noProgress), message, name);
  }
  t.strictSame(other.asked, []);
  await t.rejects(readUptimeRobot({ apiUrl: "http://192.0.2.1" }, noProgress), /would travel unencrypted/);
  await t.rejects(readUptimeRobot({ apiUrl: "ftp://x" }, noProgress), /no http or https address/);
  delete process.env["UPTIMEROBOT_API_KEY"];
  await t.rejects(readUptimeRobot({ apiUrl: "https://api.uptimerobot.com/v3" }, noProgress), /set UPTIMEROBOT_API_KEY/);
});

import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { importBetterStack } from "./betterstack.ts";
import { importHealthchecks } from "./healthchecks.ts";
import { importPingdom } from "./pingdom.ts";
import { readBetterStack, readHealthchecks, readPingdom, readStatuspage, readUptimeRobot } from "./read/hosts.ts";
import { noProgress } from "../shell/output.ts";
import { importStatuspage } from "./statuspage.ts";
import {
  betterStack,
  fakeHost,
  healthchecks,
  healthchecksUuid,
  pingdom,
  type Reply,
  statuspage,
  uptimeRobot,
} from "./testing-hosts.ts";
import { countOf, faultsOf, objectsOf, reasonsOf } from "./testing.ts";
import { importUptimeRobot } from "./uptimerobot.ts";

/* Hosts of others are faked: their paths, paging, limits and shapes, as formats of their clients describe them. */

const keys = ["UPTIMEROBOT_API_KEY", "BETTERSTACK_API_TOKEN", "PINGDOM_API_TOKEN", "STATUSPAGE_API_KEY"];
for (const name of [...keys, "HEALTHCHECKS_API_KEY"]) process.env[name] = `key-of-${name}`;

t.test("UptimeRobot: pages, a limit, and every kind", async (t) => {
  const { url, asked } = await fakeHost(t, uptimeRobot());
  const data = await readUptimeRobot({ apiUrl: `${url}/v3` }, noProgress);
  t.equal(data.monitors.length, 10);
  t.ok(
    asked.every((one) => one.startsWith("GET ")),
    "nothing but reads",
  );
  const made = importUptimeRobot(data, "uptimerobot");
  t.strictSame(faultsOf(made), []);
  t.equal(countOf(made), 12);
  matchObject(t, objectsOf(made, "monitors"), {
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
  matchObject(t, objectsOf(made, "status_pages")["acme-status"], {
    components: [{ monitor: "site" }, { monitor: "ping" }],
  });
  matchObject(t, reasonsOf(made, "Word"), [/alert contacts/, /password is not readable/]);
});

t.test("Better Stack: kinds, units of timeouts, heartbeats and pages", async (t) => {
  const { url } = await fakeHost(t, betterStack());
  const made = importBetterStack(await readBetterStack({ apiUrl: url }, noProgress), "betterstack");
  t.strictSame(faultsOf(made), []);
  t.equal(countOf(made), 7);
  matchObject(t, objectsOf(made, "monitors"), {
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
  matchObject(t, objectsOf(made, "status_pages")["acme-stack"], {
    components: [{ monitor: "site", public_name: "Shop" }, { monitor: "backup" }],
  });
});

t.test("Pingdom: one request for each check", async (t) => {
  const { url } = await fakeHost(t, pingdom());
  const made = importPingdom(await readPingdom({ apiUrl: `${url}/api/3.1` }, noProgress), "pingdom");
  t.strictSame(faultsOf(made), []);
  t.equal(countOf(made), 4);
  matchObject(t, objectsOf(made, "monitors"), {
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
  matchObject(t, objectsOf(made, "maintenance")["weekly"], {
    recurrence: { rule: "FREQ=WEEKLY;INTERVAL=2;UNTIL=20270115" },
  });
});

t.test("Statuspage: each component is listed; addresses of people are not in the report", async (t) => {
  const { url } = await fakeHost(t, statuspage());
  const read = await readStatuspage({ apiUrl: url, page: "p" }, noProgress);
  const made = importStatuspage({ ...read, history: false }, "statuspage");
  t.equal(countOf(made), 1 + 120 + 2 + 5);
  t.strictSame(faultsOf(made), []);
  const page = objectsOf(made, "status_pages")["acme-page"]!;
  matchObject(t, page, { slug: "acme-page", branding: { about: "How we are doing" } });
  const components = page["components"] as object[];
  t.equal(components.length, 119, "its group is none");
  matchObject(t, components.slice(0, 5), [
    { manual: true, public_name: "Part 1", public_group: "Part 0", state: "operational" },
    { public_name: "Part 2", public_group: "Part 0" },
    { public_name: "Part 3" },
    { public_name: "Part 4", public_group: undefined },
    { public_name: "Part 5", state: "major_outage" },
  ]);
  matchObject(t, reasonsOf(made, "Part 1"), [/its state is set manually/]);
  matchObject(t, reasonsOf(made, "Part 0"), [/a group/]);
  t.notMatch(JSON.stringify(made), /@example/);
  matchObject(t, reasonsOf(made, "email s1"), [/with --history/]);
  const whole = importStatuspage({ ...read, history: true }, "statuspage");
  t.equal(countOf(whole), countOf(made));
  t.notMatch(JSON.stringify(whole.report), /@example/);
  matchObject(t, reasonsOf(whole, "email s4"), [/stopped sending/]);
  const part = (number: number, group: string | null = null) => ({ name: `Part ${number}`, group });
  t.strictSame(whole.history?.subscribers, [
    {
      page: "acme-page",
      source: "Statuspage",
      items: [
        { email: "anna@example.org", components: null },
        { email: "ben@example.org", components: [1, 2, 3].map((at) => part(at, "Part 0")).concat(part(5)) },
        { email: "dan@example.org", components: [] },
      ],
    },
  ]);
});

t.test("healthchecks: periods, schedules and addresses; a read-only key is refused", async (t) => {
  let isReadOnly = false;
  const { url } = await fakeHost(
    t,
    healthchecks(() => isReadOnly),
  );
  const made = importHealthchecks(await readHealthchecks({ apiUrl: url }), "healthchecks");
  t.strictSame(faultsOf(made), []);
  t.equal(countOf(made), 4);
  matchObject(t, objectsOf(made, "monitors"), {
    backup: {
      tags: ["prod", "db"],
      check: { period: 86_400_000, grace: 3_600_000, methods: "post" },
      heartbeat_addresses: [{ kind: "healthchecks" }],
    },
    cron: { enabled: false, check: { schedule: { cron: "0 3 * * *", timezone: "Europe/Berlin" } } },
  });
  t.ok([...made.env.values()].includes(healthchecksUuid));
  const check = (name: string, more: object) => ({ name, uuid: healthchecksUuid, tz: "UTC", ...more });
  const others = importHealthchecks(
    {
      checks: [
        check("steps", { schedule: "5/15 * * * *" }),
        check("beyond", { schedule: "*/100\t* * * *" }),
        check("by ping", { status: "paused" }),
        check("by hand", { status: "paused", manual_resume: true }),
        check("calendar", { schedule: "Sat *-*-1..7 04:00:00" }),
      ],
      channels: [],
    },
    "healthchecks",
  );
  t.strictSame(faultsOf(others), []);
  matchObject(t, objectsOf(others, "monitors"), {
    steps: { check: { schedule: { cron: "5/15 * * * *" } } },
    beyond: { check: { schedule: { cron: "*/100 * * * *" } } },
  });
  t.strictSame(
    ["steps", "beyond", "by ping", "by hand", "calendar"].map((name) => reasonsOf(others, name)),
    [
      [],
      [],
      ["a ping does not wake it while it is paused"],
      [],
      ["its schedule is an OnCalendar expression: write it as cron, or as a period"],
    ],
    "manual_resume is what happens here",
  );
  isReadOnly = true;
  await t.rejects(readHealthchecks({ apiUrl: url }), /read-only/);
});

t.test("hosts that fail, and a key that goes nowhere else", async (t) => {
  const other = await fakeHost(t, () => ({ data: [] }));
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
    const { url } = await fakeHost(t, () => reply);
    await t.rejects(readUptimeRobot({ apiUrl: url }, noProgress), message, name);
  }
  t.strictSame(other.asked, []);
  await t.rejects(readUptimeRobot({ apiUrl: "http://192.0.2.1" }, noProgress), /would be sent unencrypted/);
  await t.rejects(readUptimeRobot({ apiUrl: "ftp://x" }, noProgress), /no http or https address/);
  delete process.env["UPTIMEROBOT_API_KEY"];
  await t.rejects(readUptimeRobot({ apiUrl: "https://api.uptimerobot.com/v3" }, noProgress), /set UPTIMEROBOT_API_KEY/);
});

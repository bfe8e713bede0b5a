import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";

/* Hosts of others are faked: their paths, paging, limits and shapes, as formats of their clients describe them. */

export type Reply = object | number | { status: number; headers?: Record<string, string>; body?: string };
export type Answer = (url: URL, request: IncomingMessage) => Reply;

/** A host that answers by path, and records what it was asked. */
export async function fakeHost(t: { teardown(end: () => void): void }, answer: Answer) {
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

/** UptimeRobot, API v3. Its second page is refused once. */
export function uptimeRobot(): Answer {
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
    {
      ...common,
      id: 9,
      friendlyName: "Digest",
      type: "HTTP",
      url: "https://example.org",
      authType: "DIGEST",
      httpUsername: "me",
    },
    { ...common, id: 10, friendlyName: null, type: 5, url: {} },
  ];
  let limited = 1;
  return (at, request) => {
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
  };
}

/** Better Stack, API v2 of uptime, three items a page. */
export function betterStack(): Answer {
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
    "status-pages": [{ id: "3", attributes: { company_name: "Acme", subdomain: "acme-stack", custom_domain: null } }],
    resources: [
      { id: "1", attributes: { resource_type: "Monitor", resource_id: 1, public_name: "Shop" } },
      { id: "2", attributes: { resource_type: "Heartbeat", resource_id: 7 } },
      { id: "3", attributes: { resource_type: "Monitor", resource_id: 5 } },
    ],
  };
  return (at, request) => {
    const name = at.pathname.split("/").at(-1)!;
    const page = Number(at.searchParams.get("page") ?? 1);
    const all = lists[name]!;
    const next = page * 3 < all.length ? `http://${request.headers.host}${at.pathname}?page=${page + 1}` : null;
    return { data: all.slice((page - 1) * 3, page * 3), pagination: { next } };
  };
}

/** Pingdom, API 3.1. */
export function pingdom(): Answer {
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
  return (at) => {
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
  };
}

/** Statuspage, API v1. */
export function statuspage(): Answer {
  const components = Array.from({ length: 120 }, (_, at) => ({
    id: `c${at}`,
    name: `Part ${at}`,
    status: at === 5 ? "major_outage" : "operational",
    position: at + 1,
    group: at === 0,
    group_id: at > 0 && at < 4 ? "c0" : null,
  }));
  return (at) => {
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
        { id: "s3", mode: "email", email: "ben@example.org", components: ["c0", "c5"] },
        { id: "s4", mode: "email", email: "cleo@example.org", quarantined_at: "2026-01-01T00:00:00Z" },
        { id: "s5", mode: "email", email: "dan@example.org", components: ["gone"] },
      ];
    return {
      id: "p",
      name: "Acme",
      subdomain: "acme-page",
      domain: "status.example.org",
      page_description: "How we are doing",
    };
  };
}

export const healthchecksUuid = "6e1a4b7c-2f1d-4f3e-9a55-0c6f6a2b7d10";

/** healthchecks, API v3; a read-only key hides the addresses. */
export function healthchecks(isReadOnly: () => boolean = () => false): Answer {
  const common = { tags: "prod db", grace: 3600, status: "up", channels: "", methods: "", manual_resume: false };
  const checks: object[] = [
    { ...common, name: "Backup", uuid: healthchecksUuid, timeout: 86_400, channels: "a,b", methods: "POST" },
    {
      ...common,
      name: "Cron",
      ping_url: `https://hc-ping.com/${healthchecksUuid.replace("6e", "7e")}`,
      uuid: healthchecksUuid.replace("6e", "7e"),
      schedule: "0 3 * * *",
      tz: "Europe/Berlin",
      status: "paused",
    },
    { ...common, name: "Calendar", uuid: healthchecksUuid.replace("6e", "8e"), schedule: "Mon..Fri 09:00", tz: "UTC" },
  ];
  return (at, request) =>
    request.headers["x-api-key"] !== "key-of-HEALTHCHECKS_API_KEY"
      ? 401
      : at.pathname.endsWith("/channels/")
        ? { channels: [{ id: "a", name: "Ops", kind: "slack" }] }
        : { checks: isReadOnly() ? [{ name: "Hidden", unique_key: "x" }] : checks };
}

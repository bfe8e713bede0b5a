import { randomBytes } from "node:crypto";
import { crc32, deflateSync } from "node:zlib";
import type { Sql } from "postgres";
import { makeSealer } from "@statusmesh/control-plane/platform/crypto/seal";
import { hashToken } from "@statusmesh/control-plane/platform/crypto/token";
import { newId } from "@statusmesh/shared/ids";
import type { Client, Json } from "../harness/api.ts";
import { castIn, type Person, sessionOf, tokenOf } from "../harness/cast.ts";
import { type Home, make } from "./isolation/things.ts";
import { goodBodies } from "./bodies.ts";
import { type Case, refusedBody } from "./refused.ts";

/** Fixtures of the cases below. */
export interface Stage {
  sql: Sql;
  olga: Person;
  milan: Person;
  /** Clients of a service that lets checks reach private addresses and has an operator. */
  asking: (token: string) => Client;
  signedIn: Client;
  anonymous: Client;
  operator: Client;
  target: Json;
  page: Json;
  /** A maintenance window that is over. */
  pastWindow: Json;
  /** A target with an incident that was reported by hand. */
  struck: Json;
  incident: string;
  /** Deliveries of the incident: one that was accepted, and one in dead letter before it. */
  deliveries: { delivered: string; superseded: string };
}

const reporting = "POST /api/v1/incidents";
const missing = (method: string, path: string, code: Case["code"], json?: unknown): Case => ({
  title: `${method} of what there is not`,
  ask: `${method} ${path}`,
  send: json === undefined ? {} : { json },
  code,
});

/** Invalid texts of incidents. */
function narration(incident: string): Case[] {
  const change = refusedBody(`PATCH /api/v1/incidents/${incident}`);
  const post = refusedBody(`POST /api/v1/incidents/${incident}/updates`);
  return [
    change("a title of spaces", { public_title: " \u200b " }, "EMPTY_TITLE", "/public_title"),
    change("a title of 201 characters", { public_title: "é".repeat(201) }, "TITLE_TOO_LONG", "/public_title"),
    change(
      "a long description",
      { public_description: "x".repeat(5001) },
      "DESCRIPTION_TOO_LONG",
      "/public_description",
    ),
    change("a title with a direction mark", { public_title: "a\u202eb" }, "INVALID_BODY", "/public_title"),
    change("a title that is a number", { public_title: 5 }, "INVALID_BODY", "/public_title"),
    change("an unknown severity", { severity: "huge" }, "INVALID_BODY", "/severity"),
    post("an empty message", { phase: "identified", message: "\n" }, "EMPTY_MESSAGE", "/message"),
    post("a long message", { phase: "identified", message: "x".repeat(2001) }, "MESSAGE_TOO_LONG", "/message"),
    post("an unknown phase", { phase: "fixed", message: "x" }, "INVALID_BODY", "/phase"),
  ];
}

/** Logos that are none. */
function logos(pageId: string): Case[] {
  const refuse = refusedBody(`POST /api/v1/status-pages/${pageId}/logo`);
  const image = (bytes: Buffer) => ({ image: bytes.toString("base64") });
  const text = (type: string, data: Buffer) => Buffer.concat([Buffer.from(type), data]);
  const chunk = (type: string, data: Buffer) => {
    const [size, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
    size.writeUInt32BE(data.length);
    sum.writeUInt32BE(crc32(text(type, data)));
    return Buffer.concat([size, text(type, data), sum]);
  };
  const header = Buffer.alloc(13);
  header.writeUInt32BE(16_000, 0);
  header.writeUInt32BE(16_000, 4);
  header.set([8, 2, 0, 0, 0], 8);
  const start = Buffer.from("89504e470d0a1a0a", "hex");
  return [
    refuse("an SVG", image(Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"/>')), "LOGO_FORMAT_UNSUPPORTED"),
    refuse("a PNG without an end", image(Buffer.concat([start, Buffer.alloc(8)])), "LOGO_UNREADABLE"),
    refuse(
      "a PNG of 256 million pixels",
      image(Buffer.concat([start, chunk("IHDR", header), chunk("IDAT", deflateSync(Buffer.alloc(48_001)))])),
      "LOGO_TOO_MANY_PIXELS",
    ),
    refusedBody(`PATCH /api/v1/status-pages/${pageId}`)(
      "a time zone that is none",
      { branding: { timezone: "Mars/Olympus" } },
      "INVALID_TIME_ZONE",
      "/branding/timezone",
    ),
    refusedBody(`PATCH /api/v1/status-pages/${pageId}`)(
      "a domain that is none",
      { custom_domain: "acme" },
      "INVALID_CUSTOM_DOMAIN",
      "/custom_domain",
    ),
  ];
}

/** Invalid maintenance windows. */
function windows(targetId: string): Case[] {
  const create = refusedBody("POST /api/v1/maintenance");
  const good = goodBodies({ targetId })["POST /api/v1/maintenance"]!;
  const zone = { time_zone: "Europe/Berlin" };
  const ended = { ...zone, rule: "FREQ=DAILY;COUNT=3" };
  const wrongRule = (field: string) => ["INVALID_RECURRENCE", `/recurrence/${field}`] as const;
  return [
    create("an end before the start", { ...good, ends_at: "2126-11-20T21:00:00Z" }, "INVALID_TIME_RANGE", "/ends_at"),
    create("a rule by hours", { ...good, recurrence: { ...zone, rule: "FREQ=HOURLY" } }, ...wrongRule("rule")),
    create(
      "31 February",
      { ...good, recurrence: { ...zone, rule: "FREQ=DAILY;UNTIL=20270231" } },
      ...wrongRule("rule"),
    ),
    create(
      "a zone of nowhere",
      { ...good, recurrence: { rule: "FREQ=DAILY", time_zone: "X" } },
      ...wrongRule("time_zone"),
    ),
    create(
      "a rule that has ended",
      { ...good, starts_at: "2016-11-20T22:00:00Z", ends_at: "2016-11-20T23:00:00Z", recurrence: ended },
      "MAINTENANCE_ENDED",
      "/recurrence/rule",
    ),
    create("a start on 31 February", { ...good, starts_at: "2126-02-31T22:00:00Z" }, "INVALID_BODY", "/starts_at"),
    create("two months", { ...good, ends_at: "2127-01-20T21:00:00Z" }, "INVALID_DURATION", "/ends_at"),
  ];
}

/** Absent things and invalid values. */
export function resources({ target, page, pastWindow, struck, incident, deliveries, operator }: Stage): Case[] {
  const id = newId();
  const retry = (delivery: string) => `/api/v1/incidents/${incident}/notifications/${delivery}/retry`;
  return [
    missing("GET", `/api/v1/targets/${id}`, "TARGET_NOT_FOUND"),
    missing("GET", `/api/v1/notification-channels/${id}`, "CHANNEL_NOT_FOUND"),
    missing("DELETE", `/api/v1/targets/${target.id}/shares/${id}`, "SHARE_NOT_FOUND"),
    refusedBody(`POST /api/v1/targets/${target.id}/shares`)(
      "a label that is too long",
      { label: "x".repeat(81) },
      "SHARE_LABEL_INVALID",
      "/label",
    ),
    missing("GET", `/api/v1/incidents/${id}`, "INCIDENT_NOT_FOUND"),
    missing("POST", "/api/v1/incidents", "INCIDENT_ALREADY_OPEN", goodBodies({ targetId: struck.id })[reporting]),
    missing("POST", "/api/v1/incidents", "TARGET_NOT_FOUND", goodBodies({ targetId: id })[reporting]),
    refusedBody("POST /api/v1/import/history")(
      "a day with own results",
      goodBodies({ targetId: struck.id })["POST /api/v1/import/history"]!,
      "HISTORY_OVERLAP",
      "/items/0/days/0/date",
    ),
    missing("POST", retry(id), "DELIVERY_NOT_FOUND"),
    {
      title: "a notification that has arrived, again",
      ask: `POST ${retry(deliveries.delivered)}`,
      code: "DELIVERY_NOT_DEAD",
    },
    {
      title: "a notification after a newer one",
      ask: `POST ${retry(deliveries.superseded)}`,
      code: "DELIVERY_SUPERSEDED",
    },
    missing("DELETE", `/api/v1/snoozes/${id}`, "SNOOZE_NOT_FOUND"),
    missing("DELETE", `/api/v1/reports/recipients/${id}`, "REPORT_RECIPIENT_NOT_FOUND"),
    missing("GET", `/api/v1/certificates/${id}`, "CERTIFICATE_NOT_FOUND"),
    missing("GET", `/api/v1/update-templates/${id}`, "UPDATE_TEMPLATE_NOT_FOUND"),
    missing("GET", `/api/v1/maintenance/${id}`, "MAINTENANCE_NOT_FOUND"),
    ...windows(target.id),
    missing("PATCH", `/api/v1/maintenance/${pastWindow.id}/occurrences/${id}`, "OCCURRENCE_NOT_FOUND", {}),
    missing("PATCH", `/api/v1/maintenance/${pastWindow.id}`, "MAINTENANCE_COMPLETED", { title: "Late" }),
    missing("DELETE", `/api/v1/status-pages/${page.id}/subscribers/${id}`, "SUBSCRIBER_NOT_FOUND"),
    missing("DELETE", `/api/v1/status-pages/${page.id}/reader-tokens/${id}`, "READER_TOKEN_NOT_FOUND"),
    missing("POST", `/status/subscriptions/${id}`, "SUBSCRIPTION_NOT_FOUND", {}),
    missing("GET", `/api/v1/status-pages/${id}`, "STATUS_PAGE_NOT_FOUND"),
    missing("PATCH", `/api/v1/status-pages/${page.id}/components/${id}`, "COMPONENT_NOT_FOUND", {}),
    refusedBody(`POST /api/v1/status-pages/${page.id}/components`)(
      "an id that is none",
      { target_id: "shop" },
      "INVALID_ID",
      "/target_id",
    ),
    ...logos(page.id),
    ...narration(incident),
    refusedBody("POST /api/v1/targets/bulk")("nothing in bulk", [], "BULK_EMPTY", ""),
    refusedBody("POST /api/v1/targets/bulk-action")(
      "ten thousand and one",
      { ids: Array.from({ length: 10_001 }, () => "x"), action: { type: "enable" } },
      "BULK_TOO_LARGE",
    ),
    refusedBody(`PUT /api/v1/targets/${target.id}/regions`)(
      "an unknown region",
      { regions: ["nowhere"] },
      "REGION_INVALID",
    ),
    {
      title: "a range that ends before it starts",
      ask: `GET /api/v1/targets/${target.id}/uptime?from=2026-02-01T00:00:00Z&to=2026-01-01T00:00:00Z`,
      code: "BAD_TIME_RANGE",
      field: "/query/to",
    },
    { title: "a run where no agent is", ask: `POST /api/v1/targets/${target.id}/check-now`, code: "PROBE_UNAVAILABLE" },
    refusedBody("POST /api/v1/notification-channels/test")(
      "a test message to a closed port",
      { config: { type: "webhook", url: "https://127.0.0.1:9/hook" } },
      "CHANNEL_TEST_FAILED",
    ),
    { ...missing("GET", "/operator/regions/nowhere", "REGION_NOT_FOUND"), as: operator },
    { ...missing("GET", `/operator/agents/${id}`, "AGENT_NOT_FOUND"), as: operator },
    { ...missing("GET", `/operator/orgs/${id}`, "ORG_NOT_FOUND"), as: operator },
    {
      ...refusedBody("POST /operator/regions")("a region twice", { id: "default", name: "Default" }, "REGION_ID_TAKEN"),
      as: operator,
    },
    {
      ...refusedBody("POST /operator/regions")(
        "the region of heartbeats",
        { id: "heartbeat", name: "Heartbeat" },
        "REGION_ID_TAKEN",
      ),
      as: operator,
    },
    { title: "a region with agents", ask: "DELETE /operator/regions/default", as: operator, code: "RESOURCE_IN_USE" },
  ];
}

const inDays = (days: number): string => new Date(Date.now() + days * 86_400_000).toISOString();

/** Users, organisations and credentials. */
export async function people({ sql, olga, milan, asking, signedIn, anonymous, page }: Stage): Promise<Case[]> {
  const org = `/api/v1/orgs/${olga.orgId}`;
  const home: Home = { orgId: olga.orgId, userId: olga.userId, ownerId: olga.userId, memberId: milan.userId };
  const invite = refusedBody(`POST ${org}/invitations`);
  const accept = refusedBody("POST /api/v1/invitations/accept");
  const invited = await make.invitation(sql, home, olga.orgId);
  await sql`update invitations set code_hash = ${hashToken("a-code")} where id = ${invited}`;
  for (let n = 0; n < 25; n++) await tokenOf(sql, milan);
  const { olga: poor, milan: unverified } = await castIn(sql, { plan: "free" });
  await sql`update users set email_verified_at = null where id = ${unverified.userId}`;
  const mcpToken = { name: "Claude", scopes: ["targets:read"], audience: "mcp", expires_at: inDays(30) };
  for (let n = 0; n < 10; n++) await make.invitation(sql, home, poor.orgId);
  for (let n = 0; n < 20; n++) await make.channel(sql, { ...home, orgId: poor.orgId }, "");
  const identity = await make.identity(sql, home, "");
  const foreign = await make.page(sql, { ...home, orgId: poor.orgId }, "");
  await sql`
    insert into status_page_domains (page_id, org_id, domain, token, verified_at, created_at)
    values (${foreign}, ${poor.orgId}, 'taken.acme.test', 'a', now(), now())`;
  const access = { mode: "password", password: "open sesame" };
  await asking(olga.token).post("/api/v1/status-pages", { slug: "vault", name: "Vault", access });
  const id = newId();
  for (let n = 0; n < 20; n++) await make.readerToken(sql, home, page.id);
  for (let n = 0; n < 20; n++) await make.passkey(sql, { ...home, userId: milan.userId }, "");
  const crowded = anonymous.with({
    cookie: `_sm_session=${await sessionOf(sql, milan)}`,
    "sec-fetch-site": "same-origin",
  });
  const old = await sessionOf(sql, olga);
  await sql`update sessions set verified_at = null where secret_hash = ${hashToken(old)}`;
  return [
    {
      title: "a private page",
      ask: "GET /status/vault/api/public/v1/status",
      as: anonymous,
      code: "PAGE_ACCESS",
      headers: { "www-authenticate": "Bearer" },
    },
    refusedBody(`PATCH /api/v1/status-pages/${page.id}`)(
      "the custom domain of another page",
      { custom_domain: "taken.acme.test" },
      "CUSTOM_DOMAIN_TAKEN",
    ),
    refusedBody(`POST /api/v1/status-pages/${page.id}/reader-tokens`)(
      "one reader token too many",
      { name: "Wall" },
      "READER_TOKENS_LIMIT",
    ),
    {
      title: "the last way in is taken off",
      ask: `DELETE /api/v1/identities/${identity}`,
      as: signedIn,
      code: "LAST_SIGN_IN_METHOD",
    },
    {
      title: "a password that everybody uses",
      ask: "PUT /api/v1/me/password",
      send: { json: { password: "1234567890" } },
      as: signedIn,
      code: "WEAK_PASSWORD",
      field: "/password",
    },
    {
      title: "a first password in a session that is not fresh",
      ask: "PUT /api/v1/me/password",
      send: { json: { password: "correct horse battery" } },
      as: anonymous.with({ cookie: `_sm_session=${old}`, "sec-fetch-site": "same-origin" }),
      code: "FRESH_SIGN_IN_REQUIRED",
    },
    {
      ...refusedBody("POST /api/v1/me/passkeys")(
        "a passkey whose response is none",
        goodBodies({ targetId: id })["POST /api/v1/me/passkeys"]!,
        "PASSKEY_INVALID",
        "/response",
      ),
      as: signedIn,
    },
    { title: "one passkey too many", ask: "POST /api/v1/me/passkeys/options", as: crowded, code: "PASSKEYS_LIMIT" },
    missing("GET", `/api/v1/orgs/${id}`, "ORG_NOT_FOUND"),
    missing("PATCH", `${org}/members/${id}`, "MEMBER_NOT_FOUND", { role: "member" }),
    missing("DELETE", `${org}/invitations/${id}`, "INVITATION_NOT_FOUND"),
    missing("DELETE", `/api/v1/api-tokens/${id}`, "API_TOKEN_NOT_FOUND"),
    missing("DELETE", `/api/v1/connected-apps/${id}`, "CONNECTED_APP_NOT_FOUND"),
    missing("GET", `${org}/audit/${id}`, "AUDIT_ENTRY_NOT_FOUND"),
    refusedBody("POST /api/v1/orgs")(
      "another organisation by a token that is bound to one",
      { name: "Second" },
      "FORBIDDEN",
    ),
    { title: "the last owner leaves", ask: `DELETE ${org}/members/${olga.userId}`, code: "LAST_OWNER" },
    invite("a member is invited", { email: milan.email }, "ALREADY_MEMBER"),
    invite("an address that is invited twice", { email: `${invited}@example.org` }, "ALREADY_INVITED"),
    {
      ...refusedBody(`POST /api/v1/orgs/${poor.orgId}/invitations`)(
        "one invitation too many",
        { email: "new@example.org" },
        "INVITATIONS_LIMIT",
      ),
      as: asking(poor.token),
    },
    {
      ...refusedBody("POST /api/v1/notification-channels")(
        "one channel too many",
        { name: "New", config: { type: "webhook", url: "https://127.0.0.1:9/hook" } },
        "CHANNEL_QUOTA_EXCEEDED",
      ),
      as: asking(poor.token),
    },
    { ...accept("an unknown invitation", { code: "guess" }, "INVITATION_INVALID", "/code"), as: anonymous },
    { ...accept("the invitation of another address", { code: "a-code" }, "INVITATION_FOR_ANOTHER"), as: signedIn },
    refusedBody("POST /api/v1/api-tokens")(
      "a token that has ended",
      { name: "Old", scopes: ["targets:read"], expires_at: "2020-01-01T00:00:00Z" },
      "INVALID_EXPIRY",
      "/expires_at",
    ),
    refusedBody("POST /api/v1/api-tokens")(
      "a token for MCP that writes",
      { ...mcpToken, scopes: ["targets:read", "targets:write"] },
      "MCP_TOKEN_READ_ONLY",
    ),
    refusedBody("POST /api/v1/api-tokens")(
      "a token for MCP without an end",
      { ...mcpToken, expires_at: null },
      "INVALID_EXPIRY",
      "/expires_at",
    ),
    refusedBody("POST /api/v1/api-tokens")(
      "a token for MCP with too long a lifetime",
      { ...mcpToken, expires_at: inDays(366) },
      "INVALID_EXPIRY",
      "/expires_at",
    ),
    refusedBody("POST /api/v1/api-tokens")(
      "a token for MCP that is not bound",
      { ...mcpToken, bound: false },
      "FORBIDDEN",
    ),
    {
      ...refusedBody("POST /api/v1/api-tokens")(
        "a token for MCP by an unverified user",
        mcpToken,
        "EMAIL_NOT_VERIFIED",
      ),
      as: asking(unverified.token),
    },
    {
      ...refusedBody("POST /api/v1/api-tokens")(
        "one token too many",
        { name: "New", scopes: ["targets:read"] },
        "API_TOKENS_LIMIT",
      ),
      as: asking(milan.token),
    },
  ];
}

/** Rules of the check kinds other than http and tcp. `taken`: heartbeat addresses of a monitor that is there. */
export function kinds(taken: object): Case[] {
  const create = refusedBody("POST /api/v1/targets");
  const check = (spec: object) => ({ name: "Shop", check: spec });
  const dns = { type: "dns", domain: "example.org" };
  const cert = { type: "tls_cert", host: "shop.example.org" };
  const job = { type: "heartbeat", period: 60_000 };
  const group = (of: string, tag: string) => ({
    name: tag,
    check: { type: "group", members: [{ tag: of }] },
    tags: [tag],
  });
  return [
    create(
      "a name that is none",
      check({ ...dns, domain: "https://example.org/" }),
      "INVALID_DNS_PARAMS",
      "/check/domain",
    ),
    create("unknown records", check({ ...dns, record_type: "ANY" }), "INVALID_DNS_PARAMS", "/check/record_type"),
    create(
      "a resolver with a path",
      check({ ...dns, resolver: "dns.example.org/x" }),
      "INVALID_DNS_PARAMS",
      "/check/resolver",
    ),
    create("a heartbeat without a time", check({ type: "heartbeat" }), "INVALID_HEARTBEAT", "/check/period"),
    create(
      "a member twice",
      check({ type: "group", members: [{ tag: "a" }, { tag: "a" }] }),
      "INVALID_GROUP",
      "/check/members/1",
    ),
    refusedBody("POST /api/v1/targets/bulk")(
      "groups in a circle",
      [group("a", "b"), group("b", "a")],
      "GROUP_CYCLE",
      "/0/check/members",
    ),
    refusedBody("POST /api/v1/targets/bulk")(
      "five groups above each other",
      [1, 2, 3, 4, 5].map((level) => group(`level ${level - 1}`, `level ${level}`)),
      "GROUP_TOO_DEEP",
      "/0/check/members",
    ),
    create("regions of a heartbeat", { ...check(job), regions: ["default"] }, "NOT_PROBED"),
    create("an address that is taken", { ...check(job), heartbeat_addresses: taken }, "HEARTBEAT_ADDRESS_TAKEN"),
    create(
      "a warning at the time of the alarm",
      check({ ...cert, warn_days: 7, critical_days: 7 }),
      "INVALID_TLS_CERT_PARAMS",
      "/check/warn_days",
    ),
    create(
      "a server name that is none",
      check({ ...cert, server_name: "a b" }),
      "INVALID_TLS_CERT_PARAMS",
      "/check/server_name",
    ),
  ];
}

/** A target whose token is sealed under a lost key, so that it cannot be run. */
export async function sealedAway({ sql, olga, milan }: Stage): Promise<Case[]> {
  const id = await make.target(
    sql,
    { orgId: olga.orgId, userId: olga.userId, ownerId: olga.userId, memberId: milan.userId },
    "",
  );
  const secrets = { basic_auth: null, bearer_token: makeSealer(randomBytes(32)).seal("secret", "elsewhere") };
  const rest = {
    headers: {},
    body: null,
    follow_redirects: true,
    max_redirects: 5,
    expected_status: { kind: "exact", value: 200 },
    expected_body_contains: null,
    verify_tls: true,
  };
  const spec = { type: "http", url: "https://shop.example.org/", method: "GET", timeout: 1000, ...rest, ...secrets };
  await sql`update targets set kind = 'http', spec = ${sql.json(spec)} where id = ${id}`;
  return [
    { title: "a secret whose key is gone", ask: `POST /api/v1/targets/${id}/check-now`, code: "SECRET_UNREADABLE" },
    refusedBody(`PATCH /api/v1/targets/${id}`)(
      "a stored secret for another server",
      { check: { url: "https://attacker.example/" } },
      "CREDENTIALS_REQUIRED",
      "/check/bearer_token",
    ),
  ];
}

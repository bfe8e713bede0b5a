import { generateKeyPairSync } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { hashPassword } from "@statusmesh/control-plane/access/auth/passwords/passwords";
import { cheapHash } from "@statusmesh/control-plane/testing/world";
import { allAbilities } from "@statusmesh/shared/checks/abilities";
import { protocolVersion } from "@statusmesh/shared/protocol/agent-protocol";
import { newId } from "@statusmesh/shared/ids";
import { type Client, connect } from "../harness/api.ts";
import { agentIn, castIn, sessionOf, tokenOf } from "../harness/cast.ts";
import { cloneDatabase } from "../harness/database.ts";
import { tempFolder } from "../harness/folder.ts";
import { serveHere } from "../harness/in-process.ts";
import { admit, batchOf, runOf } from "../harness/results.ts";
import { authority, centralAccounts } from "./bodies.ts";
import { nameOf, routes } from "./declared.ts";
import { make } from "./isolation/things.ts";
import { openSnapshots } from "./isolation/snapshot.ts";
import { provokeOutages } from "./outages.ts";
import { kinds, people, resources, sealedAway, type Stage } from "./refusals.ts";
import { gatedChannels } from "./refused-channels.ts";
import { type Case, isRefused, neverSeen, refusedBody } from "./refused.ts";
import { provokeParser } from "./unparsed.ts";

/*
 * Refused requests: each is answered with the error envelope, a specific code and the place in the request, and changes
 * nothing.
 */

const database = await cloneDatabase(t);
const { sql } = database;
const { olga, milan, xenia } = await castIn(sql);
const { olga: guarded } = await castIn(sql);
const guardedHash = await hashPassword({ hashCost: cheapHash }, "correct horse battery");
await sql`update users set password_hash = ${guardedHash} where id = ${guarded.userId}`;
await sql`insert into totp_factors (user_id, secret) values (${guarded.userId}, 'plain:GEZDGNBVGY3TQOJQ')`;
const agent = await agentIn(sql, "default");
const denied = join(tempFolder(t, "lists"), "domains.toml");
writeFileSync(denied, 'domains = ["evil.example"]\n');
const url = await serveHere(t, database, {
  SM_SECURITY__ALLOW_PRIVATE_TARGETS: "false",
  SM_SERVER__PUBLIC_URL: "https://status.example.org",
  SM_ABUSE__DOMAIN_DENYLIST_FILE: denied,
});

const api = connect(t, url, olga.token);
const anonymous = connect(t, url, null);
const probe = connect(t, url, agent.token);
const asking = (token: string) => anonymous.with({ authorization: `Bearer ${token}` });
const secret = await sessionOf(sql, olga);
// The service has an https address.
const cookie = { cookie: `__Host-_sm_session=${secret}` };

const target = { name: "Shop", check: { type: "tcp", host: "shop.example.org", port: 443 } };
const http = (check: object) => ({ ...target, check: { type: "http", url: "https://shop.example.org/", ...check } });
const tls = (check: object) => ({ ...target, check: { type: "tls_cert", host: "shop.example.org", ...check } });
const dns = (check: object) => ({ ...target, check: { type: "dns", domain: "shop.example.org", ...check } });
const expiry = (check: object) => ({ ...target, check: { type: "domain_expiry", domain: "example.org", ...check } });
const webhook = (config: object) => ({
  name: "Duty",
  config: { type: "webhook", url: "https://hooks.example.org/a", ...config },
});

const kept = (await api.post("/api/v1/targets", { ...target, name: "Kept" })).body;
const channel = (await api.post("/api/v1/notification-channels", { ...webhook({}), name: "Kept" })).body;
const page = (await api.post("/api/v1/status-pages", { slug: "kept", name: "Kept" })).body;
await api.post(`/api/v1/status-pages/${page.id}/components`, { target_id: kept.id });
const over = { starts_at: "2026-01-01T00:00:00Z", ends_at: "2026-01-01T01:00:00Z", component_ids: [kept.id] };
const keptCertificate = { name: "Kept", kind: "ca", certificate: authority };
const keptAuthority = (await api.post("/api/v1/certificates", keptCertificate)).body;
await api.post("/api/v1/targets", {
  name: "Internal",
  check: { type: "tls_cert", host: "example.org", certificates: { ca_id: keptAuthority.id } },
});
const keptTemplate = { kind: "incident", name: "Kept", body: "Text" };
await api.post("/api/v1/update-templates", keptTemplate);
const pastWindow = (await api.post("/api/v1/maintenance", { title: "Over", ...over })).body;
const struck = (await api.post("/api/v1/targets", { ...target, name: "Struck" })).body;
const report = { target_id: struck.id, severity: "major", public_title: "Down", message: "We look into it." };
await api.post("/api/v1/incidents", report);
await sql`insert into results_daily values (${struck.id}, current_date - 5, 1440, 0, 0, 0)`;
const foreignTarget = (await asking(xenia.token).post("/api/v1/targets", target)).body;
const foreignChannel = (await asking(xenia.token).post("/api/v1/notification-channels", webhook({}))).body;

const snapshots = await openSnapshots(sql);

const create = refusedBody("POST /api/v1/targets");
const patch = refusedBody(`PATCH /api/v1/targets/${kept.id}`);
const createChannel = refusedBody("POST /api/v1/notification-channels");
const createPage = refusedBody("POST /api/v1/status-pages");
const otherKey = generateKeyPairSync("ed25519").privateKey.export({ type: "pkcs8", format: "pem" });
const raw = (
  title: string,
  body: string | Buffer,
  code: Case["code"],
  field: string | null = null,
  headers: Record<string, string> = { "content-type": "application/json" },
): Case => ({ title, ask: "POST /api/v1/targets", send: { body, headers }, code, field });
const nested = (depth: number): string => `${'{"check":'.repeat(depth)}1${"}".repeat(depth)}`;

const shapes: Case[] = [
  create("an unknown key", { ...target, colour: "red" }, "UNKNOWN_FIELD", "/colour"),
  create(
    "an unknown key in the check",
    { ...target, check: { ...target.check, colour: "red" } },
    "UNKNOWN_FIELD",
    "/check/colour",
  ),
  create("a key that needs escaping", { ...target, "a/b~c": 1 }, "UNKNOWN_FIELD", "/a~1b~0c"),
  create("a name that is a number", { ...target, name: 5 }, "INVALID_BODY", "/name"),
  create("no name", { check: target.check }, "INVALID_BODY", "/name"),
  create("no check", { name: "Shop" }, "INVALID_BODY", "/check"),
  create("a check that is a list", { name: "Shop", check: [] }, "INVALID_BODY", "/check"),
  create("an unknown check kind", { name: "Shop", check: { type: "telnet" } }, "INVALID_BODY", "/check/type"),
  create("a list as the body", [target], "INVALID_BODY", ""),
  create("null as the body", null, "INVALID_BODY", ""),
  raw("half a JSON", '{"name":', "INVALID_JSON"),
  raw("no body at all", "", "INVALID_JSON"),
  raw(
    "invalid UTF-8",
    Buffer.from([0x7b, 0x22, 0x6e, 0x61, 0x6d, 0x65, 0x22, 0x3a, 0x22, 0xff, 0x22, 0x7d]),
    "INVALID_BODY",
  ),
  raw("NUL in a name", JSON.stringify({ ...target, name: "a\0b" }), "INVALID_BODY", "/name"),
  raw(
    "half a surrogate pair in a name",
    '{"name":"\\ud800","check":{"type":"tcp","host":"a","port":1}}',
    "INVALID_BODY",
    "/name",
  ),
  raw("NUL in a key", '{"a\\u0000b":1}', "INVALID_BODY", ""),
  raw("__proto__ as a key", '{"__proto__":{"name":"x"}}', "INVALID_BODY", "/__proto__"),
  raw("nesting over 32 levels", nested(33), "INVALID_BODY", "/check".repeat(32)),
  raw("nesting that would exhaust a stack", nested(50_000), "INVALID_BODY", "/check".repeat(32)),
  raw("a number that is not kept exactly", '{"name":"x","interval":9007199254740993}', "INVALID_BODY", "/interval"),
  raw("a number that is no number", '{"name":"x","interval":1e999}', "INVALID_BODY", "/interval"),
  raw("2 MB", JSON.stringify({ ...target, name: "x".repeat(2_000_000) }), "PAYLOAD_TOO_LARGE"),
  raw("a body of another kind", JSON.stringify(target), "UNSUPPORTED_MEDIA_TYPE", null, {
    "content-type": "text/plain",
  }),
  raw("a form", "name=Shop", "UNSUPPORTED_MEDIA_TYPE", null, { "content-type": "application/x-www-form-urlencoded" }),
  raw("a body of no kind", JSON.stringify(target), "UNSUPPORTED_MEDIA_TYPE", null, {}),
  raw("a compressed body", gzipSync(JSON.stringify(target)), "UNSUPPORTED_MEDIA_TYPE", null, {
    "content-type": "application/json",
    "content-encoding": "gzip",
  }),
  raw("a body that is not compressed as declared", JSON.stringify(target), "UNSUPPORTED_MEDIA_TYPE", null, {
    "content-type": "application/json",
    "content-encoding": "identity",
  }),
];

const plan = refusedBody("POST /api/v1/config/plan");
const document = (more: object) => ({ project: "errors", document: { version: 1, ...more } });
const declared = document({ monitors: { one: target } });
// In an organisation that no other case changes.
const quiet = asking(xenia.token);
const apply = async (prune: object) => {
  const { body } = await quiet.post("/api/v1/config/plan", prune);
  const { project, document } = prune as { project: string; document: object };
  return { project, document, plan_token: body.plan_token as string };
};
await quiet.post("/api/v1/config/apply", await apply(declared));
const pruning = await apply({ ...document({}), prune: true, max_delete: 0 });

const discovered = { project: "docker-errors", writer: "one", name: "Docker" };
await asking(xenia.token).post("/api/v1/config/source", discovered);

const files: Case[] = [
  {
    ...refusedBody("POST /api/v1/config/source")("a second writer", { ...discovered, writer: "two" }, "SOURCE_IN_USE"),
    as: quiet,
  },
  plan(
    "a variable",
    document({ monitors: { one: { ...target, name: "${NAME}" } } }),
    "UNRESOLVED_VARIABLE",
    "/document/monitors/one/name",
  ),
  plan(
    "a key that there is not",
    document({ monitors: { one: { ...target, alerts: ["duty"] } } }),
    "UNKNOWN_REFERENCE",
    "/document/monitors/one/alerts/0",
  ),
  plan(
    "the slug of a page that no file has",
    document({ status_pages: { p: { slug: "kept", name: "P" } } }),
    "ADOPTION_REQUIRED",
  ),
  ...["adopt", "detach"].map((verb) =>
    refusedBody(`POST /api/v1/config/${verb}`)(
      verb,
      { project: "errors", kind: "monitor", key: verb, id: verb === "adopt" ? "KEPT" : kept.id },
      verb === "adopt" ? "INVALID_ID" : "MANAGED_ELSEWHERE",
      "/id",
    ),
  ),
  refusedBody("POST /api/v1/config/apply")("another document", { ...pruning, document: { version: 2 } }, "PLAN_STALE"),
  { ...refusedBody("POST /api/v1/config/apply")("many deletions", pruning, "PRUNE_LIMIT"), as: quiet },
];

const values: Case[] = [
  create("a name of white space", { ...target, name: " \t " }, "EMPTY_NAME", "/name"),
  create("an empty tag", { ...target, tags: ["a", " "] }, "INVALID_TAG", "/tags/1"),
  create("an interval below the floor", { ...target, interval: 5 }, "MIN_CHECK_INTERVAL", "/interval"),
  create("an interval of 0", { ...target, interval: 0 }, "INVALID_INTERVAL", "/interval"),
  create("an interval that is a text", { ...target, interval: "60" }, "INVALID_INTERVAL", "/interval"),
  create("half a second more", { ...target, interval: 60.5 }, "INVALID_INTERVAL", "/interval"),
  create("no confirmations", { ...target, alert_confirmations: 0 }, "INVALID_ALERT_CONFIG", "/alert_confirmations"),
  create(
    "reminders every half minute",
    { ...target, renotify_interval_secs: 30 },
    "INVALID_ALERT_CONFIG",
    "/renotify_interval_secs",
  ),
  create(
    "a channel id that is none",
    { ...target, alerts: [{ channel_id: "duty" }] },
    "INVALID_ALERT_CONFIG",
    "/alerts/0/channel_id",
  ),
  create(
    "an unknown channel",
    { ...target, alerts: [{ channel_id: newId() }] },
    "INVALID_ALERT_CONFIG",
    "/alerts/0/channel_id",
  ),
  create(
    "a channel of another organisation",
    { ...target, alerts: [{ channel_id: foreignChannel.id }] },
    "INVALID_ALERT_CONFIG",
    "/alerts/0/channel_id",
  ),
  create(
    "a channel twice",
    { ...target, alerts: [{ channel_id: channel.id }, { channel_id: channel.id }] },
    "INVALID_ALERT_CONFIG",
    "/alerts/1/channel_id",
  ),
  create(
    "more regions than there are",
    { ...target, region_policy: { count: 99 } },
    "INVALID_REGION_POLICY",
    "/region_policy/count",
  ),
  create("no region", { ...target, region_policy: { count: 0 } }, "INVALID_REGION_POLICY", "/region_policy/count"),
  ...[0, 65_536, "443", 1.5, null].map((port) =>
    create(
      `port ${JSON.stringify(port)}`,
      { ...target, check: { ...target.check, port } },
      "INVALID_TCP_PORT",
      "/check/port",
    ),
  ),
  ...["", "shop example", "http://shop.example.org", "shop.example.org/path"].map((host) =>
    create(
      `host ${JSON.stringify(host)}`,
      { ...target, check: { ...target.check, host } },
      "INVALID_TCP_HOST",
      "/check/host",
    ),
  ),
  ...[
    "",
    "example",
    "localhost",
    "203.0.113.7",
    "[2001:db8::1]",
    "3405803783.",
    "co.uk",
    "kobe.jp",
    "https://example.org",
    "example.org/",
    "a b.org",
    "-a.org",
    "a_b.org",
    "a..org",
    7,
    null,
  ].map((domain) =>
    create(`domain ${JSON.stringify(domain)}`, expiry({ domain }), "INVALID_DOMAIN_PARAMS", "/check/domain"),
  ),
  create("no domain", { ...target, check: { type: "domain_expiry" } }, "INVALID_DOMAIN_PARAMS", "/check/domain"),
  create(
    "warn_days not above critical_days",
    expiry({ warn_days: 7, critical_days: 7 }),
    "INVALID_DOMAIN_PARAMS",
    "/check/warn_days",
  ),
  create(
    "warn_days below the default of critical_days",
    expiry({ warn_days: 5 }),
    "INVALID_DOMAIN_PARAMS",
    "/check/warn_days",
  ),
  ...[0, 1.5, "30", 3651, null].map((warn_days) =>
    create(
      `warn_days ${JSON.stringify(warn_days)}`,
      expiry({ warn_days }),
      "INVALID_DOMAIN_PARAMS",
      "/check/warn_days",
    ),
  ),
  create("critical_days below 0", expiry({ critical_days: -1 }), "INVALID_DOMAIN_PARAMS", "/check/critical_days"),
  create("a domain every 59 minutes", { ...expiry({}), interval: 3599 }, "MIN_CHECK_INTERVAL", "/interval"),
  create("a domain that takes over a minute", expiry({ timeout: 60_001 }), "INVALID_TIMEOUT", "/check/timeout"),
  create(
    "the registration of a denied domain",
    expiry({ domain: "www.evil.example" }),
    "DOMAIN_DENYLISTED",
    "/check/domain",
  ),
  ...[99, 60_001, "1000"].map((timeout) =>
    create(
      `timeout ${JSON.stringify(timeout)}`,
      { ...target, check: { ...target.check, timeout } },
      "INVALID_TIMEOUT",
      "/check/timeout",
    ),
  ),
  ...["", "shop.example.org", "https://", "https://user:pw@shop.example.org/", "https://shop.example.org:0/"].map(
    (it) => create(`URL ${JSON.stringify(it)}`, http({ url: it }), "INVALID_URL_FORMAT", "/check/url"),
  ),
  ...["ftp://shop.example.org/", "file:///etc/passwd", "javascript:alert(1)"].map((it) =>
    create(`URL ${it}`, http({ url: it }), "INVALID_URL_SCHEME", "/check/url"),
  ),
  ...[
    "http://2130706433/",
    "http://[::ffff:127.0.0.1]/",
    "http://0x7f.1/",
    "http://127.1:8080/",
    "http://169.254.169.254/latest",
    "http://[::1]/",
    "http://１２７.0.0.1/",
    "http://10.0.0.1./",
  ].map((it) => create(`URL ${it}`, http({ url: it }), "SSRF_BLOCKED", "/check/url")),
  ...["127.0.0.1", "2130706433", "::ffff:10.0.0.1", "0x7f.1"].map((host) =>
    create(`host ${host}`, { ...target, check: { ...target.check, host } }, "SSRF_BLOCKED", "/check/host"),
  ),
  ...["::1", "10.0.0.2"].map((host) => create(`certificate of ${host}`, tls({ host }), "SSRF_BLOCKED", "/check/host")),
  ...["127.0.0.53", "[::1]:53", "169.254.169.253:53"].map((resolver) =>
    create(`name server ${resolver}`, dns({ resolver }), "SSRF_BLOCKED", "/check/resolver"),
  ),
  create("a certificate without a host", tls({ host: "" }), "INVALID_TCP_HOST", "/check/host"),
  create("a certificate at port 0", tls({ port: 0 }), "INVALID_TCP_PORT", "/check/port"),
  create(
    "a server name that is an address",
    tls({ server_name: "192.0.2.1" }),
    "INVALID_TLS_CERT_PARAMS",
    "/check/server_name",
  ),
  create(
    "a warning when it is too late",
    tls({ warn_days: 7, critical_days: 7 }),
    "INVALID_TLS_CERT_PARAMS",
    "/check/warn_days",
  ),
  create("a certificate every minute", { ...tls({}), interval: 60 }, "MIN_CHECK_INTERVAL", "/interval"),
  create("a domain that is a URL", dns({ domain: "https://shop.example.org" }), "INVALID_DNS_PARAMS", "/check/domain"),
  create("an unknown record type", dns({ record_type: "ANY" }), "INVALID_DNS_PARAMS", "/check/record_type"),
  create("a name server with a path", dns({ resolver: "dns.example.org/x" }), "INVALID_DNS_PARAMS", "/check/resolver"),
  create("no text to look for", dns({ expected_contains: "" }), "INVALID_DNS_PARAMS", "/check/expected_contains"),
  create("a method that cannot be sent", http({ method: "CONNECT" }), "INVALID_HTTP_METHOD", "/check/method"),
  create(
    "a line break in a header",
    http({ headers: { "X-Two": "a\r\nb" } }),
    "INVALID_HTTP_HEADER",
    "/check/headers/X-Two",
  ),
  create(
    "a header that frames the message",
    http({ headers: { "Transfer-Encoding": "chunked" } }),
    "INVALID_HTTP_HEADER",
    "/check/headers/Transfer-Encoding",
  ),
  create(
    "a status outside of HTTP",
    http({ expected_status: { kind: "exact", value: 42 } }),
    "INVALID_STATUS_RANGE",
    "/check/expected_status/value",
  ),
  create(
    "a range the wrong way round",
    http({ expected_status: { kind: "range", value: { min: 299, max: 200 } } }),
    "INVALID_STATUS_RANGE",
    "/check/expected_status/value",
  ),
  create("a pattern", http({ expected_body_matches: "(ok" }), "INVALID_PATTERN", "/check/expected_body_matches"),
  create(
    "a path",
    http({ expected_json: [{ path: "status", op: "exists" }] }),
    "INVALID_PATTERN",
    "/check/expected_json/0/path",
  ),
  create(
    "a value that does not fit the op",
    http({ expected_json: [{ path: "$.queue", op: "lt", value: "5" }] }),
    "INVALID_EXPECTATION",
    "/check/expected_json/0/value",
  ),
  create(
    "a threshold above the timeout",
    http({ degraded_above_ms: 20_000 }),
    "INVALID_THRESHOLD",
    "/check/degraded_above_ms",
  ),
  create("the mask as a token", http({ bearer_token: "***" }), "REDACTION_SENTINEL", "/check/bearer_token"),
  create("the mask as a password", http({ basic_auth: ["user", "***"] }), "REDACTION_SENTINEL", "/check/basic_auth/1"),
  create(
    "credentials to an unverified server",
    http({ verify_tls: false, bearer_token: "secret" }),
    "INVALID_TLS_CRED_COMBO",
    "/check/verify_tls",
  ),
  {
    title: "a patch of an older state",
    ask: `PATCH /api/v1/targets/${kept.id}`,
    send: { body: '{"interval":120}', headers: { "content-type": "application/json", "if-match": '"older"' } },
    code: "PRECONDITION_FAILED",
    field: null,
  },
  patch("another kind", { check: { type: "http" } }, "CHECK_KIND_IMMUTABLE", "/check/type"),
  patch("a patch with an unknown key", { colour: 1 }, "UNKNOWN_FIELD", "/colour"),
  patch("a patch of the check with an unknown key", { check: { colour: 1 } }, "UNKNOWN_FIELD", "/check/colour"),
  ...["/.git/config", "/shop/%2eenv", "//wp-admin//setup-config.php"].map((path) =>
    create(
      `what attackers look for: ${path}`,
      http({ url: `https://shop.example.org${path}` }),
      "URL_PATTERN_BLOCKED",
      "/check/url",
    ),
  ),
  create("our own API", http({ url: "https://status.example.org/api/v1/targets" }), "ABUSE_BLOCKED", "/check/url"),
  create(
    "a denied domain",
    { ...target, check: { ...target.check, host: "db.Evil.example." } },
    "DOMAIN_DENYLISTED",
    "/check/host",
  ),
  create("a name below a denied domain", dns({ domain: "mail.evil.example" }), "DOMAIN_DENYLISTED", "/check/domain"),
  create(
    "a server name below a denied domain",
    tls({ server_name: "www.evil.example" }),
    "DOMAIN_DENYLISTED",
    "/check/server_name",
  ),
  patch("a patch to a denied domain", { check: { host: "evil.example" } }, "DOMAIN_DENYLISTED", "/check/host"),
  refusedBody("POST /api/v1/targets/test")(
    "a test of a denied domain",
    { ...target.check, host: "evil.example" },
    "DOMAIN_DENYLISTED",
    "/host",
  ),
  createChannel(
    "a webhook to a denied domain",
    webhook({ url: "https://hooks.evil.example/" }),
    "DOMAIN_DENYLISTED",
    "/config/url",
  ),
  refusedBody("POST /api/v1/notification-channels/test")(
    "a test of a webhook to a denied domain",
    { config: webhook({ url: "https://evil.example/" }).config },
    "DOMAIN_DENYLISTED",
    "/config/url",
  ),
  patch("a patch to a private address", { check: { host: "127.0.0.1" } }, "SSRF_BLOCKED", "/check/host"),
  createChannel("a name that is taken", { ...webhook({}), name: "Kept" }, "CHANNEL_NAME_TAKEN", "/name"),
  createChannel("an empty channel name", { ...webhook({}), name: "" }, "CHANNEL_NAME_INVALID", "/name"),
  createChannel(
    "a webhook without TLS",
    webhook({ url: "http://hooks.example.org/" }),
    "INVALID_CHANNEL_CONFIG",
    "/config/url",
  ),
  createChannel(
    "a webhook to a private address",
    webhook({ url: "https://2130706433/" }),
    "SSRF_BLOCKED",
    "/config/url",
  ),
  createChannel("a short secret", webhook({ secret: "short" }), "INVALID_CHANNEL_CONFIG", "/config/secret"),
  createChannel("the mask as a secret", webhook({ secret: "***" }), "REDACTION_SENTINEL", "/config/secret"),
  createChannel(
    "an unknown channel kind",
    { name: "Pigeon", config: { type: "pigeon" } },
    "INVALID_CHANNEL_CONFIG",
    "/config/type",
  ),
  createChannel(
    "active hours of no length",
    {
      ...webhook({}),
      active_hours: { timezone: "UTC", days: ["mo"], from: "08:00", to: "08:00", outside: "hold" },
    },
    "INVALID_ACTIVE_HOURS",
    "/active_hours/to",
  ),
  create(
    "a dependency that is no monitor",
    { ...target, depends_on: [kept.id, channel.id] },
    "INVALID_DEPENDENCY",
    "/depends_on/1",
  ),
  patch("a monitor that depends on itself", { depends_on: [kept.id] }, "DEPENDENCY_CYCLE", "/depends_on"),
  refusedBody("POST /api/v1/snoozes")(
    "a snooze in the past",
    { scope: { all: true }, until: "2026-01-01T00:00:00Z" },
    "INVALID_SNOOZE",
    "/until",
  ),
  refusedBody("POST /api/v1/reports/recipients")(
    "a report for a channel that sends no mail",
    { channel_id: channel.id },
    "INVALID_REPORT_RECIPIENT",
    "/channel_id",
  ),
  refusedBody("POST /api/v1/certificates")("a certificate twice", keptCertificate, "CERTIFICATE_NAME_TAKEN"),
  refusedBody("POST /api/v1/certificates")(
    "a text without a certificate",
    { ...keptCertificate, certificate: "x" },
    "INVALID_CERTIFICATE",
    "/certificate",
  ),
  refusedBody("POST /api/v1/certificates")(
    "a certificate with another key",
    { ...keptCertificate, kind: "client", private_key: otherKey },
    "CERTIFICATE_KEY_MISMATCH",
  ),
  {
    title: "an authority that a check names",
    ask: `DELETE /api/v1/certificates/${keptAuthority.id}`,
    code: "CERTIFICATE_IN_USE",
  },
  refusedBody("POST /api/v1/update-templates")(
    "a name of a template that is taken",
    keptTemplate,
    "UPDATE_TEMPLATE_NAME_TAKEN",
    "/name",
  ),
  createPage(
    "a style sheet that loads something",
    { slug: "kept-css", name: "x", custom_css: "p { color: red }\n@import 'x.css';" },
    "INVALID_CSS",
    "/custom_css",
  ),
  createPage("a slug with capitals", { slug: "Kept", name: "x" }, "INVALID_SLUG", "/slug"),
  createPage("a slug that is taken", { slug: "kept", name: "x" }, "SLUG_TAKEN", "/slug"),
  refusedBody(`POST /api/v1/status-pages/${page.id}/components`)(
    "a monitor twice on a page",
    { target_id: kept.id },
    "COMPONENT_ALREADY_ON_PAGE",
    "/target_id",
  ),
  refusedBody(`POST /api/v1/status-pages/${page.id}/components`)(
    "a monitor of another organisation",
    { target_id: foreignTarget.id },
    "TARGET_NOT_FOUND",
    "/target_id",
  ),
  refusedBody(`POST /api/v1/status-pages/${page.id}/components/reorder`)(
    "an order with a stranger",
    { target_ids: [foreignTarget.id] },
    "INVALID_COMPONENT_ID",
    "/target_ids/0",
  ),
];

const queries: Case[] = [
  {
    title: "a page size that is not a number",
    ask: "GET /api/v1/targets?limit=all",
    code: "INVALID_QUERY",
    field: "/query/limit",
  },
  {
    title: "a sort key that does not exist",
    ask: "GET /api/v1/targets?sort=created",
    code: "INVALID_QUERY",
    field: "/query/sort",
  },
  {
    title: "a cause without a kind",
    ask: "GET /api/v1/targets?cause=db-1.example.org",
    code: "INVALID_QUERY",
    field: "/query/cause",
  },
  { title: "a page size of 0", ask: "GET /api/v1/targets?limit=0", code: "INVALID_QUERY", field: "/query/limit" },
  { title: "a negative offset", ask: "GET /api/v1/targets?offset=-1", code: "INVALID_QUERY", field: "/query/offset" },
  {
    title: "a query key twice",
    ask: "GET /api/v1/targets?limit=1&limit=2",
    code: "INVALID_QUERY",
    field: "/query/limit",
  },
  {
    title: "an unknown query key",
    ask: "GET /api/v1/targets?colour=red",
    code: "UNKNOWN_FIELD",
    field: "/query/colour",
  },
  {
    title: "an unknown query key where none is taken",
    ask: `GET /api/v1/targets/${kept.id}?colour=red`,
    code: "UNKNOWN_FIELD",
    field: "/query/colour",
  },
  { title: "NUL in a query", ask: "GET /api/v1/targets?q=%00", code: "INVALID_QUERY", field: "/query/q" },
  { title: "NUL in a filter", ask: "GET /api/v1/targets?tag=a%00", code: "INVALID_QUERY", field: "/query/tag" },
  {
    title: "a time that is none",
    ask: `GET /api/v1/targets/${kept.id}/results?from=yesterday`,
    code: "INVALID_QUERY",
    field: "/query/from",
  },
];

const places: Case[] = [
  { title: "an unknown route", ask: "GET /api/v1/nothing", code: "NOT_FOUND" },
  { title: "an id that is none", ask: "GET /api/v1/targets/shop", code: "TARGET_NOT_FOUND" },
  { title: "a broken escape in a path", ask: "GET /api/v1/targets/%zz", code: "NOT_FOUND" },
  { title: "half a character in a path", ask: "GET /api/v1/targets/%ff", code: "NOT_FOUND" },
  { title: "NUL in a path", ask: "GET /api/v1/targets/%00", code: "NOT_FOUND" },
  { title: "a slash in an id", ask: `GET /api/v1/targets/${kept.id}%2fresults`, code: "TARGET_NOT_FOUND" },
  {
    title: "a method that the path does not answer",
    ask: "PUT /api/v1/targets",
    code: "METHOD_NOT_ALLOWED",
    headers: { allow: /POST, GET/ },
  },
  {
    title: "a method that the resource does not answer",
    ask: `POST /api/v1/targets/${kept.id}`,
    code: "METHOD_NOT_ALLOWED",
    headers: { allow: /GET, PATCH, DELETE/ },
  },
  {
    title: "a method that a path next to ids does not answer",
    ask: "GET /api/v1/targets/test",
    code: "METHOD_NOT_ALLOWED",
    headers: { allow: /^POST, OPTIONS$/ },
  },
  { title: "a method that nothing answers", ask: "PROPFIND /api/v1/targets", code: "METHOD_NOT_ALLOWED" },
  { title: "an operator's route where no secret is set", ask: "GET /operator/regions", code: "NOT_FOUND" },
];

const revoked = await tokenOf(sql, olga, { revokedAt: new Date() });
const expired = await tokenOf(sql, olga, { expiresAt: new Date(Date.now() - 1000) });
const unbound = await tokenOf(sql, olga, { bound: false });
const { olga: abroad } = await castIn(sql);
await sql`
  insert into memberships (org_id, user_id, role, created_at)
  values (${olga.orgId}, ${abroad.userId}, 'member', now())`;
const ofTwo = await tokenOf(sql, abroad, { bound: false });
const reader = await tokenOf(sql, olga, { scopes: ["targets:read"] });
const unauthenticated = { code: "UNAUTHENTICATED" as const, headers: { "www-authenticate": "Bearer" } };
const json = { json: target };

const authenticators: Case[] = [
  { title: "no token", ask: "GET /api/v1/targets", as: anonymous, ...unauthenticated },
  {
    title: "no token, and a body that would be refused",
    ask: "POST /api/v1/targets",
    send: { json: {} },
    as: anonymous,
    ...unauthenticated,
  },
  {
    title: "another scheme",
    ask: "GET /api/v1/targets",
    as: anonymous.with({ authorization: "Basic b2xnYTpzZWNyZXQ=" }),
    ...unauthenticated,
  },
  {
    title: "an unknown token",
    ask: "GET /api/v1/targets",
    as: asking("sm_live_0000000000000000000000000000000000000000000"),
    ...unauthenticated,
  },
  { title: "the mask as a token", ask: "GET /api/v1/targets", as: asking("***"), ...unauthenticated },
  { title: "a revoked token", ask: "GET /api/v1/targets", as: asking(revoked), ...unauthenticated },
  { title: "an expired token", ask: "GET /api/v1/targets", as: asking(expired), ...unauthenticated },
  { title: "an agent's token", ask: "GET /api/v1/targets", as: probe, ...unauthenticated },
  {
    title: "a tenant's token on a route of agents",
    ask: "POST /api/agent/results",
    send: { json: batchOf([]) },
    ...unauthenticated,
  },
  {
    title: "a token bound to one organisation, used for another",
    ask: "GET /api/v1/targets",
    as: asking(olga.token).with({ "x-sm-org": xenia.orgSlug }),
    code: "ORG_NOT_FOUND",
  },
  {
    title: "an unbound token, used for an organisation of others",
    ask: "GET /api/v1/targets",
    as: asking(unbound).with({ "x-sm-org": xenia.orgSlug }),
    code: "ORG_NOT_FOUND",
  },
  {
    title: "an unbound token of a member of two organisations, without X-Sm-Org",
    ask: "GET /api/v1/targets",
    as: asking(ofTwo),
    code: "ORG_REQUIRED",
  },
  {
    title: "a cookie that is none",
    ask: "GET /api/v1/targets",
    as: anonymous.with({ cookie: "__Host-_sm_session=guess" }),
    ...unauthenticated,
  },
  {
    title: "a token that may only read",
    ask: "POST /api/v1/targets",
    send: json,
    as: asking(reader),
    code: "INSUFFICIENT_SCOPE",
  },
  {
    title: "a member where an owner is needed",
    ask: "POST /api/v1/status-pages",
    send: { json: { slug: "milan", name: "Milan" } },
    as: asking(milan.token),
    code: "OWNER_REQUIRED",
  },
  {
    title: "a cookie, from nowhere",
    ask: "POST /api/v1/targets",
    send: json,
    as: anonymous.with(cookie),
    code: "CSRF_REJECTED",
  },
  {
    title: "a cookie, from another origin",
    ask: "POST /api/v1/targets",
    send: json,
    as: anonymous.with({ ...cookie, origin: "https://evil.example" }),
    code: "CSRF_REJECTED",
  },
  {
    title: "a cookie, from an origin that is none",
    ask: "POST /api/v1/targets",
    send: json,
    as: anonymous.with({ ...cookie, origin: "null" }),
    code: "CSRF_REJECTED",
  },
  {
    title: "a cookie, from another site",
    ask: "POST /api/v1/targets",
    send: json,
    as: anonymous.with({ ...cookie, origin: url, "sec-fetch-site": "cross-site" }),
    code: "CSRF_REJECTED",
  },
  {
    title: "a cookie, from a sister site",
    ask: `DELETE /api/v1/targets/${kept.id}`,
    as: anonymous.with({ ...cookie, "sec-fetch-site": "same-site" }),
    code: "CSRF_REJECTED",
  },
  {
    title: "a sign-in code that is none",
    ask: "POST /api/v1/sessions",
    send: { json: { code: "guess" } },
    as: anonymous,
    code: "SIGN_IN_LINK_INVALID",
    field: "/code",
  },
  {
    title: "a password of an account that is not there",
    ask: "POST /api/v1/sessions",
    send: { json: { email: "nobody@example.org", password: "correct horse battery" } },
    as: anonymous,
    code: "INVALID_CREDENTIALS",
  },
  {
    title: "a right password of an account with a second factor",
    ask: "POST /api/v1/sessions",
    send: { json: { email: guarded.email, password: "correct horse battery" } },
    as: anonymous,
    code: "CODE_REQUIRED",
  },
  {
    title: "a code that is none",
    ask: "POST /api/v1/sessions",
    send: { json: { email: guarded.email, password: "correct horse battery", code: "no code" } },
    as: anonymous,
    code: "CODE_INVALID",
  },
  {
    title: "an address without a password",
    ask: "POST /api/v1/sessions",
    send: { json: { email: "nobody@example.org" } },
    as: anonymous,
    code: "INVALID_BODY",
    field: "/password",
  },
  {
    title: "a sign-in that another site sends",
    ask: "POST /api/v1/sessions",
    send: { json: { code: "guess" } },
    as: anonymous.with({ origin: "https://evil.example" }),
    code: "CSRF_REJECTED",
  },
];

const agents: Case[] = [
  {
    title: "a batch over the limit",
    ask: "POST /api/agent/results",
    send: { json: batchOf(Array.from({ length: 1001 }, (_, n) => runOf(kept.id, n))) },
    as: probe,
    code: "INVALID_BODY",
    field: "/results",
  },
  {
    title: "a result that is not one",
    ask: "POST /api/agent/results",
    send: { json: batchOf([{ ...runOf(kept.id, 0), total_ms: -1 }]) },
    as: probe,
    code: "INVALID_BODY",
    field: "/results/0/total_ms",
  },
  {
    title: "results of another protocol",
    ask: "POST /api/agent/results",
    send: { json: { ...batchOf([]), protocol: 99 } },
    as: probe,
    code: "AGENT_PROTOCOL_MISMATCH",
  },
  {
    title: "a pull of another protocol",
    ask: "POST /api/agent/pull",
    send: {
      json: { protocol: protocolVersion + 1, agent_version: "0", kinds: allAbilities, cursor: null, capacity: 0 },
    },
    as: probe,
    code: "AGENT_PROTOCOL_MISMATCH",
  },
];

/** Another service on the same database, which may reach private addresses, and has an operator. */
const google = {
  SM_AUTH__ENABLED_METHODS: "google,password,passkey",
  SM_AUTH__GOOGLE__CLIENT_ID: "id",
  SM_AUTH__GOOGLE__CLIENT_SECRET: "secret",
};
const lenient = connect(
  t,
  await serveHere(t, database, {
    SM_SECURITY__ALLOW_PRIVATE_TARGETS: "true",
    SM_OPERATOR__ADMIN_TOKEN: "a-secret-of-the-operator",
    ...centralAccounts,
    ...google,
  }),
  null,
);
const withToken = (token: string) => lenient.with({ authorization: `Bearer ${token}` });
const incident = await make.incident(
  sql,
  { orgId: olga.orgId, userId: olga.userId, ownerId: olga.userId, memberId: milan.userId },
  "",
);
const stage: Stage = {
  pastWindow,
  struck,
  sql,
  olga,
  milan,
  asking: withToken,
  signedIn: lenient.with({ cookie: `_sm_session=${secret}`, "sec-fetch-site": "same-origin" }),
  anonymous: lenient,
  operator: withToken("a-secret-of-the-operator"),
  target: (await api.post("/api/v1/targets", { ...target, name: "Of the stage" })).body,
  page,
  incident,
  deliveries: await deliveriesOf(incident, foreignChannel.id),
};

/** A delivery in dead letter, and a later one that was accepted. */
async function deliveriesOf(incidentId: string, channelId: string) {
  const [superseded, delivered] = [newId(), newId()];
  await sql`
    insert into deliveries (id, org_id, incident_id, channel_id, channel_name, channel_kind, reason, seq, notice, state,
      created_at)
    select d.id, ${olga.orgId}, ${incidentId}, ${channelId}, 'Kept', 'webhook', d.reason, 0, '{}', d.state, d.at
    from (values (${superseded}::uuid, 'opened', 'dead', now()),
                 (${delivered}::uuid, 'reminder', 'delivered', now() + interval '1 s')) as d (id, reason, state, at)`;
  return { superseded, delivered };
}

const addresses = [{ kind: "kuma", value: "taken-push-token" }];
await api.post("/api/v1/targets", {
  name: "Job",
  check: { type: "heartbeat", period: 60_000 },
  heartbeat_addresses: addresses,
});

const elsewhere = {
  resources: resources(stage),
  people: await people(stage),
  channels: await gatedChannels(stage),
  kinds: kinds(addresses),
  secrets: await sealedAway(stage),
};

function refuses(chapter: string, cases: readonly Case[], caller: Client): void {
  t.test(chapter, async (t) => {
    const before = await snapshots.whole();
    for (const one of cases) {
      const [method, path] = one.ask.split(" ") as [string, string];
      isRefused(t, await (one.as ?? caller).send(method, path, one.send), one);
    }
    t.equal(await snapshots.whole(), before, "nothing was written");
  });
}
for (const [chapter, cases] of Object.entries({ shapes, files, values, queries, places, authenticators, agents }))
  refuses(chapter, cases, api);
for (const [chapter, cases] of Object.entries(elsewhere)) refuses(chapter, cases, withToken(olga.token));

t.test("without the secret of an operator none of the operator's routes is there", async (t) => {
  for (const route of routes.filter(({ auth }) => auth === "operator")) {
    const answer = await asking("a-secret-of-the-operator").send(
      route.method,
      route.path.replaceAll(/\{\w+\}/g, "x"),
      route.body === null ? {} : { json: {} },
    );
    isRefused(t, answer, { title: nameOf(route), code: "NOT_FOUND" });
  }
});

t.test("an agent that took no run in time", async (t) => {
  await sql`update agents set last_seen_at = now(), kinds = ${sql.json(allAbilities)} where id = ${agent.id}`;
  const answer = await withToken(olga.token).post("/api/v1/targets/test", { ...target.check, timeout: 100 });
  isRefused(t, answer, { title: "a run that no agent answers", code: "PROBE_BUSY" });
});

t.test("what never becomes a request", (t) => provokeParser(t, url, database));

t.test("a service that starts, that is overloaded, that lost its database", provokeOutages);

t.test("what a plan gives is given once: quotas are 422, budgets 429 with the time to wait", async (t) => {
  await sql`
    insert into plans (id, name, min_check_interval_secs, max_targets, api_writes_per_min, api_reads_per_min)
    values ('small', 'Small', 60, 1, 3, null)`;
  const { olga: poor } = await castIn(sql, { plan: "small" });
  const mine = asking(poor.token);
  t.equal((await mine.post("/api/v1/targets", target)).status, 201);
  const full = await mine.post("/api/v1/targets", target);
  matchObject(t, full, {
    status: 422,
    body: {
      error: {
        code: "QUOTA_EXCEEDED",
        field: null,
        details: { quota: "max_targets", current: 1, limit: 1, plan: "small" },
      },
    },
  });
  matchObject(
    t,
    await mine.post("/api/v1/targets/bulk", [target]),
    { status: 422, body: { error: { code: "QUOTA_EXCEEDED" } } },
    "bulk has a budget of its own, and the same quota",
  );
  await mine.post("/api/v1/targets", target);
  const late = await mine.post("/api/v1/targets", target);
  matchObject(t, late, {
    status: 429,
    body: { error: { code: "RATE_LIMITED", field: null, details: { scope: "per_org_api_writes", limit: 3 } } },
  });
  t.match(late.headers["retry-after"], /^([1-9]|[1-5]\d|60)$/);
  isRefused(t, full, { title: "a quota", code: "QUOTA_EXCEEDED" });
  isRefused(t, late, { title: "a budget", code: "RATE_LIMITED" });
  t.equal((await mine.get("/api/v1/targets")).status, 200, "reads continue");
  for (const path of ["/healthz", "/readyz"]) t.equal((await anonymous.get(path)).status, 200, path);
});

t.test("HEAD answers like GET, without a body", async (t) => {
  const [get, head] = [await api.get("/api/v1/targets"), await api.send("HEAD", "/api/v1/targets")];
  t.strictSame([head.status, head.text, head.headers["content-length"]], [200, "", get.headers["content-length"]]);
  matchObject(t, await api.send("HEAD", `/api/v1/targets/${newId()}`), { status: 404, text: "" });
  matchObject(t, await anonymous.send("HEAD", "/api/v1/targets"), { status: 401, text: "" });
});

t.test("a Host header or a request target that is none is named as one", async (t) => {
  for (const host of ["[", "a b", "shop:port"]) {
    const answer = await api.with({ host }).get("/api/v1/targets");
    isRefused(t, answer, { title: host, code: "INVALID_HOST" });
  }
  matchObject(t, await api.get("http://["), { status: 400, body: { error: { code: "INVALID_HOST" } } });
});

t.test("what a page of ours sends passes", async (t) => {
  for (const headers of [{ "sec-fetch-site": "same-origin" }, { origin: url }]) {
    const { status } = await anonymous
      .with({ ...cookie, ...headers })
      .post("/api/v1/targets", { ...target, name: "By cookie" });
    t.equal(status, 201);
  }
});

t.test("results that cannot be kept are counted, and the rest of the batch lands", async (t) => {
  const now = Date.now();
  const mine = runOf(kept.id, now - 1000);
  const results = [
    mine,
    runOf(newId(), now),
    runOf(kept.id, now + 600_000),
    runOf(kept.id, now - 91 * 86_400_000),
    mine,
  ];
  await admit(sql, "default", [mine]);
  const offSchedule = [runOf(kept.id, now - 1001), { ...mine, timestamp: mine.scheduled_at - 600_000 }];
  const { status, body } = await probe.post("/api/agent/results", batchOf([...results, ...offSchedule]));
  t.equal(status, 200);
  t.strictSame(body, {
    stored: 1,
    duplicates: 1,
    dropped_future: 2,
    dropped_unassigned: 1,
    dropped_off_schedule: 2,
    rechecks: [],
  });
});

t.test("every code of the registry was provoked", (t) => {
  t.strictSame(
    neverSeen(),
    [],
    "a new code gets a case: above, in refusals.ts, or in outages.ts where a part of the service has to be away",
  );
  t.end();
});

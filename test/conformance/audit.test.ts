import type { Sql } from "postgres";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { allRoutes } from "@statusmesh/control-plane/app";
import { makeChallenge } from "@statusmesh/control-plane/access/auth/passkeys/challenges";
import { hashPassword } from "@statusmesh/control-plane/access/auth/passwords/passwords";
import { cheapHash } from "@statusmesh/control-plane/testing/world";
import { codeAt, stepAt } from "@statusmesh/control-plane/access/auth/second-factor/totp";
import { actionWords, entryInWords } from "@statusmesh/control-plane/access/orgs/words";
import { softwareAuthenticator } from "@statusmesh/control-plane/testing/authenticator";
import type { Hub } from "@statusmesh/control-plane/platform/db/notify";
import type { Route } from "@statusmesh/control-plane/platform/http/route";
import { openAgentPings } from "@statusmesh/control-plane/monitoring/heartbeats/intake/agent-pings";
import { openIngest } from "@statusmesh/control-plane/monitoring/pipeline/ingest";
import { newId } from "@statusmesh/shared/ids";
import { connect, type Json } from "../harness/api.ts";
import { agentIn, castIn, sessionOf } from "../harness/cast.ts";
import { cloneDatabase } from "../harness/database.ts";
import { serveHere } from "../harness/in-process.ts";
import { admit, batchOf, runOf } from "../harness/results.ts";
import { centralAccounts, goodBodies, tcp, webhook } from "./bodies.ts";
import { make } from "./isolation/things.ts";

/*
 * Audit entries of every write. The list of writes is derived from the declarations, so a new route is covered at once.
 * A request that earlier ones made impossible runs in an organisation of its own, with a session and existing data to
 * change.
 */

const silentHub: Hub = {
  on: () => () => undefined,
  wait: () => Promise.resolve(false),
  ready: () => Promise.resolve(),
};
const routes = allRoutes({
  hub: silentHub,
  ingest: openIngest(() => Promise.resolve()),
  agentPings: openAgentPings(() => Promise.resolve()),
  draining: new AbortController().signal,
});
const nameOf = (route: Route): string => `${route.method} ${route.path}`;
const writes = routes.filter((route) => route.auth === "tenant" && route.writes);

const database = await cloneDatabase(t);
const { sql } = database;
const agent = await agentIn(sql, "default");
const url = await serveHere(t, database, {
  SM_SECURITY__ALLOW_PRIVATE_TARGETS: "true",
  // Two ways to sign in, so that each can be removed.
  SM_AUTH__ENABLED_METHODS: "magic_link,password,passkey",
  SM_EMAIL__SMTP_URL: "smtp://127.0.0.1:9",
  ...centralAccounts,
});
const password = await hashPassword({ hashCost: cheapHash }, "correct horse battery");
const totpSecret = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ";
const anonymous = connect(t, url, null);
const traceId = "ab".repeat(16);

interface AuditRow {
  action: string;
  resource_id: string | null;
  org_id: string;
  user_id: string;
  actor_type: string;
  actor_id: string;
  ip: string;
  user_agent: string;
  trace_id: string;
  write_source: string;
  before: Json;
  after: Json;
}
const rowsOf = (db: Sql, user: string) => db<AuditRow[]>`select * from audit_log where user_id = ${user}`;

/** An organisation with one thing of each type, and a session of its owner. */
async function scene() {
  const { olga, milan } = await castIn(sql);
  const cookie = await sessionOf(sql, olga);
  const [own] = await sql<{ id: string }[]>`select id from sessions where user_id = ${olga.userId}`;
  const browser = anonymous.with({
    cookie: `_sm_session=${cookie}; _sm_session_passkey=${cookie}`,
    "sec-fetch-site": "same-origin",
    "user-agent": "Firefox",
    traceparent: `00-${traceId}-${"34".repeat(8)}-01`,
  });
  const made = async (path: string, json: object): Promise<Json> => {
    const { status, body, text } = await browser.post(path, json);
    if (status !== 201) throw new Error(`${path}: ${text}`);
    return body;
  };
  const slug = `s-${newId().slice(-12)}`;
  const [target, bare] = [
    await made("/api/v1/targets", { name: "Old", check: tcp }),
    await made("/api/v1/targets", { name: "Bare", check: tcp }),
  ];
  const heartbeat = await made("/api/v1/targets", { name: "Job", check: { type: "heartbeat", period: 60_000 } });
  const share = await made(`/api/v1/targets/${target.id}/shares`, { label: "Old" });
  const body = goodBodies({ targetId: target.id })["POST /api/v1/maintenance"]!;
  const window = await made("/api/v1/maintenance", body);
  const channel = await made("/api/v1/notification-channels", { name: "Old", config: webhook });
  const delegation = await made("/api/v1/notification-channels/delegate", { name: "Old" });
  const snooze = await made("/api/v1/snoozes", {
    scope: { tag: "old" },
    until: new Date(Date.now() + 3_600_000).toISOString(),
  });
  const template = await made("/api/v1/update-templates", { kind: "incident", name: "Old", body: "Text" });
  const page = await made("/api/v1/status-pages", { slug, name: "Old" });
  await made(`/api/v1/status-pages/${page.id}/components`, { target_id: target.id });
  const readerToken = (await made(`/api/v1/status-pages/${page.id}/reader-tokens`, { name: "Old" })).id;
  const subscriber = newId();
  await sql`
    insert into subscribers (id, org_id, page_id, kind, address, token, state, asked_at, created_at)
    values (${subscriber}, ${olga.orgId}, ${page.id}, 'email', ${slug}, ${subscriber}, 'active', now(), now())`;
  const invitation = await made(`/api/v1/orgs/${olga.orgId}/invitations`, { email: `invited.${slug}@example.org` });
  const down = [2000, 1000].map((ago) => runOf(target.id, Date.now() - ago, "down"));
  await admit(sql, "default", down);
  await anonymous.with({ authorization: `Bearer ${agent.token}` }).post("/api/agent/results", batchOf(down));
  const incident = (await browser.get(`/api/v1/incidents?target_id=${target.id}`)).body.items[0].id;
  const delivery = newId();
  await sql`
    insert into deliveries (id, org_id, incident_id, channel_name, channel_kind, reason, seq, notice, state, created_at)
    values (${delivery}, ${olga.orgId}, ${incident}, 'Gone', 'webhook', 'opened', 0, '{}', 'dead', now())`;
  const session = newId();
  await sql`
    insert into sessions (id, user_id, org_id, secret_hash, created_at, last_used_at, expires_at)
    values (${session}, ${olga.userId}, ${olga.orgId}, ${Buffer.from(session)}, now(), now(),
      now() + interval '1 hour')`;
  const identity = newId();
  await sql`
    insert into user_identities (id, user_id, provider, issuer, subject, email, created_at, last_used_at)
    values (${identity}, ${olga.userId}, 'google', 'https://google', ${identity}, ${olga.email}, now(), now())`;
  await sql`update users set password_hash = ${password} where id = ${olga.userId}`;
  await sql`
    insert into totp_factors (user_id, secret, pending_secret, pending_at)
    values (${olga.userId}, ${`plain:${totpSecret}`}, ${`plain:${totpSecret}`}, now())`;
  const [token] = await sql<{ id: string }[]>`select id from api_tokens where user_id = ${olga.userId}`;
  const home = { ...olga, ownerId: olga.userId, memberId: milan.userId };
  const connectedApp = await make.connectedApp(sql, home, "");
  const passkey = await make.passkey(sql, home, "");
  const challenge = await makeChallenge({ sql, clock: { now: Date.now } }, cookie, `register ${olga.userId}`);
  const credential = softwareAuthenticator("http://localhost:0").create({
    challenge,
    rp: { id: "localhost" },
    user: { id: "AAAA" },
  });
  const certificate = await make.certificate(sql, home, "");
  const mailChannel = await make.mailChannel(sql, home, "");
  const device = await make.device(sql, home, "");
  const recipient = await make.reportRecipient(sql, home, "");
  const planned = { project: "shop", document: { version: 1 } };
  const planToken = (await browser.post("/api/v1/config/plan", planned)).body.plan_token;
  await browser.post("/api/v1/config/adopt", { project: "audit", kind: "monitor", key: "bare", id: bare.id });
  await sql`update memberships set role = 'owner' where user_id = ${milan.userId}`;
  await sql`delete from audit_log where org_id = ${olga.orgId}`;
  return {
    olga,
    browser,
    own: own!.id,
    slug,
    planToken,
    target,
    bare,
    window,
    share,
    channel,
    delegation,
    snooze,
    template,
    certificate,
    mailChannel,
    device,
    recipient,
    page,
    incident,
    subscriber,
    readerToken,
    delivery,
    session,
    heartbeat,
    identity,
    token: token!.id,
    connectedApp,
    passkey,
    credential,
    invitation,
    milan,
  };
}
type Scene = Awaited<ReturnType<typeof scene>>;

/** The thing that replaces `{id}` below a path. */
const idsByPath = (s: Scene): Record<string, string> => ({
  "/api/v1/targets/{id}/heartbeat": s.heartbeat.id,
  "/api/v1/targets": s.target.id,
  "/api/v1/notification-channels/delegate": s.delegation.id,
  "/api/v1/notification-channels/devices": s.device,
  "/api/v1/notification-channels": s.channel.id,
  "/api/v1/maintenance": s.window.id,
  "/api/v1/snoozes": s.snooze.id,
  "/api/v1/reports/recipients": s.recipient,
  "/api/v1/certificates": s.certificate,
  "/api/v1/update-templates": s.template.id,
  "/api/v1/status-pages": s.page.id,
  "/api/v1/incidents": s.incident,
  "/api/v1/sessions": s.session,
  "/api/v1/identities": s.identity,
  "/api/v1/me/passkeys": s.passkey,
  "/api/v1/api-tokens": s.token,
  "/api/v1/connected-apps": s.connectedApp,
  "/api/v1/orgs": s.olga.orgId,
});

function pathOf(route: Route, s: Scene): string {
  const own = Object.entries(idsByPath(s)).find(([prefix]) =>
    route.path.startsWith(prefix.includes("{id}") ? prefix : `${prefix}/{id}`),
  )?.[1];
  const parts: Record<string, string> = {
    id: own ?? newId(),
    target_id: s.target.id,
    user_id: s.milan.userId,
    share_id: s.share.id,
    delivery_id: s.delivery,
    occurrence_id: s.window.occurrence.id,
    subscriber_id: s.subscriber,
    token_id: s.readerToken,
    invitation_id: s.invitation.id,
  };
  return route.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => parts[name] ?? newId());
}

/** Bodies that replace those of bodies.ts, which would be refused here. */
const bodyOf = (route: Route, s: Scene): object | undefined => {
  const own: Record<string, object> = {
    "POST /api/v1/me/totp/confirm": { code: codeAt(totpSecret, stepAt(Date.now())) },
    "PATCH /api/v1/orgs/{id}": { name: "New" },
    "POST /api/v1/me/passkeys": { name: "Laptop", response: s.credential },
    "POST /api/v1/config/apply": { project: "shop", document: { version: 1 }, plan_token: s.planToken },
    "POST /api/v1/config/detach": { project: "audit", kind: "monitor", key: "bare", id: s.bare.id },
    "POST /api/v1/status-pages": { slug: `t-${s.slug.slice(2)}`, name: "Other" },
    "POST /api/v1/status-pages/{id}/components": { target_id: s.bare.id },
    "POST /api/v1/incidents": { ...goodBodies({ targetId: s.bare.id })["POST /api/v1/incidents"] },
    "POST /api/v1/incidents/bulk-action": { ids: [s.incident], action: { type: "acknowledge" } },
  };
  const good = goodBodies({ targetId: s.target.id, channelId: s.mailChannel });
  return route.body === null ? undefined : (own[nameOf(route)] ?? good[nameOf(route)]);
};

const prepared: Record<string, (s: Scene) => Promise<unknown>> = {
  "DELETE /api/v1/incidents/{id}/acknowledgement": async ({ browser, incident, olga }) => {
    await browser.post(`/api/v1/incidents/${incident}/acknowledge`);
    await sql`delete from audit_log where org_id = ${olga.orgId}`;
  },
  "POST /api/v1/notification-channels/{id}/resend-verification": async ({ channel }) => sql`
    update channels set kind = 'email', config = ${sql.json({ type: "email", to: "ops@example.org" })}
    where id = ${channel.id}`,
  "POST /api/v1/orgs/{id}/restore": async ({ browser, olga }) => {
    await browser.delete(`/api/v1/orgs/${olga.orgId}`);
    await sql`delete from audit_log where org_id = ${olga.orgId}`;
  },
};

/** States that a successful write records: before, after, or both. */
function sidesOf(route: Route): { before: boolean; after: boolean } {
  if (route.method === "DELETE") return { before: true, after: false };
  if (route.method === "PATCH" || route.method === "PUT") return { before: true, after: true };
  return { before: false, after: true };
}

t.test("every write leaves exactly one row: actor, action, address, states before and after", async (t) => {
  t.ok(writes.length >= 25);
  const send = async (route: Route, s: Scene) => {
    await prepared[nameOf(route)]?.(s);
    const json = bodyOf(route, s);
    const answer = await s.browser.send(route.method, pathOf(route, s), json === undefined ? {} : { json });
    return { s, json, answer };
  };
  let shared = await scene();
  // Things are deleted after the others are done, and what is below them before.
  const depth = ({ method, path }: Route) => (method === "DELETE" ? path.length : Infinity);
  for (const route of writes.toSorted((a, b) => (depth(a) === depth(b) ? 0 : depth(b) - depth(a)))) {
    const name = nameOf(route);
    // An incident is acknowledged once, but a second request succeeds too.
    const isKept = prepared[name] === undefined && !route.path.endsWith("/acknowledge");
    let sent = await send(route, isKept ? shared : await scene());
    let rows = await rowsOf(sql, sent.s.olga.userId);
    // Earlier requests have made it impossible, or have done it already.
    if (isKept && (sent.answer.status >= 300 || rows.length === 0)) {
      sent = await send(route, (shared = await scene()));
      rows = await rowsOf(sql, sent.s.olga.userId);
    }
    const { s, json, answer } = sent;
    const { status, text, headers } = answer;
    t.ok(status >= 200 && status < 300, `${name} succeeds here: ${status} ${text.slice(0, 300)}`);
    // A changed factor is a row in each organisation of the person.
    t.equal(new Set(rows.map(({ org_id }) => org_id)).size, rows.length, `${name}: one row`);
    if (!/\/(?:identities|me)\//.test(name)) t.equal(rows.length, 1, name);
    const [row] = rows;
    matchObject(
      t,
      row,
      {
        action: name,
        user_id: s.olga.userId,
        actor_type: "session",
        actor_id: s.own,
        ip: /127\.0\.0\.1$/,
        user_agent: "Firefox",
        trace_id: traceId,
        write_source: "ui",
      },
      name,
    );
    const made = headers["location"]?.split(/[/#]/).at(-1);
    if (made !== undefined) t.equal(row?.resource_id, made, `${name}: the id of what was made`);
    else if (route.path.includes("{id}"))
      t.ok(
        row !== undefined &&
          row.resource_id !== null &&
          text.concat(pathOf(route, s), JSON.stringify(json ?? {})).includes(row.resource_id),
        `${name}: the id of what was changed`,
      );
    const { before, after } = sidesOf(route);
    if (before) t.ok(Object.keys(row?.before ?? {}).length > 0, `${name}: before`);
    if (after) t.ok(Object.keys(row?.after ?? {}).length > 0, `${name}: after`);
    // What has no name of its own is recorded with that of its monitor.
    if (row?.resource_id && /incidents|snoozes|shares/.test(route.path))
      t.match(entryInWords(row, new Map()).name, /^(?:Old|Bare|Shop|tag \w+)$/, `${name}: a name`);
    await sql`delete from audit_log where user_id = ${s.olga.userId}`;
  }
});

t.test("the console has words for every write", async (t) => {
  t.same(
    writes.map(nameOf).filter((name) => actionWords[name] === undefined),
    [],
  );
});

t.test("a write that is refused leaves none", async (t) => {
  const s = await scene();
  for (const route of writes.filter(({ path }) => path.includes("{id}"))) {
    const path = route.path.replaceAll(/\{\w+\}/g, () => newId());
    const json = bodyOf(route, s);
    const { status } = await s.browser.send(route.method, path, json === undefined ? {} : { json });
    t.equal(status, 404, nameOf(route));
  }
  for (const route of writes.filter((route) => route.body !== null)) {
    const { status } = await s.browser.send(route.method, pathOf(route, s), { json: { surplus: 1 } });
    t.equal(status, 400, nameOf(route));
  }
  t.strictSame([...(await rowsOf(sql, s.olga.userId))], []);
});

t.test("the log contains no secret of a request", async (t) => {
  const { browser, target, olga, channel } = await scene();
  let planted = 0;
  const secret = () => `marker-${"s".repeat(20)}-${++planted}`;
  const withToken = () => ({
    type: "http",
    url: "https://127.0.0.1:9/",
    bearer_token: secret(),
    headers: { "X-Api-Key": secret(), Cookie: secret(), Accept: "text/html" },
  });
  const withPassword = () => ({ type: "http", url: "https://127.0.0.1:9/", basic_auth: ["user", secret()] });
  const hook = () => ({
    type: "webhook",
    url: `https://127.0.0.1:9/${secret()}`,
    headers: { "x-token": secret() },
    secret: secret(),
  });
  const done = async (method: string, path: string, json?: object) => {
    const { status, body, text } = await browser.send(method, path, json === undefined ? {} : { json });
    t.ok(status < 300, `${method} ${path}: ${text}`);
    return body;
  };
  const one = await done("POST", "/api/v1/targets", { name: "One", check: withToken() });
  const two = await done("POST", "/api/v1/targets", { name: "Two", check: withPassword() });
  const [three] = await done("POST", "/api/v1/targets/bulk", [
    { name: "Three", check: withToken() },
    { name: "Four", check: withPassword() },
  ]);
  await done("PATCH", `/api/v1/targets/${one.id}`, {
    check: { bearer_token: secret(), headers: { "X-Api-Key": secret() } },
  });
  await done("PATCH", `/api/v1/targets/${two.id}`, { check: { basic_auth: ["other", secret()] } });
  await done("PATCH", `/api/v1/targets/${two.id}`, { check: { basic_auth: null, bearer_token: secret() } });
  await done("DELETE", `/api/v1/targets/${one.id}`);
  await done("POST", "/api/v1/targets/bulk-action", { ids: [two.id, three.id, target.id], action: { type: "delete" } });
  const duty = await done("POST", "/api/v1/notification-channels", { name: "Duty", config: hook() });
  await done("PATCH", `/api/v1/notification-channels/${duty.id}`, { config: hook() });
  await done("PATCH", `/api/v1/notification-channels/${channel.id}`, { config: hook() });
  await done("DELETE", `/api/v1/notification-channels/${duty.id}`);
  const { token } = await done("POST", "/api/v1/api-tokens", { name: "CI", scopes: ["org:read"] });
  t.ok(planted > 20);
  const [all] = await sql<{ text: string }[]>`select string_agg(a::text, ' ') as text from audit_log a`;
  t.notMatch(all!.text, /marker-/);
  t.notOk(all!.text.includes(token), "nor a new token");

  const rows = await sql<
    AuditRow[]
  >`select action, resource_id, before, after from audit_log where user_id = ${olga.userId} order by id`;
  const masked = (changes: object) => ({ check: changes });
  matchObject(t, rows[0]!.after, {
    id: one.id,
    name: "One",
    check: { bearer_token: "***", headers: { "X-Api-Key": "***", Cookie: "***", Accept: "text/html" } },
  });
  matchObject(t, rows[2], { resource_id: null, after: { count: 2, names: ["Three", "Four"] } });
  t.strictSame(
    [rows[3]!.before, rows[3]!.after],
    [
      masked({ bearer_token: "***", headers: { "X-Api-Key": "***", Cookie: "***", Accept: "text/html" } }),
      masked({ bearer_token: "***", headers: { "X-Api-Key": "***" } }),
    ],
    "what was replaced, and nothing else",
  );
  t.strictSame(
    [rows[4]!.before, rows[4]!.after],
    [masked({ basic_auth: ["user", "***"] }), masked({ basic_auth: ["other", "***"] })],
  );
  t.strictSame(
    [rows[5]!.before, rows[5]!.after],
    [masked({ basic_auth: ["other", "***"], bearer_token: null }), masked({ basic_auth: null, bearer_token: "***" })],
  );
  matchObject(t, rows[6], { after: null, before: { id: one.id, check: { type: "http", bearer_token: "***" } } });
  matchObject(t, rows[7], {
    before: { names: ["Two", "Three", "Old"] },
    after: { action: { type: "delete" }, count: 3, failed: 0, ids: [two.id, three.id, target.id] },
  });
  t.strictSame(rows[9]!.after.config, { url: "***", headers: { "x-token": "***" }, secret: "***" });
  t.strictSame(rows[10]!.before.config, { url: "***", headers: {}, secret: null });
});

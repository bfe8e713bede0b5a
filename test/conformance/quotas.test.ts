import t, { type Test } from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { hashToken } from "@statusmesh/control-plane/platform/crypto/token";
import type { ErrorCode } from "@statusmesh/shared/errors";
import { newId } from "@statusmesh/shared/ids";
import { type Answer, type Client, connect } from "../harness/api.ts";
import { castIn, sessionOf } from "../harness/cast.ts";
import { cloneDatabase } from "../harness/database.ts";
import { serveHere } from "../harness/in-process.ts";
import { insertTargets } from "../harness/targets.ts";
import { tcp, webhook } from "./bodies.ts";
import { type Home, make } from "./isolation/things.ts";

/*
 * Quotas hold under concurrency: of fifty concurrent requests at one below the limit exactly one succeeds, through
 * every route. The organisations have the free plan.
 */

const database = await cloneDatabase(t);
const { sql } = database;
const url = await serveHere(t, database, {
  SM_SECURITY__ALLOW_PRIVATE_TARGETS: "true",
  SM_TENANCY__DEFAULT_PLAN: "free",
});
const anonymous = connect(t, url, null);
const target = { name: "Shop", check: tcp };

/** A new organisation on the free plan with two members, and its owner, signed in. */
async function onFree(): Promise<{ home: Home; api: Client }> {
  const { olga, milan } = await castIn(sql, { plan: "free" });
  const api = anonymous.with({ cookie: `_sm_session=${await sessionOf(sql, olga)}`, "sec-fetch-site": "same-origin" });
  return { home: { orgId: olga.orgId, userId: olga.userId, ownerId: olga.userId, memberId: milan.userId }, api };
}

const times = <T>(count: number, work: (n: number) => T): T[] => Array.from({ length: count }, (_, n) => work(n));

/** Asserts that exactly one reply is a success, and all others are the refusal with these details. */
async function oneWins(t: Test, asked: Promise<Answer>[], code: ErrorCode, details: object): Promise<void> {
  const answers = await Promise.all(asked);
  t.equal(answers.length, 50);
  t.equal(answers.filter(({ status }) => status < 300).length, 1, `one of ${answers.length} wins`);
  for (const { status, body } of answers) if (status >= 300) matchObject(t, body.error, { code, details });
}

t.test("an idle connection is kept for longer than proxies keep theirs", async (t) => {
  t.equal((await anonymous.get("/healthz")).headers["keep-alive"], "timeout=75");
});

t.test("targets, one by one and in bulk together", async (t) => {
  const { home, api } = await onFree();
  const limit = 20;
  const full = { quota: "max_targets", current: limit, limit, plan: "free" };
  await insertTargets(sql, {
    ids: times(limit - 1, newId),
    orgId: home.orgId,
    region: "default",
    intervalSecs: 60,
    confirmations: 2,
  });
  matchObject(
    t,
    (await api.post("/api/v1/targets/bulk", [target, target])).body.error,
    { code: "QUOTA_EXCEEDED", details: { current: limit - 1, limit } },
    "two do not fit, and none is made",
  );
  const race = times(50, (n) =>
    n % 2 === 0 ? api.post("/api/v1/targets", target) : api.post("/api/v1/targets/bulk", [target]),
  );
  await oneWins(t, race, "QUOTA_EXCEEDED", full);
  const { body } = await api.get("/api/v1/targets?limit=1000");
  t.equal(body.total, limit);

  // Paused targets count, so that enabling one needs no quota.
  const ids = body.items.map((item: { id: string }) => item.id);
  t.equal(
    (await api.post("/api/v1/targets/bulk-action", { ids, action: { type: "disable" } })).body.succeeded.length,
    limit,
  );
  matchObject(t, (await api.post("/api/v1/targets", target)).body.error, { code: "QUOTA_EXCEEDED", details: full });
  t.equal(
    (await api.post("/api/v1/targets/bulk-action", { ids, action: { type: "enable" } })).body.succeeded.length,
    limit,
  );
  t.equal((await api.patch(`/api/v1/targets/${ids[0]}`, { enabled: false })).status, 200);
  matchObject(t, (await api.post("/api/v1/targets", target)).body.error, { code: "QUOTA_EXCEEDED", details: full });
});

t.test("notification channels", async (t) => {
  const { home, api } = await onFree();
  for (let n = 0; n < 19; n++) await make.channel(sql, home, "");
  const race = times(50, (n) => api.post("/api/v1/notification-channels", { name: `Channel ${n}`, config: webhook }));
  await oneWins(t, race, "CHANNEL_QUOTA_EXCEEDED", {
    quota: "max_notification_channels",
    current: 20,
    limit: 20,
    plan: "free",
  });
  const { body } = await api.get("/api/v1/notification-channels");
  t.equal(body.total, 20);
  t.equal((await api.patch(`/api/v1/notification-channels/${body.items[0].id}`, { enabled: false })).status, 200);
  matchObject(
    t,
    (await api.post("/api/v1/notification-channels", { name: "One more", config: webhook })).body.error,
    { code: "CHANNEL_QUOTA_EXCEEDED" },
    "a disabled one still counts",
  );
});

t.test("status pages, and monitors on them", async (t) => {
  const { home, api } = await onFree();
  const salt = home.orgId.slice(-6);
  const pages = times(50, (n) => api.post("/api/v1/status-pages", { slug: `page-${salt}-${n}`, name: "Shop" }));
  await oneWins(t, pages, "QUOTA_EXCEEDED", { quota: "max_status_pages", current: 1, limit: 1, plan: "free" });
  const page = (await api.get("/api/v1/status-pages")).body.items[0];
  t.equal((await api.patch(`/api/v1/status-pages/${page.id}`, { enabled: false })).status, 200);
  matchObject(
    t,
    (await api.post("/api/v1/status-pages", { slug: `more-${salt}`, name: "More" })).body.error,
    { code: "QUOTA_EXCEEDED" },
    "one that is not published still counts",
  );

  // A second page, as from a larger plan: both share one limit.
  const second = await make.page(sql, home, "");
  for (let n = 0; n < 14; n++) await make.component(sql, home, n % 2 === 0 ? page.id : second);
  const ids = times(50, newId);
  await insertTargets(sql, { ids, orgId: home.orgId, region: "default", intervalSecs: 60, confirmations: 2 });
  const race = ids.map((id, n) =>
    api.post(`/api/v1/status-pages/${n % 2 === 0 ? page.id : second}/components`, { target_id: id }),
  );
  await oneWins(t, race, "QUOTA_EXCEEDED", { quota: "max_public_components", current: 15, limit: 15, plan: "free" });
  const [shown] = await sql<
    { count: number }[]
  >`select count(distinct target_id)::int as count from status_page_components where org_id = ${home.orgId}`;
  t.equal(shown?.count, 15);
});

t.test("pending invitations", async (t) => {
  const { home, api } = await onFree();
  for (let n = 0; n < 9; n++) await make.invitation(sql, home, home.orgId);
  const race = times(50, (n) => api.post(`/api/v1/orgs/${home.orgId}/invitations`, { email: `guest${n}@example.org` }));
  await oneWins(t, race, "INVITATIONS_LIMIT", { current: 10, limit: 10, plan: "free" });
  t.equal((await api.get(`/api/v1/orgs/${home.orgId}/invitations`)).body.total, 10);
});

t.test("members, by invitations that were made under a larger plan", async (t) => {
  const { home, api } = await onFree();
  const codes = times(50, () => newId());
  for (const code of codes)
    await sql`
      update invitations set code_hash = ${hashToken(code)} where id = ${await make.invitation(sql, home, home.orgId)}`;
  const race = codes.map((code) => anonymous.post("/api/v1/invitations/accept", { code }));
  await oneWins(t, race, "QUOTA_EXCEEDED", { quota: "max_members", current: 3, limit: 3, plan: "free" });
  t.equal((await api.get(`/api/v1/orgs/${home.orgId}/members`)).body.total, 3);
});

t.test("organisations of one owner, made and restored together", async (t) => {
  const { home, api } = await onFree();
  await make.org(sql, home, "");
  const deleted: string[] = [];
  for (let n = 0; n < 25; n++) deleted.push(await make.org(sql, home, ""));
  await sql`update orgs set deleted_at = now() where id = any(${deleted})`;
  const race = times(50, (n) =>
    n % 2 === 0
      ? api.post("/api/v1/orgs", { name: "Third" })
      : api.post(`/api/v1/orgs/${deleted[(n - 1) / 2]}/restore`),
  );
  await oneWins(t, race, "QUOTA_EXCEEDED", { quota: "owned_orgs", current: 3, limit: 3 });
});

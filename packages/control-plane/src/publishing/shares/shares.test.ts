import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import type { AppError } from "@statusmesh/shared/errors";
import { newId } from "@statusmesh/shared/ids";
import type { OrgReader } from "../../platform/context.ts";
import { makeSealer } from "../../platform/crypto/seal.ts";
import { readForVisitors } from "../public/shares/reads.ts";
import { day, minute, noon } from "../../testing/clock.ts";
import { addIncident, addResults, setStatus } from "../../testing/scene.ts";
import { asking, serveWhole, withToken } from "../../testing/whole-app.ts";
import { newOrg, openWorld } from "../../testing/world.ts";
import { purgeShares, resealShares } from "./service.ts";

const world = await openWorld(t);
const { sql, clock, system } = world;
clock.at = noon;
const ctx = await newOrg(system);
const visit = await serveWhole(t, world);
const owner = asking(visit, await withToken(ctx));
const stranger = asking(visit, await withToken(await newOrg(system)));
const make = async (name: string, as = owner): Promise<string> => {
  const check = { type: "http", url: "https://secret.test/", bearer_token: "sealed" };
  return (await as("POST", "/api/v1/targets", { name, check, interval: 60 })).body.id;
};
const target = await make("Checkout </h1>");
await setStatus(system, target, "up");
const path = `/api/v1/targets/${target}/shares`;

t.test("a link is created, listed, opened and revoked", async (t) => {
  const made = await owner("POST", path, { label: "For Acme", expires_at: null });
  matchObject(t, made, {
    status: 201,
    body: { target_id: target, label: "For Acme", expires_at: null, created_by: ctx.userId, last_viewed_at: null },
  });
  const { id, token, url } = made.body;
  t.match(token, /^[\w-]{43}$/);
  t.equal(url, `https://status.example.org/m/${token}`);
  t.equal(made.headers.get("location"), `${path}#${id}`);
  matchObject(t, (await owner("GET", path)).body, { items: [{ id, token }], total: 1 });
  const [row] = await sql`select token_sealed, token_hash from shares where id = ${id}`;
  t.notMatch(JSON.stringify(row), token, "the token is not stored as it is");

  const page = await visit("GET", `/m/${token}`, undefined, { accept: "text/html" });
  t.equal(page.status, 200);
  t.match(page.text, "Checkout &lt;/h1&gt;");
  t.equal(page.headers.get("cache-control"), "no-store");
  t.equal(page.headers.get("referrer-policy"), "no-referrer");
  t.equal(page.headers.get("x-robots-tag"), "noindex");
  t.equal(page.headers.get("set-cookie"), null);
  t.match((await visit("GET", `/m/${token}?range=90d&fragment=1`, undefined, { accept: "text/html" })).text, /90 days/);
  matchObject(t, (await owner("GET", path)).body.items[0], { last_viewed_at: new Date(clock.at).toISOString() });

  t.equal((await owner("DELETE", `${path}/${id}`)).status, 204);
  for (const twin of ["", "/live", "/results", "/latency", "/incidents"])
    t.equal((await visit("GET", `/m/${token}${twin}`)).status, 404, `revoked ${twin}`);
  matchObject(t, await owner("DELETE", `${path}/${id}`), { status: 404, body: { error: { code: "SHARE_NOT_FOUND" } } });
  matchObject(t, (await visit("GET", `/m/${token}/live`)).body, { error: { code: "SHARE_NOT_FOUND" } });
});

t.test("a link without a body has all defaults", async (t) => {
  const own = `/api/v1/targets/${await make("Plain")}/shares`;
  matchObject(t, await owner("POST", own), { status: 201, body: { label: null, expires_at: null } });
});

t.test("visitors share one read, and different reads of a link run two at a time", async (t) => {
  const shared = await make("Flapping");
  await addResults(system, shared, [{ at: noon - 5 * minute, status: "down" }, { at: noon - minute }]);
  const { body: link } = await owner("POST", `/api/v1/targets/${shared}/shares`, {});
  const other = await newOrg(system);
  const share = { shareId: link.id, orgId: ctx.orgId, targetId: shared };
  let running = 0;
  let most = 0;
  let reads = 0;
  const limits = new Set<string>();
  const read = async ({ sql: tx }: OrgReader) => {
    reads++;
    most = Math.max(most, ++running);
    const [row] = await tx<
      { limit: string }[]
    >`select current_setting('statement_timeout') as limit from pg_sleep(0.01)`;
    limits.add(row!.limit);
    running--;
    return { at: reads };
  };
  await Promise.all(Array.from({ length: 20 }, () => readForVisitors(system, share, "ranges", "same", read)));
  t.equal(reads, 1, "twenty callers of one key");
  await Promise.all(Array.from({ length: 10 }, (_, n) => readForVisitors(system, share, "ranges", `key ${n}`, read)));
  t.strictSame([reads, most, [...limits]], [11, 2, ["5s"]]);

  most = 0;
  let end = (): void => {};
  const over = new Promise<void>((resolve) => (end = resolve));
  const flood = Promise.allSettled(
    Array.from({ length: 30 }, (_, n) =>
      readForVisitors(system, share, "ranges", `flood ${n}`, async (reader) => {
        await over;
        return await read(reader);
      }),
    ),
  );
  const foreign = { ...share, shareId: other.orgId, orgId: other.orgId };
  await readForVisitors(system, foreign, "ranges", "mine", async () => ({}));
  matchObject(
    t,
    await visit("GET", `/m/${link.token}/live`),
    { status: 200 },
    "its state does not wait for the ranges",
  );
  matchObject(t, await visit("GET", `/m/${link.token}`), { status: 200 }, "nor does its page");
  end();
  const outcomes = await flood;
  const refused = outcomes.flatMap((it) => (it.status === "rejected" ? [it.reason as AppError] : []));
  t.equal(refused.length, 20, "two run, eight wait");
  t.ok(refused.every(({ code, retryAfterSecs }) => code === "STATUS_DATA_UNAVAILABLE" && retryAfterSecs === 10));
  t.equal(most, 2);

  const range = `/m/${link.token}/incidents?from=${new Date(noon - 89 * day).toISOString()}`;
  matchObject(t, await visit("GET", range), { status: 200, body: { total: 1, items: [{ check_count: 1 }] } });
  await sql`delete from results where target_id = ${shared}`;
  matchObject(t, await visit("GET", range), { status: 200, body: { total: 1 } }, "at most 10 s old");
  clock.at += 11_000;
  matchObject(t, await visit("GET", range), { status: 200, body: { total: 0 } });
  matchObject(t, await visit("GET", `${range}&to=${new Date(noon + 2 * day).toISOString()}`), {
    status: 400,
    body: { error: { code: "BAD_TIME_RANGE" } },
  });
  clock.at = noon;
});

t.test("a visitor reads no host, address or credential of the monitor", async (t) => {
  const hidden = await make("Checkout API");
  const { token } = (await owner("POST", `/api/v1/targets/${hidden}/shares`, {})).body;
  const errors = [
    "redirected to https://secret.test/login",
    "connection refused",
    "certificate of secret.test expired 3 days ago",
    "expected status 200, got 503",
    "TLS handshake timed out after 1.2 s",
    "no response within 10.0 s",
  ];
  await addResults(
    system,
    hidden,
    errors.map((_, n) => ({ at: clock.at - (n + 1) * minute, status: "down" })),
  );
  for (const [n, error] of errors.entries())
    await sql`
      update results set error = ${error}, diagnosis = 'challenge:cloudflare:'
      where target_id = ${hidden} and scheduled_at = ${new Date(clock.at - (n + 1) * minute)}`;
  await setStatus(system, hidden, "down");
  await addIncident(ctx, hidden, { started: clock.at - 4 * minute });
  for (const twin of ["", "/live", "/results", "/latency", "/incidents"]) {
    const reply = await visit("GET", `/m/${token}${twin}`, undefined, { accept: "text/html" });
    t.equal(reply.status, 200, twin);
    t.notMatch(reply.text, /secret|sealed|10\.1\.2\.3|Cloudflare/, twin);
    t.equal(reply.headers.get("cache-control"), "no-store", twin);
  }
  matchObject(t, (await visit("GET", `/m/${token}/live`)).body, {
    name: "Checkout API",
    state: "down",
    reason: "check failed",
  });
  const seen = (await visit("GET", `/m/${token}/results`)).body.items.map((it: { error: string }) => it.error);
  t.strictSame(seen, ["check failed", ...errors.slice(1, 2), "check failed", ...errors.slice(3)]);
});

t.test("wrong input, foreign ids and narrow scopes are refused", async (t) => {
  const refused = async (body: object, code: string, field: string) =>
    matchObject(t, await owner("POST", path, body), { status: 400, body: { error: { code, field } } });
  await refused({ label: "x".repeat(81) }, "SHARE_LABEL_INVALID", "/label");
  await refused({ label: " " }, "SHARE_LABEL_INVALID", "/label");
  await refused({ expires_at: new Date(clock.at).toISOString() }, "INVALID_EXPIRY", "/expires_at");
  await refused({ token: "mine" }, "UNKNOWN_FIELD", "/token");
  const made = (await owner("POST", path, {})).body;
  for (const [method, where] of [
    ["POST", path],
    ["GET", path],
    ["DELETE", `${path}/${made.id}`],
  ] as const)
    matchObject(t, await stranger(method, where, method === "POST" ? {} : undefined), {
      status: 404,
      body: { error: { code: "TARGET_NOT_FOUND" } },
    });
  const other = await make("Other");
  t.equal((await owner("DELETE", `/api/v1/targets/${other}/shares/${made.id}`)).status, 404, "of another monitor");
  const foreign = `/api/v1/targets/${await make("Of the stranger", stranger)}/shares`;
  t.equal((await stranger("DELETE", `${foreign}/${made.id}`)).status, 404, "of another organisation");
  matchObject(t, await stranger("GET", foreign), { body: { total: 0 } });
  t.equal((await visit("GET", `/m/${made.token}/live`)).status, 200, "the link still works");
  const reader = asking(visit, await withToken(ctx, { scopes: ["targets:read"] }));
  matchObject(t, await reader("GET", path), { status: 403 }, "a token that only reads monitors gets no share tokens");
  t.equal((await visit("GET", `/m/${newId()}/live`)).status, 404);
  matchObject(t, await visit("GET", `/m/${made.token}/results?from=2020-01-01T00:00:00Z`), {
    status: 400,
    body: { error: { code: "BAD_TIME_RANGE" } },
  });
  await owner("DELETE", `${path}/${made.id}`);
});

t.test("a link ends when it expires, with its monitor, and with its organisation", async (t) => {
  const short = (await owner("POST", path, { expires_at: new Date(clock.at + minute).toISOString() })).body;
  const live = async (token: string) => (await visit("GET", `/m/${token}/live`)).status;
  t.equal(await live(short.token), 200);
  clock.at += minute;
  t.equal(await live(short.token), 404);
  matchObject(t, (await owner("GET", path)).body, { total: 1 }, "an expired link is still listed");
  t.equal(await purgeShares(system), 0);
  clock.at += 31 * day;
  t.equal(await purgeShares(system), 1);

  const gone = await make("Gone");
  const doomed = (await owner("POST", `/api/v1/targets/${gone}/shares`, {})).body;
  await sql`delete from targets where id = ${gone}`;
  t.equal(await live(doomed.token), 404);

  const other = await newOrg(system);
  const theirs = asking(visit, await withToken(other));
  const share = (await theirs("POST", `/api/v1/targets/${await make("Theirs", theirs)}/shares`, {})).body;
  t.equal(await live(share.token), 200);
  await sql`update orgs set deleted_at = now() where id = ${other.orgId}`;
  t.equal(await live(share.token), 404);
});

t.test("without the key the link works, and only the list cannot show it", async (t) => {
  const made = (await owner("POST", path, {})).body;
  const [fresh, old] = [Buffer.alloc(32, 9), Buffer.alloc(32, 7)];
  const lost = asking(await serveWhole(t, world, { ...system, sealer: makeSealer(fresh) }), await withToken(ctx));
  matchObject(t, (await lost("GET", path)).body.items, [{ id: made.id, token: null, url: null }]);
  t.equal((await visit("GET", `/m/${made.token}/live`)).status, 200);
  const rotated = await resealShares({ ...system, sealer: makeSealer(fresh, old) }, null, 100);
  matchObject(t, rotated, { failed: [], last: null });
  matchObject(t, (await lost("GET", path)).body.items, [{ id: made.id, token: made.token }]);
});

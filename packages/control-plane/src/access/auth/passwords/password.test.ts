import { scryptSync } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { getPriority } from "node:os";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { newId } from "@statusmesh/shared/ids";
import { inTransaction } from "../../../platform/context.ts";
import { hour, minute, second } from "../../../testing/clock.ts";
import { asking, newMember, serveWhole, withToken } from "../../../testing/whole-app.ts";
import { cheapHash, newOrg, openWorld, refusal } from "../../../testing/world.ts";
import { hashPassword, requireStrong, verifyPassword } from "./passwords.ts";
import { openScrypt } from "./scrypt.ts";
import { succeeded, takeTurn } from "./sign-in-turns.ts";
import { makeSignInLink } from "../sessions/service.ts";
import { resetSignIn } from "../service.ts";
import { openWaitingPlaces } from "./waiting-places.ts";

const world = await openWorld(t, { env: { SM_SERVER__TRUSTED_PROXIES: "127.0.0.1" } });
const { system, sql, clock } = world;
const serve = await serveWhole(t, world);
const refused = (status: number, code: string, field: string | null = null) => ({
  status,
  body: { error: { code, field } },
});
const misses = (pointer: string) => ({
  status: 401,
  body: { error: { code: "INVALID_CREDENTIALS", details: { pointer } } },
});
const good = "correct horse battery";
const addressOf = async (userId: string) =>
  (await sql<{ email: string }[]>`select email from users where id = ${userId}`)[0]!.email;

/** The cookies of an answer, as a browser sends them back. */
const cookiesOf = (headers: Headers): string =>
  headers
    .getSetCookie()
    .map((line) => line.split(";")[0])
    .join("; ");

let visitors = 0;
/** A browser from an address of its own. */
const browser = (cookie = "") =>
  asking(serve, {
    "x-forwarded-for": `192.0.2.${++visitors}`,
    "sec-fetch-site": "same-origin",
    ...(cookie === "" ? {} : { cookie }),
  });

/** A browser that has signed in with a link. */
async function byLink(userId: string) {
  const code = (await makeSignInLink(system, userId)).slice("/sign-in/".length);
  const reply = await browser()("POST", "/api/v1/sessions", { code });
  return { cookie: cookiesOf(reply.headers), ask: browser(cookiesOf(reply.headers)) };
}

const stored = hashPassword(system, good);

/** An owner with the password `good`, and their browser. */
async function withPassword() {
  const owner = await newOrg(system);
  await sql`update users set password_hash = ${await stored} where id = ${owner.userId}`;
  const first = await byLink(owner.userId);
  return { owner, email: await addressOf(owner.userId), first, device: first.cookie };
}

t.test("a password is hashed after NFC, with parameters that are stored and raised", async (t) => {
  const composed = await hashPassword({}, "Pässwörter sind lang");
  t.match(composed, /^scrypt:15:8:3:[\w-]{22}:[\w-]{43}$/);
  const typed = "Pa\u0308sswo\u0308rter sind lang";
  t.strictSame(await verifyPassword({}, typed, composed), { matches: true, outdated: false });
  const old = await stored;
  t.strictSame(await verifyPassword({}, good, old), { matches: true, outdated: true });
  t.strictSame(await verifyPassword({}, `${good}!`, old), { matches: false, outdated: false });
  t.strictSame(await verifyPassword({ hashCost: cheapHash }, good, null), { matches: false, outdated: false });
});

t.test("keys are derived in threads of low priority; a key that cannot be derived is no failure", async (t) => {
  const scrypt = openScrypt();
  t.teardown(() => scrypt.end());
  const options = { N: 1024, r: 8, p: 1 };
  const job = { password: good, salt: Buffer.alloc(16), bytes: 32, options };
  t.strictSame(await scrypt.derive(job), scryptSync(good, job.salt, 32, options));
  if (process.platform === "linux") {
    // Field 19 of proc(5); the name before has spaces.
    const niceness = readdirSync("/proc/self/task").map((id) =>
      Number(readFileSync(`/proc/self/task/${id}/stat`, "utf8").split(") ").at(-1)!.split(" ")[16]),
    );
    t.ok(niceness.includes(Math.min(19, getPriority() + 10)), "a thread has a lower priority than the process");
  }
  await t.rejects(scrypt.derive({ ...job, options: { N: 3 } }), { message: /scrypt/ });
  const lost = scrypt.derive({ ...job, options: { ...options, p: 100 } });
  const refused = t.rejects(lost, { code: "RATE_LIMITED", retryAfterSecs: 1 });
  await scrypt.end();
  await refused;
  t.ok(await scrypt.derive(job), "by a new thread");

  const { owner, email } = await withPassword();
  await sql`update users set password_hash = 'scrypt:0:8:1:AAAA:AAAA' where id = ${owner.userId}`;
  await sql`delete from sign_in_turns`;
  matchObject(t, await browser()("POST", "/api/v1/sessions", { email, password: good }), { status: 500 });
  t.strictSame([...(await sql`select failures from sign_in_turns`)], [{ failures: 0 }, { failures: 0 }]);
  await sql`delete from sign_in_turns`;
  await sql`delete from login_attempts`;
});

t.test("weak passwords are refused with a reason", async (t) => {
  const known = ["olga@example.org", "olga", "Olga Ivanova", "Ärzte & Söhne", "StatusMesh", "status.example.org"];
  const weak: [password: string, reason: RegExp][] = [
    ["", /this password has 0/],
    ["ninechars", /at least 10 characters; this password has 9/],
    ["\u{1f600}".repeat(9), /has 9/],
    ["x".repeat(257), /at most 256/],
    ["1234567890", /most used/],
    ["QWERTYuiop", /most used/],
    ["olga@example.org12345", /little more than/],
    ["OLGA IVANOVA 1", /little more than/],
    ["A\u0308RZTE & SO\u0308HNE", /little more than/],
    ["StatusMesh2026", /little more than/],
  ];
  for (const [password, message] of weak)
    matchObject(
      t,
      await refusal(t, () => requireStrong(password, known)),
      { code: "WEAK_PASSWORD", message },
      password,
    );
  for (const password of ["\u{1f600}".repeat(10), "StatusMesh 123456", "a\u0308".repeat(256), good])
    await t.resolves(requireStrong(password, known), password);
});

t.test("at most so many run, a visitor waits once, and those with the fewest calls go first", async (t) => {
  const places = openWaitingPlaces(1);
  const order: string[] = [];
  const enter = async (name: string, known = false) => {
    const leave = await places.enter(name, known);
    order.push(leave === null ? `${name} refused` : name);
    return leave;
  };
  const running = await enter("flood");
  const waiting = Array.from({ length: 20 }, (_, n) => enter(`flood ${n}`));
  t.equal(await enter("flood 3"), null, "one waiting place per visitor");
  const late = enter("late");
  t.equal(await waiting[3], null, "a visitor who sends more makes room");
  t.equal(await enter("later"), null, "no equal makes room");
  const known = enter("known", true);
  t.equal(await late, null, "the last of the heaviest makes room for a known browser");
  t.equal(await enter("flood 0"), null, "who sends more while waiting goes behind");
  running!();
  const leaveKnown = await known;
  t.ok(leaveKnown);
  leaveKnown!();
  t.ok(await waiting[1]);
  const slow = openWaitingPlaces(1, 10);
  const leave = await slow.enter("first", false);
  t.equal(await slow.enter("second", false), null, "a call waits for a limited time");
  leave!();
  t.ok(await slow.enter("second", false));
  t.strictSame(order, [
    "flood",
    ...["flood 3", "flood 3", "later", "late", "flood 0"].map((name) => `${name} refused`),
    "known",
    "flood 1",
  ]);
});

t.test("failures are counted over all replicas, and then each try waits for its turn", async (t) => {
  const other = { ...system, sql: world.pool() };
  const take = async (counted: Parameters<typeof takeTurn>[1], of = system) =>
    await takeTurn(of, counted).then(
      () => 0,
      (error: { retryAfterSecs: number }) => error.retryAfterSecs,
    );
  const address = `${newId()}@example.org`;
  const race = await Promise.all(
    Array.from({ length: 14 }, (_, n) => take({ address, visitor: `v${n}` }, n % 2 === 0 ? system : other)),
  );
  t.strictSame(race.filter((wait) => wait === 0).length, 10);
  t.strictSame(
    race.filter((wait) => wait > 0),
    [30, 30, 30, 30],
  );
  // Each judged try doubles the wait; those that are refused change nothing.
  for (const wait of [30, 60, 120, 240, 480, 900, 900]) {
    t.equal(await take({ address, visitor: "w" }), wait);
    clock.advance(wait * second - 1);
    t.equal(await take({ address, visitor: "w" }), 1);
    clock.advance(1);
    const turns = await Promise.all([take({ address, visitor: "w" }), take({ address, visitor: "x" }, other)]);
    t.equal(turns.filter((one) => one === 0).length, 1, "exactly one is judged");
  }
  clock.advance(hour);
  t.equal(await take({ address, visitor: "w" }), 0, "an hour without failures");

  const visitor = newId();
  const spread = [];
  for (let n = 0; n < 31; n++) spread.push(await take({ address: `${n}-${visitor}`, visitor }));
  t.strictSame(spread, [...Array.from({ length: 30 }, () => 0), 30], "a visitor has 30");
  const right = await takeTurn(system, { address: newId(), visitor: "fine" });
  await succeeded(system, right);
  t.strictSame(
    (await sql`select 1 from sign_in_turns where wait_ms = 30000 and failures = 0`).length,
    1,
    "only the visitor's is left",
  );
});

t.test("a try that waits, or finds no place, reaches neither the database nor a hash", async (t) => {
  const address = `${newId()}@example.org`;
  for (let n = 0; n < 10; n++) await takeTurn(system, { address, visitor: `w${n}` });
  const send = (ask = browser()) => ask("POST", "/api/v1/sessions", { email: address, password: good });
  matchObject(t, await send(), { status: 429, body: { error: { details: { scope: "per_address_sign_in" } } } });
  const same = browser();
  let tries: ReturnType<typeof same>[] = [];
  await sql.begin(async (other) => {
    await other`lock table users, sign_in_turns, login_attempts in access exclusive mode`;
    clock.advance(second);
    const waiting = await send();
    matchObject(t, waiting, { status: 429, body: { error: { details: { scope: "per_address_sign_in" } } } });
    t.equal(waiting.headers.get("retry-after"), "29");
    // The first try of a visitor holds the only place, the second waits for it, and the third finds none.
    tries = Array.from({ length: 3 }, () => same("POST", "/api/v1/sessions", { email: "a@b.c", password: good }));
    matchObject(t, await Promise.race(tries), {
      status: 429,
      body: { error: { details: { scope: "sign_in_capacity" } } },
    });
  });
  await Promise.all(tries);
  // Another process may have forgotten the failures since.
  await sql`delete from sign_in_turns`;
  t.equal((await send()).status, 429);
  clock.advance(5 * second);
  t.equal((await send()).status, 401);
  await sql`delete from login_attempts`;
});

t.test("a try is settled in the order in which tries lock their counters, so that none deadlocks", async (t) => {
  // Of two counters either may be the one that is locked first.
  for (const n of [0, 1, 2, 3]) {
    await sql`delete from sign_in_turns`;
    const counted = { code: `code ${n % 2}`, visitor: `same ${n % 2}` };
    const turn = await takeTurn(system, counted);
    let settled: Promise<unknown> | undefined;
    await sql.begin(async (other) => {
      await other`select from sign_in_turns order by key_hash limit 1 for update`;
      settled = n < 2 ? inTransaction(system, async (tx) => succeeded(tx, turn)) : takeTurn(system, counted);
      const waiting = async () =>
        await sql`select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`;
      while ((await waiting()).length === 0);
      const free = await other`select from sign_in_turns for update skip locked`;
      t.equal(free.length, 2, "it waits for the first counter and holds none");
    });
    await settled;
  }
});

t.test("address and password sign in; every wrong pair has the same answer", async (t) => {
  const { owner, email } = await withPassword();
  const reply = await browser()("POST", "/api/v1/sessions", { email: email.toUpperCase(), password: good });
  t.equal(reply.status, 201);
  const signedIn = browser(cookiesOf(reply.headers));
  matchObject(t, await signedIn("GET", "/api/v1/me"), { status: 200, body: { user: { id: owner.userId } } });
  for (const line of reply.headers.getSetCookie()) t.match(line, /; Path=\/; HttpOnly; SameSite=Lax; Secure; /);

  const without = await newMember(owner);
  const answers = [];
  for (const [address, password] of [
    [email, "wrong horse battery"],
    [`${newId()}@example.org`, good],
    [await addressOf(without.userId), good],
  ]) {
    const { status, body } = await browser()("POST", "/api/v1/sessions", { email: address, password });
    answers.push({ status, code: body.error.code, message: body.error.message, details: body.error.details });
  }
  t.equal(new Set(answers.map((one) => JSON.stringify(one))).size, 1);
  matchObject(t, answers[0], { status: 401, code: "INVALID_CREDENTIALS" });
  t.strictSame(
    (
      await sql<{ method: string; outcome: string }[]>`
        select method, outcome from login_attempts where method = 'password' order by at, id`
    ).map(({ outcome }) => outcome),
    ["ok", ...Array.from({ length: 3 }, () => "credentials_invalid")],
  );
  for (const body of [{}, { email }, { password: good }])
    matchObject(t, await browser()("POST", "/api/v1/sessions", body), {
      status: 400,
      body: { error: { code: "INVALID_BODY" } },
    });
  matchObject(
    t,
    await asking(serve, { origin: "https://evil.example" })("POST", "/api/v1/sessions", { email, password: good }),
    refused(403, "CSRF_REJECTED"),
  );
  const [{ audited } = { audited: 0 }] = await sql<{ audited: number }[]>`
    select count(*)::int as audited from audit_log
    where org_id = ${owner.orgId} and action = 'POST /api/v1/sessions' and resource_id = ${reply.body.id}`;
  t.equal(audited, 1);
});

t.test("wrong tries of others do not lock out a browser that has signed in before", async (t) => {
  const { email, device } = await withPassword();
  const wrongly = { email, password: "wrong horse battery" };
  // Ten failures of an attacker, without the cost of ten hashes.
  for (let n = 0; n < 10; n++) await takeTurn(system, { address: email, visitor: `attacker ${n}` });
  const stopped = await browser()("POST", "/api/v1/sessions", { email, password: good });
  matchObject(t, stopped, {
    status: 429,
    body: { error: { code: "RATE_LIMITED", details: { scope: "per_address_sign_in" } } },
  });
  t.equal(stopped.headers.get("retry-after"), "30");
  matchObject(t, await browser(device)("POST", "/api/v1/sessions", wrongly), refused(401, "INVALID_CREDENTIALS"));
  matchObject(t, await browser(device)("POST", "/api/v1/sessions", { email, password: good }), { status: 201 });
  const forged = device.replace(/_device=[^;]{4}/, "_device=AAAA");
  t.equal((await browser(forged)("POST", "/api/v1/sessions", { email, password: good })).status, 429);
  const foreign = await withPassword();
  t.equal(
    (await browser(foreign.device)("POST", "/api/v1/sessions", { email, password: good })).status,
    429,
    "the cookie is of one account",
  );
  clock.advance(30 * second);
  matchObject(
    t,
    await browser()("POST", "/api/v1/sessions", { email, password: good }),
    { status: 201 },
    "in its turn",
  );
});

t.test("a change needs the present password or a fresh session, and ends everything else", async (t) => {
  const { owner, email, first, device } = await withPassword();
  const second = await byLink(owner.userId);
  const change = (body: object, ask = first.ask) => ask("PUT", "/api/v1/me/password", body);
  const better = "another horse battery";
  matchObject(t, await change({ password: better }), refused(400, "INVALID_BODY", "/current"));
  matchObject(t, await change({ current: "wrong", password: better }), misses("/current"));
  matchObject(t, await change({ current: good, password: email }), refused(400, "WEAK_PASSWORD", "/password"));
  matchObject(t, await change({ current: good, password: better }, asking(serve, await withToken(owner))), {
    status: 403,
  });
  const changed = await change({ current: good, password: better });
  t.equal(changed.status, 204);
  t.equal((await second.ask("GET", "/api/v1/me")).status, 401, "other sessions end");
  t.equal((await first.ask("GET", "/api/v1/me")).status, 200);
  for (let n = 0; n < 10; n++) await takeTurn(system, { address: email, visitor: `attacker ${n}` });
  t.equal((await browser(device)("POST", "/api/v1/sessions", { email, password: better })).status, 429, "old cookie");
  const newDevice = cookiesOf(changed.headers);
  t.equal((await browser(newDevice)("POST", "/api/v1/sessions", { email, password: better })).status, 201);

  const knownAgain = browser(`${first.cookie.split("; ")[0]}; ${newDevice}`);
  const remove = () => knownAgain("DELETE", "/api/v1/me/password");
  matchObject(t, await remove(), refused(409, "LAST_SIGN_IN_METHOD"));
  clock.advance(15 * minute);
  matchObject(t, await remove(), refused(403, "FRESH_SIGN_IN_REQUIRED"));
  const verify = (password: string) => knownAgain("POST", "/api/v1/sessions/current/verify", { password });
  matchObject(t, await verify(good), misses("/password"));
  t.equal((await verify(better)).status, 204);
  await sql`
    insert into user_identities (id, user_id, provider, issuer, subject, email, created_at, last_used_at)
    values (${newId()}, ${owner.userId}, 'google', 'https://accounts.google.com', ${newId()}, ${email}, now(), now())`;
  matchObject(t, await remove(), refused(409, "LAST_SIGN_IN_METHOD"), "Google is not enabled");
  t.strictSame(
    (
      await sql<{ action: string; before: unknown; after: unknown }[]>`
        select action, before, after from audit_log
        where resource_id = ${owner.userId} and action like '%password' order by at, id`
    ).map((row) => ({ ...row })),
    [{ action: "PUT /api/v1/me/password", before: { password: true }, after: { password: "***" } }],
  );
});

t.test("a person without a password needs a fresh session to set one", async (t) => {
  const owner = await newOrg(system);
  const { ask } = await byLink(owner.userId);
  clock.advance(15 * minute);
  matchObject(t, await ask("PUT", "/api/v1/me/password", { password: good }), refused(403, "FRESH_SIGN_IN_REQUIRED"));
  matchObject(t, await ask("DELETE", "/api/v1/me/password"), refused(403, "FRESH_SIGN_IN_REQUIRED"));
  const fresh = await byLink(owner.userId);
  t.equal((await fresh.ask("PUT", "/api/v1/me/password", { password: good })).status, 204);
  t.equal((await ask("GET", "/api/v1/me")).status, 401);
});

t.test("making an owner and deleting an organisation need a fresh session, not a fresh token", async (t) => {
  const { owner, first } = await withPassword();
  const member = await newMember(owner);
  const org = `/api/v1/orgs/${owner.orgId}`;
  clock.advance(15 * minute);
  const token = asking(serve, await withToken(owner));
  const asks: [string, string, object?][] = [
    ["PATCH", `${org}/members/${member.userId}`, { role: "owner" }],
    ["POST", `${org}/invitations`, { email: `${newId()}@example.org`, role: "owner" }],
    ["DELETE", org],
  ];
  for (const [method, path, body] of asks) {
    const reply = await first.ask(method, path, body);
    matchObject(t, reply, refused(403, "FRESH_SIGN_IN_REQUIRED"), method);
    t.strictSame(reply.body.error.details, { proofs: ["password"] });
    t.ok((await token(method, path, body)).status < 300, `${method} by a token`);
  }
});

t.test("the use of a reset link, not its printing, ends sessions and password", async (t) => {
  const { owner, email, first } = await withPassword();
  const { signInPath } = await resetSignIn(system, email.toUpperCase());
  t.match((await browser()("GET", signInPath)).text, /ends all your other sessions/);
  t.equal((await first.ask("GET", "/api/v1/me")).status, 200, "printed");
  const used = await browser()("POST", "/api/v1/sessions", { code: signInPath.slice("/sign-in/".length) });
  t.equal(used.status, 201);
  t.equal((await first.ask("GET", "/api/v1/me")).status, 401, "used");
  const again = browser(cookiesOf(used.headers));
  t.match((await again("GET", "/monitors")).text, /Set up a way to sign in: without one/);
  t.equal((await again("PUT", "/api/v1/me/password", { password: "another horse battery" })).status, 204);
  t.notMatch((await again("GET", "/monitors")).text, /Set up a way to sign in: without one/);
  const [row] = await sql<{ after: unknown }[]>`
    select after from audit_log where org_id = ${owner.orgId} and resource_id = ${used.body.id}`;
  t.strictSame(row!.after, { sign_in_reset: true });
  await t.rejects(resetSignIn(system, "nobody@example.org"), { message: /No member of an organisation/ });
});

t.test("an invited person sets a password on accepting, an account that exists does not", async (t) => {
  const { owner, first, email } = await withPassword();
  const invite = async (address: string) => {
    const made = await first.ask("POST", `/api/v1/orgs/${owner.orgId}/invitations`, { email: address });
    return made.body.url.split("/").at(-1) as string;
  };
  const nina = `nina.${newId()}@example.org`;
  const code = await invite(nina);
  const accept = (body: object) => browser()("POST", "/api/v1/invitations/accept", body);
  matchObject(t, await accept({ code, password: nina }), refused(400, "WEAK_PASSWORD", "/password"));
  t.equal((await accept({ code, password: good })).status, 201);
  t.equal((await browser()("POST", "/api/v1/sessions", { email: nina, password: good })).status, 201);
  const other = await withPassword();
  const taken = await invite(other.email);
  matchObject(t, await accept({ code: taken, password: good }), refused(400, "INVALID_BODY", "/password"));
  t.not(email, other.email);
});

t.test("the form of the sign-in page works without scripts", async (t) => {
  const { email } = await withPassword();
  const post = async (fields: Record<string, string>, headers: Record<string, string> = {}) =>
    await fetch(`${serve.origin}/sign-in`, {
      method: "POST",
      redirect: "manual",
      headers: { "x-forwarded-for": `192.0.2.${++visitors}`, "sec-fetch-site": "same-origin", ...headers },
      body: new URLSearchParams(fields),
    });
  const wrong = await post({ email, password: "<b>wrong</b>", next: "/incidents" });
  t.equal(wrong.status, 401);
  const page = await wrong.text();
  t.match(page, /The email address or the password is wrong\./);
  t.match(page, new RegExp(`value="${email}"`));
  t.notMatch(page, /wrong<\/b>/);
  const right = await post({ email: ` ${email} `, password: good, next: "/incidents" });
  t.equal(right.status, 303);
  t.equal(right.headers.get("location"), "/incidents");
  t.equal((await browser(cookiesOf(right.headers))("GET", "/api/v1/me")).status, 200);
  for (const next of ["//evil.example", "https://evil.example", "/\\evil.example"]) {
    const link = await makeSignInLink(system, (await newOrg(system)).userId);
    const opened = await post({ "/code": `https://status.example.org${link}?next=/`, next });
    t.strictSame([opened.status, opened.headers.get("location")], [303, "/"]);
  }
  t.equal((await post({ email, password: good }, { "sec-fetch-site": "cross-site" })).status, 403);
  t.equal((await post({ email: "nobody", password: good })).status, 400);
});

import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { newId } from "@statusmesh/shared/ids";
import { hour, minute, second } from "../../../testing/clock.ts";
import { asking, newMember, serveWhole, signedIn, withToken } from "../../../testing/whole-app.ts";
import { newOrg, openWorld } from "../../../testing/world.ts";
import { grantable } from "../../oauth/consent.ts";
import { hashPassword } from "../passwords/passwords.ts";
import { makeSignInLink } from "../sessions/service.ts";
import { resetSignIn } from "../service.ts";
import { voidProofs } from "./service.ts";
import { takeTurn } from "../passwords/sign-in-turns.ts";
import { codeAt, stepAt } from "./totp.ts";

const world = await openWorld(t, { env: { SM_SERVER__TRUSTED_PROXIES: "127.0.0.1" } });
const { system, sql, clock } = world;
const replicas = [await serveWhole(t, world), await serveWhole(t, world, { ...system, sql: world.pool() })] as const;
const [serve] = replicas;
const password = "correct horse battery";
const hash = await hashPassword(system, password);

const refused = (status: number, code: string) => ({ status, body: { error: { code } } });
const cookiesOf = (headers: Headers): string =>
  headers
    .getSetCookie()
    .map((line) => line.split(";")[0])
    .join("; ");

let visitors = 0;
/** A browser from an address of its own. */
const browser = (cookie = "", ask = serve) =>
  asking(ask, {
    "x-forwarded-for": `192.0.2.${++visitors}`,
    "sec-fetch-site": "same-origin",
    ...(cookie === "" ? {} : { cookie }),
  });

/** The code of a moment; tests move on so that each is used once. */
const codeOf = (secret: string, offset = 0): string => codeAt(secret, stepAt(clock.now()) + offset);
const wrongFor = (secret: string): string => String((Number(codeOf(secret)) + 1) % 1_000_000).padStart(6, "0");

/** An owner with a password and a second factor, and the browser that has set it up. */
async function withTotp() {
  const owner = await newOrg(system);
  await sql`update users set password_hash = ${hash} where id = ${owner.userId}`;
  const [{ email } = { email: "" }] = await sql<{ email: string }[]>`
    select email from users where id = ${owner.userId}`;
  const session = await signedIn(owner);
  const ask = asking(serve, session);
  const { secret } = (await ask("POST", "/api/v1/me/totp")).body;
  const confirmed = await ask("POST", "/api/v1/me/totp/confirm", { code: codeOf(secret) });
  clock.advance(30 * second);
  return { owner, email, ask, secret: secret as string, recovery: confirmed.body.recovery_codes as string[] };
}

const byPassword = (email: string, more: object = {}, ask = browser()) =>
  ask("POST", "/api/v1/sessions", { email, password, ...more });
const sessionIn = async (id: string) => (await sql`select second_factor from sessions where id = ${id}`)[0];

t.test("a new secret is in force with its first code, and ends what was signed in before", async (t) => {
  const owner = await newOrg(system);
  const [ask, other] = [asking(serve, await signedIn(owner)), asking(serve, await signedIn(owner))];
  const confirm = (code: string) => ask("POST", "/api/v1/me/totp/confirm", { code });
  matchObject(t, await confirm("123456"), refused(404, "NOT_FOUND"));
  const made = await ask("POST", "/api/v1/me/totp");
  matchObject(t, made, {
    status: 200,
    body: { secret: /^[A-Z2-7]{32}$/, otpauth_url: /^otpauth:\/\/totp\/StatusMesh/, qr: /^<svg/ },
  });
  const { secret } = made.body;
  const [row] = await sql`select secret, pending_secret from totp_factors where user_id = ${owner.userId}`;
  t.notMatch(row!["pending_secret"], secret.slice(0, 20), "sealed");
  for (const [offset, words] of [
    [5, /about 150 s ahead of the clock of this server/],
    [-10, /about 300 s behind/],
    [-11, /not the code/],
  ] as const)
    matchObject(t, await confirm(codeOf(secret, offset)), {
      status: 401,
      body: { error: { code: "CODE_INVALID", message: words, details: { pointer: "/code" } } },
    });
  const confirmed = await confirm(` ${codeOf(secret, -1)} `);
  t.equal(confirmed.status, 200);
  const codes: string[] = confirmed.body.recovery_codes;
  t.equal(new Set(codes).size, 10);
  for (const code of codes) t.match(code, /^[0-9A-HJKMNP-TV-Z]{4}(-[0-9A-HJKMNP-TV-Z]{4}){2}$/);
  t.equal((await other("GET", "/api/v1/me")).status, 401);
  t.equal((await ask("GET", "/api/v1/me")).status, 200);
  matchObject(t, await confirm(codeOf(secret)), refused(404, "NOT_FOUND"), "confirmed once");
  t.strictSame(
    (
      await sql<{ action: string; after: unknown }[]>`
      select action, after from audit_log where org_id = ${owner.orgId} and resource_id = ${owner.userId}`
    ).map((row) => ({ ...row })),
    [{ action: "POST /api/v1/me/totp/confirm", after: { second_factor: true } }],
  );
  clock.advance(15 * minute);
  for (const [method, path, body] of [
    ["POST", "/api/v1/me/totp"],
    ["POST", "/api/v1/me/totp/confirm", { code: "123456" }],
    ["DELETE", "/api/v1/me/totp"],
    ["POST", "/api/v1/me/totp/recovery-codes"],
  ] as const) {
    const stale = await ask(method, path, body);
    matchObject(t, stale, refused(403, "FRESH_SIGN_IN_REQUIRED"));
    t.strictSame(stale.body.error.details, { proofs: ["code"] });
    matchObject(t, await asking(serve, await withToken(owner))(method, path, body), refused(403, "FORBIDDEN"));
  }
  const verify = (body: object) => ask("POST", "/api/v1/sessions/current/verify", body);
  matchObject(t, await verify({}), refused(401, "CODE_REQUIRED"));
  matchObject(t, await verify({ code: wrongFor(secret) }), refused(401, "CODE_INVALID"));
  t.equal((await verify({ code: codeOf(secret) })).status, 204);
  t.equal((await ask("DELETE", "/api/v1/me/totp")).status, 204);
  t.equal((await sql`select from recovery_codes where user_id = ${owner.userId}`).length, 0);
});

t.test("a right password alone is answered CODE_REQUIRED, and a code signs in once", async (t) => {
  const { email, secret } = await withTotp();
  matchObject(t, await byPassword(email), refused(401, "CODE_REQUIRED"));
  matchObject(
    t,
    await browser()("POST", "/api/v1/sessions", { email, password: "wrong horse battery", code: codeOf(secret) }),
    refused(401, "INVALID_CREDENTIALS"),
    "nobody learns of the second factor without the password",
  );
  matchObject(t, await byPassword(email, { code: wrongFor(secret) }), refused(401, "CODE_INVALID"));
  const code = codeOf(secret);
  const race = await Promise.all(
    Array.from({ length: 6 }, (_, n) => byPassword(email, { code }, browser("", replicas[n % 2]))),
  );
  t.strictSame(race.map(({ status }) => status).toSorted(), [201, 401, 401, 401, 401, 401]);
  t.strictSame(await sessionIn(race.find(({ status }) => status === 201)!.body.id), { second_factor: true });
  matchObject(t, await byPassword(email, { code: codeOf(secret, -1) }), refused(401, "CODE_INVALID"), "an older one");
  t.equal((await byPassword(email, { code: codeOf(secret, 1).replace(/^.{3}/, "$& ") })).status, 201, "the next one");
  const outcomes = (
    await sql<{ outcome: string }[]>`select outcome from login_attempts where email = ${email} order by at, id`
  ).map(({ outcome }) => outcome);
  t.strictSame(outcomes.slice(0, 3), ["code_required", "credentials_invalid", "code_invalid"]);
});

t.test("the code of a pending sign-in completes it, in its browser only", async (t) => {
  const { owner, ask, email, secret } = await withTotp();
  const first = await byPassword(email);
  for (const line of first.headers.getSetCookie())
    t.match(line, /_pending=.*; Path=\/; HttpOnly; SameSite=Lax; Secure/);
  const cookie = cookiesOf(first.headers);
  const send = (code: string, of = cookie) => browser(of)("POST", "/api/v1/sessions", { code });
  matchObject(t, await send(codeOf(secret), ""), refused(400, "SIGN_IN_LINK_INVALID"), "another browser");
  matchObject(t, await send(wrongFor(secret)), refused(401, "CODE_INVALID"));
  const done = await send(codeOf(secret));
  t.equal(done.status, 201);
  t.strictSame(await sessionIn(done.body.id), { second_factor: true });
  t.equal((await browser(cookiesOf(done.headers))("GET", "/api/v1/me")).body.user.id, owner.userId);
  clock.advance(30 * second);
  matchObject(t, await send(codeOf(secret)), refused(401, "UNAUTHENTICATED"), "completed");
  const late = cookiesOf((await byPassword(email)).headers);
  clock.advance(10 * minute);
  matchObject(t, await send(codeOf(secret), late), refused(401, "UNAUTHENTICATED"), "10 minutes");
  const stale = cookiesOf((await byPassword(email)).headers);
  const renewed = await ask("POST", "/api/v1/me/totp/recovery-codes");
  t.equal(renewed.status, 200);
  matchObject(t, await send(codeOf(secret), stale), refused(401, "UNAUTHENTICATED"), "a changed factor");
});

t.test("a recovery code counts once, on all replicas", async (t) => {
  const { ask, email, recovery } = await withTotp();
  const [code, other] = recovery as [string, string];
  const race = await Promise.all(
    Array.from({ length: 4 }, (_, n) => byPassword(email, { code }, browser("", replicas[n % 2]))),
  );
  t.strictSame(race.map(({ status }) => status).toSorted(), [201, 401, 401, 401]);
  t.equal((await byPassword(email, { code: other.toLowerCase().replaceAll("-", " ") })).status, 201);
  t.match((await ask("GET", "/settings/account")).text, /8 left/);
});

t.test("wrong codes are throttled, and a right password forgets none of them", async (t) => {
  const { owner, email, secret } = await withTotp();
  for (let n = 0; n < 9; n++) await takeTurn(system, { address: email, visitor: `attacker ${n}` });
  for (let n = 0; n < 3; n++) matchObject(t, await byPassword(email), refused(401, "CODE_REQUIRED"));
  matchObject(t, await byPassword(email, { code: wrongFor(secret) }), refused(401, "CODE_INVALID"), "the tenth");
  matchObject(t, await byPassword(email, { code: codeOf(secret) }), {
    status: 429,
    body: { error: { details: { scope: "per_address_sign_in" } } },
  });
  clock.advance(hour);
  for (let n = 0; n < 10; n++) await takeTurn(system, { code: owner.userId });
  const stopped = { status: 429, body: { error: { details: { scope: "per_code_sign_in" } } } };
  matchObject(t, await byPassword(email, { code: codeOf(secret) }), stopped);
  const pending = cookiesOf((await byPassword(email)).headers);
  matchObject(t, await browser(pending)("POST", "/api/v1/sessions", { code: codeOf(secret) }), stopped);
  clock.advance(30 * second);
  t.equal((await byPassword(email, { code: codeOf(secret) })).status, 201);
  t.equal((await sql`select from sign_in_turns where failures >= 9`).length, 0, "the account's are forgotten");
});

t.test("a restored backup accepts no proof that was used after it was made", async (t) => {
  const { owner, email, secret, recovery } = await withTotp();
  const link = (await makeSignInLink(system, owner.userId)).slice("/sign-in/".length);
  const waiting = cookiesOf((await byPassword(email)).headers);
  for (const table of ["totp_factors", "sign_in_links", "pending_sign_ins", "recovery_codes"])
    await sql.unsafe(`create table saved_${table} as table ${table}`);
  const code = codeOf(secret);
  t.equal((await byPassword(email, { code })).status, 201);
  t.equal((await byPassword(email, { code: recovery[0] })).status, 201);
  t.equal((await browser()("POST", "/api/v1/sessions", { code: link })).status, 201);
  for (const table of ["totp_factors", "sign_in_links", "pending_sign_ins", "recovery_codes"])
    await sql.unsafe(`truncate ${table}; insert into ${table} table saved_${table}`);
  await voidProofs(system);
  matchObject(t, await byPassword(email, { code }), refused(401, "CODE_INVALID"));
  matchObject(t, await browser()("POST", "/api/v1/sessions", { code: link }), refused(400, "SIGN_IN_LINK_INVALID"));
  matchObject(
    t,
    await browser(waiting)("POST", "/api/v1/sessions", { code: codeOf(secret, 1) }),
    refused(401, "UNAUTHENTICATED"),
  );
  clock.advance(minute);
  t.equal((await byPassword(email, { code: codeOf(secret) })).status, 201, "the app goes on");
  t.equal((await byPassword(email, { code: recovery[0] })).status, 201, "recovery codes are those of the backup");
});

t.test("links by mail ask for the code, links that the shell prints do not", async (t) => {
  const { owner, email, secret } = await withTotp();
  const use = async (method: "magic_link" | "bootstrap_link") => {
    const code = (await makeSignInLink(system, owner.userId, method)).slice("/sign-in/".length);
    return await browser()("POST", "/api/v1/sessions", { code });
  };
  const mailed = await use("magic_link");
  matchObject(t, mailed, refused(401, "CODE_REQUIRED"));
  const done = await browser(cookiesOf(mailed.headers))("POST", "/api/v1/sessions", { code: codeOf(secret) });
  t.equal(done.status, 201);
  const printed = await use("bootstrap_link");
  t.equal(printed.status, 201);
  t.strictSame(await sessionIn(printed.body.id), { second_factor: false });
  const { signInPath } = await resetSignIn(system, email);
  t.match((await browser()("GET", signInPath)).text, /second\s+factor/);
  const reset = await browser()("POST", "/api/v1/sessions", { code: signInPath.slice("/sign-in/".length) });
  t.equal(reset.status, 201);
  t.equal((await sql`select from totp_factors where user_id = ${owner.userId}`).length, 0, "a lost phone");
  t.equal((await sql`select from recovery_codes where user_id = ${owner.userId}`).length, 0);
});

t.test("a former member who is invited joins, and signs in with the code", async (t) => {
  const { owner, email, secret } = await withTotp();
  await sql`delete from memberships where user_id = ${owner.userId}`;
  const host = await newOrg(system);
  const member = await newMember(host, "owner");
  const made = await asking(serve, await signedIn(member))("POST", `/api/v1/orgs/${host.orgId}/invitations`, { email });
  const code = made.body.url.split("/").at(-1);
  const joined = await browser()("POST", "/api/v1/invitations/accept", { code, password: "quite another battery" });
  matchObject(t, joined, refused(401, "CODE_REQUIRED"));
  const done = await browser(cookiesOf(joined.headers))("POST", "/api/v1/sessions", { code: codeOf(secret) });
  t.equal(done.status, 201);
  clock.advance(30 * second);
  matchObject(t, await byPassword(email), refused(401, "CODE_REQUIRED"), "the password is still the person's own");
  t.equal(
    (await sql`select from audit_log where org_id = ${host.orgId} and action = 'POST /api/v1/invitations/accept'`)
      .length,
    1,
  );
});

t.test("the second step works without scripts", async (t) => {
  const { email, secret } = await withTotp();
  const post = async (fields: Record<string, string>, cookie = "") =>
    await fetch(`${serve.origin}/sign-in`, {
      method: "POST",
      redirect: "manual",
      headers: { "x-forwarded-for": `192.0.2.${++visitors}`, "sec-fetch-site": "same-origin", cookie },
      body: new URLSearchParams({ next: "/incidents", ...fields }),
    });
  const first = await post({ email, password });
  const address = first.headers.get("location")!;
  t.strictSame([first.status, address], [303, "/sign-in/code?next=%2Fincidents"]);
  const cookie = cookiesOf(first.headers);
  const page = await browser(cookie)("GET", address);
  t.match(page.text, /name="second"[^>]*autocomplete="one-time-code"/);
  t.match(page.text, /name="next" value="\/incidents"/);
  const wrong = await post({ second: wrongFor(secret) }, cookie);
  t.equal(wrong.status, 401);
  t.match(await wrong.text(), /The code is wrong[^]*name="second"/);
  const right = await post({ second: codeOf(secret) }, cookie);
  t.strictSame([right.status, right.headers.get("location")], [303, "/incidents"]);
  t.equal((await browser(cookiesOf(right.headers))("GET", "/api/v1/me")).status, 200);
  const over = await post({ second: codeOf(secret, 1) }, cookie);
  t.match(await over.text(), /Sign in again[^]*name="password"/);
  t.equal((await browser(cookie)("GET", address)).status, 302, "nothing waits for a code");
});

t.test("an organisation may require a second factor of sessions, which only read without one", async (t) => {
  const { owner, ask, email, secret } = await withTotp();
  const org = `/api/v1/orgs/${owner.orgId}`;
  const member = await newMember(owner, "owner");
  const headers = await signedIn(member);
  const other = asking(serve, headers);
  const require = (by = ask, required = true) => by("PATCH", org, { require_second_factor: required });
  matchObject(t, await require(other), refused(403, "FORBIDDEN"), "an owner without one");
  matchObject(t, await require(asking(serve, await withToken(member))), refused(403, "FORBIDDEN"));
  clock.advance(15 * minute);
  matchObject(t, await require(), refused(403, "FRESH_SIGN_IN_REQUIRED"));
  t.equal((await ask("POST", "/api/v1/sessions/current/verify", { password, code: codeOf(secret) })).status, 204);
  matchObject(t, await require(), { status: 200, body: { require_second_factor: true } });
  const target = { name: "Shop", check: { type: "tcp", host: "shop.example.org", port: 443 } };
  t.equal((await ask("POST", "/api/v1/targets", target)).status, 201);

  const { scopes } = (await other("GET", "/api/v1/me")).body as { scopes: string[] };
  t.ok(scopes.length > 5 && scopes.every((scope) => scope.endsWith(":read")), scopes.join());
  t.equal((await other("GET", "/api/v1/targets")).status, 200);
  const second = await newOrg(system);
  await sql`
    insert into memberships (org_id, user_id, role, created_at)
    values (${second.orgId}, ${member.userId}, 'owner', now())`;
  const elsewhere = asking(serve, await signedIn({ ...member, orgId: second.orgId }));
  t.equal((await elsewhere("POST", "/api/v1/targets", target)).status, 201, "not required there");
  for (const [by, method, path, body] of [
    [other, "POST", "/api/v1/targets", target],
    [other, "POST", "/api/v1/api-tokens", { name: "Mine", scopes: ["targets:write"] }],
    // Named by the path, in a session of another organisation.
    ...[other, elsewhere].flatMap(
      (by) =>
        [
          [by, "PATCH", org, { require_second_factor: false }],
          [by, "PATCH", `${org}/members/${owner.userId}`, { role: "viewer" }],
          [by, "DELETE", `${org}/members/${owner.userId}`, undefined],
          [by, "POST", `${org}/invitations`, { email: "nina@example.org" }],
          [by, "DELETE", org, undefined],
        ] as const,
    ),
  ] as const) {
    const reply = await by(method, path, body);
    matchObject(t, reply, refused(403, "INSUFFICIENT_SCOPE"), `${method} ${path}`);
    t.match(reply.body.error.message, /requires a second factor/);
  }
  t.equal((await asking(serve, await withToken(member))("POST", "/api/v1/targets", target)).status, 201, "a token");
  t.strictSame(grantable({ ...member, lacksSecondFactor: true }, ["targets:read", "targets:write"]), ["targets:read"]);
  const page = (await other("GET", "/monitors")).text;
  t.match(page, /data-role="viewer"[^]*requires a second factor[^]*href="\/settings\/account#second-factor"/);
  t.equal((await other("GET", "/monitors/new")).status, 403);

  const { signInPath } = await resetSignIn(system, email);
  const signedOut = await browser()("POST", "/api/v1/sessions", { code: signInPath.slice("/sign-in/".length) });
  const reset = browser(cookiesOf(signedOut.headers));
  t.equal((await reset("POST", "/api/v1/targets", target)).status, 403, "a lost phone: led to set one up");
  t.equal((await reset("PUT", "/api/v1/me/password", { password: "another horse battery" })).status, 204);
  matchObject(t, await reset("POST", "/api/v1/me/passkeys/options"), { status: 200 }, "or a passkey");
  for (const [method, body] of [["PATCH", { name: "Phone" }], ["DELETE"]] as const)
    matchObject(t, await reset(method, `/api/v1/me/passkeys/${newId()}`, body), refused(404, "NOT_FOUND"));
  const made = await reset("POST", "/api/v1/me/totp");
  t.equal((await reset("POST", "/api/v1/me/totp/confirm", { code: codeOf(made.body.secret) })).status, 200);
  t.equal((await reset("POST", "/api/v1/targets", target)).status, 201);
  t.equal((await other("DELETE", "/api/v1/sessions/current")).status, 204, "signs out");
});

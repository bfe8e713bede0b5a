import t from "tap";
import { encodeCBOR } from "@levischuck/tiny-cbor";
import { matchObject } from "@statusmesh/shared/testing";
import { newId } from "@statusmesh/shared/ids";
import { minute } from "../../../testing/clock.ts";
import { type Deviations, softwareAuthenticator } from "../../../testing/authenticator.ts";
import { asking, newMember, serveWhole, withToken } from "../../../testing/whole-app.ts";
import { newOrg, openWorld } from "../../../testing/world.ts";
import type { Ctx, System } from "../../../platform/context.ts";
import { anyoneCanSignIn } from "../second-factor/service.ts";
import { makeSignInLink } from "../sessions/service.ts";
import { passkeysOfOtherHosts, signInUrl } from "./service.ts";
import { resetSignIn, sweepSignIn } from "../service.ts";
import { relyingParty } from "./challenges.ts";

const origin = "https://status.example.org";
const world = await openWorld(t, { env: { SM_SERVER__TRUSTED_PROXIES: "127.0.0.1" } });
const { system, sql, clock } = world;
const serve = await serveWhole(t, world);
// A second replica: another pool, so that no state of the process is shared.
const replica = await serveWhole(t, world, { ...system, sql: world.pool() } as System);

const refused = (status: number, code: string, message?: RegExp) => ({
  status,
  body: { error: { code, ...(message === undefined ? {} : { message }) } },
});
const invalid = (message: RegExp) => refused(401, "INVALID_CREDENTIALS", message);

let visitors = 0;
/** A browser with its cookies, from an address of its own, on one of the replicas. */
function openBrowser(served = serve) {
  const jar = new Map<string, string>();
  const headers = { "x-forwarded-for": `192.0.2.${++visitors}`, "sec-fetch-site": "same-origin" };
  const browser = {
    jar,
    async ask(method: string, path: string, body?: object, at = served) {
      const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join("; ");
      const reply = await asking(at, { ...headers, ...(cookie === "" ? {} : { cookie }) })(method, path, body);
      for (const line of reply.headers.getSetCookie()) {
        const [, name, value] = /^([^=]+)=([^;]*)/.exec(line)!;
        jar.set(name!, value!);
      }
      return reply;
    },
    /** Signs in with a link, which needs nothing else. */
    async signIn(userId: string) {
      const code = (await makeSignInLink(system, userId)).slice("/sign-in/".length);
      await browser.ask("POST", "/api/v1/sessions", { code });
      return browser;
    },
  };
  return browser;
}
type Browser = ReturnType<typeof openBrowser>;
type Authenticator = ReturnType<typeof softwareAuthenticator>;

const optionsOf = async (browser: Browser) => (await browser.ask("POST", "/api/v1/sessions/passkey/options")).body;
const creationOf = async (browser: Browser) => (await browser.ask("POST", "/api/v1/me/passkeys/options")).body;

async function signIn(authenticator: Authenticator, deviations: Deviations = {}, browser = openBrowser()) {
  const response = authenticator.get(await optionsOf(browser), deviations);
  return await browser.ask("POST", "/api/v1/sessions/passkey", { response });
}

async function add(browser: Browser, authenticator: Authenticator, name = "Laptop", deviations: Deviations = {}) {
  const response = authenticator.create(await creationOf(browser), deviations);
  return await browser.ask("POST", "/api/v1/me/passkeys", { name, response });
}

/** An owner who has a passkey, with the browser in which they added it. */
async function withPasskey(algorithm: "ES256" | "EdDSA" | "RS256" = "ES256") {
  const owner = await newOrg(system);
  const browser = await openBrowser().signIn(owner.userId);
  const authenticator = softwareAuthenticator(origin, algorithm);
  const added = await add(browser, authenticator);
  return { owner, browser, authenticator, passkey: added.body as { id: string }, added };
}

const auditOf = async (owner: Ctx, resourceId: string) =>
  (
    await sql<{ action: string; before: unknown; after: unknown }[]>`
      select action, before, after from audit_log
      where org_id = ${owner.orgId} and resource_id = ${resourceId} order by at, id`
  ).map((row) => ({ ...row }));

t.test("passkeys of each algorithm sign in, and count as both factors", async (t) => {
  for (const algorithm of ["ES256", "EdDSA", "RS256"] as const) {
    const { owner, authenticator, passkey, added } = await withPasskey(algorithm);
    matchObject(t, added, { status: 201, body: { name: "Laptop", rp_id: "status.example.org", last_used_at: null } });
    const browser = openBrowser();
    const reply = await signIn(authenticator, {}, browser);
    t.equal(reply.status, 201, algorithm);
    t.equal((await browser.ask("GET", "/api/v1/me")).body.user.id, owner.userId);
    const [session] = await sql<{ second_factor: boolean; verified_at: Date }[]>`
      select second_factor, verified_at from sessions where id = ${reply.body.id}`;
    t.strictSame({ ...session }, { second_factor: true, verified_at: new Date(clock.now()) });
    matchObject(t, (await browser.ask("GET", "/api/v1/me/passkeys")).body, {
      items: [{ id: passkey.id, last_used_at: new Date(clock.now()).toISOString(), suspended_at: null }],
      total: 1,
    });
    const [attempt] = await sql<{ outcome: string; email: string }[]>`
      select outcome, email from login_attempts where user_id = ${owner.userId} and method = 'passkey'`;
    t.strictSame({ ...attempt }, { outcome: "ok", email: `${owner.userId}@example.org` });
  }
});

t.test("the options are those of the standard, and visitors who ask for them write nothing", async (t) => {
  const { owner, browser } = await withPasskey();
  const options = await creationOf(browser);
  matchObject(t, options, {
    rp: { id: "status.example.org" },
    user: { id: Buffer.from(owner.userId.replaceAll("-", ""), "hex").toString("base64url") },
    attestation: "none",
    authenticatorSelection: { residentKey: "required", userVerification: "required" },
  });
  t.equal(options.excludeCredentials.length, 1, "the device that has one adds no second one");
  const visitor = openBrowser();
  const asked = await visitor.ask("POST", "/api/v1/sessions/passkey/options");
  matchObject(t, asked.body, { rpId: "status.example.org", userVerification: "required" });
  t.match(
    asked.headers.getSetCookie()[0]!,
    /^_sm_session_passkey=[\w-]{43}; Path=\/api\/v1; HttpOnly; SameSite=Strict/,
  );
  t.not((await optionsOf(visitor)).challenge, asked.body.challenge);
  t.equal((await sql`select from used_challenges`).length > 0, true, "only answered ones are stored");
  clock.advance(5 * minute);
  await sweepSignIn(system);
  t.equal((await sql`select from used_challenges`).length, 0);
});

t.test("a response that is not right in every part signs nobody in", async (t) => {
  const { owner, authenticator } = await withPasskey();
  const other = await withPasskey();
  const handle = Buffer.from(other.owner.userId.replaceAll("-", ""), "hex").toString("base64url");
  const wrong: [Deviations, RegExp][] = [
    [{ origin: "https://evil.example.org" }, /page of another address\. Open https:\/\/status\.example\.org/],
    [{ origin: "https://status.example.org:8443" }, /another address/],
    [{ origin: "http://status.example.org" }, /another address/],
    [{ crossOrigin: true }, /another address/],
    [{ rpId: "example.org" }, /belongs to another host/],
    [{ flags: 0x01 }, /did not verify who you are/],
    [{ flags: 0x04 }, /did not verify who you are/],
    [{ type: "webauthn.create" }, /type in clientDataJSON is not webauthn\.get/],
    [{ challenge: "AAAA" }, /not made for this browser/],
    [{ userHandle: handle }, /signature of the passkey is wrong/],
    [{ tampered: true }, /signature of the passkey is wrong/],
  ];
  for (const [deviations, message] of wrong)
    matchObject(t, await signIn(authenticator, deviations), invalid(message), JSON.stringify(deviations));
  matchObject(t, await signIn(softwareAuthenticator(origin), { userHandle: handle }), invalid(/not known here/));
  t.equal((await signIn(authenticator)).status, 201, "and the right one does");
  const outcomes = await sql<{ outcome: string }[]>`
    select outcome from login_attempts where user_id = ${owner.userId} and method = 'passkey' and outcome <> 'ok'`;
  t.ok(outcomes.length > 0 && outcomes.every(({ outcome }) => outcome === "credentials_invalid"));
});

t.test("a challenge counts once, for five minutes, for its purpose, in the browser that got it", async (t) => {
  const { authenticator, browser: first } = await withPasskey();
  const browser = openBrowser();
  const response = authenticator.get(await optionsOf(browser));
  const send = (from: Browser, at = serve, body: object = { response }) =>
    from.ask("POST", "/api/v1/sessions/passkey", body, at);
  matchObject(t, await send(openBrowser()), invalid(/not made for this browser/), "without a cookie");
  const stranger = openBrowser();
  await optionsOf(stranger);
  matchObject(t, await send(stranger), invalid(/not made for this browser/), "another browser");
  const race = await Promise.all(Array.from({ length: 6 }, (_, n) => send(browser, n % 2 === 0 ? serve : replica)));
  t.strictSame(race.map(({ status }) => status).sort(), [201, 401, 401, 401, 401, 401], "over two replicas");
  matchObject(t, await send(browser, replica), invalid(/used already/));

  const late = openBrowser();
  const stale = authenticator.get(await optionsOf(late));
  clock.advance(5 * minute);
  matchObject(t, await send(late, serve, { response: stale }), invalid(/older than 5 minutes/));

  const creation = await creationOf(first);
  const mixed = authenticator.get({ ...creation, rpId: creation.rp.id });
  matchObject(
    t,
    await send(first, serve, { response: mixed }),
    invalid(/not made for this browser/),
    "of a new passkey",
  );
});

t.test("a new passkey needs a fresh session of its user, and a response that is right", async (t) => {
  const owner = await newOrg(system);
  const browser = await openBrowser().signIn(owner.userId);
  const authenticator = softwareAuthenticator(origin);
  const wrong: [Deviations, RegExp][] = [
    [{ origin: "https://evil.example.org" }, /another address/],
    [{ rpId: "example.org" }, /another host/],
    [{ flags: 0x41 }, /did not verify/],
    [{ flags: 0x05 }, /has no credential/],
    [{ type: "webauthn.get" }, /is not webauthn\.create/],
    [{ challenge: "AAAA" }, /not made for this browser/],
    ...[
      Buffer.alloc(0x100, 0x9f),
      Buffer.alloc(11_000, 0x81),
      Buffer.from("bf", "hex"),
      Buffer.from("5b7fffffffffffffff", "hex"),
      Buffer.from("9bffffffffffffffff00", "hex"),
      Buffer.from(encodeCBOR(new Map([["authData", new Uint8Array(40)]]))),
      Buffer.from(encodeCBOR([1, 2, 3])),
      Buffer.from(encodeCBOR(new Map([["authData", new Uint8Array(200)]]))).subarray(0, -1),
    ].map((attestationObject): [Deviations, RegExp] => [{ attestationObject }, /malformed|another host/]),
  ];
  for (const [deviations, message] of wrong)
    matchObject(
      t,
      await add(browser, authenticator, "Laptop", deviations),
      { status: 400, body: { error: { code: "PASSKEY_INVALID", field: "/response", message } } },
      JSON.stringify(deviations).slice(0, 80),
    );
  const rsa = softwareAuthenticator(origin, "RS256", 1024);
  matchObject(t, await add(browser, rsa), refused(400, "PASSKEY_INVALID", /2,048 to 4,096 bits/));
  matchObject(t, await add(browser, authenticator, ""), refused(400, "EMPTY_NAME"));

  const member = await newMember(owner);
  const theirs = await openBrowser().signIn(member.userId);
  const response = authenticator.create(await creationOf(browser));
  const send = (from: Browser) => from.ask("POST", "/api/v1/me/passkeys", { name: "Laptop", response });
  await creationOf(theirs);
  matchObject(t, await send(theirs), refused(400, "PASSKEY_INVALID", /not made for this browser/), "of another person");
  t.equal((await send(browser)).status, 201);
  matchObject(t, await send(browser), refused(400, "PASSKEY_INVALID", /used already/));
  matchObject(t, await add(theirs, authenticator), refused(400, "PASSKEY_INVALID", /added before/));
  const big = "A".repeat(20_000);
  matchObject(t, await browser.ask("POST", "/api/v1/sessions/passkey", { response: { id: big } }), { status: 413 });

  const token = asking(serve, await withToken(owner));
  for (const [method, path, body] of [
    ["POST", "/api/v1/me/passkeys/options"],
    ["POST", "/api/v1/me/passkeys", { name: "Laptop", response }],
    ["PATCH", `/api/v1/me/passkeys/${newId()}`, { name: "Laptop" }],
    ["DELETE", `/api/v1/me/passkeys/${newId()}`],
  ] as [string, string, object?][])
    matchObject(t, await token(method, path, body), refused(403, "FORBIDDEN"), `${method} ${path} by a token`);

  clock.advance(15 * minute);
  const stale = refused(403, "FRESH_SIGN_IN_REQUIRED");
  matchObject(t, await browser.ask("POST", "/api/v1/me/passkeys/options"), stale);
  matchObject(t, await send(browser), stale);
});

t.test("names change, a removal ends other sessions, and the last way to sign in stays", async (t) => {
  const { owner, browser, authenticator, passkey } = await withPasskey();
  const second = softwareAuthenticator(origin);
  const elsewhere = openBrowser();
  t.equal((await signIn(authenticator, {}, elsewhere)).status, 201);
  const phone = (await add(browser, second, "Phone")).body as { id: string };
  t.equal((await elsewhere.ask("GET", "/api/v1/me")).status, 200, "a further passkey ends no session");
  const path = `/api/v1/me/passkeys/${phone.id}`;
  matchObject(t, await browser.ask("PATCH", path, { name: "Work phone" }), {
    status: 200,
    body: { name: "Work phone" },
  });
  const stranger = await openBrowser().signIn((await newOrg(system)).userId);
  matchObject(t, await stranger.ask("PATCH", path, { name: "Mine" }), refused(404, "NOT_FOUND"));
  matchObject(t, await stranger.ask("DELETE", path), refused(404, "NOT_FOUND"));
  t.strictSame((await stranger.ask("GET", "/api/v1/me/passkeys")).body.items, []);

  t.equal((await browser.ask("DELETE", path)).status, 204);
  t.equal((await elsewhere.ask("GET", "/api/v1/me")).status, 401, "other sessions end");
  matchObject(t, await signIn(second), invalid(/not known here/));
  const last = await browser.ask("DELETE", `/api/v1/me/passkeys/${passkey.id}`);
  matchObject(t, last, refused(409, "LAST_SIGN_IN_METHOD"));
  t.equal((await signIn(authenticator)).status, 201);
  t.strictSame(await auditOf(owner, phone.id), [
    { action: "POST /api/v1/me/passkeys", before: null, after: { name: "Phone" } },
    { action: "PATCH /api/v1/me/passkeys/{id}", before: { name: "Phone" }, after: { name: "Work phone" } },
    { action: "DELETE /api/v1/me/passkeys/{id}", before: { name: "Work phone" }, after: null },
  ]);
  // A passkey of another host is no way to sign in.
  await sql`update passkeys set rp_id = 'old.example.org' where id = ${passkey.id}`;
  matchObject(t, await signIn(authenticator), invalid(/not known here/));
  t.strictSame(await passkeysOfOtherHosts(system), [{ host: "old.example.org", passkeys: 1 }]);
  t.equal((await browser.ask("DELETE", `/api/v1/me/passkeys/${passkey.id}`)).status, 204);
  t.strictSame(await passkeysOfOtherHosts(system), []);
});

t.test("a person has at most 20", async (t) => {
  const { owner, browser } = await withPasskey();
  await sql`
    insert into passkeys (id, user_id, rp_id, credential_id, public_key, counter, name, created_at)
    select gen_random_uuid(), ${owner.userId}, 'status.example.org', sha256(n::text::bytea), '', 0, n::text, now()
    from generate_series(1, 18) n`;
  const authenticator = softwareAuthenticator(origin);
  const response = authenticator.create(await creationOf(browser));
  await add(browser, softwareAuthenticator(origin));
  const limit = refused(409, "PASSKEYS_LIMIT", /You have 20 passkeys, and 20 are allowed/);
  matchObject(t, await browser.ask("POST", "/api/v1/me/passkeys", { name: "One more", response }), limit);
  matchObject(t, await browser.ask("POST", "/api/v1/me/passkeys/options"), limit);
});

t.test(
  "a counter that goes back suspends the passkey, only with a right signature, and its owner sees it",
  async (t) => {
    const { owner, browser, authenticator, passkey } = await withPasskey();
    authenticator.count(7);
    t.equal((await signIn(authenticator)).status, 201);
    matchObject(t, await signIn(authenticator, { counter: 2, tampered: true }), invalid(/signature/));
    t.equal((await signIn(authenticator)).status, 201, "a forged counter suspends nothing");
    matchObject(t, await signIn(authenticator, { counter: 9 }), invalid(/suspended, because its counter went back/));
    matchObject(t, await signIn(authenticator, { counter: 50 }), invalid(/suspended/), "for good");
    const { items } = (await browser.ask("GET", "/api/v1/me/passkeys")).body;
    t.equal(items[0].suspended_at, new Date(clock.now()).toISOString());
    t.strictSame(await auditOf(owner, passkey.id), [
      { action: "POST /api/v1/me/passkeys", before: null, after: { name: "Laptop" } },
      {
        action: "PATCH /api/v1/me/passkeys/{id}",
        before: { counter: 10, suspended: false },
        after: { counter: 9, suspended: true },
      },
    ]);
    t.equal((await browser.ask("DELETE", `/api/v1/me/passkeys/${passkey.id}`)).status, 204, "it signs nobody in");
    // Without a counter there is nothing to compare.
    const plain = await withPasskey();
    for (let n = 0; n < 2; n++) t.equal((await signIn(plain.authenticator)).status, 201);
  },
);

t.test("a passkey makes the session fresh, and one with both factors", async (t) => {
  const { owner, browser, authenticator } = await withPasskey();
  const other = await withPasskey();
  const verify = async (own: Authenticator, deviations: Deviations = {}) => {
    const response = own.get(await optionsOf(browser), deviations);
    return await browser.ask("POST", "/api/v1/sessions/current/verify", { response });
  };
  clock.advance(15 * minute);
  const stale = await browser.ask("POST", "/api/v1/me/passkeys/options");
  matchObject(t, stale, refused(403, "FRESH_SIGN_IN_REQUIRED"));
  t.strictSame(stale.body.error.details, { proofs: ["passkey"] });
  matchObject(t, await verify(other.authenticator), invalid(/belongs to another account/));
  matchObject(t, await verify(authenticator, { flags: 0x01 }), invalid(/did not verify/));
  matchObject(t, await browser.ask("POST", "/api/v1/sessions/current/verify", {}), invalid(/no password/));
  t.equal((await verify(authenticator)).status, 204);
  t.equal((await browser.ask("POST", "/api/v1/me/passkeys/options")).status, 200);
  const rows = await sql<
    { second_factor: boolean }[]
  >`select second_factor from sessions where user_id = ${owner.userId}`;
  t.strictSame(
    [...rows].map((row) => ({ ...row })),
    [{ second_factor: true }],
  );
});

t.test("a session keeps its second factor until neither a code nor a passkey is left", async (t) => {
  const { owner, authenticator, passkey } = await withPasskey();
  await sql`insert into totp_factors (user_id, secret) values (${owner.userId}, 'plain:GEZDGNBVGY3TQOJQ')`;
  const browser = openBrowser();
  const { id } = (await signIn(authenticator, {}, browser)).body as { id: string };
  const isProven = async () => (await sql`select from sessions where id = ${id} and second_factor`).length === 1;
  t.equal((await browser.ask("DELETE", "/api/v1/me/totp")).status, 204);
  t.equal(await isProven(), true, "opened with a passkey");
  t.equal((await browser.ask("PUT", "/api/v1/me/password", { password: "correct horse battery" })).status, 204);
  t.equal(await isProven(), true);
  t.equal((await browser.ask("DELETE", `/api/v1/me/passkeys/${passkey.id}`)).status, 204);
  t.equal(await isProven(), false);
});

t.test("a reset of the sign-in removes passkeys", async (t) => {
  const { owner, authenticator } = await withPasskey();
  const [user] = await sql<{ email: string }[]>`select email from users where id = ${owner.userId}`;
  const { signInPath } = await resetSignIn(system, user!.email);
  await openBrowser().ask("POST", "/api/v1/sessions", { code: signInPath.slice("/sign-in/".length) });
  matchObject(t, await signIn(authenticator), invalid(/not known here/));
});

t.test("passkeys work where browsers have them: https or localhost, at a host with a name", async (t) => {
  const partyOf = (public_url: string) =>
    relyingParty({ ...system.config, server: { ...system.config.server, public_url } });
  const cases: [string, string | null, string?][] = [
    ["https://status.example.org", "status.example.org"],
    ["https://status.example.org:8443/base", "status.example.org", "https://status.example.org:8443"],
    ["http://status.example.org", null],
    ["http://localhost:8080", "localhost"],
    ["http://127.0.0.1:8080", "localhost", "http://localhost:8080"],
    ["http://[::1]:8080", "localhost", "http://localhost:8080"],
    ["http://192.0.2.7:8080", null],
    ["https://192.0.2.7", null],
    ["https://[2001:db8::1]", null],
  ];
  for (const [url, rpId, at] of cases)
    t.strictSame(partyOf(url), rpId === null ? null : { rpId, origin: at ?? url }, url);

  const linkAt = (public_url: string, enabled: "passkey" | "password") =>
    signInUrl(
      { ...system.config, auth: only(enabled), server: { ...system.config.server, public_url } },
      "/sign-in/code",
    );
  t.equal(linkAt("http://127.0.0.1:8080", "passkey"), "http://localhost:8080/sign-in/code");
  t.equal(linkAt("http://127.0.0.1:8080", "password"), "http://127.0.0.1:8080/sign-in/code");
  t.equal(linkAt("https://status.example.org/base", "passkey"), "https://status.example.org/base/sign-in/code");
  t.equal(await anyoneCanSignIn({ sql, config: { ...system.config, auth: only("passkey") } }), true);
  const bare = {
    ...system,
    config: { ...system.config, server: { ...system.config.server, public_url: "http://192.0.2.7" } },
  };
  t.equal(await anyoneCanSignIn({ sql, config: { ...bare.config, auth: only("passkey") } }), false);
  const off = await serveWhole(t, world, { ...system, config: { ...system.config, auth: only("password") } });
  for (const at of [off, await serveWhole(t, world, bare)])
    matchObject(t, await openBrowser(at).ask("POST", "/api/v1/sessions/passkey/options"), refused(404, "NOT_FOUND"));
});

const only = (method: "passkey" | "password") => ({ ...system.config.auth, enabled_methods: [method] });

import type { ServerResponse } from "node:http";
import t, { type Test } from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import type { Ctx } from "../../platform/context.ts";
import type { Answer, Served } from "../../testing/app.ts";
import { day, hour, minute, until } from "../../testing/clock.ts";
import { codeAt, stepAt } from "../auth/second-factor/totp.ts";
import { startMailbox } from "../../testing/mailbox.ts";
import { type MockGithub, type MockProvider, startGithub, startGoogle, startOidc } from "../../testing/providers.ts";
import { asking, newMember, serveWhole, signedIn } from "../../testing/whole-app.ts";
import { newOrg, openWorld, type World } from "../../testing/world.ts";
import { sweep } from "../../operator/cleanup.ts";
import { apiOf } from "./github.ts";
import { openProviders } from "./service.ts";

interface Scene {
  world: World;
  served: Served;
  google: MockProvider;
  github: MockGithub;
  owner: Ctx;
  email: string;
}

async function scene(t: Test, env: Record<string, string> = {}): Promise<Scene> {
  const [google, github] = await Promise.all([startGoogle(t), startGithub(t)]);
  const world = await openWorld(t, {
    env: {
      SM_AUTH__ENABLED_METHODS: "google,github,magic_link",
      SM_AUTH__GOOGLE__CLIENT_ID: "our-google-id",
      SM_AUTH__GOOGLE__CLIENT_SECRET: "our-google-secret",
      SM_AUTH__GOOGLE__ISSUER: google.issuer,
      SM_AUTH__GITHUB__CLIENT_ID: "our-github-id",
      SM_AUTH__GITHUB__CLIENT_SECRET: "our-github-secret",
      SM_AUTH__GITHUB__ISSUER: `${github.issuer}/`,
      SM_AUTH__PER_IP_RATE_LIMIT_PER_MIN: "0",
      ...env,
    },
  });
  const owner = await newOrg(world.system);
  const served = await serveWhole(t, world);
  return { world, served, google, github, owner, email: `${owner.userId}@example.org` };
}

type Cookies = Record<string, string>;

function keep(cookies: Cookies, headers: Headers): void {
  for (const line of headers.getSetCookie()) {
    const [, name, value] = /^([^=]+)=([^;]*)/.exec(line)!;
    if (/Max-Age=0/.test(line)) delete cookies[name!];
    else cookies[name!] = value!;
  }
}

const sent = (cookies: Cookies): { cookie?: string } => {
  const cookie = Object.entries(cookies).map(([name, value]) => `${name}=${value}`);
  return cookie.length === 0 ? {} : { cookie: cookie.join("; ") };
};

/** Follows the redirects of a provider, with its cookies, until it sends the browser back. */
async function throughProvider(from: URL): Promise<URL> {
  const cookies: Cookies = {};
  for (let at = from, hops = 0; hops < 8; hops++) {
    const answer = await fetch(at, { redirect: "manual", headers: sent(cookies) });
    keep(cookies, answer.headers);
    const to = answer.headers.get("location");
    if (to === null) throw new Error(`${at.href} answers ${answer.status}: ${await answer.text()}`);
    at = new URL(to, at);
    if (at.origin === "https://status.example.org") return at;
  }
  throw new Error(`${from.href} sends the browser round in a circle`);
}

/** A minimal browser: keeps cookies and exposes its address. */
function openBrowser(served: Served, cookies: Cookies = {}) {
  const go = async (path: string, headers: Record<string, string> = {}): Promise<Answer> => {
    const answer = await served("GET", path, undefined, { accept: "text/html", ...sent(cookies), ...headers });
    keep(cookies, answer.headers);
    return answer;
  };
  /** Leaves for the provider, whose address may be changed; returns the path by which it is sent back. */
  const leave = async (provider: string, next = "/", change: (url: URL) => void = () => {}): Promise<string> => {
    const answer = await go(`/sign-in/${provider}?next=${encodeURIComponent(next)}`, {
      "sec-fetch-site": "same-origin",
    });
    if (answer.status !== 302) throw new Error(`${answer.status}: ${answer.text}`);
    const url = new URL(answer.headers.get("location")!);
    change(url);
    const back = await throughProvider(url);
    return back.pathname + back.search;
  };
  const signIn = async (provider: string, next = "/"): Promise<Answer> =>
    await go(await leave(provider, next), { "sec-fetch-site": "cross-site" });
  const me = async () => (await go("/api/v1/me")).body;
  return { go, leave, signIn, me, cookies };
}

const attempts = async ({ sql }: World) =>
  await sql<
    { method: string; email: string | null; user_id: string | null; outcome: string }[]
  >`select method, email, user_id, outcome, ip, user_agent from login_attempts order by id`;
const left = async ({ sql }: World) =>
  (
    await sql`
      select (select count(*)::int from sign_in_flows) as flows,
        (select count(*)::int from sessions) as sessions,
        (select count(*)::int from user_identities) as identities,
        (select count(*)::int from users) as users`
  )[0];
/** Signed in nobody and left nothing: only the owner of the scene is there. */
const nothing = { flows: 0, sessions: 0, identities: 0, users: 1 };
const word = {
  state: /was completed, has expired, or was started in another browser/,
  denied: /was denied at/,
  away: /does not respond/,
  refused: /refused the sign-in/,
  untrusted: /is invalid\. Start again/,
  unverified: /has no verified email address for you/,
  nobody: /There is no account with this address/,
  full: /has reached its member limit/,
  groups: /None of your groups at Acme login has access/,
};
/** Text of a page by its notice code. */
const said = ({ status, text }: Answer): [number, string] => [
  status,
  Object.entries(word).find(([, words]) => words.test(text))?.[0] ?? "",
];

t.test("Google: an account is found by address and linked; later sign-ins use the link", async (t) => {
  const { world, served, google, owner, email } = await scene(t);
  google.claims = { sub: "g-7", email: email.toUpperCase(), email_verified: true };
  const browser = openBrowser(served);
  const start = await browser.go("/sign-in/google?next=%2Fmonitors%3Fq%3Dx", { "sec-fetch-site": "same-origin" });
  t.equal(start.status, 302);
  matchObject(t, start.headers.getSetCookie(), [
    /^_sm_session_flow=[\w-]{43}; Path=\/sign-in; HttpOnly; SameSite=Lax; Max-Age=600; Secure$/,
  ]);
  t.match(start.headers.get("cache-control"), "no-store");
  const to = new URL(start.headers.get("location")!);
  t.equal(to.origin, google.issuer);
  matchObject(t, Object.fromEntries(to.searchParams), {
    client_id: "our-google-id",
    redirect_uri: "https://status.example.org/sign-in/google/callback",
    response_type: "code",
    scope: "openid email",
    code_challenge_method: "S256",
    code_challenge: /^[\w-]{43}$/,
    state: /^[\w-]{43}$/,
    nonce: /^[\w-]{43}$/,
  });
  const [flow] = await world.sql`select * from sign_in_flows`;
  t.notMatch(JSON.stringify(flow), to.searchParams.get("state")!, "the database has hashes only");

  const answer = await browser.signIn("google", "/monitors?q=x");
  t.equal(answer.status, 302);
  t.equal(answer.headers.get("location"), "/monitors?q=x");
  t.equal(browser.cookies["_sm_session_flow"], undefined, "the browser forgets the flow");
  matchObject(t, await browser.me(), { user: { id: owner.userId, email }, org: { id: owner.orgId }, role: "owner" });
  matchObject(t, await world.sql`select user_id, provider, subject, email from user_identities`, [
    { user_id: owner.userId, provider: "google", subject: "g-7", email },
  ]);
  matchObject(t, await world.sql`select action, after, user_id from audit_log`, [
    { action: "GET /sign-in/google/callback", after: { linked: "google", email }, user_id: owner.userId },
  ]);

  // The address at Google changes to another user's address here: the subject decides.
  const other = await newMember(owner);
  google.claims = { sub: "g-7", email: `${other.userId}@example.org`, email_verified: true };
  const again = openBrowser(served);
  await again.signIn("google");
  matchObject(t, await again.me(), { user: { id: owner.userId } });
  google.claims = { sub: "g-7", email: "new@example.org", email_verified: false };
  await again.signIn("google");
  matchObject(t, await again.me(), { user: { id: owner.userId } }, "whom the provider is linked to needs no address");
  matchObject(t, await attempts(world), [
    { method: "google", email, user_id: owner.userId, outcome: "ok", ip: "127.0.0.1", user_agent: "node" },
    { email: `${other.userId}@example.org`, user_id: owner.userId, outcome: "ok" },
    { email: "new@example.org", user_id: owner.userId, outcome: "ok" },
  ]);
});

t.test("GitHub: the primary verified address, else another verified one with an account", async (t) => {
  const { world, served, github, owner, email } = await scene(t);
  github.user = { id: 77, login: "olga" };
  github.emails = [
    { email, primary: false, verified: false },
    { email: "private@example.com", primary: true, verified: true },
  ];
  t.strictSame(
    said(await openBrowser(served).signIn("github")),
    [403, "nobody"],
    "an unverified address does not sign in",
  );
  github.emails = [
    { email: "77+olga@users.noreply.github.com", primary: false, verified: true },
    { email: email.toUpperCase(), primary: false, verified: true },
    { email: "private@example.com", primary: true, verified: true },
  ];
  const browser = openBrowser(served);
  const start = await browser.go("/sign-in/github");
  const to = new URL(start.headers.get("location")!);
  t.equal(to.origin + to.pathname, `${github.issuer}/login/oauth/authorize`);
  matchObject(t, Object.fromEntries(to.searchParams), {
    client_id: "our-github-id",
    redirect_uri: "https://status.example.org/sign-in/github/callback",
    scope: "user:email",
    code_challenge_method: "S256",
    state: /^[\w-]{43}$/,
  });
  matchObject(t, await browser.signIn("github"), { status: 302 });
  matchObject(t, await browser.me(), { user: { id: owner.userId } });
  matchObject(t, await world.sql`select provider, subject, email from user_identities`, [
    { provider: "github", subject: "77", email },
  ]);

  // The account with the primary address wins over one with another address.
  const other = await newMember(owner);
  github.user = { id: 78, login: "milan" };
  github.emails = [
    { email, primary: false, verified: true },
    { email: `${other.userId}@example.org`, primary: true, verified: true },
  ];
  github.iss = null;
  matchObject(t, await browser.signIn("github"), { status: 302 }, "GitHub may leave out iss (RFC 9207)");
  matchObject(t, await browser.me(), { user: { id: other.userId } });
  github.iss = "https://evil.example/login/oauth";
  t.strictSame(said(await openBrowser(served).signIn("github")), [502, "untrusted"], "but another iss is refused");
  github.iss = `${github.issuer}/login/oauth`;
  github.emails = [];
  matchObject(t, await browser.signIn("github"), { status: 302 });
  matchObject(t, await browser.me(), { user: { id: other.userId } }, "whom GitHub is linked to needs no address");
});

t.test("API origin of each GitHub edition", async (t) => {
  t.equal(apiOf("https://github.com"), "https://api.github.com");
  t.equal(apiOf("https://acme.ghe.com"), "https://api.acme.ghe.com");
  t.equal(apiOf("https://github.example.org"), "https://github.example.org/api/v3");
  t.equal(apiOf("https://ghe.com.example.org"), "https://ghe.com.example.org/api/v3");
  t.equal(apiOf("http://127.0.0.1:9000"), "http://127.0.0.1:9000/api/v3");
});

t.test(
  "a callback works once, in the browser of the start, for ten minutes, with its state and provider",
  async (t) => {
    const { world, served, google, github, email } = await scene(t);
    google.claims = { sub: "g", email, email_verified: true };
    github.emails = [{ email, primary: true, verified: true }];
    const victim = openBrowser(served);
    const mallory = openBrowser(served);

    // Login CSRF: the victim's browser is sent to the callback of a flow that Mallory started.
    const planted = await mallory.leave("google");
    t.strictSame(
      said(await victim.go(planted, { "sec-fetch-site": "cross-site" })),
      [400, "state"],
      "a browser without a flow",
    );
    const own = await victim.leave("google");
    t.strictSame(said(await victim.go(planted)), [400, "state"], "a browser that began another");
    t.equal(victim.cookies["__Host-_sm_session"], undefined);
    t.strictSame(said(await mallory.go(own)), [400, "state"], "and the other way round");
    matchObject(t, await victim.go(own), { status: 302 }, "neither used anything up");
    matchObject(t, await victim.me(), { user: { email } });
    const before = google.asked.length;
    t.strictSame(said(await victim.go(own)), [400, "state"], "a callback that is sent again");
    t.strictSame(said(await openBrowser(served, { ...victim.cookies, ...mallory.cookies }).go(own)), [400, "state"]);
    t.equal(google.asked.length, before, "for all of these the provider is not asked");

    const wrong = await mallory.leave("google");
    t.strictSame(said(await mallory.go(wrong.replace(/state=[\w-]+/, `state=${"x".repeat(43)}`))), [400, "state"]);
    t.strictSame(said(await mallory.go(wrong.replace(/&?state=[\w-]+/, ""))), [400, "state"]);
    t.strictSame(said(await mallory.go("/sign-in/google/callback")), [400, "state"]);
    t.strictSame(
      said(await mallory.go(wrong.replace("/google/", "/github/"))),
      [400, "state"],
      "a state of another provider",
    );
    matchObject(t, await mallory.go(`${wrong}&state=again`), { status: 502 }, "two states");

    const late = await mallory.leave("github");
    world.clock.advance(10 * minute);
    t.strictSame(said(await mallory.go(late)), [400, "state"]);
    await sweep(world.system);
    matchObject(t, await left(world), { flows: 0 });

    const race = await mallory.leave("google");
    const cookies = { ...mallory.cookies };
    const answers = await Promise.all(Array.from({ length: 6 }, () => openBrowser(served, { ...cookies }).go(race)));
    t.equal(answers.filter(({ status }) => status === 302).length, 1, "of many at once one comes in");
    t.equal(answers.filter(({ status }) => status === 400).length, 5);
  },
);

t.test("a new sign-in ends the browser's previous session", async (t) => {
  const { world, served, google, owner, email } = await scene(t);
  google.claims = { sub: "g", email, email_verified: true };
  const before = await signedIn(owner);
  const browser = openBrowser(served, { "__Host-_sm_session": before["cookie"]!.split("=")[1]! });
  matchObject(t, await browser.signIn("google"), { status: 302 });
  matchObject(t, await served("GET", "/api/v1/me", undefined, before), { status: 401 });
  matchObject(t, await browser.me(), { user: { email } });

  // With a second factor nothing happens before its code: no session, no end of the one before, no linked identity.
  const { sql, clock } = world;
  const identities = async () => (await sql`select subject from user_identities`).map(({ subject }) => subject);
  await sql`delete from user_identities`;
  const secret = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ";
  await sql`insert into totp_factors (user_id, secret) values (${owner.userId}, ${`plain:${secret}`})`;
  const asked = await browser.signIn("google", "/incidents");
  t.strictSame([asked.status, asked.headers.get("location")], [302, "/sign-in/code?next=%2Fincidents"]);
  t.strictSame(await identities(), []);
  matchObject(t, await browser.me(), { user: { email } });
  const cookies = { ...sent(browser.cookies), "sec-fetch-site": "same-origin" };
  const code = codeAt(secret, stepAt(clock.now()));
  t.equal((await served("POST", "/api/v1/sessions", { code }, cookies)).status, 201);
  t.equal((await browser.go("/api/v1/me")).status, 401, "ended");
  t.strictSame(await identities(), ["g"]);
  t.strictSame(
    (await attempts(world)).map(({ method, outcome }) => `${method} ${outcome}`),
    ["google ok", "google code_required", "google ok"],
  );
  t.strictSame(
    (await sql`select after from audit_log where action = 'GET /sign-in/google/callback' order by at, id`).map(
      ({ after }) => after,
    ),
    [
      { linked: "google", email },
      { linked: "google", email },
    ],
  );
});

t.test("an id_token for another audience, time, issuer or flow does not sign in", async (t) => {
  const { world, served, google, email } = await scene(t);
  const good = { sub: "g", email, email_verified: true };
  const now = Math.floor(Date.now() / 1000);
  const cases: Record<string, Record<string, unknown>> = {
    "another nonce": { nonce: "x".repeat(43) },
    "another audience": { aud: "somebody-else" },
    "another issuer": { iss: "https://accounts.google.com" },
    "an id_token that is over": { iat: now - 7200, exp: now - 3600 },
    "no subject": { sub: "" },
  };
  for (const [name, claims] of Object.entries(cases)) {
    google.claims = { ...good, ...claims };
    t.strictSame(said(await openBrowser(served).signIn("google")), [502, "untrusted"], name);
  }
  matchObject(t, await left(world), nothing);
  t.strictSame(
    (await attempts(world)).map(({ outcome }) => outcome),
    Object.keys(cases).map(() => "answer_invalid"),
  );
  google.claims = { ...good, exp: now - 10, iat: now - 300 };
  matchObject(t, await openBrowser(served).signIn("google"), { status: 302 }, "clocks may differ by 30 s");
});

t.test("there is no sign-up: an unknown or unverified address gets a refusal that says so", async (t) => {
  const { world, served, google, github, email } = await scene(t);
  google.claims = { sub: "g", email: "a&amp@example.org", email_verified: true };
  const unknown = await openBrowser(served).signIn("google");
  t.strictSame(said(unknown), [403, "nobody"]);
  t.match(unknown.text, "Google reports the address <strong>a&amp;amp@example.org</strong>");
  t.notMatch(unknown.text, "Acme");
  t.match(unknown.headers.get("referrer-policy"), "no-referrer");
  google.claims = { sub: "g", email, email_verified: false };
  t.strictSame(said(await openBrowser(served).signIn("google")), [403, "unverified"]);
  google.claims = { sub: "g", email };
  t.strictSame(said(await openBrowser(served).signIn("google")), [403, "unverified"], "not said to be verified");
  google.claims = { sub: "g", email_verified: true };
  t.strictSame(said(await openBrowser(served).signIn("google")), [403, "unverified"], "no address at all");
  github.emails = [{ email, primary: true, verified: false }];
  t.strictSame(said(await openBrowser(served).signIn("github")), [403, "unverified"]);
  matchObject(t, await left(world), nothing);
  matchObject(t, await attempts(world), [
    { method: "google", email: "a&amp@example.org", user_id: null, outcome: "no_account" },
    { email, outcome: "email_unverified" },
    { email, outcome: "email_unverified" },
    { email: null, outcome: "email_unverified" },
    { method: "github", email, outcome: "email_unverified" },
  ]);
});

t.test("an invited person signs in with a verified address, a removed member does not", async (t) => {
  const mailbox = await startMailbox(t);
  const { world, served, google, github, owner } = await scene(t, { SM_EMAIL__SMTP_URL: mailbox.url });
  const ask = asking(served, await signedIn(owner));
  const invitations = `/api/v1/orgs/${owner.orgId}/invitations`;
  matchObject(t, await ask("POST", invitations, { email: "Nina@example.org", role: "owner" }), { status: 201 });
  google.claims = { sub: "nina", email: "nina@example.org", email_verified: false };
  t.strictSame(said(await openBrowser(served).signIn("google")), [403, "unverified"]);
  google.claims = { sub: "nina", email: "nina@example.org", email_verified: true };
  const nina = openBrowser(served);
  const answer = await nina.signIn("google", "/invitations/abc");
  t.equal(answer.headers.get("location"), "/", "the page of the invitation has nothing more to offer");
  const { user } = await nina.me();
  matchObject(t, await nina.me(), { user: { email: "nina@example.org" }, org: { id: owner.orgId }, role: "owner" });
  matchObject(t, await ask("GET", invitations), { body: { total: 0 } });
  matchObject(
    t,
    await world.sql`select action, user_email, after from audit_log where user_email = 'nina@example.org'`,
    [{ action: "GET /sign-in/google/callback", after: { email: "nina@example.org", role: "owner" } }],
  );

  matchObject(t, await ask("DELETE", `/api/v1/orgs/${owner.orgId}/members/${user.id}`), { status: 204 });
  t.strictSame(said(await nina.signIn("google")), [403, "nobody"], "the link alone is no way in");

  // Invited again with another address: by another provider, and by the one that was linked before.
  matchObject(t, await ask("POST", invitations, { email: "n@work.example" }), { status: 201 });
  google.claims = { sub: "nina", email: "n@work.example", email_verified: true };
  matchObject(t, await nina.signIn("google"), { status: 302 });
  matchObject(t, await nina.me(), { user: { email: "n@work.example" }, role: "member" });
  github.user = { id: 5 };
  github.emails = [
    { email: "p@example.com", primary: true, verified: true },
    { email: "n@work.example", primary: false, verified: true },
  ];
  matchObject(t, await nina.signIn("github"), { status: 302 });
  matchObject(t, await nina.me(), { user: { email: "n@work.example" } });

  matchObject(t, await ask("POST", invitations, { email: "late@example.org" }), { status: 201 });
  world.clock.advance(7 * day);
  google.claims = { sub: "late", email: "late@example.org", email_verified: true };
  t.strictSame(said(await openBrowser(served).signIn("google")), [403, "nobody"], "a week is over");
});

t.test("a full organisation refuses the sign-in and keeps the invitation", async (t) => {
  const mailbox = await startMailbox(t);
  const { world, served, google, owner } = await scene(t, { SM_EMAIL__SMTP_URL: mailbox.url });
  await world.sql`update orgs set plan_id = 'free' where id = ${owner.orgId}`;
  const ask = asking(served, await signedIn(owner));
  matchObject(t, await ask("POST", `/api/v1/orgs/${owner.orgId}/invitations`, { email: "nina@example.org" }), {
    status: 201,
  });
  await Promise.all([newMember(owner), newMember(owner)]);
  google.claims = { sub: "nina", email: "nina@example.org", email_verified: true };
  t.strictSame(said(await openBrowser(served).signIn("google")), [403, "full"]);
  matchObject(t, await ask("GET", `/api/v1/orgs/${owner.orgId}/invitations`), { body: { total: 1 } });
  t.equal((await world.sql`select 1 from users where email = 'nina@example.org'`).length, 0);
  matchObject(t, (await attempts(world)).at(-1), { email: "nina@example.org", outcome: "member_limit" });
});

t.test(
  "an unavailable, slow or broken provider fails within the timeout, and the next sign-in asks it again",
  async (t) => {
    const { world, served, google, github, email } = await scene(t);
    google.claims = { sub: "g", email, email_verified: true };
    github.emails = [{ email, primary: true, verified: true }];
    await google.stop();
    matchObject(t, await served("GET", "/sign-in"), { status: 200 });
    const down = await openBrowser(served).go("/sign-in/google");
    t.strictSame(said(down), [503, "away"]);
    t.match(down.text, "Continue with GitHub", "the other ways are there");
    t.notMatch(down.text, /fetch failed|ECONN|at \//);
    matchObject(t, await left(world), nothing, "and nothing is left behind");
    await google.start();
    matchObject(t, await openBrowser(served).signIn("google"), { status: 302 }, "it is back");
    await world.sql`delete from sessions`;
    await world.sql`delete from user_identities`;

    // Timeouts are of this one alone: a busy machine must not look like a silent provider.
    const impatient = await serveWhole(t, world, world.system, {
      providers: openProviders(world.system.config, world.clock, 0.5),
    });
    await until(
      async () => (await openBrowser(impatient).go("/sign-in/google")).status === 302,
      "the discovery document",
    );
    await world.sql`delete from sign_in_flows`;
    type Case = [name: string, status: number, words: keyof typeof word, (response: ServerResponse) => void];
    const silent: Case[] = [
      ["nothing, for ever", 503, "away", () => {}],
      [
        "an incomplete reply",
        503,
        "away",
        (response) => void response.writeHead(200, { "content-type": "application/json" }).write('{"access'),
      ],
    ];
    const answers: Case[] = [
      ["500", 503, "away", (response) => void response.writeHead(500).end("oops")],
      [
        "500 with words",
        503,
        "away",
        (response) =>
          void response.writeHead(500, { "content-type": "application/json" }).end('{"error":"server_error"}'),
      ],
      ["429", 503, "away", (response) => void response.writeHead(429).end()],
      ["a connection that is cut", 503, "away", (response) => void response.destroy()],
      [
        "no JSON",
        502,
        "untrusted",
        (response) => void response.writeHead(200, { "content-type": "application/json" }).end("<html>"),
      ],
      [
        "another type",
        502,
        "untrusted",
        (response) => void response.writeHead(200, { "content-type": "text/html" }).end("<html>"),
      ],
      [
        "JSON of another shape",
        502,
        "untrusted",
        (response) =>
          void response.writeHead(200, { "content-type": "application/json" }).end('{"error":"bad_verification_code"}'),
      ],
      [
        "a refusal",
        502,
        "refused",
        (response) =>
          void response.writeHead(400, { "content-type": "application/json" }).end('{"error":"invalid_client"}'),
      ],
      [
        "a redirect",
        502,
        "refused",
        (response) => void response.writeHead(302, { location: "https://evil.example/" }).end(),
      ],
    ];
    for (const [provider, paths] of [
      ["google", ["/token"]],
      ["github", ["/login/oauth/access_token", "/api/v3/user", "/api/v3/user/emails"]],
    ] as const)
      for (const path of paths)
        for (const [name, status, words, answer] of [...answers, ...silent]) {
          const app = answers.some((one) => one[0] === name) ? served : impatient;
          const mock = provider === "google" ? google : github;
          mock.misbehave = (it) => it.path === path && (answer(it.response), true);
          const answered = await openBrowser(app).signIn(provider);
          t.strictSame(said(answered), [status, words], `${provider} ${path}: ${name}`);
          t.notMatch(answered.text, /invalid_client|fetch failed|    at /, `${provider} ${path}: ${name}`);
          mock.misbehave = () => false;
        }
    for (const [provider, mock] of [
      ["google", google],
      ["github", github],
    ] as const)
      for (const [refusal, status, words, outcome] of [
        ["error=access_denied", 403, "denied", "denied"],
        ["error=server_error&error_description=%3Cb%3Eboom", 503, "away", "provider_unavailable"],
        ["error=invalid_scope&error_description=%3Cb%3Eboom", 502, "refused", "provider_refused"],
      ] as const) {
        mock.refusal = refusal;
        const answered = await openBrowser(served).signIn(provider);
        t.strictSame(said(answered), [status, words], refusal);
        t.notMatch(answered.text, "boom", "what a provider writes into an address is not shown");
        matchObject(t, (await attempts(world)).at(-1), { method: provider, email: null, outcome });
        mock.refusal = null;
      }
    matchObject(t, await left(world), nothing);
    matchObject(
      t,
      world.log.lines.find(({ fields }) => JSON.stringify(fields).includes("invalid_client")),
      { level: "warn", fields: { provider: "google", reason: "provider_refused" } },
      "the log has the reason",
    );
    t.notMatch(JSON.stringify(world.log.lines), /our-g\w+-secret|access_token":"|eyJ/, "and no secret");

    world.clock.advance(2 * hour);
    await google.stop();
    matchObject(
      t,
      await openBrowser(served).go("/sign-in/google"),
      { status: 302 },
      "a stale discovery document serves while Google is away",
    );
  },
);

t.test("a disabled provider is 404", async (t) => {
  const { served, github, email } = await scene(t, { SM_AUTH__ENABLED_METHODS: "github" });
  for (const path of ["/sign-in/google", "/sign-in/google/callback?code=1&state=2", "/sign-in/gitlab/callback"])
    matchObject(t, await served("GET", path), { status: 404 }, path);
  matchObject(t, await served("POST", "/api/v1/auth/magic-link", { email }), { status: 404 });
  const { text } = await served("GET", "/sign-in?next=/monitors");
  t.match(text, 'href="/sign-in/github?next=%2Fmonitors"');
  t.notMatch(text, /Google|Email address/);
  github.emails = [{ email, primary: true, verified: true }];
  matchObject(t, await openBrowser(served).signIn("github"), { status: 302 });
  const open = await openWorld(t, {
    env: {
      SM_AUTH__REQUIRED: "false",
      SM_AUTH__ENABLED_METHODS: "github",
      SM_AUTH__GITHUB__CLIENT_ID: "x",
      SM_AUTH__GITHUB__CLIENT_SECRET: "x",
    },
  });
  matchObject(t, await (await serveWhole(t, open))("GET", "/sign-in/github"), { status: 404 }, "where nobody signs in");
});

t.test("the sign-in returns to a local path only; another site cannot start one", async (t) => {
  const { world, served, google, email } = await scene(t);
  google.claims = { sub: "g", email, email_verified: true };
  for (const evil of [
    "//evil.example",
    "/\\evil.example",
    "https://evil.example/",
    "\\\\evil.example",
    "/\t/evil.example",
    "javascript:alert(1)",
    "evil.example",
    "/\n/evil.example",
    "/sign-in/google",
    "%2F%2Fevil.example",
  ]) {
    const answer = await openBrowser(served).signIn("google", evil);
    t.equal(answer.headers.get("location"), "/", JSON.stringify(evil));
  }
  t.equal(
    (await openBrowser(served).signIn("google", "/targets/1?x=//evil.example#a")).headers.get("location"),
    "/targets/1?x=//evil.example#a",
  );
  for (const site of ["cross-site", "same-site"]) {
    const answer = await served("GET", "/sign-in/google?next=/monitors", undefined, { "sec-fetch-site": site });
    matchObject(
      t,
      [answer.status, answer.headers.get("location"), answer.headers.getSetCookie()],
      [302, "/sign-in?next=%2Fmonitors", []],
      site,
    );
  }
  matchObject(t, await served("HEAD", "/sign-in/google"), { status: 302 });
  matchObject(t, await left(world), { flows: 0 });
});

t.test("identities are listed and unlinked, except the last sign-in method", async (t) => {
  const { world, served, google, github, owner, email } = await scene(t, { SM_AUTH__ENABLED_METHODS: "google,github" });
  google.claims = { sub: "g", email, email_verified: true };
  github.emails = [{ email, primary: true, verified: true }];
  const browser = openBrowser(served);
  await browser.signIn("google");
  await browser.signIn("github");
  const ask = asking(served, {
    cookie: `__Host-_sm_session=${browser.cookies["__Host-_sm_session"]}`,
    "sec-fetch-site": "same-origin",
  });
  const { body } = await ask("GET", "/api/v1/identities");
  matchObject(t, body, {
    total: 2,
    items: [
      { provider: "google", email },
      { provider: "github", email },
    ],
  });
  matchObject(t, await ask("GET", "/settings/account"), { text: /Linked accounts[^]*Google[^]*GitHub/ });
  const stranger = asking(served, await signedIn(await newOrg(world.system)));
  const [first, second] = body.items.map(({ id }: { id: string }) => `/api/v1/identities/${id}`);
  matchObject(t, await stranger("DELETE", first), { status: 404 });
  const both = await Promise.all([ask("DELETE", first), ask("DELETE", second)]);
  t.strictSame(both.map(({ status }) => status).sort(), [204, 409], "of two at once one stays");
  matchObject(t, both.find(({ status }) => status === 409)?.body.error, { code: "LAST_SIGN_IN_METHOD" });
  matchObject(t, await ask("GET", "/api/v1/identities"), { body: { total: 1 } });
  matchObject(t, (await world.sql`select action, before from audit_log order by id desc limit 1`)[0], {
    action: "DELETE /api/v1/identities/{id}",
    before: { email },
  });
  await world.sql`delete from users where id = ${owner.userId}`;
  matchObject(t, await left(world), { identities: 0 });
});

t.test("an identity is of its issuer: at another one its subject is somebody else", async (t) => {
  const { world, google, github, owner, email } = await scene(t);
  const [otherGoogle, otherGithub] = await Promise.all([startGoogle(t), startGithub(t)]);
  const other = await newMember(owner);
  const otherEmail = `${other.userId}@example.org`;
  /** The same installation with these issuers. */
  const at = async (googleIssuer: string, githubIssuer: string) => {
    const { auth } = world.system.config;
    const config = {
      ...world.system.config,
      auth: {
        ...auth,
        enabled_methods: ["google", "github", "oidc"] as typeof auth.enabled_methods,
        google: { ...auth.google, issuer: googleIssuer },
        github: { ...auth.github, issuer: githubIssuer },
        oidc: { ...auth.google, ...auth.oidc, issuer: googleIssuer, client_id: "oidc", client_secret: "oidc-secret" },
      },
    };
    return await serveWhole(t, { ...world, system: { ...world.system, config } });
  };
  const [first, second] = [
    await at(google.issuer, github.issuer),
    await at(otherGoogle.issuer, `${otherGithub.issuer}/`),
  ];
  const attest = (address: string, verified: boolean): void => {
    for (const mock of [google, otherGoogle]) mock.claims = { sub: "7", email: address, email_verified: verified };
    for (const mock of [github, otherGithub]) {
      mock.user = { id: 7, login: "somebody" };
      mock.emails = [{ email: address, primary: true, verified }];
    }
  };
  for (const method of ["google", "oidc", "github"]) {
    attest(email, true);
    const browser = openBrowser(first);
    await browser.signIn(method);
    matchObject(t, await browser.me(), { user: { id: owner.userId } }, method);
    attest(email, false);
    matchObject(
      t,
      said(await openBrowser(second).signIn(method)),
      [403, /unverified|nobody/],
      `${method}: the owner's subject`,
    );
    attest(otherEmail, true);
    const elsewhere = openBrowser(second);
    await elsewhere.signIn(method);
    matchObject(
      t,
      await elsewhere.me(),
      { user: { id: other.userId } },
      `${method}: linked anew by the verified address`,
    );
    attest("new@example.org", false);
    await browser.signIn(method);
    matchObject(t, await browser.me(), { user: { id: owner.userId } }, `${method}: back at the first one`);
    await elsewhere.signIn(method);
    matchObject(t, await elsewhere.me(), { user: { id: other.userId } }, `${method}: and at the second one`);
  }
  t.strictSame(
    [...(await world.sql`select provider, issuer, user_id from user_identities order by 3, 1`.values())],
    [owner.userId, other.userId].sort().flatMap((user) => {
      const [openid, hub] = user === owner.userId ? [google, github] : [otherGoogle, otherGithub];
      return [
        ["github", hub.issuer, user],
        ["google", openid.issuer, user],
        ["oidc", openid.issuer, user],
      ];
    }),
  );

  // Only identities of configured issuers count as ways to sign in.
  attest(email, true);
  const browser = openBrowser(second);
  await browser.signIn("google");
  const ask = asking(second, {
    cookie: `__Host-_sm_session=${browser.cookies["__Host-_sm_session"]}`,
    "sec-fetch-site": "same-origin",
  });
  matchObject(t, await browser.me(), { user: { id: other.userId } }, "the link decides, not the address");
  const { items } = (await ask("GET", "/api/v1/identities")).body;
  matchObject(t, items, [
    { issuer: otherGoogle.issuer },
    { issuer: otherGoogle.issuer },
    { issuer: otherGithub.issuer },
  ]);
  await world.sql`update user_identities set issuer = 'https://gone.example.org' where id = ${items[1].id}`;
  matchObject(t, await ask("GET", "/settings/account"), { text: /Linked accounts[^]*gone\.example\.org/ });
  matchObject(t, await ask("DELETE", `/api/v1/identities/${items[2].id}`), { status: 204 });
  matchObject(t, await ask("DELETE", `/api/v1/identities/${items[0].id}`), {
    status: 409,
    body: { error: { code: "LAST_SIGN_IN_METHOD" } },
  });
});

t.test("concurrent sign-ins link one account; attempts per visitor are limited", async (t) => {
  const { world, served, google, email } = await scene(t, { SM_AUTH__PER_IP_RATE_LIMIT_PER_MIN: "24" });
  google.claims = { sub: "g", email, email_verified: true };
  const backs = await Promise.all(
    Array.from({ length: 5 }, async () => {
      const browser = openBrowser(served);
      return { browser, path: await browser.leave("google") };
    }),
  );
  const answers = await Promise.all(backs.map(({ browser, path }) => browser.go(path)));
  t.ok(answers.every(({ status }) => status === 302));
  matchObject(t, await left(world), { identities: 1, sessions: 5 });
  // A sign-in locks its user before the identity, as the one that links it does: else two at once would deadlock.
  const { sql } = world;
  const again = openBrowser(served);
  const path = await again.leave("google");
  let signedIn: ReturnType<typeof again.go> | undefined;
  await sql.begin(async (other) => {
    await other`select from users where email = ${email} for update`;
    signedIn = again.go(path);
    const waiting = async () =>
      await sql`select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`;
    await until(async () => (await waiting()).length > 0, "the sign-in to wait for the user");
    t.equal((await other`select from user_identities for update skip locked`).length, 1, "the identity is free");
  });
  t.equal((await signedIn!).status, 302);
  const spent = [
    () => served("POST", "/api/v1/auth/magic-link", { email: "a@example.org" }),
    () => served("POST", "/api/v1/sessions", { code: "a" }),
    () => served("POST", "/api/v1/invitations/accept", { code: "a" }),
    () => served("GET", "/sign-in/google"),
    () => served("GET", "/Sign-In/GitHub/"),
    () => served("GET", "/sign-in/github/callback"),
    () => served("GET", "/sign-in/oidc/callback"),
  ];
  for (const ask of [...spent, ...spent.slice(2)]) t.not((await ask()).status, 429);
  for (const ask of spent)
    matchObject(t, await ask(), {
      status: 429,
      body: { error: { code: "RATE_LIMITED", details: { scope: "per_ip_sign_in" } } },
    });
  matchObject(t, await served("GET", "/sign-in"), { status: 200 });
  matchObject(t, await served("GET", "/api/v1/sessions"), { status: 401 }, "what reads is not counted");
  await until(
    async () => (await attempts(world)).some(({ method }) => method === "magic_link"),
    "the attempt by email",
  );
});

/** A provider under its own name, with groups as Keycloak sends them. */
const oidcEnv = (issuer: string, roles = "/ops/admins=owner,staff=member,guests=viewer") => ({
  SM_AUTH__ENABLED_METHODS: "oidc,google",
  SM_AUTH__OIDC__CLIENT_ID: "our-oidc-id",
  SM_AUTH__OIDC__CLIENT_SECRET: "our-oidc-secret",
  SM_AUTH__OIDC__ISSUER: issuer,
  SM_AUTH__OIDC__NAME: "Acme login",
  SM_AUTH__OIDC__GROUPS_CLAIM: "realm_access.roles",
  SM_AUTH__OIDC__ROLE_MAP: roles,
});

const rolesIn = async ({ sql }: World, { orgId }: Ctx) =>
  Object.fromEntries(
    (
      await sql<{ email: string; role: string }[]>`
        select u.email, m.role from memberships m join users u on u.id = m.user_id where m.org_id = ${orgId}`
    ).map(({ email, role }) => [email, role]),
  );

t.test("a provider under its own name gives roles by groups at every sign-in", async (t) => {
  const idp = await startOidc(t);
  const { world, served, owner, email } = await scene(t, oidcEnv(idp.issuer));
  const nina = openBrowser(served);
  t.match((await nina.go("/sign-in")).text, 'href="/sign-in/oidc?next=%2F" rel="nofollow">Continue with Acme login');
  const person = (groups: unknown, more: object = {}) => {
    idp.person = {
      sub: "n",
      email: "nina@example.org",
      email_verified: true,
      realm_access: { roles: groups },
      ...more,
    };
  };
  const { orgId } = owner;

  person(["offline_access"]);
  t.strictSame(said(await openBrowser(served).signIn("oidc")), [403, "groups"]);
  person(["staff"], { email_verified: false });
  t.strictSame(said(await openBrowser(served).signIn("oidc")), [403, "unverified"], "a group makes no address true");
  person(["staff"], { email, email_verified: false });
  t.strictSame(said(await openBrowser(served).signIn("oidc")), [403, "unverified"], "nor an address of an account");
  t.strictSame(await rolesIn(world, owner), { [email]: "owner" });

  person(["guests", "staff"]);
  matchObject(t, await nina.signIn("oidc", "/monitors"), { status: 302 });
  matchObject(t, await nina.me(), { user: { email: "nina@example.org" }, org: { id: orgId }, role: "member" });
  matchObject(t, await world.sql`select after from audit_log where after ->> 'role' = 'member'`, [
    { after: { email: "nina@example.org", role: "member" } },
  ]);
  person("guests", { email: "nina@new.example" });
  matchObject(t, await openBrowser(served).signIn("oidc"), { status: 302 });
  matchObject(
    t,
    await nina.me(),
    { user: { email: "nina@example.org" }, role: "viewer" },
    "sessions follow the new role",
  );
  person([]);
  t.strictSame(said(await openBrowser(served).signIn("oidc")), [403, "groups"], "the groups are gone");
  matchObject(t, await nina.go("/api/v1/me"), { status: 401 }, "and so are its sessions");
  t.strictSame(await rolesIn(world, owner), { [email]: "owner" });
  person(["/ops/admins"]);
  matchObject(t, await nina.signIn("oidc"), { status: 302 }, "they are back");
  matchObject(t, await nina.me(), { role: "owner" });

  // The owner came by hand: no group means no change, another group a change, and the last owner stays one.
  const person2 = (groups: string[]) => {
    idp.person = { sub: "o", email, email_verified: true, realm_access: { roles: groups } };
  };
  person2([]);
  matchObject(t, await openBrowser(served).signIn("oidc"), { status: 302 });
  person2(["guests"]);
  matchObject(t, await openBrowser(served).signIn("oidc"), { status: 302 });
  t.strictSame(await rolesIn(world, owner), { [email]: "viewer", "nina@example.org": "owner" });
  person([]);
  matchObject(t, await openBrowser(served).signIn("oidc"), { status: 302 });
  person(["guests"]);
  matchObject(t, await openBrowser(served).signIn("oidc"), { status: 302 });
  matchObject(t, await rolesIn(world, owner), { "nina@example.org": "owner" });

  await world.sql`update orgs set plan_id = 'free' where id = ${orgId}`;
  await newMember(owner);
  idp.person = { sub: "x", email: "x@example.org", email_verified: true, realm_access: { roles: ["staff"] } };
  t.strictSame(said(await openBrowser(served).signIn("oidc")), [403, "full"], "quotas hold");
});

t.test("without a role map groups decide nothing; userinfo of somebody else is refused", async (t) => {
  const idp = await startGoogle(t);
  const { world, served, owner, email } = await scene(t, oidcEnv(idp.issuer, ""));
  idp.claims = { sub: "o", realm_access: { roles: ["guests"] } };
  let subject = "o";
  idp.misbehave = ({ path, response }) =>
    path === "/userinfo" &&
    (response
      .setHeader("content-type", "application/json")
      .end(JSON.stringify({ sub: subject, email, email_verified: true })),
    true);
  matchObject(t, await openBrowser(served).signIn("oidc"), { status: 302 });
  t.strictSame(await rolesIn(world, owner), { [email]: "owner" });
  await world.sql`delete from user_identities`;
  subject = "another";
  t.strictSame(said(await openBrowser(served).signIn("oidc")), [502, "untrusted"]);
});

t.test("a flow that was tampered with, another issuer or secret, and new keys of a real provider", async (t) => {
  const idp = await startOidc(t);
  const { world, served, email } = await scene(t, oidcEnv(idp.issuer));
  idp.person = { sub: "o", email, email_verified: true, realm_access: { roles: ["staff"] } };
  const start = await openBrowser(served).go("/sign-in/oidc", { "sec-fetch-site": "same-origin" });
  t.match(new URL(start.headers.get("location")!).searchParams.get("scope"), "openid email groups");

  const stolen = new URL(await openBrowser(served).leave("oidc"), idp.issuer).searchParams.get("code")!;
  const callback = async (change: (url: URL) => void): Promise<Answer> => {
    const browser = openBrowser(served);
    const url = new URL(await browser.leave("oidc"), idp.issuer);
    change(url);
    return await browser.go(url.pathname + url.search, { "sec-fetch-site": "cross-site" });
  };
  const request = async (name: string): Promise<Answer> => {
    const browser = openBrowser(served);
    const path = await browser.leave("oidc", "/", (url) => url.searchParams.set(name, "x".repeat(43)));
    return await browser.go(path, { "sec-fetch-site": "cross-site" });
  };
  t.strictSame(said(await callback((url) => url.searchParams.set("code", stolen))), [502, "refused"], "PKCE");
  t.strictSame(said(await request("code_challenge")), [502, "refused"], "another challenge");
  t.strictSame(said(await request("nonce")), [502, "untrusted"], "another nonce");
  t.strictSame(said(await request("state")), [400, "state"], "another state");
  for (const [name, change] of [
    ["another iss", (url: URL) => url.searchParams.set("iss", "https://evil.example")],
    ["no iss, which the provider promises", (url: URL) => url.searchParams.delete("iss")],
  ] as const)
    t.strictSame(said(await callback(change)), [502, "untrusted"], name);
  idp.refuses = true;
  t.strictSame(said(await openBrowser(served).signIn("oidc")), [403, "denied"]);
  idp.refuses = false;
  const elsewhere = await scene(t, oidcEnv(idp.issuer.replace("127.0.0.1", "localhost")));
  t.strictSame(
    said(await openBrowser(elsewhere.served).go("/sign-in/oidc", { "sec-fetch-site": "same-origin" })),
    [502, "untrusted"],
    "the document is of another issuer than the configured one",
  );
  const wrong = await scene(t, { ...oidcEnv(idp.issuer), SM_AUTH__OIDC__CLIENT_SECRET: "of-last-year" });
  t.strictSame(said(await openBrowser(wrong.served).signIn("oidc")), [502, "refused"], "another client secret");
  await world.sql`delete from sign_in_flows`;
  matchObject(t, await left(world), nothing);

  matchObject(t, await openBrowser(served).signIn("oidc"), { status: 302 });
  idp.rotateKeys();
  t.strictSame(said(await openBrowser(served).signIn("oidc")), [502, "untrusted"], "a signature by an unknown key");
  matchObject(t, await openBrowser(served).signIn("oidc"), { status: 302 }, "the next sign-in reads the new keys");
});

import t, { type Test } from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { allPages } from "@statusmesh/control-plane/app";
import { isForVisitors, type Route } from "@statusmesh/control-plane/platform/http/route";
import { newId } from "@statusmesh/shared/ids";
import { type Answer, type Client, connect, type Json } from "../harness/api.ts";
import { startMailbox } from "@statusmesh/control-plane/testing/mailbox";
import { startOidc } from "@statusmesh/control-plane/testing/providers";
import { castIn, colleagueOf, sessionOf, tokenOf } from "../harness/cast.ts";
import { cloneDatabase } from "../harness/database.ts";
import { serveHere } from "../harness/in-process.ts";
import { waitFor } from "../harness/wait.ts";
import { routes } from "./declared.ts";
import { make } from "./isolation/things.ts";

/*
 * A private page gives nothing to a visitor without access, at any address. The addresses are derived from the declared
 * routes and pages, so that a new one is covered at once; replies are searched for texts that only the page has.
 */

const base = "status.example.org";
const publicHost = "watch.example.org";
const database = await cloneDatabase(t);
const { sql } = database;
const { olga, milan, xenia } = await castIn(sql);
const mailbox = await startMailbox(t);
const idp = await startOidc(t, `http://${publicHost}`);
const url = await serveHere(t, database, {
  SM_EMAIL__SMTP_URL: mailbox.url,
  SM_EMAIL__FROM: "status@example.org",
  SM_AUTH__ENABLED_METHODS: "oidc,password,magic_link",
  SM_AUTH__PER_IP_RATE_LIMIT_PER_MIN: "0",
  SM_AUTH__OIDC__CLIENT_ID: "our-oidc-id",
  SM_AUTH__OIDC__CLIENT_SECRET: "our-oidc-secret",
  SM_AUTH__OIDC__ISSUER: idp.issuer,
  SM_AUTH__OIDC__GROUPS_CLAIM: "realm_access.roles",
  SM_SECURITY__ALLOW_PRIVATE_TARGETS: "true",
  SM_SERVER__PUBLIC_URL: `http://${publicHost}`,
  SM_SERVER__TRUSTED_PROXIES: "127.0.0.1",
  SM_TENANCY__SUBDOMAIN_PUBLIC_ROUTES: "true",
  SM_PUBLIC_STATUS__BASE_DOMAIN: base,
  SM_PUBLIC_STATUS__PUBLIC_PER_IP_RATE_LIMIT_PER_MIN: "0",
});
const visitor = connect(t, url, null).with({ host: publicHost });
const owner = visitor.with({ authorization: `Bearer ${olga.token}` });

const home = { orgId: olga.orgId, userId: olga.userId, ownerId: olga.userId, memberId: milan.userId };
/** A page with every text that visitors see; each holds `word`. */
async function planted(word: string, slug: string, access: Json) {
  const { id } = (
    await owner.post("/api/v1/status-pages", {
      slug,
      name: `${word} page`,
      custom_css: `.${word} { color: teal }`,
      access,
      branding: { display_name: `${word} heading`, about: `${word} about`, website_url: `https://${word}.example/` },
    })
  ).body;
  const component = await make.component(sql, home, id);
  await sql`
    update status_page_components set public_name = ${`${word} name`}, public_description = ${`${word} description`},
      public_group = ${`${word} group`}, show = '{"uptime": true, "latency": true, "certificate": true}'
    where page_id = ${id}`;
  const incident = await make.incident(sql, home, "");
  await sql`
    update incidents set target_id = ${component}, public_title = ${`${word} title`},
      public_description = ${`${word} words`} where id = ${incident}`;
  await sql`
    insert into incident_updates (id, org_id, incident_id, phase, message, created_at)
    values (${newId()}, ${home.orgId}, ${incident}, 'identified', ${`${word} update`}, now())`;
  const domain = `${word}.example.com`;
  await sql`
    insert into status_page_domains (page_id, org_id, domain, token, verified_at, created_at)
    values (${id}, ${home.orgId}, ${domain}, ${newId()}, now(), now())`;
  return { id, slug, component, incident, domain, token: await make.subscriber(sql, home, id) };
}

const password = "open sesame";
const hidden = await planted("zanzibar", "vault", { mode: "password", password });
const other = await planted("madagascar", "cellar", { mode: "password", password: "another one" });
const open = await planted("mauritius", "open", { mode: "public" });
type Planted = typeof hidden;
const secrets = /zanzibar/i;
const image = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";
const logo = async ({ id }: Planted): Promise<string> =>
  new URL((await owner.get(`/api/v1/status-pages/${id}`)).body.logo_url).pathname;
for (const page of [hidden, open]) await owner.send("PUT", `/api/v1/status-pages/${page.id}/logo`, { json: { image } });

/** A request of the page: what its declaration says, and whether the gate stands in front of it. */
interface Asked {
  method: string;
  path: string;
  gated: boolean;
}

const filled = (path: string, { slug, component, incident, token }: Planted): string =>
  path
    .replace("{slug}", slug)
    .replace("{token}", token)
    .replace("{id}", path.includes("incidents") ? incident : component);

/** Everything that is served without an account. */
function requestsOf(page: Planted): Asked[] {
  const ofRoutes = routes
    .filter((route: Route) => isForVisitors(route))
    // A one-click unsubscription passes the gate and shows nothing (RFC 8058).
    .filter(({ path }) => !path.endsWith("/unsubscribe"))
    .map(({ method, path, auth }) => ({ method, path: filled(path, page), gated: auth === "page" }));
  // The ways in stand before the gate.
  const isWayIn = (path: string): boolean => /^\/status\/(?:enter$|access)/.test(path);
  const ofPages = allPages({ github: null, google: null, oidc: null })
    .filter(({ auth }) => auth === "public")
    .map(({ path }) => ({
      method: "GET",
      path: filled(path, page),
      gated: path.startsWith("/status") && !isWayIn(path),
    }))
    .filter(({ path }) => !path.endsWith("/unsubscribe"));
  return [...ofRoutes, ...ofPages];
}

interface Place {
  host: string;
  at(path: string): string;
}
const asIs = (path: string): string => path;
/** Every spelling of the hosts of a page, and its path on the console's host. */
const placesOf = ({ slug, domain }: Planted): readonly [Place, ...Place[]] => [
  {
    host: publicHost,
    at: (path) =>
      /^\/(?:status-assets|api\/status-page)\//.test(path)
        ? path
        : path.replace(/^\/status(?=[/?]|$)|^(?=\/)/, `/status/${slug}`),
  },
  { host: `${slug}.${base}`, at: asIs },
  { host: `${slug.toUpperCase()}.${base.toUpperCase()}`, at: asIs },
  { host: `${slug}.${base}.:8080`, at: asIs },
  { host: domain, at: asIs },
  { host: `${domain.toUpperCase()}:443`, at: asIs },
];
const isAt = (place: Place, path: string): boolean =>
  !path.startsWith("/api/status-page/") || place.host === publicHost;

const cookieOf = ({ headers }: Answer): string => headers["set-cookie"]?.[0]?.split(";")[0] ?? "";
const enter = async (page: Planted, word: string): Promise<Answer> =>
  await visitor.post(`/status/${page.slug}/access`, { password: word });
/** Changes the password and returns a cookie of the last one. */
async function changePassword(page: Planted, last: string, next: string): Promise<string> {
  const cookie = cookieOf(await enter(page, last));
  await owner.patch(`/api/v1/status-pages/${page.id}`, { access: { mode: "password", password: next } });
  // A notification drops the cached page, perhaps after the reply.
  await waitFor("the last password to end", async () => {
    const { status } = await visitor.with({ cookie }).get(`/status/${page.slug}`);
    return status === 401;
  });
  return cookie;
}
const changed = "open barley";
const before = await changePassword(hidden, password, changed);
const cookie = cookieOf(await enter(hidden, changed));
// As often as that of the hidden page: their cookies differ in the page alone.
await changePassword(other, "another one", "another one");
const elsewhere = cookieOf(await enter(other, "another one"));
const reader = visitor.with({ cookie });

const formerMember = await tokenOf(sql, milan);
await sql`delete from memberships where user_id = ${milan.userId}`;

/** A reader token of a page: its id and its secret. */
const readerToken = async (page: Planted, scope: "data" | "badges" = "data"): Promise<{ id: string; token: string }> =>
  (await owner.post(`/api/v1/status-pages/${page.id}/reader-tokens`, { name: "Widget", scope })).body;
const revoked = await readerToken(hidden);
const bearer = (token: string): Client => visitor.with({ authorization: `Bearer ${token}` });
const revokes = async ({ id }: Planted, token: string) =>
  await owner.delete(`/api/v1/status-pages/${id}/reader-tokens/${token}`);
await bearer(revoked.token).get("/status/vault/api/public/v1/status");
await revokes(hidden, revoked.id);
const keys = { data: await readerToken(hidden), badges: await readerToken(hidden, "badges") };

const renamed = elsewhere.replace(other.id, hidden.id);
const later = cookie.replace(/=\d/, "=9");
const strangers: Record<string, Client> = {
  "a stranger": visitor,
  "a reader of another page": visitor.with({ cookie: `${elsewhere}; ${renamed}` }),
  "a cookie of the last password": visitor.with({ cookie: before }),
  "a cookie with another expiry": visitor.with({ cookie: later }),
  "a revoked reader token": bearer(revoked.token),
  "a reader token of another page": bearer((await readerToken(other)).token),
  "a former member": visitor.with({ authorization: `Bearer ${formerMember}` }),
  "an owner of another organisation": visitor.with({ authorization: `Bearer ${xenia.token}` }),
  "that owner, who names this organisation": visitor.with({
    authorization: `Bearer ${xenia.token}`,
    "x-sm-org": olga.orgSlug,
  }),
  "a token with another scope": visitor.with({
    authorization: `Bearer ${await tokenOf(sql, olga, { scopes: ["targets:read"] })}`,
  }),
  "another address behind a proxy that nobody trusts": visitor.with({ "x-forwarded-for": "192.0.2.1, 198.51.100.1" }),
};

/** Ids and words of the hidden page that the request does not name. */
function leaksOf({ text, headers }: Answer, path: string): string[] {
  const whole = `${JSON.stringify(headers)} ${text}`;
  const ids = [hidden.id, hidden.component, hidden.incident, hidden.token].filter((id) => !path.includes(id));
  return [...ids.filter((id) => whole.includes(id)), ...(secrets.exec(whole) ?? [])];
}

/** Requests an address of the hidden page that gives nothing of it. */
async function requireRefusal(t: Test, who: string, client: Client, { method, path, gated }: Asked, place: Place) {
  const headers = { host: place.host, accept: "text/html" };
  const answer = await client.send(method, place.at(path), { headers, ...(method === "GET" ? {} : { json: {} }) });
  const about = `${method} ${place.host}${place.at(path)} by ${who}`;
  t.strictSame(leaksOf(answer, path), [], about);
  if (!gated) return answer;
  matchObject(
    t,
    { status: answer.status, cache: answer.headers["cache-control"], etag: answer.headers.etag },
    { status: 401, cache: "no-store", etag: undefined },
    about,
  );
  return answer;
}

t.test("no address of a private page gives anything to a visitor without access", async (t) => {
  t.ok(before && cookie && elsewhere && before !== cookie, "three cookies");
  const all = [...requestsOf(hidden), { method: "GET", path: await logo(hidden), gated: true }];
  const gated = all.filter((one) => one.gated);
  t.ok(gated.length >= 18, `${gated.length} requests have a gate`);
  let asked = 0;
  const refuses = async (who: string, client: Client, one: Asked, place: Place) => {
    asked++;
    return await requireRefusal(t, who, client, one, place);
  };
  for (const one of all)
    for (const place of placesOf(hidden).filter((it) => isAt(it, one.path)))
      await refuses("a stranger", visitor, one, place);
  // Readers of a moment ago have filled every cache.
  const [path, host] = placesOf(hidden) as [Place, Place];
  const everybody = Object.entries(strangers);
  for (const place of [path, host])
    for (const [turn, one] of gated.filter((it) => it.method === "GET" && isAt(place, it.path)).entries()) {
      const at = `${place.host}${place.at(one.path)}`;
      const headers = { host: place.host };
      const answer = await reader.send("GET", place.at(one.path), { headers });
      matchObject(
        t,
        { status: answer.status, cache: answer.headers["cache-control"], robots: answer.headers["x-robots-tag"] },
        // Pages about a token are in no cache at all.
        { status: 200, cache: one.path.includes("subscri") ? "no-store" : "private, max-age=10", robots: "noindex" },
        `${at} by a reader`,
      );
      t.match(answer.headers.vary, /Cookie, Authorization/, at);
      const { etag = '"none"' } = answer.headers;
      if (etag !== '"none"')
        t.equal(
          (await reader.send("GET", place.at(one.path), { headers: { ...headers, "if-none-match": etag } })).status,
          304,
          at,
        );
      // One gate judges the caller once the page is found: at the second address two callers in turn.
      const some = [0, 1].map((n) => everybody[(2 * turn + n) % everybody.length]!);
      for (const [who, client] of place === path ? everybody : some) await refuses(who, client, one, place);
      const withKey = { ...one, path: `${one.path}?key=${revoked.token}` };
      // Logos take no query, and pages no key.
      if (place === path) await refuses("a stranger with a revoked key", visitor, withKey, place);
      for (const tag of place === path ? [etag, "*"] : [etag])
        await refuses("a stranger with a tag", visitor.with({ "if-none-match": tag }), one, place);
      await refuses("a stranger with HEAD", visitor, { ...one, method: "HEAD" }, place);
    }
  t.comment(`${asked} requests`);
});

t.test("what is refused has the shape of what was requested", async (t) => {
  const at = { host: `vault.${base}` };
  const [page, data, badge, feed, llms, image] = await Promise.all(
    [
      "/",
      "/api/public/v1/status",
      "/api/public/v1/badge.svg",
      "/api/public/v1/incidents.rss",
      "/llms.txt",
      await logo(hidden),
    ].map((path) => visitor.with(at).get(path)),
  );
  t.match(page!.text, /<h1[^>]*>This page is private<\/h1>[^]*action="\/status\/access"[^]*type="password"/);
  for (const one of [data!, feed!, llms!]) t.equal(JSON.parse(one.text).error.code, "PAGE_ACCESS");
  for (const one of [badge!, image!])
    matchObject(t, one, { headers: { "content-type": /^image\/svg\+xml/ }, text: /private/ });
  const kuma = await visitor.get("/api/status-page/heartbeat/vault");
  matchObject(t, kuma, { status: 401, body: { error: { code: "PAGE_ACCESS" } } });
});

t.test("a draft that is private, and an unknown page, are one and the same", async (t) => {
  const draft = await planted("comoros", "draft", { mode: "password", password });
  await owner.patch(`/api/v1/status-pages/${draft.id}`, { enabled: false });
  for (const { method, path } of requestsOf(draft).filter((one) => one.gated && one.method === "GET")) {
    const [one, none] = [placesOf(draft)[0], placesOf({ ...draft, slug: "nobody" })[0]];
    const ask = async (at: string) => {
      const { status, text } = await visitor.send(method, at, {
        headers: { traceparent: `00-${"12".repeat(16)}-${"34".repeat(8)}-01` },
      });
      return { status, text: text.replaceAll(/draft|nobody/g, "<slug>") };
    };
    const named = (place: Place) => place.at(path.replace("/draft", "/nobody"));
    t.strictSame(await ask(one.at(path)), await ask(named(none)), path);
  }
});

t.test("what opens a private page: its password, an open network, a token of the organisation", async (t) => {
  const status = { host: `vault.${base}` };
  const read = async (client: Client) => (await client.with(status).get("/api/public/v1/status")).status;
  t.equal(await read(reader), 200);
  const reading = await tokenOf(sql, olga, { scopes: ["status_page:read"] });
  t.equal(await read(visitor.with({ authorization: `Bearer ${reading}` })), 200);
  const unbound = await tokenOf(sql, olga, { scopes: ["status_page:read"], bound: false });
  t.equal(await read(visitor.with({ authorization: `Bearer ${unbound}` })), 200, "without the header X-Sm-Org");
  const byKey = async (path: string, key: string) => {
    const answers = [bearer(key).with(status).get(path), visitor.with(status).get(`${path}?key=${key}`)];
    const [first, second] = (await Promise.all(answers)).map((one) => one.status);
    t.equal(first, second, `${path}: header and key are the same`);
    return first;
  };
  const badge = "/api/public/v1/badge.svg?key=";
  t.equal((await bearer(keys.data.token).with(status).get(`${badge}sm_read_stale`)).status, 200, "the header suffices");
  t.equal(
    (
      await bearer("sm_read_stale")
        .with(status)
        .get(badge + keys.data.token)
    ).status,
    200,
    "and so does the key",
  );
  for (const [path, data, badges] of [
    ["/api/public/v1/status", 200, 401],
    ["/api/public/v1/incidents.rss", 200, 401],
    ["/llms.txt", 200, 401],
    ["/api/public/v1/badge.svg", 200, 200],
    [await logo(hidden), 200, 200],
    ["/status", 401, 401],
    ["/status/subscribe", 401, 401],
  ] as const) {
    t.equal(await byKey(path, keys.data.token), data, `data: ${path}`);
    t.equal(await byKey(path, keys.badges.token), badges, `badges: ${path}`);
  }
  const { items } = (await owner.get(`/api/v1/status-pages/${hidden.id}/reader-tokens`)).body;
  t.notMatch(JSON.stringify(items), keys.data.token, "the secret is shown once");
  matchObject(t, items, [
    { id: keys.data.id, hint: keys.data.token.slice(-4), scope: "data", last_used_at: /T/ },
    { id: keys.badges.id, last_used_at: /T/ },
  ]);
  await revokes(hidden, keys.badges.id);
  await waitFor(
    "the revoked key to end",
    async () => (await byKey("/api/public/v1/badge.svg", keys.badges.token)) === 401,
  );
  const access = {
    mode: "password",
    open_networks: ["198.51.100.0/24", "2001:db8::/32"],
    title: "Status of the vault",
  };
  await owner.patch(`/api/v1/status-pages/${hidden.id}`, { access });
  const readFrom = (address: string) => read(visitor.with({ "x-forwarded-for": address }));
  await waitFor("the networks to be known", async () => (await readFrom("198.51.100.7")) === 200);
  for (const [address, wanted] of [
    ["2001:db8::7", 200],
    ["192.0.2.7", 401],
  ] as const)
    t.equal(await readFrom(address), wanted, address);
  t.equal(await read(bearer(keys.data.token)), 200, "and its reader tokens");
  t.equal(await read(reader), 200, "networks and title leave the password and its readers as they are");
  const form = await visitor.with(status).get("/status/incidents?updates=all");
  t.match(form.text, /<h1[^>]*>Status of the vault<\/h1>[^]*value="\/status\/incidents\?updates=all"/);
  // An id of another page is absent on this one.
  for (const path of [`components/${other.component}/history`, `incidents/${other.incident}`])
    t.equal((await reader.with(status).get(`/api/public/v1/${path}`)).status, 404, path);
  for (const page of [other, open])
    t.equal(
      (await visitor.with({ cookie: elsewhere }).get(`/status/${page.slug}/subscriptions/${hidden.token}`)).status,
      404,
    );
});

t.test("the form leads back, and ten wrong passwords a minute are the last ones that are judged", async (t) => {
  const from = visitor.with({ "x-forwarded-for": "203.0.113.9", "content-type": "application/x-www-form-urlencoded" });
  const send = (word: string, next = "/status/vault/incidents") =>
    from.send("POST", "/status/vault/access", { body: new URLSearchParams({ password: word, next }).toString() });
  for (const [next, location] of [
    ["/status/vault/incidents?updates=all", "/status/vault/incidents?updates=all"],
    ["//evil.example/", "/status/vault"],
    ["/status/vaults", "/status/vault"],
    ["/status/vault/\\evil", "/status/vault/\\evil"],
  ])
    matchObject(t, await send(changed, next), {
      status: 303,
      headers: { location, "set-cookie": [/HttpOnly; SameSite=Lax/] },
    });
  const wrong = await send("wrong words");
  matchObject(t, wrong, {
    status: 303,
    headers: { location: "/status/vault/incidents?problem=wrong", "set-cookie": undefined },
  });
  const form = await visitor.get(wrong.headers.location!);
  matchObject(t, form, { status: 401, text: /role="alert">The password is wrong/ });
  const tries = async () =>
    (await sql<{ count: number }[]>`select count from counters where key like 'page_password:%' and count > 0`)[0]
      ?.count;
  t.equal(await tries(), 1, "right passwords are not counted");
  // As after nine more.
  await sql`update counters set count = 10 where key like 'page_password:%'`;
  matchObject(t, await send(changed), { status: 303, headers: { location: /problem=limit/, "set-cookie": undefined } });
  const other = await visitor
    .with({ "x-forwarded-for": "203.0.113.10" })
    .post("/status/vault/access", { password: changed });
  t.equal(other.status, 204, "another visitor is not held up");
});

t.test(
  "/status and /llms.txt are those of the oldest public page, and a page that becomes private leaves at once",
  async (t) => {
    for (const path of ["/status", "/llms.txt", "/api/public/v1/status"])
      t.match((await visitor.get(path)).text, /mauritius/, path);
    const address = await logo(open);
    const kept = (await visitor.get(`/status/open`)).headers.etag!;
    matchObject(t, await visitor.get(address), { status: 200, headers: { "cache-control": /immutable/ } });
    const early = await readerToken(open);
    await sql`update subscribers set confirmed_at = now() where token = ${open.token}`;
    const changed = await owner.patch(`/api/v1/status-pages/${open.id}`, { access: { mode: "password", password } });
    t.equal(changed.body.subscribers_outside, 1);
    await waitFor("the page to be private", async () => {
      const { status } = await visitor.with({ "if-none-match": kept }).get("/status/open");
      return status === 401;
    });
    t.equal((await bearer(early.token).get("/status/open/api/public/v1/status")).status, 401, "its tokens have ended");
    t.equal((await visitor.get("/status")).status, 404, "no page is public");
    t.not(await logo(open), address, "its logo has a new address");
    t.equal((await visitor.get(address)).status, 404);
    t.equal((await visitor.get(await logo(open))).status, 401);
    t.equal((await visitor.get(`/api/public/v1/tls-ask?domain=open.${base}`)).status, 200, "and its certificate");
  },
);

/** Every reply of a public page as a text, without what differs at each request. */
async function snapshotOf(page: Planted, about: string): Promise<Record<string, string>> {
  await owner.patch(`/api/v1/status-pages/${page.id}`, { branding: { about } });
  await waitFor("the present page", async () => (await visitor.get(`/status/${page.slug}`)).text.includes(about));
  const [place] = placesOf(page);
  const all = requestsOf(page).filter(({ method, gated }) => gated && method === "GET");
  const texts: Record<string, string> = {};
  for (const { path } of all) {
    const { status, text } = await visitor.send("GET", place.at(path), {
      headers: { traceparent: `00-${"12".repeat(16)}-${"34".repeat(8)}-01` },
    });
    const times = /("generated_at":")[^"]+|(<lastBuildDate>)[^<]+|(datetime=")[^"]+|(\) at )\S+/g;
    texts[path] = `${status} ${text.replaceAll(about, "about").replaceAll(times, "$1$2$3$4")}`
      .replaceAll(/"time":"[^"]+"/g, "")
      .replaceAll(/\d\d:\d\d(?= UTC)|title="[^"]*UTC"/g, "");
  }
  return texts;
}

t.test("an incident that was not published leaves no trace at any address, and a withdrawn one none", async (t) => {
  const page = await planted("seychelles", "islands", { mode: "public" });
  await owner.patch(`/api/v1/status-pages/${page.id}`, { publish: { mode: "manual" } });
  await sql`delete from incident_updates where incident_id = ${page.incident}`;
  const began = new Date(Date.now() - 11_111_000);
  await sql`
    update incidents set target_id = (select target_id from incidents where id = ${hidden.incident}), ended_at = now(),
      outage_since = null where id = ${page.incident}`;
  const before = await snapshotOf(page, "about 1");
  // A monitor and a group with everything that visitors could see.
  await sql`
    update incidents set target_id = ${page.component}, started_at = ${began}, opened_at = ${began}, created_at = now(),
      ended_at = null, outage_since = ${began}, public_title = 'seychelles outage', peak_impact = 'major_outage'
    where id = ${page.incident}`;
  await sql`
    insert into incident_outages (incident_id, org_id, started_at, impact)
    values (${page.incident}, ${home.orgId}, ${began}, 'major_outage')`;
  await sql`
    insert into incident_updates (id, org_id, incident_id, phase, message, created_at)
    values (${newId()}, ${home.orgId}, ${page.incident}, 'identified', 'seychelles words', now())`;
  t.strictSame(await snapshotOf(page, "about 2"), before, "unpublished");
  const path = `/api/v1/incidents/${page.incident}`;
  const posted = await owner.post(`${path}/updates`, { phase: "identified", message: "seychelles more" });
  matchObject(t, posted, { status: 201, body: { published: false } });
  matchObject(t, await owner.post(`${path}/acknowledge`), { status: 200, body: { published: false } });
  t.strictSame(await snapshotOf(page, "about 3"), before, "neither an update nor an acknowledgement publishes");
  matchObject(t, await owner.post(`${path}/publish`), {
    status: 200,
    body: { published: true, visibility: "public", publications: [{ page_id: page.id, published_at: /T/ }] },
  });
  const shown = await snapshotOf(page, "about 4");
  const same = Object.keys(before).filter((one) => shown[one] === before[one]);
  t.strictSame(
    same.filter((one) => !/subscri|maintenance|custom\.css|api.status-page.islands$/.test(one)),
    [],
    "everything that has states or incidents differs",
  );
  const feed = await visitor.get("/status/islands/api/public/v1/incidents.rss");
  const date = /<pubDate>(.+)<\/pubDate>/.exec(feed.text)![1]!;
  t.ok(Date.now() - Date.parse(date) < 600_000, "the date in the feed is that of the publication");
  await owner.post(`${path}/unpublish`, { page_ids: [page.id] });
  t.strictSame(await snapshotOf(page, "about 5"), before, "withdrawn");
  matchObject(t, (await owner.get(path)).body, { published: false, publications: [{ published_at: null }] });
  matchObject(t, (await owner.get(`${path}/explain`)).body, { publications: [{ published_at: null }] });
  const responder = visitor.with({
    authorization: `Bearer ${await tokenOf(sql, olga, { scopes: ["incidents:read", "incidents:write"] })}`,
  });
  const namesFor = async (client: Client) =>
    (await Promise.all([client.post(`${path}/unpublish`), client.get(`${path}/explain`), client.get(path)])).map(
      ({ body }) => body.publications[0].page_name,
    );
  t.strictSame(await namesFor(responder), Array(3).fill("seychelles page"), "visitors know the name of a public page");
  await owner.patch(`/api/v1/status-pages/${page.id}`, { access: { mode: "password", password } });
  t.strictSame(await namesFor(responder), ["***", "***", "***"], "that of a private page needs status_page:read");
  t.strictSame(await namesFor(owner), Array(3).fill("seychelles page"));
  await owner.patch(`/api/v1/status-pages/${page.id}`, { access: { mode: "public" }, publish: { mode: "always" } });
  const still = JSON.stringify(await snapshotOf(page, "about 6"));
  t.notMatch(still, /seychelles (?:outage|words|more)/, "and it stays so where every incident is published");
});

t.test("a one-click unsubscription passes the gate and shows nothing", async (t) => {
  const done = await visitor
    .with({ accept: "text/html" })
    .post(`/status/vault/subscriptions/${hidden.token}/unsubscribe`);
  t.strictSame(leaksOf(done, done.headers.location ?? ""), []);
  t.strictSame([...(await sql`select 1 from subscribers where token = ${hidden.token}`)], []);
});

/** Every reading address of the hidden page refuses these visitors, each in turn at one of its hosts. */
async function requireRefusals(t: Test, visitors: Record<string, Client>): Promise<void> {
  const gated = [...requestsOf(hidden), { method: "GET", path: await logo(hidden), gated: true }].filter(
    (one) => one.gated && one.method === "GET",
  );
  const places = placesOf(hidden);
  for (const [turn, one] of gated.entries()) {
    const fitting = places.filter((it) => isAt(it, one.path));
    for (const [who, client] of Object.entries(visitors))
      await requireRefusal(t, who, client, one, fitting[turn % fitting.length]!);
  }
}

const own = { host: `vault.${base}` };
const custom = { host: hidden.domain };
const readsAt = async (at: { host: string }, client: Client): Promise<number> =>
  (await client.with(at).get("/api/public/v1/status")).status;
const setAccess = async (access: Json) => {
  const changed = await owner.patch(`/api/v1/status-pages/${hidden.id}`, { access });
  t.equal(changed.status, 200, changed.text);
};
const atConsole = (session: string): Client =>
  visitor.with({ host: publicHost, cookie: `_sm_session=${session}`, accept: "text/html" });
const pathOf = (address: string): string => {
  const { pathname, search } = new URL(address);
  return pathname + search;
};

/** Goes from a page's own host to the console's. */
async function leave(at: { host: string }, more = ""): Promise<{ browser: string; to: string }> {
  const bound = await visitor.with(at).get(`/status/enter?next=${encodeURIComponent("/status/incidents")}${more}`);
  const location = bound.headers.location ?? "";
  t.equal(new URL(location).origin, `http://${publicHost}`);
  t.match(bound.headers["set-cookie"]?.[0], /^_sm_enter=[\w-]{43}; Path=\/; HttpOnly; SameSite=Lax; Expires=/);
  return { browser: cookieOf(bound), to: pathOf(location) };
}
/** The way back with a code. */
const wayBack = ({ headers }: Answer): string => pathOf(/^0; url=(http:.*)$/.exec(headers["refresh"] as string)![1]!);
const comeBack = async (at: { host: string }, browser: string, back: string): Promise<Answer> =>
  await visitor.with({ ...at, cookie: browser }).get(back);

t.test("members come in at the page's own hosts, and are out at once when they leave or sign out", async (t) => {
  await setAccess({ mode: "members" });
  await waitFor("the password to end", async () => (await readsAt(own, reader)) === 401);
  const otto = await colleagueOf(sql, olga);
  const enterAs = async (session: string, at: { host: string }) => {
    const { browser, to } = await leave(at);
    const back = wayBack(await atConsole(session).get(to));
    return { browser, back, done: await comeBack(at, browser, back) };
  };
  const session = await sessionOf(sql, otto);
  t.equal((await atConsole(session).get("/status/vault")).status, 200, "at the console's host by its session");
  t.equal(await readsAt(own, atConsole(session)), 401, "whose cookie opens nothing at another host");
  const { browser, back, done } = await enterAs(session, custom);
  matchObject(t, done, { status: 302, headers: { location: "/status/incidents", "referrer-policy": "no-referrer" } });
  const member = visitor.with({ cookie: cookieOf(done) });
  t.equal(await readsAt(custom, member), 200);
  t.equal(await readsAt(own, member), 401, "the cookie is bound to its host");
  t.match((await comeBack(custom, browser, back)).headers.location, /problem=expired/, "a code counts once");
  const again = await visitor.with({ ...custom, cookie: `${browser}; ${cookieOf(done)}` }).get(back);
  t.equal(again.headers.location, "/status/incidents", "a reader who goes back stays in");
  const { browser: bound, to } = await leave(own);
  const code = wayBack(await atConsole(session).get(to));
  for (const [about, at, cookie] of [
    ["another browser", own, (await leave(own)).browser],
    ["no browser", own, ""],
    ["another host", custom, bound],
  ] as const)
    t.match((await comeBack(at, cookie, code)).headers.location, /problem=expired/, about);
  await sql`update page_readers set expires_at = now() where browser_hash is not null`;
  t.match((await comeBack(own, bound, code)).headers.location, /problem=expired/, "a code ends after a minute");
  const asOtto = atConsole(session);
  for (const [query, status, location] of [
    ["host=evil.example&browser=x", 404, undefined],
    [`host=open.${base}&browser=x`, 404, undefined],
    ["next=//evil.example/", 302, "/status/vault"],
    ["next=/status/vault/incidents", 302, "/status/vault/incidents"],
  ] as const) {
    const answer = await asOtto.get(`/status/vault/enter?${query}`);
    matchObject(t, answer, { status, headers: { location } }, query);
  }
  const toSignIn = await visitor.get("/status/vault/enter?next=/status/vault");
  t.equal(
    toSignIn.headers.location,
    `/sign-in?next=${encodeURIComponent("/status/vault/enter?next=%2Fstatus%2Fvault")}`,
  );
  const foreign = await leave(own);
  const refused = await atConsole(await sessionOf(sql, xenia)).get(foreign.to);
  t.equal(wayBack(refused), "/status/incidents?problem=denied");
  const form = await visitor.with(own).get("/status/incidents?problem=denied");
  t.match(form.text, /has no access to this page[^]*enter\?next=%2Fstatus%2Fincidents&amp;again=1/);
  const second = await sessionOf(sql, otto);
  const other = cookieOf((await enterAs(second, own)).done);
  t.equal(await readsAt(own, visitor.with({ cookie: other })), 200);
  const asSecond = atConsole(second).with({ "sec-fetch-site": "same-origin" });
  const signedOut = await asSecond.delete("/api/v1/sessions/current");
  t.equal(signedOut.status, 204);
  t.equal(await readsAt(own, visitor.with({ cookie: other })), 401, "after signing out");
  t.equal(await readsAt(custom, member), 200, "the other browser reads on");
  await sql`delete from memberships where user_id = ${otto.userId}`;
  await requireRefusals(t, {
    "a reader who signed out": visitor.with({ cookie: other }),
    "a former member": member,
    "a former member with a session": atConsole(session).with({ host: publicHost }),
    "an owner of another organisation": visitor.with({ cookie: `_sm_session=${await sessionOf(sql, xenia)}` }),
    "a reader by password": reader,
  });
});

t.test("a link by mail opens a page for the domains of its list", async (t) => {
  await setAccess({ mode: "email_domains", email_domains: ["ACME.example", "müller.example"] });
  await waitFor("the new form", async () => (await visitor.with(own).get("/status")).text.includes('type="email"'));
  const from = (n: number) => visitor.with({ ...own, "x-forwarded-for": `203.0.113.${n}` });
  const post = async (client: Client, path: string, fields: Record<string, string>) =>
    await client.send("POST", path, {
      headers: { "content-type": "application/x-www-form-urlencoded" },
      body: new URLSearchParams(fields).toString(),
    });
  const request = async (email: string, n: number) =>
    await post(from(n), "/status/access", { email, next: "/status/incidents" });
  // A slow machine also gets mails about a region without an agent.
  const links = () => mailbox.mails.filter(({ text }) => text.includes("Subject: Your link to the status page"));
  const received = () => links().map(({ to }) => to[0]);
  const sent = { status: 303, headers: { location: "/status/incidents?sent=1", "set-cookie": undefined } };
  const foreign = ["a@sub.acme.example", "a@acme.example.evil.example", "a@evilacme.example", "a@xn--mller.example"];
  for (const [n, email] of foreign.entries()) matchObject(t, await request(email, n), sent, email);
  for (const [n, email] of ["Ann+status@Acme.Example", "a@MÜLLER.example"].entries())
    matchObject(t, await request(email, 20 + n), sent, email);
  await waitFor("two mails", async () => links().length === 2);
  matchObject(
    t,
    received()
      .map((to) => to!.toLowerCase())
      .sort(),
    [/^a@/, "ann+status@acme.example"],
  );
  const words = links().find(({ to }) => to[0]!.startsWith("A"))!.text;
  t.match(words, `Subject: Your link to the status page at vault.${base}`);
  const link = new RegExp(`http://vault\\.${base}(/status/access/[\\w-]{43})`).exec(words)![1]!;
  t.notMatch(words, secrets, "the mail names nothing of the page");
  for (const _ of [1, 2]) {
    const page = await visitor.with(own).get(link);
    matchObject(t, page, { status: 200, headers: { "referrer-policy": "no-referrer", "set-cookie": undefined } });
    t.match(page.text, `<form method="post" action="${link}">`, "a scanner uses nothing up");
    t.strictSame(leaksOf(page, link), []);
  }
  const opened = await post(visitor.with(own), link, {});
  matchObject(t, opened, { status: 303, headers: { location: "/status" } });
  const ann = visitor.with({ cookie: cookieOf(opened) });
  t.equal(await readsAt(own, ann), 200);
  t.match((await post(visitor.with(own), link, {})).headers.location, /problem=expired/, "a link counts once");
  t.equal((await visitor.with(own).post(link)).status, 401);
  t.match((await visitor.with(own).get(link)).headers.location, /problem=expired/);
  const forged = cookieOf(opened).replace(/(=\d+\.)[\w-]+/, `$1${Buffer.from("evil.example").toString("base64url")}`);
  t.equal(await readsAt(own, visitor.with({ cookie: forged })), 401, "the domain is signed");
  for (const n of [30, 31, 32, 33, 34]) matchObject(t, await request(`ann+${n}@acme.example`, n), sent);
  matchObject(t, await request("not an address", 40), { headers: { location: /problem=input$/ } });
  // As after ten requests.
  await sql`update counters set count = 10 where key like 'page_links:%'`;
  matchObject(t, await request("b@acme.example", 20), { headers: { location: /problem=limit$/ } });
  await waitFor("the mails of one mailbox", async () => links().length >= 6);
  matchObject(t, await request("last@acme.example", 50), sent);
  await waitFor("the last mail", async () => received().includes("last@acme.example"));
  t.equal(received().filter((to) => to!.toLowerCase().startsWith("ann+")).length, 5, "five a day and mailbox");
  await setAccess({ mode: "email_domains", email_domains: ["müller.example"] });
  await waitFor("the domain to be off the list", async () => (await readsAt(own, ann)) === 401);
  const late = /access\/([\w-]{43})/.exec(links().at(-1)!.text)![1]!;
  t.match((await post(visitor.with(own), `/status/access/${late}`, {})).headers.location, /problem=expired/);
  await requireRefusals(t, {
    "a reader whose domain is off the list": ann,
    "a reader with a forged domain": visitor.with({ cookie: forged }),
    "a reader by password": reader,
  });
});

t.test("groups of the identity provider open a page without a seat, until they are gone", async (t) => {
  await setAccess({ mode: "groups", groups: ["customers"] });
  await waitFor("the new form", async () => (await visitor.with(own).get("/status")).text.includes("/enter?next"));
  const person = (...roles: string[]) => {
    idp.person = { sub: "kim", email: "kim@example.net", email_verified: true, realm_access: { roles } };
  };
  const cookiesOf = ({ headers }: Answer) => (headers["set-cookie"] ?? []).map((one) => one.split(";")[0]!);
  /** Signs in with the provider; returns the way back to the page, and the cookies of the console's host. */
  const signIn = async (to: string) => {
    const begun = await visitor.with({ accept: "text/html" }).get(to);
    let at = new URL(begun.headers.location!);
    const jar = new Map<string, string>();
    while (at.hostname === "127.0.0.1") {
      const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join("; ");
      const answer = await fetch(at, { redirect: "manual", headers: cookie === "" ? {} : { cookie } });
      for (const line of answer.headers.getSetCookie()) {
        const [, name, value] = /^([^=]+)=([^;]*)/.exec(line)!;
        jar.set(name!, value!);
      }
      at = new URL(answer.headers.get("location")!, at);
    }
    const called = await visitor.with({ cookie: cookiesOf(begun).join("; ") }).get(pathOf(at.href));
    const cookies = cookiesOf(called).filter((one) => one.startsWith("_sm_session_reader="));
    return { called, console: visitor.with({ accept: "text/html", cookie: cookies.join("; ") }) };
  };
  const enter = async (at: { host: string }, more = "") => {
    const { browser, to } = await leave(at, more);
    const { called, console } = await signIn(to);
    const answer = await console.get(called.headers.location!);
    return { browser, answer, console };
  };
  const seats = async () => (await sql`select count(*)::int as users from users`)[0];
  const before = await seats();
  person("staff");
  const denied = await enter(own);
  t.equal(wayBack(denied.answer), "/status/incidents?problem=denied");
  person("staff", "customers");
  const { browser, answer, console } = await enter(custom);
  const done = await comeBack(custom, browser, wayBack(answer));
  const kim = visitor.with({ cookie: cookieOf(done) });
  t.equal(await readsAt(custom, kim), 200);
  t.equal((await console.get("/status/vault")).status, 200, "at the console's host, too");
  t.strictSame(await seats(), before, "nobody became a user");
  const [ends] = await sql<{ soon: boolean }[]>`
    select max(expires_at) < now() + interval '12 hours 1 second' as soon from page_readers`;
  t.ok(ends!.soon, "for twelve hours at most");
  await setAccess({ mode: "groups", groups: ["partners"] });
  await waitFor("the group to be off the list", async () => (await readsAt(custom, kim)) === 401);
  await setAccess({ mode: "groups", groups: ["customers"] });
  await waitFor("the group to be back", async () => (await readsAt(custom, kim)) === 200);
  person("staff");
  await enter(own, "&again=1");
  t.equal(await readsAt(custom, kim), 401, "groups that are gone at the next sign-in end all access");
  person("customers");
  await enter(own, "&again=1");
  t.equal(await readsAt(custom, kim), 200);
  await sql`update reader_sessions set expires_at = now()`;
  idp.refuses = true;
  const refused = await enter(own);
  t.equal(wayBack(refused.answer), "/status/incidents?problem=provider");
  await requireRefusals(t, {
    "a person whose groups are to be read again": kim,
    "that person at the console's host": console,
    "a member": atConsole(await sessionOf(sql, olga)),
  });
});

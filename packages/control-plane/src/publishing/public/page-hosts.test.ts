import { createSocket } from "node:dgram";
import { once } from "node:events";
import { get, type IncomingHttpHeaders, request } from "node:http";
import type { AddressInfo } from "node:net";
import { decode, encode, type Packet } from "dns-packet";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { newId } from "@statusmesh/shared/ids";
import { recheckDomains } from "../status-pages/domains/service.ts";
import { addIncident, newTarget } from "../../testing/scene.ts";
import { serveWhole, signedIn } from "../../testing/whole-app.ts";
import { day, until } from "../../testing/clock.ts";
import { newOrg, openWorld } from "../../testing/world.ts";

/** TXT records by name. A name that is not there is answered with NXDOMAIN. */
const records = new Map<string, string>();
const names = createSocket("udp4");
names.on("message", (message, { port, address }) => {
  const { id, questions } = decode(message) as Packet & { id: number };
  const name = questions?.[0]?.name ?? "";
  const data = records.get(name.toLowerCase());
  const answers =
    data === undefined ? [] : [{ type: "TXT" as const, name, ttl: 1, data: [data.slice(0, 9), data.slice(9)] }];
  names.send(
    encode({ type: "response", id, questions: questions ?? [], answers, flags: data === undefined ? 3 : 0 }),
    port,
    address,
  );
});
names.bind(0, "127.0.0.1");
await once(names, "listening");
t.teardown(() => names.close());

const world = await openWorld(t, {
  env: {
    SM_TENANCY__SUBDOMAIN_PUBLIC_ROUTES: "true",
    SM_PUBLIC_STATUS__BASE_DOMAIN: "status.example.org",
    SM_SERVER__PUBLIC_URL: "https://watch.example.org:8443",
    SM_PUBLIC_STATUS__DNS_RESOLVER: `127.0.0.1:${(names.address() as AddressInfo).port}`,
    SM_PUBLIC_STATUS__PUBLIC_PER_IP_RATE_LIMIT_PER_MIN: "0",
    SM_API__CORS__ENABLED: "true",
    SM_API__CORS__ALLOWED_ORIGINS: "https://one.example.org,https://two.example.org",
  },
});
const { sql, clock, system } = world;
const [acme, globex] = [await newOrg(system), await newOrg(system)];
const app = await serveWhole(t, world);

async function publish(ctx: typeof acme, slug: string, enabled = true): Promise<void> {
  const id = newId();
  const now = new Date(clock.at);
  const branding = {
    display_name: null,
    about: null,
    brand_color: null,
    style: "auto",
    show_powered_by: true,
    website_url: null,
    hide_from_search: false,
  };
  await sql`
    insert into status_pages (id, org_id, slug, name, enabled, branding, created_at, updated_at)
    values (${id}, ${ctx.orgId}, ${slug}, ${`Status of ${slug}`}, ${enabled}, ${sql.json(branding)}, ${now}, ${now})`;
  await sql`
    insert into status_page_components (page_id, target_id, org_id, sort_order)
    values (${id}, ${await newTarget(ctx, `Shop of ${slug}`)}, ${ctx.orgId}, 0)`;
}
await publish(acme, "acme");
await publish(globex, "globex");
await publish(globex, "draft", false);

/** Asks with a Host header, which fetch does not let one write. */
const at = (
  host: string,
  path: string,
  headers: Record<string, string> = {},
  origin = app.origin,
): Promise<{ status: number; text: string }> =>
  new Promise((settle, fail) => {
    get(`${origin}${path}`, { headers: { ...headers, host } }, (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
      response.on("end", () => settle({ status: response.statusCode ?? 0, text }));
    }).on("error", fail);
  });

t.test("each page is served at its own host", async (t) => {
  for (const host of ["acme.status.example.org", "ACME.status.example.org:8443"])
    for (const path of ["/", "/status", "/status?fragment=1"]) {
      const page = await at(host, path);
      matchObject(t, page, { status: 200, text: /Shop of acme/ }, host + path);
      t.notMatch(page.text, /globex/);
    }
  matchObject(t, await at("globex.status.example.org", "/"), { status: 200, text: /Shop of globex/ });
  matchObject(t, JSON.parse((await at("globex.status.example.org", "/api/public/v1/status")).text), {
    page: { name: "Status of globex" },
    groups: [{ components: [{ name: "Shop of globex" }] }],
  });
  matchObject(
    t,
    JSON.parse((await at("watch.example.org", "/api/public/v1/status")).text),
    { page: { name: "Status of acme" } },
    "the path still serves the first organisation's",
  );
});

t.test("a host without a published page is 404", async (t) => {
  const none = await at("nobody.status.example.org", "/");
  matchObject(t, none, { status: 404, text: /No status page is published at this address/ });
  for (const host of ["draft.status.example.org", "a.acme.status.example.org", "status.example.org"]) {
    t.strictSame(await at(host, "/"), none, `${host}: the same page`);
    matchObject(t, await at(host, "/api/public/v1/status"), { status: 404, text: /STATUS_PAGE_NOT_FOUND/ }, host);
  }
  await sql`update orgs set deleted_at = now() where id = ${globex.orgId}`;
  clock.advance(11_000);
  t.equal((await at("globex.status.example.org", "/status")).status, 404, "a deleted organisation shows nothing");
  await sql`update orgs set deleted_at = null where id = ${globex.orgId}`;
});

t.test("a slug that reads like a value of a program is a slug", async (t) => {
  const none = await at("nobody.status.example.org", "/");
  const unserved = ["status.example.org", "a.b.status.example.org"];
  for (const slug of ["null", "undefined", "true", "false", "0", "404", "none", "path", "id", "status"]) {
    await publish(acme, slug);
    const own = async () =>
      matchObject(
        t,
        await at(`${slug}.status.example.org`, "/"),
        { status: 200, text: new RegExp(`Shop of ${slug}<`) },
        slug,
      );
    const others = async () => {
      for (const host of [...unserved, `a.${slug}.status.example.org`])
        for (const path of ["/", "/llms.txt", "/api/public/v1/status"])
          t.equal((await at(host, path)).status, 404, `${host}${path} after ${slug}`);
    };
    clock.advance(11_000);
    await own();
    await others();
    clock.advance(11_000);
    await others();
    await own();
    t.strictSame(await at("status.example.org", "/"), none);
    await sql`delete from status_pages where slug = ${slug}`;
  }
});

t.test("a change of a page is served at once by every replica", async (t) => {
  const other = await serveWhole(t, world, { ...system, sql: world.pool() });
  const host = "fresh.status.example.org";
  const cookie = await signedIn(globex);
  /** Waits for a status on both replicas. The clock stands still, so that no copy expires. */
  const becomes = async (path: string, status: number, words = /./) => {
    for (const { origin } of [app, other])
      await until(async () => {
        const reply = await at(host, path, {}, origin);
        return reply.status === status && words.test(reply.text);
      }, `${path} to be ${status} with ${words} at ${origin}`);
  };
  for (const replica of [app, other]) t.equal((await at(host, "/", {}, replica.origin)).status, 404);
  const { body: page } = await app("POST", "/api/v1/status-pages", { slug: "fresh", name: "Fresh" }, cookie);
  for (const path of ["/", "/status/subscribe", "/api/public/v1/status"]) await becomes(path, 200, /Fresh/);
  const change = async (method: string, path: string, body?: unknown) =>
    t.ok((await app(method, `/api/v1/status-pages/${page.id}${path}`, body, cookie)).status < 300, `${method} ${path}`);

  const target = await newTarget(globex, "Quick shop");
  await change("POST", "/components", { target_id: target });
  await becomes("/", 200, /Quick shop/);
  await change("PATCH", `/components/${target}`, { public_name: "Slow shop" });
  await becomes("/", 200, /Slow shop/);
  await change("PATCH", "", { name: "Renamed" });
  await becomes("/api/public/v1/status", 200, /Renamed/);
  await change("PATCH", "", { enabled: false });
  for (const path of ["/", "/api/public/v1/status"]) await becomes(path, 404);
  await change("PATCH", "", { enabled: true });
  await becomes("/", 200);
  const org = `/api/v1/orgs/${globex.orgId}`;
  t.equal((await app("DELETE", org, undefined, cookie)).status, 204);
  await becomes("/", 404);
  t.equal((await app("POST", `${org}/restore`, undefined, cookie)).status, 200);
  await becomes("/", 200);
  await change("DELETE", "");
  await becomes("/", 404);
});

t.test("a forged Host or X-Forwarded-Host leads to no other page", async (t) => {
  for (const forwarded of ["x-forwarded-host", "forwarded", "x-host", "x-original-url"])
    matchObject(
      t,
      await at("acme.status.example.org", "/status", { [forwarded]: "globex.status.example.org" }),
      { status: 200, text: /Shop of acme/ },
      forwarded,
    );
  for (const host of ["acme.status.example.org:443", "acme.status.example.org:0"])
    matchObject(t, await at(host, "/status"), { status: 200, text: /Shop of acme/ }, host);
  for (const host of [
    "acme.status.example.org.evil.test",
    "evil.test/acme.status.example.org",
    "acme",
    "-",
    "%00.test",
  ]) {
    const page = await at(host, "/status");
    t.notMatch(page.text, /evil\.test|globex/, `${host} is not repeated`);
  }
  matchObject(
    t,
    await at("acme.status.example.org", "/status"),
    { status: 200, text: /Shop of acme/ },
    "nothing of it is stored",
  );
});

t.test("the host of a page serves no path of the console", async (t) => {
  const cookie = await signedIn(acme);
  for (const path of [
    "/monitors",
    "/settings",
    "/sign-in",
    "/docs",
    "/api/v1/targets",
    "/api/openapi.json",
    "/api/config.schema.json",
    "/operator/regions",
    "/statusfoo",
  ]) {
    matchObject(t, await at("acme.status.example.org", path, cookie), { status: 404 }, path);
  }
  t.equal((await at("watch.example.org", "/monitors", cookie)).status, 200);
  t.equal((await at("acme.status.example.org", "/healthz")).status, 200);
  for (const host of ["status.example.org", "a.acme.status.example.org", "acme.status.example.org."])
    t.equal((await at(host, "/monitors", cookie)).status, 404, `${host} has no console`);
  for (const host of ["evilstatus.example.org", "127.0.0.1", "unknown.test"])
    t.equal((await at(host, "/monitors", cookie)).status, 200, `${host} is no page's host`);
});

t.test("status_url is the address of the page", async (t) => {
  const pages = async (ctx: typeof acme) =>
    (await app("GET", "/api/v1/status-pages", undefined, await signedIn(ctx))).body.items.map(
      (page: { status_url: string | null }) => page.status_url,
    );
  t.strictSame(await pages(acme), ["https://acme.status.example.org:8443"]);
  t.strictSame(await pages(globex), ["https://globex.status.example.org:8443", null]);
});

/** Status, headers and body of a reply on the host of acme's page, without what belongs to one request. */
const replyOf = (method: string, path: string, headers: Record<string, string>) =>
  new Promise<{ status: number; headers: IncomingHttpHeaders; bytes: string }>((settle, fail) => {
    const sent = request(
      `${app.origin}${path}`,
      { method, headers: { ...headers, host: "acme.status.example.org" } },
      (response) => {
        const chunks: Buffer[] = [];
        response.on("data", (chunk: Buffer) => chunks.push(chunk));
        response.on("end", () => {
          const { date: _date, "x-request-id": trace, ...rest } = response.headers;
          settle({
            status: response.statusCode ?? 0,
            headers: { ...rest, ...(trace === undefined ? { "x-request-id": "missing" } : {}) },
            bytes: Buffer.concat(chunks).toString("base64"),
          });
        });
      },
    );
    sent.on("error", fail).end();
  });

t.test("a stored reply is the reply of the routes, with all its headers", async (t) => {
  const [component] = JSON.parse((await at("acme.status.example.org", "/api/public/v1/status")).text).groups[0]
    .components;
  const old = await addIncident(acme, component.id, { started: clock.at - 80 * day, ended: clock.at - 79 * day });
  const paths = [
    "/",
    "/status",
    "/status?fragment=1",
    `/status/incidents/${old}`,
    "/llms.txt",
    ...["status", "incidents", "incidents.rss", `incidents/${old}`, "maintenance", "badge.svg"].map(
      (name) => `/api/public/v1/${name}`,
    ),
    `/api/public/v1/components/${component.id}/history?days=7`,
  ];
  const stranger = { origin: "https://one.example.org" };
  for (const path of paths) {
    for (const asked of [{}, { "accept-encoding": "br, gzip", origin: "https://two.example.org" }]) {
      // The first reply of a computation comes from the routes, the third from the store.
      clock.advance(11_000);
      const made = await replyOf("GET", path, asked);
      t.equal(made.status, 200, path);
      await replyOf("GET", path, { ...asked, ...stranger });
      const stored = await replyOf("GET", path, asked);
      t.strictSame(stored, made, path);
      t.strictSame(await replyOf("HEAD", path, asked), { ...made, bytes: "" }, path);
      const conditional = { ...asked, "if-none-match": made.headers.etag! };
      const unchanged = await replyOf("GET", path, conditional);
      matchObject(t, unchanged, { status: 304, bytes: "" }, path);
      clock.advance(11_000);
      const computed = await replyOf("GET", path, conditional);
      // A reply without the time of its computation is the same after the next one.
      if (computed.status === 304) t.strictSame(unchanged, computed, path);
    }
  }

  const incident = `/status/incidents/${old}`;
  t.equal((await replyOf("GET", incident, {})).status, 200);
  await sql`delete from incidents where id = ${old}`;
  t.equal((await replyOf("GET", incident, {})).status, 200, "stored until the page is computed again");
  clock.advance(11_000);
  t.equal((await replyOf("GET", incident, {})).status, 404);
});

t.test("a custom domain serves its page once a TXT record proves it", async (t) => {
  const api = async (ctx: typeof acme, method: string, path: string, body?: unknown) =>
    await app(method, `/api/v1/status-pages${path}`, body, await signedIn(ctx));
  const idOf = async (ctx: typeof acme, slug: string) =>
    (await api(ctx, "GET", "")).body.items.find((page: { slug: string }) => page.slug === slug).id as string;
  const [own, other] = [await idOf(acme, "acme"), await idOf(globex, "globex")];
  matchObject(t, await api(acme, "POST", `/${own}/custom-domain/check`), {
    status: 200,
    body: { custom_domain: null },
  });
  for (const domain of ["acme", "10.0.0.1", "a b.test", "*.acme.test", "https://acme.test", "watch.example.org"])
    matchObject(
      t,
      await api(acme, "PATCH", `/${own}`, { custom_domain: domain }),
      { status: 400, body: { error: { code: "INVALID_CUSTOM_DOMAIN", field: "/custom_domain" } } },
      domain,
    );
  for (const domain of ["status.example.org", "x.status.example.org"])
    t.equal((await api(acme, "PATCH", `/${own}`, { custom_domain: domain })).status, 400, "a host of this service");

  const set = await api(acme, "PATCH", `/${own}`, { custom_domain: "Status.Acme.test." });
  const { record } = set.body.custom_domain_proof;
  matchObject(t, set.body, {
    custom_domain: "status.acme.test",
    status_url: "https://acme.status.example.org:8443",
    custom_domain_proof: {
      verified: false,
      checked_at: null,
      record: { type: "TXT", name: "_statusmesh.status.acme.test", value: /^statusmesh-verify=[\w-]{43}$/ },
    },
  });
  const served = () => at("status.acme.test", "/status");
  const cookie = await signedIn(acme);
  t.equal((await at("status.acme.test", "/monitors", cookie)).status, 200, "an unknown host before it is proved");
  const check = async (ctx = acme, id = own) => (await api(ctx, "POST", `/${id}/custom-domain/check`)).body;
  matchObject(t, await check(), { custom_domain_proof: { verified: false, error: /^There is no TXT record at/ } });
  records.set(record.name, "statusmesh-verify=of-somebody-else");
  matchObject(t, await check(), { custom_domain_proof: { verified: false, error: /has another value/ } });
  records.set(record.name, record.value);
  matchObject(t, await check(), {
    status_url: "https://status.acme.test:8443",
    custom_domain_proof: { verified: true, error: null },
  });
  clock.advance(11_000);
  for (const path of ["/", "/status"])
    matchObject(t, await at("status.acme.test:8443", path), { status: 200, text: /Shop of acme/ });
  t.match(
    (await at("status.acme.test", "/api/public/v1/incidents.rss")).text,
    "<link>https://status.acme.test:8443/status</link>",
  );
  t.equal((await at("status.acme.test", "/monitors", await signedIn(acme))).status, 404);
  t.not((await at("www.status.acme.test", "/monitors", await signedIn(acme))).status, 404, "only that name");

  matchObject(t, await api(globex, "PATCH", `/${other}`, { custom_domain: "status.acme.test" }), {
    status: 409,
    body: { error: { code: "CUSTOM_DOMAIN_TAKEN" } },
  });
  await api(globex, "PATCH", `/${other}`, { custom_domain: "status.globex.test" });
  await sql`update status_page_domains set domain = 'status.acme.test', token = 'b' where page_id = ${other}`;
  records.set(record.name, "statusmesh-verify=b");
  matchObject(
    t,
    await check(globex, other),
    { custom_domain_proof: { verified: false, error: "The domain belongs to another status page." } },
    "named before it was proved by the other",
  );

  await recheckDomains(system);
  matchObject(
    t,
    await check(),
    { custom_domain_proof: { verified: true, error: /another value/ } },
    "a record may be away",
  );
  clock.advance(73 * 3_600_000);
  t.equal(await recheckDomains(system), true);
  matchObject(t, (await api(acme, "GET", `/${own}`)).body.custom_domain_proof, { verified: false });
  matchObject(t, await check(globex, other), { custom_domain_proof: { verified: true } });
  clock.advance(11_000);
  t.match((await served()).text, /Shop of globex/);
  const ask = async (domain: string) =>
    (await at("watch.example.org", `/api/public/v1/tls-ask?domain=${encodeURIComponent(domain)}`)).status;
  for (const domain of ["acme.status.example.org", "ACME.Status.Example.org.", "status.acme.test"])
    t.equal(await ask(domain), 200, `a certificate for ${domain}`);
  const without = ["draft.status.example.org", "nobody.status.example.org", "a.acme.status.example.org"];
  for (const domain of [
    ...without,
    "status.example.org",
    "watch.example.org",
    "status.globex.test",
    "acme",
    "10.0.0.1",
  ])
    t.equal(await ask(domain), 404, `no certificate for ${domain}`);
  t.equal((await at("watch.example.org", "/api/public/v1/tls-ask")).status, 404, "a request without a domain");

  await api(globex, "PATCH", `/${other}`, { enabled: false });
  clock.advance(11_000);
  t.equal(await ask("status.acme.test"), 404, "no certificate for a draft");
  matchObject(t, await served(), { status: 404, text: /No status page is published/ }, "a draft has no page");
  matchObject(t, await api(globex, "PATCH", `/${other}`, { custom_domain: null }), {
    body: { custom_domain_proof: null },
  });
});

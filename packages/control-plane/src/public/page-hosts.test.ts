import { get } from "node:http";
import t from "tap";
import { newId } from "@statusmesh/shared/ids";
import { newTarget } from "../testing/scene.ts";
import { serveWhole, signedIn } from "../testing/whole-app.ts";
import { newOrg, openWorld } from "../testing/world.ts";

const world = await openWorld(t, {
  env: {
    SM_TENANCY__SUBDOMAIN_PUBLIC_ROUTES: "true",
    SM_PUBLIC_STATUS__BASE_DOMAIN: "status.example.org",
    SM_SERVER__PUBLIC_URL: "https://watch.example.org:8443",
  },
});
const { sql, clock, system } = world;
const [acme, globex] = [await newOrg(system), await newOrg(system)];
const app = await serveWhole(t, world);

async function publish(ctx: typeof acme, slug: string, enabled = true): Promise<void> {
  const id = newId();
  const now = new Date(clock.at);
  await sql`insert into status_pages (id, org_id, slug, name, enabled, branding, created_at, updated_at) values (${id}, ${ctx.orgId}, ${slug}, ${`Status of ${slug}`}, ${enabled},
    ${sql.json({ display_name: null, about: null, brand_color: null, style: "auto", show_powered_by: true, website_url: null, hide_from_search: false })}, ${now}, ${now})`;
  await sql`insert into status_page_components (page_id, target_id, org_id, sort_order) values (${id}, ${await newTarget(ctx, `Shop of ${slug}`)}, ${ctx.orgId}, 0)`;
}
await publish(acme, "acme");
await publish(globex, "globex");
await publish(globex, "draft", false);

/** Asks with a Host header, which fetch does not let one write. */
const at = (
  host: string,
  path: string,
  headers: Record<string, string> = {},
): Promise<{ status: number; text: string }> =>
  new Promise((settle, fail) => {
    get(`${app.origin}${path}`, { headers: { ...headers, host } }, (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
      response.on("end", () => settle({ status: response.statusCode ?? 0, text }));
    }).on("error", fail);
  });

t.test("each page has a host of its own", async (t) => {
  for (const host of ["acme.status.example.org", "ACME.status.example.org:8443"])
    for (const path of ["/", "/status", "/status?fragment=1"]) {
      const page = await at(host, path);
      t.match(page, { status: 200, text: /Shop of acme/ }, host + path);
      t.notMatch(page.text, /globex/);
    }
  t.match(await at("globex.status.example.org", "/"), { status: 200, text: /Shop of globex/ });
  t.match(JSON.parse((await at("globex.status.example.org", "/api/public/v1/status")).text), {
    page: { name: "Status of globex" },
    groups: [{ components: [{ name: "Shop of globex" }] }],
  });
  t.match(
    JSON.parse((await at("watch.example.org", "/api/public/v1/status")).text),
    { page: { name: "Status of acme" } },
    "the path still serves the first organisation's",
  );
});

t.test("a host without a published page has nothing", async (t) => {
  for (const host of ["draft.status.example.org", "nobody.status.example.org"]) {
    t.match(await at(host, "/"), { status: 404, text: /No status page is published at this address/ }, host);
    t.match(await at(host, "/api/public/v1/status"), { status: 404, text: /STATUS_PAGE_NOT_FOUND/ }, host);
  }
  await sql`update orgs set deleted_at = now() where id = ${globex.orgId}`;
  clock.advance(11_000);
  t.equal((await at("globex.status.example.org", "/status")).status, 404, "a deleted organisation shows nothing");
  await sql`update orgs set deleted_at = null where id = ${globex.orgId}`;
});

t.test("a page's host has nothing of the console", async (t) => {
  const cookie = await signedIn(acme);
  for (const path of [
    "/monitors",
    "/settings",
    "/sign-in",
    "/docs",
    "/api/v1/targets",
    "/api/openapi.json",
    "/operator/regions",
    "/statusfoo",
  ]) {
    t.match(await at("acme.status.example.org", path, cookie), { status: 404 }, path);
  }
  t.equal((await at("watch.example.org", "/monitors", cookie)).status, 200);
  t.equal((await at("acme.status.example.org", "/healthz")).status, 200);
  for (const host of ["status.example.org", "a.acme.status.example.org", "evilstatus.example.org"])
    t.not((await at(host, "/monitors", cookie)).status, 404, `${host} is no page's host`);
});

t.test("the API says where a page is", async (t) => {
  const pages = async (ctx: typeof acme) =>
    (await app("GET", "/api/v1/status-pages", undefined, await signedIn(ctx))).body.items.map(
      (page: { status_url: string | null }) => page.status_url,
    );
  t.strictSame(await pages(acme), ["https://acme.status.example.org:8443"]);
  t.strictSame(await pages(globex), ["https://globex.status.example.org:8443", null]);
});

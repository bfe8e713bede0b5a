import { crc32, deflateSync } from "node:zlib";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { newId } from "@statusmesh/shared/ids";
import type { Ctx } from "../../platform/context.ts";
import { type Answer, serve } from "../../testing/app.ts";
import { noon, until } from "../../testing/clock.ts";
import { createTargets } from "../../monitoring/targets/write/create.ts";
import { newTarget } from "../../testing/scene.ts";
import { asking, serveWhole, signedIn } from "../../testing/whole-app.ts";
import { newOrg, openWorld } from "../../testing/world.ts";
import { hashPassword, withPlace } from "../../access/auth/passwords/service.ts";
import { pagesWithPasswords } from "./access/access.ts";
import { statusPageRoutes } from "./api.ts";

const world = await openWorld(t);
const { sql, clock, system } = world;
// The oldest organisation is the one whose page /status serves.
const ctx = await newOrg(system);
clock.at = noon + 1000;
const stranger = await newOrg(system);
let caller: Ctx = ctx;
const ask = await serve(t, system, statusPageRoutes, { tenant: () => caller });
const pages = "/api/v1/status-pages";
/** Where the error points to: in `field` for a 400, in the details otherwise. */
const refused = (status: number, code: string, pointer: string | null = null) => ({
  status,
  body: {
    error: {
      code,
      field: status === 400 ? pointer : null,
      ...(status === 400 || pointer === null ? {} : { details: { pointer } }),
    },
  },
});
let slugs = 0;
const newSlug = () => `page-${++slugs}`;
const makePage = async (fields: object = {}) =>
  (await ask("POST", pages, { slug: newSlug(), name: "Acme", ...fields })).body;

t.beforeEach(async () => {
  caller = ctx;
  clock.at += 1000;
  await sql`truncate status_pages cascade`;
});

t.test("a page is created, read, updated and deleted", async (t) => {
  const made = await ask("POST", pages, { slug: "acme", name: "Acme status" });
  t.equal(made.status, 201);
  t.equal(made.headers.get("location"), `${pages}/${made.body.id}`);
  const at = new Date(clock.at).toISOString();
  const blank = {
    display_name: null,
    about: null,
    brand_color: null,
    style: "auto",
    show_powered_by: true,
    website_url: null,
    hide_from_search: false,
    timezone: "UTC",
    language: "en",
    languages: null,
  };
  t.strictSame(made.body, {
    access: {
      mode: "public",
      email_domains: [],
      groups: [],
      open_networks: [],
      keep_subscribers: false,
      title: null,
    },
    publish: { mode: "always", after_minutes: null },
    id: made.body.id,
    slug: "acme",
    name: "Acme status",
    enabled: true,
    subscriptions_enabled: true,
    embed_origins: [],
    custom_css: null,
    branding: blank,
    status_url: "https://status.example.org/status",
    logo_url: null,
    logo_dark_url: null,
    custom_domain: null,
    custom_domain_proof: null,
    managed_by: null,
    created_at: at,
    updated_at: at,
  });
  t.strictSame((await ask("GET", `${pages}/${made.body.id}`)).body, made.body);

  clock.at += 1000;
  const branding = {
    display_name: "Acme",
    about: "**Hello**",
    brand_color: "#12aBef",
    style: "dark",
    show_powered_by: false,
    website_url: "https://acme.test/x?y#z",
    hide_from_search: true,
    timezone: "Europe/Berlin",
    language: "de",
    languages: null,
  };
  const changed = await ask("PATCH", `${pages}/${made.body.id}`, { slug: "acme-2", branding });
  matchObject(t, changed, {
    status: 200,
    body: {
      slug: "acme-2",
      name: "Acme status",
      branding,
      created_at: at,
      updated_at: new Date(clock.at).toISOString(),
    },
  });
  t.strictSame(
    (await ask("PATCH", `${pages}/${made.body.id}`, { branding: { about: "Hi" } })).body.branding,
    { ...blank, about: "Hi" },
    "branding is replaced as a whole",
  );
  matchObject(
    t,
    (await ask("PATCH", `${pages}/${made.body.id}`, { enabled: false })).body,
    { enabled: false, status_url: null, branding: { about: "Hi" } },
    "and stays when it is not sent",
  );
  matchObject(
    t,
    await ask("POST", pages, { slug: "acme", name: "Other" }),
    { status: 201 },
    "the old slug is free at once",
  );

  t.equal((await ask("DELETE", `${pages}/${made.body.id}`)).status, 204);
  matchObject(t, await ask("GET", `${pages}/${made.body.id}`), refused(404, "STATUS_PAGE_NOT_FOUND"));
});

t.test("a slug has 1 to 60 characters and may start with a digit", async (t) => {
  for (const slug of ["7", "3com", "a-1", "z".repeat(60)])
    matchObject(t, await ask("POST", pages, { slug, name: "Acme" }), { status: 201, body: { slug } }, slug);
});

t.test("invalid fields are refused with their pointer", async (t) => {
  const id = (await makePage()).id;
  const cases: [object, number, string, string][] = [
    ...["", "a".repeat(61), "Abc", "a_b", "-abc", "abc-", "a b"].map((slug): [object, number, string, string] => [
      { slug },
      400,
      "INVALID_SLUG",
      "/slug",
    ]),
    [{ name: "  " }, 400, "EMPTY_NAME", "/name"],
    ...["x".repeat(81), "x".repeat(10_000), "\u202e".repeat(10_000), "🔥".repeat(10_000)].map(
      (name): [object, number, string, string] => [{ name }, 400, "INVALID_BODY", "/name"],
    ),
    [{ branding: { display_name: "x".repeat(10_000) } }, 400, "INVALID_BODY", "/branding/display_name"],
    [{ branding: { brand_color: "red" } }, 400, "INVALID_BODY", "/branding/brand_color"],
    [{ branding: { timezone: "Mars/Olympus" } }, 400, "INVALID_TIME_ZONE", "/branding/timezone"],
    [{ branding: { timezone: "+01:00" } }, 400, "INVALID_TIME_ZONE", "/branding/timezone"],
    [{ branding: { language: "tlh" } }, 400, "INVALID_BODY", "/branding/language"],
    [{ branding: { language: "auto" } }, 400, "INVALID_BODY", "/branding/languages"],
    [{ branding: { languages: ["en", "de"] } }, 400, "INVALID_BODY", "/branding/languages"],
    [{ branding: { language: "auto", languages: ["en", "en"] } }, 400, "INVALID_BODY", "/branding/languages"],
    [{ publish: { mode: "after", after_minutes: 0 } }, 400, "INVALID_BODY", "/publish/after_minutes"],
    [{ publish: { mode: "after", after_minutes: 1441 } }, 400, "INVALID_BODY", "/publish/after_minutes"],
    [{ branding: { about: "x".repeat(501) } }, 400, "INVALID_BODY", "/branding/about"],
    [{ branding: { style: "neon" } }, 400, "INVALID_BODY", "/branding/style"],
    [{ branding: { website_url: "javascript:alert(1)" } }, 400, "INVALID_BODY", "/branding/website_url"],
    [{ branding: { website_url: "https://%zz" } }, 400, "INVALID_BODY", "/branding/website_url"],
    [{ branding: { website_url: "https:///acme.example" } }, 400, "INVALID_BODY", "/branding/website_url"],
    [{ branding: { website_url: "https://acme.example/a\\b" } }, 400, "INVALID_BODY", "/branding/website_url"],
    [{ branding: { website_url: "https://ac\u200bme.example/" } }, 400, "INVALID_BODY", "/branding/website_url"],
    [{ branding: { logo: "x" } }, 400, "UNKNOWN_FIELD", "/branding/logo"],
    [{ published: true }, 400, "UNKNOWN_FIELD", "/published"],
  ];
  for (const [fields, status, code, field] of cases) {
    matchObject(
      t,
      await ask("POST", pages, { slug: newSlug(), name: "Acme", ...fields }),
      refused(status, code, field),
      `POST ${JSON.stringify(fields).slice(0, 60)}`,
    );
    matchObject(
      t,
      await ask("PATCH", `${pages}/${id}`, fields),
      refused(status, code, field),
      `PATCH ${JSON.stringify(fields).slice(0, 60)}`,
    );
  }
  matchObject(t, await ask("POST", pages, { name: "Acme" }), refused(400, "INVALID_SLUG", "/slug"));
});

t.test("members read, owners write, other organisations get 404", async (t) => {
  const page = await makePage();
  const target = await newTarget(ctx);
  await ask("POST", `${pages}/${page.id}/components`, { target_id: target });
  const changes: [string, string, object?][] = [
    ["POST", pages, { slug: "other", name: "Other" }],
    ["PATCH", `${pages}/${page.id}`, { name: "Mine" }],
    ["DELETE", `${pages}/${page.id}`],
    ["POST", `${pages}/${page.id}/components`, { target_id: newId() }],
    ["PATCH", `${pages}/${page.id}/components/${target}`, { public_name: "X" }],
    ["POST", `${pages}/${page.id}/components/reorder`, { target_ids: [target] }],
    ["DELETE", `${pages}/${page.id}/components/${target}`],
  ];
  const reads = [pages, `${pages}/${page.id}`, `${pages}/${page.id}/components`];

  caller = { ...ctx, role: "member" };
  for (const path of reads) t.equal((await ask("GET", path)).status, 200, path);
  for (const change of changes)
    matchObject(t, await ask(...change), refused(403, "OWNER_REQUIRED"), change.slice(0, 2).join(" "));
  caller = { ...ctx, scopes: new Set(["status_page:read"]) };
  for (const change of changes)
    matchObject(t, await ask(...change), refused(403, "INSUFFICIENT_SCOPE"), change.slice(0, 2).join(" "));
  caller = { ...ctx, scopes: new Set(["status_page:write"]) };
  for (const path of reads) matchObject(t, await ask("GET", path), refused(403, "INSUFFICIENT_SCOPE"), path);
  caller = stranger;
  for (const path of reads.slice(1))
    matchObject(t, await ask("GET", path), refused(404, "STATUS_PAGE_NOT_FOUND"), path);
  for (const change of changes.slice(1))
    matchObject(t, await ask(...change), refused(404, "STATUS_PAGE_NOT_FOUND"), change.slice(0, 2).join(" "));
  matchObject(t, (await ask("GET", pages)).body, { items: [], total: 0, limit: 50, offset: 0 });
  caller = ctx;
  for (const id of [newId(), "nonsense"])
    matchObject(t, await ask("GET", `${pages}/${id}`), refused(404, "STATUS_PAGE_NOT_FOUND"));
  matchObject(
    t,
    await ask("GET", `${pages}/${page.id}`),
    { status: 200, body: { name: "Acme" } },
    "nothing was changed",
  );
});

t.test("a slug is unique over all organisations", async (t) => {
  const owners = [ctx, stranger];
  const answers: Answer[] = await Promise.all(
    Array.from({ length: 8 }, (_, n) => {
      caller = owners[n % 2]!;
      return ask("POST", pages, { slug: "wanted", name: `Page ${n}` });
    }),
  );
  t.strictSame(answers.map((answer) => answer.status).sort(), [201, ...new Array(7).fill(409)]);
  matchObject(
    t,
    answers.find((answer) => answer.status === 409),
    refused(409, "SLUG_TAKEN", "/slug"),
  );
  caller = ctx;
  const [a, b] = [await makePage(), await makePage()];
  const renames = await Promise.all([a, b].map((page) => ask("PATCH", `${pages}/${page.id}`, { slug: "renamed" })));
  t.strictSame(renames.map((answer) => answer.status).sort(), [200, 409]);
  matchObject(
    t,
    renames.find((answer) => answer.status === 409),
    refused(409, "SLUG_TAKEN", "/slug"),
  );
});

t.test("lists are paginated", async (t) => {
  for (let n = 0; n < 3; n++) await makePage({ name: `Page ${n}` });
  const list = await ask("GET", `${pages}?limit=2&offset=1`);
  matchObject(t, list.body, { total: 3, limit: 2, offset: 1 });
  t.strictSame(
    list.body.items.map((page: { name: string }) => page.name),
    ["Page 1", "Page 2"],
    "oldest first",
  );
  t.equal(
    (await ask("GET", pages)).body.items.filter((page: { status_url: string }) => page.status_url.endsWith("/status"))
      .length,
    1,
    "one of them is at /status",
  );
});

t.test("components are added, described, ordered and removed", async (t) => {
  const { id } = await makePage();
  const path = `${pages}/${id}/components`;
  const [web, api, search] = [
    await newTarget(ctx, "Website"),
    await newTarget(ctx, "API"),
    await newTarget(ctx, "Search"),
  ];
  const added = await ask("POST", path, { target_id: web, public_name: "Shop", public_group: "Core" });
  t.equal(added.status, 201);
  t.strictSame(added.body, {
    id: web,
    target_id: web,
    monitor_name: "Website",
    public_name: "Shop",
    public_description: null,
    public_group: "Core",
    show: { uptime: true, latency: false, certificate: false },
    sort_order: 0,
  });
  matchObject(t, (await ask("PATCH", `${path}/${web}`, { show: { latency: true } })).body, {
    show: { uptime: true, latency: true, certificate: false },
  });
  matchObject(t, (await ask("PATCH", `${path}/${web}`, { public_name: "Shop" })).body, { show: { latency: true } });
  matchObject(t, (await ask("PATCH", `${path}/${web}`, { show: {} })).body, { show: { latency: false } });
  for (const target_id of [api, search]) await ask("POST", path, { target_id });
  matchObject(t, await ask("POST", path, { target_id: web }), refused(409, "COMPONENT_ALREADY_ON_PAGE", "/target_id"));
  for (const target_id of [newId(), await newTarget(stranger)])
    matchObject(t, await ask("POST", path, { target_id }), refused(404, "TARGET_NOT_FOUND", "/target_id"));
  matchObject(t, await ask("POST", path, { target_id: "nonsense" }), refused(400, "INVALID_ID", "/target_id"));

  matchObject(
    t,
    (await ask("PATCH", `${path}/${web}`, { public_name: null, public_description: "Where things are sold" })).body,
    { public_name: null, public_description: "Where things are sold", public_group: "Core" },
    "null clears, what is left out stays",
  );
  matchObject(
    t,
    await ask("PATCH", `${path}/${web}`, { public_group: " " }),
    refused(400, "INVALID_BODY", "/public_group"),
  );
  for (const name of ["public_name", "public_group", "public_description"])
    matchObject(
      t,
      await ask("PATCH", `${path}/${web}`, { [name]: "x".repeat(10_000) }),
      refused(400, "INVALID_BODY", `/${name}`),
      `10,000 characters as ${name}`,
    );
  for (const absent of [newId(), "nonsense"])
    matchObject(t, await ask("PATCH", `${path}/${absent}`, {}), refused(404, "COMPONENT_NOT_FOUND"));

  const order = await ask("POST", `${path}/reorder`, { target_ids: [search, web, api] });
  t.strictSame(
    order.body.items.map((item: { target_id: string; sort_order: number }) => [item.target_id, item.sort_order]),
    [
      [search, 0],
      [web, 1],
      [api, 2],
    ],
  );
  t.strictSame((await ask("GET", path)).body.items, order.body.items);
  matchObject(
    t,
    await ask("POST", `${path}/reorder`, { target_ids: [search, web] }),
    refused(400, "INVALID_COMPONENT_ID", "/target_ids"),
  );
  matchObject(
    t,
    await ask("POST", `${path}/reorder`, { target_ids: [search, web, web] }),
    refused(400, "INVALID_COMPONENT_ID", "/target_ids/2"),
  );
  matchObject(
    t,
    await ask("POST", `${path}/reorder`, { target_ids: [search, web, newId()] }),
    refused(400, "INVALID_COMPONENT_ID", "/target_ids/2"),
  );
  matchObject(
    t,
    await ask("POST", `${path}/reorder`, { target_ids: ["x"] }),
    refused(400, "INVALID_COMPONENT_ID", "/target_ids/0"),
  );

  t.equal((await ask("DELETE", `${path}/${web}`)).status, 204);
  matchObject(t, await ask("DELETE", `${path}/${web}`), refused(404, "COMPONENT_NOT_FOUND"));
  matchObject(t, (await ask("GET", `${path}?limit=1`)).body, { total: 2, limit: 1, items: [{ target_id: search }] });
});

t.test("several components are added in one request", async (t) => {
  const page = await makePage();
  const path = `${pages}/${page.id}/components`;
  const [a, b, c] = [await newTarget(ctx, "A"), await newTarget(ctx, "B"), await newTarget(ctx, "C")];
  await ask("POST", path, { target_id: b, public_name: "Bee" });
  const added = await ask("POST", `${path}/bulk`, { target_ids: [c, b, a, c], public_group: "Core" });
  matchObject(t, added, {
    status: 200,
    body: {
      total: 3,
      items: [
        { target_id: b, public_name: "Bee", public_group: null },
        { target_id: c, public_group: "Core" },
        { target_id: a, public_group: "Core" },
      ],
    },
  });
  const foreign = await newTarget(stranger);
  for (const id of [foreign, newId()])
    matchObject(
      t,
      await ask("POST", `${path}/bulk`, { target_ids: [a, id] }),
      refused(404, "TARGET_NOT_FOUND", "/target_ids/1"),
    );
  matchObject(t, await ask("POST", `${path}/bulk`, { target_ids: [] }), { status: 400 });
  await sql`update plans set max_public_components = 4 where id = (select plan_id from orgs where id = ${ctx.orgId})`;
  const more = [await newTarget(ctx), await newTarget(ctx)];
  matchObject(
    t,
    await ask("POST", `${path}/bulk`, { target_ids: more }),
    { status: 422 },
    "over the quota: none of them",
  );
  t.equal((await ask("GET", path)).body.total, 3);
  t.equal((await ask("POST", `${path}/bulk`, { target_ids: [a, more[0]] })).body.total, 4);
  await sql`update plans set max_public_components = null`;
});

t.test("a logo is encoded again, and served under its hash", async (t) => {
  const page = await makePage();
  const path = `${pages}/${page.id}/logo`;
  const { default: sharp } = await import("sharp");
  const color = { r: 10, g: 120, b: 200 };
  const wide = sharp({ create: { width: 2400, height: 600, channels: 3, background: color } });
  const files = {
    png: await wide
      .png()
      .withExif({ IFD0: { Copyright: "secret owner" } })
      .toBuffer(),
    jpeg: await wide.jpeg().toBuffer(),
    webp: await wide.webp().toBuffer(),
  };
  const base64 = (bytes: Buffer) => ({ image: bytes.toString("base64") });
  const urls = new Set<string>();
  for (const bytes of Object.values(files)) {
    const set = await ask("PUT", path, base64(bytes));
    matchObject(t, set, {
      status: 200,
      body: { logo_url: /^https:\/\/status\.example\.org\/status-assets\/[\w-]{43}$/ },
    });
    urls.add(set.body.logo_url);
  }
  t.equal(urls.size, 3);
  const form = new FormData();
  form.append("title", "no file");
  form.append("file", new Blob([new Uint8Array(files.png)], { type: "image/svg+xml" }), "logo.svg");
  const sent = await fetch(`${ask.origin}${path}`, { method: "POST", body: form });
  const { logo_url: url } = (await sent.json()) as { logo_url: string };
  t.equal(sent.status, 200);
  const raw = { method: "PUT", body: new Uint8Array(files.png), headers: { "content-type": "image/png" } };
  matchObject(
    t,
    await (await fetch(`${ask.origin}${path}`, raw)).json(),
    { logo_url: url },
    "the same bytes, the same address",
  );
  const [row] = await sql`select hash, media_type, width, height, bytes from status_page_logos`;
  matchObject(t, row, { media_type: "image/png", width: 1200, height: 300, hash: url.split("/").at(-1) });
  t.notMatch(String(row!["bytes"]), /secret owner/, "no metadata");
  t.strictSame((await ask("GET", `${pages}/${page.id}`)).body.logo_url, url);

  // A header that promises 16,000 by 16,000 pixels.
  const chunk = (type: string, data: Buffer) => {
    const own = Buffer.concat([Buffer.from(type), data]);
    const [size, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
    size.writeUInt32BE(data.length);
    sum.writeUInt32BE(crc32(own));
    return Buffer.concat([size, own, sum]);
  };
  const size = Buffer.alloc(13);
  size.writeUInt32BE(16_000, 0);
  size.writeUInt32BE(16_000, 4);
  size.set([8, 2, 0, 0, 0], 8);
  const bomb = Buffer.concat([
    files.png.subarray(0, 8),
    chunk("IHDR", size),
    chunk("IDAT", deflateSync(Buffer.alloc(48_001))),
    chunk("IEND", Buffer.alloc(0)),
  ]);
  const cases: [string, Buffer, number, string][] = [
    ["an SVG named .png", Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"/>'), 415, "LOGO_FORMAT_UNSUPPORTED"],
    ["a GIF", Buffer.from("GIF89a________________"), 415, "LOGO_FORMAT_UNSUPPORTED"],
    ["half a JPEG", files.jpeg.subarray(0, files.jpeg.length / 2), 400, "LOGO_UNREADABLE"],
    ["a PNG of nothing", files.png.subarray(0, 20), 400, "LOGO_UNREADABLE"],
    ["256 million pixels", bomb, 413, "LOGO_TOO_MANY_PIXELS"],
    ["over 1 MiB", Buffer.concat([files.png, Buffer.alloc(1_048_576)]), 413, "PAYLOAD_TOO_LARGE"],
    ["20 MB", Buffer.alloc(20_000_000), 413, "PAYLOAD_TOO_LARGE"],
  ];
  for (const [title, bytes, status, code] of cases) {
    const body = new Uint8Array(bytes);
    const answer = await fetch(`${ask.origin}${path}`, { ...raw, body });
    matchObject(t, [answer.status, await answer.json()], [status, { error: { code } }], title);
  }
  const empty = new FormData();
  empty.append("file", "text");
  t.equal((await fetch(`${ask.origin}${path}`, { method: "POST", body: empty })).status, 400, "a form without a file");

  // The logo for dark mode is another file beside it.
  const dark = (await ask("PUT", `${path}-dark`, base64(files.webp))).body.logo_dark_url as string;
  matchObject(t, (await ask("GET", `${pages}/${page.id}`)).body, { logo_url: url, logo_dark_url: dark });
  t.equal((await ask("DELETE", path)).status, 204);
  t.equal((await ask("DELETE", path)).status, 204, "again");
  matchObject(
    t,
    (await ask("GET", `${pages}/${page.id}`)).body,
    { logo_url: null, logo_dark_url: dark },
    "one is left",
  );
  t.equal((await ask("DELETE", `${path}-dark`)).status, 204);
  t.equal((await ask("GET", `${pages}/${page.id}`)).body.logo_dark_url, null);
});

t.test("the theme decides which logo a visitor sees", async (t) => {
  const page = await makePage();
  const { default: sharp } = await import("sharp");
  const image = async (background: string) => {
    const bytes = await sharp({ create: { width: 9, height: 9, channels: 3, background } })
      .png()
      .toBuffer();
    return { image: bytes.toString("base64") };
  };
  const whole = asking(await serveWhole(t, world), await signedIn(ctx));
  const set = async (name: string, color: string) =>
    (await whole("PUT", `${pages}/${page.id}/${name}`, await image(color))).body;
  const shown = async (style: string) => {
    await whole("PATCH", `${pages}/${page.id}`, { branding: { style } });
    const theme = style === "auto" ? undefined : style;
    const text = await until(async () => {
      const { text } = await whole("GET", `/status/${page.slug}`);
      return /data-theme="(\w+)"/.exec(text)?.[1] === theme ? text : null;
    }, "the notification that the page has changed");
    return [...text.matchAll(/(?:prefers-color-scheme: (\w+)\)" srcset|class="logo" src)="([^"]+)"/g)].map(
      ([, theme = "else", path]) => [theme, path],
    );
  };
  const dark = new URL((await set("logo-dark", "black")).logo_dark_url).pathname;
  t.strictSame(await shown("auto"), [], "a logo for dark mode alone: the heading");
  t.strictSame(await shown("dark"), [["else", dark]]);
  const light = new URL((await set("logo", "white")).logo_url).pathname;
  t.strictSame(await shown("auto"), [
    ["dark", dark],
    ["else", light],
  ]);
  t.strictSame(await shown("light"), [["else", light]]);
  t.strictSame(await shown("dark"), [["else", dark]]);
  t.match((await whole("GET", dark)).headers.get("cache-control"), /immutable/);
  const { body } = await whole("GET", `/status/${page.slug}/api/public/v1/status`);
  matchObject(t, body.page, { logo_url: RegExp(`${light}$`), logo_dark_url: RegExp(`${dark}$`) });
});

t.test("quotas hold under concurrency: at one below the limit exactly one of many wins", async (t) => {
  await sql`
    insert into plans (id, name, min_check_interval_secs, max_status_pages, max_public_components)
    values ('tiny', 'Tiny', 60, 2, 3) on conflict do nothing`;
  const org = await newOrg(system, "tiny");
  caller = org;
  const { id } = await makePage();
  const creates = await Promise.all(
    Array.from({ length: 6 }, () => ask("POST", pages, { slug: newSlug(), name: "More" })),
  );
  t.strictSame(creates.map((answer) => answer.status).sort(), [201, 422, 422, 422, 422, 422]);
  matchObject(
    t,
    creates.find((answer) => answer.status === 422),
    {
      body: {
        error: { code: "QUOTA_EXCEEDED", details: { quota: "max_status_pages", current: 2, limit: 2, plan: "tiny" } },
      },
    },
  );

  const targets = await Promise.all(Array.from({ length: 7 }, () => newTarget(org)));
  const path = `${pages}/${id}/components`;
  for (const target_id of targets.slice(0, 2)) await ask("POST", path, { target_id });
  const adds = await Promise.all(targets.slice(2).map((target_id) => ask("POST", path, { target_id })));
  t.strictSame(adds.map((answer) => answer.status).sort(), [201, 422, 422, 422, 422]);
  matchObject(
    t,
    adds.find((answer) => answer.status === 422),
    {
      body: {
        error: {
          code: "QUOTA_EXCEEDED",
          details: { quota: "max_public_components", current: 3, limit: 3, plan: "tiny" },
        },
      },
    },
  );
  matchObject(
    t,
    await ask("POST", path, { target_id: newId() }),
    refused(404, "TARGET_NOT_FOUND", "/target_id"),
    "absent ids are refused as absent",
  );

  const second = creates.find((answer) => answer.status === 201)!.body.id;
  t.equal(
    (await ask("POST", `${pages}/${second}/components`, { target_id: targets[0] })).status,
    201,
    "a monitor that is on another page costs nothing",
  );
  const doubles = await Promise.all(
    Array.from({ length: 4 }, () => ask("POST", `${pages}/${second}/components`, { target_id: targets[1] })),
  );
  t.strictSame(doubles.map((answer) => answer.status).sort(), [201, 409, 409, 409]);
});

t.test(
  "a page has at most 1,000 components, in any order; its builder offers the monitors that are left",
  async (t) => {
    const page = await makePage();
    const own = `${pages}/${page.id}/components`;
    const check = { type: "tcp" as const, host: "example.org", port: 443, timeout: 1000 };
    await createTargets(
      ctx,
      Array.from({ length: 1001 }, (_, n) => ({ name: `Copy ${n}`, check, interval: 60 })),
    );
    const rows = await sql<{ id: string }[]>`select id from targets where name like 'Copy %' order by id desc`;
    const ids = rows.map(({ id }) => id);
    const last = ids.pop()!;
    const full = {
      status: 422,
      body: {
        error: { code: "QUOTA_EXCEEDED", details: { quota: "max_components_per_page", current: 1000, limit: 1000 } },
      },
    };
    matchObject(t, await ask("POST", `${own}/bulk`, { target_ids: ids }), { status: 200, body: { total: 1000 } });
    matchObject(t, await ask("POST", own, { target_id: last }), full);
    matchObject(t, await ask("POST", `${own}/bulk`, { target_ids: [ids[0], last] }), full);
    matchObject(
      t,
      await ask("POST", `${own}/bulk`, { target_ids: ids }),
      { status: 200 },
      "those on it already cost nothing",
    );
    matchObject(t, await ask("GET", own), { body: { total: 1000 } });

    const browser = asking(await serveWhole(t, world), await signedIn(ctx));
    const { text } = await browser("GET", `/status-pages/${page.id}`);
    t.match(text, `id="add-${last}"`);
    t.equal(text.match(/<li data-id="/g)?.length, 1000);
    t.equal(text.match(/data-move="-1"[^>]*disabled/g)?.length, 1, "the first does not move up");
    t.equal(text.match(/data-move="1"[^>]*disabled/g)?.length, 1, "the last does not move down");
  },
);

t.test("a time zone is stored by its canonical name", async (t) => {
  for (const [sent, stored] of [
    ["europe/berlin", "Europe/Berlin"],
    ["utc", "UTC"],
  ])
    t.equal((await makePage({ branding: { timezone: sent } })).branding.timezone, stored);
  for (const timezone of ["Mars/Olympus", "+02:00", ""])
    matchObject(
      t,
      await ask("POST", pages, { slug: newSlug(), name: "x", branding: { timezone } }),
      { status: 400 },
      JSON.stringify(timezone),
    );
});

t.test("a password that was compared with that of a page is compared again without its hash", async (t) => {
  const page = { id: newId(), access_password: await hashPassword(system, "correct horse") };
  const same = async (password: string) => [...(await pagesWithPasswords(ctx, [{ page, password }]))];
  t.strictSame(await same("wrong horse"), []);
  t.strictSame(await same("correct horse"), [page.id]);
  let release = () => {};
  const held = new Promise<void>((resolve) => (release = resolve));
  // Every place of the thread pool is taken.
  const others = [1, 2].map((n) => withPlace(`other ${n}`, true, () => held));
  t.strictSame(await same("correct horse"), [page.id]);
  release();
  await Promise.all(others);
  t.strictSame(await same("wrong horse"), []);
  // Three comparisons took a hash so far.
  for (let n = 3; n < 60; n++) await same(`wrong horse ${n}`);
  t.strictSame(await same("wrong horse 59"), [], "what was compared is kept");
  await t.rejects(same("wrong horse"), { code: "RATE_LIMITED", details: { scope: "per_user_page_passwords" } });
});

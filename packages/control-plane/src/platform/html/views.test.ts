import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import Koa, { type Context } from "koa";
import t, { type Test } from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { AppError } from "@statusmesh/shared/errors";
import type { Ctx, System } from "../context.ts";
import { silentLog } from "../process/log.ts";
import { contrast, readable } from "./brand.ts";
import { loadAssets } from "./assets.ts";
import {
  axisSteps,
  bandPath,
  dotsPath,
  latencyChart,
  linePath,
  shareBar,
  beatsLabel,
  strip,
  stateBar,
  scaleTop,
  stripPath,
} from "./charts.ts";
import { exchange } from "../http/exchange.ts";
import { baseHeaders } from "../http/reply/security-headers.ts";
import { field } from "./fields.ts";
import * as format from "./format.ts";
import { html, Markup } from "./markup.ts";
import { errorPages, localPath, mountPages, page, wholeNumber } from "./pages.ts";
import { openViews, timeTag, viewsFolder } from "./views.ts";

const now = Date.UTC(2026, 10, 20, 14, 2, 31);

t.test("formats", async (t) => {
  for (const [secs, text] of [
    [0, "0 s"],
    [45.9, "45 s"],
    [60, "1 min"],
    [2280, "38 min"],
    [3600, "1 h"],
    [7500, "2 h 5 min"],
    [86_400, "1 d"],
    [273_600, "3 d 4 h"],
    [-5, "0 s"],
  ] as const) {
    t.equal(format.duration(secs), text);
  }
  t.equal(format.brief(7500), "2 h");
  t.equal(format.ago(now - 3000, now), "3 s ago");
  t.equal(format.ago(now - 7_500_000, now), "2 h ago", "one unit only");
  t.equal(format.ago(now + 20_000, now), "in 20 s");
  t.equal(format.ago(now - 100, now), "now");
  t.same(
    [now + 20_000, now, now - 240_000].map((at) => format.due(at, now)),
    ["in 20 s", "due now", "due now"],
    "what is still to come is never in the past",
  );
  t.same([10, 60, 90, 300, 3600, 86_400].map(format.every), [
    "every 10 s",
    "every minute",
    "every 90 s",
    "every 5 min",
    "every hour",
    "every day",
  ]);
  t.same([null, 0.04, 3.42, 84.4, 412, 1240, 12_345].map(format.ms), [
    "—",
    "0.04 ms",
    "3.4 ms",
    "84 ms",
    "412 ms",
    "1.24 s",
    "12.3 s",
  ]);
  t.same([0, 999, 8604, 1_234_567, 1234.5].map(format.number), ["0", "999", "8,604", "1,234,567", "1,234.5"]);
  t.same(
    [100, 99.999, 99.81, 97.3612, 0, null].map(format.percent),
    ["100", "99.99", "99.81", "97.36", "0", "—"],
    "100 is only said of 100",
  );
  t.same([900, 1200, 1_048_576, null].map(format.bytes), ["900 B", "1.2 kB", "1 MB", "—"]);
  t.equal(format.capital("connection refused"), "Connection refused");
  t.equal(format.capital("shop.example.org does not exist"), "shop.example.org does not exist");
  t.equal(format.plural(1, "monitor"), "1 monitor");
  t.equal(format.plural(1000, "monitor"), "1,000 monitors");
  t.same([[], ["a"], ["a", "b"], ["a", "b", "c"]].map(format.list), ["", "a", "a and b", "a, b and c"]);
  const linux = "Mozilla/5.0 (X11; Linux x86_64)";
  t.same(
    [`${linux} AppleWebKit/537.36 Chrome/140.0 Safari/537.36 Edg/140.0`, `${linux} Firefox/140.0`, "curl/8", null].map(
      format.device,
    ),
    ["Edge on Linux", "Firefox on Linux", "curl/8", "Unknown device"],
  );
  t.equal(format.clock(new Date(now), now), "14:02");
  t.equal(format.clock(new Date(now - 86_400_000), now), "19 Nov 14:02");
});

t.test("markup escapes whatever our own code did not make", async (t) => {
  const nasty = `<img src=x onerror="alert('1')">&`;
  t.equal(
    html`<b title="${nasty}">${[nasty, new Markup("<i>")]}</b>`.html,
    `<b title="&lt;img src=x onerror=&quot;alert(&#39;1&#39;)&quot;&gt;&amp;">&lt;img src=x ` +
      "onerror=&quot;alert(&#39;1&#39;)&quot;&gt;&amp;<i></b>",
  );
  t.equal(html`${null}${undefined}${0}`.html, "0");
  t.notMatch(field({ name: "/check/url", label: nasty, value: nasty, hint: nasty, placeholder: nasty }).html, /<img/);
  t.match(
    field({ name: "/check/body", label: "Body", type: "lines", value: "\nfirst line is empty" }).html,
    />\n\nfirst/,
    "a textarea drops one line break at its start",
  );
  t.match(timeTag(now, "clock", now).html, ">14:02 UTC<", "without the script it says which zone it means");
  t.match(
    timeTag("2026-11-20T14:02:28.000Z", "ago", now).html,
    '<time datetime="2026-11-20T14:02:28.000Z" data-as="ago" title="2026-11-20 14:02:28 UTC">3 s ago</time>',
  );
});

t.test("strips", async (t) => {
  t.equal(stripPath(["up", "up", "down", "up"], "up"), "M0 10h7M12 10h3", "a line for each run of cells");
  const drawing = strip(["up", "down", "none"], "A & B").html;
  t.match(drawing, 'viewBox="0 0 11 20"', "no gap after the last cell");
  t.match(drawing, /<path class="up".*<path class="down".*<path class="none"/);
  t.match(drawing, 'aria-label="A &amp; B"');
  t.match(strip([], "x").html, 'viewBox="0 0 1 20"');
  t.equal(beatsLabel(["up", "none", "up", "down"]), "1 down, 2 up, 1 without data");
});

t.test("lines, bands and axes", async (t) => {
  const at = (index: number) => index * 10;
  const same = (value: number) => value;
  t.equal(linePath([1, 2, null, 3, 4], at, same), "M0 1L10 2M30 3L40 4", "a gap is a gap");
  t.equal(linePath([null, null], at, same), "");
  t.equal(dotsPath([1, null, 2, 3, null, 4], at, same), "M0 1h0M50 4h0", "what no line shows is a dot");
  t.equal(bandPath([1, 2, null, 5], [3, 4, null, 6], at, same), "M0 3L10 4L10 2L0 1Z", "a run of one has no area");
  t.same(axisSteps(412), [0, 200, 400, 600]);
  t.same(axisSteps(100), [0, 25, 50, 75, 100]);
  t.same(axisSteps(0.03), [0, 0.01, 0.02, 0.03]);
  t.ok(axisSteps(0).length > 1, "an axis without values still has a height");
  for (const top of [1, 3, 7, 99, 101, 1234, 59_999]) {
    const steps = axisSteps(top);
    t.ok(steps.at(-1)! >= top && steps.length <= 6, `steps for ${top}: ${steps.join(" ")}`);
  }
  t.equal(shareBar([{ name: "dns", value: 0, label: "DNS" }]).html, "");
  t.match(
    shareBar([
      { name: "dns", value: 1, label: "DNS" },
      { name: "tls", value: 3, label: "TLS" },
    ]).html,
    /x="0%" width="25%".*x="25%" width="75%"/,
  );
  t.match(
    stateBar([
      { name: "down", word: "Down", count: 1 },
      { name: "paused", word: "Paused", count: 1 },
    ]).html,
    /class="down" x="0%" width="50%".*class="paused" x="50%" width="50%"/,
  );
});

t.test("the latency chart", async (t) => {
  const from = now - 3_600_000;
  const points = Array.from({ length: 60 }, (_, i) => ({
    t: from + i * 60_000,
    p50: 50,
    p95: 80,
    samples: i > 20 && i < 30 ? 0 : 6,
  }));
  const span = { from: now - 600_000, to: now, kind: "down", title: "Down: <refused>" } as const;
  const chart = latencyChart(points, [span, { ...span, from: from - 9_000_000, to: from - 8_000_000 }], {
    from,
    to: now,
    label: "Latency, last hour",
  }).html;
  t.match(chart, 'role="img" aria-label="Latency, last hour"');
  t.match(chart, /<rect class="shade down" x="83.33%" width="16.67%"[^>]*><title>Down: &lt;refused&gt;<\/title>/);
  t.equal(chart.match(/<rect/g)?.length, 4, "a ground and its edge, 2 px at least; what lies outside is not drawn");
  t.equal(/class="p50" d="([^"]*)"/.exec(chart)![1]!.match(/M/g)?.length, 2, "the gap breaks the line");
  t.match(chart, /<text x="100%"[^>]*>now/);
  t.match(chart, /<title>2026-11-20 13:10:00 UTC<\/title>13:10/, "ticks are at round times");
  t.notMatch(chart, / style=/, "the content policy forbids style attributes");
  t.notMatch(chart, /NaN|Infinity/);
  t.notMatch(latencyChart([], [], { from, to: now, label: "x" }).html, /NaN|Infinity/);
  const calm = Array.from({ length: 60 }, (_, at) => 100 + (at % 7));
  const spiked = calm.map((value, at) => (at === 30 ? 4800 : value));
  t.ok(scaleTop(spiked) < 200, "a spike does not flatten the rest");
  t.equal(scaleTop(calm), 106, "the scale fits the data");
  t.equal(scaleTop([null, 4800, 100]), 4800, "a few values are all of them");
  const clipped = latencyChart(
    spiked.map((p95, at) => ({ t: from + at * 60_000, p50: 90, p95, samples: 5 })),
    [],
    { from, to: now, label: "x" },
  ).html;
  t.match(clipped, /class="over".*>4\.80 s<\/text>/s, "a clipped value has a mark and its number");
  t.equal(clipped.match(/class="over"/g)?.length, 1);
});

t.test("tokens", async (t) => {
  const css = loadAssets().text("tokens.css");
  const names = (block: string) =>
    Object.fromEntries([...block.matchAll(/--([\w-]+): (#[0-9a-f]{6})/g)].map((found) => [found[1]!, found[2]!]));
  const dark = css.indexOf(':root[data-theme="dark"]');
  const light = names(css.slice(0, dark));
  const system = css.indexOf("@media screen and (prefers-color-scheme: dark)");
  const chosen = names(css.slice(dark, system));
  const asked = names(css.slice(system));
  t.equal(css.slice(dark - 16, dark), "@media screen {\n", "paper is light");
  t.same(asked, chosen, "dark by the system and dark by choice are the same");
  t.same(Object.keys(asked), Object.keys(light), "every colour has both");

  const channel = (value: number) => (value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  // WCAG 2.2, relative luminance and contrast ratio.
  const luminance = (hex: string) =>
    [0.2126, 0.7152, 0.0722].reduce(
      (sum, weight, at) => sum + weight * channel(Number.parseInt(hex.slice(1 + 2 * at, 3 + 2 * at), 16) / 255),
      0,
    );
  const contrast = (a: string, b: string) => {
    const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
    return (high! + 0.05) / (low! + 0.05);
  };
  for (const [theme, of] of [
    ["light", light],
    ["dark", chosen],
  ] as const) {
    const states = ["up", "degraded", "down", "error", "unknown", "maintenance"];
    const pairs = [
      ...["text", "muted", "accent", ...states].flatMap((text) => [
        [text, "bg"],
        [text, "panel"],
      ]),
      ...states.flatMap((state) => [
        [state, `${state}-soft`],
        ["text", `${state}-soft`],
        ["accent", `${state}-soft`],
      ]),
      ["accent", "accent-soft"],
    ];
    for (const [text, ground] of pairs)
      t.ok(
        contrast(of[text!]!, of[ground!]!) >= 4.5,
        `${theme}: ${text} on ${ground} is ${contrast(of[text!]!, of[ground!]!).toFixed(2)}`,
      );
    t.ok(contrast(of["control"]!, of["panel"]!) >= 3, `${theme}: the edge of a control is seen`);
  }
});

t.test("no sheet but the tokens names a colour, and no view a style", async (t) => {
  const assets = loadAssets();
  t.match(assets.text("console.css"), /\.app\{.*\.form\{/s, "a folder is one sheet, in the order of its files");
  for (const name of ["base.css", "console.css"]) {
    const css = assets.text(name).replaceAll(/\/\*.*?\*\//gs, "");
    t.notMatch(css, /#[0-9a-f]{3,8}\b(?![^{]*\{)|rgb\(|hsl\(/i, name);
  }
  const views = readdirSync(viewsFolder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  for (const entry of views)
    t.notMatch(
      readFileSync(join(entry.parentPath, entry.name), "utf8"),
      /\sstyle=|\son\w+=|<style|javascript:/i,
      `${entry.name} needs nothing that the content policy forbids`,
    );
});

t.test("numbers and paths of a query", async (t) => {
  t.same(
    [undefined, "", "12", "-1", "1e3", "99999999999"].map((value) => wholeNumber(value, 7, 1000)),
    [7, 7, 12, 7, 7, 7],
  );
  t.equal(wholeNumber("5000", 0, 1000), 1000);
  t.same(
    [
      "/monitors?q=a",
      undefined,
      "//evil.example",
      "/\\evil.example",
      "https://evil.example",
      "/a\nb",
      "/sign-in",
      "monitors",
    ].map(localPath),
    ["/monitors?q=a", "/", "/", "/", "/", "/", "/", "/"],
  );
});

/** An application with the real assets and views of the test's own, on a port of its own. */
async function open(t: Pick<Test, "teardown">) {
  const folder = mkdtempSync(join(tmpdir(), "views-"));
  for (const name of ["errors", "layouts"]) mkdirSync(join(folder, name));
  writeFileSync(
    join(folder, "errors/error.eta"),
    "error <%= it.error.code %> <%= it.error.message %> <%= it.frame ? it.frame.org : 'no frame' %>",
  );
  writeFileSync(join(folder, "list.eta"), "<% layout('/layouts/console') %>whole <%~ include('/part') %>");
  writeFileSync(join(folder, "part.eta"), "part <%= it.name %>");
  writeFileSync(
    join(folder, "layouts/console.eta"),
    "<html><link href=<%= h.asset('tokens.css') %>><%= it.frame?.org %> <%~ it.body %>",
  );
  const clock = { now: () => now };
  const assets = loadAssets();
  const views = openViews({ assets, folder });
  const authenticators = {
    tenant: async (http: Context) => {
      if (http.get("cookie") === "") throw new AppError("UNAUTHENTICATED", "Sign in first.");
      return { clock, orgId: "o" } as Ctx;
    },
    public: async () => ({ clock }) as System,
  };
  const pages = [
    page("/list", "tenant", async ({ query }) => ({
      view: "list",
      fragment: "part",
      data: { name: query["name"] ?? "<none>" },
    })),
    page("/list/{id}", "tenant", async ({ params }) =>
      Promise.reject(new AppError("TARGET_NOT_FOUND", `no ${params["id"]}`)),
    ),
    page("/open", "public", async () => ({
      view: "part",
      data: { name: "open" },
      status: 202,
      headers: { "Cache-Control": "public, max-age=10" },
    })),
  ];
  const app = new Koa();
  app.use(exchange({ log: silentLog, clock, page: errorPages(views, clock.now), headers: baseHeaders("http://x") }));
  app.use(assets.serve);
  app.use(
    mountPages(pages, authenticators, views, {
      frame: async () => ({
        org: "Acme",
        orgId: "o",
        role: "owner" as const,
        email: null,
        asksPassword: false,
        openCauses: 0,
        tone: "up" as const,
        snoozes: [],
        otherOrgs: [],
      }),
    }),
  );
  const server = app.listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  t.teardown(() => {
    server.close();
    rmSync(folder, { recursive: true });
  });
  const { port } = server.address() as AddressInfo;
  // A raw request: fetch would tidy the path before it is sent.
  const ask = (path: string, headers: Record<string, string> = {}, method = "GET") =>
    new Promise<{ status: number; headers: NodeJS.Dict<string | string[]>; body: Buffer }>((resolve, reject) => {
      const sent = request({ port, host: "127.0.0.1", path, method, headers, agent: false }, (reply) => {
        const chunks: Buffer[] = [];
        reply.on("data", (chunk: Buffer) => chunks.push(chunk));
        reply.on("end", () =>
          resolve({ status: reply.statusCode!, headers: reply.headers, body: Buffer.concat(chunks) }),
        );
      });
      sent.on("error", reject).end();
    });
  return { ask, assets };
}

t.test("a brand colour is readable in both themes", async (t) => {
  const { ask, assets } = await open(t);
  const light = ["#f8f9fa", "#ffffff"];
  const dark = ["#0c0e12", "#14171c"];
  for (const color of ["#ffdd00", "#000000", "#ffffff", "#2557d6", "#7f7f7f", "#ff0000"])
    for (const backgrounds of [light, dark])
      for (const background of backgrounds)
        t.ok(contrast(readable(color, backgrounds), background) >= 4.5, `${color} on ${background}`);
  t.equal(readable("#2557d6", light), "#2557d6", "a readable colour stays");
  const sheet = await ask(assets.url("status-ffdd00.css"));
  matchObject(t, sheet, { status: 200, headers: { "cache-control": "public, max-age=31536000, immutable" } });
  t.match(sheet.body, /:root\{--brand:#ffdd00\}/);
  t.notMatch(sheet.body, /\/\*/);
  t.throws(() => assets.url("status-yellow.css"));
  t.equal((await ask("/assets/status-xyz.css")).status, 404);
});

t.test("assets", async (t) => {
  const { ask, assets } = await open(t);
  const url = assets.url("tokens.css");
  t.match(url, /^\/assets\/[\w-]{12}\/tokens\.css$/);
  t.strictSame(assets.modules("status.js"), [], "public pages load one script");
  t.strictSame(
    assets.modules("live.js"),
    ["dom.js", "head.js", "leave.js", "org.js", "times.js"],
    "what a script imports, to be asked for at once",
  );
  t.ok(assets.modules("console.js").includes("leave.js"), "also through others");
  const plain = await ask(url);
  t.equal(plain.status, 200);
  matchObject(t, plain.headers, {
    "content-type": "text/css; charset=utf-8",
    "cache-control": "public, max-age=31536000, immutable",
    "x-content-type-options": "nosniff",
    vary: "Accept-Encoding",
  });
  t.equal(plain.body.toString(), assets.text("tokens.css"));
  const font = await ask(assets.url("inter.woff2"), { "accept-encoding": "gzip" });
  t.equal(font.headers["content-type"], "font/woff2");
  t.ok(font.body.length > 20_000 && font.body.length <= 100_000, `the font has ${font.body.length} bytes`);
  for (const name of ["status.css", "share.css"])
    t.notMatch(assets.text(name), /@font-face|Inter/, `${name}: visitors load no font`);
  const packed = await ask(url, { "accept-encoding": "br, gzip" });
  t.equal(packed.headers["content-encoding"], "gzip");
  t.same(gunzipSync(packed.body), plain.body);
  const again = await ask(url, { "if-none-match": plain.headers["etag"] as string });
  t.equal(again.status, 304);
  t.equal(again.body.length, 0);
  t.equal(
    (await ask("/assets/tokens.css")).headers["cache-control"],
    "no-cache",
    "without the hash it is asked for again",
  );
  for (const [file, type] of [
    ["rapidoc-min.js", "text/javascript; charset=utf-8"],
    ["rapidoc-min.js.LICENSE.txt", "text/plain; charset=utf-8"],
  ] as const)
    matchObject(t, await ask(assets.url(file)), { status: 200, headers: { "content-type": type } }, file);
  const head = await ask(url, {}, "HEAD");
  t.equal(head.status, 200);
  t.equal(head.body.length, 0);
  t.equal((await ask(url, {}, "POST")).status, 405);
  const hash = url.split("/")[2]!;
  for (const path of [
    "/assets/",
    "/assets/none.css",
    "/assets/../package.json",
    "/assets/%2e%2e/package.json",
    "/assets/..%2fpackage.json",
    `/assets/${hash}/../../package.json`,
    "/assets//etc/passwd",
    "/assets/%00",
    "/assets/dist",
    `/assets/${"0".repeat(12)}/tokens.css`,
  ]) {
    const reply = await ask(path);
    t.equal(reply.status, 404, path);
    t.notMatch(reply.body.toString(), "statusmesh/control-plane");
  }
  t.throws(() => assets.url("nothing.css"), /no asset called nothing.css/);
});

t.test("pages", async (t) => {
  const { ask } = await open(t);
  const cookie = "_sm_session=x";
  const away = await ask("/list?tag=a%20b&fragment=1");
  t.equal(away.status, 302);
  t.equal(
    away.headers["location"],
    `/sign-in?next=${encodeURIComponent("/list?tag=a+b")}`,
    "and never back to a fragment",
  );

  const whole = await ask("/list?name=%3Cb%3E", { cookie });
  t.equal(whole.status, 200);
  t.match(whole.body.toString(), /<link href=\/assets\/[\w-]{12}\/tokens.css>Acme whole part &lt;b&gt;/);
  matchObject(t, whole.headers, {
    "content-type": "text/html; charset=utf-8",
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "x-robots-tag": "noindex",
  });
  const policy = whole.headers["content-security-policy"] as string;
  t.match(policy, /^default-src 'self'; .*style-src 'self'; .*frame-ancestors 'none'$/);
  t.notMatch(policy, /unsafe/);
  const long = await ask(`/list?name=${"x".repeat(2000)}`, { cookie, "accept-encoding": "gzip" });
  matchObject(t, long.headers, { "content-encoding": "gzip", vary: /Accept-Encoding/ });
  t.match(gunzipSync(long.body).toString(), "xxx");
  t.equal((await ask("/list?fragment=1", { cookie })).body.toString(), "part &lt;none&gt;");
  t.equal((await ask("/list", { cookie }, "HEAD")).body.length, 0);
  t.equal((await ask("/list", { cookie }, "POST")).status, 404, "pages only read");

  const open202 = await ask("/open");
  t.equal(open202.status, 202);
  t.equal(open202.headers["cache-control"], "public, max-age=10", "a page may choose its own headers");
});

t.test("errors", async (t) => {
  const { ask } = await open(t);
  const person = { cookie: "_sm_session=x", accept: "text/html,*/*" };
  const found = await ask("/list/a%3Cb", person);
  t.equal(found.status, 404);
  t.equal(found.body.toString(), "error TARGET_NOT_FOUND no a&lt;b Acme");
  t.match(found.headers["content-security-policy"], "default-src 'self'");
  t.match((await ask("/nowhere", person)).body.toString(), "error NOT_FOUND There is nothing at /nowhere. no frame");
  t.match((await ask("/list/%zz", person)).body.toString(), "error NOT_FOUND");
  for (const [path, headers] of [
    ["/api/v1/nowhere", person],
    ["/healthz/x", person],
    ["/nowhere", { accept: "application/json" }],
  ] as const) {
    t.equal(
      (JSON.parse((await ask(path, headers)).body.toString()) as { error: { code: string } }).error.code,
      "NOT_FOUND",
      `${path} is answered in JSON`,
    );
  }
});

import t, { type Test } from "tap";
import type { Browser } from "playwright-core";
import { addResults } from "@statusmesh/control-plane/testing/scene";
import { type Mailbox, startMailbox } from "@statusmesh/control-plane/testing/mailbox";
import { connect } from "../harness/api.ts";
import { agentIn } from "../harness/cast.ts";
import { findings, looksRight, openBrowser, openPage } from "../harness/browser.ts";
import { cloneDatabase } from "../harness/database.ts";
import { serveHere } from "../harness/in-process.ts";
import { requires } from "../harness/requires.ts";
import { waitFor } from "../harness/wait.ts";
import { newId } from "@statusmesh/shared/ids";

/** English first: that of the data. */
const languages = "en de fr es it pt-BR nl pl cs sv uk ja zh-Hans ar".split(" ");

/* What a visitor of a status page sees and can do: with a mouse, with the keyboard, with a reader, without scripts. */

const token = `sm_live_${"visitors".repeat(5)}`;
const dayMs = 86_400_000;
const isoDay = (at: number) => new Date(at).toISOString().slice(0, 10);
/** Elements of a page of 25 components. */
const maxElements = 2500;

t.test("a status page", async (t) => {
  if (!(await requires(t, "chromium"))) return;
  const database = await cloneDatabase(t);
  const { sql } = database;
  const mailbox = await startMailbox(t);
  const url = await serveHere(t, database, {
    SM_BOOTSTRAP__TOKEN: token,
    SM_PUBLIC_STATUS__PUBLIC_PER_IP_RATE_LIMIT_PER_MIN: "0",
    SM_SECURITY__ALLOW_PRIVATE_TARGETS: "true",
    SM_EMAIL__SMTP_URL: mailbox.url,
    SM_EMAIL__FROM: "status@example.org",
  });
  const api = connect(t, url, token);
  const check = { type: "tcp", host: "127.0.0.1", port: 9 };
  const names = Array.from({ length: 25 }, (_, n) => `Service ${String(n).padStart(2, "0")}`);
  const targets = (
    await api.post(
      "/api/v1/targets/bulk",
      names.map((name) => ({ name, check })),
    )
  ).body as { id: string }[];
  const ids = targets.map(({ id }) => id);
  const page = (
    await api.post("/api/v1/status-pages", {
      slug: "acme",
      name: "Acme status",
      branding: { brand_color: "#ffdd00", about: "How **Acme** is doing." },
    })
  ).body;
  const components = `/api/v1/status-pages/${page.id}/components`;
  for (const [from, to, group] of [
    [0, 10, "Core"],
    [10, 20, "More"],
    [20, 25, null],
  ] as const)
    await api.post(`${components}/bulk`, { target_ids: ids.slice(from, to), public_group: group });
  const today = Date.now();
  for (const id of ids)
    await sql`
      insert into results_daily (target_id, day, up, down, degraded, error)
      select ${id}, d.day::date, 1440, 0, 0, 0
      from generate_series(${isoDay(today - 60 * dayMs)}::date, ${isoDay(today)}::date, interval '1 day') as d (day)`;
  // A monitor has no history before it exists.
  await sql`update targets set created_at = now() - interval '100 days'`;
  // Each of a host of its own: no two incidents share a cause.
  await sql`update targets set host = id::text`;
  await sql`update target_states set status = 'up', status_until = now() + interval '1 day', last_result_at = now()`;
  const [{ org_id: orgId } = { org_id: "" }] = await sql<{ org_id: string }[]>`select org_id from targets limit 1`;
  const addIncident = async (targetId: string, started: number, ended: number | null, title: string) => {
    const [id, at] = [newId(), new Date(started)];
    await sql`
      insert into incidents
        (id, org_id, target_id, started_at, opened_at, ended_at, outage_since, past_outage_ms, severity,
          impact, peak_impact, error_sample, regions_down, regions_up, retracted, public_title, created_at, updated_at)
      values
        (${id}, ${orgId}, ${targetId}, ${at}, ${at}, ${ended === null ? null : new Date(ended)},
          ${ended === null ? at : null}, ${ended === null ? 0 : ended - started}, 'major', 'major_outage',
          'major_outage', 'connect ECONNREFUSED 10.1.2.3:443', '{default}', '{}', false, ${title}, ${at}, ${at})`;
    await sql`
      insert into incident_outages (incident_id, org_id, started_at, ended_at, impact)
      select id, org_id, started_at, ended_at, 'major_outage' from incidents where id = ${id}`;
  };
  // Noon of the day before yesterday, UTC: an hour of it is one day in every zone that the browser may have.
  const then = Date.parse(isoDay(today - 2 * dayMs)) + dayMs / 2;
  await addIncident(ids[0]!, then, then + 3_600_000, "Search is slow");

  const browser = await openBrowser(t);
  const open = async (options: { width: number; colorScheme: "light" | "dark" }) =>
    await openPage(
      t,
      await browser.newContext({
        baseURL: url,
        viewport: { width: options.width, height: 800 },
        colorScheme: options.colorScheme,
        timezoneId: "Asia/Tokyo",
      }),
    );
  const visitor = await open({ width: 1280, colorScheme: "light" });
  const requests: string[] = [];
  visitor.on("request", (request) => requests.push(request.url()));
  await visitor.goto("/status");

  await t.test("is small, and asks nobody else", async (t) => {
    t.ok(requests.length <= 4, `${requests.length} requests`);
    t.strictSame(
      requests.filter((one) => !one.startsWith(url)),
      [],
    );
    t.strictSame(await visitor.context().cookies(), []);
    const elements = (await visitor.evaluate("document.querySelectorAll('*').length")) as number;
    t.ok(elements <= maxElements, `${elements} elements`);
    t.match(await visitor.locator("#components ~ .key, .row .key").first().textContent(), /Operational/);
    t.match(await visitor.locator(".method").textContent(), /without a confirmed outage/);
    t.match(await visitor.locator("[data-zone]").textContent(), /Times in your zone \(GMT\+9\)/);
    t.match(await visitor.locator(".past time").getAttribute("title"), / UTC$/, "UTC stays in the title");
  });

  await t.test("days are reached by keyboard and by touch", async (t) => {
    // Healthy groups are closed.
    await visitor.locator("#group-0 > summary").click();
    const strip = visitor.locator(".days").first();
    t.match(await strip.getAttribute("aria-label"), /^Last 90 days: .*Major outage on 1 day.*: down 1 h$/);
    await strip.focus();
    await visitor.keyboard.press("ArrowLeft");
    await visitor.keyboard.press("ArrowLeft");
    t.match(await strip.getAttribute("aria-valuetext"), /^\w+ \d+, \d{4}: Major outage · down 1 h$/);
    await visitor.keyboard.press("Enter");
    await visitor.mouse.move(5, 5);
    t.match(await strip.locator(".tip.pinned").textContent(), /Major outage · down 1 h/, "a pinned day stays");
    t.strictSame(await findings(visitor), [], "with an open day");
    await visitor.keyboard.press("Escape");
    t.equal(await visitor.locator(".tip").count(), 0);
    await visitor.keyboard.press("Home");
    t.match(await strip.getAttribute("aria-valuetext"), /: No data$/);
    await visitor.locator(".days").nth(1).click();
    t.equal(await visitor.locator(".tip.pinned").count(), 1);
    await visitor.locator("h1").click();
    t.equal(await visitor.locator(".tip").count(), 0, "a touch beside it closes it");
  });

  await t.test("an outage appears, and what the visitor did stays", async (t) => {
    await visitor.locator("#group-1").evaluate((box) => void box.setAttribute("open", ""));
    const summary = visitor.locator("#group-0 > summary");
    await summary.click();
    await summary.focus();
    t.equal(await visitor.locator("#group-0").getAttribute("open"), null);
    for (const [n, id] of ids.entries()) if (n < 12) await addIncident(id, today - 600_000, null, `Outage ${n}`);
    await waitFor("the refreshed banner", async () => {
      await visitor.evaluate("void document.dispatchEvent(new Event('visibilitychange'))");
      return /^Outage \d+$/.test((await visitor.locator(".banner h2").textContent()) ?? "");
    });
    t.match(await visitor.locator(".banner p").textContent(), /12 of 25 components affected/);
    t.match(await visitor.title(), /^Major System Outage · Acme status$/);
    t.equal(await visitor.locator("#group-0").getAttribute("open"), null, "a closed group stays closed");
    t.equal(await visitor.evaluate("document.activeElement.closest('details')?.id"), "group-0", "the focus stays");
    t.match(await visitor.locator("#live-region").textContent(), /Major System Outage/);
    const components = await visitor.locator("#components").boundingBox();
    t.ok(components!.y < 800, `the components are on the first screen: ${components!.y}`);
    t.match(await visitor.locator("#others summary").textContent(), /9 more incidents/);
  });

  await t.test("has no finding of axe, in both themes, wide and narrow", async (t) => {
    const one = await open({ width: 390, colorScheme: "light" });
    await one.goto("/status");
    await looksRight(t, one, "the status page");
    await one.context().close();
  });

  await t.test("reads fully without scripts", async (t) => {
    const plain = await browser.newContext({ baseURL: url, javaScriptEnabled: false });
    const reader = await plain.newPage();
    await reader.goto("/status");
    t.match(await reader.locator(".banner").textContent(), /Outage \d+[^]*12 of 25 components affected/);
    t.match(await reader.locator(".banner time").first().textContent(), /UTC/);
    t.equal(await reader.locator("#others a").count(), 9, "also in a box that is closed");
    await reader.goto(`/status/incidents/${(await api.get("/api/public/v1/incidents")).body.items[0].id}`);
    t.match(await reader.locator("h1").textContent(), /Outage \d+/);
    await plain.close();
  });

  await t.test("a second page has its own address, and its past incidents a page", async (t) => {
    const { id, slug } = (await api.post("/api/v1/status-pages", { slug: "second", name: "Second" })).body;
    const long = "A component with the name of a whole department ".repeat(3).trim();
    for (const [n, name] of [long, long.replaceAll(" ", "_"), "Mail"].entries())
      await api.post(`/api/v1/status-pages/${id}/components`, { target_id: ids[24 - n], public_name: name });
    for (let n = 0; n < 40; n++)
      await addIncident(ids[24]!, then - n * 3_600_000, then - n * 3_600_000 + 60_000, `No ${n}`);
    const one = await open({ width: 390, colorScheme: "dark" });
    await one.goto(`/status/${slug}`);
    const boxes = one.locator(".components .row:has(.state) > *");
    for (const n of [0, 2]) {
      const [name, state] = [await boxes.nth(n).boundingBox(), await boxes.nth(n + 1).boundingBox()];
      t.ok(name!.width > 300 && state!.y >= name!.y + name!.height, "a long name has the whole line");
    }
    t.ok((await boxes.nth(5).boundingBox())!.x > 200, "the state of a short name stands beside it");
    t.match(await one.locator("#past ~ .more").innerText(), "30 older incidents");
    await one.getByRole("link", { name: "All incidents" }).click();
    await one.waitForURL(`**/status/${slug}/incidents`);
    t.equal(await one.locator(".past .row").count(), 40);
    await looksRight(t, one, "the past incidents");
    await one.getByRole("link", { name: "No 39" }).click();
    await one.waitForURL(new RegExp(`/status/${slug}/incidents/[0-9a-f-]{36}$`));
    await one.context().close();
  });

  await t.test("a shared monitor shows its latency in each region", async (t) => {
    await agentIn(sql, "us");
    await sql`update regions set name = 'New York' where id = 'us'`;
    await sql`insert into target_regions (target_id, region_id) values (${ids[0]!}, 'us')`;
    const now = Date.now();
    const runs = Array.from({ length: 60 }, (_, n) => now - n * 60_000);
    await addResults({ sql }, ids[0]!, [
      ...runs.map((at) => ({ at, region: "default", total: 40 })),
      ...runs.map((at) => ({ at, region: "us", total: 160 })),
    ]);
    const share = (await api.post(`/api/v1/targets/${ids[0]}/shares`, { label: "For Acme" })).body;
    const guest = await open({ width: 390, colorScheme: "light" });
    await guest.goto(`/m/${share.token}?range=24h`);
    t.match(await guest.locator("h1").textContent(), "Service 00");
    const rows = await guest.locator("section[aria-labelledby=regions] tbody tr").allTextContents();
    t.match(
      rows.find((row) => /default/i.test(row)),
      /\b4\d ms/,
      "p95 of its own region",
    );
    t.match(
      rows.find((row) => /New York/.test(row)),
      /\b1[56]\d ms/,
    );
    t.notMatch(await guest.content(), /10\.1\.2\.3|127\.0\.0\.1/, "no address of the monitor");
    await looksRight(t, guest, "a shared monitor");
    await guest.context().close();
  });

  await t.test("a visitor subscribes, confirms, chooses and unsubscribes", async (t) => {
    await subscribes(t, { browser, url, mailbox, scripts: true, email: "ann@example.org" });
  });

  await t.test("the page in the language of the visitor, and a subscription without scripts", async (t) => {
    const changed = await api.patch(`/api/v1/status-pages/${page.id}`, {
      branding: { ...page.branding, language: "auto", languages, timezone: "Europe/Berlin" },
    });
    t.equal(changed.status, 200, changed.text);
    const german = await open({ width: 390, colorScheme: "dark" });
    await german.setExtraHTTPHeaders({ "Accept-Language": "de-AT, en;q=0.5" });
    await waitFor("the page in German", async () => {
      await german.goto("/status");
      return (await german.locator("html").getAttribute("lang")) === "de";
    });
    t.match(await german.locator(".banner").getAttribute("data-label"), "Schwerer Systemausfall");
    t.match(await german.locator(".days").first().getAttribute("aria-label"), /Tage/);
    t.notMatch(await german.locator("main").innerText(), /Operational|Major outage|Past incidents|Components/);
    t.strictSame(await findings(german), []);
    t.equal(await german.evaluate(noSideways), true, "nothing is wider than the screen");
    await german.locator(".languages").getByText("العربية").click();
    t.equal(await german.locator("html").getAttribute("dir"), "rtl");
    t.strictSame(await findings(german), []);
    for (const language of languages) {
      await german.goto(`/status?lang=${language}`);
      t.equal(await german.locator("html").getAttribute("lang"), language);
      t.equal(await german.evaluate(noSideways), true, `${language}: nothing is wider than the screen`);
      // Texts of a language that nobody has written yet may be longer than all of these.
      if (!["en", "ar"].includes(language)) continue;
      await german.evaluate(longer);
      for (const width of [390, 1280]) {
        await german.setViewportSize({ width, height: 800 });
        t.equal(await german.evaluate(noSideways), true, `${language}: texts that are 40 % longer at ${width} px`);
      }
      await german.setViewportSize({ width: 390, height: 800 });
    }
    await german.context().close();
    await subscribes(t, { browser, url, mailbox, scripts: false, email: "bea@example.org", german: true });
  });
});

/** Makes every text of a page longer by 40 %, as a pseudo-language does. */
const longer = `
  for (const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT); walker.nextNode(); ) {
    const text = walker.currentNode;
    if (text.data.trim() !== "") text.data += text.data.trim().slice(0, Math.ceil(text.data.trim().length * 0.4));
  }`;

const noSideways = "document.documentElement.scrollWidth <= document.documentElement.clientWidth";

const words = {
  en: {
    sent: "Check your inbox",
    confirm: "Confirm your subscription",
    manage: "Your subscription",
    end: "Unsubscribed",
  },
  de: {
    sent: "Prüfen Sie Ihr Postfach",
    confirm: "Abonnement bestätigen",
    manage: "Ihr Abonnement",
    end: "Abbestellt",
  },
};

/** The way of a subscription in a browser: form, mailed link, choice of components, end. */
async function subscribes(
  t: Test,
  visit: { browser: Browser; url: string; mailbox: Mailbox; scripts: boolean; email: string; german?: boolean },
): Promise<void> {
  const { browser, url, mailbox, scripts, email } = visit;
  const said = visit.german === true ? words.de : words.en;
  const page = await openPage(
    t,
    await browser.newContext({
      baseURL: url,
      javaScriptEnabled: scripts,
      locale: visit.german === true ? "de-DE" : "en-GB",
      viewport: { width: 390, height: 800 },
      timezoneId: "Asia/Tokyo",
    }),
  );
  const heading = async (expected: string) => t.equal(await page.locator("h1").innerText(), expected);
  await page.goto("/status/subscribe");
  // axe runs as a script of the page.
  if (scripts) t.strictSame(await findings(page), [], "the form");
  t.equal(await page.locator("[name=time_zone]").inputValue(), scripts ? "Asia/Tokyo" : "", "times of the mails");
  await page.fill("#email", email);
  await page
    .locator("form", { has: page.locator("#email") })
    .locator("button[type=submit]")
    .click();
  await page.waitForURL(/done=mail/);
  await heading(said.sent);
  const mail = await waitFor("the mail with the link", () => mailbox.mails.find(({ to }) => to.includes(email)));
  const link = /\/status\/[\w-]+\/subscriptions\/[\w-]+/.exec(mail.text)![0];

  await page.goto(link);
  await page.goto(link);
  await heading(said.confirm);
  await page.locator("form button").click();
  await page.getByRole("heading", { level: 1, name: said.manage }).waitFor();
  if (scripts) t.strictSame(await findings(page), [], "the subscription");
  await page.locator("input[name=scope][value=some]").check();
  await page.locator("input[name=component_ids]").first().check();
  await page
    .locator("form", { has: page.locator("fieldset") })
    .locator("button")
    .click();
  await page.waitForURL(/saved=1/);
  t.equal(await page.locator("input[name=component_ids]:checked").count(), 1);
  t.equal(await page.locator("input[name=scope][value=some]").isChecked(), true);
  await page.locator("form[action$=unsubscribe] button").click();
  await page.waitForURL(/ended=1/);
  await heading(said.end);
  t.equal((await page.goto(link))?.status(), 404, "the address is deleted");
  await page.context().close();
}

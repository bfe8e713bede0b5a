import type { Dialog, Page } from "playwright-core";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { connect } from "../harness/api.ts";
import { findings, looksRight, openBrowser, openMenu, openPage } from "../harness/browser.ts";
import { freePort, startControlPlane } from "../harness/processes.ts";
import { requires } from "../harness/requires.ts";
import { startHttpTarget } from "../harness/servers.ts";
import { waitFor } from "../harness/wait.ts";

/*
 * An operator's first day in the console, in a real browser against real processes: sign in by the printed link, add a
 * monitor through the form after a slip, see it come up, go down and come back, tell a channel, publish a page, clean
 * up.
 */

/** Everything that a page of the console sends, packed as a browser asks for it. */
const maxPageBytes = 60_000;
const token = `sm_live_${"console".repeat(6)}`;
const operatorSecret = "operator-secret-of-the-console";
const longName = `${"A name that somebody pasted from a ticket ".repeat(5)}`.slice(0, 199).trim();

/** A PNG of one pixel. */
const pixel = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==",
  "base64",
);

const errorBeside = async (page: Page, label: string): Promise<string> =>
  (await page
    .locator(".field", { has: page.getByLabel(label, { exact: true }) })
    .locator(".error-note")
    .textContent()) ?? "";
/** Has the page ask for its live part now instead of within seconds. */
const poll = (page: Page) => page.evaluate("void document.dispatchEvent(new Event('visibilitychange'))");
const headline = (page: Page, word: string) => page.locator(".title h1 .pill", { hasText: word });

t.test("the console", async (t) => {
  if (!(await requires(t, "chromium"))) return;
  const shop = await startHttpTarget(t);
  const { url, signInLink } = await startControlPlane(t, {
    env: { SM_BOOTSTRAP__TOKEN: token, SM_OPERATOR__ADMIN_TOKEN: operatorSecret },
  });
  const api = connect(t, url, token);
  const browser = await openBrowser(t);
  const context = await browser.newContext({
    baseURL: url,
    viewport: { width: 1280, height: 800 },
    colorScheme: "light",
  });
  const page = await openPage(t, context);

  await t.test("the documentation of the API needs nothing that its policy forbids", async (t) => {
    const said: string[] = [];
    const docs = await context.newPage();
    // The viewer reads the whole document first, which takes long on a busy machine.
    docs.setDefaultTimeout(180_000);
    docs.on("console", (message) => said.push(message.text()));
    docs.on("pageerror", (error) => said.push(error.message));
    await docs.goto("/docs");
    await docs.locator("[data-content-id='post-/api/v1/targets/bulk']").click();
    await docs.getByText("Idempotency-Key").first().waitFor();
    const elements = await docs.evaluate("document.querySelector('rapi-doc').shadowRoot.querySelectorAll('*').length");
    t.ok((elements as number) < 3_000, `${String(elements)} elements: one operation is laid out, not all`);
    await docs.setViewportSize({ width: 390, height: 844 });
    await docs.getByLabel("Operation", { exact: true }).selectOption({ label: "List targets" });
    await docs.getByText("Page size.").first().waitFor();
    t.match(docs.url(), /#get-\/api\/v1\/targets$/, "a phone has a menu of the operations");
    t.equal(await docs.evaluate("document.documentElement.scrollWidth"), 390);
    t.strictSame(await findings(docs), []);
    t.strictSame(
      said.filter((text) => /content security policy|refused to/i.test(text)),
      [],
    );
    await docs.close();
  });

  await t.test("signing in by the link that the first start printed", async (t) => {
    await page.goto("/incidents?state=open");
    t.equal(
      new URL(page.url()).searchParams.get("next"),
      "/incidents?state=open",
      "a visitor without a session is redirected to sign-in",
    );
    for (let scans = 0; scans < 2; scans++)
      t.equal((await fetch(signInLink!)).status, 200, "a mail scanner may open the link");

    await page.getByLabel("Sign-in link").fill("not a link");
    await page.getByRole("button", { name: "Use link" }).click();
    await page.locator(".error-note").waitFor();
    t.match(
      await errorBeside(page, "Sign-in link"),
      "npm run -s statusmesh -- bootstrap-owner",
      "a wrong link says how to get a right one",
    );

    await page.getByLabel("Sign-in link").fill(signInLink!);
    await page.getByRole("button", { name: "Use link" }).click();
    await page.waitForURL("**/incidents?state=open");
    await page.getByRole("link", { name: "Later" }).click();
    await page.getByRole("link", { name: "Later" }).waitFor({ state: "detached" });
    t.match(page.url(), "/incidents?state=open", "the offer of a password is put off, and the page stays");

    await page.goto(signInLink!);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.locator("[data-form-error]").waitFor();
    t.match(await page.locator("[data-form-error]").textContent(), "used", "it works once");
  });

  await t.test("an empty list shows the next step", async (t) => {
    await page.goto("/");
    t.match(await page.locator(".empty").textContent(), /What should we watch.*curl -X POST/s);
    t.same(await findings(page), []);
    await page.keyboard.press("n");
    await page.waitForURL("**/monitors/new?address=");
  });

  await t.test("an address is understood as people type it", async (t) => {
    await page.goto("/");
    await page.getByLabel("Address to watch").fill("api.acme.dev:8443/health");
    await page.getByRole("button", { name: "Add monitor" }).click();
    await page.waitForURL("**/monitors/new?address=*");
    const url = page.locator("#http-check-url");
    await waitFor("the scheme", async () => (await url.inputValue()) === "https://api.acme.dev:8443/health");
    t.equal(await page.getByLabel("Name", { exact: true }).inputValue(), "api.acme.dev health");
    t.match(await page.locator(".read").textContent(), "Checked as https://api.acme.dev:8443/health");
    await page.getByRole("button", { name: "Use http" }).click();
    t.equal(await url.inputValue(), "http://api.acme.dev:8443/health");
    t.same(await findings(page), []);
    await page.getByRole("button", { name: "Check the port only" }).click();
    const host = page.getByLabel("Host", { exact: true }).locator("visible=true");
    const port = page.getByLabel("Port", { exact: true }).locator("visible=true");
    t.strictSame([await host.inputValue(), await port.inputValue()], ["api.acme.dev", "8443"]);
    await host.fill("db-1.acme.dev:5432");
    await port.focus();
    t.strictSame([await host.inputValue(), await port.inputValue()], ["db-1.acme.dev", "5432"]);
    await page.getByRole("radio", { name: "5 min", exact: true }).check();
    t.equal(await page.getByLabel("Check interval (seconds)").inputValue(), "300");
    page.once("dialog", (dialog) => void dialog.accept());
    await page.goto("/monitors/new");
    await url.fill(shop.url.replace("http://", ""));
    await url.press("Tab");
    await page.locator("#run .state.up").waitFor();
    t.match(await url.inputValue(), /^http:/, "a port that speaks no TLS is found");
    page.once("dialog", (dialog) => void dialog.accept());
    await page.goto("/monitors/new");
  });

  await t.test("adding a monitor, with a slip first", async (t) => {
    await page.getByLabel("Name", { exact: true }).fill("Checkout API");
    await page.locator("#http-check-url").fill("ftp://shop.example.org/");
    await page.getByText("Alerting and tags").click();
    await page.getByLabel("Tags").fill(`prod, ${"x".repeat(51)}`);
    await page.getByLabel("Repeat every (seconds)").fill("30");
    await page.getByText("Alerting and tags").click();
    await page.getByRole("button", { name: "Add monitor" }).click();
    await page.locator(".error-note").nth(2).waitFor();
    t.match(await errorBeside(page, "Tags"), "at most 50 characters", "all errors of the server are shown at once");
    t.match(
      await errorBeside(page, "Repeat every (seconds)"),
      "at least 60 seconds",
      "those behind a disclosure are brought to light",
    );
    t.match(
      await errorBeside(page, "URL"),
      /Start with http:\/\/ or https:\/\/.*ftp/,
      "the error stands beside the field that it is about",
    );
    t.equal(await page.locator("#http-check-url").getAttribute("aria-invalid"), "true");
    t.equal(await page.evaluate("document.activeElement.name"), "/check/url", "and the field has the focus");

    await page.locator("#http-check-url").fill(shop.url);
    t.equal(await page.locator(".error-note").count(), 2, "it goes when the field is corrected");
    await page.getByText("Advanced HTTP options").click();
    await page.locator('[data-when="/check/type=http"] summary', { hasText: "Expectations" }).click();
    await page.getByLabel("Accepted status codes").fill("20x");
    await page.getByRole("button", { name: "Run", exact: true }).click();
    t.match(await errorBeside(page, "Accepted status codes"), "200-299");
    await page.getByLabel("Accepted status codes").fill("200, 204");
    await page.locator("#http-check-headers").fill("Accept: text/plain\nX-Api-Key: hush");
    await page.getByLabel("User and password").check();
    await page.getByLabel("User", { exact: true }).fill("olga");
    await page.getByLabel("Password", { exact: true }).fill("hush");
    await page.getByRole("radio", { name: "Other" }).check();
    await page.getByLabel("Check interval (seconds)").fill("3");
    await page.getByRole("button", { name: "Add monitor" }).click();
    await page.locator(".error-note").first().waitFor();
    t.equal(await errorBeside(page, "Check interval (seconds)"), "Enter 10 seconds to 31 days.");
    await page.getByLabel("Check interval (seconds)").fill("10");
    await page.getByLabel("Tags").fill("prod, shop");
    await page.getByLabel("Repeat every (seconds)").fill("600");

    await page.getByRole("button", { name: "Run", exact: true }).click();
    // The test that runs by itself may have shown its result before.
    await page
      .locator("#run", { hasText: /Result: Up 200.*Connect.*First byte/s })
      .locator(".state.up")
      .waitFor();

    await page.getByRole("button", { name: "Add monitor" }).click();
    await page.waitForURL(/\/monitors\/[0-9a-f-]{36}$/);
    await headline(page, "Up").waitFor();
    t.pass("it comes up without a reload");
  });

  const { items } = (await api.get("/api/v1/targets")).body;
  const { id } = items[0];
  matchObject(t, items[0], {
    name: "Checkout API",
    tags: ["prod", "shop"],
    interval: 10,
    renotify_interval_secs: 600,
    write_source: "ui",
    check: {
      url: shop.url,
      expected_status: { kind: "one_of", value: [200, 204] },
      headers: { Accept: "text/plain", "X-Api-Key": "***" },
      basic_auth: ["olga", "***"],
      bearer_token: null,
    },
  });

  await t.test("editing sends what was changed, and keeps stored secrets", async (t) => {
    await openMenu(page);
    await page.getByRole("link", { name: "Edit" }).click();
    await page.getByLabel("Name", { exact: true }).fill("Checkout");
    const sent = page.waitForRequest((request) => request.method() === "PATCH");
    await page.getByRole("button", { name: "Save" }).click();
    t.same((await sent).postDataJSON(), { name: "Checkout" });
    await page.waitForURL(`**/monitors/${id}`);
    t.match(await page.locator("h1").textContent(), "Checkout");
    await page.getByRole("button", { name: "Check now" }).click();
    await page.locator("#run .state.up").waitFor();
    t.match(await page.locator("#run").textContent(), "Checked now: Up", "the stored credentials still work");
  });

  await t.test("an outage shows by itself, is explained and acknowledged", async (t) => {
    await page.goto("/monitors");
    await page.getByText("The only monitor is up.").waitFor();
    await page.setViewportSize({ width: 390, height: 844 });
    const top = (await page.locator(".panel.table").boundingBox())!.y;
    t.ok(top <= 200, `the list of a phone begins at ${top} px`);
    await page.locator("td.col-strip").click({ force: true });
    await page.waitForURL(`**/monitors/${id}`);
    await page.goto("/monitors");
    await page.setViewportSize({ width: 1280, height: 800 });
    shop.behave({
      status: 500,
      headers: { "Content-Type": "text/html", "Set-Cookie": "sid=hidden", "X-Debug": "<i>hush</i>" },
      body: "<script>document.title = 'hostile'</script>\nkey hush is refused",
    });
    await page.locator("[data-announce]", { hasText: "Checkout is down" }).waitFor();
    // The monitor is down before its incident opens.
    await waitFor("the title", async () => (await page.title()).startsWith("(1) Monitors"));
    t.match(await page.locator("#live-region").textContent(), "Checkout is down", "screen readers announce it");
    t.match(
      await page.locator("[data-announce]").textContent(),
      /Checkout is down since \d\d?:\d\d(?:\s[AP]M)?: HTTP 500 \(expected 200 or 204\)\./,
    );
    const badge = page.locator(".rail [data-badge]");
    const favicon = page.locator("link[rel=icon]");
    await badge.filter({ hasText: "1" }).waitFor();
    t.match(await favicon.getAttribute("href"), "favicon-down.svg");

    await context.setOffline(true);
    await poll(page);
    await poll(page);
    await page.locator(".stale", { hasText: "showing last known data" }).waitFor();
    t.match(await page.title(), /^Last known: \(1\) Monitors/, "an old title is marked as old");
    t.match(await favicon.getAttribute("href"), "favicon-unknown.svg");
    await context.setOffline(false);
    await poll(page);
    await page.locator(".stale").waitFor({ state: "detached" });
    t.match(await page.title(), /^\(1\) Monitors/);
    t.match(await favicon.getAttribute("href"), "favicon-down.svg");

    await page.getByRole("link", { name: "Checkout" }).click();
    t.match(await page.title(), /^Down: Checkout/);
    await page.getByText("No enabled channel is assigned to this monitor").waitFor();
    t.same(await findings(page), []);
    await page.keyboard.press("a");
    await page.getByText(/Acknowledged (now|\d+ s ago)/).waitFor();
    await page.getByRole("link", { name: "View incident" }).click();
    t.match(await page.locator("main").textContent(), /Failing.*2 failing|Failing/s);
    const response = page.locator(".responses details").first();
    await response.locator("summary").click();
    t.match(await response.textContent(), "HTTP/1.1 500 Internal Server Error");
    t.match(
      await response.getByRole("table").textContent(),
      /Content-Type\s*text\/html\s*Set-Cookie\s*\*\*\*\s*X-Debug\s*<i>\*\*\*<\/i>/,
      "a header with markup is text, and secrets are masked",
    );
    t.equal(
      await response.getByRole("group", { name: /^Body/ }).textContent(),
      "<script>document.title = 'hostile'</script>\nkey *** is refused",
    );
    t.notMatch(await page.title(), "hostile");
    const timeline = page.locator(".timeline");
    await page.getByRole("button", { name: "Undo acknowledgement" }).click();
    await timeline.getByText("Acknowledgement undone").waitFor();
    // On a phone the form is a sheet, which Escape closes with what is typed kept.
    await page.setViewportSize({ width: 390, height: 800 });
    const update = page.getByRole("button", { name: "Update", exact: true });
    const sheet = page.getByRole("dialog", { name: "Post an update" });
    await update.click();
    await sheet.waitFor();
    t.equal(await page.evaluate("document.activeElement.name"), "/message");
    t.same(await findings(page), [], "the sheet");
    await page.keyboard.type("We have found the cause.");
    await page.keyboard.press("Escape");
    await sheet.waitFor({ state: "detached" });
    t.equal(await page.evaluate("document.activeElement.textContent"), "Update", "the focus is back");
    await update.click();
    await sheet.getByRole("button", { name: "Post", exact: true }).click();
    await page.setViewportSize({ width: 1280, height: 800 });
    await timeline.getByText("We have found the cause.").waitFor();
    await page.getByText("Internal note", { exact: true }).click();
    await page.getByLabel("Message").fill("Failover is running.");
    await page.getByRole("button", { name: "Post", exact: true }).click();
    await timeline.getByText("Failover is running.").waitFor();
    t.equal(await timeline.locator(".badge", { hasText: "Internal" }).count(), 1);
    await page.getByRole("button", { name: "Edit" }).click();
    await page.getByLabel("Severity", { exact: true }).selectOption("critical");
    await page.getByRole("button", { name: "Save" }).click();
    await timeline.getByText("Severity set to critical").waitFor();
    t.same(await findings(page), []);
    await page.goto("/incidents");
    await page.getByRole("button", { name: "Acknowledge selected" }).click();
    await page.locator(".toast", { hasText: "Select at least one incident." }).waitFor();
    await page.getByLabel("Select incident of Checkout").check();
    await page.getByRole("button", { name: "Acknowledge selected" }).click();
    await page.getByText(/acknowledged by/).waitFor();
    await page.getByLabel("Severity").selectOption("minor");
    await page.waitForURL("**/incidents?severity=minor");
    await page.getByText("No matching incidents").waitFor();
    await page.goto(`/monitors/${id}`);
    await headline(page, "Down").waitFor();
    shop.behave({ status: 200 });
    await headline(page, "Up").waitFor();
    t.match(await page.title(), /^Up: Checkout/, "a page that stays open keeps its title true");
    t.ok(await badge.isHidden(), "and the badge");
    t.notMatch(await favicon.getAttribute("href"), "down", "and the favicon");
  });

  await t.test("one form saves settings and regions, and nothing that was typed is lost", async (t) => {
    t.equal(
      (await connect(t, url, operatorSecret).post("/operator/regions", { id: "eu", name: "Europe" })).status,
      201,
    );
    await page.goto(`/monitors/${id}/edit`);
    await page.getByLabel("Name", { exact: true }).fill("Checkout API");
    await page.getByRole("checkbox", { name: /Europe/ }).check();
    const asked: string[] = [];
    const stay = (dialog: Dialog): void => {
      asked.push(dialog.type());
      void dialog.dismiss();
    };
    page.on("dialog", stay);
    await page.locator(".rail").getByRole("link", { name: "Incidents" }).click({ noWaitAfter: true });
    await waitFor("the question before a link", () => asked.length >= 1);
    await page.evaluate("history.back()");
    await waitFor("the question before Back", () => asked.length >= 2);
    page.off("dialog", stay);
    t.same(asked, ["beforeunload", "beforeunload"]);

    const cookies = await context.cookies();
    await context.clearCookies();
    await page.getByRole("button", { name: "Save" }).click();
    const ended = page.getByRole("dialog", { name: "Your session has ended" });
    await ended.waitFor();
    t.same(await findings(page), []);
    t.equal(await ended.getByRole("link", { name: "Sign in" }).getAttribute("target"), "_blank");
    await context.addCookies(cookies);
    await page.evaluate("void window.dispatchEvent(new Event('focus'))");
    await ended.waitFor({ state: "detached" });
    t.equal(await page.getByLabel("Name", { exact: true }).inputValue(), "Checkout API", "what was typed is there");
    await page.getByRole("button", { name: "Save" }).click();
    await page.waitForURL(`**/monitors/${id}`);
    t.same((await api.get(`/api/v1/targets/${id}/regions`)).body, { regions: ["default", "eu"] });
    matchObject(t, (await api.get(`/api/v1/targets/${id}`)).body, { name: "Checkout API" });

    await page.goto(`/monitors/${id}/edit`);
    await page.getByLabel("Name", { exact: true }).fill("Checkout");
    for (const name of [/Europe/, /default/]) await page.getByRole("checkbox", { name }).uncheck();
    await page.getByRole("button", { name: "Save" }).click();
    const beside = page.locator("[data-request] .error-note");
    t.match(
      await beside.textContent(),
      /^The settings are saved, the regions are not\. /,
      "a half says that it is one",
    );
    matchObject(t, (await api.get(`/api/v1/targets/${id}`)).body, { name: "Checkout" });
    await page.getByRole("checkbox", { name: /default/ }).check();
    t.equal(await beside.count(), 0);
    const sent: string[] = [];
    const reads = new Set(["GET", "HEAD"]);
    page.on("request", (request) => void (reads.has(request.method()) || sent.push(request.method())));
    await page.getByRole("button", { name: "Save" }).click();
    await page.waitForURL(`**/monitors/${id}`);
    t.same(sent, ["PUT"], "what is saved already is not sent again");
    t.same((await api.get(`/api/v1/targets/${id}/regions`)).body, { regions: ["default"] });
  });

  await t.test("two tabs edit one monitor: the second is refused, and nothing is overwritten", async (t) => {
    const other = await openPage(t, context);
    for (const tab of [page, other]) await tab.goto(`/monitors/${id}/edit`);
    await page.getByLabel("Name", { exact: true }).fill("Checkout of the first tab");
    await page.getByRole("button", { name: "Save" }).click();
    await page.waitForURL(`**/monitors/${id}`);
    await other.getByLabel("Name", { exact: true }).fill("Checkout of the second tab");
    await other.getByRole("button", { name: "Save" }).click();
    await other.locator("[data-form-error]", { hasText: "This was changed by someone else" }).waitFor();
    t.equal(await other.getByLabel("Name", { exact: true }).inputValue(), "Checkout of the second tab");
    matchObject(t, (await api.get(`/api/v1/targets/${id}`)).body, { name: "Checkout of the first tab" });
    t.same(await findings(other), []);
    await other.reload();
    await other.getByLabel("Name", { exact: true }).fill("Checkout");
    await other.getByRole("button", { name: "Save" }).click();
    await other.waitForURL(`**/monitors/${id}`);
    matchObject(t, (await api.get(`/api/v1/targets/${id}`)).body, { name: "Checkout" });
    await other.close();
  });

  await t.test("a channel: an error first, then bound to the monitor", async (t) => {
    await page.goto("/channels");
    await page.keyboard.press("n");
    await page.waitForURL("**/channels/new");
    await page.getByLabel("Name", { exact: true }).fill("Ops");
    await page.getByRole("radio", { name: "Webhook" }).check();
    await page.getByLabel("URL", { exact: true }).fill("http://hooks.example.org/");
    await page.getByRole("button", { name: "Add channel" }).click();
    await page.locator(".error-note").waitFor();
    t.match(await errorBeside(page, "URL"), "https://");
    await page.getByLabel("URL", { exact: true }).fill("https://hooks.example.org/alerts");
    await page.getByRole("button", { name: "Add channel" }).click();
    await page.waitForURL("**/channels/*/edit#use");
    await page.getByText("Never tested").waitFor();
    t.equal(await page.getByLabel("Default for new monitors").isChecked(), true, "the first one is the default");
    await page.getByText("Used by 1 monitor.").waitFor();
    t.equal(await page.getByLabel("Notify it about the monitors that exist").count(), 0, "the first one only");
    await page.getByLabel("Replace destination").check();
    await page.getByLabel("URL", { exact: true }).fill(`https://127.0.0.1:${await freePort()}/typed`);
    const tested = page.waitForRequest("**/api/v1/notification-channels/test");
    await page.getByRole("button", { name: "Test", exact: true }).click();
    t.match((await tested).postDataJSON().config.url, /typed$/, "a test tries the address that is typed");
    await page.locator("[data-form-error]", { hasText: "connection refused" }).waitFor();
    await page.getByLabel("Keep stored destination").check();
    const kept = page.waitForRequest(/notification-channels\/[0-9a-f-]{36}\/test/);
    await page.getByRole("button", { name: "Test", exact: true }).click();
    t.equal((await kept).postData(), null, "and the stored one where that is kept");
    await page.locator("[data-form-error]", { hasText: "not delivered" }).waitFor();
    await page.getByLabel("Enabled", { exact: true }).uncheck();
    const sent = page.waitForRequest((request) => request.method() === "PATCH");
    await page.getByRole("button", { name: "Save" }).click();
    t.same((await sent).postDataJSON(), { enabled: false }, "the stored address stays");
    await page.waitForURL("**/channels");

    await page.goto(`/monitors/${id}/edit`);
    await page.getByRole("checkbox", { name: /Ops/ }).check();
    await page.getByRole("link", { name: "Add a channel" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("radio", { name: "ntfy" }).check();
    t.same(await findings(page), [], "the dialog");
    await dialog.getByLabel("Channel name").fill("Phone");
    await dialog.getByLabel("Topic").fill("no topic");
    await dialog.getByRole("button", { name: "Add channel" }).click();
    t.match(await dialog.locator(".error-note").textContent(), "1 to 64 letters");
    await dialog.getByLabel("Topic").fill("ops-alerts");
    await dialog.getByRole("button", { name: "Add channel" }).click();
    t.ok(
      await page.getByRole("checkbox", { name: /Phone/ }).isChecked(),
      "a channel is added without leaving the form",
    );
    await page.getByRole("button", { name: "Save" }).click();
    await page.waitForURL(`**/monitors/${id}`);
    t.equal((await api.get(`/api/v1/targets/${id}`)).body.alerts.length, 2);
  });

  await t.test("a status page with two monitors in order", async (t) => {
    const second = (
      await api.post("/api/v1/targets", {
        name: longName,
        check: { type: "tcp", host: "127.0.0.1", port: shop.port },
        interval: 10,
      })
    ).body;
    await page.goto("/status-pages/new");
    await page.getByLabel("Name", { exact: true }).fill("Acme status");
    await page.getByLabel("Slug").fill("A");
    await page.getByRole("button", { name: "Add status page" }).click();
    await page.locator(".error-note").waitFor();
    t.match(await errorBeside(page, "Slug"), /letters, digits or hyphens/);
    await page.getByLabel("Slug").fill("acme");
    await page.getByRole("button", { name: "Add status page" }).click();
    await page.waitForURL(/\/status-pages\/[0-9a-f-]{36}$/);
    const pageId = page.url().split("/").at(-1)!;
    for (const [at, target] of [id, second.id].entries()) {
      await page.locator(`#add-${target}`).check();
      await page.getByRole("button", { name: "Add to page" }).click();
      await page.locator(".components > li").nth(at).waitFor();
    }
    await page.getByRole("button", { name: "Move Checkout down" }).click();
    await waitFor(
      "the new order",
      async () => (await api.get(`/api/v1/status-pages/${pageId}/components`)).body.items[0]?.target_id === second.id,
    );
    t.same(await findings(page), []);
    await page.setViewportSize({ width: 1280, height: 800 });
    await page.reload();
    const widthOf = () => page.evaluate("document.querySelector('.preview iframe').offsetWidth");
    await page.getByRole("button", { name: "Phone", pressed: true }).waitFor();
    t.equal(await widthOf(), 390, "as wide as can be read");
    await page.getByRole("button", { name: "Desktop" }).click();
    t.equal(await widthOf(), 1280);
    await page.goto(`/status-pages/${pageId}/edit`);
    await page.getByLabel("Heading").fill("How we are");
    await page.getByLabel("Choose brand colour").fill("#00aa88");
    t.equal(await page.getByLabel("Brand colour", { exact: true }).inputValue(), "#00aa88");
    await page.getByRole("button", { name: "Save" }).click();
    await page.waitForURL(`**/status-pages/${pageId}`);
    matchObject(t, (await api.get(`/api/v1/status-pages/${pageId}`)).body.branding, {
      display_name: "How we are",
      brand_color: "#00aa88",
      style: "auto",
    });

    // Logos are saved with the form: shown before, refused beside their field, removed by a checkbox.
    await page.goto(`/status-pages/${pageId}/edit`);
    await page.getByLabel("Heading").fill("How we feel");
    const logo = page.getByLabel("Logo", { exact: true });
    await logo.setInputFiles({ name: "logo.svg", mimeType: "image/png", buffer: Buffer.from("<svg/>") });
    await page.getByRole("button", { name: "Save" }).click();
    await page.locator(".error-note").waitFor();
    t.match(await errorBeside(page, "Logo"), /The other fields are saved.*no PNG, JPEG or WebP/);
    const png = { name: "logo.png", mimeType: "image/png", buffer: pixel };
    await logo.setInputFiles(png);
    await page.getByLabel("Logo for dark mode").setInputFiles(png);
    await page.getByAltText("Logo for dark mode, preview").waitFor();
    await page.getByRole("button", { name: "Save" }).click();
    await page.waitForURL(`**/status-pages/${pageId}`);
    const { branding, ...stored } = (await api.get(`/api/v1/status-pages/${pageId}`)).body;
    matchObject(t, [branding.display_name, stored.logo_url, stored.logo_dark_url], ["How we feel", String, String]);
    await page.goto(`/status-pages/${pageId}/edit`);
    await page.getByLabel("Remove").first().check();
    await page.getByRole("button", { name: "Save" }).click();
    await page.waitForURL(`**/status-pages/${pageId}`);
    matchObject(t, (await api.get(`/api/v1/status-pages/${pageId}`)).body, { logo_url: null, logo_dark_url: String });
  });

  await t.test("keys", async (t) => {
    await page.goto("/monitors");
    await page.keyboard.press("/");
    await page.keyboard.type("check");
    await page.waitForURL("**/monitors?q=check");
    await waitFor("the list to narrow", async () => (await page.locator("tbody tr").count()) === 1);
    t.equal(await page.getByLabel("Search monitors").inputValue(), "check", "the field is left alone meanwhile");
    await page.getByLabel("Search monitors").press("Tab");
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keys" }).waitFor();
    await page.keyboard.press("Escape");
    await page.goto("/monitors");
    await page.keyboard.press("Tab");
    t.equal(await page.evaluate("document.activeElement.className"), "skip", "the first stop is the skip link");
  });

  await t.test("a monitor and a status page by keyboard alone", async (t) => {
    const focused = async (expression: string) => await page.evaluate(`document.activeElement.${expression}`);
    await page.keyboard.press("Escape");
    await page.keyboard.press("n");
    await page.waitForURL("**/monitors/new");
    await page.locator("main").focus();
    const stops: unknown[] = [];
    while (stops.at(-1) !== "every" && stops.length < 9) {
      await page.keyboard.press("Tab");
      stops.push(await focused("name"));
      t.not(await focused("matches(':focus-visible')"), false, "a visible focus");
    }
    t.strictSame(stops.slice(-4), ["/check/type", "/check/url", "/name", "every"]);
    await page.locator("#http-check-url").focus();
    await page.keyboard.type("ftp://shop.example.org/");
    await page.keyboard.press("Enter");
    await page.locator(".error-note").first().waitFor();
    t.equal(await focused("ariaInvalid"), "true", "Enter sends the form, and the focus is where its error is");
    page.once("dialog", (dialog) => void dialog.accept());

    const { id: pageId } = (await api.get("/api/v1/status-pages")).body.items[0];
    await page.goto(`/status-pages/${pageId}`);
    const components = async () => (await api.get(`/api/v1/status-pages/${pageId}/components`)).body.items;
    const [first, second] = await components();
    await page.locator(`[data-id="${first.id}"] [data-send]`).focus();
    await page.keyboard.press("Enter");
    await waitFor("the next component to have the focus", async () => {
      const id = await page.evaluate("document.activeElement.closest('[data-id]')?.dataset.id");
      return id === second.id && (await components()).length === 1;
    });
    await page.evaluate("document.body.dataset.same = 'yes'");
    await page.getByLabel("Search monitors").focus();
    await page.keyboard.type(first.monitor_name.slice(0, 8));
    await page.keyboard.press("Enter");
    await page.locator(`#add-${first.target_id}`).waitFor();
    t.equal(await page.evaluate("document.body.dataset.same"), "yes", "Enter does not load the page again");
    await page.locator(`#add-${first.target_id}`).focus();
    await page.keyboard.press("Space");
    await page.locator("#add-to-page").focus();
    await page.keyboard.press("Enter");
    await waitFor("both components", async () => (await components()).length === 2);
    await waitFor("the focus to be in the list", async () => (await focused("localName")) !== "body");
  });

  const incident = (await api.get("/api/v1/incidents")).body.items[0];
  const statusPage = (await api.get("/api/v1/status-pages")).body.items[0];
  const channel = (await api.get("/api/v1/notification-channels")).body.items[0];
  const paths = [
    "/monitors",
    `/monitors/${id}`,
    `/monitors/${id}/edit`,
    "/monitors/new",
    "/incidents",
    `/incidents/${incident.id}`,
    "/channels",
    "/channels/new",
    `/channels/${channel.id}/edit`,
    "/status-pages",
    `/status-pages/${statusPage.id}`,
    `/status-pages/${statusPage.id}/edit`,
    "/settings",
    "/sign-in",
    "/sign-in/some-code",
    "/nowhere",
  ];

  await t.test("every page can be read by everyone, in light and dark, wide and narrow", async (t) => {
    for (const path of paths) {
      await page.goto(path);
      // One of the names has 199 characters.
      await looksRight(t, page, path);
    }
  });

  await t.test("the theme that was chosen is remembered", async (t) => {
    await page.goto("/settings");
    const theme = (name: string) => page.locator(".rail").getByRole("radio", { name });
    await theme("Dark").check();
    await page.reload();
    t.equal(await page.evaluate("document.documentElement.dataset.theme"), "dark");
    t.equal(await page.evaluate("getComputedStyle(document.body).colorScheme"), "dark");
    await theme("System").check();
    await page.reload();
    t.ok(await theme("System").isChecked());
    t.equal(await page.evaluate("document.documentElement.dataset.theme"), undefined, "the system decides again");
  });

  await t.test("pages are light", async (t) => {
    for (const path of ["/monitors", `/monitors/${id}`, "/monitors/new", "/settings"]) {
      const fresh = await browser.newContext({ baseURL: url, storageState: await context.storageState() });
      const other = await openPage(t, fresh);
      const sizes: Promise<number>[] = [];
      // The font is loaded once, and judged in platform/html/views.test.ts.
      other.on("requestfinished", (request) => {
        if (request.resourceType() !== "font") sizes.push(request.sizes().then((size) => size.responseBodySize));
      });
      await other.goto(path, { waitUntil: "networkidle" });
      const bytes = (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
      t.comment(`${path} weighs ${bytes} bytes`);
      t.ok(bytes > 5000 && bytes <= maxPageBytes, `${path} weighs ${bytes} bytes, at most ${maxPageBytes}`);
      await fresh.close();
    }
  });

  await t.test("everything can be read without JavaScript", async (t) => {
    const plain = await browser.newContext({
      baseURL: url,
      storageState: await context.storageState(),
      javaScriptEnabled: false,
    });
    const other = await plain.newPage();
    await other.goto("/monitors");
    t.match(await other.locator("table").innerText(), /State[\s\S]*Checkout/);
    await other.getByLabel("Search monitors").fill("nothing like it");
    await other.getByRole("button", { name: "Search" }).click();
    t.match(await other.locator("main").innerText(), "No matching monitors");
    await other.goto("/monitors/new");
    t.match(await other.locator("main").innerText(), "Saving needs JavaScript");
    await other.goto(`/monitors/${id}`);
    t.equal(await other.getByRole("button", { name: "Pause" }).count(), 0, "no button that does nothing");
    await plain.close();
  });

  await t.test("pausing, and deleting with time to undo it", async (t) => {
    await page.goto(`/monitors/${id}`);
    await openMenu(page);
    await page.getByRole("button", { name: "Pause" }).click();
    await headline(page, "Paused").waitFor();
    await page.getByRole("button", { name: "Resume" }).click();
    await headline(page, "Paused").waitFor({ state: "detached" });

    await openMenu(page);
    await page.getByRole("button", { name: "Delete" }).click();
    const dialog = page.getByRole("dialog");
    t.match(await dialog.textContent(), "Delete Checkout with results and incidents?");
    t.same(await findings(page), []);
    await dialog.getByRole("button", { name: "Delete" }).click();
    await page.waitForURL("**/monitors");
    await page.locator("#undo", { hasText: "will be deleted in 10 s" }).waitFor();
    await page.locator(".toast", { hasText: "1 monitor deleted." }).waitFor();
    t.equal((await api.get(`/api/v1/targets/${id}`)).status, 404);
    await page.goto(`/monitors/${id}`);
    t.match(await page.locator("h1").textContent(), "Monitor not found");
    const other = (await api.get("/api/v1/targets")).body.items[0];
    await page.goto(`/monitors/${other.id}`);
    await api.delete(`/api/v1/targets/${other.id}`);
    await poll(page);
    await page.getByRole("heading", { name: "Monitor not found" }).waitFor();
    t.match(await page.title(), "Monitor not found", "a page that was open says so too");
  });

  await t.test("signing out", async (t) => {
    await page.goto("/settings");
    await page.locator("main").getByRole("button", { name: "Sign out" }).click();
    await page.waitForURL("**/sign-in");
    await page.goto("/monitors");
    t.match(page.url(), "/sign-in?next=");
  });
});

import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { extname, join } from "node:path";
import type { BrowserContext, Page } from "playwright-core";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { connect } from "../harness/api.ts";
import { findings, looksRight, openBrowser, openPage } from "../harness/browser.ts";
import { startControlPlane } from "../harness/processes.ts";
import { requires } from "../harness/requires.ts";
import { tempFolder } from "../harness/folder.ts";
import { waitFor } from "../harness/wait.ts";

/* Planned and unplanned interruptions as an operator announces them, in a browser in another zone than the server's. */

const token = `sm_live_${"announce".repeat(6)}`;

t.test("communication", async (t) => {
  if (!(await requires(t, "chromium"))) return;
  const copy = tempFolder(t, "copy");
  const { url, signInLink, stop } = await startControlPlane(t, {
    env: {
      SM_BOOTSTRAP__TOKEN: token,
      SM_SECURITY__ALLOW_PRIVATE_TARGETS: "true",
      SM_MIRROR__TARGETS: JSON.stringify([{ page: "copied", directory: copy }]),
    },
  });
  const api = connect(t, url, token);
  const check = { type: "http", url: `${url}/healthz` };
  for (const name of ["Checkout API", "Search"])
    await api.post("/api/v1/targets", { name, check, interval: 60, tags: ["shop"] });
  const browser = await openBrowser(t);
  const context: BrowserContext = await browser.newContext({
    baseURL: url,
    viewport: { width: 1280, height: 800 },
    colorScheme: "light",
    timezoneId: "Asia/Kolkata",
  });
  const page: Page = await openPage(t, context);
  await page.goto("/maintenance");
  await page.getByLabel("Sign-in link").fill(signInLink!);
  await page.getByRole("button", { name: "Use link" }).click();
  await page.waitForURL("**/maintenance");

  await t.test("a weekly window is scheduled in the reader's zone, by search and by tag", async (t) => {
    await page.getByRole("link", { name: "Schedule maintenance" }).first().click();
    await page.waitForURL("**/maintenance/new");
    t.equal(await page.getByLabel("Time zone").inputValue(), "Asia/Calcutta");
    t.same(await findings(page), []);
    await page.getByLabel("Title").fill("Database upgrade");
    await page.getByLabel("Search monitors").fill("check");
    await page.getByRole("button", { name: "Add Checkout API" }).click();
    await page.getByRole("button", { name: "Add all" }).click();
    await page.getByText("2 monitors", { exact: true }).waitFor();
    await page.getByLabel("Start", { exact: true }).fill("2126-11-21T23:30");
    await page.getByLabel("End", { exact: true }).fill("2126-11-22T01:30");
    await page.getByLabel("Repeats").selectOption("weekly");
    await page.getByText("Lasts 2 h.").waitFor();
    await page.getByLabel("Ends").selectOption("count");
    await page.getByLabel("Occurrences").fill("3");
    await page.getByRole("button", { name: "Schedule maintenance" }).click();
    await page.waitForURL(/\/maintenance\/[0-9a-f-]{36}$/);
    const [made] = (await api.get("/api/v1/maintenance")).body.items;
    matchObject(t, made, {
      starts_at: "2126-11-21T18:00:00.000Z",
      ends_at: "2126-11-21T20:00:00.000Z",
      recurrence: { rule: "FREQ=WEEKLY;BYDAY=TH;COUNT=3", time_zone: "Asia/Calcutta" },
    });
    t.equal(made.component_ids.length, 2);
    t.match(await page.locator("main").textContent(), /Every week on Thursday, 3 times \(Asia\/Calcutta\)/);
  });

  await t.test("one occurrence is skipped and brought back; an edit keeps what it does not touch", async (t) => {
    const first = page.locator("tbody tr").first();
    await first.getByRole("button", { name: "Skip" }).click();
    await first.getByText("Skipped").waitFor();
    t.same(await findings(page), []);
    await first.getByRole("button", { name: "Restore" }).click();
    await first.getByText("Upcoming").waitFor();
    await page.getByRole("link", { name: "Edit" }).click();
    await page.waitForURL("**/edit");
    t.equal(await page.getByLabel("Start", { exact: true }).inputValue(), "2126-11-21T23:30");
    await page.getByLabel("Title").fill("Database upgrade of the shop");
    await page.getByRole("checkbox", { name: "Search", exact: true }).uncheck();
    await page.getByRole("button", { name: "Save" }).click();
    await page.waitForURL(/\/maintenance\/[0-9a-f-]{36}$/);
    const [changed] = (await api.get("/api/v1/maintenance")).body.items;
    matchObject(t, changed, { title: "Database upgrade of the shop", starts_at: "2126-11-21T18:00:00.000Z" });
    t.equal(changed.component_ids.length, 1);
  });

  await t.test("a window in progress is on the overview and on its monitor, and ends now", async (t) => {
    const [monitor] = (await api.get("/api/v1/targets?q=Checkout")).body.items;
    const at = (ms: number) => new Date(Date.now() + ms).toISOString();
    await api.post("/api/v1/maintenance", {
      title: "Network switch",
      starts_at: at(-60_000),
      ends_at: at(3_600_000),
      component_ids: [monitor.id],
    });
    await page.goto("/monitors");
    await page.locator("#notices summary", { hasText: "Network switch" }).click();
    await page.getByText("Maintenance in progress:").waitFor();
    await page.goto(`/monitors/${monitor.id}`);
    t.match(await page.locator(".why.maintenance").textContent(), /Network switch,\s+ends in/);
    await page.goto("/maintenance?view=calendar");
    await page.locator(".event", { hasText: "Network switch" }).first().click();
    await page.getByRole("button", { name: "End now" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "End now" }).click();
    await page.locator(".title .pill", { hasText: "Completed" }).waitFor();
    await page.goto("/maintenance?view=past");
    t.match(await page.locator("main").textContent(), /Network switch/);
    t.same(await findings(page), []);
  });

  await t.test("an incident is reported by hand, with a preview, and closed by hand", async (t) => {
    const [monitor] = (await api.get("/api/v1/targets?q=Search")).body.items;
    await page.goto("/incidents");
    await page.getByRole("link", { name: "Report an incident" }).click();
    await page.waitForURL("**/incidents/new");
    await page.getByLabel("Title").fill("Results are stale");
    await page.getByRole("button", { name: "Report incident" }).click();
    await page.locator(".error-note").first().waitFor();
    await page.getByLabel("First update").fill("The index is being rebuilt.\nNext update at noon.");
    await page.getByLabel("Search monitors").fill("sear");
    await page.getByRole("button", { name: "Choose Search" }).click();
    t.match(await page.locator(".preview").textContent(), /Results are stale.*Investigating.*being rebuilt/s);
    t.same(await findings(page), []);
    await page.getByRole("button", { name: "Report incident" }).click();
    await page.waitForURL(/\/incidents\/[0-9a-f-]{36}$/);
    t.match(await page.locator("main").textContent(), /Reported manually/);
    matchObject(t, (await api.get("/api/v1/incidents")).body.items[0], {
      target_id: monitor.id,
      opened_by: "person",
      public_title: "Results are stale",
    });
    t.same(await findings(page), []);
    await page.getByRole("button", { name: "Resolve" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Resolve" }).click();
    await page.locator(".title .pill", { hasText: "Closed" }).waitFor();
    await page.goto("/settings/audit");
    const log = (await page.getByRole("table").textContent())?.replaceAll(/\s+/g, " ");
    for (const entry of ["Closed incident Search", "Reported incident Search"]) matchObject(t, log, entry);
    const unnamed = page.locator("tr", { hasText: "incident" }).getByText(/^…/);
    t.equal(await unnamed.count(), 0, "no entry of an incident shows an id in place of a name");
  });

  await t.test("a component without a monitor is added, its state is set by hand, and visitors see it", async (t) => {
    const { id } = (await api.post("/api/v1/status-pages", { slug: "acme", name: "Acme status" })).body;
    await api.post(`/api/v1/status-pages/${id}/components/bulk`, {
      target_ids: (await api.get("/api/v1/targets?q=Checkout")).body.items.map((one: { id: string }) => one.id),
    });
    await page.goto(`/status-pages/${id}`);
    await page.getByText("Add a component without a monitor").click();
    const form = page.locator("#add-manual form");
    await form.getByRole("button", { name: "Add component" }).click();
    await form.locator(".error-note").waitFor();
    await form.getByLabel("Name").fill("Telephone");
    await form.getByLabel("Group").fill("Office");
    await looksRight(t, page, "the builder");
    await form.getByRole("button", { name: "Add component" }).click();
    const row = page.locator(".components > li", { hasText: "Telephone" });
    await row.getByLabel("State").selectOption("Partial outage");
    // A message of the addition may still be shown.
    await Promise.all([
      page.waitForResponse((response) => response.request().method() === "PATCH" && response.ok()),
      row.getByRole("button", { name: "Set state of Telephone" }).click(),
    ]);
    matchObject(t, (await api.get(`/api/v1/status-pages/${id}/components`)).body.items[1], {
      public_name: "Telephone",
      public_group: "Office",
      state: "partial_outage",
    });
    await page.goto("/status");
    await page.getByText("Telephone partial outage").first().waitFor();
    t.same(await findings(page), []);
  });

  await t.test("a phone is registered, shows a push message and acknowledges from it", async (t) => {
    await context.grantPermissions(["notifications"]);
    const phone = await openPage(t, context);
    await phone.setViewportSize({ width: 390, height: 844 });
    // The push service of a browser is foreign: its subscription is replaced, with keys of RFC 8291 section 5.
    // Chromium's headless shell has no notifications: the permission, and what shows them, are replaced too.
    await phone.addInitScript(`
      Object.defineProperty(Notification, "permission", { get: () => "granted" });
      const p256dh = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
      const keys = { p256dh, auth: "BTBZMqHH6r4Tts7J_aSIgg" };
      PushManager.prototype.subscribe = async ({ applicationServerKey: key, userVisibleOnly }) => {
        if (!/^[A-Za-z0-9_-]{87}$/.test(key) || !userVisibleOnly) throw new Error("not as the standard says");
        return { toJSON: () => ({ endpoint: "https://push.example.org/1", expirationTime: null, keys }) };
      };
    `);
    await phone.goto("/channels");
    const box = phone.locator("#devices");
    await box.getByLabel("Device name").fill("Pixel 9");
    await box.getByText("Hide monitor names").click();
    await looksRight(t, phone, "the box of devices");
    await box.getByRole("button", { name: "Notify this device" }).click();
    await phone.waitForURL(/\/channels\/[0-9a-f-]{36}\/edit/);
    const [device] = (await api.get("/api/v1/notification-channels/devices")).body.items;
    matchObject(t, device, { name: "Pixel 9", config: { type: "web_push", endpoint: "***", private: true } });
    const manifest = await phone.evaluate(
      `fetch(document.querySelector("link[rel=manifest]").href).then((r) => r.json())`,
    );
    matchObject(t, manifest, { start_url: "/oncall", display: "standalone" });

    const worker = context.serviceWorkers()[0] ?? (await context.waitForEvent("serviceworker"));
    const devtools = await context.newCDPSession(phone);
    const registration = new Promise<string>((resolve) =>
      devtools.on("ServiceWorker.workerRegistrationUpdated", ({ registrations }) => {
        if (registrations[0] !== undefined) resolve(registrations[0].registrationId);
      }),
    );
    await devtools.send("ServiceWorker.enable");
    const registrationId = await registration;
    const deliver = (data: string) =>
      devtools.send("ServiceWorker.deliverPushMessage", { origin: url, registrationId, data });
    await worker.evaluate(`self.all = []; registration.showNotification = async (title, options) => {
      all.push({ ...options, title });
    }`);
    const shown = async (title: RegExp) => {
      for (;;) {
        const last = await worker.evaluate<{ title: string; body: string; tag: string; actions: object[] } | undefined>(
          "all.at(-1)",
        );
        if (last !== undefined && title.test(last.title)) return last;
        await phone.waitForTimeout(50);
      }
    };
    const press = (action: string) =>
      worker.evaluate(`void dispatchEvent(Object.assign(new Event("notificationclick"), {
        action: "${action}", notification: { data: all.at(-1).data, close() {} }, waitUntil() {},
      }))`);
    const message = { title: "Down: Checkout API", body: "Cause: 503", url: `${url}/oncall`, tag: "a" };
    await deliver(JSON.stringify({ ...message, acknowledge_url: `${url}/a/token`, sent_at: Date.now() }));
    matchObject(t, await shown(/^Down: Checkout API$/), { body: "Cause: 503", tag: "a", renotify: true });
    await press("acknowledge");
    matchObject(t, await shown(/^Not acknowledged: Down/), { body: /^This link is not valid/ }, "a wrong token");
    await worker.evaluate(`self.fetch = async (...request) => {
      self.sent = JSON.stringify(request);
      return new Response(null, { status: 204 });
    }`);
    await press("acknowledge");
    matchObject(t, await shown(/^Acknowledged: /), { actions: [{ action: "open" }] });
    t.equal(await worker.evaluate("self.sent"), '["/a/token",{"method":"POST"}]');
    await deliver("no JSON");
    await shown(/^StatusMesh$/);
  });

  await t.test("a copy of the page outlives the server, shows the outage and says its age", async (t) => {
    const { id } = (await api.post("/api/v1/status-pages", { slug: "copied", name: "Copied" })).body;
    const [monitor] = (await api.get("/api/v1/targets?q=Search")).body.items;
    await api.post(`/api/v1/status-pages/${id}/components`, { target_id: monitor.id });
    const outage = { public_title: "Search is down", severity: "major", message: "We **look** into it." };
    t.equal((await api.post("/api/v1/incidents", { target_id: monitor.id, ...outage })).status, 201);
    const file = (path: string) => join(copy, path);
    await waitFor("the outage in the copy", () => {
      const index = existsSync(file("index.html")) ? readFileSync(file("index.html"), "utf8") : "";
      return index.includes("Search is down") && existsSync(file("heartbeat.json"));
    });
    await stop("SIGKILL");
    await t.rejects(fetch(`${url}/healthz`), "nothing else answers");
    // A plain file server, whose clock goes on: 12 minutes later.
    let ahead = 0;
    const types: Record<string, string> = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css" };
    const server = createServer((request, response) => {
      const path = file(new URL(request.url!, "http://copy.invalid").pathname.replace(/\/$/, "/index.html"));
      response.setHeader("Date", new Date(Date.now() + ahead).toUTCString());
      if (!existsSync(path)) return void response.writeHead(404).end();
      const type = types[extname(path)] ?? (extname(path) === ".svg" ? "image/svg+xml" : "application/json");
      response.writeHead(200, { "Content-Type": type }).end(readFileSync(path));
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    t.teardown(() => server.close());
    const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const visitor = await openPage(t, await browser.newContext({ colorScheme: "light", timezoneId: "Asia/Tokyo" }));
    await visitor.goto(`${origin}/`);
    const note = visitor.locator("[data-beat]");
    t.match(await note.textContent(), /^Copy of the status page\. Last change: /, "fresh");
    ahead = 12 * 60_000;
    await visitor.reload();
    await visitor.getByText("Last update 12 minutes ago").waitFor();
    t.match(await visitor.locator(".banner").textContent(), /Search is down/);
    await looksRight(t, visitor, "the copy");
    await visitor.getByRole("link", { name: "Search is down" }).first().click();
    await visitor.locator(".timeline strong", { hasText: "look" }).waitFor();
    await visitor.getByText("Last update 12 minutes ago").waitFor();
    await visitor.getByRole("link", { name: "Current status" }).click();
    await visitor.getByRole("link", { name: "All incidents" }).click();
    await visitor.getByText("Ongoing").waitFor();
    t.equal((await visitor.goto(`${origin}/status.json`))?.status(), 200);
  });
});

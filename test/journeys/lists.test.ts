import type { Page } from "playwright-core";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { type Client, connect } from "../harness/api.ts";
import { findings, looksRight, openBrowser, openMenu, openPage } from "../harness/browser.ts";
import { cloneDatabase } from "../harness/database.ts";
import { startControlPlane } from "../harness/processes.ts";
import { requires } from "../harness/requires.ts";
import { waitFor } from "../harness/wait.ts";

/*
 * Many monitors in a browser: an outage of one host is one line, lists are sorted and grouped, monitors are changed
 * together, imported and cloned.
 */

const token = `sm_live_${"outages".repeat(6)}`;

/** Rows of the list that are monitors, by name. */
const names = async (page: Page): Promise<string[]> =>
  await page.locator("tbody tr:not(.cause) th .name").allTextContents();
const chosen = (page: Page) => page.getByRole("region", { name: "Selected monitors" });
const toast = (page: Page, text: string) => page.locator(".toast", { hasText: text });

const total = async (api: Client, query = ""): Promise<number> =>
  (await api.get(`/api/v1/targets?limit=1${query}`)).body.total;

t.test("many monitors", async (t) => {
  if (!(await requires(t, "chromium"))) return;
  const database = await cloneDatabase(t);
  const { sql } = database;
  const { url, signInLink } = await startControlPlane(t, {
    env: {
      ...database.env,
      SM_BOOTSTRAP__TOKEN: token,
      SM_SCHEDULER__BUILTIN_AGENT: "false",
      SM_CHANNELS__TELEGRAM__BOT_TOKEN: "42:secret-token",
      SM_CHANNELS__TELEGRAM__BOT_USERNAME: "status_bot",
      SM_CHANNELS__TELEGRAM__WEBHOOK_SECRET: "0123456789abcdef",
    },
  });
  const api = connect(t, url, token);
  const http = (name: string, host: string, tags: string[]) => ({
    name,
    tags,
    check: { type: "http", url: `https://${host}/${name}`, headers: { "X-Api-Key": "hush" } },
  });
  const made = await api.post("/api/v1/targets/bulk", [
    ...Array.from({ length: 60 }, (_, n) => http(`db-${n}`, "db-1.example.org", ["team/core"])),
    ...["alpha", "beta"].map((name) => http(name, `${name}.example.org`, ["team/web", "shop"])),
    http("solo", "solo.example.org", []),
  ]);
  const ids: string[] = made.body.map(({ id }: { id: string }) => id);
  const down = [...ids.slice(0, 60), ids.at(-1)!];
  await sql`
    update target_states set status_until = now() + interval '1 day', last_result_at = now(),
      status_since = now() - interval '5 minutes',
      status = case when target_id = any(${down}) then 'down' else 'up' end`;
  await sql`
    insert into incidents (id, org_id, target_id, started_at, opened_at, outage_since, severity, impact, peak_impact,
      error_sample, regions_down, regions_up, retracted, created_at, updated_at)
    select t.id, t.org_id, t.id, now() - interval '5 minutes', now(), now() - interval '5 minutes', 'major',
      'major_outage', 'major_outage', 'connection refused', '{default}', '{}', false, now(), now()
    from targets t where t.id = any(${down})`;

  const browser = await openBrowser(t);
  const context = await browser.newContext({
    baseURL: url,
    viewport: { width: 1280, height: 800 },
    timezoneId: "Asia/Tokyo",
  });
  const page = await openPage(t, context);
  await page.goto(signInLink!);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.waitForURL(`${url}/`);
  await page.getByRole("link", { name: "Later" }).click();

  await t.test("an outage of one host is one line, which opens to its monitors", async (t) => {
    const said = (await page.locator(".say[data-announce]").textContent())?.replaceAll(/\s+/g, " ");
    t.match(said, /db-1.example.org: 60 monitors are down since .*: connection refused. 1 other monitor fails: solo. /);
    t.match(said, "2 monitors are up.");
    t.strictSame(await names(page), ["solo", "alpha", "beta"]);
    await looksRight(t, page, "the list in an outage");
    const height = "getComputedStyle(document.querySelector('.strip .none')).strokeWidth";
    t.equal(await page.evaluate(height), "4px", "states differ in height, not only in colour");
    await page.getByRole("link", { name: "db-1.example.org: connection refused" }).click();
    await page.waitForURL(/cause=host%3Adb-1.example.org/);
    t.equal((await names(page)).length, 50);
    await page.getByRole("link", { name: "Next" }).click();
    await page.waitForURL(/offset=50/);
    t.equal((await names(page)).length, 10);
    await page.goto("/monitors?cause=host:gone.example.org&tag=nothing");
    await page.getByText("A saved link may contain").waitFor();
    await page.locator(".empty").getByRole("link", { name: "Clear filters" }).click();
    await page.waitForURL("**/monitors");
  });

  await t.test("a monitor is pinned by Ctrl-K; rows are walked with j, k and Enter; a tooltip follows", async (t) => {
    await page.goto(`/monitors/${ids[60]}`);
    const beats = page.locator(".beatbox");
    await beats.focus();
    await page.keyboard.press("ArrowLeft");
    await page.locator(".beatbox .tip").filter({ hasText: "No data" }).waitFor();
    t.same(await findings(page), [], "a tooltip");
    await page.keyboard.press("Control+k");
    const palette = page.getByRole("dialog", { name: "Search" });
    await palette.getByRole("combobox").fill("pin");
    await palette.getByRole("option", { name: /^Pin/ }).waitFor();
    await page.keyboard.press("Enter");
    await toast(page, "Pinned").waitFor();
    await page.goto("/monitors");
    await page.locator(".sec", { hasText: "Pinned 1" }).waitFor();
    t.strictSame(await names(page), ["alpha", "solo", "beta"]);
    for (const key of ["j", "j", "k"]) await page.keyboard.press(key);
    t.equal(await page.evaluate("document.activeElement.textContent"), "alpha");
    await page.keyboard.press("Enter");
    await page.waitForURL(`**/monitors/${ids[60]}`);
    t.equal((await api.delete(`/api/v1/targets/${ids[60]}/pin`)).status, 204);
    // A verb and words act on what they find, from every page.
    for (const [verb, enabled] of [
      ["pause", false],
      ["resume", true],
    ] as const) {
      await page.keyboard.press("Control+k");
      await palette.getByRole("combobox").fill(`${verb} beta`);
      await palette.getByRole("option", { name: new RegExp(`^${verb} beta`, "i") }).waitFor();
      await page.keyboard.press("Enter");
      await toast(page, `beta is ${verb}d.`).waitFor();
      matchObject(t, (await api.get(`/api/v1/targets/${ids[61]}`)).body, { enabled });
    }
    await page.keyboard.press("Control+k");
    await palette.getByRole("combobox").fill("theme dark");
    await palette.getByRole("option", { name: "Theme: dark" }).waitFor();
    await page.keyboard.press("Enter");
    t.equal(await page.evaluate("document.documentElement.dataset.theme"), "dark");
    await page.evaluate("localStorage.clear()");
    await page.reload();
    await sql`
      update target_states set status = 'up', status_until = now() + interval '1 day', last_result_at = now()
      where target_id = ${ids[61]!}`;
  });

  await t.test("a flapping monitor says so in the list and on its page; a phone shows 30 checks", async (t) => {
    const since = new Date(Date.now() - 20 * 60_000).toISOString();
    await sql`
      update target_states set flapping = ${sql.json({ since, changes: 6, incident_id: ids[61]! })}
      where target_id = ${ids[61]!}`;
    await page.goto("/monitors?q=beta");
    await page.locator("tr", { hasText: "beta" }).getByText("Flapping, 6 changes").waitFor();
    await page.goto(`/monitors/${ids[61]}`);
    await page.locator(".title").getByText("Flapping, 6 changes").waitFor();
    await page.getByRole("heading", { name: "Last 50 checks" }).waitFor();
    await page.setViewportSize({ width: 390, height: 844 });
    await page.getByRole("heading", { name: "Last 30 checks" }).waitFor();
    const beats = page.locator(".beats li:visible");
    t.equal(await beats.count(), 30);
    await page.setViewportSize({ width: 1280, height: 800 });
    await page.getByRole("link", { name: "90 d" }).first().click();
    await page.getByRole("heading", { name: "Last 90 days" }).waitFor();
    t.equal(await beats.count(), 90);
    const { width } = (await beats.first().boundingBox())!;
    t.ok(width > 8, `a day is ${width} px wide`);
    await beats.last().click();
    await page.waitForURL((address) => {
      const from = address.searchParams.get("from") ?? "";
      return from.endsWith("T00:00:00.000Z") && address.searchParams.has("to");
    });
    await sql`update target_states set flapping = null where target_id = ${ids[61]!}`;
  });

  await t.test("the report fills paper as a table, with its heading and its organisation", async (t) => {
    await page.goto("/reports/uptime");
    // A4 is 680 px wide within its margins.
    await page.setViewportSize({ width: 680, height: 960 });
    await page.emulateMedia({ media: "print" });
    t.equal(await page.getByRole("heading", { name: "Uptime report" }).isVisible(), true);
    t.match(await page.locator(".lead").innerText(), /^\S.*, \d+ \w+ \d{4} to /);
    t.equal(await page.evaluate("getComputedStyle(document.querySelector('thead')).display"), "table-header-group");
    const { width } = (await page.locator("table.report").boundingBox())!;
    t.ok(width <= 680, `${width} px`);
    t.equal(await page.getByRole("button", { name: "Print" }).isVisible(), false);
    await page.emulateMedia({ media: "screen" });
    await page.setViewportSize({ width: 1280, height: 800 });
  });

  await t.test("its incidents are acknowledged together", async (t) => {
    await page.goto("/incidents");
    await looksRight(t, page, "incidents in an outage");
    const lead = page.locator("p[data-announce]");
    t.match(await lead.innerText(), "2 causes need you, 61 open incidents.");
    t.equal(await page.locator(".rail [data-badge]").innerText(), "2", "the badge counts causes");
    await page.goto("/oncall");
    await page.keyboard.press("j");
    t.equal(await page.evaluate("document.activeElement.textContent"), "db-1.example.org: connection refused");
    await page.goto("/incidents");
    await page.getByRole("button", { name: "Acknowledge all 60" }).waitFor();
    for (const key of ["j", "a"]) await page.keyboard.press(key);
    await toast(page, "60 incidents acknowledged. Reminders stop.").waitFor();
    const acknowledged = async () =>
      (await api.get("/api/v1/incidents?state=open&acknowledged=true&limit=1")).body.total;
    const before = await acknowledged();
    await page.getByRole("button", { name: "Undo" }).click();
    await toast(page, "Undone.").waitFor();
    t.equal(await acknowledged(), before - 60);
    await page.getByRole("button", { name: "Acknowledge all 60" }).click();
    await toast(page, "60 incidents acknowledged").waitFor();
    t.same(await findings(page), [], "a toast");
    await page.locator(".cause").getByText("acknowledged").waitFor();
    const open = (await api.get("/api/v1/incidents?state=open&limit=100")).body.items;
    t.equal(open.filter((one: { acknowledged_at: string | null }) => one.acknowledged_at !== null).length, 60);
    await lead.filter({ hasText: "1 cause needs you, 61 open incidents, 60 acknowledged." }).waitFor();
    await page.locator(".rail [data-badge]").filter({ hasText: /^1$/ }).waitFor();
    await page.getByRole("link", { name: "Unacknowledged 1" }).click();
    await page.waitForURL(/state=unacknowledged/);
    t.strictSame(await page.locator("tbody a.name").allTextContents(), ["solo"]);
  });

  await t.test("heads sort in both directions, groups collapse, both stand in the address", async (t) => {
    await page.goto("/monitors");
    await page.locator("thead").getByRole("link", { name: "Monitor" }).click();
    await page.waitForURL(/sort=name$/);
    t.strictSame((await names(page)).slice(0, 3), ["alpha", "beta", "db-0"]);
    t.equal(await page.locator('[aria-sort="ascending"]').innerText(), "Monitor ↑");
    await page.locator("thead").getByRole("link", { name: "Monitor" }).click();
    await page.waitForURL(/order=desc/);
    t.equal((await names(page))[0], "solo");
    await page.goto("/monitors");
    await page.evaluate("document.querySelector('.setup')?.remove()");
    const first = (await page.locator("tbody tr:not(.sec)").first().boundingBox())!;
    t.ok(first.y <= 290, `the first monitor is at ${first.y} px`);
    await page.locator("summary", { hasText: "Tags" }).click();
    await page.getByRole("link", { name: "Group by team/" }).click();
    await page.waitForURL(/group=team/);
    t.strictSame(await page.locator("tbody .name").allTextContents(), ["team/core", "team/web", "No tag team/…"]);
    await looksRight(t, page, "groups");
    await page.getByRole("table").getByRole("link", { name: "team/web", exact: true }).click();
    await page.waitForURL(/in=team%2Fweb/);
    t.strictSame(await names(page), ["alpha", "beta"]);
  });

  await t.test("monitors that nobody is notified of are a chip; the wall is a link away and readable", async (t) => {
    await page.goto("/monitors");
    await page.getByRole("link", { name: "No notifications 63" }).click();
    await page.waitForURL(/channels=none/);
    await page.goto("/monitors");
    await openMenu(page);
    await page.getByRole("link", { name: "Wall" }).click();
    await page.waitForURL("**/wall");
    await page.getByRole("region", { name: "Needs you" }).getByText("solo").waitFor();
    await page.getByRole("region", { name: "Acknowledged" }).getByText("db-1.example.org").waitFor();
    await page.getByRole("region", { name: "Tags" }).getByText("core").waitFor();
    await looksRight(t, page, "the wall");
    for (const [width, height] of [
      [1280, 800],
      [844, 390],
    ] as const) {
      await page.setViewportSize({ width, height });
      const over = "document.documentElement.scrollHeight - innerHeight";
      t.equal(await page.evaluate(over), 0, `the wall is one screen of ${width} × ${height}`);
    }
    await page.mouse.move(200, 200);
    await page.getByRole("button", { name: "Sound off" }).click();
    await page.getByRole("button", { name: "Sound on" }).waitFor();

    const permitted = await browser.newContext({
      baseURL: url,
      storageState: await context.storageState(),
      permissions: ["notifications"],
    });
    // The headless shell grants it to queries, while Notification says "denied".
    await permitted.addInitScript(`
      globalThis.told = [];
      globalThis.Notification = class extends Notification {
        static permission = "granted";
        constructor(title, options) {
          super(title, options);
          told.push(title + ": " + options.body);
        }
      };
      const { start } = OscillatorNode.prototype;
      OscillatorNode.prototype.start = function (...when) {
        told.push("tone");
        start.apply(this, when);
      };`);
    const wall = await openPage(t, permitted);
    await wall.clock.install();
    await wall.goto("/wall");
    await wall.mouse.move(200, 200);
    await wall.getByRole("button", { name: "Sound off" }).click();
    const told = async () => (await wall.evaluate("told")) as string[];
    t.strictSame(await told(), ["tone", "tone"], "the sound is tried; known outages are not told");
    const [beta] = ids.slice(61);
    await sql`update target_states set status = 'down' where target_id = ${beta!}`;
    await sql`
      insert into incidents (id, org_id, target_id, started_at, opened_at, outage_since, severity, impact, peak_impact,
        error_sample, regions_down, regions_up, retracted, created_at, updated_at)
      select gen_random_uuid(), org_id, id, now(), now(), now(), 'major', 'major_outage', 'major_outage', 'timed out',
        '{default}', '{}', false, now(), now()
      from targets where id = ${beta!}`;
    await waitFor("the wall to tell of the new outage", async () => {
      await wall.clock.runFor(10_000);
      return (await told()).length > 2;
    });
    matchObject(t, (await told()).slice(2), ["tone", "tone", /^New outage: .*beta/]);
    await permitted.close();
    await sql`delete from incidents where target_id = ${beta!}`;
    await sql`update target_states set status = 'up' where target_id = ${beta!}`;
  });

  await t.test(
    "monitors are changed together; a deletion can be undone, and is lost when the page is left",
    async (t) => {
      await page.goto("/monitors");
      await page.getByLabel("Select alpha").check();
      await page.getByLabel("Select beta").check();
      t.match(await chosen(page).textContent(), "2 selected");
      await looksRight(t, page, "the selection");
      await chosen(page).getByRole("button", { name: "Tags" }).click();
      const dialog = page.getByRole("dialog", { name: "Tags" });
      await dialog.getByLabel("Tags").fill("x".repeat(51));
      await dialog.getByRole("button", { name: "Change tags" }).click();
      await dialog.locator(".error-note").waitFor();
      t.same(await findings(page), [], "a refused dialog");
      await dialog.getByLabel("Tags").fill("vip");
      await dialog.getByRole("button", { name: "Change tags" }).click();
      await toast(page, "2 monitors tagged anew.").waitFor();
      t.equal(await total(api, "&tag=vip"), 2);

      await page.goto("/monitors");
      await page.getByLabel("Select all that match").check();
      await chosen(page).getByText("63 selected").waitFor();
      await page.getByLabel("Select solo").uncheck();
      await chosen(page).getByText("62 selected").waitFor();
      await chosen(page).getByRole("button", { name: "Clear selection" }).click();
      await page.getByLabel("Select db-1.example.org").check();
      await chosen(page).getByText("60 selected").waitFor();
      await chosen(page).getByRole("button", { name: "Tags" }).click();
      await dialog.getByLabel("Tags").fill("grouped");
      await dialog.getByRole("button", { name: "Change tags" }).click();
      await toast(page, "60 monitors tagged anew.").waitFor();
      t.equal(await total(api, "&tag=grouped"), 60, "a group is its monitors");

      await page.goto("/monitors?tag=team/core");
      await page.getByRole("link", { name: "db-1.example.org: connection refused" }).click();
      await page.waitForURL(/cause=/);
      await page.getByLabel("Select all that match").check();
      await chosen(page).getByText("60 selected").waitFor();
      await chosen(page).getByRole("button", { name: "Pause" }).click();
      await toast(page, "60 monitors paused.").waitFor();
      t.equal(await total(api, "&state=paused"), 60);

      await page.goto("/monitors");
      const remove = async () => {
        await page.getByLabel("Select solo").check();
        await chosen(page).getByRole("button", { name: "Delete" }).click();
        await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
        await toast(page, "1 monitor will be deleted in 10 s").waitFor();
      };
      await remove();
      t.same(await findings(page), [], "a deletion that waits");
      await page.getByRole("button", { name: "Undo" }).click();
      await toast(page, "Nothing was deleted.").waitFor();
      await remove();
      await page.goto("/incidents");
      await page.goto("/monitors");
      t.equal(await total(api), 63, "neither has deleted anything");
      await remove();
      await toast(page, "1 monitor deleted.").waitFor();
      t.equal(await total(api), 62);
    },
  );

  await t.test("a list is imported after a look at what is wrong in it", async (t) => {
    await page.goto("/monitors/import");
    await page
      .getByLabel("URLs, one per line, or CSV")
      .fill("\ufeffname;url;tags\r\nOne;https://one.example.org/;a\r\nTwo;ftp://two.example.org/;b\r\n");
    const summary = page.locator("[data-summary]");
    await summary.filter({ hasText: "1 monitor can be added, 1 line with errors." }).waitFor();
    await looksRight(t, page, "the preview");
    const add = page.getByRole("button", { name: "Add 1 monitor" });
    t.ok(await add.isDisabled());
    await page.getByLabel("Skip lines with errors").check();
    await add.click();
    await page.waitForURL("**/monitors");
    matchObject(t, (await api.get("/api/v1/targets?q=one")).body.items, [
      { name: "One", tags: ["a"], write_source: "ui" },
    ]);
  });

  await t.test("a clone starts with the settings and without the secrets; all mistakes show at once", async (t) => {
    await sql`insert into regions (id, name, created_at, updated_at) values ('elsewhere', 'Elsewhere', now(), now())`;
    await page.goto(`/monitors/${ids[60]}`);
    await openMenu(page);
    await page.getByRole("link", { name: "Clone" }).click();
    await page.getByText("are not copied").waitFor();
    t.equal(await page.getByLabel("Name", { exact: true }).inputValue(), "alpha (copy)");
    t.notOk(await page.getByLabel("Elsewhere").isChecked(), "the source is not checked from there");
    await page.getByLabel("Name", { exact: true }).fill("");
    await page.getByRole("radio", { name: "Other" }).check();
    await page.getByLabel("Check interval (seconds)").fill("1");
    await page.getByRole("button", { name: "Add monitor" }).click();
    await page.locator(".error-note").nth(1).waitFor();
    t.equal(await page.locator(".error-note").count(), 2);
    t.equal(await page.evaluate("document.activeElement.name"), "/name", "the first has the focus");
    await looksRight(t, page, "a form with errors");
    await page.getByLabel("Name", { exact: true }).fill("gamma");
    await page.getByLabel("Check interval (seconds)").fill("60");
    await page.getByRole("button", { name: "Add monitor" }).click();
    await page.waitForURL(/\/monitors\/[0-9a-f-]{36}$/);
    const { items } = (await api.get("/api/v1/targets?q=gamma")).body;
    matchObject(t, items, [
      { tags: ["team/web", "shop", "vip"], check: { headers: {}, url: "https://alpha.example.org/alpha" } },
    ]);
    matchObject(t, (await api.get(`/api/v1/targets/${items[0].id}/regions`)).body, { regions: ["default"] });
  });

  await t.test("a range of time is chosen in the zone of the reader, or by dragging over the chart", async (t) => {
    const path = `/monitors/${ids[60]}`;
    const hour = 3_600_000;
    const begin = Math.floor(Date.now() / hour) * hour - 2 * hour;
    await sql`
      insert into results (target_id, scheduled_at, region, "timestamp", status, skip, total_ms)
      select ${ids[60]!}, at, 'default', at, 'up', false, 80
      from generate_series(${new Date(begin)}::timestamptz, now(), '1 minute') as at on conflict do nothing`;
    await page.goto(path);
    const custom = page.locator("#latency-range");
    await custom.locator("summary").click();
    await custom.getByText("Times are in Asia/Tokyo.").waitFor();
    await looksRight(t, page, "the choice of a range");
    const local = (at: number) => new Date(at + 9 * hour).toISOString().slice(0, 16);
    await custom.getByLabel("From").fill(local(begin));
    await custom.getByLabel("To").fill(local(begin + hour));
    await custom.getByRole("button", { name: "Show" }).click();
    await page.waitForURL(/from=/);
    const asked = () => {
      const { searchParams } = new URL(page.url());
      return ["from", "to"].map((name) => Date.parse(searchParams.get(name)!));
    };
    t.strictSame(asked(), [begin, begin + hour]);
    t.match(await page.locator(".kpis").textContent(), "Checks in range60");
    const chart = page.locator(".chartbox");
    const tip = chart.locator(".tip");
    await chart.locator(".chart").hover({ position: { x: 20, y: 60 } });
    await tip.filter({ hasText: /Median80 ms.*Checks1/ }).waitFor();
    t.strictSame([await chart.locator(".cross").count(), await chart.locator(".at").count()], [1, 2], "a crosshair");
    await page.mouse.move(0, 0);
    await tip.waitFor({ state: "detached" });
    const times: (string | null)[] = [];
    await chart.focus();
    for (const key of ["End", "ArrowLeft", "Home"]) {
      await page.keyboard.press(key);
      times.push(await tip.locator("strong").textContent());
    }
    t.strictSame(times, times.toSorted().reverse(), "arrows move the crosshair");
    t.equal(new Set(times).size, 3);
    await page.locator("#live-region").filter({ hasText: "Median 80 ms" }).waitFor();
    t.same(await findings(page), [], "a crosshair by keyboard");
    const box = (await page.locator(".chart[data-from]").boundingBox())!;
    await page.mouse.move(box.x + box.width * 0.25, box.y + 50);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.5, box.y + 60, { steps: 4 });
    const [fresh] = await Promise.all([
      page.waitForResponse((response) => response.url().includes("fragment=1")),
      page.evaluate("void dispatchEvent(new Event('online'))"),
    ]);
    await fresh.finished();
    await page.mouse.move(box.x + box.width * 0.75, box.y + 60, { steps: 4 });
    await page.mouse.up();
    await page.waitForURL((address) => Date.parse(address.searchParams.get("from") ?? "") > begin);
    const [from, to] = asked() as [number, number];
    t.ok(from > begin && to < begin + hour && to - from > hour / 3, "the dragged half of the chart");
    await page.locator(".chart[data-from]").dblclick({ position: { x: 200, y: 150 } });
    await page.waitForURL((address) => !address.searchParams.has("from"));
    await page.goto(`${path}?range=24h`);
    await page
      .locator("[data-ticks] text")
      .filter({ hasText: /:00 [AP]M/ })
      .first()
      .waitFor();
    const ticks = (await page.locator("[data-ticks] text").allTextContents()).slice(0, -1);
    t.ok(ticks.length > 3, `ticks at ${ticks.join()}`);
    t.same(
      ticks.filter((text) => !/^(?:4|8|12):00 [AP]M$|^[A-Z][a-z]{2} \d+$/.test(text)),
      [],
      "round times of the reader's zone",
    );
    await page.goto(`/incidents?from=${new Date(begin).toISOString()}&to=${new Date(begin + hour).toISOString()}`);
    await page.getByText("No matching incidents").waitFor();
    await page.locator(".empty").getByRole("link", { name: "Clear filters" }).click();
    await page.waitForURL("**/incidents");
  });

  await t.test("times are those of the server where the clock of the computer is a day off", async (t) => {
    for (const days of [-1, 1]) {
      const other = await openPage(t, context);
      await other.addInitScript(`{
        const real = Date, off = ${days} * 86_400_000;
        window.Date = class extends real {
          constructor(...given) { given.length > 0 ? super(...given) : super(real.now() + off); }
          static now() { return real.now() + off; }
        };
      }`);
      await other.goto("/monitors");
      const said = await other.locator("tbody tr:not(.cause) .col-last time").first().textContent();
      t.match(said, /^(now|\d+ (s|min) ago)$/, `${days} d`);
      await other.close();
    }
  });

  await t.test("Back after a deletion says that the monitor is gone", async (t) => {
    const made = await api.post("/api/v1/targets", http("short-lived", "short.example.org", []));
    const path = `/monitors/${made.body.id}`;
    await page.goto(path);
    await openMenu(page);
    await page.getByRole("button", { name: "Delete" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("button", { name: "Delete" }).click();
    await page.waitForURL("**/monitors");
    await toast(page, "1 monitor deleted.").waitFor();
    await page.goBack();
    await page.getByText("Monitor not found").waitFor();
    t.same(await findings(page), []);
    await page.getByRole("link", { name: "Monitors" }).first().click();
    await page.waitForURL("**/monitors");
  });

  await t.test("a chat is connected by a QR code, a channel by a link without an account", async (t) => {
    await page.goto("/channels/connect");
    await page.getByRole("button", { name: "Create code" }).click();
    await page.getByRole("img", { name: "QR code of the link" }).waitFor();
    await looksRight(t, page, "a QR code");
    t.match(await page.getByRole("link", { name: "Open private chat" }).getAttribute("href"), /status_bot\?start=/);

    const link = (await api.post("/api/v1/notification-channels/delegate", { name: "Ops of Acme" })).body;
    const outside = await browser.newContext({ viewport: { width: 1280, height: 800 } });
    t.teardown(() => outside.close());
    const guest = await openPage(t, outside);
    await guest.goto(link.url);
    await looksRight(t, guest, "a delegation link");
    await guest.getByRole("textbox", { name: "Webhook URL" }).fill("http://hooks.slack.com/services/x");
    await guest.getByRole("button", { name: "Connect channel" }).click();
    await guest.locator(".error-note").waitFor();
    await guest.getByLabel("ntfy").check();
    await guest.getByRole("textbox", { name: "Topic" }).fill("acme-ops");
    await guest.getByRole("button", { name: "Connect channel" }).click();
    await guest.getByRole("heading", { name: "Channel connected" }).waitFor();
    await guest.goto(link.url);
    await guest.getByRole("heading", { name: "Link not valid" }).waitFor();
    matchObject(t, (await api.get("/api/v1/notification-channels")).body.items, [{ name: "Ops of Acme" }]);
  });

  await t.test("of two tabs that edit one monitor the second one chooses", async (t) => {
    const other = await openPage(t, context);
    const path = `/monitors/${ids[61]}/edit`;
    const title = (tab: Page) => tab.getByLabel("Name", { exact: true });
    for (const tab of [page, other]) await tab.goto(path);
    await title(page).fill("first");
    await page.getByRole("button", { name: "Save" }).click();
    await page.waitForURL(`**/monitors/${ids[61]}`);
    await title(other).fill("second");
    await other.getByRole("button", { name: "Save" }).click();
    await other.getByRole("button", { name: "Reload and discard my changes" }).click();
    await waitFor("the other's name", async () => (await title(other).inputValue()) === "first");
    await page.goto(path);
    await title(page).fill("third");
    await page.getByRole("button", { name: "Save" }).click();
    await page.waitForURL(`**/monitors/${ids[61]}`);
    await title(other).fill("second");
    await other.getByRole("button", { name: "Save" }).click();
    await other.getByRole("button", { name: "Save my changes anyway" }).click();
    await other.waitForURL(`**/monitors/${ids[61]}`);
    t.equal((await api.get(`/api/v1/targets/${ids[61]}`)).body.name, "second");
    await other.close();
  });
});

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { parse } from "yaml";
import type { Download } from "playwright-core";
import { connect } from "../harness/api.ts";
import { looksRight, openBrowser, openPage } from "../harness/browser.ts";
import { tempFolder } from "../harness/folder.ts";
import { startControlPlane } from "../harness/processes.ts";
import { requires } from "../harness/requires.ts";
import { waitFor } from "../harness/wait.ts";

/* Objects that the server's own file declares, in the console: marked, warned of, detached; the state of the file. */

const token = `sm_live_${"declared".repeat(6)}`;
const document = {
  version: 1,
  project: "shop",
  channels: { ops: { name: "Ops", config: { type: "webhook", url: "https://hooks.example.org/" } } },
  monitors: {
    "web/front": { name: "Front", check: { type: "http", url: "https://shop.example.org/" }, alerts: ["ops"] },
  },
  status_pages: { main: { slug: "shop-page", name: "Shop page", components: [{ monitor: "web/front" }] } },
  maintenance: {
    upgrade: {
      title: "Upgrade",
      starts_at: "2126-11-20T22:00:00Z",
      ends_at: "2126-11-21T02:00:00Z",
      monitors: ["web/front"],
    },
  },
};

t.test("what files declare, in the console", async (t) => {
  if (!(await requires(t, "chromium"))) return;
  const folder = tempFolder(t, "files");
  const file = join(folder, "monitors.yaml");
  writeFileSync(file, JSON.stringify(document));
  const { url, signInLink } = await startControlPlane(t, {
    env: { SM_BOOTSTRAP__TOKEN: token, SM_SCHEDULER__BUILTIN_AGENT: "false", SM_DECLARED__PATH: file },
  });
  const api = connect(t, url, token);
  const state = async (ok: boolean) =>
    void (await waitFor("the file to be read", async () => (await api.get("/api/v1/config")).body.file?.ok === ok));
  await state(true);
  const id = async (path: string): Promise<string> => (await api.get(`/api/v1/${path}`)).body.items[0].id;
  const monitor = await id("targets");
  const statusPage = await id("status-pages");
  const maintenance = await id("maintenance");
  const channel = await id("notification-channels");

  /** A browser of another process has its downloads elsewhere. */
  const yamlIn = async (download: Download): Promise<unknown> => {
    const path = join(folder, "download");
    await download.saveAs(path);
    return parse(readFileSync(path, "utf8"));
  };
  const browser = await openBrowser(t);
  const page = await openPage(t, await browser.newContext());
  await page.goto(signInLink!);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.waitForURL((at) => !at.pathname.startsWith("/sign-in"));

  for (const [path, key] of [
    [`/monitors/${monitor}`, "web/front"],
    [`/status-pages/${statusPage}`, "main"],
    [`/maintenance/${maintenance}`, "upgrade"],
  ] as const) {
    await page.goto(url + path);
    await page.getByText(`Managed by shop (${key})`).waitFor();
    await looksRight(t, page, path.split("/")[1]!);
  }
  for (const list of ["monitors", "channels", "status-pages", "maintenance"]) {
    await page.goto(`${url}/${list}`);
    await page.getByText("Managed by shop", { exact: true }).waitFor();
  }
  await looksRight(t, page, "a list with what is managed");
  for (const path of [
    `/status-pages/${statusPage}/edit`,
    `/maintenance/${maintenance}/edit`,
    `/channels/${channel}/edit`,
  ]) {
    await page.goto(url + path);
    await page.getByText("The next apply of its files reverts").waitFor();
  }
  await page.goto(`${url}/monitors/${monitor}/edit`);
  t.notOk(await page.locator("[data-change]").isVisible(), "nothing is changed yet");
  await page.getByLabel("Name", { exact: true }).fill("Front: new");
  await page.locator('[name="/alerts"][type=checkbox]').uncheck();
  await page.getByText("5 min", { exact: true }).click();
  const change = page.locator("#change-yaml");
  await waitFor("the change", async () => (await change.textContent())?.includes("interval: 300") === true);
  t.strictSame(parse((await change.textContent())!), {
    monitors: { "web/front": { name: "Front: new", interval: 300, alerts: [] } },
  });
  await looksRight(t, page, "a form of what is managed");
  await page.goto(`${url}/channels/${channel}/edit`);
  await page.getByText("Replace destination").click();
  await page.locator('[name="/config/url"]').fill("https://other.example.org/s3cret");
  await page.getByText("${OPS_URL}").waitFor();
  matchObject(t, parse((await change.textContent())!), {
    channels: { ops: { config: { type: "webhook", url: "${OPS_URL}" } } },
  });
  t.notMatch(await change.textContent(), "s3cret");

  await page.goto(`${url}/status-pages/${statusPage}/edit`);
  await page.getByLabel("Name", { exact: true }).fill("Shop");
  await page.getByLabel("Domain").fill("status.example.org");
  await waitFor("both forms", async () => (await change.textContent())?.includes("custom_domain") === true);
  t.strictSame(parse((await change.textContent())!), {
    status_pages: { main: { name: "Shop", custom_domain: "status.example.org" } },
  });
  const components = (list: object[]) => ({ status_pages: { main: { components: list } } });
  await page.goto(`${url}/status-pages/${statusPage}`);
  t.notOk(await page.locator("[data-change]").isVisible(), "the builder is as it was opened");
  await page.getByText("Add a component without a monitor").click();
  const adding = page.locator("#add-manual");
  await adding.getByLabel("Name").fill("Payments");
  await adding.getByLabel("State").selectOption("degraded");
  await adding.getByRole("button", { name: "Add component" }).click();
  await waitFor("what the builder has stored", async () => (await change.textContent())?.includes("Payments") === true);
  t.strictSame(
    parse((await change.textContent())!),
    components([{ monitor: "web/front" }, { manual: true, public_name: "Payments" }]),
  );
  await page.getByRole("link", { name: "Details Front" }).click();
  await page.locator('[name="/public_group"]').last().waitFor();
  await page.locator('li [name="/public_name"]').fill("Front door");
  await waitFor("what is typed", async () => (await change.textContent())?.includes("Front door") === true);
  matchObject(
    t,
    parse((await change.textContent())!),
    components([{ monitor: "web/front", public_name: "Front door" }, { manual: true }]),
  );
  await looksRight(t, page, "the builder of what is managed");

  await api.patch(`/api/v1/targets/${monitor}`, { interval: 120 });
  await page.goto(`${url}/monitors`);
  await page.getByLabel("Select Front").check();
  const [selected] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: "Export as YAML" }).click(),
  ]);
  const ofSelection = await yamlIn(selected);
  matchObject(t, ofSelection, {
    project: "shop",
    monitors: { "web/front": { interval: 120, alerts: ["ops"] } },
    channels: { ops: {} },
  });
  t.strictSame(Object.keys(ofSelection as object), ["version", "project", "channels", "monitors"]);
  await page.goto(`${url}/monitors/${monitor}`);
  await page.getByLabel("More actions").click();
  const [one] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: "Export as YAML" }).click(),
  ]);
  t.strictSame(await yamlIn(one), ofSelection);
  await page.goto(`${url}/settings/config`);
  await page.getByRole("heading", { name: "Drift" }).waitFor();
  await looksRight(t, page, "drift");
  const [whole] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: "Export everything" }).click(),
  ]);
  const exported = (await api.get("/api/v1/config/export")).body.document;
  t.strictSame(await yamlIn(whole), exported);
  await page.goto(`${url}/monitors/${monitor}/edit`);
  await page.getByRole("button", { name: "Detach" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Detach" }).click();
  await page.getByText("Managed by").waitFor({ state: "detached" });
  t.equal((await api.get(`/api/v1/targets/${monitor}`)).body.managed_by, null);

  await page.goto(`${url}/settings`);
  await page.getByRole("link", { name: "Configuration", exact: true }).click();
  await page.getByText("declared files").waitFor();
  await looksRight(t, page, "projects");
  writeFileSync(file, "version: 1\nproject: shop\nmonitors: [");
  await state(false);
  await page.reload();
  await page.getByText(`${file}:3:`).waitFor();
  await looksRight(t, page, "a file that cannot be applied");
});

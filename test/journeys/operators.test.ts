import type { BrowserContext, Page } from "playwright-core";
import { createRequire } from "node:module";
import t, { type Test } from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { connect } from "../harness/api.ts";
import { findings, openBrowser, openPage } from "../harness/browser.ts";
import { cloneDatabase } from "../harness/database.ts";
import { startControlPlane, startProgram } from "../harness/processes.ts";
import { requires } from "../harness/requires.ts";
import { waitFor } from "../harness/wait.ts";

/* Setup, regions and agents, and search, as the operator of a new installation meets them in a browser. */

const program = createRequire(import.meta.url).resolve("@statusmesh/control-plane/main");
const token = `sm_live_${"setting".repeat(6)}`;
const operatorSecret = "operator-secret-of-the-setup";

t.test("the first hour", async (t) => {
  if (!(await requires(t, "chromium"))) return;
  const database = await cloneDatabase(t);
  const { url, signInLink, folder } = await startControlPlane(t, {
    env: {
      ...database.env,
      SM_BOOTSTRAP__TOKEN: token,
      SM_OPERATOR__ADMIN_TOKEN: operatorSecret,
      SM_SECURITY__ALLOW_PRIVATE_TARGETS: "true",
    },
  });
  const api = connect(t, url, token);
  const operator = connect(t, url, operatorSecret);
  const browser = await openBrowser(t);
  const context: BrowserContext = await browser.newContext({
    baseURL: url,
    viewport: { width: 1280, height: 800 },
    colorScheme: "light",
  });
  const page: Page = await openPage(t, context);

  /** A sign-in link of the owner, from the shell. */
  const newSignInLink = async (t: Test): Promise<string> => {
    const env = { ...database.env, SM_SERVER__BIND: new URL(url).host };
    const command = startProgram(t, program, ["bootstrap-owner"], { cwd: folder, env });
    t.equal(await command.ended, 0);
    return /http\S+\/sign-in\/\S+/.exec(command.log.join("\n"))![0];
  };

  await t.test("a link into the console survives the sign-in", async (t) => {
    await page.goto("/settings/regions");
    await page.getByLabel("Sign-in link").fill(signInLink!);
    await page.getByRole("button", { name: "Use link" }).click();
    await page.waitForURL("**/settings/regions");
    t.same(await page.getByRole("heading", { level: 1 }).textContent(), "Regions and agents");
  });

  await t.test("the setup checklist on an empty console", async (t) => {
    await page.goto("/");
    t.same(await findings(page), []);
    await page.getByLabel("Address to watch").fill(`${url}/healthz`);
    await page.getByRole("button", { name: "Add monitor" }).click();
    await page.waitForURL("**/monitors/new?address=*");
    await page.getByLabel("Name", { exact: true }).fill("Checkout API");
    await page.getByRole("button", { name: "Add monitor" }).click();
    await page.waitForURL(/\/monitors\/[0-9a-f-]{36}$/);
    await page.goto("/");
    const setup = page.locator("#setup-steps");
    await setup.locator("summary").click();
    t.match(await setup.textContent(), /Next: add a channel.*1 of 4 done.*Done:/s);
    await setup.getByRole("button", { name: "Dismiss" }).click();
    await setup.waitFor({ state: "detached" });
  });

  await t.test("a region and its agent", async (t) => {
    await page.goto("/settings/regions");
    await page.locator("[data-live]").getByText("Checking").first().waitFor();
    t.same(await findings(page), []);
    await page.getByRole("button", { name: "Add region" }).click();
    const region = page.getByRole("dialog", { name: "Add region" });
    await region.getByLabel("Region id").fill("frankfurt");
    await region.getByLabel("Region name").fill("Frankfurt");
    await region.getByLabel("Operator secret").fill("not the secret of this one");
    await region.getByRole("button", { name: "Add region" }).click();
    await region.getByText("The operator secret is wrong").waitFor();
    t.same(await findings(page), [], "the dialog with its error");
    await region.getByLabel("Operator secret").fill(operatorSecret);
    await region.getByRole("button", { name: "Add region" }).click();

    const agent = page.getByRole("dialog", { name: "Add agent" });
    await agent.waitFor();
    t.equal(await agent.getByLabel("Region", { exact: true }).inputValue(), "frankfurt", "the new region is chosen");
    t.equal(await agent.getByLabel("Operator secret").isVisible(), false, "the tab keeps the secret");
    await agent.getByLabel("Agent name").fill("fra-1");
    await agent.getByRole("button", { name: "Add agent" }).click();
    const commands = page.getByRole("region", { name: "Start the agent" });
    await commands.waitFor();
    const agentToken = (await commands.locator("#agent-token").textContent())!;
    t.match(agentToken, /^sm_agent_/);
    for (const way of ["npm", "systemd", "docker"])
      t.ok((await commands.locator(`#agent-${way}`).textContent())!.includes(agentToken), way);
    t.same(await findings(page), [], "the token and the commands");
    matchObject(t, (await connect(t, url, agentToken).get("/api/agent/whoami")).body, {
      region: "frankfurt",
      name: "fra-1",
    });

    await commands.getByRole("button", { name: "Done" }).click();
    t.notMatch(await page.content(), agentToken, "the token is gone");
    await page.getByText("Never connected").waitFor();
    await page.getByRole("button", { name: "Delete fra-1" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete agent" }).click();
    await waitFor("the agent to be deleted", async () =>
      (await operator.get("/operator/agents")).body.items.every(({ name }: { name: string }) => name !== "fra-1"),
    );
    t.equal((await api.get("/api/v1/regions")).body.total, 2);
  });

  await t.test("organisations, their plans and overrides", async (t) => {
    await page.goto("/settings/installation");
    await page.locator("#organisations tbody tr").first().waitFor();
    t.same(await findings(page), []);
    // Without the secret of the tab the session lists nothing.
    await page.evaluate("sessionStorage.clear()");
    await page.reload();
    t.equal(await page.locator("#organisations tbody tr").count(), 0);
    await page.getByLabel("Operator secret").first().fill("not the secret of this one");
    await page.getByRole("button", { name: "Show organisations" }).click();
    await page.locator("#unlock .error-note").getByText("The operator secret is wrong").waitFor();
    t.equal(await page.locator("#organisations tbody tr").count(), 0);
    t.same(await findings(page), [], "the wrong secret");
    await page.getByLabel("Operator secret").first().fill(operatorSecret);
    await page.getByRole("button", { name: "Show organisations" }).click();

    const row = page.locator("#organisations tbody tr").first();
    await row.getByRole("button", { name: "Change plan" }).click();
    const dialog = page.getByRole("dialog", { name: /^Plan of/ });
    await dialog.getByLabel("Plan", { exact: true }).selectOption("free");
    await dialog.getByLabel("Monitors", { exact: true }).selectOption("number");
    const limit = dialog.getByLabel("Monitors: limit");
    await limit.fill("2000000");
    await dialog.getByRole("button", { name: "Save" }).click();
    await dialog.getByText("Enter a whole number from 0 to 1000000.").waitFor();
    t.same(await findings(page), [], "the dialog with its error");
    await limit.fill("50");
    await dialog.getByLabel("Members", { exact: true }).selectOption("unlimited");
    await dialog.getByRole("button", { name: "Save" }).click();
    await row.getByText("of 50").waitFor();
    t.match(await row.textContent(), /free.*of 50.*of unlimited/s);
    const org = async () => (await operator.get("/operator/orgs")).body.items[0];
    matchObject(t, await org(), { plan: "free", overrides: { max_targets: 50, max_members: null } });

    await row.getByRole("button", { name: "Change plan" }).click();
    t.equal(await limit.inputValue(), "50");
    await dialog.getByLabel("Monitors", { exact: true }).selectOption("plan");
    await dialog.getByLabel("Members", { exact: true }).selectOption("plan");
    await dialog.getByLabel("Plan", { exact: true }).selectOption("selfhost");
    await dialog.getByRole("button", { name: "Save" }).click();
    await dialog.waitFor({ state: "hidden" });
    await row.getByText("selfhost", { exact: true }).waitFor();
    matchObject(t, await org(), { plan: "selfhost", overrides: {} });
    await page.getByLabel("Search organisations").fill("nothing has this");
    await page.getByText("No organisation matches nothing has this.").waitFor();
    t.same(await findings(page), [], "without a result");
  });

  await t.test("search by keyboard, by its button on a phone, and without JavaScript", async (t) => {
    await page.goto("/incidents");
    await page.keyboard.press("Control+k");
    const palette = page.getByRole("dialog", { name: "Search" });
    const field = palette.getByRole("combobox");
    await palette.getByRole("option", { name: "Status pages" }).waitFor();
    await field.pressSequentially("api check");
    const found = palette.getByRole("option", { name: /Checkout API/ });
    await found.waitFor();
    await waitFor("one result", async () => (await palette.getByRole("option").count()) === 1);
    t.equal(await field.getAttribute("aria-activedescendant"), await found.getAttribute("id"));
    t.same(await findings(page), []);
    await field.fill("nothing has this");
    await palette.getByText("No matches for nothing has this.").waitFor();
    t.same(await findings(page), [], "without a result");
    await field.fill("sett");
    await palette.getByRole("option", { name: "Members" }).waitFor();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await page.waitForURL("**/settings/members");
    await page.keyboard.press("/");
    await palette.waitFor();
    await page.keyboard.press("Escape");
    await palette.waitFor({ state: "detached" });

    await page.setViewportSize({ width: 390, height: 844 });
    await page.getByRole("link", { name: "Search" }).click();
    await field.fill("checkout");
    await found.click();
    await page.waitForURL(/\/monitors\/[0-9a-f-]{36}$/);
    await page.setViewportSize({ width: 1280, height: 800 });

    const plain = await browser.newContext({
      baseURL: url,
      javaScriptEnabled: false,
      storageState: await context.storageState(),
    });
    const bare = await plain.newPage();
    await bare.goto("/settings");
    await bare.getByRole("link", { name: "Search" }).first().click();
    await bare.getByLabel("Search everything").fill("checkout api");
    await bare.getByRole("button", { name: "Search" }).click();
    await bare.getByRole("link", { name: "Checkout API" }).click();
    await bare.waitForURL(/\/monitors\/[0-9a-f-]{36}$/);
    await plain.close();
  });

  await t.test("an invitation link without a mail server, and a CSV of the checks", async (t) => {
    await page.goto("/settings/members");
    await page.getByLabel("Email address").fill("nina@example.org");
    await page.getByRole("radio", { name: "Viewer" }).check();
    await page.getByRole("button", { name: "Create invitation link" }).click();
    const link = page.locator("#invitation-link");
    await link.waitFor();
    t.match(await link.textContent(), new RegExp(`^${url}/invitations/.{40,}$`));
    t.same(await findings(page), []);
    const visitor = await fetch((await link.textContent())!);
    t.equal(visitor.status, 200);
    await page.getByRole("link", { name: "Done" }).click();
    await page.getByRole("row", { name: "nina@example.org Viewer" }).waitFor();

    const { items } = (await api.get("/api/v1/targets")).body;
    await page.goto(`/monitors/${items[0].id}`);
    const download = page.waitForEvent("download");
    await page.getByRole("link", { name: "Download as CSV" }).click();
    t.match((await download).suggestedFilename(), /^results-.*\.csv$/);
    await page.goto("/expiring");
    await page.getByText("No certificates or domains yet").waitFor();
    t.same(await findings(page), []);
  });

  await t.test("after the end of the session people sign in in place and lose nothing", async (t) => {
    await page.goto("/monitors/new");
    await page.getByLabel("Name", { exact: true }).fill("Kept over the sign-in");
    await page.locator("#http-check-url").fill(`${url}/healthz`);
    await context.clearCookies();
    await page.getByRole("button", { name: "Add monitor" }).click();
    const ended = page.getByRole("dialog", { name: "Your session has ended" });
    await ended.getByLabel("Sign-in link").fill("nonsense");
    await ended.getByRole("button", { name: "Sign in", exact: true }).click();
    await ended.locator(".error-note:visible").waitFor();
    t.same(await findings(page), []);
    await ended.getByLabel("Sign-in link").fill(await newSignInLink(t));
    await ended.getByRole("button", { name: "Sign in", exact: true }).click();
    await ended.waitFor({ state: "detached" });
    t.equal(await page.getByLabel("Name", { exact: true }).inputValue(), "Kept over the sign-in");
    await page.getByRole("button", { name: "Add monitor" }).click();
    await page.waitForURL(/\/monitors\/[0-9a-f-]{36}$/);
  });
});

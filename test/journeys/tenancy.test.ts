import type { Page } from "playwright-core";
import t, { type Test } from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { authenticatorWith, credentialsOf } from "../harness/authenticator.ts";
import { findings, looksRight, openBrowser, openPage } from "../harness/browser.ts";
import { startControlPlane } from "../harness/processes.ts";
import { requires } from "../harness/requires.ts";

/*
 * Two people in one organisation, in real browsers: the owner creates a token and invites a colleague, who joins by the
 * link, signs out and signs in again by password; the owner reads what was done, deletes the organisation and brings it
 * back. No mail server is set up.
 */

t.test("people of an organisation", async (t) => {
  if (!(await requires(t, "chromium"))) return;
  const { url, signInLink } = await startControlPlane(t, { env: { SM_SCHEDULER__BUILTIN_AGENT: "false" } });
  const browser = await openBrowser(t);
  const open = async (t: Test): Promise<Page> =>
    await openPage(
      t,
      await browser.newContext({ baseURL: url, viewport: { width: 1280, height: 800 }, colorScheme: "light" }),
    );
  const owner = await open(t);
  await owner.goto(signInLink!);
  await owner.getByRole("button", { name: "Sign in" }).click();
  await owner.waitForURL("**/");

  await t.test("a token is made in the console and shown once", async (t) => {
    await owner.goto("/settings");
    await owner.getByRole("link", { name: "API tokens", exact: true }).click();
    await owner.getByLabel("Name", { exact: true }).fill("Terraform");
    await owner.getByRole("button", { name: "Create token" }).click();
    t.match(
      await owner.locator("fieldset .error-note").textContent(),
      /scopes/,
      "a token that may do nothing is refused beside what it may do",
    );
    await owner.getByLabel("targets:read").check();
    t.same(await findings(owner), []);
    await owner.getByRole("button", { name: "Create token" }).click();
    await owner.locator("#made").waitFor();
    const token = (await owner.locator("#token").textContent())!;
    t.match(token, /^sm_live_[\w-]{43}$/);
    const headers = { authorization: `Bearer ${token}` };
    t.equal((await fetch(`${url}/api/v1/targets`, { headers })).status, 200);
    await owner.getByRole("link", { name: "Done" }).click();
    t.notMatch(await owner.content(), token);
    await owner.getByRole("button", { name: "Revoke Terraform" }).click();
    await owner.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
    await owner.getByText("No API tokens yet").waitFor();
    t.equal((await fetch(`${url}/api/v1/targets`, { headers })).status, 401);
  });

  const nina = await open(t);
  const invite = async (t: Test, email: string): Promise<string> => {
    await owner.goto("/settings/members");
    await owner.getByLabel("Email address").fill(email);
    t.same(await findings(owner), []);
    await owner.getByRole("button", { name: "Create invitation link" }).click();
    await owner.locator("#invited").waitFor();
    t.same(await findings(owner), []);
    return (await owner.locator("#invited pre").textContent())!.trim();
  };
  await t.test("an invited person joins, and signs in again by password", async (t) => {
    const link = await invite(t, "nina@example.org");
    await owner.getByRole("link", { name: "Done" }).click();
    await owner.getByRole("button", { name: "Revoke nina@example.org" }).waitFor();

    await nina.goto(link);
    t.same(await findings(nina), []);
    await nina.getByLabel("Password").fill("nine purple lighthouses");
    await nina.getByRole("button", { name: "Accept invitation" }).click();
    await nina.waitForURL("**/");
    await nina.goto("/settings");
    t.equal(await nina.getByRole("link", { name: "Audit log" }).count(), 0, "a member has no audit log");
    t.equal((await nina.goto("/settings/audit"))!.status(), 403);

    await nina.goto("/settings");
    await nina.locator("main").getByRole("button", { name: "Sign out" }).click();
    await nina.waitForURL("**/sign-in");
    await nina.getByLabel("Email address").fill("Nina@example.org");
    await nina.getByLabel("Password").fill("nine purple lighthouses");
    t.same(await findings(nina), []);
    await nina.getByRole("button", { name: "Sign in" }).click();
    await nina.waitForURL("**/");
  });

  await t.test("an invited person joins with a passkey, and signs in with it", async (t) => {
    // Passkeys work at hosts that are names.
    const link = (await invite(t, "piet@example.org")).replace("127.0.0.1", "localhost");
    const context = await browser.newContext({ baseURL: new URL(link).origin });
    const piet = await openPage(t, context);
    const cdp = await context.newCDPSession(piet);
    await cdp.send("WebAuthn.enable");
    const device = await authenticatorWith(cdp);
    await piet.goto(link);
    const accept = piet.getByRole("button", { name: "Accept with a passkey" });
    await accept.waitFor();
    await looksRight(t, piet, "invitation");
    await accept.click();
    await piet.waitForURL("**/");
    matchObject(t, await credentialsOf(cdp, device), [{ rpId: "localhost", isResidentCredential: true }]);
    await piet.goto(link);
    await piet.getByRole("heading", { name: "Invitation not valid" }).waitFor();

    await context.clearCookies();
    await piet.goto("/sign-in?next=/settings/account");
    await piet.getByRole("button", { name: "Sign in with a passkey" }).click();
    await piet.waitForURL("**/settings/account");
    await piet.getByText("piet@example.org").first().waitFor();
    await context.close();
  });

  await t.test("an owner changes a role in the menu of the member", async (t) => {
    await owner.goto("/settings/members");
    const row = owner.getByRole("row").filter({ hasText: "nina@example.org" });
    for (const [role, status] of [
      ["viewer", 403],
      ["member", 400],
    ] as const) {
      await row.getByLabel("Actions for nina@example.org").click();
      t.same(await findings(owner), []);
      await row.getByRole("button", { name: `Make ${role}` }).click();
      await owner
        .getByRole("dialog")
        .getByRole("button", { name: `Make ${role}` })
        .click();
      await row.getByRole("cell", { name: new RegExp(`^${role}$`, "i") }).waitFor();
      const headers = { "sec-fetch-site": "same-origin" };
      const answer = await nina.request.post(`${url}/api/v1/targets`, { headers, data: {} });
      t.equal(answer.status(), status, `a ${role} has the rights of one at once`);
    }
  });

  await t.test("what was done stands in the audit log", async (t) => {
    await owner.goto("/settings/audit");
    for (const action of [
      "POST /api/v1/invitations/accept",
      "DELETE /api/v1/api-tokens/{id}",
      "POST /api/v1/api-tokens",
    ])
      t.ok((await owner.getByText(action).count()) > 0, action);
    t.same(await findings(owner), []);
  });

  await t.test("a page saves into the organisation that it shows, whatever another tab switched to", async (t) => {
    const api = async (method: string, path: string, body?: object) =>
      await owner.request.fetch(`${url}/api/v1${path}`, {
        method,
        headers: { "sec-fetch-site": "same-origin" },
        ...(body === undefined ? {} : { data: body }),
      });
    const home = (await (await api("GET", "/me")).json()).org as { id: string; name: string };
    await owner.goto("/settings/organisation");
    await owner.getByLabel("Organisation name").fill("Second");
    await owner.getByRole("button", { name: "Create organisation" }).click();
    await owner.waitForURL(`${url}/`);
    await owner.locator(".switcher > summary", { hasText: "Second" }).waitFor();
    const second = (await (await api("GET", "/me")).json()).org as { id: string };
    await api("POST", `/orgs/${home.id}/switch`);
    const monitorsOf = async (org: string): Promise<string[]> => {
      const reply = await owner.request.get(`${url}/api/v1/targets`, { headers: { "X-Sm-Org": org } });
      return ((await reply.json()).items as { name: string }[]).map(({ name }) => name);
    };
    const fill = async (page: Page, name: string) => {
      await page.getByLabel("Name", { exact: true }).fill(name);
      await page.locator("#http-check-url").fill("https://shop.example.org/");
    };
    await owner.goto("/monitors/new");
    await fill(owner, "Belongs to the first");
    const other = await owner.context().newPage();
    await other.goto("/settings/organisation");
    await other.getByRole("button", { name: "Switch to Second" }).first().click();
    await other.waitForURL("**/");
    await owner.getByText(`This page saves to ${home.name}.`).waitFor();
    t.same(await findings(owner), []);
    await owner.getByRole("button", { name: "Add monitor" }).click();
    await owner.waitForURL(/\/monitors\/[0-9a-f-]{36}/);
    await owner.getByRole("heading", { name: "Belongs to the first" }).waitFor();
    t.same(await monitorsOf(home.id), ["Belongs to the first"]);
    t.same(await monitorsOf(second.id), []);

    await other.getByText("This page saves to Second.").waitFor();
    await other.getByRole("button", { name: "Switch back" }).click();
    await other.locator("#elsewhere").waitFor({ state: "detached" });
    await other.goto("/monitors/new");
    await fill(other, "Refused");
    await api("DELETE", `/orgs/${second.id}`);
    await other.getByRole("button", { name: "Add monitor" }).click();
    await other.getByRole("alert").getByText("Nothing was changed: you have no access to the organisation").waitFor();
    t.same(await monitorsOf(home.id), ["Belongs to the first"]);
    await other.close();
    await api("POST", `/orgs/${home.id}/switch`);
  });

  await t.test("an organisation is deleted and brought back", async (t) => {
    await owner.goto("/settings/organisation");
    t.same(await findings(owner), []);
    await owner.getByRole("button", { name: "Delete" }).click();
    await owner.locator("#delete-name").fill("My organisation");
    await owner.locator("#delete [data-send]").click();
    await owner.getByText("My organisation is deleted.").waitFor();
    await nina.goto("/monitors");
    t.match(nina.url(), /\/sign-in/, "nobody else gets in");
    t.same(await findings(owner), []);
    await owner.locator(".box").getByRole("button", { name: "Restore" }).click();
    await owner.waitForURL("**/");
    await nina.goto("/monitors");
    t.match(nina.url(), /\/monitors/);
  });
});

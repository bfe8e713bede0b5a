import { Events, OAuth2Server } from "oauth2-mock-server";
import type { Page } from "playwright-core";
import t, { type Test } from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { codeAt, stepAt } from "@statusmesh/control-plane/access/auth/second-factor/totp";
import { authenticatorWith, type Credential, credentialsOf } from "../harness/authenticator.ts";
import { findings, looksRight, openBrowser, openPage } from "../harness/browser.ts";
import { cloneDatabase } from "../harness/database.ts";
import { startControlPlane } from "../harness/processes.ts";
import { requires } from "../harness/requires.ts";

/*
 * Somebody signs in with Google in a real browser: first with an unknown account, then with the right
 * one, and is sent on to where they wanted to go. The Google is one of this machine. Then they add passkeys, with the
 * authenticator that Chromium has for tests, and sign in with one.
 */

t.test("from the sign-in page to the console with Google, and with passkeys", async (t) => {
  if (!(await requires(t, "chromium"))) return;
  const google = new OAuth2Server();
  await google.issuer.keys.generate("RS256");
  await google.start(0, "127.0.0.1");
  t.teardown(() => google.stop());
  let claims: object = { sub: "1", email: "stranger@example.com", email_verified: true };
  google.service.on(
    Events.BeforeTokenSigning,
    (token: { payload: object }) => void Object.assign(token.payload, claims),
  );
  const database = await cloneDatabase(t);
  const { url, signInLink } = await startControlPlane(t, {
    env: {
      ...database.env,
      SM_BOOTSTRAP__EMAIL: "olga@example.org",
      SM_SCHEDULER__BUILTIN_AGENT: "false",
      SM_AUTH__ENABLED_METHODS: "google,magic_link,passkey",
      // A second way to sign in: the link by mail is one only where mail is configured.
      SM_EMAIL__SMTP_URL: "smtp://127.0.0.1:9",
      SM_AUTH__GOOGLE__CLIENT_ID: "id",
      SM_AUTH__GOOGLE__CLIENT_SECRET: "secret",
      SM_AUTH__GOOGLE__ISSUER: google.issuer.url,
    },
  });
  const browser = await openBrowser(t);
  const context = await browser.newContext({
    baseURL: url,
    viewport: { width: 1280, height: 800 },
    colorScheme: "light",
  });
  const page = await openPage(t, context);

  await page.goto("/settings/account");
  t.match(page.url(), /\/sign-in\?next=%2Fsettings%2Faccount$/);
  t.same(await findings(page), []);
  await page.getByRole("link", { name: "Continue with Google" }).click();
  await page.getByText("There is no account with this address").waitFor();
  t.ok(await page.getByText("stranger@example.com").isVisible());
  t.same(await findings(page), []);

  claims = { sub: "2", email: "Olga@Example.org", email_verified: true };
  await page.goto("/settings/account");
  await page.getByRole("link", { name: "Continue with Google" }).click();
  await page.waitForURL("**/settings/account");
  t.ok(await page.getByRole("heading", { name: "Linked accounts" }).isVisible());
  t.same(await findings(page), []);
  const cookies = await context.cookies();
  matchObject(
    t,
    cookies.filter(({ name }) => name === "_sm_session"),
    [{ name: "_sm_session", httpOnly: true, sameSite: "Lax" }],
  );

  await page.getByRole("button", { name: "Unlink Google" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Unlink" }).click();
  await page.getByRole("heading", { name: "Linked accounts" }).waitFor({ state: "detached" });

  await page.getByRole("button", { name: "Set up" }).click();
  await page.getByRole("img", { name: "QR code of the key" }).waitFor();
  const secret = await page.locator("#totp-secret").innerText();
  const codeOf = (offset: number) => codeAt(secret, stepAt(Date.now()) + offset);
  const code = page.getByLabel("Code", { exact: true });
  await code.fill(codeOf(8));
  await page.getByRole("button", { name: "Confirm" }).click();
  await page.locator("#totp-code-error", { hasText: "ahead of the clock of this server" }).waitFor();
  t.same(await findings(page), []);
  await code.fill(codeOf(0));
  await page.getByRole("button", { name: "Confirm" }).click();
  await page.getByText("Keep these recovery codes").waitFor();
  await page.getByRole("link", { name: "Done" }).click();
  // A session that is not fresh is asked in place, and the request is sent again.
  await database.sql`update sessions set verified_at = null`;
  await page.getByRole("button", { name: "New recovery codes" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Code of your authenticator app").fill("000000");
  await dialog.getByRole("button", { name: "Confirm" }).click();
  await dialog.getByText("The code is wrong").waitFor();
  t.same(await findings(page), []);
  await dialog.getByLabel("Code of your authenticator app").fill(codeOf(1));
  await dialog.getByRole("button", { name: "Confirm" }).click();
  await page.getByText("Keep these recovery codes").waitFor();
  const [recovery] = (await page.locator("#recovery-codes").innerText()).split("\n");

  const bare = await (await browser.newContext({ baseURL: url, javaScriptEnabled: false })).newPage();
  await bare.goto("/sign-in");
  await bare.getByRole("link", { name: "Continue with Google" }).click();
  await bare.getByLabel("Code").fill(recovery!);
  await bare.getByRole("button", { name: "Sign in" }).click();
  await bare.waitForURL(({ origin, pathname }) => origin === url && !pathname.startsWith("/sign-in"));
  t.ok(await bare.getByRole("heading", { level: 1 }).isVisible(), "and without JavaScript");

  const required = page.getByLabel("Require a second factor");
  for (const wanted of [true, false]) {
    await page.goto("/settings/organisation");
    t.equal(await required.isChecked(), !wanted);
    await required.setChecked(wanted);
    if (wanted) await looksRight(t, page, "organisation");
    const saved = page.waitForResponse((reply) => reply.request().method() === "PATCH");
    // The script leaves for the page itself.
    const left = page.waitForEvent("load");
    await page.getByRole("button", { name: "Save", exact: true }).click();
    t.equal((await saved).status(), 200);
    await left;
  }

  await page.goto("/settings/account");
  await page.getByText("Passkeys work at http://localhost").waitFor();
  t.notOk(await page.getByRole("button", { name: "Add a passkey" }).isVisible(), "not at an address");
  await byPasskey(t, page, signInLink!.replace("127.0.0.1", "localhost"));
});

async function byPasskey(t: Test, page: Page, link: string): Promise<void> {
  const account = new URL("/settings/account", link).href;
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("WebAuthn.enable");
  const replace = async (id: string, credentials: Credential[]) => {
    await cdp.send("WebAuthn.removeVirtualAuthenticator", { authenticatorId: id });
    return await authenticatorWith(cdp, credentials);
  };
  let device = await authenticatorWith(cdp);

  await page.goto(link);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.waitForURL(({ pathname }) => !pathname.startsWith("/sign-in"));
  await page.goto(account);
  const name = page.getByLabel("Name of the passkey");
  t.match(await name.inputValue(), /^(?:Headless)?Chrome on Linux$/);
  const add = async (called: string) => {
    await name.fill(called);
    await page.getByRole("button", { name: "Add a passkey" }).click();
  };
  await add("Laptop");
  await page.getByText("The passkey was added.").waitFor();
  await add("Laptop again");
  await page.getByText("This device has a passkey of your account already.").first().waitFor();
  const [laptop] = await credentialsOf(cdp, device);
  device = await replace(device, []);
  await add("Phone");
  await page.getByRole("rowheader", { name: "Phone" }).waitFor();
  await looksRight(t, page, "account");

  await page.getByRole("button", { name: "Rename Phone" }).click();
  await page.getByRole("dialog").getByLabel("Name").fill("Work phone");
  await page.getByRole("dialog").getByRole("button", { name: "Rename" }).click();
  await page.getByRole("rowheader", { name: "Work phone" }).waitFor();
  await page.getByRole("button", { name: "Remove Work phone" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Remove" }).click();
  await page.getByText("Saved. Your other sessions have ended.").waitFor();
  t.equal(await page.getByRole("rowheader").filter({ hasText: "Work phone" }).count(), 0);

  const signIn = async () => {
    await page.context().clearCookies();
    await page.goto(new URL("/sign-in?next=/settings/account", link).href);
    await page.getByRole("button", { name: "Sign in with a passkey" }).click();
  };
  await signIn();
  await page.getByText("This passkey is not known here, or was removed.").first().waitFor();
  await looksRight(t, page, "sign-in");
  device = await replace(device, [laptop!]);
  // The list of the browser cannot be driven: the passkey that it offers is chosen at once.
  await page.addInitScript(`{
    const { credentials } = navigator;
    const get = credentials.get.bind(credentials);
    PublicKeyCredential.isConditionalMediationAvailable = async () => true;
    credentials.get = ({ mediation, ...options }) => {
      if (mediation === "conditional") sessionStorage.setItem("offered", "yes");
      return get(options);
    };
  }`);
  await page.context().clearCookies();
  await page.goto(new URL("/sign-in?next=/settings/account", link).href);
  await page.getByRole("button", { name: "Sign in with a passkey" }).waitFor();
  await page.getByLabel("Email address").click();
  await page.getByRole("rowheader", { name: "Laptop" }).waitFor();
  t.equal(await page.evaluate("sessionStorage.getItem('offered')"), "yes", "offered beside the address");
  // A copy of the device that was made before.
  await replace(device, [laptop!]);
  await signIn();
  await page.getByText("This passkey is suspended, because its counter went back").first().waitFor();
}

import { Events, OAuth2Server } from "oauth2-mock-server";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { findings, openBrowser, openPage } from "../harness/browser.ts";
import { startControlPlane } from "../harness/processes.ts";
import { requires } from "../harness/requires.ts";

/*
 * Somebody signs in with Google in a real browser: first with an unknown account, then with the right
 * one, and is sent on to where they wanted to go. The Google is one of this machine.
 */

t.test("from the sign-in page to the console with Google", async (t) => {
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
  const { url } = await startControlPlane(t, {
    env: {
      SM_BOOTSTRAP__EMAIL: "olga@example.org",
      SM_SCHEDULER__BUILTIN_AGENT: "false",
      SM_AUTH__ENABLED_METHODS: "google,magic_link",
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

  const bare = await (await browser.newContext({ baseURL: url, javaScriptEnabled: false })).newPage();
  await bare.goto("/sign-in");
  await bare.getByRole("link", { name: "Continue with Google" }).click();
  await bare.waitForURL(({ origin, pathname }) => origin === url && !pathname.startsWith("/sign-in"));
  t.ok(await bare.getByRole("heading", { level: 1 }).isVisible(), "and without JavaScript");
});

import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import t, { type Test } from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { looksRight, openBrowser, openPage, watchPage } from "../harness/browser.ts";
import { startControlPlane } from "../harness/processes.ts";
import { requires } from "../harness/requires.ts";
import { waitFor } from "../harness/wait.ts";

/* An MCP client on the web, as a person connects it in a browser. */

/**
 * A web app of another origin that connects by a popup. Its callbacks redirect on: to a third origin, to a scheme, and
 * `/late` to the third origin when it is asked again.
 */
async function serveApp(t: Test) {
  const calls: string[] = [];
  const script = {
    "/opener": `onmessage = ({ data }) => { document.getElementById("answer").textContent = data; };
      document.querySelector("button").onclick = () => open(new URLSearchParams(location.search).get("to"), "popup");`,
    // A window that was led elsewhere by its address bar has no opener.
    "/done": "opener?.postMessage(location.search, '*');",
  };
  const server = createServer((request, response) => {
    const { pathname, search, port } = new URL(
      request.url!,
      `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    );
    calls.push(pathname);
    const done = `http://localhost:${port}/done${search}`;
    const to = { "/callback": done, "/to-scheme": `journey-app://done${search}`, "/late": done };
    // The browser stays where it is.
    if (pathname === "/late" && calls.filter((path) => path === pathname).length === 1)
      return void response.writeHead(204).end();
    if (pathname in to) return void response.writeHead(302, { location: to[pathname as keyof typeof to] }).end();
    response.setHeader("content-type", "text/html");
    response.end(
      `<link rel="icon" href="data:,"><button>Connect</button><p id="answer"></p>
      <script>${script[pathname as keyof typeof script] ?? ""}</script>`,
    );
  });
  server.listen(0);
  await once(server, "listening");
  t.teardown(() => {
    server.close();
    server.closeAllConnections();
  });
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    called: async (path: string) => await waitFor(`a request to ${path}`, () => calls.includes(path)),
  };
}

t.test("an app opens its consent page in a popup, is listed and disconnected", async (t) => {
  if (!(await requires(t, "chromium"))) return;
  const { url, signInLink } = await startControlPlane(t, {
    env: {
      SM_SCHEDULER__BUILTIN_AGENT: "false",
      SM_MCP__ENABLED: "true",
      SM_MCP__OAUTH_ENABLED: "true",
      SM_MCP__RESOURCE_URI: "https://mcp.example.org",
      SM_AUTH__PUBLIC_BASE_URL: "https://status.example.org",
    },
  });
  const browser = await openBrowser(t);
  const client = await serveApp(t);
  const redirect = `${client.origin}/callback`;
  const send = async (path: string, init: { json?: object; form?: Record<string, string> }) => {
    const response = await fetch(url + path, {
      method: "POST",
      ...(init.json === undefined ? {} : { headers: { "content-type": "application/json" } }),
      body: init.json === undefined ? new URLSearchParams(init.form) : JSON.stringify(init.json),
    });
    return { status: response.status, body: (await response.json()) as Record<string, string> };
  };
  const registered = await send("/oauth/register", {
    json: { client_name: "Helper", redirect_uris: [redirect, `${client.origin}/to-scheme`, `${client.origin}/late`] },
  });
  const clientId = registered.body["client_id"]!;
  const verifier = "a-verifier-of-the-journey-with-43-characters";
  const authorize = (redirectUri: string): string =>
    `${url}/oauth/authorize?${new URLSearchParams({
      response_type: "code",
      client_id: clientId,
      redirect_uri: redirectUri,
      code_challenge: createHash("sha256").update(verifier).digest("base64url"),
      code_challenge_method: "S256",
      resource: "https://mcp.example.org/mcp",
      scope: "targets:read targets:write incidents:write",
      state: "journey",
    })}`;

  const own = await browser.newContext({
    baseURL: url,
    viewport: { width: 1280, height: 800 },
    colorScheme: "light",
  });
  const opener = await openPage(t, own);
  await opener.goto(`${client.origin}/opener?${new URLSearchParams({ to: authorize(redirect) })}`);
  const popped = own.waitForEvent("page");
  await opener.getByRole("button", { name: "Connect" }).click();
  const consent = await popped;
  watchPage(t, consent);
  await consent.waitForURL("**/sign-in?next=*");
  await consent.getByLabel("Sign-in link").fill(signInLink!);
  await consent.getByRole("button", { name: "Use link", exact: true }).click();
  const host = new URL(client.origin).host;
  await consent.getByRole("heading", { name: `${host} is requesting access` }).waitFor();
  t.equal(await consent.getByRole("checkbox").count(), 2);
  t.equal(await consent.getByRole("checkbox", { checked: true }).count(), 0, "write permissions are not ticked");
  await looksRight(t, consent, "consent");
  await consent.getByLabel("Pause and resume monitors").check();
  await consent.getByRole("button", { name: "Approve" }).click();
  // The callback redirects on to another origin, which hands its parameters to the window that opened the popup.
  await opener.getByText("state=journey").waitFor();
  const answer = new URLSearchParams((await opener.locator("#answer").textContent())!);
  matchObject(t, Object.fromEntries(answer), { state: "journey", iss: "https://status.example.org" });
  const code = answer.get("code")!;
  const tokens = await send("/oauth/token", {
    form: {
      grant_type: "authorization_code",
      client_id: clientId,
      code,
      redirect_uri: redirect,
      code_verifier: verifier,
    },
  });
  matchObject(t, tokens, { status: 200, body: { scope: "targets:read incidents:read targets:write" } });

  await consent.goto(authorize(`${client.origin}/late`));
  await consent.getByRole("button", { name: "Deny" }).click();
  const link = consent.getByRole("link", { name: "Continue to the app" });
  await link.waitFor();
  await client.called("/late");
  await looksRight(t, consent, "the answer");
  await link.click();
  await consent.waitForURL("**/done?error=access_denied*");

  await consent.goto(authorize(`${client.origin}/to-scheme`));
  await consent.getByRole("button", { name: "Deny" }).click();
  await link.waitFor();
  await client.called("/to-scheme");
  t.match(await link.getAttribute("href"), `${client.origin}/to-scheme?error=access_denied`);
  // From here on Chromium asks "Open journey-app?" in a dialog of its own, which takes all input of this window.

  const apps = await openPage(t, own);
  await apps.goto("/settings/connected-apps");
  await apps.getByRole("row", { name: /Helper.*Pause and resume monitors/ }).waitFor();
  await looksRight(t, apps, "connected apps");
  await apps.getByRole("button", { name: "Disconnect “Helper”" }).click();
  await apps.getByRole("dialog").getByRole("button", { name: "Disconnect" }).click();
  await apps.getByText("No connected apps in this organisation").waitFor();
  const refused = await send("/oauth/token", {
    form: { grant_type: "refresh_token", client_id: clientId, refresh_token: tokens.body["refresh_token"]! },
  });
  matchObject(t, refused, { status: 400, body: { error: "invalid_grant" } });
  await own.close();
});

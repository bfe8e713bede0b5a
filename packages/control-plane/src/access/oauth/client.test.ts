import { UnauthorizedError, type OAuthClientProvider } from "@modelcontextprotocol/sdk/client/auth.js";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import type { OAuthClientInformationMixed, OAuthTokens } from "@modelcontextprotocol/sdk/shared/auth.js";
import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { hour } from "../../testing/clock.ts";
import { alternating, openMcp } from "../../testing/mcp.ts";
import { callback, oauthOn, resource, sending } from "../../testing/oauth.ts";
import { asking, signedIn } from "../../testing/whole-app.ts";
import { newOrg } from "../../testing/world.ts";

/** State of a client app, and the last page that it opened. */
class Provider implements OAuthClientProvider {
  readonly redirectUrl = callback;
  readonly clientMetadata = { client_name: "SDK client", redirect_uris: [callback] };
  client: OAuthClientInformationMixed | undefined;
  kept: OAuthTokens | undefined;
  opened: URL | null = null;
  #verifier = "";
  #lastState = 0;

  state = (): string => `state-${++this.#lastState}`;
  clientInformation = () => this.client;
  saveClientInformation = (client: OAuthClientInformationMixed): void => void (this.client = client);
  tokens = () => this.kept;
  saveTokens = (tokens: OAuthTokens): void => void (this.kept = tokens);
  redirectToAuthorization = (url: URL): void => void (this.opened = url);
  saveCodeVerifier = (verifier: string): void => void (this.#verifier = verifier);
  codeVerifier = () => this.#verifier;
}

t.test("the SDK client discovers, asks, refreshes and steps up, between two replicas", async (t) => {
  const { world, replicas } = await openMcp(t, { env: oauthOn });
  const owner = await newOrg(world.system);
  const headers = await signedIn(owner);
  const browse = sending(replicas[1]);
  const provider = new Provider();

  /** The user approves the opened page; returns the code that the app gets. */
  const approve = async (ticked = ""): Promise<string> => {
    const { pathname, search } = provider.opened!;
    const page = await browse(pathname + search, { headers });
    const field = /name="request" value="([^"]+)"/.exec(page.text)![1]!;
    const form = `request=${field}${ticked}&days=90&decision=approve`;
    const back = await browse(pathname, { form, headers });
    t.equal(back.to.get("state"), provider.opened!.searchParams.get("state"));
    return back.to.get("code")!;
  };
  const connect = async () => {
    const client = new Client({ name: "Test", version: "1" }, { capabilities: { elicitation: {} } });
    client.setRequestHandler(ElicitRequestSchema, async () => ({ action: "accept", content: { confirm: true } }));
    const send = alternating(t, replicas);
    let streamOpens = (): void => {};
    const streams = new Promise<void>((resolve) => (streamOpens = resolve));
    const transport = new StreamableHTTPClientTransport(new URL(`${resource}/mcp`), {
      authProvider: provider,
      fetch: async (url, init) => {
        const response = await send(url, init);
        if (init?.method === "GET") streamOpens();
        return response;
      },
    });
    t.teardown(() => client.close());
    try {
      await client.connect(transport as Transport);
    } catch (error) {
      if (!(error instanceof UnauthorizedError)) throw error;
    }
    return { client, transport, streams };
  };

  const first = await connect();
  t.equal(provider.opened?.origin, "https://status.example.org", "found by both metadata documents");
  t.equal(provider.opened?.searchParams.get("resource"), `${resource}/mcp`);
  await first.transport.finishAuth(await approve());
  t.equal(provider.kept?.scope, "targets:read status_page:read incidents:read", "no box was ticked");

  const { client, transport, streams } = await connect();
  // It is requested beside the next calls, and a late one would ask the user too.
  await streams;
  t.ok((await client.listTools()).tools.length > 0);
  const before = provider.kept!;
  world.clock.advance(hour);
  t.ok((await client.listTools()).tools.length > 0, "it refreshes by itself");
  t.not(provider.kept?.access_token, before.access_token);
  t.not(provider.kept?.refresh_token, before.refresh_token);

  const made = await asking(replicas[0], headers)("POST", "/api/v1/targets", {
    name: "Shop",
    check: { type: "tcp", host: "shop.example.org", port: 443 },
    interval: 60,
  });
  t.equal(made.status, 201);
  const pause = async () => await client.callTool({ name: "pause_monitor", arguments: { monitor_id: made.body.id } });
  // With a refresh token this client refreshes and stops; without one it asks the user.
  const { refresh_token: _, ...bare } = provider.kept!;
  provider.kept = bare;
  provider.opened = null;
  await t.rejects(pause(), { message: "Unauthorized" });
  t.match(provider.opened!.searchParams.get("scope"), "targets:write");
  await transport.finishAuth(await approve("&scope=targets:write"));
  matchObject(t, await pause(), { structuredContent: { state: "paused", changed: true } });
  matchObject(t, await asking(replicas[1], headers)("GET", `/api/v1/targets/${made.body.id}`), {
    body: { enabled: false },
  });
});

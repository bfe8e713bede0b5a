import { generateKeyPairSync } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Events, type JWK, OAuth2Issuer, OAuth2Service } from "oauth2-mock-server";
import Provider, { interactionPolicy } from "oidc-provider";
import type { Teardown } from "./database.ts";

/** An identity provider of this machine. */
export interface MockProvider {
  /** For auth.<provider>.issuer. */
  readonly issuer: string;
  /** Claims that replace those of its tokens. */
  claims: Record<string, unknown>;
  /** Query of the callback instead of a code: `error=access_denied`. Null: a code. */
  refusal: string | null;
  /** Takes a request over by answering true, to answer it as it should not. */
  misbehave: (http: { path: string; request: IncomingMessage; response: ServerResponse }) => boolean;
  /** Paths that were asked for. */
  readonly asked: string[];
  stop(): Promise<void>;
  /** On the port that it had. */
  start(): Promise<void>;
}

export interface MockGithub extends MockProvider {
  user: unknown;
  emails: unknown;
  /** `iss` of the way back (RFC 9207); null sends none. */
  iss: string | null;
}

/** A Google of this machine: discovery, authorization, tokens, keys. */
export async function startGoogle(t: Teardown): Promise<MockProvider> {
  const { mock, service } = await start(t, {});
  service.on(Events.BeforeTokenSigning, (token: { payload: object }) => void Object.assign(token.payload, mock.claims));
  mock.claims = { sub: "g-1", email: "nobody@example.org", email_verified: true };
  return mock;
}

/** A GitHub Enterprise of this machine: authorization and tokens as GitHub has them, and the two paths of its API. */
export async function startGithub(t: Teardown): Promise<MockGithub> {
  const { mock, service, beside } = await start(t, {
    authorize: "/login/oauth/authorize",
    token: "/login/oauth/access_token",
  });
  const github: MockGithub = Object.assign(mock, {
    user: { id: 1, login: "nobody" },
    emails: [] as unknown,
    iss: `${mock.issuer}/login/oauth` as string | null,
  });
  service.on(Events.BeforeResponse, (response: { body: unknown }) => {
    const { access_token } = response.body as { access_token: string };
    response.body = { access_token, token_type: "bearer", scope: "user:email" };
  });
  service.on(Events.BeforeAuthorizeRedirect, ({ url }: { url: URL }) => {
    if (github.iss !== null) url.searchParams.set("iss", github.iss);
  });
  beside.answer = (path, request) => {
    if (!/^Bearer \S+$/i.test(request.headers.authorization ?? "")) return null;
    return path === "/api/v3/user" ? github.user : path === "/api/v3/user/emails" ? github.emails : null;
  };
  return github;
}

/** Made once: it takes a while. */
let key: Promise<JWK> | null = null;

async function start(t: Teardown, endpoints: { authorize?: string; token?: string }) {
  const issuer = new OAuth2Issuer();
  await issuer.keys.add(await (key ??= new OAuth2Issuer().keys.generate("RS256")));
  const service = new OAuth2Service(issuer, endpoints);
  const beside = { answer: (_path: string, _request: IncomingMessage): unknown => null };
  const asked: string[] = [];
  let server: Server | null = null;
  let port = 0;
  const handle = (request: IncomingMessage, response: ServerResponse): void => {
    const path = request.url!.split("?", 1)[0]!;
    asked.push(path);
    if (mock.misbehave({ path, request, response })) return;
    const answer = beside.answer(path, request);
    if (answer !== null) response.setHeader("content-type", "application/json").end(JSON.stringify(answer));
    else service.requestHandler(request, response);
  };
  const listen = async () => {
    server = createServer(handle).listen(port, "127.0.0.1");
    await new Promise((resolve) => server!.once("listening", resolve));
    port = (server.address() as AddressInfo).port;
  };
  const close = async () => {
    const closing = server;
    server = null;
    closing?.closeAllConnections();
    await new Promise<void>((resolve) => (closing === null ? resolve() : closing.close(() => resolve())));
  };
  await listen();
  issuer.url = `http://127.0.0.1:${port}`;
  t.teardown(close);
  const mock: MockProvider = {
    issuer: issuer.url,
    claims: {},
    refusal: null,
    misbehave: () => false,
    asked,
    stop: close,
    start: listen,
  };
  service.on(Events.BeforeAuthorizeRedirect, ({ url }: { url: URL }) => {
    if (mock.refusal === null) return;
    url.searchParams.delete("code");
    for (const [name, value] of new URLSearchParams(mock.refusal)) url.searchParams.set(name, value);
  });
  return { mock, service, beside };
}

/** A certified OpenID provider (oidc-provider) of this machine: it requires PKCE, and gives claims by userinfo only. */
export interface OidcProvider {
  readonly issuer: string;
  /** Who signs in next. */
  person: { sub: string } & Record<string, unknown>;
  /** True: the person refuses. */
  refuses: boolean;
  /** Signs with a new key, and publishes no other. */
  rotateKeys(): void;
}

export async function startOidc(t: Teardown, site = "https://status.example.org"): Promise<OidcProvider> {
  const server = createServer((request, response) => {
    const { refuses, person } = oidc;
    // Its page, on which the person signs in.
    const done = refuses ? { error: "access_denied" } : { select_account: {}, login: { accountId: person.sub } };
    if (request.url!.startsWith("/interaction/")) void provider.interactionFinished(request, response, done);
    else void provider.callback()(request, response);
  }).listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const oidc: OidcProvider = {
    issuer,
    person: { sub: "nobody" },
    refuses: false,
    rotateKeys: () => void (provider = openProvider(issuer, () => oidc.person, site)),
  };
  let provider = openProvider(issuer, () => oidc.person, site);
  return oidc;
}

function openProvider(issuer: string, person: () => OidcProvider["person"], site: string): Provider {
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const policy = interactionPolicy.base();
  policy.add(new interactionPolicy.Prompt({ name: "select_account", requestable: true }), 0);
  const provider: Provider = new Provider(issuer, {
    clients: [
      {
        client_id: "our-oidc-id",
        client_secret: "our-oidc-secret",
        redirect_uris: [`${site}/sign-in/oidc/callback`],
        token_endpoint_auth_method: "client_secret_post",
      },
    ],
    jwks: { keys: [{ ...privateKey.export({ format: "jwk" }), use: "sig", alg: "RS256" }] },
    claims: { openid: ["sub"], email: ["email", "email_verified"], groups: ["realm_access"] },
    cookies: { keys: ["of the test"] },
    pkce: { required: () => true },
    features: { devInteractions: { enabled: false } },
    interactions: { policy, url: (_ctx, { uid }) => `/interaction/${uid}` },
    findAccount: (_ctx, id) => ({ accountId: id, claims: () => ({ ...person(), sub: id }) }),
    async loadExistingGrant({ oidc: { client, session } }) {
      const grant = new provider.Grant({ clientId: client!.clientId, accountId: session!.accountId! });
      grant.addOIDCScope("openid email groups");
      await grant.save();
      return grant;
    },
  });
  return provider;
}

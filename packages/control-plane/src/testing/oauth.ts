import { createHash, randomBytes } from "node:crypto";

import { request } from "undici";
import type { Ctx } from "../platform/context.ts";
import { type Served } from "./app.ts";
import { signedIn } from "./whole-app.ts";
import { newOrg, type World } from "./world.ts";

export const app = "https://status.example.org";
export const resource = "https://mcp.example.org";
export const callback = "https://app.example/callback?from=statusmesh";

/** Settings of a service with OAuth on. */
export const oauthOn = {
  SM_MCP__ENABLED: "true",
  SM_MCP__OAUTH_ENABLED: "true",
  SM_MCP__RESOURCE_URI: `${resource}/`,
  SM_AUTH__PUBLIC_BASE_URL: `${app}/`,
};

/** {@link oauthOn} without limits per visitor. */
export const oauthUnlimited = { ...oauthOn, SM_AUTH__PER_IP_RATE_LIMIT_PER_MIN: "0" };

export interface Answered {
  status: number;
  headers: Headers;
  text: string;
  // oxlint-disable-next-line typescript/no-explicit-any -- what is answered is what the tests look into
  json: any;
  /** Where the browser is led: Location, or the address of Refresh. */
  leadsTo: string | null;
  /** Its parameters. */
  to: URLSearchParams;
}

type Send = (
  path: string,
  init?: {
    method?: string;
    form?: Record<string, string> | URLSearchParams | string;
    headers?: Record<string, string>;
  },
) => Promise<Answered>;

/** Sends forms and reads redirects. */
export const sending =
  ({ origin }: Served): Send =>
  async (path, { method, form, headers = {} } = {}) => {
    // Unlike fetch, it sends a Host of the caller's choice.
    const response = await request(origin + path, {
      method: (method ?? (form === undefined ? "GET" : "POST")) as "GET",
      headers: form === undefined ? headers : { "content-type": "application/x-www-form-urlencoded", ...headers },
      ...(form === undefined ? {} : { body: new URLSearchParams(form).toString() }),
    });
    const text = await response.body.text();
    const got = new Headers(Object.entries(response.headers).map(([name, value]) => [name, String(value)]));
    const leadsTo = got.get("location") ?? /^0; url=(.*)$/.exec(got.get("refresh") ?? "")?.[1] ?? null;
    return {
      status: response.statusCode,
      headers: got,
      text,
      json: got.get("content-type")?.startsWith("application/json") ? JSON.parse(text || "null") : null,
      leadsTo,
      to: URL.canParse(leadsTo ?? "") ? new URL(leadsTo!).searchParams : new URLSearchParams(),
    };
  };

export const newVerifier = (): string => randomBytes(32).toString("base64url");
const challengeOf = (verifier: string): string => createHash("sha256").update(verifier).digest("base64url");

export interface Flow {
  send: Send;
  /** Headers of the signed-in browser. */
  browser: Record<string, string>;
  clientId: string;
  verifier: string;
}

/** A registered client and a signed-in browser. */
export async function openFlow(
  served: Served,
  user: Ctx,
  metadata: Record<string, unknown> = { client_name: "Test app", redirect_uris: [callback] },
): Promise<Flow> {
  const send = sending(served);
  const registered = await served("POST", "/oauth/register", metadata);
  if (registered.status !== 201) throw new Error(`registration answered ${registered.status} ${registered.text}`);
  return { send, browser: await signedIn(user), clientId: registered.body.client_id, verifier: newVerifier() };
}

/** Makes organisations, each with a client of its owner, on a served world; another one by its arguments. */
export const oauthStage =
  (world: World, served: Served) =>
  async (on = world, by = served) => {
    const owner = await newOrg(on.system);
    return { world: on, owner, served: by, send: sending(by), flow: await openFlow(by, owner) };
  };

/** The address of an authorization request; null leaves a parameter out. */
export function authorizePath(
  flow: Pick<Flow, "clientId" | "verifier">,
  changed: Record<string, string | null> = {},
): string {
  const asked: Record<string, string | null> = {
    response_type: "code",
    client_id: flow.clientId,
    redirect_uri: callback,
    code_challenge: challengeOf(flow.verifier),
    code_challenge_method: "S256",
    resource,
    state: "a b&c=ö",
    scope: "targets:read targets:write",
    ...changed,
  };
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(asked)) if (value !== null) query.append(name, value);
  return `/oauth/authorize?${query}`;
}

/** The signed field of the consent form. */
export async function signedField(flow: Flow, changed: Record<string, string | null> = {}): Promise<string> {
  const page = await flow.send(authorizePath(flow, changed), { headers: flow.browser });
  const field = /name="request" value="([^"]+)"/.exec(page.text)?.[1];
  if (field === undefined) throw new Error(`no form: ${page.status} ${page.text.slice(0, 500)}`);
  return field;
}

export const answer = (flow: Flow, request: string, more: string = "&days=30&decision=approve"): Promise<Answered> =>
  flow.send("/oauth/authorize", { form: `request=${request}${more}`, headers: flow.browser });

/** A code of an approved request. */
export async function newCode(flow: Flow, more?: string): Promise<string> {
  const answered = await answer(flow, await signedField(flow), more);
  const code = answered.to.get("code");
  if (code === null) throw new Error(`no code: ${answered.status} ${answered.text.slice(0, 500)}`);
  return code;
}

export const codeForm = (flow: Flow, code: string): Record<string, string> => ({
  grant_type: "authorization_code",
  client_id: flow.clientId,
  code,
  redirect_uri: callback,
  code_verifier: flow.verifier,
  resource: `${resource}/`,
});

export const refreshForm = (flow: Flow, token: string): Record<string, string> => ({
  grant_type: "refresh_token",
  client_id: flow.clientId,
  refresh_token: token,
});

export interface Tokens {
  access_token: string;
  refresh_token: string;
  expires_in: number;
  scope: string;
}

/** The tokens of a new connection. */
export async function connect(flow: Flow, more?: string): Promise<Tokens> {
  const answered = await flow.send("/oauth/token", { form: codeForm(flow, await newCode(flow, more)) });
  if (answered.status !== 200) throw new Error(`no token: ${answered.status} ${answered.text}`);
  return answered.json;
}

import type { BlockList } from "node:net";
import type { Context, Middleware } from "koa";
import Type from "typebox";
import { AppError } from "@statusmesh/shared/errors";
import { isId } from "@statusmesh/shared/ids";
import { mcpAddress, resourceMetadataPaths } from "../../config/mcp-keys.ts";
import type { Scope, System } from "../../platform/context.ts";
import { failureAnswer, failureOf } from "../../platform/db/client/failures.ts";
import type { Views } from "../../platform/html/views.ts";
import { readBody, readForm } from "../../platform/http/body/body.ts";
import type { Counter } from "../../platform/http/limits/counter.ts";
import { atRoute } from "../../platform/http/exchange.ts";
import { isAtHost } from "../../platform/http/page-host.ts";
import { registrationsPerIp } from "../../platform/http/limits/per-ip.ts";
import { submitConsent } from "./consent-endpoint.ts";
import { revokeToken } from "./service.ts";
import { exchangeCode, refresh } from "./grants.ts";
import { oauthEnabled, resourceMetadata, serverMetadata } from "./metadata.ts";
import { Parameters } from "./parameters.ts";
import { OAuthProblem } from "./problem.ts";
import * as queries from "./queries.ts";
import { register } from "./registration.ts";

const maxRegistration = 32_768;
const maxForm = 65_536;
const atResource: ReadonlySet<string> = new Set(resourceMetadataPaths);
const anyObject = Type.Object({}, { additionalProperties: true });

interface Endpoint {
  readonly methods: readonly string[];
  /** True for an endpoint without cookies, which pages of other origins may call. */
  readonly anyOrigin: boolean;
  handle(system: System, http: Context): Promise<void>;
}

interface EndpointOptions {
  readonly views: Views;
  readonly counter: Counter;
  readonly proxies: BlockList;
  /** Scopes that clients can request. */
  readonly offered: readonly Scope[];
}

/** The authorization server without its consent page. Replies have the shapes of OAuth, not the envelope of the API. */
export function oauthEndpoints(system: System, { views, counter, proxies, offered }: EndpointOptions): Middleware {
  const { config } = system;
  if (!oauthEnabled(config)) return absent;
  const charge = registrationsPerIp(config.auth.per_ip_rate_limit_per_min, proxies, counter);
  const post = { methods: ["POST"], anyOrigin: true };
  const read = { methods: ["GET", "HEAD"], anyOrigin: true };
  const endpoints = new Map<string, Endpoint>([
    ["/.well-known/oauth-authorization-server", { ...read, handle: document(serverMetadata(config, offered)) }],
    ...[config.mcp.resource_uri, mcpAddress(config)].map((resource, at): [string, Endpoint] => [
      resourceMetadataPaths[at]!,
      { ...read, handle: document(resourceMetadata(config, offered, resource)) },
    ]),
    ["/oauth/register", { ...post, handle: async (_, http) => charge(http, async () => registration(system, http)) }],
    ["/oauth/token", { ...post, handle: async (_, http) => token(system, http, counter) }],
    ["/oauth/revoke", { ...post, handle: revocation }],
    [
      "/oauth/authorize",
      {
        methods: ["GET", "HEAD", "POST"],
        anyOrigin: false,
        handle: async (_, http) => submitConsent(system, http, views, maxForm),
      },
    ],
  ]);
  return async (http, next) => {
    const endpoint = endpoints.get(http.path);
    if (endpoint === undefined || (http.path === "/oauth/authorize" && /^(?:GET|HEAD)$/.test(http.method)))
      return await next();
    // Metadata is at the host of its resource (RFC 9728, section 3).
    if (atResource.has(http.path) && !isAtHost(http, config.mcp.resource_uri)) return await next();
    atRoute(http, http.path);
    await serve(endpoint, system, http);
  };
}

/** 404 for every method while OAuth is switched off. */
const absent: Middleware = (http, next) => {
  if (!/^\/oauth\/|^\/\.well-known\/oauth-/.test(http.path)) return next();
  throw new AppError("NOT_FOUND", `There is nothing at ${http.path}.`);
};

async function serve(endpoint: Endpoint, system: System, http: Context): Promise<void> {
  http.set("Cache-Control", "no-store");
  if (endpoint.anyOrigin) http.set("Access-Control-Allow-Origin", "*");
  if (!endpoint.methods.includes(http.method)) {
    const allow = [...endpoint.methods, "OPTIONS"].join(", ");
    http.set("Allow", allow);
    if (http.method !== "OPTIONS") throw new AppError("METHOD_NOT_ALLOWED", `${http.path} takes ${allow}.`);
    if (endpoint.anyOrigin)
      http.set({
        "Access-Control-Allow-Methods": endpoint.methods.join(", "),
        "Access-Control-Allow-Headers": "authorization, content-type, mcp-protocol-version",
        "Access-Control-Max-Age": "86400",
      });
    http.status = 204;
    return;
  }
  try {
    await endpoint.handle(system, http);
  } catch (error) {
    refuse(http, error);
  }
}

/** Answers an error by RFC 6749, section 5.2. */
function refuse(http: Context, error: unknown): void {
  if (error instanceof OAuthProblem) {
    http.status = error.status;
    // Required when the client used the header (RFC 6749, section 5.2).
    if (error.status === 401 && http.get("authorization") !== "") http.set("WWW-Authenticate", "Basic");
    http.body = { error: error.code, error_description: error.message };
    return;
  }
  const failure = failureOf(error);
  const refused = error instanceof AppError ? error : failure === null ? null : failureAnswer(failure, error);
  if (refused === null) throw error;
  http.status = refused.status;
  if (refused.retryAfterSecs !== null) http.set("Retry-After", String(refused.retryAfterSecs));
  http.body = {
    error:
      refused.status >= 500 || refused.status === 429
        ? "temporarily_unavailable"
        : http.path === "/oauth/register"
          ? "invalid_client_metadata"
          : "invalid_request",
    error_description: refused.message,
  };
}

function document(body: object): Endpoint["handle"] {
  return async (_, http) => {
    http.set("Cache-Control", "public, max-age=300");
    http.body = body;
  };
}

async function registration(system: System, http: Context): Promise<void> {
  const metadata = await readBody(http, { schema: anyObject, limit: maxRegistration, onInvalidBody: null });
  http.status = 201;
  http.body = await register(system, metadata as Record<string, unknown>);
}

async function token(system: System, http: Context, counter: Counter): Promise<void> {
  const { client, sent } = await clientRequest(system, http);
  const grant = sent.need("grant_type");
  if (grant === "authorization_code") http.body = await exchangeCode(system, client, sent);
  else if (grant === "refresh_token") http.body = await refresh(system, client, sent, counter);
  else throw new OAuthProblem("unsupported_grant_type", "The grant types are authorization_code and refresh_token.");
  http.set("Pragma", "no-cache");
}

async function revocation(system: System, http: Context): Promise<void> {
  const { client, sent } = await clientRequest(system, http);
  await revokeToken(system, client.id, sent.need("token"));
  http.body = {};
}

/** The form of a client. All clients are public, so client authentication is refused. */
async function clientRequest(system: System, http: Context): Promise<{ client: queries.ClientRow; sent: Parameters }> {
  const sent = new Parameters(await readForm(http, maxForm));
  sent.refuseRepeated();
  const authenticates = ["client_secret", "client_assertion", "client_assertion_type"].some(
    (name) => sent.get(name) !== null,
  );
  if (authenticates || http.get("authorization") !== "")
    throw new OAuthProblem("invalid_client", "Clients are public here: send client_id, and no authentication.");
  const id = sent.need("client_id");
  const client = isId(id) ? await queries.selectClient(system.sql, id, new Date(system.clock.now())) : null;
  if (client === null) throw new OAuthProblem("invalid_client", "There is no such client. Register again.");
  return { client, sent };
}

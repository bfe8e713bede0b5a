import { mcpPath, resourceMetadataPaths } from "../../config/mcp-keys.ts";
import type { Json } from "@statusmesh/shared/json";

/* The operations of the OAuth 2.1 authorization server, as data. openapi/oauth.ts makes the document of them. */

interface Field {
  description: string;
  example: string;
  required?: boolean;
}
type Fields = Readonly<Record<string, Field>>;

export interface Operation {
  path: string;
  method: "get" | "post";
  summary: string;
  description: string;
  query?: Fields;
  /** Fields of a form, or the example of a JSON body. */
  form?: Fields;
  json?: { schema: Json; example: Json };
  /** Status, description and example of the reply of a success. */
  reply: { status: number; description: string; type?: string; schema?: Json; example?: unknown };
  cache?: string;
  /** Redirects besides the reply. */
  redirects?: Readonly<Record<number, string>>;
  /** Refusals by status; their bodies are OAuth errors, or pages where `pages` is set. */
  refusals: Readonly<Record<number, string>>;
  pages?: boolean;
}

const issuer = "https://status.example.org";
const clientId = "019325aa-5b7c-7d1e-8f3a-2b4c6d8e0f10";
const scopes = ["targets:read", "status_page:read", "incidents:read"];
export const text = (description: string): Json => ({ type: "string", description });
const texts = (description: string): Json => ({ type: "array", items: { type: "string" }, description });
export const object = (properties: Json, required = Object.keys(properties)): Json => ({
  type: "object",
  properties,
  required,
});

const client = { client_id: { description: "Id of the registered client", example: clientId, required: true } };
const resource = { description: "The MCP server, or its origin (RFC 8707)", example: "https://mcp.example.org" };
const redirectUri = {
  description: "A registered redirect address; the port of a loopback address is free",
  example: "http://localhost:33418/callback",
};

/** Lifetime of the copies of metadata documents. */
const metadata = { method: "get", cache: "public, max-age=300", refusals: {} } as const;

const serverDocument = {
  issuer,
  authorization_endpoint: `${issuer}/oauth/authorize`,
  token_endpoint: `${issuer}/oauth/token`,
  registration_endpoint: `${issuer}/oauth/register`,
  revocation_endpoint: `${issuer}/oauth/revoke`,
  scopes_supported: scopes,
  response_types_supported: ["code"],
  grant_types_supported: ["authorization_code", "refresh_token"],
  token_endpoint_auth_methods_supported: ["none"],
  code_challenge_methods_supported: ["S256"],
};
const resourceDocument = {
  authorization_servers: [issuer],
  scopes_supported: scopes,
  bearer_methods_supported: ["header"],
};

/** Schema of a metadata document from its example. */
const documentSchema = (example: Json, about: string): Json => ({
  ...object(
    Object.fromEntries(
      Object.entries(example).map(([name, value]) => [
        name,
        Array.isArray(value) ? texts(`${name} of ${about}`) : text(`${name} of ${about}`),
      ]),
    ),
  ),
  description: `Metadata as in ${about}`,
});

export const operations: readonly Operation[] = [
  {
    ...metadata,
    path: "/.well-known/oauth-authorization-server",
    summary: "Metadata of the authorization server",
    description: "RFC 8414. Pages of any origin may read it.",
    reply: {
      status: 200,
      description: "The metadata",
      schema: documentSchema(serverDocument, "RFC 8414, section 2"),
      example: serverDocument,
    },
  },
  ...resourceMetadataPaths.map((path): Operation => {
    const byAddress = path.endsWith(mcpPath);
    const document = { ...resourceDocument, resource: `${resource.example}${byAddress ? mcpPath : ""}` };
    return {
      ...metadata,
      path,
      summary: `Metadata of the MCP server as a protected resource, by its ${byAddress ? "address" : "origin"}`,
      description: "RFC 9728, at the host of `mcp.resource_uri` only. Pages of any origin may read it.",
      reply: {
        status: 200,
        description: "The metadata",
        schema: documentSchema(document, "RFC 9728, section 2"),
        example: document,
      },
    };
  }),
  {
    path: "/oauth/register",
    method: "post",
    summary: "Register a client",
    description:
      "RFC 7591, without authentication. Clients are public; unknown metadata is ignored. Of several redirect " +
      "addresses the valid ones are registered, at least one. A client without a grant is deleted after a day, and " +
      "earlier when more than 10,000 wait for one.",
    json: {
      schema: object(
        {
          redirect_uris: {
            ...texts("1 to 10 addresses: https, or http on localhost, 127.0.0.1 and [::1]"),
            minItems: 1,
          },
          client_name: text("Shown on the consent page, cut to 80 characters"),
        },
        ["redirect_uris"],
      ),
      example: { redirect_uris: [redirectUri.example], client_name: "Example app" },
    },
    reply: {
      status: 201,
      description: "The registered client",
      schema: object(
        {
          client_id: text("Id of the client"),
          client_id_issued_at: { type: "integer", description: "Unix time of the registration, seconds" },
          client_name: text("Name as it is shown"),
          redirect_uris: texts("The registered addresses"),
          refused_redirect_uris: texts("What is wrong with the others; absent when all are registered"),
          grant_types: texts("authorization_code and refresh_token"),
          response_types: texts("code"),
          token_endpoint_auth_method: { type: "string", const: "none" },
        },
        ["client_id", "client_id_issued_at", "redirect_uris", "grant_types", "token_endpoint_auth_method"],
      ),
      example: {
        client_id: clientId,
        client_id_issued_at: 1_763_797_440,
        client_name: "Example app",
        redirect_uris: [redirectUri.example],
        grant_types: ["authorization_code", "refresh_token"],
        response_types: ["code"],
        token_endpoint_auth_method: "none",
      },
    },
    refusals: {
      400: "invalid_redirect_uri or invalid_client_metadata",
      413: "More than 32 KiB",
      415: "No JSON",
      429: "Too many registrations of this visitor, or too many new clients",
    },
  },
  {
    path: "/oauth/authorize",
    method: "get",
    summary: "Ask the user for consent",
    description:
      "Opened in the user's browser (OAuth 2.1, section 4.1.1). Without a session it leads to the sign-in and back. " +
      "An unknown client or redirect address is a page; every later error is sent to the redirect address with " +
      "`error`, `state` and `iss`. `prompt=none` never yields a code.",
    query: {
      ...client,
      redirect_uri: { ...redirectUri, required: true },
      response_type: { description: "`code`", example: "code", required: true },
      code_challenge: {
        description: "Hash of the verifier (RFC 7636)",
        example: "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
        required: true,
      },
      code_challenge_method: { description: "`S256`", example: "S256", required: true },
      resource,
      scope: { description: "Scopes, separated by blanks; omitted: every read scope", example: scopes[0]! },
      state: { description: "Returned as it is", example: "af0ifjsldkj" },
      prompt: { description: "`none` asks nobody, and never yields a code", example: "consent" },
    },
    reply: { status: 200, description: "The consent page", type: "text/html", example: "<!doctype html>…" },
    redirects: { 302: "To the sign-in, or to the redirect address with an error" },
    refusals: { 400: "A page: the client or its redirect address is unknown" },
    pages: true,
  },
  {
    path: "/oauth/authorize",
    method: "post",
    summary: "Answer the consent page",
    description: "The form of the consent page, with the session of the console. Each form is answered once.",
    form: {
      request: { description: "Signed field of the form", example: "eyJpZCI6…", required: true },
      decision: { description: "`approve`; anything else denies", example: "approve", required: true },
      days: { description: "Lifetime of the connection: 30, 60, 90 or 365 days", example: "90" },
      scope: { description: "A ticked write scope; repeated for several", example: "targets:write" },
    },
    reply: {
      status: 200,
      description:
        "A page that leads to the redirect address (Refresh header and a link), with `code` or `error`, `state`, `iss`",
      type: "text/html",
      example: "<!doctype html>…",
    },
    refusals: { 400: "A page: no such lifetime", 403: "A page: the form is edited, expired, answered or foreign" },
    pages: true,
  },
  {
    path: "/oauth/token",
    method: "post",
    summary: "Exchange a code or a refresh token",
    description:
      "OAuth 2.1, sections 4.1.3 and 4.3. Codes live 60 seconds. Codes and refresh tokens work once: one that is " +
      "used again ends the connection. Of a connection the three newest access tokens live, of a user and client in " +
      "one organisation the two newest connections. Client authentication of any kind is `invalid_client`.",
    form: {
      ...client,
      grant_type: {
        description: "`authorization_code` or `refresh_token`",
        example: "authorization_code",
        required: true,
      },
      code: { description: "Code of the redirect", example: "SplxlOBeZQQYbYS6WxSbIA" },
      redirect_uri: redirectUri,
      code_verifier: { description: "Verifier (RFC 7636)", example: "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk" },
      refresh_token: { description: "For `refresh_token`", example: "tGzv3JOkF0XG5Qx2TlKWIA" },
      scope: { description: "Narrows the scopes of this one access token", example: scopes[0]! },
      resource,
    },
    reply: {
      status: 200,
      description: "The tokens",
      schema: object({
        access_token: text("For the MCP server only: the REST API refuses it"),
        token_type: { type: "string", const: "Bearer" },
        expires_in: { type: "integer", description: "Seconds" },
        refresh_token: text("For the next access token"),
        scope: text("Granted scopes, separated by blanks"),
      }),
      example: {
        access_token: "sm_live_V2hhdCBhIHRva2VuIGxvb2tzIGxpa2UsIDQzIGNoYXJzYQ",
        token_type: "Bearer",
        expires_in: 3600,
        refresh_token: "tGzv3JOkF0XG5Qx2TlKWIA",
        scope: scopes.join(" "),
      },
    },
    refusals: {
      400: "invalid_request, invalid_grant, invalid_scope, invalid_target or unsupported_grant_type",
      401: "invalid_client",
      413: "More than 64 KiB",
      415: "No form",
      429: "More than 30 attempts to refresh in a minute",
    },
  },
  {
    path: "/oauth/revoke",
    method: "post",
    summary: "Revoke a token and end its connection",
    description: "RFC 7009. An unknown token is answered like a known one.",
    form: { ...client, token: { description: "An access or refresh token", example: "tGzv3…", required: true } },
    reply: { status: 200, description: "Revoked", schema: object({}), example: {} },
    refusals: { 400: "invalid_request", 401: "invalid_client", 413: "More than 64 KiB", 415: "No form" },
  },
];

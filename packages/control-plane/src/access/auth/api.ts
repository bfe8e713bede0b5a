import { createdIn, ok, route, type Route } from "../../platform/http/route.ts";
import {
  ApiTokenCreate,
  ApiTokenPage,
  IdentityPage,
  ListQuery,
  MagicLinkRequest,
  Me,
  NewApiToken,
  Session,
  SessionCreate,
  SessionPage,
} from "./schema.ts";
import {
  callerOf,
  createToken,
  endSession,
  listIdentities,
  listSessions,
  listTokens,
  me,
  requestMagicLink,
  revokeToken,
  endedSessionCookie,
  sessionCookie,
  signIn,
  unlinkIdentity,
} from "./service.ts";

const read = { auth: "tenant", scope: "org:read", tag: "Sign-in" } as const;
const write = { auth: "tenant", scope: "org:write", tag: "Sign-in" } as const;

export const authRoutes: Route[] = [
  route("GET", "/api/v1/me", {
    auth: "tenant",
    tag: "Sign-in",
    summary: "The caller and its organisation",
    replies: { 200: Me },
    cache: "no-store",
    handle: async ({ ctx }) => ok(await me(ctx)),
  }),
  route("POST", "/api/v1/auth/magic-link", {
    auth: "public",
    tag: "Sign-in",
    summary: "Ask for a one-time sign-in link by email",
    description: "The reply is the same for known and unknown addresses. An address gets a link at most once a minute.",
    body: MagicLinkRequest,
    replies: { 202: null },
    errors: ["NOT_FOUND", "CSRF_REJECTED"],
    handle: async ({ ctx, body, http }) => {
      await requestMagicLink(ctx, { ...body, ...callerOf(ctx, http) });
      return { status: 202 };
    },
  }),
  route("POST", "/api/v1/sessions", {
    auth: "public",
    tag: "Sign-in",
    summary: "Sign in with the code of a one-time link",
    description: "Sets the session cookie. This call consumes the link; opening it does not.",
    body: SessionCreate,
    replies: { 201: Session },
    errors: ["SIGN_IN_LINK_INVALID", "CSRF_REJECTED"],
    handle: async ({ ctx, body, http }) => {
      const opened = await signIn(ctx, { code: body.code, ...callerOf(ctx, http) });
      return { status: 201, body: opened.session, headers: { "Set-Cookie": sessionCookie(ctx.config, opened) } };
    },
  }),
  route("GET", "/api/v1/sessions", {
    ...read,
    summary: "List the live sessions of the caller",
    query: ListQuery,
    replies: { 200: SessionPage },
    handle: async ({ ctx, query }) => ok(await listSessions(ctx, query)),
  }),
  route("DELETE", "/api/v1/sessions/{id}", {
    ...write,
    summary: "End a session; `current` is the caller's own",
    replies: { 204: null },
    errors: ["NOT_FOUND"],
    handle: async ({ ctx, params, http }) => {
      await endSession(ctx, params.id);
      if (params.id === "current") http.set("Set-Cookie", endedSessionCookie(ctx.config));
    },
  }),
  route("GET", "/api/v1/identities", {
    ...read,
    summary: "List the GitHub and Google accounts that the caller signs in with",
    query: ListQuery,
    replies: { 200: IdentityPage },
    handle: async ({ ctx, query }) => ok(await listIdentities(ctx, query)),
  }),
  route("DELETE", "/api/v1/identities/{id}", {
    ...write,
    summary: "Unlink a GitHub or Google account",
    description:
      "Not with an API token. The next sign-in with it links it again, if it still has the address of the account.",
    replies: { 204: null },
    errors: ["NOT_FOUND", "FORBIDDEN", "LAST_SIGN_IN_METHOD"],
    handle: async ({ ctx, params }) => unlinkIdentity(ctx, params.id),
  }),
  route("GET", "/api/v1/api-tokens", {
    ...read,
    tag: "API tokens",
    summary: "List the caller's API tokens",
    query: ListQuery,
    replies: { 200: ApiTokenPage },
    cache: "no-store",
    handle: async ({ ctx, query }) => ok(await listTokens(ctx, query)),
  }),
  route("POST", "/api/v1/api-tokens", {
    ...write,
    tag: "API tokens",
    summary: "Create an API token; only this reply shows it",
    body: ApiTokenCreate,
    replies: { 201: NewApiToken },
    errors: ["API_TOKENS_LIMIT", "INVALID_EXPIRY", "FORBIDDEN", "MCP_TOKEN_READ_ONLY", "EMAIL_NOT_VERIFIED"],
    handle: async ({ ctx, body }) => createdIn("/api/v1/api-tokens#", await createToken(ctx, body)),
  }),
  route("DELETE", "/api/v1/api-tokens/{id}", {
    ...write,
    tag: "API tokens",
    summary: "Revoke an API token at once",
    description: "The tokens that it created are revoked with it.",
    replies: { 204: null },
    errors: ["API_TOKEN_NOT_FOUND"],
    handle: async ({ ctx, params }) => revokeToken(ctx, params.id),
  }),
];

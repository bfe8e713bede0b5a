import Type from "typebox";
import { created, noContent, ok, route, type Route } from "../http/route.ts";
import { IdParam, paging } from "../http/wire.ts";
import { refuseForeignOrigin } from "./authenticate.ts";
import { ApiTokenCreate, ApiTokenPage, Me, NewApiToken, Session, SessionCreate, SessionPage } from "./schema.ts";
import { createToken, endSession, listSessions, listTokens, me, revokeToken, signIn } from "./service.ts";

export const authRoutes: Route[] = [
  route({ method: "GET", path: "/api/v1/me", door: "tenant", tag: "Sign-in", summary: "Who the caller is", replies: { 200: Me }, cache: "no-store", handle: async ({ ctx }) => ok(await me(ctx)) }),
  route({
    method: "POST",
    path: "/api/v1/sessions",
    door: "public",
    tag: "Sign-in",
    summary: "Sign in with the code of a one-time link",
    description: "Sets the session cookie. The link is used up by this call, not by opening it.",
    body: SessionCreate,
    replies: { 201: Session },
    errors: ["SIGN_IN_LINK_INVALID", "CSRF_REJECTED"],
    handle: async ({ ctx, body, http }) => {
      // Without this another site could sign a visitor in as somebody else.
      if (http.get("origin") !== "" || http.get("sec-fetch-site") !== "") refuseForeignOrigin(http);
      const { secret, session, expiresAt } = await signIn(ctx, { code: body.code, userAgent: http.get("user-agent") || null, ip: http.ip });
      const secure = ctx.config.server.public_url.startsWith("https:");
      const cookie = `${ctx.config.auth.session.cookie_name}=${secret}; Path=/; HttpOnly; SameSite=Lax; Expires=${expiresAt.toUTCString()}${secure ? "; Secure" : ""}`;
      return { status: 201, body: session, headers: { "Set-Cookie": cookie } };
    },
  }),
  route({
    method: "GET",
    path: "/api/v1/sessions",
    door: "tenant",
    tag: "Sign-in",
    summary: "List the live sessions of the caller",
    query: Type.Object(paging(50, 1000), { additionalProperties: false }),
    replies: { 200: SessionPage },
    handle: async ({ ctx, query }) => ok(await listSessions(ctx, query)),
  }),
  route({
    method: "DELETE",
    path: "/api/v1/sessions/{id}",
    door: "tenant",
    tag: "Sign-in",
    summary: "End a session; `current` is the one that asks",
    params: IdParam,
    replies: { 204: null },
    errors: ["NOT_FOUND"],
    handle: async ({ ctx, params, http }) => {
      await endSession(ctx, params.id);
      if (params.id === "current") http.set("Set-Cookie", `${ctx.config.auth.session.cookie_name}=; Path=/; HttpOnly; SameSite=Lax; Max-Age=0`);
      return noContent();
    },
  }),
  route({
    method: "GET",
    path: "/api/v1/api-tokens",
    door: "tenant",
    scope: "org:read",
    tag: "API tokens",
    summary: "List the caller's API tokens",
    query: Type.Object(paging(50, 1000), { additionalProperties: false }),
    replies: { 200: ApiTokenPage },
    cache: "no-store",
    handle: async ({ ctx, query }) => ok(await listTokens(ctx, query)),
  }),
  route({
    method: "POST",
    path: "/api/v1/api-tokens",
    door: "tenant",
    scope: "org:write",
    tag: "API tokens",
    summary: "Make an API token, which is shown this once",
    body: ApiTokenCreate,
    replies: { 201: NewApiToken },
    errors: ["API_TOKENS_LIMIT", "INVALID_EXPIRY", "EMPTY_NAME", "FORBIDDEN"],
    handle: async ({ ctx, body }) => {
      const made = await createToken(ctx, body);
      return created(`/api/v1/api-tokens/${made.id}`, made);
    },
  }),
  route({
    method: "DELETE",
    path: "/api/v1/api-tokens/{id}",
    door: "tenant",
    scope: "org:write",
    tag: "API tokens",
    summary: "Revoke an API token at once",
    params: IdParam,
    replies: { 204: null },
    errors: ["API_TOKEN_NOT_FOUND"],
    handle: async ({ ctx, params }) => {
      await revokeToken(ctx, params.id);
      return noContent();
    },
  }),
];

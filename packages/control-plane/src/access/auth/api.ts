import type { Context } from "koa";
import { type NewCodes, beginTotp, confirmTotp, removeTotp, renewRecoveryCodes } from "./second-factor/service.ts";
import type { Ctx } from "../../platform/context.ts";
import { createdIn, ok, route, type Route } from "../../platform/http/route.ts";
import { openedBy, proveAgain, proverOf, signedInCookies } from "./sessions/sign-in.ts";
import {
  ApiTokenCreate,
  ApiTokenPage,
  IdentityPage,
  ListQuery,
  MagicLinkRequest,
  Me,
  NewApiToken,
  NewTotp,
  PasswordChange,
  RecoveryCodes,
  Session,
  SessionCreate,
  SessionPage,
  SessionProof,
  TotpConfirm,
} from "./schema.ts";
import { callerOf, endSession, listSessions } from "./sessions/service.ts";
import { createToken, listTokens, revokeToken } from "./tokens/service.ts";
import { deviceCookie, endedSessionCookie } from "./cookies/service.ts";
import { listIdentities, requestMagicLink, unlinkIdentity } from "./identities/service.ts";
import { me } from "./service.ts";
import { removePassword, setPassword } from "./passwords/service.ts";

const read = { auth: "tenant", scope: "org:read", tag: "Sign-in" } as const;
const write = { auth: "tenant", scope: "org:write", tag: "Sign-in" } as const;
const ownAccount = { ...write, ownAccount: true } as const;

async function shownOnce(ctx: Ctx, http: Context, { recovery_codes, revision }: NewCodes) {
  await rememberDevice(ctx, http, revision);
  return ok({ recovery_codes });
}

/** Knows the browser again by the new revision of its user's factors. */
async function rememberDevice(ctx: Ctx, http: Context, revision: string): Promise<void> {
  http.append("Set-Cookie", await deviceCookie(ctx, { userId: ctx.userId, revision }));
}

/** Without a scope: a session without a second factor has read scopes only where one is required. */
const secondFactor = { auth: "tenant", tag: "Sign-in" } as const;

const secondFactorRoutes: Route[] = [
  route("POST", "/api/v1/me/totp", {
    ...secondFactor,
    summary: "Make a secret for an authenticator app; only this reply shows it",
    description:
      "It has no effect until its first code confirms it, within 30 minutes. Needs a fresh session; not with an API " +
      "token.",
    writes: false,
    replies: { 200: NewTotp },
    errors: ["FRESH_SIGN_IN_REQUIRED", "FORBIDDEN"],
    handle: async ({ ctx }) => ok(await beginTotp(ctx)),
  }),
  route("POST", "/api/v1/me/totp/confirm", {
    ...secondFactor,
    summary: "Put the new secret in force with its first code",
    description:
      "Replaces the one before, and ends the caller's other sessions. Only this reply shows the recovery codes. A " +
      "code of another time within 5 minutes is CODE_INVALID with the offset of the clock. Needs a fresh session.",
    body: TotpConfirm,
    replies: { 200: RecoveryCodes },
    errors: ["CODE_INVALID", "NOT_FOUND", "FRESH_SIGN_IN_REQUIRED", "FORBIDDEN"],
    handle: async ({ ctx, body, http }) => shownOnce(ctx, http, await confirmTotp(ctx, body)),
  }),
  route("DELETE", "/api/v1/me/totp", {
    ...secondFactor,
    summary: "Remove the second factor of the caller",
    description: "With its recovery codes. Ends the caller's other sessions. Needs a fresh session.",
    replies: { 204: null },
    errors: ["NOT_FOUND", "FRESH_SIGN_IN_REQUIRED", "FORBIDDEN"],
    handle: async ({ ctx, http }) => rememberDevice(ctx, http, await removeTotp(ctx)),
  }),
  route("POST", "/api/v1/me/totp/recovery-codes", {
    ...secondFactor,
    summary: "Replace the recovery codes of the caller; only this reply shows them",
    description: "The ones before do not work any more. Ends the caller's other sessions. Needs a fresh session.",
    replies: { 200: RecoveryCodes },
    errors: ["NOT_FOUND", "FRESH_SIGN_IN_REQUIRED", "FORBIDDEN"],
    handle: async ({ ctx, http }) => shownOnce(ctx, http, await renewRecoveryCodes(ctx)),
  }),
];

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
    summary: "Sign in with a password, or with the code of a one-time link",
    description:
      "Sets the session cookie. This call consumes the link; opening it does not. After 10 wrong passwords of an " +
      "address within an hour each further try waits for its turn (Retry-After). An account with a second factor is " +
      "answered CODE_REQUIRED: send the password with a code, or within 10 minutes the code alone in the same browser.",
    body: SessionCreate,
    replies: { 201: Session },
    errors: [
      "SIGN_IN_LINK_INVALID",
      "INVALID_CREDENTIALS",
      "CODE_REQUIRED",
      "CODE_INVALID",
      "UNAUTHENTICATED",
      "RATE_LIMITED",
      "NOT_FOUND",
      "CSRF_REJECTED",
    ],
    handle: async ({ ctx, body, http }) => {
      const opened = await openedBy(ctx, http, body);
      http.set("Set-Cookie", await signedInCookies(ctx, opened));
      return { status: 201, body: opened.session };
    },
  }),
  route("POST", "/api/v1/sessions/current/verify", {
    auth: "tenant",
    tag: "Sign-in",
    summary: "Prove a factor again, for changes that need a fresh sign-in",
    description:
      "Makes the session fresh for 15 minutes. Send what the account has: the password, the code of the second " +
      "factor, or both; or `response` to the options of POST /api/v1/sessions/passkey/options. Not with an API token.",
    writes: false,
    body: SessionProof,
    replies: { 204: null },
    errors: [
      "FORBIDDEN",
      "NOT_FOUND",
      "INVALID_BODY",
      "INVALID_CREDENTIALS",
      "CODE_REQUIRED",
      "CODE_INVALID",
      "RATE_LIMITED",
    ],
    handle: async ({ ctx, body, http }) => proveAgain(ctx, http, body),
  }),
  route("PUT", "/api/v1/me/password", {
    ...ownAccount,
    summary: "Set or change the password of the caller",
    description:
      "Not with an API token. Ends the other sessions of the caller. Without `current` the session must be fresh.",
    body: PasswordChange,
    replies: { 204: null },
    errors: [
      "WEAK_PASSWORD",
      "INVALID_BODY",
      "INVALID_CREDENTIALS",
      "FRESH_SIGN_IN_REQUIRED",
      "FORBIDDEN",
      "NOT_FOUND",
      "RATE_LIMITED",
    ],
    handle: async ({ ctx, body, http }) =>
      rememberDevice(ctx, http, await setPassword(ctx, body, await proverOf(ctx, http))),
  }),
  route("DELETE", "/api/v1/me/password", {
    ...ownAccount,
    summary: "Remove the password of the caller",
    description:
      "Not with an API token, and not where it is the last way to sign in. Ends the caller's other sessions.",
    replies: { 204: null },
    errors: ["FRESH_SIGN_IN_REQUIRED", "FORBIDDEN", "NOT_FOUND", "LAST_SIGN_IN_METHOD"],
    handle: async ({ ctx, http }) => rememberDevice(ctx, http, await removePassword(ctx)),
  }),
  ...secondFactorRoutes,
  route("GET", "/api/v1/sessions", {
    ...read,
    summary: "List the live sessions of the caller",
    query: ListQuery,
    replies: { 200: SessionPage },
    handle: async ({ ctx, query }) => ok(await listSessions(ctx, query)),
  }),
  route("DELETE", "/api/v1/sessions/{id}", {
    ...ownAccount,
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
    ...ownAccount,
    summary: "Unlink a GitHub or Google account",
    description:
      "Not with an API token. Ends the caller's other sessions. The next sign-in with it links it again, if it still " +
      "has the address of the account.",
    replies: { 204: null },
    errors: ["NOT_FOUND", "FORBIDDEN", "FRESH_SIGN_IN_REQUIRED", "LAST_SIGN_IN_METHOD"],
    handle: async ({ ctx, params, http }) => rememberDevice(ctx, http, await unlinkIdentity(ctx, params.id)),
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

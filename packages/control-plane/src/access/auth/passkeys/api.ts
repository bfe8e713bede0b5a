import { createdIn, ok, route, type Route } from "../../../platform/http/route.ts";
import { callerOf } from "../sessions/authenticate.ts";
import { challengeSecret } from "../cookies/cookies.ts";
import { deviceCookie } from "../cookies/device-cookie.ts";
import { ListQuery, Session } from "../schema.ts";
import { signedInCookies } from "../sessions/sign-in.ts";
import { browserSecret } from "./challenges.ts";
import {
  CreationOptions,
  Passkey,
  PasskeyChange,
  PasskeyCreate,
  PasskeyPage,
  PasskeySignIn,
  RequestOptions,
} from "./schema.ts";
import {
  addPasskey,
  creationOptions,
  listPasskeys,
  removePasskey,
  renamePasskey,
  requestOptions,
  signInWithPasskey,
} from "./service.ts";

const write = { auth: "tenant", scope: "org:write", ownAccount: true, tag: "Sign-in" } as const;

export const passkeyRoutes: Route[] = [
  route("POST", "/api/v1/sessions/passkey/options", {
    auth: "public",
    tag: "Sign-in",
    summary: "Options to sign in with a passkey",
    description:
      "For navigator.credentials.get. Sets a cookie: the challenge counts once, for 5 minutes, in this browser.",
    writes: false,
    replies: { 200: RequestOptions },
    errors: ["NOT_FOUND"],
    cache: "no-store",
    handle: async ({ ctx, http }) => ok(await requestOptions(ctx, browserSecret(ctx, http))),
  }),
  route("POST", "/api/v1/sessions/passkey", {
    auth: "public",
    tag: "Sign-in",
    summary: "Sign in with a passkey",
    description: "Sets the session cookie. A passkey counts as both factors.",
    body: PasskeySignIn,
    replies: { 201: Session },
    errors: ["INVALID_CREDENTIALS", "NOT_FOUND", "CSRF_REJECTED", "RATE_LIMITED"],
    handle: async ({ ctx, body, http }) => {
      const browser = challengeSecret(ctx.config, http);
      const opened = await signInWithPasskey(ctx, { ...body, browser, ...callerOf(ctx, http) });
      http.set("Set-Cookie", await signedInCookies(ctx, opened));
      return { status: 201, body: opened.session };
    },
  }),
  route("POST", "/api/v1/me/passkeys/options", {
    ...write,
    summary: "Options to add a passkey",
    description:
      "For navigator.credentials.create. Not with an API token; the session must be fresh. Sets a cookie: the " +
      "challenge counts once, for 5 minutes, in this browser.",
    writes: false,
    replies: { 200: CreationOptions },
    errors: ["FORBIDDEN", "FRESH_SIGN_IN_REQUIRED", "NOT_FOUND", "PASSKEYS_LIMIT"],
    cache: "no-store",
    handle: async ({ ctx, http }) => ok(await creationOptions(ctx, browserSecret(ctx, http))),
  }),
  route("POST", "/api/v1/me/passkeys", {
    ...write,
    summary: "Add a passkey of the caller",
    description: "Not with an API token; the session must be fresh.",
    body: PasskeyCreate,
    replies: { 201: Passkey },
    errors: ["EMPTY_NAME", "PASSKEY_INVALID", "FORBIDDEN", "FRESH_SIGN_IN_REQUIRED", "NOT_FOUND", "PASSKEYS_LIMIT"],
    handle: async ({ ctx, body, http }) =>
      createdIn("/api/v1/me/passkeys#", await addPasskey(ctx, body, challengeSecret(ctx.config, http))),
  }),
  route("GET", "/api/v1/me/passkeys", {
    auth: "tenant",
    scope: "org:read",
    tag: "Sign-in",
    summary: "List the passkeys of the caller",
    query: ListQuery,
    replies: { 200: PasskeyPage },
    handle: async ({ ctx, query }) => ok(await listPasskeys(ctx, query)),
  }),
  route("PATCH", "/api/v1/me/passkeys/{id}", {
    ...write,
    summary: "Rename a passkey of the caller",
    description: "Not with an API token.",
    body: PasskeyChange,
    replies: { 200: Passkey },
    errors: ["EMPTY_NAME", "FORBIDDEN", "NOT_FOUND"],
    handle: async ({ ctx, params, body }) => ok(await renamePasskey(ctx, params.id, body.name)),
  }),
  route("DELETE", "/api/v1/me/passkeys/{id}", {
    ...write,
    summary: "Remove a passkey of the caller",
    description:
      "Not with an API token, and not where it is the last way to sign in; the session must be fresh. Ends the " +
      "caller's other sessions.",
    replies: { 204: null },
    errors: ["FRESH_SIGN_IN_REQUIRED", "FORBIDDEN", "NOT_FOUND", "LAST_SIGN_IN_METHOD"],
    handle: async ({ ctx, params, http }) => {
      const revision = await removePasskey(ctx, params.id);
      http.append("Set-Cookie", await deviceCookie(ctx, { userId: ctx.userId, revision }));
    },
  }),
];

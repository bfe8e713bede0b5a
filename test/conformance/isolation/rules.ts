import { type Role, scopes } from "@statusmesh/control-plane/platform/context";
import type { Route } from "@statusmesh/control-plane/platform/http/route";
import type { ErrorCode } from "@statusmesh/shared/errors";
import { nameOf } from "../declared.ts";
import type { IdPlace } from "./ids.ts";

/*
 * Expected reply to a request, derived from the declaration of its route. Single routes have a line only where the
 * declaration cannot express the rule.
 */

/** Properties of the caller that decide the reply. */
export interface Standing {
  /** False: the credential has no access to the organisation that the request names. */
  readonly admitted: boolean;
  /** True where the organisation of the request is deleted and can be restored. */
  readonly deleted: boolean;
  readonly role: Role;
  readonly scopes: ReadonlySet<string>;
  readonly by: "session" | "bound token" | "token";
}

/** Owner of the named thing, as seen by the caller. */
export type Whose = "own" | "foreign" | "absent";

/** An id of a request. */
export type Asked = Pick<IdPlace, "thing" | "refusal"> & { readonly whose: Whose };

/** Allowed, or refused with a code. */
export type Outcome = "granted" | ErrorCode;

/** Routes that owners of a deleted organisation may still call: their user, organisations and sessions. */
const openWhileDeleted = /^\/api\/v1\/(?:me|orgs|sessions)(?:\/|$)/;
/** Routes about a deleted organisation itself. */
const knowsDeleted: ReadonlySet<string> = new Set(["GET /api/v1/orgs/{id}", "POST /api/v1/orgs/{id}/restore"]);

/**
 * Exceptions that no declaration expresses: a token cannot switch organisations, a bound token cannot use the
 * organisation that it creates, and no token may change how its user signs in.
 */
const refusesTokens: Readonly<Record<string, readonly Standing["by"][]>> = {
  "POST /api/v1/orgs/{id}/switch": ["token", "bound token"],
  "POST /api/v1/orgs": ["bound token"],
  "DELETE /api/v1/identities/{id}": ["token", "bound token"],
  "PUT /api/v1/me/password": ["token", "bound token"],
  "DELETE /api/v1/me/password": ["token", "bound token"],
  "POST /api/v1/sessions/current/verify": ["token", "bound token"],
  "POST /api/v1/me/totp": ["token", "bound token"],
  "POST /api/v1/me/totp/confirm": ["token", "bound token"],
  "DELETE /api/v1/me/totp": ["token", "bound token"],
  "POST /api/v1/me/totp/recovery-codes": ["token", "bound token"],
  "POST /api/v1/me/passkeys/options": ["token", "bound token"],
  "POST /api/v1/me/passkeys": ["token", "bound token"],
  "PATCH /api/v1/me/passkeys/{id}": ["token", "bound token"],
  "DELETE /api/v1/me/passkeys/{id}": ["token", "bound token"],
};

/** Scopes beside that of the declaration, of a route about several kinds. */
const moreScopes: Readonly<Record<string, readonly string[]>> = {
  "POST /api/v1/reports/recipients": ["targets:read", "status_page:read"],
  "GET /api/v1/config/export": ["channels:read", "status_page:read", "maintenance:read"],
};

/** The scope that the caller lacks for the route; null where none is missing. */
export function missingScope(route: Route, caller: Pick<Standing, "by" | "scopes">): string | null {
  const more = moreScopes[nameOf(route)]?.find((scope) => !caller.scopes.has(scope));
  if (more !== undefined && (route.scope === null || caller.scopes.has(route.scope))) return more;
  if (route.scope !== null && !caller.scopes.has(route.scope)) return route.scope;
  return route.everyScope && caller.by !== "session"
    ? (scopes.find((scope) => !caller.scopes.has(scope)) ?? null)
    : null;
}

export function outcomeOf(route: Route, caller: Standing, ids: readonly Asked[]): Outcome {
  const name = nameOf(route);
  if (!caller.admitted) return "ORG_NOT_FOUND";
  if (caller.deleted && caller.role !== "owner") return "UNAUTHENTICATED";
  if (caller.deleted && !openWhileDeleted.test(route.path)) return "ORG_NOT_FOUND";
  if (missingScope(route, caller) !== null) return "INSUFFICIENT_SCOPE";
  if (refusesTokens[name]?.includes(caller.by)) return "FORBIDDEN";
  // A path below an organisation names it: to a caller without a role there it is absent.
  const [first] = ids;
  const belowOrg = first?.thing === "org";
  if (belowOrg && (first.whose !== "own" || (caller.deleted && !knowsDeleted.has(name)))) return "ORG_NOT_FOUND";
  if (route.role !== "member" && caller.role !== "owner") return "OWNER_REQUIRED";
  const wrong = ids.find(({ whose, refusal }) => whose !== "own" && refusal !== "none");
  if (wrong !== undefined && wrong.refusal !== "none") return wrong.refusal;
  return "granted";
}

/**
 * Codes of allowed requests that cannot succeed in the matrix, where no agent runs, no receiver
 * listens and no plan was made.
 */
export const afterAuthentication: Readonly<Record<string, ErrorCode>> = {
  "POST /api/v1/config/apply": "PLAN_STALE",
  "POST /api/v1/config/detach": "MANAGED_ELSEWHERE",
  "POST /api/v1/sessions/current/verify": "INVALID_CREDENTIALS",
  "DELETE /api/v1/me/password": "LAST_SIGN_IN_METHOD",
  "POST /api/v1/me/totp/confirm": "CODE_INVALID",
  "DELETE /api/v1/me/totp": "NOT_FOUND",
  "POST /api/v1/me/totp/recovery-codes": "NOT_FOUND",
  "POST /api/v1/me/passkeys": "PASSKEY_INVALID",
  "POST /api/v1/targets/test": "PROBE_UNAVAILABLE",
  "POST /api/v1/targets/{id}/check-now": "PROBE_UNAVAILABLE",
  "POST /api/v1/notification-channels/test": "CHANNEL_TEST_FAILED",
  "POST /api/v1/notification-channels/{id}/test": "CHANNEL_TEST_FAILED",
  "POST /api/v1/notification-channels/devices/{id}/test": "CHANNEL_TEST_FAILED",
  "POST /api/v1/notification-channels/telegram-link": "TELEGRAM_LINK_NOT_FOUND",
  "GET /api/v1/notification-channels/telegram-link/{id}": "TELEGRAM_LINK_NOT_FOUND",
  "POST /api/v1/notification-channels/whatsapp-link": "WHATSAPP_LINK_NOT_FOUND",
  "GET /api/v1/notification-channels/whatsapp-link/{id}": "WHATSAPP_LINK_NOT_FOUND",
  "POST /api/v1/notification-channels/{id}/resend-verification": "CHANNEL_NOT_VERIFIABLE",
};

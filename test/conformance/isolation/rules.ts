import { scopes } from "@statusmesh/control-plane/context";
import type { Route } from "@statusmesh/control-plane/http/route";
import type { ErrorCode } from "@statusmesh/shared/errors";
import { nameOf } from "../declared.ts";
import type { IdPlace } from "./ids.ts";

/*
 * What a request is answered, told from the declaration of its route alone: there is no line for a single route but
 * where the declaration cannot say it.
 */

/** Who asks, as far as the rules care. */
export interface Standing {
  /** False: the credential is not good for the organisation that the request names. */
  readonly admitted: boolean;
  /** True where the organisation that the request acts in is deleted, and can be restored. */
  readonly deleted: boolean;
  readonly role: "owner" | "member";
  readonly scopes: ReadonlySet<string>;
  readonly by: "session" | "bound token" | "token";
}

/** Whose thing an id names, seen from the caller. */
export type Whose = "own" | "foreign" | "absent";

/** An id of a request. */
export type Asked = Pick<IdPlace, "thing" | "refusal"> & { readonly whose: Whose };

/** Let in, or refused with a code. */
export type Outcome = "granted" | ErrorCode;

/** Where owners of a deleted organisation are still let in: to see that it is, to bring it back, to go elsewhere. */
const openWhileDeleted = /^\/api\/v1\/(?:me|orgs|sessions)(?:\/|$)/;
/** What can be asked of a deleted organisation itself. */
const knowsDeleted: ReadonlySet<string> = new Set(["GET /api/v1/orgs/{id}", "POST /api/v1/orgs/{id}/restore"]);

/**
 * What no declaration says: a token has no organisation to switch from, a bound one could not use the organisation that
 * it makes, and none says how its person signs in.
 */
const refusesTokens: Readonly<Record<string, readonly Standing["by"][]>> = {
  "POST /api/v1/orgs/{id}/switch": ["token", "bound token"],
  "POST /api/v1/orgs": ["bound token"],
  "DELETE /api/v1/identities/{id}": ["token", "bound token"],
};

/** The scope that the caller lacks for the route; null where none is missing. */
export function missingScope(route: Route, caller: Pick<Standing, "scopes">): string | null {
  if (route.scope !== null && !caller.scopes.has(route.scope)) return route.scope;
  return route.everyScope ? (scopes.find((scope) => !caller.scopes.has(scope)) ?? null) : null;
}

export function outcomeOf(route: Route, caller: Standing, ids: readonly Asked[]): Outcome {
  const name = nameOf(route);
  if (!caller.admitted) return "ORG_NOT_FOUND";
  if (caller.deleted && caller.role !== "owner") return "UNAUTHENTICATED";
  if (caller.deleted && !openWhileDeleted.test(route.path)) return "ORG_NOT_FOUND";
  if (missingScope(route, caller) !== null) return "INSUFFICIENT_SCOPE";
  if (refusesTokens[name]?.includes(caller.by)) return "FORBIDDEN";
  // A path below an organisation is about that one: a stranger has no role there, and does not learn that there is one.
  const [first] = ids;
  const belowOrg = first?.thing === "org";
  if (belowOrg && (first.whose !== "own" || (caller.deleted && !knowsDeleted.has(name)))) return "ORG_NOT_FOUND";
  if (route.role !== "member" && caller.role !== "owner") return "OWNER_REQUIRED";
  const wrong = ids.find(({ whose }) => whose !== "own");
  if (wrong !== undefined && wrong.refusal !== "none") return wrong.refusal;
  return "granted";
}

/**
 * What a request that is let in meets in the matrix, where no agent runs and no receiver listens, instead of a success.
 */
export const afterAuthentication: Readonly<Record<string, ErrorCode>> = {
  "POST /api/v1/targets/test": "PROBE_UNAVAILABLE",
  "POST /api/v1/targets/{id}/check-now": "PROBE_UNAVAILABLE",
  "POST /api/v1/notification-channels/test": "CHANNEL_TEST_FAILED",
  "POST /api/v1/notification-channels/{id}/test": "CHANNEL_TEST_FAILED",
  "POST /api/v1/notification-channels/telegram-link": "TELEGRAM_LINK_NOT_FOUND",
  "GET /api/v1/notification-channels/telegram-link/{id}": "TELEGRAM_LINK_NOT_FOUND",
  "POST /api/v1/notification-channels/whatsapp-link": "WHATSAPP_LINK_NOT_FOUND",
  "GET /api/v1/notification-channels/whatsapp-link/{id}": "WHATSAPP_LINK_NOT_FOUND",
  "POST /api/v1/notification-channels/{id}/resend-verification": "CHANNEL_NOT_VERIFIABLE",
};

import type { Context } from "koa";
import { AppError } from "@statusmesh/shared/errors";
import { type Ctx, scopes, type System, type WriteSource } from "../context.ts";
import { hashToken } from "../crypto/token.ts";
import * as queries from "./queries.ts";
import { idleSince } from "./session-times.ts";

const allScopes: ReadonlySet<string> = new Set(scopes);

const unauthenticated = (message: string) => new AppError("UNAUTHENTICATED", message);

/** The token of an `Authorization: Bearer …` header, or null. */
export function bearerOf(http: Context): string | null {
  return /^Bearer ([\x21-\x7e]+)$/i.exec(http.get("authorization"))?.[1] ?? null;
}

/** Which kind of client writes: a session is the console; Terraform and OpenTofu say so in their User-Agent. */
function writeSourceOf(http: Context): WriteSource {
  return /terraform|opentofu/i.test(http.get("user-agent")) ? "terraform" : "api";
}

/**
 * The door of the API and the console: tells who asks and for which organisation, by bearer token or session cookie.
 * UNAUTHENTICATED when neither is good; CSRF_REJECTED when a browser was made to write by another site.
 */
export async function authenticateTenant(system: System, http: Context): Promise<Ctx> {
  const now = new Date(system.clock.now());
  const orgSlug = http.get("x-sm-org") === "" ? null : http.get("x-sm-org");
  const base = { ...system, traceId: (http.state["traceId"] as string | undefined) ?? null };

  if (http.get("authorization") !== "") {
    const token = bearerOf(http);
    if (token === null) throw unauthenticated("The Authorization header is not of the form Bearer <token>.");
    const found = token.startsWith("sm_live_") ? await queries.selectToken(system.sql, hashToken(token), now, orgSlug) : null;
    if (found === null) throw unauthenticated("The token is unknown, expired, revoked, or not valid for this organisation. Make a new one in the settings.");
    await queries.touchToken(system.sql, found.id, now);
    return { ...base, orgId: found.org_id, userId: found.user_id, role: found.role, scopes: new Set(found.scopes), actor: { type: "token", id: found.id }, writeSource: writeSourceOf(http) };
  }

  const cookie = http.cookies.get(system.config.auth.session.cookie_name);
  if (cookie === undefined) throw unauthenticated("Sign in, or send a token as Authorization: Bearer sm_live_….");
  const found = await queries.selectSession(system.sql, hashToken(cookie), now, idleSince(now), orgSlug);
  if (found === null) throw unauthenticated("The session has ended. Sign in again.");
  refuseForeignOrigin(http);
  await queries.touchSession(system.sql, found.id, now);
  return { ...base, orgId: found.org_id, userId: found.user_id, role: found.role, scopes: allScopes, actor: { type: "session", id: found.id }, writeSource: "ui" };
}

/** A browser sends the cookie along whoever wrote the page. Fetch Metadata says who did; older browsers send Origin. */
export function refuseForeignOrigin(http: Context): void {
  if (http.method === "GET" || http.method === "HEAD") return;
  const site = http.get("sec-fetch-site");
  if (site === "same-origin") return;
  const origin = http.get("origin");
  if (site === "" && origin !== "" && sameHost(origin, http.host)) return;
  throw new AppError("CSRF_REJECTED", "This write came from another site, or does not say where it came from. Use the console itself, or a token.");
}

function sameHost(origin: string, host: string): boolean {
  try {
    return new URL(origin).host === host;
  } catch {
    return false;
  }
}

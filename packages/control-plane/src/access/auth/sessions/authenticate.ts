import { isIP } from "node:net";
import type { Context } from "koa";
import { AppError } from "@statusmesh/shared/errors";
import { isLoopback } from "@statusmesh/shared/net/address";
import type { Config } from "../../../config/config.ts";
import type { Ctx, System, WriteSource } from "../../../platform/context.ts";
import { takesBasic } from "../../../platform/http/challenge.ts";
import { traceOf } from "../../../platform/http/exchange.ts";
import { visitorAddress } from "../../../platform/http/limits/per-ip.ts";
import { ownCommand } from "../../../platform/program.ts";
import {
  allScopes,
  type CredentialRequest,
  type Credential,
  findSession,
  findToken,
  type Found,
} from "../tokens/credentials.ts";
import * as queries from "../queries.ts";
import * as sessionQueries from "./session-queries.ts";
import { sessionCookieName } from "../cookies/cookies.ts";
import type { Caller } from "../passwords/attempts.ts";

const unauthenticated = (message: string) => new AppError("UNAUTHENTICATED", message);

/** The token of an `Authorization: Bearer …` header, or null. */
export function bearerOf(http: Context): string | null {
  return /^Bearer ([\x21-\x7e]+)$/i.exec(http.get("authorization"))?.[1] ?? null;
}

/** The password of an `Authorization: Basic …` header with an empty user name (RFC 7617), or null. */
function passwordOf(http: Context): string | null {
  const sent = /^Basic ([\w+/=]+)$/i.exec(http.get("authorization"))?.[1];
  return sent === undefined ? null : (/^:([\x21-\x7e]+)$/.exec(Buffer.from(sent, "base64").toString())?.[1] ?? null);
}

/** Paths open to owners of a deleted organisation: to see it, to restore it, to switch to another one. */
const openWhileDeleted = /^\/(?:api\/v1\/(?:me|orgs|sessions|invitations)|settings\/organisation|invitations)(?:\/|$)/;
/** Paths on which an unbound token names no organisation: they list the organisations or name one in the path. */
const openWithoutOrg = /^\/api\/v1\/(?:me|orgs)(?:\/|$)/;

/** Kind of client of a write by token; Terraform and OpenTofu identify themselves in User-Agent. */
function writeSourceOf(http: Context): WriteSource {
  return /terraform|opentofu/i.test(http.get("user-agent")) ? "terraform" : "api";
}

/**
 * Authenticates a request of the API or the console by bearer token or session cookie, and resolves its organisation.
 * Throws UNAUTHENTICATED for a bad credential, ORG_REQUIRED or ORG_NOT_FOUND when it is good but not for the
 * organisation of the request, CSRF_REJECTED for a cross-site write.
 */
export async function authenticateTenant(system: System, http: Context): Promise<Ctx> {
  if (!system.config.auth.required) return await asFirstOwner(system, http);
  const org = http.get("x-sm-org");
  const request: CredentialRequest = {
    org: org === "" ? null : org,
    deletedToo: openWhileDeleted.test(http.path),
    anyOrg: openWithoutOrg.test(http.path),
  };

  if (http.get("authorization") !== "") {
    const token = bearerOf(http) ?? (takesBasic(http.path) ? passwordOf(http) : null);
    if (token === null) throw unauthenticated("The Authorization header is not of the form Bearer <token>.");
    const found: Found = token.startsWith("sm_live_")
      ? await findToken(system, token, request)
      : { refused: "unknown" };
    if ("refused" in found)
      throw refusalOf(
        found.refused,
        `X-Sm-Org names ${JSON.stringify(org.slice(0, 60))}, which is not an organisation of this credential.`,
        "The token is unknown, expired or revoked. Create a new one in the settings.",
      );
    const ctx = contextOf(system, http, found, { type: "token", id: found.id }, writeSourceOf(http));
    return found.unnamedOrg === true ? { ...ctx, unnamedOrg: true } : ctx;
  }

  const cookie = http.cookies.get(sessionCookieName(system.config));
  if (cookie === undefined) throw unauthenticated("Sign in, or send a token as Authorization: Bearer sm_live_….");
  const found = await findSession(system, cookie, request);
  if ("refused" in found) throw refusalOf(found.refused, notOfThisUser, "Your session has ended. Sign in again.");
  refuseForeignOrigin(http, system.config);
  // A page that is older than the last switch learns from it where its links lead.
  if (org !== "" && found.sessionOrgId !== undefined) http.set("X-Sm-Session-Org", found.sessionOrgId);
  if (found.orgChanged === true) await switchOrg(system, http, found);
  return contextOf(system, http, found, { type: "session", id: found.id }, "ui");
}

const notOfThisUser =
  "Nothing was changed: you have no access to the organisation of this page any more, or X-Sm-Org names none of yours.";

function refusalOf(refused: Exclude<Found, Credential>["refused"], notFound: string, unknown: string): AppError {
  switch (refused) {
    case "unknown":
      return unauthenticated(unknown);
    case "org_required":
      return new AppError(
        "ORG_REQUIRED",
        "This token is not bound to an organisation. Name one with the header X-Sm-Org; GET /api/v1/orgs lists them.",
      );
    case "org_not_found":
      return new AppError("ORG_NOT_FOUND", notFound);
    case "org_deleted":
      return new AppError(
        "ORG_NOT_FOUND",
        "The organisation is deleted. Restore it in the settings, or with POST /api/v1/orgs/{id}/restore.",
      );
  }
}

/**
 * Switches a session from a deleted organisation to another one at its first read. A write is refused: it was meant for
 * the deleted one.
 */
async function switchOrg(system: System, http: Context, { userId, id, orgId }: Credential): Promise<void> {
  if (http.method !== "GET" && http.method !== "HEAD")
    throw new AppError("ORG_NOT_FOUND", "The organisation was deleted. Reload the page to switch to another one.");
  await sessionQueries.updateSessionOrg(system.sql, userId, id, orgId);
}

function contextOf(
  { sql, clock, log, config, sealer, abuse, authorities }: System,
  http: Context,
  { orgId, userId, role, scopes, lacksSecondFactor = false }: Omit<Credential, "id">,
  actor: Ctx["actor"],
  writeSource: WriteSource,
): Ctx {
  // Field by field: a spread costs 5 % of a request.
  return {
    sql,
    clock,
    log,
    config,
    sealer,
    abuse,
    authorities,
    traceId: traceOf(http),
    orgId,
    userId,
    role,
    scopes,
    lacksSecondFactor,
    actor,
    writeSource,
  };
}

/** With `auth.required = false` every caller is the owner of the first organisation. */
async function asFirstOwner(system: System, http: Context): Promise<Ctx> {
  refuseForeignHost(system, http);
  const byBrowser = http.get("origin") !== "" || http.get("sec-fetch-site") !== "";
  if (byBrowser) refuseForeignOrigin(http, system.config);
  const owner = await queries.selectFirstOwner(system.sql);
  if (owner === null)
    throw unauthenticated(
      `There is no organisation. Run "${ownCommand("bootstrap-owner")}" on the server to create its owner.`,
    );
  return contextOf(
    system,
    http,
    { orgId: owner.org_id, userId: owner.user_id, role: "owner", scopes: allScopes },
    { type: "system", id: null },
    byBrowser ? "ui" : writeSourceOf(http),
  );
}

/** Prevents DNS rebinding: a foreign name that resolves to our address is refused. */
function refuseForeignHost({ config }: System, http: Context): void {
  const host = http.hostname.replace(/^\[|\]$/g, "");
  if (
    config.auth.trusted_proxy ||
    isIP(host) !== 0 ||
    isLoopback(host) ||
    host === new URL(config.server.public_url).hostname
  )
    return;
  throw new AppError(
    "FORBIDDEN",
    `Without sign-in, requests must use the address of this service, and ${host} is not one: set server.public_url.`,
  );
}

/** A browser's session, acting in an organisation of its user. */
export interface BrowserSession {
  readonly ctx: Ctx;
  /** Value of the session cookie. */
  readonly secret: string;
  /** The organisation of the session. */
  readonly homeOrgId: string;
}

/**
 * The session of a browser, in the organisation with this id if its user is a member. Null without a live session; a
 * token is none. Throws ORG_NOT_FOUND when the organisation of the session is deleted and there is no other.
 */
export async function browserSession(
  system: System,
  http: Context,
  orgId: string | null,
): Promise<BrowserSession | null> {
  const secret = http.cookies.get(sessionCookieName(system.config));
  if (secret === undefined || !system.config.auth.required) return null;
  const request = { org: null, deletedToo: false, anyOrg: false };
  const home = await findSession(system, secret, request);
  if ("refused" in home) {
    if (home.refused === "unknown") return null;
    throw refusalOf(home.refused, "", "");
  }
  const found =
    orgId === null || orgId === home.orgId ? home : await findSession(system, secret, { ...request, org: orgId });
  const chosen = "refused" in found ? home : found;
  const ctx = contextOf(system, http, chosen, { type: "session", id: home.id }, "ui");
  return { ctx, secret, homeOrgId: home.orgId };
}

const notSignedIn: ReadonlySet<string> = new Set(["UNAUTHENTICATED", "ORG_REQUIRED", "ORG_NOT_FOUND"]);

/** The signed-in caller of a public route; null without a good credential. */
export async function signedInAs(system: System, http: Context): Promise<Ctx | null> {
  try {
    return await authenticateTenant(system, http);
  } catch (error) {
    if (error instanceof AppError && notSignedIn.has(error.code)) return null;
    throw error;
  }
}

/** The browser that signs in. Refuses login CSRF: another site could sign a visitor in with another account. */
export function callerOf(system: System, http: Context): Caller {
  if (http.get("origin") !== "" || http.get("sec-fetch-site") !== "") refuseForeignOrigin(http, system.config);
  return {
    userAgent: http.get("user-agent") || null,
    ip: visitorAddress(http, system.config),
    previous: http.cookies.get(sessionCookieName(system.config)) ?? null,
    traceId: traceOf(http),
  };
}

/**
 * Refuses a cross-site write (CSRF) by Fetch Metadata. Browsers send Origin only where the page is no secure context,
 * and a proxy may have changed the Host header that it is compared with: `server.public_url` is an own origin, too.
 */
function refuseForeignOrigin(http: Context, { server }: Config): void {
  if (http.method === "GET" || http.method === "HEAD") return;
  const site = http.get("sec-fetch-site");
  if (site === "same-origin") return;
  const origin = http.get("origin");
  if (site === "" && URL.canParse(origin)) {
    const { host, origin: own } = new URL(origin);
    if (host === http.host || own === server.public_url) return;
  }
  throw new AppError(
    "CSRF_REJECTED",
    "This write came from another site, or its origin is unknown. Use the console itself, or a token. A proxy must " +
      "pass the Host header with its port, and server.public_url must be the address in the browser.",
  );
}

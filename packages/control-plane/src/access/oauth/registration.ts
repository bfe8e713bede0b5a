import { newId } from "@statusmesh/shared/ids";
import { dayMs, minuteMs } from "@statusmesh/shared/time";
import type { System } from "../../platform/context.ts";
import { rateLimited } from "../../platform/http/limits/throttle.ts";
import { OAuthProblem } from "./problem.ts";
import * as queries from "./queries.ts";
import { checkRedirects } from "./redirects.ts";

/** Lifetime of a client that gets no grant. */
const unusedMs = dayMs;
/** Clients without a grant, of all visitors together. The oldest make room, but none while its user may be deciding. */
const unusedClients = { max: 10_000, keptMs: 10 * minuteMs };
const maxNameLength = 80;

/** Control and format characters (bidi marks among them), private ones, unassigned ones, line and paragraph breaks. */
const invisible = /[\p{C}\p{Zl}\p{Zp}]+/gu;

/** Quotation marks, which would end those around the name. */
const quotes = /["\u201c-\u201f\u00ab\u00bb\u2039\u203a\u300c-\u300f]/g;

/**
 * A client's name for itself, fit to be shown in quotation marks: one line of at most 80 characters; null without a
 * visible one.
 */
function shownName(name: unknown): string | null {
  if (name === undefined || name === null) return null;
  if (typeof name !== "string") throw new OAuthProblem("invalid_client_metadata", "client_name must be a text.");
  const clean = name
    .toWellFormed()
    .normalize("NFC")
    .replaceAll(invisible, " ")
    .replaceAll(quotes, "'")
    .replaceAll(/\s+/g, " ")
    .trim();
  const cut = [...clean].slice(0, maxNameLength).join("").trim();
  return cut === "" ? null : cut;
}

/**
 * Registers a public client with its valid redirect addresses and returns its information response, which names the
 * others (RFC 7591, section 3.2.1). Unknown metadata is ignored. Throws invalid_redirect_uri, invalid_client_metadata,
 * and RATE_LIMITED while too many new clients wait for a grant.
 */
export async function register(
  system: System,
  metadata: Readonly<Record<string, unknown>>,
  { max, keptMs } = unusedClients,
): Promise<object> {
  const { valid: redirects, refused } = checkRedirects(metadata["redirect_uris"]);
  const name = shownName(metadata["client_name"]);
  const now = new Date(system.clock.now());
  const id = newId();
  const added = await queries.insertClient(
    system.sql,
    { id, name, redirect_uris: redirects, now, expiresAt: new Date(now.getTime() + unusedMs) },
    { max, keepSince: new Date(now.getTime() - keptMs) },
  );
  if (!added) throw rateLimited("oauth_clients", keptMs, { limit: max });
  return {
    client_id: id,
    client_id_issued_at: Math.floor(now.getTime() / 1000),
    ...(name === null ? {} : { client_name: name }),
    redirect_uris: redirects,
    ...(refused.length === 0 ? {} : { refused_redirect_uris: refused }),
    grant_types: ["authorization_code", "refresh_token"],
    response_types: ["code"],
    token_endpoint_auth_method: "none",
  };
}

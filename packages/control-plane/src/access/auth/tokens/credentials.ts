import { getOrMake } from "../../../platform/caches.ts";
import { grantedBy, isReadScope, type Role, scopes, scopesOf, type System } from "../../../platform/context.ts";
import { hashToken } from "../../../platform/crypto/token.ts";
import { type SharedReads, sharedReads } from "../../../platform/db/client/shared-reads.ts";
import * as queries from "../queries.ts";
import * as sessionQueries from "../sessions/session-queries.ts";
import * as tokenQueries from "./token-queries.ts";
import { idleSince } from "../sessions/session-queries.ts";

/** A good credential: user, organisation, role and scopes. */
export interface Credential {
  readonly id: string;
  readonly userId: string;
  readonly orgId: string;
  readonly role: Role;
  readonly scopes: ReadonlySet<string>;
  /** True for an unbound token of a request that names no organisation: `orgId` only decides the rate budget. */
  readonly unnamedOrg?: boolean;
  /** True for a session without the second factor that the organisation requires. */
  readonly lacksSecondFactor?: boolean;
  /** The organisation that a session is switched to: a request may name another one. */
  readonly sessionOrgId?: string;
  /** True for a session whose organisation was deleted: `orgId` is another one of its user. */
  readonly orgChanged?: boolean;
}

/** The parts of a request that decide the organisation of its credential. */
export interface CredentialRequest {
  /** Slug or id of the organisation that the request names; null for the credential's own. */
  readonly org: string | null;
  /** True where owners of a deleted organisation have access. */
  readonly deletedToo: boolean;
  /** True where an unbound token names no organisation. */
  readonly anyOrg: boolean;
}

/** A credential, or the reason of its refusal. Only `unknown` is about the credential itself. */
export type Found = Credential | { readonly refused: "unknown" | "org_required" | "org_not_found" | "org_deleted" };

export const allScopes: ReadonlySet<string> = new Set(scopes);
const readScopes: ReadonlySet<string> = new Set(scopes.filter(isReadScope));

/**
 * Lookups in flight per database pool (single-flight). Nothing is cached: each request looks its credential up, so that
 * a revoked one fails at once on every replica. Only concurrent requests share a lookup.
 */
const lookups = new WeakMap<object, SharedReads<Found>>();

const lookUp = (system: System, key: string, read: () => Promise<Found>): Promise<Found> =>
  getOrMake(lookups, system.sql, () => sharedReads<Found>())(key, read);

/** A token or a session in an organisation of its user, with what the role leaves of the granted scopes. */
const credentialOf = (
  { id, user_id: userId }: { id: string; user_id: string },
  { org_id: orgId, role }: { org_id: string; role: Role },
  granted: ReadonlySet<string>,
): Credential => ({ id, userId, orgId, role, scopes: scopesOf(role, granted) });

/** The live API token in the organisation of the request. Records its use. */
export function findToken(system: System, token: string, request: CredentialRequest): Promise<Found> {
  const { org, deletedToo, anyOrg } = request;
  return lookUp(system, `token ${token} ${deletedToo} ${anyOrg} ${org}`, async () => {
    const now = new Date(system.clock.now());
    const hash = hashToken(token);
    const row = await tokenQueries.selectToken(system.sql, hash, now, org, deletedToo);
    if (row === null) return await unresolvedToken(system, hash, now, request);
    await sessionQueries.touchCredential(system.sql, "api_tokens", row, now);
    return credentialOf(row, row, grantedBy(row.scopes));
  });
}

/** Result for a token that does not resolve to exactly one organisation. */
async function unresolvedToken(
  system: System,
  hash: Buffer,
  now: Date,
  { org, anyOrg }: CredentialRequest,
): Promise<Found> {
  const row = await tokenQueries.selectLiveToken(system.sql, hash, now);
  if (row === null) return { refused: "unknown" };
  if (org !== null) return { refused: "org_not_found" };
  if (row.org_id !== null)
    return { refused: (await queries.ownsDeleted(system.sql, row.user_id, row.org_id)) ? "org_deleted" : "unknown" };
  const home = await queries.selectHome(system.sql, row.user_id);
  if (home === null) return { refused: "unknown" };
  if (!anyOrg) return { refused: "org_required" };
  await sessionQueries.touchCredential(system.sql, "api_tokens", row, now);
  return { ...credentialOf(row, home, grantedBy(row.scopes)), unnamedOrg: true };
}

/** The live session of a cookie in the organisation of the request. Records its use. */
export function findSession(system: System, cookie: string, request: CredentialRequest): Promise<Found> {
  const { org, deletedToo } = request;
  return lookUp(system, `session ${cookie} ${deletedToo} ${org}`, async () => {
    const now = new Date(system.clock.now());
    const hash = hashToken(cookie);
    const row = await sessionQueries.selectSession(system.sql, hash, now, idleSince(now), org, deletedToo);
    if (row === null) return await unresolvedSession(system, hash, now, org);
    await sessionQueries.touchCredential(system.sql, "sessions", row, now);
    const found = { ...credentialOf(row, row, allScopes), sessionOrgId: row.session_org_id };
    return row.lacks_second_factor ? { ...found, scopes: readScopes, lacksSecondFactor: true } : found;
  });
}

/** Result for a session whose organisation, or the named one, is not available to its user. */
async function unresolvedSession(system: System, hash: Buffer, now: Date, org: string | null): Promise<Found> {
  const row = await sessionQueries.selectLiveSession(system.sql, hash, now, idleSince(now));
  if (row === null || row.org_id === null) return { refused: "unknown" };
  if (org !== null) return { refused: "org_not_found" };
  const home = await queries.selectHome(system.sql, row.user_id);
  if (home === null) return { refused: "unknown" };
  if (home.deleted) return { refused: "org_deleted" };
  return { ...credentialOf(row, home, allScopes), orgChanged: true };
}

import { grantedBy, scopes, type System } from "../context.ts";
import { hashToken } from "../crypto/token.ts";
import { type SharedReads, sharedReads } from "../db/shared-reads.ts";
import * as queries from "./queries.ts";
import { idleSince } from "./session-times.ts";

/** Who a good credential speaks for. */
export interface Credential {
  readonly id: string;
  readonly userId: string;
  readonly orgId: string;
  readonly role: "owner" | "member";
  readonly scopes: ReadonlySet<string>;
  /** True for an unbound token of a request that names no organisation: `orgId` then only says whose budget it uses. */
  readonly unnamedOrg?: boolean;
  /** True for a session whose organisation was deleted: `orgId` is another one of its user. */
  readonly strayed?: boolean;
}

/** What of a request decides for which organisation its credential speaks. */
export interface Asked {
  /** The organisation that the request names; null for the credential's own. */
  readonly orgSlug: string | null;
  /** True where owners of a deleted organisation are still let in. */
  readonly deletedToo: boolean;
  /** True where an unbound token needs to name no organisation. */
  readonly anyOrg: boolean;
}

/** A credential, or why a request with it is refused. Only `unknown` is about the credential itself. */
export type Found = Credential | { readonly refused: "unknown" | "org_required" | "org_not_found" | "org_deleted" };

export const allScopes: ReadonlySet<string> = new Set(scopes);
/** A use is noted at most this often: a busy caller costs no write per request. */
const noteAfterMs = 60_000;

/**
 * The lookups that are on their way, for each database pool. Nothing is remembered: a credential is looked up for every
 * request, so that a revoked one fails on its next, on every replica. Only requests that come at the same time share a lookup.
 */
const lookups = new WeakMap<object, SharedReads<Found>>();

function lookUp(system: System, key: string, read: () => Promise<Found>): Promise<Found> {
  let shared = lookups.get(system.sql);
  if (shared === undefined) lookups.set(system.sql, (shared = sharedReads()));
  return shared(key, read);
}

const isDue = (noted: Date | null, now: Date): boolean =>
  noted === null || now.getTime() - noted.getTime() > noteAfterMs;

/** The live API token, in the organisation asked for. Notes its use. */
export function findToken(system: System, token: string, asked: Asked): Promise<Found> {
  const { orgSlug, deletedToo, anyOrg } = asked;
  return lookUp(system, `token ${token} ${deletedToo} ${anyOrg} ${orgSlug}`, async () => {
    const now = new Date(system.clock.now());
    const hash = hashToken(token);
    const row = await queries.selectToken(system.sql, hash, now, orgSlug, deletedToo);
    if (row === null) return await tokenElsewhere(system, hash, now, asked);
    if (isDue(row.last_used_at, now)) await queries.touchToken(system.sql, row.id, now, noteAfterMs);
    return { id: row.id, userId: row.user_id, orgId: row.org_id, role: row.role, scopes: grantedBy(row.scopes) };
  });
}

/** What becomes of a token that is not good for exactly one organisation with this request. */
async function tokenElsewhere(system: System, hash: Buffer, now: Date, { orgSlug, anyOrg }: Asked): Promise<Found> {
  const row = await queries.selectLiveToken(system.sql, hash, now);
  if (row === null) return { refused: "unknown" };
  if (orgSlug !== null) return { refused: "org_not_found" };
  if (row.org_id !== null)
    return { refused: (await queries.ownsDeleted(system.sql, row.user_id, row.org_id)) ? "org_deleted" : "unknown" };
  const home = await queries.selectHome(system.sql, row.user_id);
  if (home === null) return { refused: "unknown" };
  if (!anyOrg) return { refused: "org_required" };
  await queries.touchToken(system.sql, row.id, now, noteAfterMs);
  return {
    id: row.id,
    userId: row.user_id,
    orgId: home.org_id,
    role: home.role,
    scopes: grantedBy(row.scopes),
    unnamedOrg: true,
  };
}

/** The live session of a cookie, in the organisation asked for. Notes its use. */
export function findSession(system: System, cookie: string, asked: Asked): Promise<Found> {
  const { orgSlug, deletedToo } = asked;
  return lookUp(system, `session ${cookie} ${deletedToo} ${orgSlug}`, async () => {
    const now = new Date(system.clock.now());
    const hash = hashToken(cookie);
    const row = await queries.selectSession(system.sql, hash, now, idleSince(now), orgSlug, deletedToo);
    if (row === null) return await sessionElsewhere(system, hash, now, orgSlug);
    if (isDue(row.last_used_at, now)) await queries.touchSession(system.sql, row.id, now, noteAfterMs);
    return { id: row.id, userId: row.user_id, orgId: row.org_id, role: row.role, scopes: allScopes };
  });
}

/** What becomes of a session whose organisation, or the one that the request names, is not there for its user. */
async function sessionElsewhere(system: System, hash: Buffer, now: Date, orgSlug: string | null): Promise<Found> {
  const row = await queries.selectLiveSession(system.sql, hash, now, idleSince(now));
  if (row === null || row.org_id === null) return { refused: "unknown" };
  if (orgSlug !== null) return { refused: "org_not_found" };
  const home = await queries.selectHome(system.sql, row.user_id);
  if (home === null) return { refused: "unknown" };
  if (home.deleted) return { refused: "org_deleted" };
  return { id: row.id, userId: row.user_id, orgId: home.org_id, role: home.role, scopes: allScopes, strayed: true };
}

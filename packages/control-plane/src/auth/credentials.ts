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
}

/** What of a request decides for which organisation its credential speaks. */
export interface Asked {
  /** The organisation that the request names; null for the credential's own. */
  readonly orgSlug: string | null;
  /** True where owners of a deleted organisation are still let in. */
  readonly deletedToo: boolean;
}

export const allScopes: ReadonlySet<string> = new Set(scopes);
/** A use is noted at most this often: a busy caller costs no write per request. */
const noteAfterMs = 60_000;

/**
 * The lookups that are on their way, for each database pool. Nothing is remembered: a credential is looked up for every
 * request, so that a revoked one fails on its next, on every replica. Only requests that come at the same time share a lookup.
 */
const lookups = new WeakMap<object, SharedReads<Credential | null>>();

function lookUp(system: System, key: string, read: () => Promise<Credential | null>): Promise<Credential | null> {
  let shared = lookups.get(system.sql);
  if (shared === undefined) lookups.set(system.sql, (shared = sharedReads()));
  return shared(key, read);
}

const isDue = (noted: Date | null, now: Date): boolean =>
  noted === null || now.getTime() - noted.getTime() > noteAfterMs;

/** The live API token, in the organisation asked for; null when it is not good there. Notes its use. */
export function findToken(system: System, token: string, { orgSlug, deletedToo }: Asked): Promise<Credential | null> {
  return lookUp(system, `token ${token} ${deletedToo} ${orgSlug}`, async () => {
    const now = new Date(system.clock.now());
    const row = await queries.selectToken(system.sql, hashToken(token), now, orgSlug, deletedToo);
    if (row === null) return null;
    if (isDue(row.last_used_at, now)) await queries.touchToken(system.sql, row.id, now, noteAfterMs);
    return { id: row.id, userId: row.user_id, orgId: row.org_id, role: row.role, scopes: grantedBy(row.scopes) };
  });
}

/** The live session of a cookie, in the organisation asked for; null when it is not good there. Notes its use. */
export function findSession(
  system: System,
  cookie: string,
  { orgSlug, deletedToo }: Asked,
): Promise<Credential | null> {
  return lookUp(system, `session ${cookie} ${deletedToo} ${orgSlug}`, async () => {
    const now = new Date(system.clock.now());
    const row = await queries.selectSession(system.sql, hashToken(cookie), now, idleSince(now), orgSlug, deletedToo);
    if (row === null) return null;
    if (isDue(row.last_used_at, now)) await queries.touchSession(system.sql, row.id, now, noteAfterMs);
    return { id: row.id, userId: row.user_id, orgId: row.org_id, role: row.role, scopes: allScopes };
  });
}

import type { Role } from "../../../platform/context.ts";
import {
  affectsRow,
  anyOf,
  type Db,
  firstOf,
  listed,
  type Listed,
  type Paging,
} from "../../../platform/db/client/sql.ts";
import type { StoredRow } from "../../../platform/http/wire.ts";
import { dayMs, minuteMs } from "@statusmesh/shared/time";
import type { Session } from "../schema.ts";

/** User, organisation and role of a good credential. */
export interface CredentialRow {
  id: string;
  user_id: string;
  org_id: string;
  role: Role;
  last_used_at: Date | null;
}

/** A token or session that is good by itself, whatever organisation the request names. */
export interface LiveCredentialRow {
  id: string;
  user_id: string;
  /** The organisation of the session, or the one that the token is bound to. */
  org_id: string | null;
}

/**
 * The live session with this hash: used since `idleSince`, not expired. `org` is the slug or the id of another
 * organisation of its user. Deleted organisations: see `selectToken`.
 */
export async function selectSession(
  sql: Db,
  hash: Buffer,
  now: Date,
  idleSince: Date,
  org: string | null,
  deletedToo: boolean,
) {
  return await firstOf(sql<(CredentialRow & { session_org_id: string; lacks_second_factor: boolean })[]>`
    select s.id, s.user_id, m.org_id, m.role, s.last_used_at, s.org_id as session_org_id,
      o.require_second_factor and not s.second_factor as lacks_second_factor
    from sessions s
    join memberships m on m.user_id = s.user_id
    join orgs o on o.id = m.org_id and (o.deleted_at is null or (${deletedToo} and m.role = 'owner'))
    where s.secret_hash = ${hash} and s.expires_at > ${now} and s.last_used_at > ${idleSince}
      and case when ${org}::text is null then m.org_id = s.org_id else ${org} in (o.slug, o.id::text) end`);
}

/** The live session with this hash, whatever organisation the request names. */
export async function selectLiveSession(
  sql: Db,
  hash: Buffer,
  now: Date,
  idleSince: Date,
): Promise<LiveCredentialRow | null> {
  return await firstOf(sql<LiveCredentialRow[]>`
    select id, user_id, org_id from sessions
    where secret_hash = ${hash} and expires_at > ${now} and last_used_at > ${idleSince}`);
}

/** Records a use, unless one was recorded within a minute: a busy caller costs no write per request. */
export async function touchCredential(
  sql: Db,
  table: "sessions" | "api_tokens",
  { id, last_used_at = null }: { id: string; last_used_at?: Date | null },
  now: Date,
): Promise<void> {
  const before = new Date(now.getTime() - minuteMs);
  if (last_used_at !== null && last_used_at >= before) return;
  await sql`
    update ${sql(table)} set last_used_at = ${now}
    where id = ${id} and (last_used_at is null or last_used_at < ${before})`;
}

/**
 * Consumes a sign-in link and returns its user with their first organisation; deleted ones that they own come last. Of
 * two concurrent callers with one link exactly one gets the user.
 */
export async function consumeSignInLink(sql: Db, hash: Buffer, now: Date) {
  return await firstOf(sql<{ user_id: string; org_id: string }[]>`
    with used as (
      update sign_in_links set consumed_at = ${now}
      where code_hash = ${hash} and consumed_at is null and expires_at > ${now} returning user_id)
    select used.user_id, m.org_id from used
    join memberships m on m.user_id = used.user_id
    join orgs o on o.id = m.org_id and (o.deleted_at is null or m.role = 'owner')
    order by (o.deleted_at is not null), m.created_at limit 1`);
}

export type LinkMethod = "bootstrap_link" | "magic_link" | "reset_link";

interface SignInLinkRow {
  method: LinkMethod;
  user_id: string;
  email: string;
}

/** Method and user of a link, also of a consumed or expired one, for the log of attempts. */
export async function selectSignInLink(sql: Db, hash: Buffer): Promise<SignInLinkRow | null> {
  return await firstOf(sql<SignInLinkRow[]>`
    select l.method, l.user_id, u.email from sign_in_links l join users u on u.id = l.user_id
    where l.code_hash = ${hash}`);
}

export async function insertSignInLink(
  sql: Db,
  row: Omit<SignInLinkRow, "email"> & { id: string; code_hash: Buffer; created_at: Date; expires_at: Date },
): Promise<void> {
  await sql`insert into sign_in_links ${sql(row)}`;
}

export async function deleteSignInLinks(sql: Db): Promise<void> {
  await sql`delete from sign_in_links`;
}

export async function insertSession(
  sql: Db,
  row: SessionRow & ProofRow & { user_id: string; org_id: string; secret_hash: Buffer },
): Promise<void> {
  await sql`insert into sessions ${sql(row)}`;
}

/** What was proven in a session. */
interface ProofRow {
  verified_at: Date | null;
  second_factor: boolean;
}

export type SessionRow = StoredRow<Omit<Session, "current">>;

const ownSessions = (sql: Db, userId: string, orgId: string | null) =>
  sql`user_id = ${userId} and (${orgId}::uuid is null or org_id = ${orgId})`;

/** Live sessions, most recently used first. With `orgId` only those that act in it. */
export async function selectSessions(
  sql: Db,
  userId: string,
  orgId: string | null,
  now: Date,
  { limit, offset }: Paging,
): Promise<Listed<SessionRow>> {
  const from = sql`
    from sessions
    where ${ownSessions(sql, userId, orgId)} and expires_at > ${now} and last_used_at > ${idleSince(now)}`;
  const part = sql<SessionRow[]>`
    select id, user_agent, ip, created_at, last_used_at, expires_at ${from}
    order by last_used_at desc limit ${limit} offset ${offset}`;
  return await listed(sql, from, part);
}

/** Ends the session with this secret; returns its absolute expiry and what was proven in it. */
export async function deleteSessionBySecret(sql: Db, hash: Buffer): Promise<(ProofRow & { expires_at: Date }) | null> {
  return await firstOf(sql<(ProofRow & { expires_at: Date })[]>`
    delete from sessions where secret_hash = ${hash} returning expires_at, verified_at, second_factor`);
}

export const isSecondFactorSession = async (sql: Db, id: string | null): Promise<boolean> =>
  await anyOf(sql, sql`from sessions where id = ${id} and second_factor`);

/** Records whether the session has proven a second factor. */
export async function updateSecondFactor(sql: Db, id: string, proven: boolean): Promise<void> {
  await sql`update sessions set second_factor = ${proven} where id = ${id}`;
}

export async function updateSessionOrg(sql: Db, userId: string, id: string, orgId: string): Promise<void> {
  await sql`update sessions set org_id = ${orgId} where user_id = ${userId} and id = ${id}`;
}

export async function deleteSessionsIn(sql: Db, userId: string, orgId: string): Promise<void> {
  await sql`delete from sessions where user_id = ${userId} and org_id = ${orgId}`;
}

export async function deleteSession(
  sql: Db,
  userId: string,
  orgId: string | null,
  id: string,
): Promise<SessionRow | null> {
  return await firstOf(sql<SessionRow[]>`
    delete from sessions where ${ownSessions(sql, userId, orgId)} and id = ${id}
    returning id, user_agent, ip, created_at, last_used_at, expires_at`);
}

/**
 * True when no link was requested for the address since `since`; records the request. One of many concurrent calls gets
 * true.
 */
export async function takeMagicLinkTurn(sql: Db, emailHash: Buffer, now: Date, since: Date): Promise<boolean> {
  return await affectsRow(sql`
    insert into magic_link_requests (email_hash, asked_at) values (${emailHash}, ${now})
    on conflict (email_hash) do update set asked_at = excluded.asked_at
      where magic_link_requests.asked_at <= ${since}`);
}

/** Deletes expired sign-in links, ended sessions, and link requests that no throttle needs. */
export async function deleteExpired(
  sql: Db,
  before: { links: Date; sessions: Date; idle: Date; requests: Date },
): Promise<void> {
  await sql`delete from sign_in_links where expires_at < ${before.links}`;
  await sql`delete from sessions where expires_at < ${before.sessions} or last_used_at < ${before.idle}`;
  await sql`delete from magic_link_requests where asked_at < ${before.requests}`;
}

/** Idle and absolute lifetime of a session. */
const idleMs = 30 * dayMs;
export const absoluteMs = 90 * dayMs;

/** Lifetime of a sign-in link. */
export const signInLinkMs = 15 * minuteMs;

/** Sessions without a request since then have ended. */
export const idleSince = (now: Date): Date => new Date(now.getTime() - idleMs);

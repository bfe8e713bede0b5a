import type { Scope } from "../context.ts";
import type { Db } from "../db/sql.ts";

/** Who a credential speaks for. */
export interface CredentialRow {
  id: string;
  user_id: string;
  org_id: string;
  role: "owner" | "member";
  last_used_at: Date | null;
}

export type TokenCredentialRow = CredentialRow & { scopes: string[] };

/**
 * The live token with this hash, in the org that it is bound to; an unbound one in the user's org with the slug that the
 * request names, or in their only one. No row: unknown, expired, revoked, or no longer a member. A deleted org is gone, but
 * for its owners when they come to bring it back.
 */
export async function selectToken(
  sql: Db,
  hash: Buffer,
  now: Date,
  orgSlug: string | null,
  deletedToo: boolean,
): Promise<TokenCredentialRow | null> {
  const rows = await sql<TokenCredentialRow[]>`
    select t.id, t.user_id, m.org_id, m.role, t.scopes, t.last_used_at
    from api_tokens t
    join memberships m on m.user_id = t.user_id and m.org_id = coalesce(t.org_id, m.org_id)
    join orgs o on o.id = m.org_id and (o.deleted_at is null or (${deletedToo} and m.role = 'owner' and t.org_id is not null))
    where t.token_hash = ${hash} and t.revoked_at is null and (t.expires_at is null or t.expires_at > ${now})
      and (${orgSlug}::text is null or o.slug = ${orgSlug})
    order by o.created_at limit 2`;
  // Two orgs and none named: guessing one would write into the wrong place.
  return rows.length === 1 ? rows[0]! : null;
}

/** Locks the user, so that of many parallel creations each counts those before it. */
export async function lockUser(sql: Db, userId: string): Promise<void> {
  await sql`select id from users where id = ${userId} for no key update`;
}

/** Tokens that work; expired ones count no more. */
export async function countLiveTokens(sql: Db, userId: string, now: Date): Promise<number> {
  const [row] = await sql<
    { count: number }[]
  >`select count(*)::int as count from api_tokens where user_id = ${userId} and revoked_at is null and (expires_at is null or expires_at > ${now})`;
  return row!.count;
}

/** How far a token reaches: what it makes may reach no farther. */
export interface TokenReach {
  org_id: string | null;
  expires_at: Date | null;
}

export async function selectTokenReach(sql: Db, userId: string, id: string): Promise<TokenReach | null> {
  const [row] = await sql<
    TokenReach[]
  >`select org_id, expires_at from api_tokens where user_id = ${userId} and id = ${id} and revoked_at is null`;
  return row ?? null;
}

export interface ApiTokenRow {
  id: string;
  name: string;
  org_id: string | null;
  scopes: Scope[];
  created_at: Date;
  expires_at: Date | null;
  last_used_at: Date | null;
}

const ownTokens = (sql: Db, userId: string, orgId: string | null) =>
  sql`user_id = ${userId} and revoked_at is null and (${orgId}::uuid is null or org_id = ${orgId})`;

/** Tokens that were not revoked, newest first; expired ones too. An org leaves out what is not bound to it. */
export async function selectTokens(
  sql: Db,
  userId: string,
  orgId: string | null,
  limit: number,
  offset: number,
): Promise<ApiTokenRow[]> {
  return await sql<ApiTokenRow[]>`
    select id, name, org_id, scopes, created_at, expires_at, last_used_at from api_tokens
    where ${ownTokens(sql, userId, orgId)} order by id desc limit ${limit} offset ${offset}`;
}

export async function countTokens(sql: Db, userId: string, orgId: string | null): Promise<number> {
  const [row] = await sql<
    { count: number }[]
  >`select count(*)::int as count from api_tokens where ${ownTokens(sql, userId, orgId)}`;
  return row!.count;
}

/** Revokes a token with all that it made, and what those made. Returns the token, and how many went with it. */
export async function revokeToken(
  sql: Db,
  userId: string,
  orgId: string | null,
  id: string,
  now: Date,
): Promise<{ row: ApiTokenRow; offspring: number } | null> {
  const rows = await sql<ApiTokenRow[]>`
    with recursive family as (
      select id from api_tokens where ${ownTokens(sql, userId, orgId)} and id = ${id}
      union select t.id from api_tokens t join family f on t.made_by = f.id)
    update api_tokens set revoked_at = ${now} where id in (select id from family) and revoked_at is null
    returning id, name, org_id, scopes, created_at, expires_at, last_used_at`;
  const row = rows.find((one) => one.id === id);
  return row === undefined ? null : { row, offspring: rows.length - 1 };
}

/** The live session with this hash: used within the idle limit, not past its end. `orgSlug` names another org of the user. For deleted orgs see {@link selectToken}. */
export async function selectSession(
  sql: Db,
  hash: Buffer,
  now: Date,
  idleSince: Date,
  orgSlug: string | null,
  deletedToo: boolean,
): Promise<CredentialRow | null> {
  const [row] = await sql<CredentialRow[]>`
    select s.id, s.user_id, m.org_id, m.role, s.last_used_at
    from sessions s
    join memberships m on m.user_id = s.user_id
    join orgs o on o.id = m.org_id and (o.deleted_at is null or (${deletedToo} and m.role = 'owner'))
    where s.secret_hash = ${hash} and s.expires_at > ${now} and s.last_used_at > ${idleSince}
      and case when ${orgSlug}::text is null then m.org_id = s.org_id else o.slug = ${orgSlug} end`;
  return row ?? null;
}

/** A token or session that is good by itself, whichever organisation the request names. */
export interface LiveCredentialRow {
  id: string;
  user_id: string;
  /** The organisation of the session, or the one that the token is bound to. */
  org_id: string | null;
}

export async function selectLiveToken(
  sql: Db,
  hash: Buffer,
  now: Date,
): Promise<(LiveCredentialRow & { scopes: string[] }) | null> {
  const [row] = await sql<(LiveCredentialRow & { scopes: string[] })[]>`
    select id, user_id, org_id, scopes from api_tokens
    where token_hash = ${hash} and revoked_at is null and (expires_at is null or expires_at > ${now})`;
  return row ?? null;
}

export async function selectLiveSession(
  sql: Db,
  hash: Buffer,
  now: Date,
  idleSince: Date,
): Promise<LiveCredentialRow | null> {
  const [row] = await sql<LiveCredentialRow[]>`
    select id, user_id, org_id from sessions where secret_hash = ${hash} and expires_at > ${now} and last_used_at > ${idleSince}`;
  return row ?? null;
}

/** The user's membership in the organisation that they joined first; one that they own and may restore comes after all others. */
export async function selectHome(
  sql: Db,
  userId: string,
): Promise<{ org_id: string; role: "owner" | "member"; deleted: boolean } | null> {
  const [row] = await sql<{ org_id: string; role: "owner" | "member"; deleted: boolean }[]>`
    select m.org_id, m.role, o.deleted_at is not null as deleted
    from memberships m join orgs o on o.id = m.org_id and (o.deleted_at is null or m.role = 'owner')
    where m.user_id = ${userId} order by (o.deleted_at is not null), m.created_at limit 1`;
  return row ?? null;
}

/** True where the user owns the organisation and it is deleted. */
export async function ownsDeleted(sql: Db, userId: string, orgId: string): Promise<boolean> {
  const rows = await sql`
    select 1 from memberships m join orgs o on o.id = m.org_id and o.deleted_at is not null
    where m.user_id = ${userId} and m.org_id = ${orgId} and m.role = 'owner'`;
  return rows.length === 1;
}

/** Notes a use, unless another was noted within `notedMs`. */
export async function touchToken(sql: Db, id: string, now: Date, notedMs: number): Promise<void> {
  await sql`update api_tokens set last_used_at = ${now} where id = ${id} and (last_used_at is null or last_used_at < ${new Date(now.getTime() - notedMs)})`;
}

/** Like {@link touchToken}. */
export async function touchSession(sql: Db, id: string, now: Date, notedMs: number): Promise<void> {
  await sql`update sessions set last_used_at = ${now} where id = ${id} and last_used_at < ${new Date(now.getTime() - notedMs)}`;
}

/** Uses up a sign-in link; an org that its owner may restore comes after all others. Of two callers with one link exactly one gets the user. */
export async function consumeSignInLink(
  sql: Db,
  hash: Buffer,
  now: Date,
): Promise<{ user_id: string; org_id: string } | null> {
  const [row] = await sql<{ user_id: string; org_id: string }[]>`
    with used as (
      update sign_in_links set consumed_at = ${now} where code_hash = ${hash} and consumed_at is null and expires_at > ${now} returning user_id)
    select used.user_id, m.org_id from used join memberships m on m.user_id = used.user_id join orgs o on o.id = m.org_id and (o.deleted_at is null or m.role = 'owner')
    order by (o.deleted_at is not null), m.created_at limit 1`;
  return row ?? null;
}

/** Whose link this is or was, for the log of attempts. */
export async function selectSignInLink(
  sql: Db,
  hash: Buffer,
): Promise<{ method: "bootstrap_link" | "magic_link"; user_id: string; email: string } | null> {
  const [row] = await sql<{ method: "bootstrap_link" | "magic_link"; user_id: string; email: string }[]>`
    select l.method, l.user_id, u.email from sign_in_links l join users u on u.id = l.user_id where l.code_hash = ${hash}`;
  return row ?? null;
}

export async function insertSignInLink(
  sql: Db,
  row: { id: string; userId: string; method: string; hash: Buffer; now: Date; expiresAt: Date },
): Promise<void> {
  await sql`
    insert into sign_in_links (id, user_id, method, code_hash, created_at, expires_at)
    values (${row.id}, ${row.userId}, ${row.method}, ${row.hash}, ${row.now}, ${row.expiresAt})`;
}

export interface NewSession {
  id: string;
  userId: string;
  orgId: string;
  hash: Buffer;
  userAgent: string | null;
  ip: string;
  now: Date;
  expiresAt: Date;
}

export async function insertSession(sql: Db, row: NewSession): Promise<void> {
  await sql`
    insert into sessions (id, user_id, org_id, secret_hash, user_agent, ip, created_at, last_used_at, expires_at)
    values (${row.id}, ${row.userId}, ${row.orgId}, ${row.hash}, ${row.userAgent}, ${row.ip}, ${row.now}, ${row.now}, ${row.expiresAt})`;
}

export interface SessionRow {
  id: string;
  user_agent: string | null;
  ip: string | null;
  created_at: Date;
  last_used_at: Date;
  expires_at: Date;
}

const ownSessions = (sql: Db, userId: string, orgId: string | null) =>
  sql`user_id = ${userId} and (${orgId}::uuid is null or org_id = ${orgId})`;

/** Live sessions, the latest used first. An org leaves out those that act in another one. */
export async function selectSessions(
  sql: Db,
  userId: string,
  orgId: string | null,
  now: Date,
  idleSince: Date,
  limit: number,
  offset: number,
): Promise<SessionRow[]> {
  return await sql<SessionRow[]>`
    select id, user_agent, ip, created_at, last_used_at, expires_at from sessions
    where ${ownSessions(sql, userId, orgId)} and expires_at > ${now} and last_used_at > ${idleSince} order by last_used_at desc limit ${limit} offset ${offset}`;
}

export async function countSessions(
  sql: Db,
  userId: string,
  orgId: string | null,
  now: Date,
  idleSince: Date,
): Promise<number> {
  const [row] = await sql<
    { count: number }[]
  >`select count(*)::int as count from sessions where ${ownSessions(sql, userId, orgId)} and expires_at > ${now} and last_used_at > ${idleSince}`;
  return row!.count;
}

/** Ends the session that has this secret; returns when it would have ended at the latest. */
export async function deleteSessionBySecret(sql: Db, hash: Buffer): Promise<Date | null> {
  const [row] = await sql<
    { expires_at: Date }[]
  >`delete from sessions where secret_hash = ${hash} returning expires_at`;
  return row?.expires_at ?? null;
}

export async function updateSessionOrg(sql: Db, userId: string, id: string, orgId: string): Promise<void> {
  await sql`update sessions set org_id = ${orgId} where user_id = ${userId} and id = ${id}`;
}

export async function deleteSessionsIn(sql: Db, userId: string, orgId: string): Promise<void> {
  await sql`delete from sessions where user_id = ${userId} and org_id = ${orgId}`;
}

export async function revokeTokensIn(sql: Db, userId: string, orgId: string, now: Date): Promise<void> {
  await sql`update api_tokens set revoked_at = ${now} where user_id = ${userId} and org_id = ${orgId} and revoked_at is null`;
}

export async function selectEmail(sql: Db, userId: string): Promise<string | null> {
  const [row] = await sql<{ email: string }[]>`select email from users where id = ${userId}`;
  return row?.email ?? null;
}

/** The user with this address who belongs to some organisation. */
export async function selectUserByEmail(sql: Db, email: string): Promise<string | null> {
  const [row] = await sql<
    { id: string }[]
  >`select u.id from users u where u.email = ${email} and exists (select 1 from memberships m where m.user_id = u.id)`;
  return row?.id ?? null;
}

/** The user with this address, which is known to be theirs from now on; makes one with `id` when there is none. */
export async function upsertVerifiedUser(sql: Db, id: string, email: string, now: Date): Promise<string> {
  const [row] = await sql<{ id: string }[]>`
    insert into users (id, email, email_verified_at, created_at) values (${id}, ${email}, ${now}, ${now})
    on conflict (email) do update set email_verified_at = coalesce(users.email_verified_at, excluded.email_verified_at) returning id`;
  return row!.id;
}

/** True when the address was not asked for since then; it is asked for now. Of many at once exactly one gets true. */
export async function takeMagicLinkTurn(sql: Db, emailHash: Buffer, now: Date, since: Date): Promise<boolean> {
  const rows = await sql`
    insert into magic_link_requests (email_hash, asked_at) values (${emailHash}, ${now})
    on conflict (email_hash) do update set asked_at = excluded.asked_at where magic_link_requests.asked_at <= ${since} returning 1`;
  return rows.length === 1;
}

/** Whom everybody acts as where nobody signs in: the first owner of the oldest organisation. */
export async function selectFirstOwner(sql: Db): Promise<{ user_id: string; org_id: string } | null> {
  const [row] = await sql<{ user_id: string; org_id: string }[]>`
    select m.user_id, m.org_id from orgs o join memberships m on m.org_id = o.id and m.role = 'owner'
    where o.deleted_at is null order by o.created_at, o.id, m.created_at, m.user_id limit 1`;
  return row ?? null;
}

export async function deleteSession(
  sql: Db,
  userId: string,
  orgId: string | null,
  id: string,
): Promise<SessionRow | null> {
  const [row] = await sql<SessionRow[]>`
    delete from sessions where ${ownSessions(sql, userId, orgId)} and id = ${id} returning id, user_agent, ip, created_at, last_used_at, expires_at`;
  return row ?? null;
}

export interface MeRow {
  user_id: string;
  email: string;
  name: string | null;
  org_id: string;
  org_name: string;
  org_slug: string;
  plan_id: string;
}

export async function selectMe(sql: Db, userId: string, orgId: string): Promise<MeRow | null> {
  const [row] = await sql<MeRow[]>`
    select u.id as user_id, u.email, u.name, o.id as org_id, o.name as org_name, o.slug as org_slug, o.plan_id
    from users u, orgs o where u.id = ${userId} and o.id = ${orgId}`;
  return row ?? null;
}

export async function insertToken(
  sql: Db,
  row: {
    id: string;
    userId: string;
    orgId: string | null;
    name: string;
    hash: Buffer;
    scopes: readonly string[];
    now: Date;
    expiresAt?: Date | null;
    /** The token that makes it; null where a person does. */
    madeBy?: string | null;
  },
): Promise<void> {
  await sql`
    insert into api_tokens (id, user_id, org_id, name, token_hash, scopes, created_at, expires_at, made_by)
    values (${row.id}, ${row.userId}, ${row.orgId}, ${row.name}, ${row.hash}, ${row.scopes as string[]}, ${row.now}, ${row.expiresAt ?? null}, ${row.madeBy ?? null}) on conflict (token_hash) do nothing`;
}

export async function insertOwner(
  sql: Db,
  row: { userId: string; email: string; orgId: string; orgName: string; orgSlug: string; planId: string; now: Date },
): Promise<void> {
  await sql`insert into orgs (id, slug, name, plan_id, created_at, updated_at) values (${row.orgId}, ${row.orgSlug}, ${row.orgName}, ${row.planId}, ${row.now}, ${row.now})`;
  await sql`insert into users (id, email, email_verified_at, created_at) values (${row.userId}, ${row.email}, ${row.now}, ${row.now})`;
  await sql`insert into memberships (org_id, user_id, role, created_at) values (${row.orgId}, ${row.userId}, 'owner', ${row.now})`;
}

export async function anyUser(sql: Db): Promise<boolean> {
  const [row] = await sql<{ any: boolean }[]>`select exists (select 1 from users) as any`;
  return row!.any;
}

export interface OwnerRow {
  user_id: string;
  org_id: string;
  email: string;
}

/** The first owner with this email, or the first owner at all for null. */
export async function selectOwner(sql: Db, email: string | null): Promise<OwnerRow | null> {
  const [row] = await sql<OwnerRow[]>`
    select u.id as user_id, m.org_id, u.email from users u join memberships m on m.user_id = u.id and m.role = 'owner'
    where ${email}::text is null or u.email = ${email} order by m.created_at limit 1`;
  return row ?? null;
}

/** Lets one process at a time do the first start. Released at the end of the transaction. */
export async function lockBootstrap(sql: Db): Promise<void> {
  await sql`select pg_advisory_xact_lock(hashtext('statusmesh bootstrap'))`;
}

import { affectsRow, anyOf, columnOf, type Db, firstOf, valueOf } from "../../../platform/db/client/sql.ts";

/** A user who belongs to an organisation, with what proves their identity. */
export interface AccountRow {
  id: string;
  password_hash: string | null;
  factor_revision: string;
}

/** The user with this address, if they belong to an organisation that they can sign in to. */
export async function selectAccount(sql: Db, email: string): Promise<AccountRow | null> {
  return await firstOf(sql<AccountRow[]>`
    select u.id, u.password_hash, u.factor_revision from users u
    where u.email = ${email} and exists (
      select 1 from memberships m join orgs o on o.id = m.org_id and (o.deleted_at is null or m.role = 'owner')
      where m.user_id = u.id)`);
}

export async function selectRevision(sql: Db, userId: string): Promise<string> {
  return await valueOf<string>(sql`select factor_revision from users where id = ${userId}`);
}

export async function selectAddress(sql: Db, userId: string): Promise<string> {
  return await valueOf<string>(sql`select email from users where id = ${userId}`);
}

export const hasPassword = async (sql: Db, userId: string): Promise<boolean> =>
  await anyOf(sql, sql`from users where id = ${userId} and password_hash is not null`);

/** What a password must not be made of: address and name of the user, names of their organisations. */
export async function selectKnownNames(sql: Db, userId: string): Promise<string[]> {
  return await columnOf<string>(sql`
    select u.email from users u where u.id = ${userId}
    union all
    select u.name from users u where u.id = ${userId} and u.name is not null
    union all
    select o.name from memberships m join orgs o on o.id = m.org_id where m.user_id = ${userId}`);
}

/** Replaces the password unless it has changed since `before` was read. */
export async function updatePassword(
  sql: Db,
  userId: string,
  before: string | null,
  hash: string | null,
): Promise<boolean> {
  return await affectsRow(sql`
    update users set password_hash = ${hash}
    where id = ${userId} and password_hash is not distinct from ${before}`);
}

export async function newRevision(sql: Db, userId: string, revision: string): Promise<void> {
  await sql`update users set factor_revision = ${revision} where id = ${userId}`;
}

export async function deleteOtherSessions(sql: Db, userId: string, sessionId: string): Promise<void> {
  await sql`delete from sessions where user_id = ${userId} and id <> ${sessionId}`;
}

export async function orgsOf(sql: Db, userId: string): Promise<string[]> {
  return await columnOf<string>(sql`select org_id from memberships where user_id = ${userId} order by org_id`);
}

/** When a factor was last proven in the session. */
export async function selectVerifiedAt(sql: Db, sessionId: string): Promise<Date | null> {
  return await valueOf<Date | null>(sql`select verified_at from sessions where id = ${sessionId}`);
}

export async function updateVerifiedAt(sql: Db, sessionId: string, now: Date): Promise<void> {
  await sql`update sessions set verified_at = ${now} where id = ${sessionId}`;
}

export async function deletePassword(sql: Db, userId: string): Promise<void> {
  await sql`update users set password_hash = null where id = ${userId}`;
}

export async function resetFactors(sql: Db, userId: string, revision: string): Promise<void> {
  await sql`update users set password_hash = null, factor_revision = ${revision} where id = ${userId}`;
  await sql`delete from sessions where user_id = ${userId}`;
}

/** Sets the password of an account that has none. */
export async function insertPassword(sql: Db, userId: string, hash: string): Promise<void> {
  await sql`update users set password_hash = ${hash} where id = ${userId}`;
}

/** True when a member of an organisation has a password. */
export const anyPassword = async (sql: Db): Promise<boolean> =>
  await anyOf(
    sql,
    sql`from users u where u.password_hash is not null and exists (
      select 1 from memberships m where m.user_id = u.id)`,
  );

import {
  countOf,
  type Db,
  firstOf,
  type Listed,
  listed,
  type Paging,
  valueOf,
} from "../../../platform/db/client/sql.ts";
import type { StoredRow } from "../../../platform/http/wire.ts";
import type { Identity } from "../schema.ts";

interface Issuer {
  provider: string;
  issuer: string;
}

interface Key extends Issuer {
  subject: string;
}

/** Id of the user that an identity belongs to; records the use. */
export async function useIdentity(sql: Db, { provider, issuer, subject }: Key, now: Date): Promise<string | null> {
  return await valueOf<string | null>(sql`
    update user_identities set last_used_at = ${now}
    where provider = ${provider} and issuer = ${issuer} and subject = ${subject} returning user_id`);
}

/** The user of a linked identity. */
export async function selectLinked(sql: Db, { provider, issuer, subject }: Key) {
  return await firstOf(sql<{ id: string; email: string }[]>`
    select u.id, u.email from user_identities i join users u on u.id = i.user_id
    where i.provider = ${provider} and i.issuer = ${issuer} and i.subject = ${subject}`);
}

/** Links an identity to a user. The caller has checked that its previous user has no organisation any more. */
export async function linkIdentity(
  sql: Db,
  row: Omit<IdentityRow, "issuer"> & Key & { user_id: string },
): Promise<void> {
  await sql`
    insert into user_identities ${sql(row)} on conflict (provider, issuer, subject) do update
      set user_id = excluded.user_id, email = excluded.email, last_used_at = excluded.last_used_at`;
}

/** The user of the first of these addresses that has one; with `member` one with an organisation. */
export async function selectUserOf(sql: Db, emails: readonly string[], { member }: { member: boolean }) {
  return await firstOf(sql<{ id: string; email: string }[]>`
    select u.id, u.email from users u
    where u.email = any(${[...emails]}::text[]) and (not ${member}::boolean or exists (
      select 1 from memberships m join orgs o on o.id = m.org_id and (o.deleted_at is null or m.role = 'owner')
      where m.user_id = u.id))
    order by array_position(${[...emails]}::text[], u.email) limit 1`);
}

export type IdentityRow = StoredRow<Identity>;

export async function selectIdentities(
  sql: Db,
  userId: string,
  { limit, offset }: Paging,
): Promise<Listed<IdentityRow>> {
  const from = sql`from user_identities where user_id = ${userId}`;
  const part = sql<IdentityRow[]>`
    select id, provider, issuer, email, created_at, last_used_at ${from} order by id limit ${limit} offset ${offset}`;
  return await listed(sql, from, part);
}

/** Number of the user's identities of these issuers, which have no slash at their end. */
export async function countIdentities(sql: Db, userId: string, usable: readonly Issuer[]): Promise<number> {
  const [providers, issuers] = [usable.map(({ provider }) => provider), usable.map(({ issuer }) => issuer)];
  return await countOf(
    sql,
    sql`from user_identities where user_id = ${userId} and (provider, rtrim(issuer, '/')) in (
      select * from unnest(${providers}::text[], ${issuers}::text[]))`,
  );
}

export async function deleteIdentity(sql: Db, userId: string, id: string): Promise<IdentityRow | null> {
  return await firstOf(sql<IdentityRow[]>`
    delete from user_identities where user_id = ${userId} and id = ${id}
    returning id, provider, issuer, email, created_at, last_used_at`);
}

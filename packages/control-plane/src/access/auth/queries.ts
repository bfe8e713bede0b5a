import type { Role } from "../../platform/context.ts";
import { anyOf, type Db, firstOf, valueOf } from "../../platform/db/client/sql.ts";

/** Locks the user, so that concurrent creations count each other. */
export async function lockUser(sql: Db, userId: string): Promise<void> {
  await sql`select id from users where id = ${userId} for no key update`;
}

interface HomeRow {
  org_id: string;
  role: Role;
  deleted: boolean;
}

/** The user's oldest membership; deleted organisations that they own and may restore come last. */
export async function selectHome(sql: Db, userId: string): Promise<HomeRow | null> {
  return await firstOf(sql<HomeRow[]>`
    select m.org_id, m.role, o.deleted_at is not null as deleted
    from memberships m join orgs o on o.id = m.org_id and (o.deleted_at is null or m.role = 'owner')
    where m.user_id = ${userId} order by (o.deleted_at is not null), m.created_at limit 1`);
}

/** True when the user owns the organisation and it is deleted. */
export async function ownsDeleted(sql: Db, userId: string, orgId: string): Promise<boolean> {
  const own = sql`
    from memberships m join orgs o on o.id = m.org_id and o.deleted_at is not null
    where m.user_id = ${userId} and m.org_id = ${orgId} and m.role = 'owner'`;
  return await anyOf(sql, own);
}

export async function selectEmail(sql: Db, userId: string): Promise<string | null> {
  return await valueOf<string | null>(sql`select email from users where id = ${userId}`);
}

/** Id of the user with this address, if they belong to an organisation. */
export async function selectUserByEmail(sql: Db, email: string): Promise<string | null> {
  return await valueOf<string | null>(sql`
    select u.id from users u
    where u.email = ${email} and exists (select 1 from memberships m where m.user_id = u.id)`);
}

/** Marks the address of its user as verified and returns their id; inserts a user with `id` when there is none. */
export async function upsertVerifiedUser(sql: Db, id: string, email: string, now: Date): Promise<string> {
  return await valueOf<string>(sql`
    insert into users (id, email, email_verified_at, created_at) values (${id}, ${email}, ${now}, ${now})
    on conflict (email) do update
      set email_verified_at = coalesce(users.email_verified_at, excluded.email_verified_at)
    returning id`);
}

/** The first owner of an organisation; without a slug of the oldest organisation. */
export async function selectFirstOwner(sql: Db, slug: string | null = null) {
  return await firstOf(sql<{ user_id: string; org_id: string }[]>`
    select m.user_id, m.org_id from orgs o join memberships m on m.org_id = o.id and m.role = 'owner'
    where o.deleted_at is null and (${slug}::text is null or o.slug = ${slug})
    order by o.created_at, o.id, m.created_at, m.user_id limit 1`);
}

export const hasVerifiedEmail = async (sql: Db, userId: string): Promise<boolean> =>
  await anyOf(sql, sql`from users where id = ${userId} and email_verified_at is not null`);

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
  return await firstOf(sql<MeRow[]>`
    select u.id as user_id, u.email, u.name, o.id as org_id, o.name as org_name, o.slug as org_slug, o.plan_id
    from users u, orgs o where u.id = ${userId} and o.id = ${orgId}`);
}

/** Inserts a user with an organisation that they own. */
export async function insertOwner(
  sql: Db,
  row: { userId: string; email: string; orgId: string; orgName: string; orgSlug: string; planId: string; now: Date },
): Promise<void> {
  await sql`
    insert into orgs (id, slug, name, plan_id, created_at, updated_at)
    values (${row.orgId}, ${row.orgSlug}, ${row.orgName}, ${row.planId}, ${row.now}, ${row.now})`;
  await sql`
    insert into users (id, email, email_verified_at, created_at)
    values (${row.userId}, ${row.email}, ${row.now}, ${row.now})`;
  await sql`
    insert into memberships (org_id, user_id, role, created_at)
    values (${row.orgId}, ${row.userId}, 'owner', ${row.now})`;
}

export const anyUser = async (sql: Db): Promise<boolean> => await anyOf(sql, sql`from users`);

export interface OwnerRow {
  user_id: string;
  org_id: string;
  email: string;
}

/** The first owner with this email; of any email for null. */
export async function selectOwner(sql: Db, email: string | null): Promise<OwnerRow | null> {
  return await firstOf(sql<OwnerRow[]>`
    select u.id as user_id, m.org_id, u.email
    from users u join memberships m on m.user_id = u.id and m.role = 'owner'
    where ${email}::text is null or u.email = ${email} order by m.created_at limit 1`);
}

/** Serialises the first start of several processes; released at the end of the transaction. */
export async function lockBootstrap(sql: Db): Promise<void> {
  await sql`select pg_advisory_xact_lock(hashtext('statusmesh bootstrap'))`;
}

export interface AttemptRow {
  id: string;
  at: Date;
  method: string;
  email: string | null;
  user_id: string | null;
  outcome: string;
  ip: string;
  user_agent: string | null;
}

export async function insertAttempt(sql: Db, row: AttemptRow): Promise<void> {
  await sql`insert into login_attempts ${sql(row)}`;
}

/** Returns the number of deleted rows. */
export async function deleteAttemptsBefore(sql: Db, before: Date): Promise<number> {
  return (await sql`delete from login_attempts where at < ${before}`).count;
}

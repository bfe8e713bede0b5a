import { allowTime } from "../../platform/db/connect.ts";
import type { Db } from "../../platform/db/sql.ts";
import type { Quota } from "../plans/schema.ts";
import type { Role } from "./schema.ts";

/**
 * Role of a user in an organisation; null for non-members, and through a token that is bound to another organisation.
 * A deleted organisation is visible to its owners only, and only on request.
 */
export async function selectRole(
  sql: Db,
  userId: string,
  orgId: string,
  tokenId: string | null,
  deletedToo: boolean,
): Promise<Role | null> {
  const [row] = await sql<{ role: Role }[]>`
    select m.role from memberships m join orgs o on o.id = m.org_id
    where m.user_id = ${userId} and m.org_id = ${orgId}
      and (o.deleted_at is null or (${deletedToo} and m.role = 'owner'))
      and (${tokenId}::uuid is null
        or exists (select 1 from api_tokens t where t.id = ${tokenId} and (t.org_id is null or t.org_id = m.org_id)))`;
  return row?.role ?? null;
}

/** True for a token that is bound to one organisation. */
export async function isBound(sql: Db, tokenId: string): Promise<boolean> {
  return (await sql`select 1 from api_tokens where id = ${tokenId} and org_id is not null`).length === 1;
}

export interface OrgRow {
  id: string;
  slug: string;
  name: string;
  plan_id: string;
  created_at: Date;
  deleted_at: Date | null;
  setup_dismissed_at: Date | null;
}

const orgColumns = (sql: Db) => sql`o.id, o.slug, o.name, o.plan_id, o.created_at, o.deleted_at, o.setup_dismissed_at`;

const orgsOf = (sql: Db, userId: string, tokenId: string | null) => sql`
  from memberships m join orgs o on o.id = m.org_id
  where m.user_id = ${userId} and (o.deleted_at is null or m.role = 'owner')
    and (${tokenId}::uuid is null
      or exists (select 1 from api_tokens t where t.id = ${tokenId} and (t.org_id is null or t.org_id = m.org_id)))`;

/** The user's organisations, oldest first; deleted ones for their owners. */
export async function selectOrgs(
  sql: Db,
  userId: string,
  tokenId: string | null,
  limit: number,
  offset: number,
): Promise<(OrgRow & { role: Role })[]> {
  return await sql<(OrgRow & { role: Role })[]>`
    select ${orgColumns(sql)}, m.role ${orgsOf(sql, userId, tokenId)} order by o.created_at, o.id
    limit ${limit} offset ${offset}`;
}

export async function countOrgs(sql: Db, userId: string, tokenId: string | null): Promise<number> {
  const [row] = await sql<{ count: number }[]>`select count(*)::int as count ${orgsOf(sql, userId, tokenId)}`;
  return row!.count;
}

export async function selectOrg(sql: Db, orgId: string): Promise<OrgRow> {
  const [row] = await sql<OrgRow[]>`select ${orgColumns(sql)} from orgs o where o.id = ${orgId}`;
  return row!;
}

/** {@link selectOrg} with a lock against other changes of the organisation or its members. */
export async function lockOrg(sql: Db, orgId: string): Promise<OrgRow | null> {
  const [row] = await sql<OrgRow[]>`select ${orgColumns(sql)} from orgs o where o.id = ${orgId} for no key update`;
  return row ?? null;
}

/** False when the slug is taken. */
export async function insertOrg(sql: Db, row: OrgRow): Promise<boolean> {
  const rows = await sql`
    insert into orgs (id, slug, name, plan_id, created_at, updated_at)
    values (${row.id}, ${row.slug}, ${row.name}, ${row.plan_id}, ${row.created_at}, ${row.created_at})
    on conflict (slug) do nothing returning id`;
  return rows.length === 1;
}

/** A taken slug raises a unique violation. */
export async function updateOrg(sql: Db, row: OrgRow, now: Date): Promise<void> {
  await sql`
    update orgs set slug = ${row.slug}, name = ${row.name}, updated_at = ${now}, deleted_at = ${row.deleted_at},
      setup_dismissed_at = ${row.setup_dismissed_at}
    where id = ${row.id}`;
}

/** Locks the user, so that concurrent creations count each other. */
export async function lockUser(sql: Db, userId: string): Promise<void> {
  await sql`select id from users where id = ${userId} for no key update`;
}

export async function countOwnedOrgs(sql: Db, userId: string): Promise<number> {
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count from memberships m join orgs o on o.id = m.org_id and o.deleted_at is null
    where m.user_id = ${userId} and m.role = 'owner'`;
  return row!.count;
}

export async function selectPurgeable(sql: Db, deletedBefore: Date): Promise<string[]> {
  const rows = await sql<
    { id: string }[]
  >`select id from orgs where deleted_at <= ${deletedBefore} order by deleted_at`;
  return rows.map(({ id }) => id);
}

/** Locks an organisation that is to be purged; false when it was restored meanwhile. The work may take any time. */
export async function lockPurgeable(sql: Db, orgId: string, deletedBefore: Date): Promise<boolean> {
  await allowTime(sql, 0);
  const rows = await sql`select id from orgs where id = ${orgId} and deleted_at <= ${deletedBefore} for update`;
  return rows.length > 0;
}

/** Deletes an organisation with everything in it. */
export async function deleteOrg(sql: Db, orgId: string): Promise<void> {
  await sql`delete from orgs where id = ${orgId}`;
}

/** What the organisation `o` has of everything that quotas count, by quota. Over the tables of all domains. */
export const countsOf = (sql: Db, now: Date) => sql`
  jsonb_build_object(
    'max_targets', (select count(*) from targets t where t.org_id = o.id),
    'max_members', (select count(*) from memberships m where m.org_id = o.id),
    'max_pending_invitations', (select count(*) from invitations i
      where i.org_id = o.id and i.accepted_at is null and i.revoked_at is null and i.expires_at > ${now}),
    'max_status_pages', (select count(*) from status_pages s where s.org_id = o.id),
    'max_public_components', (select count(distinct c.target_id) from status_page_components c
      where c.org_id = o.id),
    'max_components_per_page', (select coalesce(max(shown), 0) from (select count(*) as shown
      from status_page_components c where c.org_id = o.id group by c.page_id) by_page),
    'max_updates_per_incident', (select coalesce(max(own.updates), 0) from incidents i cross join lateral (
      select count(*) as updates from incident_updates u where u.incident_id = i.id) own
      where i.org_id = o.id and i.ended_at is null),
    'max_notification_channels', (select count(*) from channels c where c.org_id = o.id),
    'max_maintenance_windows', (select count(*) from maintenance_windows w
      where w.org_id = o.id and (w.over_at is null or w.over_at > ${now})),
    'max_share_links_per_monitor', (select coalesce(max(links), 0) from (select count(*) as links from shares s
      where s.org_id = o.id and (s.expires_at is null or s.expires_at > ${now}) group by s.target_id) by_monitor),
    'max_shared_monitors', (select count(distinct s.target_id) from shares s
      where s.org_id = o.id and (s.expires_at is null or s.expires_at > ${now})))`;

export interface UsageRow {
  plan: string;
  min_check_interval_secs: number;
  limits: Record<Quota, number | null>;
  counts: Record<Quota, number>;
}

/** Plan limits, with overrides, and current counts, in one statement. */
export async function selectUsage(sql: Db, orgId: string, now: Date): Promise<UsageRow> {
  const [row] = await sql<UsageRow[]>`
    select p.id as plan, p.min_check_interval_secs, to_jsonb(p) as limits,
      ${countsOf(sql, now)} as counts
    from orgs o cross join lateral plan_of(o) p where o.id = ${orgId}`;
  return row!;
}

import { allowTime } from "../../platform/db/client/connect.ts";
import {
  affectsRow,
  anyOf,
  arrayOf,
  countOf,
  type Db,
  firstOf,
  columnOf,
  type Listed,
  listed,
  type Paging,
  rowOf,
  valueOf,
} from "../../platform/db/client/sql.ts";
import { perQuota, type Quota } from "../plans/schema.ts";
import type { StoredRow } from "../../platform/http/wire.ts";
import type { Org, Role } from "./schema.ts";

/** Condition on a membership `m`: its organisation is one of the token, if there is one. */
const reaches = (sql: Db, tokenId: string | null) => sql`
  (${tokenId}::uuid is null
    or exists (select 1 from api_tokens t where t.id = ${tokenId} and (t.org_id is null or t.org_id = m.org_id)))`;

/**
 * Role of a user in an organisation; null for non-members, and through a token that is bound to another organisation.
 * A deleted organisation is visible to its owners only, and only on request. Through a session also whether it lacks
 * the second factor that the organisation requires.
 */
export async function selectRole(
  sql: Db,
  userId: string,
  orgId: string,
  through: { token: string | null; session: string | null },
  deletedToo: boolean,
) {
  return await firstOf(sql<{ role: Role; lacks_second_factor: boolean }[]>`
    select m.role, o.require_second_factor and exists (
      select 1 from sessions s where s.id = ${through.session} and not s.second_factor) as lacks_second_factor
    from memberships m join orgs o on o.id = m.org_id
    where m.user_id = ${userId} and m.org_id = ${orgId}
      and (o.deleted_at is null or (${deletedToo} and m.role = 'owner')) and ${reaches(sql, through.token)}`);
}

/** True for a token that is bound to one organisation. */
export const isBound = async (sql: Db, tokenId: string): Promise<boolean> =>
  await anyOf(sql, sql`from api_tokens where id = ${tokenId} and org_id is not null`);

export interface OrgRow extends StoredRow<Omit<Org, "plan" | "role" | "setup_dismissed" | "current" | "purged_at">> {
  plan_id: string;
  setup_dismissed_at: Date | null;
}

const orgColumns = (sql: Db) => sql`
  o.id, o.slug, o.name, o.plan_id, o.created_at, o.deleted_at, o.setup_dismissed_at, o.escalation,
  o.timezone, o.require_second_factor`;

/** The user's organisations, oldest first; deleted ones for their owners. */
export async function selectOrgs(
  sql: Db,
  userId: string,
  tokenId: string | null,
  { limit, offset }: Paging,
): Promise<Listed<OrgRow & { role: Role }>> {
  const from = sql`
    from memberships m join orgs o on o.id = m.org_id
    where m.user_id = ${userId} and (o.deleted_at is null or m.role = 'owner') and ${reaches(sql, tokenId)}`;
  const part = sql<(OrgRow & { role: Role })[]>`
    select ${orgColumns(sql)}, m.role ${from} order by o.created_at, o.id limit ${limit} offset ${offset}`;
  return await listed(sql, from, part);
}

export async function selectOrg(sql: Db, orgId: string): Promise<OrgRow> {
  return await rowOf(sql<OrgRow[]>`select ${orgColumns(sql)} from orgs o where o.id = ${orgId}`);
}

/** {@link selectOrg} with a lock against other changes of the organisation or its members. */
export async function lockOrg(sql: Db, orgId: string): Promise<OrgRow | null> {
  return await firstOf(sql<OrgRow[]>`select ${orgColumns(sql)} from orgs o where o.id = ${orgId} for no key update`);
}

/** The oldest organisation that is not deleted; null for none. */
export async function selectFirstOrg(sql: Db): Promise<string | null> {
  return await valueOf<string | null>(sql`
    select id from orgs where deleted_at is null order by created_at, id limit 1`);
}

/** False when the slug is taken. */
export async function insertOrg(sql: Db, row: OrgRow): Promise<boolean> {
  return await affectsRow(sql`
    insert into orgs (id, slug, name, plan_id, created_at, updated_at)
    values (${row.id}, ${row.slug}, ${row.name}, ${row.plan_id}, ${row.created_at}, ${row.created_at})
    on conflict (slug) do nothing`);
}

/** A taken slug raises a unique violation. */
export async function updateOrg(sql: Db, row: OrgRow, now: Date): Promise<void> {
  await sql`
    update orgs set slug = ${row.slug}, name = ${row.name}, updated_at = ${now}, deleted_at = ${row.deleted_at},
      setup_dismissed_at = ${row.setup_dismissed_at}, escalation = ${sql.json(row.escalation)},
      timezone = ${row.timezone}, require_second_factor = ${row.require_second_factor}
    where id = ${row.id}`;
}

export async function countOwnedOrgs(sql: Db, userId: string): Promise<number> {
  const from = sql`
    from memberships m join orgs o on o.id = m.org_id and o.deleted_at is null
    where m.user_id = ${userId} and m.role = 'owner'`;
  return await countOf(sql, from);
}

export async function selectPurgeable(sql: Db, deletedBefore: Date): Promise<string[]> {
  return await columnOf<string>(sql`select id from orgs where deleted_at <= ${deletedBefore} order by deleted_at`);
}

/** Locks an organisation that is to be purged; false when it was restored meanwhile. The work may take any time. */
export async function lockPurgeable(sql: Db, orgId: string, deletedBefore: Date): Promise<boolean> {
  await allowTime(sql, 0);
  return await affectsRow(sql`
    select id from orgs where id = ${orgId} and deleted_at <= ${deletedBefore} for update`);
}

/** Deletes an organisation with everything in it. */
export async function deleteOrg(sql: Db, orgId: string): Promise<void> {
  await sql`delete from orgs where id = ${orgId}`;
}

/**
 * What organisations have of everything that quotas count, over the tables of all domains. A table is read once for all
 * of them: counting for each of 100 organisations took 30 ms of the database per organisation beside a large one.
 */
export async function countUsage(
  sql: Db,
  orgIds: readonly string[],
  now: Date,
): Promise<Map<string, Record<Quota, number>>> {
  const ids = arrayOf(orgIds);
  const own = sql`org_id = any(${ids}::uuid[])`;
  const rows = await sql<{ org_id: string; counts: Partial<Record<Quota, number>> }[]>`
    with links as (
      select org_id, target_id, count(*) as n from shares
      where ${own} and (expires_at is null or expires_at > ${now}) group by org_id, target_id
    ), components as (
      select org_id, page_id, id from status_page_components where ${own}
    ), counted (org_id, quota, n) as (
      select org_id, 'max_targets', count(*) from targets where ${own} group by org_id
      union all
      select org_id, 'max_members', count(*) from memberships where ${own} group by org_id
      union all
      select org_id, 'max_pending_invitations', count(*) from invitations
      where ${own} and accepted_at is null and revoked_at is null and expires_at > ${now} group by org_id
      union all
      select org_id, 'max_status_pages', count(*) from status_pages where ${own} group by org_id
      union all
      select org_id, 'max_public_components', count(*) from (
        select org_id, id from components group by org_id, id) shown group by org_id
      union all
      select org_id, 'max_components_per_page', max(n) from (
        select org_id, count(*) as n from components group by org_id, page_id) by_page group by org_id
      union all
      select org_id, 'max_updates_per_incident', max(n) from (
        select i.org_id, count(*) as n from incident_updates u
        join incidents i on i.id = u.incident_id and i.ended_at is null
        where i.org_id = any(${ids}::uuid[]) group by i.org_id, i.id) by_incident group by org_id
      union all
      select org_id, 'max_update_templates', count(*) from update_templates where ${own} group by org_id
      union all
      select org_id, 'max_certificates', count(*) from certificates where ${own} group by org_id
      union all
      select org_id, 'max_notification_channels', count(*) from channels where ${own} and owner_id is null
      group by org_id
      union all
      select org_id, 'max_maintenance_windows', count(*) from maintenance_windows
      where ${own} and (over_at is null or over_at > ${now}) group by org_id
      union all
      select org_id, 'max_share_links_per_monitor', max(n) from links group by org_id
      union all
      select org_id, 'max_shared_monitors', count(*) from links group by org_id
    )
    select org_id, json_object_agg(quota, n) as counts from counted group by org_id`;
  const counted = new Map(rows.map((row) => [row.org_id, row.counts]));
  return new Map(orgIds.map((id) => [id, { ...perQuota(0), ...counted.get(id) }]));
}

export interface PlanLimitsRow {
  plan: string;
  min_check_interval_secs: number;
  limits: Record<Quota, number | null>;
}

/** Plan limits, with overrides. */
export async function selectLimits(sql: Db, orgId: string): Promise<PlanLimitsRow> {
  return await rowOf(sql<PlanLimitsRow[]>`
    select p.id as plan, p.min_check_interval_secs, to_jsonb(p) as limits
    from orgs o cross join lateral plan_of(o) p where o.id = ${orgId}`);
}

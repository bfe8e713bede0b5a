import { type Db, firstOf, listed, type Listed, type Paging } from "../../../platform/db/client/sql.ts";
import type { StoredRow } from "../../../platform/http/wire.ts";
import type { Limits, PlanOverrides } from "../../plans/schema.ts";
import type { OperatorOrg } from "../schema.ts";

export interface OrgPlanRow {
  plan_id: string;
  plan_overrides: PlanOverrides;
}

export interface OperatorOrgRow extends StoredRow<Omit<OperatorOrg, "limits" | "usage">> {
  limits: Limits & Record<"id" | "name", string>;
}

const columns = (sql: Db) => sql`
  o.id, o.name, o.slug, o.plan_id as plan, o.plan_overrides as overrides, to_jsonb(plan_of(o)) as limits,
  array(select u.email from memberships m join users u on u.id = m.user_id
    where m.org_id = o.id and m.role = 'owner' order by m.created_at, u.id limit 10) as owners,
  o.created_at, o.deleted_at`;

/** Organisations with the text in the name or the slug, oldest first. Wildcards of LIKE are taken literally. */
export async function selectOrgs(sql: Db, text: string, { limit, offset }: Paging): Promise<Listed<OperatorOrgRow>> {
  const from = sql`
    from orgs o where (strpos(lower(o.name), lower(${text})) > 0 or strpos(o.slug, lower(${text})) > 0)`;
  const part = sql<OperatorOrgRow[]>`
    select ${columns(sql)} ${from} order by o.created_at, o.id limit ${limit} offset ${offset}`;
  return await listed(sql, from, part);
}

/** One organisation, by its id or its slug. */
export async function selectOrg(sql: Db, org: string): Promise<OperatorOrgRow | null> {
  return await firstOf(sql<OperatorOrgRow[]>`
    select ${columns(sql)} from orgs o where ${org} in (o.id::text, o.slug)`);
}

/** The plan of an organisation, locked. */
export async function lockOrgPlan(sql: Db, orgId: string): Promise<OrgPlanRow | null> {
  return await firstOf(sql<OrgPlanRow[]>`
    select plan_id, plan_overrides from orgs where id = ${orgId} for no key update`);
}

export async function updateOrgPlan(sql: Db, orgId: string, row: OrgPlanRow, now: Date): Promise<void> {
  await sql`
    update orgs set plan_id = ${row.plan_id}, plan_overrides = ${JSON.stringify(row.plan_overrides)}::text::jsonb,
      updated_at = ${now}
    where id = ${orgId}`;
}

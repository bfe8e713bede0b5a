import type { Db } from "../../platform/db/sql.ts";
import type { Limits, PlanOverrides } from "../plans/schema.ts";

export interface OperatorOrgRow {
  id: string;
  name: string;
  slug: string;
  plan_id: string;
  plan_overrides: PlanOverrides;
  limits: Limits & Record<"id" | "name", string>;
  owners: string[];
  created_at: Date;
  deleted_at: Date | null;
}

const columns = (sql: Db) => sql`
  o.id, o.name, o.slug, o.plan_id, o.plan_overrides, to_jsonb(plan_of(o)) as limits,
  array(select u.email from memberships m join users u on u.id = m.user_id
    where m.org_id = o.id and m.role = 'owner' order by m.created_at, u.id limit 10) as owners,
  o.created_at, o.deleted_at`;

/** The text within the name or the slug; wildcards of LIKE are taken literally. */
const matching = (sql: Db, text: string) => sql`
  (strpos(lower(o.name), lower(${text})) > 0 or strpos(o.slug, lower(${text})) > 0)`;

/** Organisations of the installation, oldest first. */
export async function selectOrgs(
  sql: Db,
  { text, limit, offset }: { text: string; limit: number; offset: number },
): Promise<OperatorOrgRow[]> {
  return await sql<OperatorOrgRow[]>`
    select ${columns(sql)} from orgs o where ${matching(sql, text)} order by o.created_at, o.id
    limit ${limit} offset ${offset}`;
}

export async function countOrgs(sql: Db, text: string): Promise<number> {
  const [row] = await sql<{ count: number }[]>`select count(*)::int as count from orgs o where ${matching(sql, text)}`;
  return row!.count;
}

/** One organisation, by its id or its slug. */
export async function selectOrg(sql: Db, org: string): Promise<OperatorOrgRow | null> {
  const [row] = await sql<OperatorOrgRow[]>`
    select ${columns(sql)} from orgs o where ${org} in (o.id::text, o.slug)`;
  return row ?? null;
}

export interface OrgPlanRow {
  plan_id: string;
  plan_overrides: PlanOverrides;
}

/** The plan of an organisation, locked. */
export async function lockOrgPlan(sql: Db, orgId: string): Promise<OrgPlanRow | null> {
  const [row] = await sql<OrgPlanRow[]>`
    select plan_id, plan_overrides from orgs where id = ${orgId} for no key update`;
  return row ?? null;
}

export async function updateOrgPlan(sql: Db, orgId: string, row: OrgPlanRow, now: Date): Promise<void> {
  await sql`
    update orgs set plan_id = ${row.plan_id}, plan_overrides = ${JSON.stringify(row.plan_overrides)}::text::jsonb,
      updated_at = ${now}
    where id = ${orgId}`;
}

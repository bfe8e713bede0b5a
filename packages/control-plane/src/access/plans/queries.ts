import { deleteInBatches, type Db, rowOf } from "../../platform/db/client/sql.ts";
import { type Limits, limitNames } from "./schema.ts";

/** Limits of a plan; null is unlimited. */
export type PlanRow = { id: string } & Limits;

const columns = (sql: Db) => sql`p.id, ${sql(limitNames.map((name) => `p.${name}`))}`;

/** Every plan, as it is without overrides. */
export async function selectPlans(sql: Db) {
  return await sql<(PlanRow & { name: string })[]>`select ${columns(sql)}, p.name from plans p order by p.id`;
}

/** The plan of an organisation, with its overrides. */
export async function selectPlan(sql: Db, orgId: string): Promise<PlanRow> {
  return await rowOf(sql<PlanRow[]>`
    select ${columns(sql)} from orgs o cross join lateral plan_of(o) p where o.id = ${orgId}`);
}

/**
 * {@link selectPlan} with a lock: concurrent callers wait until the transaction ends. Rows that refer to the
 * organisation may still be written.
 */
export async function lockPlan(sql: Db, orgId: string): Promise<PlanRow> {
  return await rowOf(sql<PlanRow[]>`
    select ${columns(sql)} from orgs o cross join lateral plan_of(o) p where o.id = ${orgId}
    for no key update of o`);
}

export interface RefusalRow {
  id: string;
  orgId: string;
  userId: string | null;
  /** Column of the plan, or another limit. */
  quota: string;
  current: number;
  limit: number;
  plan: string;
  minute: Date;
  at: Date;
}

/** One row per minute, user and quota. Writes nothing for a deleted organisation. */
export async function upsertRefusal(sql: Db, row: RefusalRow): Promise<void> {
  await sql`
    insert into quota_events (id, org_id, user_id, quota, minute, at, refusals, "current", "limit", plan)
    select ${row.id}, o.id, ${row.userId}::uuid, ${row.quota}, ${row.minute}::timestamptz, ${row.at}::timestamptz, 1,
      ${row.current}::integer, ${row.limit}::integer, ${row.plan}
    from orgs o where o.id = ${row.orgId}
    on conflict (org_id, minute, quota, user_id) do update
    set refusals = quota_events.refusals + 1, at = excluded.at, "current" = excluded."current",
      "limit" = excluded."limit", plan = excluded.plan`;
}

export async function countRefusals(sql: Db, orgId: string, since: Date) {
  return await sql<{ quota: string; refusals: number }[]>`
    select quota, sum(refusals)::int as refusals from quota_events
    where org_id = ${orgId} and minute >= ${since} group by quota order by quota`;
}

/** Returns the number of deleted rows. */
export async function deleteRefusalsBefore(sql: Db, before: Date): Promise<number> {
  return await deleteInBatches(
    (limit) => sql`
      delete from quota_events where id in (select id from quota_events where at < ${before} limit ${limit})`,
  );
}

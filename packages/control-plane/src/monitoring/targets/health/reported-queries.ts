import { anyOf, arrayOf, type Db, inPortions, rowOf } from "../../../platform/db/client/sql.ts";
import type { MonitorStatus } from "../schema.ts";
import type { TargetRow } from "../queries.ts";

/** A monitor of a report, with what bounds the time in which it was checked. */
export interface ReportedRow extends Pick<TargetRow, "id" | "name" | "tags" | "created_at"> {
  last_result_at: Date | null;
  /** Unknown without live votes. */
  status: MonitorStatus;
}

const columns = (sql: Db, now: Date) => sql`
  t.id, t.name, t.tags, t.created_at, s.last_result_at,
  case when t.enabled and s.status_until >= ${now} then s.status else 'unknown' end as status`;

export async function selectIdsByName(sql: Db, orgId: string, limit: number, offset: number): Promise<string[]> {
  const rows = await inPortions(sql<{ id: string }[]>`
    select id from targets where org_id = ${orgId} order by sort_name, id limit ${limit} offset ${offset}`);
  return rows.map(({ id }) => id);
}

/** The given monitors of the organisation, by name. */
export async function selectReported(
  sql: Db,
  orgId: string,
  ids: readonly string[],
  now: Date,
): Promise<ReportedRow[]> {
  return await sql<ReportedRow[]>`
    select ${columns(sql, now)} from targets t left join target_states s on s.target_id = t.id
    where t.org_id = ${orgId} and t.id = any(${arrayOf(ids)}::uuid[]) order by t.sort_name, t.id`;
}

/** The monitors of the organisation with one of the tags, unsorted. */
export async function selectReportedOfTags(
  sql: Db,
  orgId: string,
  tags: readonly string[],
  now: Date,
): Promise<ReportedRow[]> {
  return await inPortions(sql<ReportedRow[]>`
    select ${columns(sql, now)} from targets t left join target_states s on s.target_id = t.id
    where t.org_id = ${orgId} and t.tags && ${[...tags]}::text[]`);
}

/** Tags of the organisation by name, or `only` one, and how many there are. */
export async function selectTagNames(
  sql: Db,
  orgId: string,
  { limit, offset, only }: { limit: number; offset: number; only: string | null },
) {
  if (only !== null) {
    const found = await anyOf(sql, sql`from targets where org_id = ${orgId} and tags && array[${only}]::text[]`);
    return found ? { names: [only], total: 1 } : { names: [], total: 0 };
  }
  return await rowOf(sql<{ names: string[]; total: number }[]>`
    with tag as (select distinct unnest(t.tags) as name from targets t where t.org_id = ${orgId})
    select (select count(*)::int from tag) as total,
      array(select name from tag order by natural_key(name), name limit ${limit} offset ${offset}) as names`);
}

import type { Db } from "../db/sql.ts";
import { likeText } from "./filter-queries.ts";

const tagged = (sql: Db, orgId: string, prefix: string) => sql`
  from targets t cross join unnest(t.tags) as tag (name)
  where t.org_id = ${orgId} and tag.name ilike ${likeText(prefix)} || '%'`;

/** The tags that begin with `prefix` in either case, most used first. */
export async function selectTags(
  sql: Db,
  orgId: string,
  prefix: string,
  limit: number,
  offset: number,
): Promise<{ name: string; count: number }[]> {
  return await sql<{ name: string; count: number }[]>`
    select tag.name, count(*)::int as count ${tagged(sql, orgId, prefix)} group by tag.name
    order by count(*) desc, tag.name collate "C" limit ${limit} offset ${offset}`;
}

export async function countTags(sql: Db, orgId: string, prefix: string): Promise<number> {
  const [row] = await sql<{ count: number }[]>`
    select count(distinct tag.name)::int as count ${tagged(sql, orgId, prefix)}`;
  return row!.count;
}

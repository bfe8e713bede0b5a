import { type Db, valueOf } from "../../../platform/db/client/sql.ts";
import { likeText, matching, stateAt, type TargetFilter } from "./filter-queries.ts";
import type { TagCount } from "./list-schema.ts";
import type { MonitorState } from "../schema.ts";

const tagged = (sql: Db, orgId: string, prefix: string) => sql`
  from targets t cross join unnest(t.tags) as tag (name)
  where t.org_id = ${orgId} and tag.name ilike ${likeText(prefix)} || '%'`;

/** The tags that begin with `prefix` in either case, most used first; each row has the number of all. */
export async function selectTags(sql: Db, orgId: string, prefix: string, limit: number, offset: number) {
  return await sql<(TagCount & { total: number })[]>`
    select tag.name, count(*)::int as count, count(*) over ()::int as total ${tagged(sql, orgId, prefix)}
    group by tag.name
    order by count(*) desc, tag.name collate "C" limit ${limit} offset ${offset}`;
}

export async function countTags(sql: Db, orgId: string, prefix: string): Promise<number> {
  return await valueOf<number>(sql`
    select count(distinct tag.name)::int as count ${tagged(sql, orgId, prefix)}`);
}

/** Monitors of one tag, or of none with the prefix (`tag` null), in one state. */
export interface TagGroupRow {
  tag: string | null;
  state: MonitorState;
  count: number;
  last_result_at: Date | null;
}

/**
 * The monitors that match, counted by state and by their tags below `prefix`, or by each tag where it is null, by tag
 * and those without one last. One with two such tags counts twice.
 */
export async function selectTagGroups(
  sql: Db,
  orgId: string,
  now: Date,
  filter: TargetFilter,
  prefix: string | null,
): Promise<TagGroupRow[]> {
  return await sql<TagGroupRow[]>`
    select g.tag, ${stateAt(sql, now)} as state, count(*)::int as count, max(s.last_result_at) as last_result_at
    from targets t join target_states s on s.target_id = t.id
    left join lateral (
      select own.tag from unnest(t.tags) as own (tag) where ${prefix === null} or starts_with(own.tag, ${`${prefix}/`})
    ) g on true
    where ${matching(sql, orgId, now, filter)}
    group by 1, 2 order by natural_key(g.tag), g.tag`;
}

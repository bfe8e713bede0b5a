import type { Db } from "../../platform/db/sql.ts";

/** A channel that a target notifies by its tags alone. */
export interface RoutedChannel {
  channel_id: string;
  name: string;
  /** The tags of the route that the target has. */
  tags: string[];
}

/**
 * Condition: the route of a channel has tags of a target of its organisation, which does not list the channel itself.
 * `channel` and `target` are the names of their tables in the statement.
 */
export const isRouted = (sql: Db, { channel = "c", target = "t" } = {}) => {
  const [c, t] = [sql(channel), sql(target)];
  return sql`
    ${c}.route is not null and ${c}.org_id = ${t}.org_id
    and case ${c}.route ->> 'match' when 'all' then ${c}.route -> 'tags' <@ to_jsonb(${t}.tags)
             else ${c}.route -> 'tags' ?| ${t}.tags end
    and not exists (select from target_alerts own where own.target_id = ${t}.id and own.channel_id = ${c}.id)`;
};

/** SQL: the tags by which enabled channels of the organisation are routed one by one, as rows `tag`. */
const looseTags = (sql: Db, orgId: string) => sql`
  select distinct r.tag from channels c cross join lateral jsonb_array_elements_text(c.route -> 'tags') r (tag)
  where c.org_id = ${orgId} and c.enabled and c.route is not null and c.route ->> 'match' is distinct from 'all'`;

/**
 * SQL: ids of the targets that an enabled channel is routed to. Routes are joined by their tags, and those that need
 * all of them with the index of tags: {@link isRouted} for 10,000 targets and 500 routes takes 4 s.
 */
export const routedTargetIds = (sql: Db, orgId: string) => sql`
  select r.id from targets r cross join unnest(r.tags) own (tag) join (${looseTags(sql, orgId)}) x on x.tag = own.tag
  where r.org_id = ${orgId}
  union all
  select r.id from (
    select distinct c.route -> 'tags' as tags from channels c
    where c.org_id = ${orgId} and c.enabled and c.route ->> 'match' = 'all') c
  join targets r on r.org_id = ${orgId} and r.tags @> array(select jsonb_array_elements_text(c.tags))`;

/** The tags of the route that the target has, in the order of the route. */
export const routedTags = (sql: Db) => sql`
  array(select r.tag from jsonb_array_elements_text(c.route -> 'tags') with ordinality as r (tag, position)
        where r.tag = any(t.tags) order by r.position)`;

export async function selectRoutedChannels(sql: Db, orgId: string, targetId: string): Promise<RoutedChannel[]> {
  return await sql<RoutedChannel[]>`
    select c.id as channel_id, c.name, ${routedTags(sql)} as tags
    from targets t join channels c on ${isRouted(sql)}
    where t.org_id = ${orgId} and t.id = ${targetId} order by c.name, c.id`;
}

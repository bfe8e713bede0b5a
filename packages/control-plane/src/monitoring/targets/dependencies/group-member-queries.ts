import type { Fragment } from "postgres";
import { anyOf, arrayOf, columnOf, type Db, firstOf } from "../../../platform/db/client/sql.ts";

/** Names of monitors, in the order of `ids`. */
export const selectNamesOf = async (sql: Db, orgId: string, ids: readonly string[]) =>
  await sql<{ id: string; name: string }[]>`
    select t.id, t.name from unnest(${arrayOf(ids)}::uuid[]) with ordinality n (id, position)
    join targets t on t.id = n.id and t.org_id = ${orgId} order by n.position`;

/** True where the organisation has a group. */
export const hasGroups = async (sql: Db, orgId: string): Promise<boolean> =>
  await anyOf(sql, sql`from targets where org_id = ${orgId} and kind = 'group'`);

/** Members of groups by what the groups list: `chosen` is a condition on the group `g` and the monitor `t`. */
const wanted = (sql: Db, orgId: string, chosen: Fragment) => sql`
  select distinct g.id as group_id, t.id as target_id, (g.spec -> 'hold_members')::boolean as holds
  from targets g cross join jsonb_array_elements(g.spec -> 'members') l
  join targets t on t.org_id = g.org_id
    and case when l ? 'tag' then t.tags @> array[l ->> 'tag'] and t.id <> g.id else t.id = (l ->> 'target_id')::uuid end
  where g.org_id = ${orgId} and g.kind = 'group' and ${chosen}`;

/** Writes the members of groups as their checks list them. */
export async function replaceMembers(sql: Db, orgId: string, groupIds: readonly string[]): Promise<void> {
  const isChosen = sql`g.id = any(${arrayOf(groupIds)}::uuid[])`;
  await sql`delete from group_members where group_id = any(${arrayOf(groupIds)}::uuid[])`;
  await sql`
    insert into group_members (group_id, target_id, holds) ${wanted(sql, orgId, isChosen)}
    on conflict do nothing`;
}

/** Writes the groups that monitors are members of, by their tags now. Returns the groups that this changes. */
export async function replaceGroups(sql: Db, orgId: string, targetIds: readonly string[]): Promise<string[]> {
  const isChosen = sql`t.id = any(${arrayOf(targetIds)}::uuid[])`;
  return await columnOf<string>(sql`
    with wanted as materialized (${wanted(sql, orgId, isChosen)}), gone as (
      delete from group_members m
      where m.target_id = any(${arrayOf(targetIds)}::uuid[]) and not exists (
        select from wanted w where w.group_id = m.group_id and w.target_id = m.target_id)
      returning group_id
    ), new as (
      insert into group_members (group_id, target_id, holds) select group_id, target_id, holds from wanted
      on conflict do nothing returning group_id
    )
    select group_id from gone union select group_id from new`);
}

/** A listed member that the organisation does not have, with its position; null for none. */
export async function findUnknown(sql: Db, orgId: string, groupIds: readonly string[]) {
  return await firstOf(sql<{ id: string; position: number }[]>`
    select g.id, (l.position - 1)::integer as position
    from targets g cross join jsonb_array_elements(g.spec -> 'members') with ordinality l (member, position)
    where g.org_id = ${orgId} and g.id = any(${arrayOf(groupIds)}::uuid[]) and l.member ? 'target_id'
      and not exists (select from targets t
        where t.org_id = ${orgId} and t.id = (l.member ->> 'target_id')::uuid)
    order by g.id, l.position limit 1`);
}

/** How many groups stand above each other, up to each group of the organisation; 6 for more than that. */
export async function selectHeights(sql: Db, orgId: string) {
  return await sql<{ id: string; level: number }[]>`
    with recursive heights (id, level) as (
      select id, 1 from targets where org_id = ${orgId} and kind = 'group'
      union
      select m.group_id, h.level + 1 from heights h join group_members m on m.target_id = h.id where h.level < 6
    )
    select id, max(level)::integer as level from heights group by id`;
}

/** Takes monitors that are deleted out of the lists of groups. Returns the groups that they were members of. */
export async function leaveGroups(sql: Db, orgId: string, targetIds: readonly string[]): Promise<string[]> {
  const left = await columnOf<string>(sql`
    select distinct group_id from group_members
    where target_id = any(${arrayOf(targetIds)}::uuid[]) and group_id <> all(${arrayOf(targetIds)}::uuid[])
    order by group_id`);
  if (left.length > 0)
    await sql`
      update targets g set spec = jsonb_set(g.spec, '{members}', (
          select coalesce(jsonb_agg(l.member order by l.position), '[]')
          from jsonb_array_elements(g.spec -> 'members') with ordinality l (member, position)
          where not l.member ? 'target_id' or (l.member ->> 'target_id')::uuid <> all(${arrayOf(targetIds)}::uuid[])))
      where g.org_id = ${orgId} and g.id in (
        select id from targets where id = any(${arrayOf(left)}::uuid[]) order by id for no key update)`;
  return left;
}

import { lockSpaces } from "../../../platform/db/locks.ts";
import { arrayOf, type Db, valueOf } from "../../../platform/db/client/sql.ts";
import type { MonitorState } from "../schema.ts";

/** Waits until no other transaction changes dependencies of the organisation: two might close a cycle between them. */
export async function lockDependencies(sql: Db, orgId: string): Promise<void> {
  await sql`select pg_advisory_xact_lock(${lockSpaces.dependencies}, hashtext(${orgId}))`;
}

/** A target with the targets that it depends on. */
export interface Dependencies {
  id: string;
  parents: readonly string[];
}

/** Has targets depend on exactly these. Returns the number of those that the organisation has. */
export async function replaceDependencies(sql: Db, orgId: string, targets: readonly Dependencies[]): Promise<number> {
  await sql`
    delete from target_dependencies where target_id = any(${arrayOf(targets.map(({ id }) => id))}::uuid[])`;
  const edges = targets.flatMap(({ id, parents }) => parents.map((parent, position) => ({ id, parent, position })));
  if (edges.length === 0) return 0;
  const rows = await sql`
    insert into target_dependencies (target_id, parent_id, position)
    select e.target_id, e.parent_id, e.position
    from unnest(${arrayOf(edges.map(({ id }) => id))}::uuid[], ${arrayOf(edges.map(({ parent }) => parent))}::uuid[],
      ${arrayOf(edges.map(({ position }) => position))}::integer[]) as e (target_id, parent_id, position)
    join targets p on p.id = e.parent_id and p.org_id = ${orgId} returning 1`;
  return rows.length;
}

/**
 * A target among these that depends on itself over others; null for none. A group depends on its members: `groups`
 * follows only those.
 */
export async function findCycle(sql: Db, ids: readonly string[], by: "all" | "groups" = "all"): Promise<string | null> {
  const groups = sql`select group_id as target_id, target_id as parent_id from group_members`;
  const edges =
    by === "groups" ? groups : sql`select target_id, parent_id from target_dependencies union all ${groups}`;
  return await valueOf<string | null>(sql`
    with recursive above as (
      select target_id as id, parent_id from (${edges}) first where target_id = any(${arrayOf(ids)}::uuid[])
      union
      select a.id, d.parent_id from above a join (${edges}) d on d.target_id = a.parent_id
    )
    select id from above where id = parent_id order by id limit 1`);
}

/** A monitor in the graph of another. */
export interface Neighbour {
  id: string;
  name: string;
  state: MonitorState;
}

/** Monitors that a monitor depends on, in order. */
export async function selectParents(sql: Db, orgId: string, id: string, at: Date): Promise<Neighbour[]> {
  return await sql<Neighbour[]>`
    select t.id, t.name, ${shownState(sql, at)} as state
    from target_dependencies d join targets t on t.id = d.parent_id join target_states s on s.target_id = t.id
    where d.target_id = ${id} and t.org_id = ${orgId} order by d.position`;
}

/** The first monitors that depend on a monitor, by name, and how many there are. */
export async function selectChildren(sql: Db, orgId: string, id: string, { at, limit }: { at: Date; limit: number }) {
  return await sql<(Neighbour & { total: number })[]>`
    select t.id, t.name, ${shownState(sql, at)} as state, count(*) over ()::integer as total
    from target_dependencies d join targets t on t.id = d.target_id join target_states s on s.target_id = t.id
    where d.parent_id = ${id} and t.org_id = ${orgId} order by t.sort_name, t.id limit ${limit}`;
}

const shownState = (sql: Db, at: Date) => sql`
  case when not t.enabled then 'paused' when coalesce(s.status_until < ${at}, true) then 'unknown' else s.status end`;

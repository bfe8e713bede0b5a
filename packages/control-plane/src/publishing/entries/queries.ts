import type { Db } from "../../platform/db/client/sql.ts";
import { isPublished } from "../../alerting/incidents/timeline/service.ts";

/** Outages of a parent that are read: those of one that flaps are many. */
const mostOutages = 100;

export interface ParentRow {
  id: string;
  children: string[];
  outages: { start: number; end: number | null }[] | null;
}

/**
 * Monitors that components of the page depend on, with their outages since `since` where they are not on the page
 * themselves. What is marked as internal counts nowhere.
 */
export async function selectParents(sql: Db, orgId: string, pageId: string, since: Date): Promise<ParentRow[]> {
  const ms = (time: string) => sql`extract(epoch from i.${sql.unsafe(time)}) * 1000`;
  return await sql<ParentRow[]>`
    with links as materialized (
      select d.parent_id, array_agg(d.target_id) as children
      from status_page_components c join target_dependencies d on d.target_id = c.target_id
      where c.org_id = ${orgId} and c.page_id = ${pageId} group by d.parent_id
    )
    select l.parent_id as id, l.children,
      case when not exists (
        select from status_page_components c where c.page_id = ${pageId} and c.target_id = l.parent_id
      ) then array(
        select jsonb_build_object('start', (${ms("started_at")})::float8, 'end', (${ms("ended_at")})::float8)
        from incidents i where i.target_id = l.parent_id and not i.retracted and not i.imported
          and i.visibility <> 'internal' and (i.ended_at is null or i.ended_at >= ${since})
        order by i.started_at desc limit ${mostOutages}) end as outages
    from links l order by l.parent_id`;
}

/** A published incident of a page with what its entry shows. */
export interface MemberRow {
  id: string;
  component_id: string;
  component_name: string;
  component_group: string | null;
  host: string | null;
  public_title: string | null;
  started_at: Date;
  ended_at: Date | null;
  shown_at: Date;
}

/** Published incidents of a page that are open or ended since `since`, without those under maintenance. */
export async function selectMembers(sql: Db, pageId: string, since: Date, limit: number): Promise<MemberRow[]> {
  return await sql<MemberRow[]>`
    select i.id, c.id as component_id, coalesce(c.public_name, t.name) as component_name,
      c.public_group as component_group, t.host, i.public_title, i.started_at, i.ended_at,
      coalesce(r.published_at, i.created_at) as shown_at
    from status_pages p
    join status_page_components c on c.page_id = p.id
    join targets t on t.id = c.target_id
    join incidents i on i.target_id = c.target_id and not i.retracted and not i.in_maintenance
      and (i.ended_at is null or i.ended_at >= ${since})
    left join incident_publications r on r.incident_id = i.id and r.page_id = p.id
    where p.id = ${pageId} and ${isPublished(sql)}
    order by i.ended_at is not null, i.started_at desc, i.id desc limit ${limit}`;
}

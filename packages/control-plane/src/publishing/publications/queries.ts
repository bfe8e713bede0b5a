import { isPublished } from "../../alerting/incidents/timeline/service.ts";
import { columnOf, type Db } from "../../platform/db/client/sql.ts";

/** Ids of the status pages that have the monitor of the incident. */
export const selectPageIds = async (sql: Db, orgId: string, incidentId: string): Promise<string[]> =>
  await columnOf<string>(sql`
    select c.page_id from incidents i join status_page_components c on c.target_id = i.target_id
    where i.org_id = ${orgId} and i.id = ${incidentId} order by c.page_id`);

/** Those of the ids that are status pages of the organisation. */
export const selectOwnPages = async (sql: Db, orgId: string, ids: readonly string[]): Promise<string[]> =>
  await columnOf<string>(sql`
    select id from status_pages where org_id = ${orgId} and id = any(${[...ids]}::uuid[]) order by id`);

interface PublicationChange {
  orgId: string;
  incidentId: string;
  pageIds: readonly string[];
  now: Date;
}

/** Publishes the incident on those of the pages that do not show it. */
export async function publishOn(sql: Db, { orgId, incidentId, pageIds, now }: PublicationChange): Promise<void> {
  await sql`
    insert into incident_publications as r (incident_id, page_id, org_id, published_at)
    select i.id, p.id, i.org_id, ${now} from incidents i join status_pages p on p.org_id = i.org_id
    where i.org_id = ${orgId} and i.id = ${incidentId} and p.id = any(${[...pageIds]}::uuid[])
      and not ${isPublished(sql)}
    on conflict (incident_id, page_id) do update set published_at = excluded.published_at, withdrawn_at = null
    where r.published_at is null`;
}

/** Takes the incident off the pages, and remembers where it was published. */
export async function withdrawFrom(sql: Db, { orgId, incidentId, pageIds, now }: PublicationChange): Promise<void> {
  await sql`
    insert into incident_publications as r (incident_id, page_id, org_id, withdrawn_at)
    select i.id, p.id, i.org_id, case when ${isPublished(sql)} then ${now}::timestamptz end
    from incidents i join status_pages p on p.org_id = i.org_id
    where i.org_id = ${orgId} and i.id = ${incidentId} and p.id = any(${[...pageIds]}::uuid[])
    on conflict (incident_id, page_id) do update set published_at = null, withdrawn_at = excluded.withdrawn_at
    where r.published_at is not null`;
}

export async function setVisibility(
  sql: Db,
  orgId: string,
  incidentId: string,
  visibility: "public" | "internal",
): Promise<void> {
  await sql`update incidents set visibility = ${visibility} where org_id = ${orgId} and id = ${incidentId}`;
}

/** Minutes of page `p`, of any stored value: a bad one must not stop the other pages. */
const afterMinutes = (sql: Db) => sql`
  (case when jsonb_typeof(p.publish -> 'after_minutes') = 'number'
    then least(greatest((p.publish ->> 'after_minutes')::numeric, 1), 1440) else 1440 end)::integer`;

/** Open incidents on pages that publish after some minutes, which have failed that long without a break. */
const due = (sql: Db, now: Date) => sql`
  from status_pages p
  join status_page_components c on c.page_id = p.id
  join incidents i on i.target_id = c.target_id and i.ended_at is null and not i.retracted
  where p.publish ->> 'mode' = 'after' and i.created_at >= greatest(p.publish_since, p.created_at)
    and i.visibility = 'automatic' and i.opened_by = 'engine'
    and i.outage_since <= ${now}::timestamptz - make_interval(mins => ${afterMinutes(sql)})
    and not exists (select from incident_publications r where r.incident_id = i.id and r.page_id = p.id)`;

/** True when {@link publishDue} would publish something. */
export const isAnyDue = (sql: Db, now: Date) => sql`exists (select ${due(sql, now)})`;

/** Publishes what is due and returns the ids of the pages. Of several processes one writes each publication. */
export async function publishDue(sql: Db, now: Date): Promise<string[]> {
  return await columnOf<string>(sql`
    insert into incident_publications (incident_id, page_id, org_id, published_at)
    select i.id, p.id, i.org_id, ${now} ${due(sql, now)}
    on conflict (incident_id, page_id) do nothing
    returning page_id`);
}

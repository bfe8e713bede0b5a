import type { Db } from "../../platform/db/client/sql.ts";

/**
 * Keeps incidents since `since` that were never published on the page unpublished, open ones too, before the page
 * publishes incidents by itself.
 */
export async function keepUnpublished(sql: Db, orgId: string, pageId: string, since: Date): Promise<void> {
  await sql`
    insert into incident_publications (incident_id, page_id, org_id)
    select i.id, c.page_id, i.org_id from status_page_components c join incidents i on i.target_id = c.target_id
    where c.org_id = ${orgId} and c.page_id = ${pageId} and i.created_at >= ${since}
      and i.visibility = 'automatic' and not i.imported
    on conflict (incident_id, page_id) do nothing`;
}

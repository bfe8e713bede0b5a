import type { Db } from "../../../platform/db/client/sql.ts";

/**
 * SQL: when incident `i` was published on page `p`, `infinity` for never. A row of the page decides, then the
 * visibility of the incident, then the mode of the page: incidents from before the mode are published as they began.
 */
const publishedAt = (sql: Db) => sql`
  (case when i.imported then i.opened_at
    else coalesce(
      (select coalesce(pub.published_at, 'infinity') from incident_publications pub
       where pub.incident_id = i.id and pub.page_id = p.id),
      case i.visibility when 'public' then i.opened_at when 'internal' then 'infinity'
        else case when p.publish_since is null or i.created_at < p.publish_since then i.opened_at
          else 'infinity' end end) end)`;

/** Condition: page `p` shows incident `i`. */
export const isPublished = (sql: Db) => sql`${publishedAt(sql)} < 'infinity'`;

/**
 * The pages that have the monitor of incident `i`, as JSON, with the time of the publication. `is_open`: visitors read
 * the page.
 */
export const publicationsOf = (sql: Db) => sql`
  (select coalesce(jsonb_agg(jsonb_build_object('page_id', p.id, 'page_name', p.name,
      'is_open', p.enabled and p.access ->> 'mode' = 'public',
      'published_at', nullif(${publishedAt(sql)}, 'infinity')) order by p.created_at, p.id), '[]')
   from status_page_components c join status_pages p on p.id = c.page_id where c.target_id = i.target_id)`;

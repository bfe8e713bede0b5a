import type { Sql } from "postgres";
import { newId } from "@statusmesh/shared/ids";

interface BenchPage {
  orgId: string;
  slug: string;
  components: number;
}

/** Publishes a page with the oldest targets of the organisation. */
export async function publishPage(sql: Sql, { orgId, slug, components }: BenchPage): Promise<void> {
  const page = newId();
  await sql`
    insert into status_pages (id, org_id, slug, name, enabled, branding, created_at, updated_at)
    values (${page}, ${orgId}, ${slug}, ${slug}, true, '{}', now(), now())`;
  await sql`
    insert into status_page_components (page_id, target_id, org_id, public_group, sort_order)
    select ${page}, t.id, t.org_id, 'Group ' || t.n / 10, t.n
    from (select id, org_id, row_number() over (order by created_at, id) as n from targets where org_id = ${orgId}) t
    where t.n <= ${components}`;
}

/** Gives every component of published pages a history: checked once a minute, with an outage a week. */
export async function addHistory(sql: Sql, days: number): Promise<void> {
  await sql`
    insert into results_daily (target_id, day, up, down, degraded, error)
    select c.target_id, current_date - d.n, 1440, 0, 0, 0
    from (select distinct target_id from status_page_components) c
    cross join generate_series(0, ${days - 1}::int) as d (n) on conflict do nothing`;
  await sql`
    insert into incidents
      (id, org_id, target_id, started_at, opened_at, ended_at, past_outage_ms, severity, impact, peak_impact,
        error_sample, regions_down, regions_up, retracted, created_at, updated_at)
    select gen_random_uuid(), c.org_id, c.target_id, i.at, i.at, i.at + interval '20 minutes', 1200000, 'major',
      'major_outage', 'major_outage', 'status 500', '{eu}', '{}', false, i.at, i.at
    from (select distinct org_id, target_id from status_page_components) c
    cross join generate_series(now() - interval '85 days', now() - interval '1 day', interval '7 days') as i (at)`;
  await sql`
    insert into incident_outages (incident_id, org_id, started_at, ended_at, impact)
    select id, org_id, started_at, ended_at, 'major_outage' from incidents on conflict do nothing`;
  await sql`analyze`;
}

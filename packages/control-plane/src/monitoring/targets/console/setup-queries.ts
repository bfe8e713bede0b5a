import { type Db, rowOf } from "../../../platform/db/client/sql.ts";

export interface SetupRow {
  dismissed: boolean;
  monitor: boolean;
  channel: boolean;
  status_page: boolean;
}

/** Which of the first things the organisation has, and whether an owner dismissed the checklist. */
export async function selectSetup(sql: Db, orgId: string): Promise<SetupRow> {
  return await rowOf(sql<SetupRow[]>`
    select o.setup_dismissed_at is not null as dismissed,
      exists (select from targets t where t.org_id = o.id) as monitor,
      exists (select from channels c where c.org_id = o.id) as channel,
      exists (select from status_pages s where s.org_id = o.id) as status_page
    from orgs o where o.id = ${orgId}`);
}

import { arrayOf } from "../db/array.ts";
import type { Db } from "../db/sql.ts";
import { monitorTables, stateAt, statusAt } from "./filter-queries.ts";
import type { MonitorState } from "./schema.ts";

export interface FailingRow {
  id: string;
  name: string;
  state: "down" | "error" | "degraded";
  since: Date | null;
  error: string | null;
  /** The open incident; null for a monitor that is on no status page. */
  incident_id: string | null;
}

/** Failing monitors: worst state first, then the longest failure. */
export async function selectFailing(sql: Db, orgId: string, now: Date, limit: number): Promise<FailingRow[]> {
  return await sql<FailingRow[]>`
    select t.id, t.name, ${statusAt(sql, now)} as state, coalesce(i.started_at, s.status_since) as since,
      coalesce(i.error_sample, s.last_error) as error,
      case when exists (select from status_page_components c where c.target_id = t.id) then i.id end as incident_id
    from ${monitorTables(sql)}
    where t.org_id = ${orgId} and t.enabled and ${statusAt(sql, now)} in ('down', 'error', 'degraded')
    order by array_position(array['down', 'error', 'degraded'], ${statusAt(sql, now)}),
      coalesce(i.started_at, s.status_since), t.id
    limit ${limit}`;
}

/** States of the given monitors of the organisation. */
export async function selectStates(
  sql: Db,
  orgId: string,
  now: Date,
  ids: readonly string[],
): Promise<{ id: string; state: MonitorState }[]> {
  return await sql<{ id: string; state: MonitorState }[]>`
    select t.id, ${stateAt(sql, now)} as state from targets t join target_states s on s.target_id = t.id
    where t.org_id = ${orgId} and t.id = any(${arrayOf(ids)}::uuid[])`;
}

import type { CheckSpec } from "@statusmesh/shared/checks";
import type { Db } from "../../platform/db/sql.ts";
import { filterOf, likeText, matching, stateAt } from "./filter-queries.ts";
import type { MonitorState } from "./schema.ts";

interface FoundTarget {
  id: string;
  name: string;
  spec: CheckSpec;
  state: MonitorState;
  /** Monitors that match, in every row. */
  total: number;
}

/** The monitors that match a search: those whose name begins with it first, then failing ones, then by name. */
export async function searchTargets(
  sql: Db,
  orgId: string,
  now: Date,
  q: string,
  limit: number,
): Promise<FoundTarget[]> {
  const filter = filterOf({ q });
  return await sql<FoundTarget[]>`
    with found as (
      select t.id, t.name, ${stateAt(sql, now)} as state, lower(t.name) like lower(${likeText(filter.q ?? "")}) || '%'
        as begins, count(*) over ()::int as total
      from targets t join target_states s on s.target_id = t.id where ${matching(sql, orgId, now, filter)}
      order by begins desc, (${stateAt(sql, now)}) not in ('down', 'error', 'degraded'), lower(t.name), t.id
      limit ${limit})
    select f.id, f.name, f.state, t.spec, f.total from found f join targets t on t.id = f.id
    order by f.begins desc, f.state not in ('down', 'error', 'degraded'), lower(f.name), f.id`;
}

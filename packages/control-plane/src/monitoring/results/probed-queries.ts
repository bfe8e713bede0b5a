import { arrayOf } from "../../platform/db/array.ts";
import type { Db } from "../../platform/db/sql.ts";

/** A UTC day of a target. */
export interface TargetDay {
  target_id: string;
  /** `2026-11-20` */
  day: string;
}

export interface DayHoursRow extends TargetDay {
  first: Date;
  /** Start of the last hour with a run. */
  last: Date;
}

/** First and last hour with a run of each given day. Days without rolled-up hours are left out. */
export async function selectDayHours(sql: Db, orgId: string, days: readonly TargetDay[]): Promise<DayHoursRow[]> {
  return await sql<DayHoursRow[]>`
    select d.target_id, d.day::text as day, h.first, h.last
    from unnest(${arrayOf(days.map((one) => one.target_id))}::uuid[], ${arrayOf(days.map((one) => one.day))}::date[])
      as d (target_id, day)
    join targets t on t.id = d.target_id and t.org_id = ${orgId}
    cross join lateral (
      select min(h.hour) as first, max(h.hour) as last from results_hourly h
      where h.target_id = d.target_id and h.hour >= d.day::timestamp at time zone 'UTC'
        and h.hour < (d.day + 1)::timestamp at time zone 'UTC'
    ) h
    where h.first is not null`;
}

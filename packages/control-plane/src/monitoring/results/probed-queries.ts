import { arrayOf, type Db } from "../../platform/db/sql.ts";
import { hourCounts } from "./hours-queries.ts";
import { slackMs } from "./queries.ts";
import { runs } from "./runs-queries.ts";

/** A UTC day of a target. */
export interface TargetDay {
  target_id: string;
  /** `2026-11-20` */
  day: string;
}

/** UTC days one after the other, each with runs. */
export interface StretchRow {
  target_id: string;
  first: string;
  last: string;
}

/**
 * The stretches of days with runs from `firstDay` to `now` (Unix ms), oldest first: rolled-up days, and the rest
 * (usually at most two hours) from the results. A row for each day of 1,000 targets took 36 MB.
 */
export async function selectStretches(
  sql: Db,
  orgId: string,
  targetIds: readonly string[],
  firstDay: string,
  now: number,
): Promise<StretchRow[]> {
  const ids = arrayOf(targetIds);
  const slots = {
    target: sql`u.id`,
    from: sql`greatest(progress.next_hour, ${`${firstDay}T00:00:00Z`}::timestamptz)`,
    to: sql`${new Date(now + slackMs)}::timestamptz`,
  };
  return await sql<StretchRow[]>`
    select d.target_id, min(d.day)::text as first, max(d.day)::text as last
    from (
      select own.target_id, own.day,
        own.day - (dense_rank() over (partition by own.target_id order by own.day))::int as stretch
      from (
        select s.target_id, s.day
        from unnest(${ids}::uuid[]) as u (id) cross join lateral results_daily_of(u.id, ${firstDay}, 'infinity') s
        union all
        select u.id, (r.scheduled_at at time zone 'UTC')::date
        from unnest(${ids}::uuid[]) as u (id) left join rollup_progress progress on true
        cross join lateral ${runs(sql, slots, ["skip", "recheck"])} r
        where not r.skip and not r.recheck
      ) own
    ) d
    join targets t on t.id = d.target_id and t.org_id = ${orgId}
    group by d.target_id, d.stretch order by 1, 2`;
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
      select min(h.hour) as first, max(h.hour) as last
      from ${hourCounts(sql, {
        target: sql`d.target_id`,
        from: sql`(d.day::timestamp at time zone 'UTC')`,
        to: sql`((d.day + 1)::timestamp at time zone 'UTC')`,
      })} h
    ) h
    where h.first is not null`;
}
